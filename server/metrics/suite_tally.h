// The figures of each kernel in one whole run of a suite. They come from the same cases on every
// device and every night, so they can be compared. Not thread-safe.
#ifndef ASSAY_SERVER_METRICS_SUITE_TALLY_H_
#define ASSAY_SERVER_METRICS_SUITE_TALLY_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "assay/v1/case.pb.h"
#include "assay/v1/device.pb.h"
#include "server/base/roofs.h"
#include "server/metrics/kernel_id.h"

namespace assay::server {

class SuiteTally {
 public:
  struct Mean {
    double sum = 0;
    int count = 0;
    void Add(double value) {
      sum += value;
      ++count;
    }
    double value() const { return sum / count; }
  };
  struct Efficiency {
    Mean mean;
    Roof roof;  // that of all its cases, if no roof is in doubt
  };
  struct Kernel {
    std::map<std::string, Efficiency> efficiency;  // by roof
    Mean flops, bytes;                             // of cases under the compute or memory roof
    std::optional<double> ratio_max;               // largest |error| / bound of cases that passed
    bool timed = false;                            // at least one case was to be timed
    bool untold = false;                           // a timed case has no time, or a speed in doubt
    bool doubted = false;                          // a roof is in doubt
  };

  SuiteTally() = default;
  // `devices` have the ceilings that are known now.
  explicit SuiteTally(const std::vector<v1::Device>& devices);

  // Adds a result. Leaves out planted kernels, cases that fill a budget (they differ from run to
  // run) and unsupported cases (they are the same in every run).
  void Add(const v1::CaseResult& result);

  // The figures, by device and kernel.
  const std::map<std::string, std::map<KernelId, Kernel>>& devices() const { return devices_; }

 private:
  void AddSpeed(const v1::CaseResult& result, Kernel& kernel) const;

  std::map<std::string, CeilingList> ceilings_;  // by device
  std::map<std::string, std::map<KernelId, Kernel>> devices_;
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_METRICS_SUITE_TALLY_H_
