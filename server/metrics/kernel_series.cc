#include "server/metrics/kernel_series.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "assay/v1/types.pb.h"
#include "server/base/case_spec.h"

namespace assay::server {
namespace {

// The counters that alerts read: 4 verdicts, NaN and infinities that a kernel made, NaN that it
// left unwritten (no poison is an infinity), and 4 counters of defects. Then the gauges: the
// largest |error| / bound, 2 speeds, and the efficiency.
constexpr int kAlertingSeries = 11;
constexpr int kGauges = 4;
// The other counters: 2 verdicts, and 3 more kinds each of NaN and infinities.
constexpr int kRestSeries = 8;
// The gauge of the precision.
constexpr int kPrecisionSeries = 1;
// Room that is kept free at the start, for series that do not exist from the start. Combinations
// that no kernel computes need 1 each, and at most so many of them count. Functions that run in
// their callers' processes need 1 for each verdict.
constexpr int kKeptFree = 20;
constexpr std::size_t kMostUnsupported = 10;

constexpr std::array<v1::Verdict, 4> kAlertingVerdicts = {
    v1::VERDICT_PASSED, v1::VERDICT_FAILED, v1::VERDICT_INCONCLUSIVE, v1::VERDICT_ERROR};
constexpr std::array<v1::Verdict, 2> kRestVerdicts = {v1::VERDICT_UNSUPPORTED, v1::VERDICT_SKIPPED};
constexpr std::array<v1::DType, 4> kCommonTypes = {v1::DTYPE_FP32, v1::DTYPE_BF16, v1::DTYPE_FP16,
                                                   v1::DTYPE_FP64};

bool IsCommon(const KernelId& id) {
  return std::any_of(kCommonTypes.begin(), kCommonTypes.end(),
                     [&](v1::DType dtype) { return id.dtype == DTypeLabel(dtype); });
}

// The |error| / bound of an output with an element of a wrong class, which has no bound. It is
// above all others.
constexpr double kNoBound = 1e9;

const KernelId& OtherId() {
  static const auto* id =
      new KernelId{std::string(kOtherLabel), std::string(kOtherLabel), std::string(kOtherLabel)};
  return *id;
}

Labels Origin(std::string_view origin, bool expected) {
  return {{"origin", std::string(origin)}, {"expected", expected ? "true" : "false"}};
}

Labels Joined(Labels labels, const Labels& more) {
  labels.insert(more.begin(), more.end());
  return labels;
}

// Whether the output speaks against the kernel or its device. False if the kernel was only slow, or
// if a right kernel may do the same.
bool Accused(const v1::CaseResult& result) {
  if (result.verdict() != v1::VERDICT_FAILED && result.verdict() != v1::VERDICT_ERROR) return false;
  return result.findings().empty() ||
         !std::all_of(result.findings().begin(), result.findings().end(), [](const auto& f) {
           return f.reason() == "efficiency" || f.reason() == "slower" || f.reason() == "suspect";
         });
}

}  // namespace

const Histogram::BucketBoundaries kRatioBuckets = {0.01, 0.03, 0.1, 0.3, 0.9, 1, 2, 10};

KernelSeries::KernelSeries(Families& families, std::string device,
                           const std::vector<v1::Kernel>& kernels)
    : families_(families), device_(std::move(device)) {
  // So increase() also sees the first failure of a kernel that shares its series.
  DeclareAlerting(OtherId());
  DeclareRest(OtherId());
  precision_room_.insert(OtherId());
  left_ -= kAlertingSeries + kGauges + kRestSeries + kPrecisionSeries;
  std::vector<KernelId> ids;
  for (const v1::Kernel& kernel : kernels) {
    if (IsPlanted(kernel.provider())) continue;
    providers_.insert(kernel.provider());
    if (!kernel.available()) continue;
    for (const int dtype : kernel.dtypes()) {
      ids.push_back({kernel.op(), kernel.provider(), DTypeLabel(static_cast<v1::DType>(dtype))});
    }
  }
  // The common formats come first. If there is not room for all kernels, rare formats have none.
  std::stable_partition(ids.begin(), ids.end(), IsCommon);
  for (KernelId& id : ids) {
    if (known_.contains(id)) continue;
    const int precision = IsCommon(id) ? kPrecisionSeries : 0;
    const int series = kAlertingSeries + kGauges + precision;
    if (left_ < kKeptFree + series) break;
    left_ -= series;
    DeclareAlerting(id);
    if (precision > 0) precision_room_.insert(id);
    known_.insert(std::move(id));
  }
  for (const KernelId& id : known_) {
    if (left_ < kKeptFree + kRestSeries) return;
    if (!IsCommon(id)) continue;
    left_ -= kRestSeries;
    DeclareRest(id);
  }
}

Labels KernelSeries::LabelsOf(const KernelId& id) const {
  return {{"device", device_}, {"op", id.op}, {"provider", id.provider}, {"dtype", id.dtype}};
}

void KernelSeries::DeclareAlerting(const KernelId& id) {
  const Labels labels = LabelsOf(id);
  for (const v1::Verdict verdict : kAlertingVerdicts) {
    families_.cases.Add(Joined(labels, {{"verdict", VerdictLabel(verdict)}}));
  }
  families_.nan.Add(Joined(labels, Origin("kernel", false)));
  families_.nan.Add(Joined(labels, Origin("unwritten", false)));
  families_.inf.Add(Joined(labels, Origin("kernel", false)));
  for (Family<Counter>* family :
       {&families_.unwritten, &families_.guard, &families_.nondeterministic, &families_.digest}) {
    family->Add(labels);
  }
}

void KernelSeries::DeclareRest(const KernelId& id) {
  const Labels labels = LabelsOf(id);
  for (const v1::Verdict verdict : kRestVerdicts) {
    families_.cases.Add(Joined(labels, {{"verdict", VerdictLabel(verdict)}}));
  }
  for (Family<Counter>* family : {&families_.nan, &families_.inf}) {
    // An element that was never written is wrong, whatever it holds.
    for (const Labels& origin :
         {Origin("input", false), Origin("input", true), Origin("kernel", true)}) {
      family->Add(Joined(labels, origin));
    }
  }
}

Counter& KernelSeries::Of(Family<Counter>& family, const KernelId& id, const Labels& more) {
  const Labels labels = Joined(LabelsOf(id), more);
  if (!family.Has(labels)) {
    if (left_ <= 0) return family.Add(Joined(LabelsOf(OtherId()), more));
    --left_;
  }
  return family.Add(labels);
}

bool KernelSeries::Knows(const KernelId& id) {
  const std::lock_guard lock(mutex_);
  return known_.contains(id);
}

KernelId KernelSeries::IdOf(const v1::CaseResult& result) {
  KernelId id = NamesOf(result.spec());
  const std::lock_guard lock(mutex_);
  if (known_.contains(id)) return id;
  // The daemon knows each of the names, but no kernel has all three.
  if (result.verdict() == v1::VERDICT_UNSUPPORTED && !id.op.empty() &&
      providers_.contains(id.provider) && v1::DType_IsValid(result.spec().dtype()) &&
      result.spec().dtype() != v1::DTYPE_UNSPECIFIED &&
      (unsupported_.contains(id) || unsupported_.size() < kMostUnsupported)) {
    unsupported_.insert(id);
    return id;
  }
  return OtherId();
}

void KernelSeries::SetCeilings(const CeilingList& ceilings) {
  const std::lock_guard lock(mutex_);
  ceilings_ = ceilings;
  std::erase_if(roofs_, [this](const auto& roof) {
    const bool gone = !IsSound(roof.second, ceilings_);
    if (gone) RemoveEfficiency(roof.first);
    return gone;
  });
}

void KernelSeries::CountForeign(std::string_view provider, v1::Verdict verdict) {
  const KernelId id{std::string(kOtherLabel), std::string(provider), std::string(kOtherLabel)};
  const Labels labels = Joined(LabelsOf(id), {{"verdict", VerdictLabel(verdict)}});
  const std::lock_guard lock(mutex_);
  if (!families_.cases.Has(labels)) {
    if (left_ <= 0) return;  // under "other" an alert would look at it
    --left_;
  }
  families_.cases.Add(labels).Increment();
}

void KernelSeries::Count(const KernelId& id, const v1::CaseResult& result) {
  const std::lock_guard lock(mutex_);
  Of(families_.cases, id, {{"verdict", VerdictLabel(result.verdict())}}).Increment();
  if (result.verdict() == v1::VERDICT_UNSUPPORTED) return;  // nothing ran
  CountDefects(id, result);
  if (result.stats().has_rho()) {
    const double rho = result.stats().rho();
    if (Accused(result) && !(rho <= 1)) {
      families_.exceeded.Add({{"device", device_}, {"op", id.op}}).Increment();
    }
    families_.ratio.Add({{"device", device_}, {"op", id.op}}, kRatioBuckets)
        .Observe(std::isfinite(rho) ? std::min(rho, kNoBound) : kNoBound);
    Gauge& max = families_.ratio_max.Add(LabelsOf(id));
    // NaN counts as larger than any number.
    max.Set(std::max(max.Value(), std::isnan(rho) ? INFINITY : rho));
  }
  SetPrecision(id, result.precision());
  SetSpeed(id, result);
}

void KernelSeries::CountDefects(const KernelId& id, const v1::CaseResult& result) {
  for (const v1::Provenance& p : result.provenance()) {
    Family<Counter>& family = p.kind() == "inf" ? families_.inf : families_.nan;
    const bool expected = p.expected() || (p.origin() == "kernel" && !Accused(result));
    Of(family, id, Origin(p.origin(), expected)).Increment(static_cast<double>(p.count()));
  }
  const v1::ErrorStats& stats = result.stats();
  if (stats.unwritten() > 0) {
    Of(families_.unwritten, id, {}).Increment(static_cast<double>(stats.unwritten()));
  }
  if (stats.guard_hits() > 0) Of(families_.guard, id, {}).Increment();
  if (result.has_deterministic() && !result.deterministic()) {
    Of(families_.nondeterministic, id, {}).Increment();
  }
  for (const v1::Finding& finding : result.findings()) {
    if (finding.reason() == "digest") Of(families_.digest, id, {}).Increment();
  }
}

void KernelSeries::SetPrecision(const KernelId& id, const v1::Precision& precision) {
  if (!precision.has_bits() || std::isnan(precision.bits())) return;
  Labels labels = LabelsOf(id);
  if (!families_.precision.Has(labels)) {
    // The free room is for what a kernel counts.
    if (precision_room_.erase(id) == 0) return SetPrecision(OtherId(), precision);
    families_.precision.Add(labels).Set(precision.bits());
    return;
  }
  Gauge& lowest = families_.precision.Add(labels);
  lowest.Set(std::min(lowest.Value(), precision.bits()));
}

void KernelSeries::SetSpeed(const KernelId& id, const v1::CaseResult& result) {
  if (!IsBenchmark(result) || !HasSpeed(result)) return;
  const v1::BenchStats& bench = result.bench();
  const Labels labels = LabelsOf(id);
  if (bench.has_flops_per_second()) families_.flops.Add(labels).Set(bench.flops_per_second());
  if (bench.has_bytes_per_second()) families_.bytes.Add(labels).Set(bench.bytes_per_second());
  // The newest benchmark has at most one roof. The share of another roof is of an older benchmark.
  if (roofs_.erase(id) > 0) RemoveEfficiency(id);
  const Roof roof = RoofOf(result);
  const bool measured = bench.roof() == "compute" || bench.roof() == "memory";
  if (!bench.has_efficiency() || !measured || !IsSound(roof, ceilings_)) return;
  families_.efficiency.Add(Joined(labels, {{"roof", bench.roof()}})).Set(bench.efficiency());
  roofs_[id] = roof;
}

void KernelSeries::RemoveEfficiency(const KernelId& id) {
  for (const char* roof : {"compute", "memory"}) {
    families_.efficiency.Remove(Joined(LabelsOf(id), {{"roof", roof}}));
  }
}

}  // namespace assay::server
