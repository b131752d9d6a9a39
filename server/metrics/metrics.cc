#include "server/metrics/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/ascii.h"
#include "assay/v1/service.pb.h"
#include "assay/v1/types.pb.h"
#include "google/protobuf/util/time_util.h"
#include "server/base/case_spec.h"

namespace assay {
namespace {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Histogram;
using Labels = prometheus::Labels;
using Buckets = Histogram::BucketBoundaries;

// Most series of one device; kernels beyond are counted as "other".
constexpr int kSeriesPerDevice = 2'000;
// Worst case of one (op, provider, dtype): 6 verdicts, 2 x 5 non-finite counters, 4
// counters of defects, 5 gauges.
constexpr int kSeriesPerKernel = 25;
// Histograms of ρ, memory, ceilings, restarts, quarantine and the like of a device.
constexpr int kSeriesReserved = 160;
// What no kernel computes has one series, its UNSUPPORTED results: room for six
// operators, three providers and twelve formats where a third is computed.
constexpr int kUnsupportedPerDevice = 150;
constexpr std::size_t kKernelsPerDevice =
    (kSeriesPerDevice - kSeriesReserved - kUnsupportedPerDevice) / kSeriesPerKernel;

constexpr std::string_view kOther = "other";
constexpr std::array<std::string_view, 9> kRestartReasons = {
    "crash", "exit", "timeout", "memory", "cancelled", "fault", "idle", "start", kOther};

// ρ of an output of which an element has no bound (a wrong class): above all others.
constexpr double kNoBound = 1e9;

// The enumerator's name without its prefix, as the API's filters have it: "PASSED".
std::string VerdictName(v1::Verdict verdict) {
  return v1::Verdict_Name(verdict).substr(std::string_view("VERDICT_").size());
}

// "bf16", as the command line has it.
std::string DTypeName(v1::DType dtype) {
  std::string name = v1::DType_Name(dtype);
  if (name.starts_with("DTYPE_")) name.erase(0, std::string_view("DTYPE_").size());
  return absl::AsciiStrToLower(name);
}

// Every family, declared here and nowhere else. Names and labels: see the design's
// list of metrics; base units.
struct Families {
  explicit Families(prometheus::Registry& r)
      : build_info(Gauges(r, "build_info", "Version of the daemon and its backends; always 1")),
        device_info(Gauges(r, "device_info", "What a device is; always 1")),
        jobs(Counters(r, "jobs_total", "Jobs that ended, by verdict")),
        queue_depth(Gauges(r, "queue_depth", "Cases that wait for the device")),
        cases(Counters(r, "cases_total", "Cases that ended, by verdict")),
        case_duration(
            Histograms(r, "case_duration_seconds", "Time of a case, its reference included")),
        nan(Counters(r, "nan_total",
                     "NaN in outputs, by where they came from and whether the reference has "
                     "them too")),
        inf(Counters(r, "inf_total",
                     "Infinities in outputs, by where they came from and whether the reference "
                     "has them too")),
        unwritten(Counters(r, "unwritten_elements_total", "Output elements never written")),
        guard(Counters(r, "guard_violations_total",
                       "Cases whose kernel wrote outside of its output")),
        nondeterministic(
            Counters(r, "nondeterministic_total", "Cases whose launches did not agree bit by bit")),
        digest(Counters(r, "digest_mismatches_total",
                        "Cases whose output's digest was not the expected one")),
        ratio(Histograms(r, "error_bound_ratio",
                         "Largest |error| / bound of a case; above 1 the kernel is wrong")),
        ratio_max(Gauges(r, "error_bound_ratio_max",
                         "Largest |error| / bound of all cases since the daemon started")),
        flops(Gauges(r, "kernel_flops_per_second", "Speed in the newest benchmark")),
        bytes(Gauges(r, "kernel_bytes_per_second", "Bytes moved in the newest benchmark")),
        efficiency(Gauges(r, "kernel_efficiency_ratio",
                          "Share of the roof reached in the newest benchmark")),
        ceiling_flops(Gauges(r, "ceiling_flops_per_second",
                             "Measured peak of multiply-adds, two operations each")),
        ceiling_bytes(Gauges(r, "ceiling_bytes_per_second",
                             "Measured copy bandwidth, read and written bytes both counted")),
        memory(Gauges(r, "device_memory_bytes",
                      "Memory of the device: total, arena (most that cases may take), leased "
                      "(taken now)")),
        restarts(Counters(r, "worker_restarts_total", "Workers replaced, by reason")),
        quarantined(Gauges(r, "device_quarantined",
                           "1 where the device is set aside because its worker kept dying")),
        detected(
            Gauges(r, "selftest_detected_ratio",
                   "Share of the planted defects that the newest self-test found as often as it "
                   "must")),
        false_alarms(Counters(r, "selftest_false_alarms_total",
                              "Cases of self-tests in which a right kernel was called wrong")),
        rpcs(Counters(r, "rpc_requests_total", "Calls of the API that ended, by code")),
        rpc_duration(Histograms(r, "rpc_duration_seconds", "Time of a call of the API")) {}

  static std::string Name(const char* name) { return std::string("assay_") + name; }
  static Family<Counter>& Counters(prometheus::Registry& r, const char* name, const char* help) {
    return prometheus::BuildCounter().Name(Name(name)).Help(help).Register(r);
  }
  static Family<Gauge>& Gauges(prometheus::Registry& r, const char* name, const char* help) {
    return prometheus::BuildGauge().Name(Name(name)).Help(help).Register(r);
  }
  static Family<Histogram>& Histograms(prometheus::Registry& r, const char* name,
                                       const char* help) {
    return prometheus::BuildHistogram().Name(Name(name)).Help(help).Register(r);
  }

  Family<Gauge>&build_info, &device_info;
  Family<Counter>& jobs;
  Family<Gauge>& queue_depth;
  Family<Counter>& cases;
  Family<Histogram>& case_duration;
  Family<Counter>&nan, &inf, &unwritten, &guard, &nondeterministic, &digest;
  Family<Histogram>& ratio;
  Family<Gauge>&ratio_max, &flops, &bytes, &efficiency, &ceiling_flops, &ceiling_bytes, &memory;
  Family<Counter>& restarts;
  Family<Gauge>&quarantined, &detected;
  Family<Counter>&false_alarms, &rpcs;
  Family<Histogram>& rpc_duration;
};

const Buckets kCaseSeconds = {0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 60, 300};
const Buckets kRpcSeconds = {0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 10, 60};
const Buckets kRatios = {0.001, 0.01, 0.03, 0.1, 0.3, 0.5, 0.7, 0.9, 1, 2, 10, 1000};

struct KernelId {
  std::string op, provider, dtype;
  friend auto operator<=>(const KernelId&, const KernelId&) = default;
};

// The names that a device's series may carry.
struct KnownNames {
  std::set<KernelId> kernels;
  std::set<std::string> providers;
  std::set<KernelId> unsupported;  // that no kernel computes, and a result said so
};

class MetricsImpl final : public Metrics {
 public:
  explicit MetricsImpl(std::string_view version) : families_(registry_) {
    families_.build_info.Add({{"version", std::string(version)}, {"backends", "cpu"}}).Set(1);
    for (const v1::Verdict v : {v1::VERDICT_PASSED, v1::VERDICT_FAILED, v1::VERDICT_INCONCLUSIVE}) {
      families_.jobs.Add({{"verdict", VerdictName(v)}});
    }
    const auto* service = v1::ListJobsRequest::descriptor()->file()->service(0);
    for (int i = 0; i < service->method_count(); ++i) {
      const std::string& method = service->method(i)->name();
      methods_.insert(method);
      families_.rpcs.Add({{"method", method}, {"code", "OK"}});
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
      auto& [known, providers, unsupported] = devices_[device.id()];
      for (const v1::Kernel* kernel : InOrderOfOps(kernels)) {
        if (IsPlanted(kernel->provider())) continue;
        providers.insert(kernel->provider());
        if (!kernel->available()) continue;
        for (const int dtype : kernel->dtypes()) {
          if (known.size() >= kKernelsPerDevice) break;
          KernelId id{kernel->op(), kernel->provider(), DTypeName(static_cast<v1::DType>(dtype))};
          DeclareKernel(device.id(), id);
          known.insert(std::move(id));
        }
      }
      // increase() of the first failure of a kernel that shares its series sees it too.
      DeclareKernel(device.id(), {std::string(kOther), std::string(kOther), std::string(kOther)});
    }
    Labels info = {{"device", device.id()}, {"model_name", device.model()}};
    for (const char* key : {"gpu", "UUID", "driver_version"}) {
      const auto it = device.properties().find(key);
      if (it != device.properties().end() && !it->second.empty()) info[key] = it->second;
    }
    families_.device_info.Add(info).Set(1);
    families_.queue_depth.Add({{"device", device.id()}});
    families_.false_alarms.Add({{"device", device.id()}});
    for (const std::string_view reason : kRestartReasons) {
      families_.restarts.Add({{"device", device.id()}, {"reason", std::string(reason)}});
    }
    for (const std::string& op : ops_) {
      families_.ratio.Add({{"device", device.id()}, {"op", op}}, kRatios);
    }
    DeviceChanged(device);
  }

  void DeviceChanged(const v1::Device& device) override {
    const std::string id = DeviceLabel(device.id());
    if (id == kOther) return;  // not declared yet: AddDevice will tell
    const auto memory = [&](const char* state, std::int64_t bytes) {
      families_.memory.Add({{"device", id}, {"state", state}}).Set(static_cast<double>(bytes));
    };
    if (device.memory_bytes() > 0) memory("total", device.memory_bytes());
    if (device.arena_bytes() > 0) memory("arena", device.arena_bytes());
    memory("leased", device.leased_bytes());
    families_.quarantined.Add({{"device", id}})
        .Set(device.state() == v1::DEVICE_STATE_QUARANTINED ? 1 : 0);
    for (const v1::Ceiling& ceiling : device.ceilings()) {
      if (ceiling.has_bytes_per_second()) {
        families_.ceiling_bytes.Add({{"device", id}}).Set(ceiling.bytes_per_second());
      }
      if (ceiling.has_flops_per_second()) {
        families_.ceiling_flops.Add({{"device", id}, {"dtype", DTypeName(ceiling.dtype())}})
            .Set(ceiling.flops_per_second());
      }
    }
  }

  void CaseFinished(const v1::CaseResult& result) override {
    const std::string device = DeviceLabel(result.device());
    if (IsPlanted(result.spec().provider())) return;
    const KernelId id = KernelLabels(device, result);
    const Labels labels = LabelsOf(device, id);
    families_.cases.Add(With(labels, "verdict", VerdictName(result.verdict()))).Increment();
    families_.case_duration.Add({{"op", id.op}}, kCaseSeconds)
        .Observe(static_cast<double>(
                     google::protobuf::util::TimeUtil::DurationToNanoseconds(result.duration())) *
                 1e-9);
    if (result.verdict() == v1::VERDICT_UNSUPPORTED) return;  // nothing ran
    CountDefects(labels, result);
    if (result.stats().has_rho()) {
      const double rho = result.stats().rho();
      families_.ratio.Add({{"device", device}, {"op", id.op}}, kRatios)
          .Observe(std::isfinite(rho) ? std::min(rho, kNoBound) : kNoBound);
      Gauge& max = families_.ratio_max.Add(labels);
      // NaN counts as more than any number.
      const double shown = std::isnan(rho) ? INFINITY : rho;
      const std::lock_guard lock(mutex_);
      max.Set(std::max(max.Value(), shown));
    }
    SetSpeed(labels, result);
  }

  void JobFinished(v1::Verdict verdict) override {
    families_.jobs.Add({{"verdict", VerdictName(verdict)}}).Increment();
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
    for (const v1::SelftestCorrect& correct : report.correct()) {
      families_.false_alarms.Add({{"device", DeviceLabel(correct.device())}})
          .Increment(correct.false_alarms());
    }
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

  std::string Exposition() override {
    return prometheus::TextSerializer().Serialize(registry_.Collect());
  }

 private:
  static Labels With(Labels labels, const char* name, std::string value) {
    labels[name] = std::move(value);
    return labels;
  }

  static Labels LabelsOf(const std::string& device, const KernelId& id) {
    return {{"device", device}, {"op", id.op}, {"provider", id.provider}, {"dtype", id.dtype}};
  }

  static Labels Origin(const Labels& labels, std::string_view origin, bool expected) {
    return With(With(labels, "origin", std::string(origin)), "expected",
                expected ? "true" : "false");
  }

  // As the API lists the operators: those that compute come before the copies, which
  // are the ones to share a name where a device has more kernels than series.
  std::vector<const v1::Kernel*> InOrderOfOps(const std::vector<v1::Kernel>& kernels) const {
    std::vector<const v1::Kernel*> ordered;
    for (const v1::Kernel& kernel : kernels) ordered.push_back(&kernel);
    const auto rank = [this](const v1::Kernel* kernel) {
      return std::find(ops_.begin(), ops_.end(), kernel->op()) - ops_.begin();
    };
    std::stable_sort(ordered.begin(), ordered.end(),
                     [&](const v1::Kernel* a, const v1::Kernel* b) { return rank(a) < rank(b); });
    return ordered;
  }

  // Requires mutex_.
  void DeclareKernel(const std::string& device, const KernelId& id) {
    const Labels labels = LabelsOf(device, id);
    for (int v = v1::VERDICT_PASSED; v <= v1::Verdict_MAX; ++v) {
      families_.cases.Add(With(labels, "verdict", VerdictName(static_cast<v1::Verdict>(v))));
    }
    for (Family<Counter>* family : {&families_.nan, &families_.inf}) {
      for (const char* origin : {"input", "kernel", "unwritten"}) {
        family->Add(Origin(labels, origin, false));
        // An element never written is not as it should be, whatever it holds.
        if (origin != std::string_view("unwritten")) family->Add(Origin(labels, origin, true));
      }
    }
    for (Family<Counter>* family :
         {&families_.unwritten, &families_.guard, &families_.nondeterministic, &families_.digest}) {
      family->Add(labels);
    }
  }

  std::string DeviceLabel(std::string_view device) {
    const std::lock_guard lock(mutex_);
    return std::string(devices_.contains(std::string(device)) ? device : kOther);
  }

  KernelId KernelLabels(const std::string& device, const v1::CaseResult& result) {
    KernelId id{OpOf(result.spec()), result.spec().provider(), DTypeName(result.spec().dtype())};
    const std::lock_guard lock(mutex_);
    const auto it = devices_.find(device);
    if (it != devices_.end()) {
      auto& [known, providers, unsupported] = it->second;
      if (known.contains(id)) return id;
      // Every name is the daemon's own, though no kernel has all three.
      if (result.verdict() == v1::VERDICT_UNSUPPORTED && !id.op.empty() &&
          providers.contains(id.provider) && v1::DType_IsValid(result.spec().dtype()) &&
          result.spec().dtype() != v1::DTYPE_UNSPECIFIED &&
          (unsupported.contains(id) || unsupported.size() < kUnsupportedPerDevice)) {
        unsupported.insert(id);
        return id;
      }
    }
    return {std::string(kOther), std::string(kOther), std::string(kOther)};
  }

  void CountDefects(const Labels& labels, const v1::CaseResult& result) {
    for (const v1::Provenance& p : result.provenance()) {
      Family<Counter>& family = p.kind() == "inf" ? families_.inf : families_.nan;
      family.Add(Origin(labels, p.origin(), p.expected()))
          .Increment(static_cast<double>(p.count()));
    }
    const v1::ErrorStats& stats = result.stats();
    if (stats.unwritten() > 0) {
      families_.unwritten.Add(labels).Increment(static_cast<double>(stats.unwritten()));
    }
    if (stats.guard_hits() > 0) families_.guard.Add(labels).Increment();
    if (result.has_deterministic() && !result.deterministic()) {
      families_.nondeterministic.Add(labels).Increment();
    }
    for (const v1::Finding& finding : result.findings()) {
      if (finding.reason() == "digest") families_.digest.Add(labels).Increment();
    }
  }

  // Speeds of benchmarks whose output was right; the one timed launch of a
  // validation is no benchmark.
  void SetSpeed(const Labels& labels, const v1::CaseResult& result) {
    const v1::BenchStats& bench = result.bench();
    const bool slow_only = result.verdict() == v1::VERDICT_FAILED && result.findings_size() > 0 &&
                           result.findings(0).reason() == "efficiency";
    if (bench.samples() < 2 || (result.verdict() != v1::VERDICT_PASSED && !slow_only)) return;
    if (bench.has_flops_per_second()) families_.flops.Add(labels).Set(bench.flops_per_second());
    if (bench.has_bytes_per_second()) families_.bytes.Add(labels).Set(bench.bytes_per_second());
    const std::string& device = labels.at("device");
    if (bench.has_ceiling_flops_per_second() && labels.at("dtype") != kOther) {
      families_.ceiling_flops.Add({{"device", device}, {"dtype", labels.at("dtype")}})
          .Set(bench.ceiling_flops_per_second());
    }
    if (bench.has_ceiling_bytes_per_second()) {
      families_.ceiling_bytes.Add({{"device", device}}).Set(bench.ceiling_bytes_per_second());
    }
    if (bench.has_efficiency() && (bench.roof() == "compute" || bench.roof() == "memory")) {
      families_.efficiency.Add(With(labels, "roof", bench.roof())).Set(bench.efficiency());
    }
  }

  prometheus::Registry registry_;
  Families families_;
  std::vector<std::string> ops_;
  std::set<std::string> methods_;

  std::mutex mutex_;  // guards what follows
  std::map<std::string, KnownNames> devices_;
};

}  // namespace

std::unique_ptr<Metrics> MakeMetrics(std::string_view version) {
  return std::make_unique<MetricsImpl>(version);
}

}  // namespace assay
