// The metric series of one device's kernels. Their number is limited.
//
// A kernel gets its own names as long as the device's share of series lasts: about a hundred
// kernels do. Kernels in the common formats (fp32, bf16, fp16, fp64) come first. With its names a
// kernel gets the counters that alerts read, which are 0 from the start, and room for its gauges;
// the gauge of the precision has room in the common formats only. Some counters only some kernels
// need: expected NaN and infinities, and skipped or unsupported cases. In the common formats these
// exist from the start if there is room. Else they appear when they first count. Names that a
// client makes up, and names that do not fit, count under "other". All counters of "other" exist
// from the start.
#ifndef ASSAY_SERVER_METRICS_KERNEL_SERIES_H_
#define ASSAY_SERVER_METRICS_KERNEL_SERIES_H_

#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "assay/v1/case.pb.h"
#include "assay/v1/device.pb.h"
#include "server/base/roofs.h"
#include "server/metrics/families.h"
#include "server/metrics/kernel_id.h"

namespace assay::server {

inline constexpr std::string_view kOtherLabel = "other";

// The buckets of the histogram of |error| / bound.
extern const Histogram::BucketBoundaries kRatioBuckets;

// The most series that a device's kernels may have, "other" included. A device has at most 2,000
// series. Its histograms, memory, telemetry, ceilings, restarts, qualifications and whole runs of
// suites need the rest.
inline constexpr int kMostKernelSeries = 1'580;

// Thread-safe.
class KernelSeries {
 public:
  // `kernels` get names in this order, the common formats first. Planted kernels get none.
  KernelSeries(Families& families, std::string device, const std::vector<v1::Kernel>& kernels);

  // The names under which the result counts.
  KernelId IdOf(const v1::CaseResult& result);
  // Whether the kernel has names of its own.
  bool Knows(const KernelId& id);
  // Sets the roofs of efficiencies. Removes an efficiency if its roof has changed or is in doubt.
  void SetCeilings(const CeilingList& ceilings);
  // Counts the verdict of code that is not this node's, and nothing else: its defects say nothing
  // of the node. All kernels of users share one name, provider "user"; all functions that ran in
  // their callers' processes another, "external".
  void CountForeign(std::string_view provider, v1::Verdict verdict);
  // Counts the verdict, defects, NaN and infinities. If the case ran, also sets speed and error.
  void Count(const KernelId& id, const v1::CaseResult& result);

 private:
  Labels LabelsOf(const KernelId& id) const;
  void DeclareAlerting(const KernelId& id);
  void DeclareRest(const KernelId& id);
  // The counter of these names, or that of "other" if there is no room. Requires mutex_.
  Counter& Of(Family<Counter>& family, const KernelId& id, const Labels& more);
  void CountDefects(const KernelId& id, const v1::CaseResult& result);
  void SetPrecision(const KernelId& id, const v1::Precision& precision);
  void SetSpeed(const KernelId& id, const v1::CaseResult& result);
  void RemoveEfficiency(const KernelId& id);

  Families& families_;
  const std::string device_;
  std::mutex mutex_;  // guards what follows
  std::set<KernelId> known_;
  std::set<KernelId> precision_room_;  // that have room for a precision, and have none yet
  std::set<std::string> providers_;
  CeilingList ceilings_;
  std::map<KernelId, Roof> roofs_;  // of those that have an efficiency
  std::set<KernelId> unsupported_;  // that no kernel computes, and a result said so
  int left_ = kMostKernelSeries;
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_METRICS_KERNEL_SERIES_H_
