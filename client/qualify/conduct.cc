#include "client/qualify/conduct.h"

#include <algorithm>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/blame/rerun.h"
#include "client/lib/errors.h"
#include "client/lib/first_call.h"
#include "client/lib/steady.h"
#include "client/lib/text.h"
#include "client/qualify/detection.h"
#include "client/qualify/selection.h"
#include "client/qualify/selftests.h"

namespace assay::client {
namespace {

// Failed cases of a device that are run again. A late one may take its whole deadline again.
constexpr std::size_t kMostWrong = 3;
constexpr std::size_t kMostCrashed = 2;
constexpr std::size_t kMostLate = 2;
// Devices that they are run on besides: two tell more of a wrong result than one, which one may
// share; what crashes or hangs costs each of them a worker.
constexpr std::size_t kWrongSiblings = 2;
constexpr std::size_t kCrashedSiblings = 1;
constexpr std::size_t kLateSiblings = 1;

std::string FirstLine(const grpc::Status& status, const Connection& connection) {
  return Describe(status, connection.target()).lines.front();
}

// One device of a daemon.
class Conductor {
 public:
  Conductor(Connection& connection, const QualifyOptions& options,
            const FollowOptions& reconnecting, const QualifyProgress& progress,
            const v1::ServerInfo& server, const std::vector<v1::Device>& devices,
            const v1::Device& device, const v1::JobSpec& common, Selftest selftest)
      : connection_(connection),
        options_(options),
        reconnecting_(reconnecting),
        progress_(progress),
        server_(server),
        devices_(devices),
        device_(device),
        common_(common),
        selftest_(std::move(selftest)) {}

  DeviceFit Run() {
    const absl::Duration start = SteadyNow();
    DeviceFit result = Begin();
    if (device_.state() == v1::DEVICE_STATE_QUARANTINED) {
      result.fit.grievances = {Aggrieved("A115", device_.quarantine_reason())};
      return result;
    }
    result.fit = Conduct(result);
    result.seconds = absl::ToDoubleSeconds(SteadyNow() - start);
    return result;
  }

  // Before anything ran.
  DeviceFit Refuse(const grpc::Status& status) const {
    DeviceFit result = Begin();
    result.fit = Refused(status);
    return result;
  }

 private:
  DeviceFit Begin() const {
    DeviceFit result;
    result.target = connection_.target();
    result.device = device_.id();
    result.model = device_.model();
    result.run.server = server_;
    return result;
  }

  Fit Conduct(DeviceFit& device) {
    client::Run& run = device.run;
    DeviceEvidence evidence;
    const std::uint64_t seed = options_.seed.value_or(
        NightlySeed(absl::FormatTime("%Y-%m-%d", absl::Now(), absl::UTCTimeZone()), server_.host(),
                    device_.id()));
    run.target = connection_.target();
    run.server = server_;
    run.devices = devices_;
    evidence.no_selftest = selftest_.why_not;
    if (selftest_.possible) {
      progress_(device_.id(), "self-test");
      client::Run selftest;
      const grpc::Status status =
          RunJob(SelftestOf(options_.level, device_.id(), seed), false, selftest);
      if (!status.ok()) return Refused(status);
      evidence.selftest = selftest.job;
    }
    progress_(device_.id(), options_.level.suite);
    const grpc::Status followed =
        RunJob(LevelSpec(seed), options_.fail_early, run, &device.launches);
    if (!followed.ok() && run.results.empty()) return Refused(followed);
    if (!followed.ok()) evidence.cut_short = WhyRefused(followed);
    evidence.job = run.job;
    evidence.results = std::move(run.results);
    if (options_.retry) {
      evidence.retries =
          followed.ok() ? RetryFailed(evidence.results) : LateUntried(evidence.results);
    }
    Fit fit = Judge(evidence, options_.ignored);
    run.results = std::move(evidence.results);
    return fit;
  }

  Fit Refused(const grpc::Status& status) const {
    Fit fit;
    fit.grievances = {WhyRefused(status)};
    return fit;
  }

  Grievance WhyRefused(const grpc::Status& status) const {
    if (IsStopped()) return Aggrieved("A306", "ended by a signal");
    // That a baseline is of another kind of device is the caller's mistake.
    const bool unfit = options_.hold_against != nullptr &&
                       status.error_code() == grpc::StatusCode::FAILED_PRECONDITION;
    const bool request = unfit || ExitCodeOf(status) == ExitCode::kUsage;
    return Aggrieved(request ? "A902" : "A901", FirstLine(status, connection_));
  }

  v1::JobSpec LevelSpec(std::uint64_t seed) const {
    v1::JobSpec spec = common_;
    spec.set_suite(std::string(options_.level.suite));
    spec.set_device(device_.id());
    spec.set_seed(seed);
    if (options_.baseline_threshold) spec.set_baseline_threshold(*options_.baseline_threshold);
    if (options_.budget) {
      spec.mutable_budget()->set_seconds(absl::ToInt64Seconds(*options_.budget));
      spec.mutable_budget()->set_nanos(static_cast<std::int32_t>(
          absl::ToInt64Nanoseconds(*options_.budget - absl::Seconds(spec.budget().seconds()))));
    }
    return spec;
  }

  bool IsStopped() const { return options_.stop != nullptr && options_.stop->stopped(); }

  // Makes the job and sees it through, within the deadlines. Adds to `launches` those that were
  // judged and right.
  grpc::Status RunJob(v1::JobSpec spec, bool fail_early, client::Run& run,
                      std::int64_t* launches = nullptr) {
    if (options_.case_deadline) *spec.mutable_case_deadline() = *options_.case_deadline;
    if (options_.job_deadline) *spec.mutable_deadline() = *options_.job_deadline;
    if (IsStopped()) return {grpc::StatusCode::CANCELLED, "ended"};
    if (grpc::Status s = CreateJob(connection_, spec, reconnecting_, &run.job); !s.ok()) return s;
    grpc::Status status = FollowJob(spec, fail_early, run, launches);
    if (!status.ok() && IsStopped()) Cancel(run.job.name());
    return status;
  }

  grpc::Status FollowJob(const v1::JobSpec& spec, bool fail_early, client::Run& run,
                         std::int64_t* launches) {
    bool cancelled = false;
    const bool whole = options_.keep_results || spec.suite() != options_.level.suite;
    Follower follower(connection_, reconnecting_);
    std::optional<StopSwitch::Wire> wire;
    if (options_.stop != nullptr) wire.emplace(*options_.stop, follower);
    return follower.Follow(run.job.name(), 0, [&](const v1::JobEvent& event) {
      if (event.has_started()) run.total = event.started().total();
      if (event.has_finished()) run.job = event.finished().job();
      if (!event.has_case_result()) return;
      if (launches != nullptr) *launches += JudgedLaunches(event.case_result());
      run.results.push_back(whole ? event.case_result() : Essence(event.case_result()));
      const bool wrong =
          IsWrong(event.case_result()) || event.case_result().verdict() == v1::VERDICT_ERROR;
      if (fail_early && wrong && !cancelled) {
        cancelled = true;
        Cancel(run.job.name());
      }
    });
  }

  void Cancel(const std::string& job) {
    v1::CancelJobRequest request;
    request.set_name(job);
    v1::Job answer;
    // If it cannot be cancelled, it goes on to its end.
    (void)Ask(connection_, &Stub::CancelJob, request, &answer);
  }

  // Of a job that was lost sight of: what hung in it was to be tried again, and was not.
  static std::vector<Retry> LateUntried(const std::vector<v1::CaseResult>& results) {
    std::vector<Retry> retries;
    for (v1::CaseResult& late : WorthRetrying(results, Trouble::kLate, kMostLate)) {
      retries.push_back({std::move(late), {}, {}});
    }
    return retries;
  }

  std::vector<Retry> RetryFailed(const std::vector<v1::CaseResult>& results) {
    std::vector<Retry> retries;
    for (const v1::CaseResult& wrong : WorthRetrying(results, Trouble::kWrong, kMostWrong)) {
      // Hundreds of launches of each provider would take long and say nothing of this one.
      const std::string provider = IsUnsteady(wrong) ? wrong.spec().provider() : "all";
      Retry& retry = retries.emplace_back(RunHere(wrong, provider));
      RunOnSiblings(kWrongSiblings, retry);
    }
    for (const v1::CaseResult& crashed : WorthRetrying(results, Trouble::kCrashed, kMostCrashed)) {
      Retry& retry = retries.emplace_back(RunHere(crashed, crashed.spec().provider()));
      RunOnSiblings(kCrashedSiblings, retry);
    }
    for (const v1::CaseResult& late : WorthRetrying(results, Trouble::kLate, kMostLate)) {
      Retry& retry = retries.emplace_back(RunHere(late, late.spec().provider()));
      const auto hangs = [](const auto& r) { return TroubleOf(r) == Trouble::kLate; };
      if (std::none_of(retry.here.begin(), retry.here.end(), hangs)) continue;
      RunOnSiblings(kLateSiblings, retry);
      break;  // it is known to hang; more would only take more time
    }
    return retries;
  }

  Retry RunHere(const v1::CaseResult& failed, const std::string& provider) {
    progress_(device_.id(), absl::StrCat("again: ", failed.name()));
    return {failed, RunAgain(failed, device_.id(), provider), {}};
  }

  void RunOnSiblings(std::size_t most, Retry& retry) {
    if (!options_.siblings) return;
    for (const std::string& sibling : SiblingsOf(devices_, device_, most)) {
      for (v1::CaseResult& r : RunAgain(retry.failed, sibling, retry.failed.spec().provider())) {
        // The same trouble on another model is the kernel's. No trouble there says nothing of this
        // device: the kernel may be wrong on its model alone.
        if (IsOfModel(sibling) || TroubleOf(r) == TroubleOf(retry.failed)) {
          retry.sibling.push_back(std::move(r));
        }
      }
    }
  }

  bool IsOfModel(const std::string& sibling) const {
    return std::any_of(devices_.begin(), devices_.end(), [&](const v1::Device& other) {
      return other.id() == sibling && other.model() == device_.model();
    });
  }

  // Nothing where the daemon does not take it: then nothing is known.
  std::vector<v1::CaseResult> RunAgain(const v1::CaseResult& failed, const std::string& device,
                                       const std::string& provider) {
    v1::JobSpec spec = RerunSpec(failed.spec(), device);
    spec.mutable_cases()->mutable_cases(0)->set_provider(provider);
    client::Run run;
    if (!RunJob(spec, false, run).ok()) return {};
    return std::move(run.results);
  }

  Connection& connection_;
  const QualifyOptions& options_;
  const FollowOptions& reconnecting_;
  const QualifyProgress& progress_;
  const v1::ServerInfo& server_;
  const std::vector<v1::Device>& devices_;
  const v1::Device& device_;
  const v1::JobSpec& common_;  // the baseline
  const Selftest selftest_;
};

// Whether the daemon's suite times any of its cases; nothing where it cannot be told.
std::optional<bool> Times(Connection& connection, std::string_view suite) {
  v1::ListSuitesRequest request;
  request.set_full(true);
  v1::ListSuitesResponse response;
  if (!Ask(connection, &Stub::ListSuites, request, &response).ok()) return std::nullopt;
  for (const v1::Suite& one : response.suites()) {
    if (one.name() == suite) return SuiteTimes(one.text());
  }
  return std::nullopt;
}

// Fetches the baseline, and refuses one that nothing can be held against.
grpc::Status HoldAgainst(Connection& connection, const QualifyOptions& options, v1::JobSpec& common,
                         v1::Baseline& baseline) {
  if (!options.hold_against) return grpc::Status::OK;
  if (grpc::Status s = options.hold_against(connection, &common, &baseline); !s.ok()) return s;
  if (Times(connection, options.level.suite).value_or(true)) return grpc::Status::OK;
  return {
      grpc::StatusCode::INVALID_ARGUMENT,
      absl::StrCat("baseline: level ", View(options.level.suite),
                   " times none of its cases: leave --baseline out, or take a level that does")};
}

// Refuses a baseline of another model, before a self-test would have run. A processor's has its
// cores behind it, "EPYC 9755 (128 cores)", which the daemon counts.
grpc::Status IsOf(const v1::Baseline& baseline, const v1::Device& device) {
  const std::string& of = baseline.model();
  if (of.empty() || of == device.model() || of.starts_with(device.model() + " (")) {
    return grpc::Status::OK;
  }
  return {grpc::StatusCode::INVALID_ARGUMENT,
          absl::StrCat("baseline: is of a device of model \"", of, "\", and ", device.id(),
                       " is \"", device.model(), "\"")};
}

}  // namespace

TargetFit Qualify(Connection& connection, const QualifyOptions& options,
                  const FollowOptions& reconnecting, const QualifyProgress& progress) {
  TargetFit fit;
  v1::ServerInfo server;
  v1::ListDevicesResponse listed;
  grpc::Status status =
      FirstCall(connection, [&] { return Ask(connection, &Stub::GetServerInfo, {}, &server); });
  if (status.ok()) status = Ask(connection, &Stub::ListDevices, {}, &listed);
  Selftests selftests;
  if (status.ok() && options.selftest) status = FindSelftests(connection, selftests);
  if (!status.ok()) {
    fit.missing.push_back({connection.target(), FirstLine(status, connection), {}, {}});
    return fit;
  }
  const std::vector<v1::Device> devices(listed.devices().begin(), listed.devices().end());
  for (const v1::Device& device : devices) fit.listed.insert(device.id());
  Selection selection = Select(options, connection.target(), devices);
  const std::vector<const v1::Device*>& chosen = selection.chosen;
  fit.missing = std::move(selection.missing);
  fit.devices.resize(chosen.size());
  v1::JobSpec common;
  v1::Baseline baseline;
  const grpc::Status held = HoldAgainst(connection, options, common, baseline);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    threads.emplace_back([&, i] {
      const auto selftest = selftests.find(chosen[i]->backend());
      Conductor conductor(connection, options, reconnecting, progress, server, devices, *chosen[i],
                          common, selftest == selftests.end() ? Selftest() : selftest->second);
      const grpc::Status fits = held.ok() ? IsOf(baseline, *chosen[i]) : held;
      fit.devices[i] = fits.ok() ? conductor.Run() : conductor.Refuse(fits);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return fit;
}

}  // namespace assay::client
