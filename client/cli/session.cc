#include "client/cli/session.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/interrupt.h"
#include "client/lib/text.h"

namespace assay::client {
namespace {

// The options that reach the same daemons again: " --target a:7575 --tls-ca 'my ca.pem'".
std::string WayTo(const TargetOptions& given) {
  const std::pair<const char*, const std::string&> options[] = {
      {"target", given.targets},       {"targets-file", given.file},
      {"tls-ca", given.tls.ca},        {"tls-cert", given.tls.cert},
      {"tls-key", given.tls.key},      {"tls-server-name", given.tls.server_name},
      {"token-file", given.token_file}};
  std::string way;
  for (const auto& [name, value] : options) {
    if (!value.empty()) absl::StrAppend(&way, " --", name, " ", ShellWord(value));
  }
  return way;
}

// How long a second Ctrl-C is waited for.
constexpr absl::Duration kPatience = absl::Seconds(2);
// How long a heading may wait for the device's name, and a document for versions.
constexpr absl::Duration kHeadingWait = absl::Milliseconds(150);
constexpr absl::Duration kDocumentWait = absl::Seconds(10);

// What the daemon says of itself, asked for beside the job so that it costs the
// job nothing.
class Background {
 public:
  explicit Background(Connection& connection) {
    SetDeadline(device_context_, kDocumentWait);
    SetDeadline(server_context_, kDocumentWait);
    auto* async = connection.stub().async();
    async->ListDevices(&device_context_, &device_request_, &devices_,
                       [this](const grpc::Status& status) { Done(status.ok(), &have_devices_); });
    async->GetServerInfo(&server_context_, &server_request_, &server_,
                         [this](const grpc::Status& status) { Done(status.ok(), &have_server_); });
  }
  ~Background() {
    device_context_.TryCancel();
    server_context_.TryCancel();
    Wait(absl::InfiniteDuration());
  }

  // Copies what has come within `wait` into the run.
  void Fill(Run& run, absl::Duration wait) {
    Wait(wait);
    const std::lock_guard lock(mutex_);
    if (have_devices_ && run.devices.empty()) {
      run.devices.assign(devices_.devices().begin(), devices_.devices().end());
    }
    if (have_server_) run.server = server_;
  }

 private:
  void Done(bool ok, bool* have) {
    const std::lock_guard lock(mutex_);
    *have = ok;
    --pending_;
    changed_.notify_all();
  }
  void Wait(absl::Duration wait) {
    std::unique_lock lock(mutex_);
    const auto done = [this] { return pending_ == 0; };
    if (wait == absl::InfiniteDuration()) {
      changed_.wait(lock, done);
    } else {
      changed_.wait_for(lock, absl::ToChronoMilliseconds(wait), done);
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  int pending_ = 2;
  bool have_devices_ = false;
  bool have_server_ = false;
  grpc::ClientContext device_context_, server_context_;
  v1::ListDevicesRequest device_request_;
  v1::ListDevicesResponse devices_;
  v1::GetServerInfoRequest server_request_;
  v1::ServerInfo server_;
};

// One daemon's share.
struct Session {
  Session(Connection& c, const FollowOptions& options) : connection(c), follower(c, options) {}

  Connection& connection;
  Follower follower;
  std::optional<Background> background;
  std::optional<Failure> failure;
  bool left = false;  // by the user, before the job's end
  ExitCode code = ExitCode::kNoVerdict;
};

// A failed kernel outweighs a daemon that could not be asked, and both outweigh
// a job that proved nothing.
ExitCode Worst(ExitCode a, ExitCode b) {
  for (const ExitCode code :
       {ExitCode::kFailed, ExitCode::kUsage, ExitCode::kRefused, ExitCode::kNoVerdict}) {
    if (code == a || code == b) return code;
  }
  return ExitCode::kPassed;
}

// Jobs of the same devices that run or come before it in the queue; nothing where the
// daemon does not say.
std::optional<int> JobsAhead(Connection& connection, const v1::Job& job) {
  const std::set<std::string> devices(job.devices().begin(), job.devices().end());
  const auto before = [&](const v1::Job& other) {
    if (other.name() == job.name()) return false;
    if (std::none_of(other.devices().begin(), other.devices().end(),
                     [&](const std::string& device) { return devices.contains(device); })) {
      return false;
    }
    if (other.state() == v1::JOB_STATE_RUNNING) return true;
    const int theirs = other.spec().priority(), ours = job.spec().priority();
    return theirs != ours ? theirs > ours : Time(other.create_time()) < Time(job.create_time());
  };
  int ahead = 0;
  for (const char* state : {"state=RUNNING", "state=QUEUED"}) {
    v1::ListJobsRequest request;
    request.set_filter(state);
    request.set_page_size(1000);
    v1::ListJobsResponse response;
    if (!Ask(connection, &Stub::ListJobs, request, &response, kDocumentWait).ok()) {
      return std::nullopt;
    }
    ahead +=
        static_cast<int>(std::count_if(response.jobs().begin(), response.jobs().end(), before));
  }
  return ahead;
}

class Watch {
 public:
  Watch(const Context& context, std::vector<std::unique_ptr<Connection>> connections,
        FollowOptions options, Format format, const SinkFactory& make_sink, std::ostream& out)
      : context_(context),
        connections_(std::move(connections)),
        surface_(SurfaceOf(context, out, connections_.size())),
        live_(format == Format::kTable && surface_.live),
        sink_(make_sink(format, surface_)) {
    report_.runs.resize(connections_.size());
    const bool document = format == Format::kJson || format == Format::kHtml ||
                          format == Format::kMarkdown || format == Format::kJunit;
    for (std::size_t i = 0; i < connections_.size(); ++i) {
      report_.runs[i].target = connections_[i]->target();
      options.on_lost = [this, i](const grpc::Status& status) { NoteLoss(i, status); };
      sessions_.emplace_back(*connections_[i], options);
      if (document || live_) sessions_.back().background.emplace(*connections_[i]);
    }
    document_ = document;
  }

  ExitCode Run(const ObtainJob& obtain) {
    std::vector<std::thread> threads;
    for (std::size_t i = 1; i < sessions_.size(); ++i) {
      threads.emplace_back([this, i, &obtain] { RunOne(i, obtain); });
    }
    RunOne(0, obtain);
    for (std::thread& thread : threads) thread.join();
    interrupt_.reset();
    return Finish();
  }

 private:
  static Surface SurfaceOf(const Context& context, std::ostream& out, std::size_t daemons) {
    Surface surface = context.SurfaceOn(out);
    surface.several = daemons > 1;
    return surface;
  }

  void RunOne(std::size_t i, const ObtainJob& obtain) {
    Session& session = sessions_[i];
    client::Run& run = report_.runs[i];
    client::Run obtained;
    grpc::Status status = obtain(session.connection, &obtained);
    if (status.ok()) {
      const std::optional<int> ahead = obtained.job.state() == v1::JOB_STATE_QUEUED
                                           ? JobsAhead(session.connection, obtained.job)
                                           : std::nullopt;
      {
        const std::lock_guard lock(mutex_);
        run.job = std::move(obtained.job);
        run.held_out_lacking = std::move(obtained.held_out_lacking);
        run.total = run.job.counts().total();
        if (live_) session.background->Fill(run, kHeadingWait);
        sink_->OnStart(run);
        if (ahead.value_or(0) > 0) {
          sink_->OnNote(absl::StrCat("assay: ", run.job.name(), " is queued, ", *ahead, " ahead"));
        }
        // Before there is a job there is nothing to leave: Ctrl-C just ends.
        if (!interrupt_) {
          interrupt_.emplace(Interrupt::Callbacks{.first = [this] { OnFirstInterrupt(); },
                                                  .second = [this] { CancelJobs(); },
                                                  .none = [this] { Leave(); }},
                             kPatience);
        }
      }
      status = session.follower.Follow(run.job.name(), 0,
                                       [&](const v1::JobEvent& event) { OnEvent(run, event); });
    }
    const std::lock_guard lock(mutex_);
    if (status.ok()) {
      session.code = ExitCodeOf(run.job);
    } else if (left_) {
      session.left = true;
      session.code = ExitCode::kNoVerdict;
    } else {
      session.failure = Describe(status, session.connection.target());
      session.code = session.failure->code;
    }
  }

  void OnEvent(client::Run& run, const v1::JobEvent& event) {
    const std::lock_guard lock(mutex_);
    switch (event.event_case()) {
      case v1::JobEvent::kStarted:
        run.total = event.started().total();
        for (const auto& [op, total] : event.started().op_counts()) run.op_totals[op] = total;
        if (!event.started().devices().empty()) {
          *run.job.mutable_devices() = event.started().devices();
        }
        break;
      case v1::JobEvent::kProgress:
        sink_->OnProgress(run, event.progress());
        break;
      case v1::JobEvent::kCaseResult:
        run.results.push_back(event.case_result());
        sink_->OnResult(run, run.results.back());
        break;
      case v1::JobEvent::kStateChange:
        run.job.set_state(event.state_change().to());
        break;
      case v1::JobEvent::kFinished:
        run.job = event.finished().job();
        break;
      case v1::JobEvent::EVENT_NOT_SET:
        break;
    }
  }

  void NoteLoss(std::size_t i, const grpc::Status& status) {
    const std::lock_guard lock(mutex_);
    // One line a loss, not one an attempt.
    if (NeverConnected(status)) return;
    sink_->OnNote(absl::StrCat("assay: ", Describe(status, connections_[i]->target()).lines[0],
                               "; trying again"));
  }

  void OnFirstInterrupt() {
    const std::lock_guard lock(mutex_);
    const std::string at = WayTo(context_.globals.targets);
    std::vector<std::string> names, commands;  // watch follows one job, on the target that has it
    for (const client::Run& run : report_.runs) {
      const std::string& name = run.job.name();
      if (name.empty()) continue;
      names.push_back(name);
      commands.push_back(absl::StrCat("`assay watch ", name, at, "`"));
    }
    if (names.empty()) return sink_->OnNote("assay: Ctrl-C again cancels what was sent.");
    sink_->OnNote(absl::StrCat("assay: leaving ", absl::StrJoin(names, " "),
                               " running; come back with ", absl::StrJoin(commands, ", "),
                               ". Ctrl-C again cancels ", names.size() == 1 ? "it." : "them."));
  }

  void CancelJobs() {
    for (std::size_t i = 0; i < sessions_.size(); ++i) {
      v1::CancelJobRequest request;
      {
        const std::lock_guard lock(mutex_);
        request.set_name(report_.runs[i].job.name());
      }
      if (request.name().empty()) continue;
      v1::Job job;
      const grpc::Status status =
          Ask(*connections_[i], &Stub::CancelJob, request, &job, absl::Seconds(5));
      const std::lock_guard lock(mutex_);
      sink_->OnNote(
          status.ok()
              ? absl::StrCat("assay: cancelled ", request.name())
              : absl::StrCat("assay: ", Describe(status, connections_[i]->target()).lines[0]));
    }
  }

  void Leave() {
    {
      const std::lock_guard lock(mutex_);
      left_ = true;
    }
    for (Session& session : sessions_) session.follower.Stop();
  }

  ExitCode Finish() {
    if (document_) {
      for (std::size_t i = 0; i < sessions_.size(); ++i) {
        if (!sessions_[i].failure) {
          sessions_[i].background->Fill(report_.runs[i], kDocumentWait);
        }
      }
    }
    const std::lock_guard lock(mutex_);
    ExitCode code = ExitCode::kPassed;
    bool left = false;
    bool anything = false;  // to report: a job's end, or results before a daemon was lost
    for (std::size_t i = 0; i < sessions_.size(); ++i) {
      code = i == 0 ? sessions_[i].code : Worst(code, sessions_[i].code);
      left |= sessions_[i].left;
      anything |= sessions_[i].failure ? !report_.runs[i].results.empty() : !sessions_[i].left;
    }
    report_.generated_at = absl::Now();
    if (anything && !left) {
      sink_->OnEnd(report_);
    } else {
      sink_->OnLeave();
    }
    for (const Session& session : sessions_) {
      if (session.failure) context_.Fail(*session.failure);
    }
    return code;
  }

  const Context& context_;
  const std::vector<std::unique_ptr<Connection>> connections_;
  Surface surface_;
  bool live_;
  bool document_ = false;
  std::mutex mutex_;  // guards everything below, and the sink
  std::unique_ptr<Sink> sink_;
  Report report_;
  std::deque<Session> sessions_;
  bool left_ = false;
  std::optional<Interrupt> interrupt_;
};

}  // namespace

ExitCode WatchJobs(const Context& context, std::vector<std::unique_ptr<Connection>> connections,
                   const ObtainJob& obtain, const SinkFactory& make_sink) {
  auto format = context.ChosenFormat();
  if (!format.ok()) return context.Fail(format.status());
  auto options = context.Reconnecting();
  if (!options.ok()) return context.Fail(options.status());
  return context.WithOutput([&](std::ostream& out) {
    return Watch(context, std::move(connections), *options, *format, make_sink, out).Run(obtain);
  });
}

grpc::Status FetchResults(Connection& connection, const std::string& job,
                          std::vector<v1::CaseResult>* results) {
  v1::ListCaseResultsRequest request;
  request.set_job(job);
  request.set_page_size(1000);
  return AskPages(connection, &Stub::ListCaseResults, request,
                  [&](v1::ListCaseResultsResponse& page) {
                    for (auto& result : *page.mutable_results()) {
                      results->push_back(std::move(result));
                    }
                    return true;
                  });
}

}  // namespace assay::client
