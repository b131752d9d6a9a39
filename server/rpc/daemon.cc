#include "server/rpc/daemon.h"

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "kernels/text/cat.h"
#include "server/base/log.h"

namespace assay::server {
namespace {

// Instead of a watchdog's time. Heartbeats come every third of it.
constexpr absl::Duration kUnwatched = absl::Minutes(3);

// A start on a full disk tries so often whether there is room, and asks the service manager for so
// much time each time.
constexpr absl::Duration kRetryFull = absl::Seconds(1);
constexpr absl::Duration kMoreTime = absl::Minutes(1);

// Whether the disk of a folder has next to no room. If it has, a store is full by a limit of its
// own, which waiting does not lift.
bool IsDiskFull(const std::string& folder) {
  constexpr std::uintmax_t kNextToNone = 8 << 20;  // [bytes]
  std::error_code error;
  const std::filesystem::space_info room = std::filesystem::space(folder, error);
  return !error && room.available < kNextToNone;
}

// Whether a signal that ends the daemon waits. They are blocked, and whoever reads them comes after
// the start.
bool EndIsAsked() {
  sigset_t waiting;
  return sigpending(&waiting) == 0 &&
         (sigismember(&waiting, SIGTERM) == 1 || sigismember(&waiting, SIGINT) == 1);
}

}  // namespace

StartFailure Fail(const absl::Status& status, std::string_view context) {
  const bool usage = status.code() == absl::StatusCode::kInvalidArgument;
  return {usage ? kExitUsage : kExitEnvironment,
          Cat(context, context.empty() ? "" : ": ", std::string(status.message()))};
}

RetentionOptions Daemon::OptionsOfRetention() const {
  RetentionOptions options{.keep = config_.store_keep, .bytes = config_.store_keep_bytes};
  // A store that is full takes no jobs: the oldest go before that.
  const std::int64_t most = config_.store_max_bytes / 10 * 9;
  if (most > 0 && options.bytes > 0) options.bytes = std::min(options.bytes, most);
  return options;
}

std::optional<StartFailure> Daemon::Start() {
  if (std::optional<StartFailure> failure = CheckPorts()) return failure;
  if (std::optional<StartFailure> failure = OpenAccess()) return failure;
  if (std::optional<StartFailure> failure = CheckSuites()) return failure;
  metrics_ = MakeMetrics(version_);
  limits_ = std::make_unique<ClientLimits>(ClientLimitOptions{
      .values = config_.limits, .refused = [this](Limit limit) { metrics_->LimitReached(limit); }});
  if (std::optional<StartFailure> failure = OpenStore()) return failure;
  if (certificates_ != nullptr) {
    certificates_->TellOfNew([this](const TlsMaterial& now) {
      metrics_->CertificateExpires(static_cast<double>(now.expires));
    });
  }
  board_ = std::make_unique<HealthBoard>(devices_, certificates_.get(), access_.get());
  if (std::optional<StartFailure> failure = StartHealth()) return failure;
  if (std::optional<StartFailure> failure = OpenKernels()) return failure;
  if (std::optional<StartFailure> failure = StartDevices()) return failure;
  // The metrics port comes first, so that the first answer to a client can name both addresses.
  if (std::optional<StartFailure> failure = StartMetrics()) return failure;
  if (std::optional<StartFailure> failure = StartJobManager()) return failure;
  MakeService();
  if (std::optional<StartFailure> failure = StartServing()) return failure;
  service_->SetAddresses(grpc_.addresses.front(), metrics_address_);
  board_->Serve(*grpc_.server, health_.get());
  return std::nullopt;
}

std::optional<StartFailure> Daemon::OpenStore() {
  StoreOptions options;
  options.folder = config_.state_dir;
  options.sync = config_.store_sync == "normal" ? StoreSync::kNormal : StoreSync::kFull;
  options.max_bytes = config_.store_max_bytes;
  for (bool told = false;; told = true) {
    const bool full = IsDiskFull(options.folder);  // before, for room may come at any time
    absl::StatusOr<std::unique_ptr<Store>> store = Store::Open(options);
    if (store.ok()) {
      store_ = *std::move(store);
      return std::nullopt;
    }
    const std::string why(store.status().message());
    const bool waits = full && absl::IsResourceExhausted(store.status());
    if (!waits) return StartFailure{kExitEnvironment, why};
    if (EndIsAsked()) return StartFailure{0, Cat("ended while it waited for room: ", why)};
    if (!told) Log(LogLevel::kError, "store.full", {{"reason", why}, {"then", "waits for room"}});
    manager_.Notify(Cat("EXTEND_TIMEOUT_USEC=", absl::ToInt64Microseconds(kMoreTime),
                        "\nSTATUS=waits for room in ", options.folder));
    absl::SleepFor(kRetryFull);
  }
}

void Daemon::TellReady() {
  manager_.Notify(Cat("READY=1\nSTATUS=serving ", absl::StrJoin(grpc_.addresses, ", ")));
  std::vector<Heartbeat::Ask> parts;
  // Each handshake looks, too, but nobody may connect for weeks.
  if (certificates_ != nullptr) parts.emplace_back([this] { certificates_->Current(); });
  const std::optional<absl::Duration> watchdog = manager_.watchdog();
  if (watchdog) AddWatched(parts);
  if (parts.empty()) return;
  heartbeat_ = std::make_unique<Heartbeat>(watchdog.value_or(kUnwatched), std::move(parts),
                                           [this, watched = watchdog.has_value()] {
                                             if (watched) manager_.Notify("WATCHDOG=1");
                                           });
}

void Daemon::AddWatched(std::vector<Heartbeat::Ask>& parts) {
  channel_ = grpc_.server->InProcessChannel({});
  // gRPC's threads, the thread that feeds the watchers, the queue of jobs and the store's reader.
  parts.emplace_back([this] {
    grpc::ClientContext context;
    grpc::health::v1::HealthCheckResponse answer;
    grpc::health::v1::Health::NewStub(channel_)->Check(&context, {}, &answer);
  });
  parts.emplace_back([this] { service_->AskPump(); });
  parts.emplace_back([this] { jobs_->Get("jobs/none").IgnoreError(); });
}

void Daemon::Reload(const absl::StatusOr<ParsedArguments>& read) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  manager_.Notify(Cat("RELOADING=1\nMONOTONIC_USEC=",
                      absl::ToInt64Microseconds(absl::DurationFromTimespec(now))));
  if (!read.ok()) {
    Log(LogLevel::kError, "config.reload_refused",
        {{"reason", std::string(read.status().message())}, {"using", "the configuration before"}});
  } else {
    const ConfigChanges changes = ChangesTo(read->config, config_);
    SetLogLevel(config_.log_level);
    limits_->Set(config_.limits);
    service_->SetWatchStall(config_.watch_stall);
    retention_->Set(OptionsOfRetention());
    Log(LogLevel::kInfo, "config.reloaded",
        {{"file", config_.config_file}, {"changed", absl::StrJoin(changes.taken, ",")}});
    if (!changes.need_restart.empty()) {
      Log(LogLevel::kWarn, "config.needs_restart",
          {{"options", absl::StrJoin(changes.need_restart, ",")}});
    }
  }
  if (certificates_ != nullptr) certificates_->LookNow();
  access_->LookNow();
  manager_.Notify("READY=1");
}

void Daemon::StartJobs() {
  if (!config_.selftest_on_start) return;
  for (const auto& executor : devices_.executors) {
    if (executor->Kernels().empty()) continue;  // it has users' kernels alone
    v1::JobSpec spec;
    spec.set_suite("selftest");
    spec.set_device(executor->device_id());
    (*spec.mutable_labels())["origin"] = "selftest-on-start";
    const absl::StatusOr<v1::Job> job = jobs_->Create(spec, /*request_id=*/"");
    if (job.ok()) continue;
    Log(LogLevel::kError, "selftest.refused",
        {{"device", executor->device_id()}, {"reason", std::string(job.status().message())}});
  }
}

std::string Daemon::ReadyLine() const {
  return Cat("assayd ready: grpc ", absl::StrJoin(grpc_.addresses, ", "), ", metrics ",
             metrics_address_, health_ == nullptr ? "" : Cat(", health ", health_->address()),
             ", state in ", config_.state_dir);
}

void Daemon::Drain() {
  manager_.Notify("STOPPING=1\nSTATUS=draining");
  board_->Drain();
  service_->EndMeasuring();
  jobs_->Drain(config_.drain_timeout);
  service_->Stop();
  grpc_.unix_listeners.clear();
  grpc_.tcp_listeners.clear();
  // The streams have ended. Calls that are still open are cut.
  grpc_.server->Shutdown(absl::ToChronoTime(absl::Now() + absl::Milliseconds(500)));
}

}  // namespace assay::server
