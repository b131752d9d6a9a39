#include "client/fleet/run.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/fleet/fan_out.h"
#include "client/lib/errors.h"

namespace assay::client {
namespace {

// Order in which verdicts weigh.
int Weight(v1::Verdict verdict) {
  switch (verdict) {
    case v1::VERDICT_ERROR:
      return 5;
    case v1::VERDICT_FAILED:
      return 4;
    case v1::VERDICT_INCONCLUSIVE:
      return 3;
    case v1::VERDICT_PASSED:
      return 2;
    case v1::VERDICT_UNSUPPORTED:
    case v1::VERDICT_SKIPPED:
      return 1;
    default:
      return 0;
  }
}

}  // namespace

const char* StateWord(NodeRun::State state) {
  switch (state) {
    case NodeRun::State::kWaiting:
      return "waiting";
    case NodeRun::State::kRunning:
      return "running";
    case NodeRun::State::kFinished:
      return "finished";
    case NodeRun::State::kLost:
      return "lost";
    case NodeRun::State::kUnreachable:
      return "unreachable";
    case NodeRun::State::kRefused:
      return "refused";
  }
  return "";
}

bool TookRequest(const NodeRun& node) {
  return node.state != NodeRun::State::kWaiting && node.state != NodeRun::State::kUnreachable &&
         !node.request_refused;
}

std::vector<std::string> FleetRun::RequestMistakes() const {
  std::vector<std::string> lines;
  for (const NodeRun& node : nodes_) {
    if (TookRequest(node)) return {};
    if (node.request_refused &&
        std::find(lines.begin(), lines.end(), node.problem) == lines.end()) {
      lines.push_back(node.problem);
    }
  }
  return lines;
}

FleetRun::FleetRun(std::vector<Target> targets, FleetRunOptions options, FleetWatcher& watcher)
    : options_(std::move(options)),
      watcher_(watcher),
      nodes_(targets.size()),
      followers_(targets.size()) {
  for (std::size_t i = 0; i < targets.size(); ++i) nodes_[i].target = std::move(targets[i]);
}

absl::Status FleetRun::Run() {
  for (NodeRun& node : nodes_) {
    auto connection = Connection::Open(node.target);
    if (!connection.ok()) return connection.status();
    node.connection = *std::move(connection);
    node.run.target = node.target.address;
  }
  FanOut(nodes_.size(), options_.limit, [this](std::size_t i) { RunOne(i); });
  return absl::OkStatus();
}

void FleetRun::RunOne(std::size_t index) {
  NodeRun& node = nodes_[index];
  FollowOptions follow = options_.follow;
  follow.on_lost = [&](const grpc::Status& status) {
    if (NeverConnected(status)) return;
    const std::lock_guard lock(mutex_);
    watcher_.OnNote(
        absl::StrCat("assay: ", WhyMissing(status, node.target.address), "; trying again"));
  };
  const auto end = [&](NodeRun::State state, const std::string& problem) {
    const std::lock_guard lock(mutex_);
    node.state = state;
    node.problem = problem;
    watcher_.OnNode(nodes_, index);
  };
  {
    const std::lock_guard lock(mutex_);
    if (left_) {
      node.state = NodeRun::State::kLost;
      node.problem = "not begun: left by Ctrl-C";
      return;
    }
  }
  v1::Job job;
  grpc::Status status = CreateJob(*node.connection, options_.spec, follow, &job);
  if (!status.ok()) {
    node.request_refused = ExitCodeOf(status) == ExitCode::kUsage;
    return end(NeverConnected(status) ? NodeRun::State::kUnreachable : NodeRun::State::kRefused,
               WhyMissing(status, node.target.address));
  }
  Follower follower(*node.connection, follow);
  bool left = false;
  {
    const std::lock_guard lock(mutex_);
    node.clock = Time(job.create_time()) - absl::Now();
    node.run.job = std::move(job);
    node.run.total = node.run.job.counts().total();
    node.state = NodeRun::State::kRunning;
    followers_[index] = &follower;
    left = left_;
    watcher_.OnNode(nodes_, index);
  }
  if (left) follower.Stop();
  status = follower.Follow(node.run.job.name(), 0,
                           [&](const v1::JobEvent& event) { OnEvent(node, index, event); });
  {
    const std::lock_guard lock(mutex_);
    followers_[index] = nullptr;
    left = left_;
  }
  if (status.ok()) Adorn(node);
  if (status.ok()) return end(NodeRun::State::kFinished, "");
  end(NodeRun::State::kLost,
      left ? absl::StrCat("left before its end; ", node.run.job.name(), " goes on there")
           : absl::StrCat(WhyMissing(status, node.target.address), " (", node.run.job.name(), ")"));
}

void FleetRun::Adorn(NodeRun& node) {
  v1::ListDevicesResponse devices;
  v1::ServerInfo server;
  const bool have_devices = Ask(*node.connection, &Stub::ListDevices, {}, &devices).ok();
  const bool have_server = Ask(*node.connection, &Stub::GetServerInfo, {}, &server).ok();
  const std::lock_guard lock(mutex_);
  if (have_devices) node.run.devices.assign(devices.devices().begin(), devices.devices().end());
  if (have_server) node.run.server = std::move(server);
}

void FleetRun::OnEvent(NodeRun& node, std::size_t index, const v1::JobEvent& event) {
  const std::lock_guard lock(mutex_);
  switch (event.event_case()) {
    case v1::JobEvent::kStarted:
      node.run.total = event.started().total();
      if (!event.started().devices().empty()) {
        *node.run.job.mutable_devices() = event.started().devices();
      }
      break;
    case v1::JobEvent::kCaseResult:
      node.run.results.push_back(event.case_result());
      if (Weight(event.case_result().verdict()) > Weight(node.worst)) {
        node.worst = event.case_result().verdict();
      }
      break;
    case v1::JobEvent::kStateChange:
      node.run.job.set_state(event.state_change().to());
      break;
    case v1::JobEvent::kFinished:
      node.run.job = event.finished().job();
      // All cases may pass where a kernel that the suite requires is missing.
      if (Weight(node.run.job.verdict()) > Weight(node.worst)) {
        node.worst = node.run.job.verdict();
      }
      break;
    default:
      return;
  }
  watcher_.OnNode(nodes_, index);
}

void FleetRun::Leave() {
  const std::lock_guard lock(mutex_);
  left_ = true;
  for (Follower* follower : followers_) {
    if (follower != nullptr) follower->Stop();
  }
}

void FleetRun::Say(const std::string& note) {
  const std::lock_guard lock(mutex_);
  watcher_.OnNote(note);
}

void FleetRun::Cancel() {
  FanOut(nodes_.size(), options_.limit, [this](std::size_t i) {
    v1::CancelJobRequest request;
    {
      const std::lock_guard lock(mutex_);
      request.set_name(nodes_[i].run.job.name());
    }
    if (request.name().empty()) return;
    v1::Job job;
    const grpc::Status status =
        Ask(*nodes_[i].connection, &Stub::CancelJob, request, &job, absl::Seconds(5));
    const std::lock_guard lock(mutex_);
    watcher_.OnNote(
        status.ok()
            ? absl::StrCat("assay: cancelled ", request.name(), " on ", nodes_[i].target.address)
            : absl::StrCat("assay: ", WhyMissing(status, nodes_[i].target.address)));
  });
}

}  // namespace assay::client
