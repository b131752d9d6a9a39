#include "server/metrics/metrics.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "assay/v1/service.pb.h"
#include "assay/v1/types.pb.h"
#include "google/protobuf/util/time_util.h"
#include "server/base/case_spec.h"
#include "server/base/model_name.h"
#include "server/metrics/ceiling_series.h"
#include "server/metrics/families.h"
#include "server/metrics/kernel_series.h"
#include "server/metrics/suite_series.h"
#include "server/metrics/telemetry_series.h"

namespace assay::server {
namespace {

using Buckets = Histogram::BucketBoundaries;

// The codes with which calls usually end. They count from 0, so the first error of a code is an
// increase.
constexpr const char* kUsualCodes[] = {"OK",
                                       "INVALID_ARGUMENT",
                                       "NOT_FOUND",
                                       "FAILED_PRECONDITION",
                                       "RESOURCE_EXHAUSTED",
                                       "UNAVAILABLE",
                                       "INTERNAL",
                                       "PERMISSION_DENIED",
                                       "UNAUTHENTICATED"};
constexpr std::string_view kOther = kOtherLabel;
constexpr std::array<std::string_view, 9> kRestartReasons = {
    "crash", "exit", "timeout", "memory", "cancelled", "fault", "idle", "start", kOther};

const Buckets kCaseSeconds = {0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 60, 300};
const Buckets kRpcSeconds = {0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 10, 60};

class MetricsImpl final : public Metrics {
 public:
  explicit MetricsImpl(std::string_view version)
      : version_(version), families_(registry_), telemetry_(families_), suites_(families_) {
    build_info_ = {{"version", version_}, {"backends", ""}};
    families_.build_info.Add(build_info_).Set(1);
    for (const v1::Verdict v : {v1::VERDICT_PASSED, v1::VERDICT_FAILED, v1::VERDICT_INCONCLUSIVE}) {
      families_.jobs.Add({{"verdict", VerdictLabel(v)}});
    }
    for (const Limit limit : Limits()) {
      families_.limits.Add({{"limit", std::string(Setting(limit))}});
    }
    const auto* service = v1::ListJobsRequest::descriptor()->file()->service(0);
    for (int i = 0; i < service->method_count(); ++i) {
      const std::string& method = service->method(i)->name();
      methods_.insert(method);
      for (const char* const code : kUsualCodes) {
        families_.rpcs.Add({{"method", method}, {"code", code}});
      }
      families_.rpc_duration.Add({{"method", method}}, kRpcSeconds);
    }
    const auto* problems = v1::CaseSpec::descriptor()->FindOneofByName("problem");
    for (int i = 0; i < problems->field_count(); ++i) {
      ops_.push_back(problems->field(i)->name());
      families_.case_duration.Add({{"op", ops_.back()}}, kCaseSeconds);
    }
  }

  void AddDevice(const v1::Device& device, const std::vector<v1::Kernel>& kernels) override {
    {
      const std::lock_guard lock(mutex_);
      Known& known = devices_[device.id()];
      known.kernels = std::make_unique<KernelSeries>(families_, device.id(), InOrderOfOps(kernels));
      known.info = {{"device", device.id()}, {"model_name", ModelName(device)}};
      backends_.insert(device.backend());
      families_.build_info.Remove(build_info_);
      build_info_ = {{"version", version_}, {"backends", absl::StrJoin(backends_, ",")}};
      families_.build_info.Add(build_info_).Set(1);
    }
    SetInfo(device);
    families_.queue_depth.Add({{"device", device.id()}});
    families_.false_alarms.Add({{"device", device.id()}});
    for (const std::string_view reason : kRestartReasons) {
      families_.restarts.Add({{"device", device.id()}, {"reason", std::string(reason)}});
    }
    for (const std::string& op : ops_) {
      families_.ratio.Add({{"device", device.id()}, {"op", op}}, kRatioBuckets);
      families_.exceeded.Add({{"device", device.id()}, {"op", op}});
    }
    families_.exceeded.Add({{"device", device.id()}, {"op", std::string(kOther)}});
    DeviceChanged(device);
  }

  void DeviceChanged(const v1::Device& device) override {
    const std::string id = DeviceLabel(device.id());
    if (id == kOther) return;  // not declared yet; AddDevice comes later
    const auto memory = [&](const char* state, std::int64_t bytes) {
      families_.memory.Add({{"device", id}, {"state", state}}).Set(static_cast<double>(bytes));
    };
    if (device.memory_bytes() > 0) memory("total", device.memory_bytes());
    if (device.arena_bytes() > 0) memory("arena", device.arena_bytes());
    memory("leased", device.leased_bytes());
    families_.quarantined.Add({{"device", id}})
        .Set(device.state() == v1::DEVICE_STATE_QUARANTINED ? 1 : 0);
    for (const v1::ContainmentMeasure& measure : device.containment()) {
      families_.containment.Add({{"device", id}, {"measure", measure.measure()}})
          .Set(measure.applied() ? 1 : 0);
    }
    SetCeilings(families_, id, device.ceilings());
    SeriesOf(id).SetCeilings(device.ceilings());
    suites_.SetCeilings(id, device.ceilings());
  }

  void TelemetryChanged(const v1::Device& device) override {
    if (DeviceLabel(device.id()) == kOther) return;
    SetInfo(device);
    telemetry_.Set(device.id(), device.telemetry());
  }

  void CaseFinished(const v1::CaseResult& result) override {
    if (IsPlanted(result.spec().provider())) return;
    KernelSeries& series = SeriesOf(result.device());
    if (IsExternal(result.spec().provider())) {
      return series.CountForeign(result.spec().provider(), result.verdict());
    }
    if (IsUserKernel(result.spec().provider())) {
      return series.CountForeign("user", result.verdict());
    }
    const KernelId id = series.IdOf(result);
    families_.case_duration.Add({{"op", id.op}}, kCaseSeconds)
        .Observe(static_cast<double>(
                     google::protobuf::util::TimeUtil::DurationToNanoseconds(result.duration())) *
                 1e-9);
    series.Count(id, result);
  }

  void JobFinished(v1::Verdict verdict) override {
    families_.jobs.Add({{"verdict", VerdictLabel(verdict)}}).Increment();
  }

  void SelftestFinished(const v1::SelftestReport& report) override {
    std::map<std::string, std::pair<double, double>> devices;  // caught, all
    for (const v1::SelftestRow& row : report.rows()) {
      auto& [caught, all] = devices[DeviceLabel(row.device())];
      caught += row.caught() ? 1 : 0;
      all += 1;
    }
    for (const auto& [device, rows] : devices) {
      families_.detected.Add({{"device", device}}).Set(rows.first / rows.second);
    }
    std::map<std::string, std::pair<double, double>> cheats;  // stopped, all
    for (const v1::CheatRow& row : report.cheats()) {
      auto& [stopped, all] = cheats[DeviceLabel(row.device())];
      stopped += row.stopped() && row.twin() == v1::VERDICT_PASSED ? 1 : 0;
      all += 1;
    }
    for (const auto& [device, rows] : cheats) {
      families_.cheats.Add({{"device", device}}).Set(rows.first / rows.second);
    }
    for (const v1::SelftestCorrect& correct : report.correct()) {
      families_.false_alarms.Add({{"device", DeviceLabel(correct.device())}})
          .Increment(correct.false_alarms());
    }
  }

  void SuiteFinished(std::string_view suite, std::string_view version,
                     const SuiteTally& tally) override {
    const std::string_view level = QualificationLevel(suite);
    const std::string name(level.empty() ? suite : level);
    for (const auto& [device, kernels] : tally.devices()) {
      if (DeviceLabel(device) == kOther) continue;
      std::map<KernelId, SuiteTally::Kernel> known;
      for (const auto& [id, kernel] : kernels) {
        if (SeriesOf(device).Knows(id)) known.emplace(id, kernel);
      }
      suites_.Set(device, name, std::string(version), known);
    }
  }

  void QualificationFinished(std::string_view device, std::string_view suite, v1::Verdict verdict,
                             double seconds, double end_time) override {
    const std::string_view level = QualificationLevel(suite);
    const Labels labels = {{"device", DeviceLabel(device)},
                           {"suite", std::string(level.empty() ? kOther : level)}};
    if (verdict != v1::VERDICT_UNSPECIFIED) {
      families_.qualified.Add(labels).Set(verdict == v1::VERDICT_PASSED ? 1 : 0);
      Gauge& failed = families_.unqualified.Add(labels);
      if (verdict != v1::VERDICT_INCONCLUSIVE) failed.Set(verdict == v1::VERDICT_FAILED ? 1 : 0);
    }
    families_.qualified_duration.Add(labels).Set(seconds);
    families_.qualified_time.Add(labels).Set(end_time);
  }

  void QueueDepth(std::string_view device, int cases) override {
    families_.queue_depth.Add({{"device", DeviceLabel(device)}}).Set(cases);
  }

  void WorkerRestarted(std::string_view device, std::string_view reason) override {
    const bool known =
        std::find(kRestartReasons.begin(), kRestartReasons.end(), reason) != kRestartReasons.end();
    families_.restarts
        .Add({{"device", DeviceLabel(device)}, {"reason", std::string(known ? reason : kOther)}})
        .Increment();
  }

  void RpcFinished(std::string_view method, std::string_view code, double seconds) override {
    const std::string name(methods_.contains(std::string(method)) ? method : kOther);
    families_.rpcs.Add({{"method", name}, {"code", std::string(code)}}).Increment();
    families_.rpc_duration.Add({{"method", name}}, kRpcSeconds).Observe(seconds);
  }

  void LimitReached(Limit limit) override {
    families_.limits.Add({{"limit", std::string(Setting(limit))}}).Increment();
  }

  void CertificateExpires(double time) override { families_.certificate.Add({}).Set(time); }

  void StoreChanged(bool full, int held, bool damaged) override {
    families_.store_full.Add({}).Set(full ? 1 : 0);
    families_.store_held.Add({}).Set(held);
    families_.store_damaged.Add({}).Set(damaged ? 1 : 0);
  }

  std::string Exposition() override { return registry_.Exposition(); }

 private:
  struct Known {
    std::unique_ptr<KernelSeries> kernels;
    Labels info;  // of the series that says what it is
    bool shown = false;
  };

  // In the order of the API, in which copies come after other operators. If a device has more
  // kernels than series, copies share a name.
  std::vector<v1::Kernel> InOrderOfOps(std::vector<v1::Kernel> kernels) const {
    const auto rank = [this](const v1::Kernel& kernel) {
      return std::find(ops_.begin(), ops_.end(), kernel.op()) - ops_.begin();
    };
    std::stable_sort(kernels.begin(), kernels.end(),
                     [&](const v1::Kernel& a, const v1::Kernel& b) { return rank(a) < rank(b); });
    return kernels;
  }

  std::string DeviceLabel(std::string_view device) {
    const std::lock_guard lock(mutex_);
    const auto it = devices_.find(device);
    return std::string(it != devices_.end() && it->second.shown ? device : kOther);
  }

  KernelSeries& SeriesOf(std::string_view device) {
    const std::lock_guard lock(mutex_);
    auto it = devices_.find(device);
    // A device that was never declared counts as "other".
    if (it == devices_.end()) it = devices_.try_emplace(std::string(kOther)).first;
    std::unique_ptr<KernelSeries>& kernels = it->second.kernels;
    if (kernels == nullptr) {
      kernels = std::make_unique<KernelSeries>(families_, it->first, std::vector<v1::Kernel>());
    }
    return *kernels;
  }

  // The labels of device_info. Workers tell some, and the drivers' management libraries the others.
  void SetInfo(const v1::Device& device) {
    const std::lock_guard lock(mutex_);
    Known& known = devices_[device.id()];
    Labels info = known.info;
    for (const auto& [key, label] :
         {std::pair("uuid", "UUID"), std::pair("UUID", "UUID"), std::pair("gpu", "gpu"),
          std::pair("driver_version", "driver_version")}) {
      const auto it = device.properties().find(key);
      if (it != device.properties().end() && !it->second.empty()) info[label] = it->second;
    }
    if (known.shown && info == known.info) return;
    families_.device_info.Remove(known.info);
    known.info = std::move(info);
    known.shown = true;
    families_.device_info.Add(known.info).Set(1);
  }

  const std::string version_;
  MetricRegistry registry_;
  Families families_;
  TelemetrySeries telemetry_;
  SuiteSeries suites_;
  std::vector<std::string> ops_;
  std::set<std::string> methods_;

  std::mutex mutex_;  // guards what follows
  std::map<std::string, Known, std::less<>> devices_;
  std::set<std::string> backends_;
  Labels build_info_;
};

}  // namespace

std::string_view QualificationLevel(std::string_view suite) {
  // Levels have names and numbers; both are accepted everywhere.
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kLevels = {
      {{"1", "quick"}, {"2", "medium"}, {"3", "nightly"}, {"4", "extended"}}};
  for (const auto& [number, name] : kLevels) {
    if (suite == number || suite == name) return name;
  }
  return "";
}

std::unique_ptr<Metrics> MakeMetrics(std::string_view version) {
  return std::make_unique<MetricsImpl>(version);
}

}  // namespace assay::server
