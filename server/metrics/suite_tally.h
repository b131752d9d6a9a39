// What one whole run of a suite says of each of its kernels: figures of the same cases on
// every device and every night, so that like is held against like. Not thread-safe.
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

namespace assay {

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
    Roof roof;  // of all its cases, where no roof is in doubt
  };
  struct Kernel {
    std::map<std::string, Efficiency> efficiency;  // by roof
    Mean flops, bytes;                             // of cases that arithmetic or memory bounds
    std::optional<double> ratio_max;               // largest ρ of what passed
    bool timed = false;                            // any case was to be
    bool untold = false;   // a timed case has no speed to be believed, or no time
    bool doubted = false;  // a roof is not to be believed
  };

  SuiteTally() = default;
  // The devices with the ceilings that they have by now.
  explicit SuiteTally(const std::vector<v1::Device>& devices);

  // Planted kernels and cases that fill a budget, which differ from run to run, are left out, and
  // so is what is not supported, which is the same in every run.
  void Add(const v1::CaseResult& result);

  // By device and kernel.
  const std::map<std::string, std::map<KernelId, Kernel>>& devices() const { return devices_; }

 private:
  void AddSpeed(const v1::CaseResult& result, Kernel& kernel) const;

  std::map<std::string, CeilingList> ceilings_;  // by device
  std::map<std::string, std::map<KernelId, Kernel>> devices_;
};

}  // namespace assay

#endif  // ASSAY_SERVER_METRICS_SUITE_TALLY_H_
