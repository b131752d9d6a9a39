// The series of one device's kernels, and how many there may be.
//
// Every kernel that the daemon has gets its own names as long as the device's share of
// series lasts: counters that alerts read, at 0 from the start, and room for its gauges.
// The rest of the share goes to the counters that only some kernels ever need (NaN and
// infinities that were expected, cases skipped or unsupported): of the common formats from
// the start, of others when they first count. What a client makes up, and what no longer
// fits, counts under "other", whose counters are all there from the start.
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

namespace assay {

inline constexpr std::string_view kOtherLabel = "other";

// Buckets of ρ.
extern const Histogram::BucketBoundaries kRatioBuckets;

// Most series that a device's kernels may have, "other" included: of the 2,000 of a device,
// what its histograms, memory, telemetry, ceilings, restarts, qualifications and whole runs of
// suites leave.
inline constexpr int kMostKernelSeries = 1'590;

// Thread-safe.
class KernelSeries {
 public:
  // Kernels in the order in which they get names; planted ones get none.
  KernelSeries(Families& families, std::string device, const std::vector<v1::Kernel>& kernels);

  // The names under which the result counts.
  KernelId IdOf(const v1::CaseResult& result);
  // Whether the kernel has names of its own.
  bool Knows(const KernelId& id);
  // What efficiencies are shares of: those of another roof, or of one in doubt, are gone at once.
  void SetCeilings(const CeilingList& ceilings);
  // Counts the verdict, defects, NaN and infinities; of what ran also speed and error.
  void Count(const KernelId& id, const v1::CaseResult& result);

 private:
  Labels LabelsOf(const KernelId& id) const;
  void DeclareAlerting(const KernelId& id);
  void DeclareRest(const KernelId& id);
  // Requires mutex_. The counter of these names, or where there is no room of "other".
  Counter& Of(Family<Counter>& family, const KernelId& id, const Labels& more);
  void CountDefects(const KernelId& id, const v1::CaseResult& result);
  void SetSpeed(const KernelId& id, const v1::CaseResult& result);
  void RemoveEfficiency(const KernelId& id);

  Families& families_;
  const std::string device_;
  std::mutex mutex_;  // guards what follows
  std::set<KernelId> known_;
  std::set<std::string> providers_;
  CeilingList ceilings_;
  std::map<KernelId, Roof> roofs_;  // of those that have an efficiency
  std::set<KernelId> unsupported_;  // that no kernel computes, and a result said so
  int left_ = kMostKernelSeries;
};

}  // namespace assay

#endif  // ASSAY_SERVER_METRICS_KERNEL_SERIES_H_
