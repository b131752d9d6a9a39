// A bench for vendors' providers: the emulator's device, whose memory is the heap, with the
// runner that judges any device's kernels.
#ifndef ASSAY_TESTS_UNIT_PROVIDERS_VENDOR_TESTING_H_
#define ASSAY_TESTS_UNIT_PROVIDERS_VENDOR_TESTING_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "kernels/backends/gpu_backend.h"
#include "kernels/providers/provider.h"
#include "kernels/text/cat.h"
#include "kernels/validate/runner.h"

namespace assay {

inline std::string Said(const CaseOutcome& outcome) {
  std::string said = Cat("verdict ", static_cast<int>(outcome.verdict));
  for (const Finding& f : outcome.findings)
    Append(&said, "; ", ReasonWord(f.reason), ": ", f.message);
  for (const ProbeOutcome& p : outcome.probes) {
    Append(&said, "; ", p.name, " ", static_cast<int>(p.verdict), " ", p.message);
  }
  return said;
}

class VendorBench {
 public:
  VendorBench() {
    absl::StatusOr<std::unique_ptr<Device>> made =
        GpuBackend().MakeDevice(0, ArenaOptions{.max_bytes = std::int64_t{64} << 20});
    EXPECT_TRUE(made.ok()) << made.status();
    device_ = *std::move(made);
  }
  void Add(KernelEntry entry) { registry_.Add(std::move(entry)); }

  CaseOutcome Run(Problem problem, DType in, std::string provider,
                  DType out = DType::kUnspecified) {
    class NoObserver : public PhaseObserver {
     public:
      void Enter(Phase) override {}
    } observer;
    Case c;
    c.problem = std::move(problem);
    c.dtype = in;
    c.out_dtype = out;
    c.provider = std::move(provider);
    c.seed = 7;
    return CaseRunner(*device_, registry_, nullptr).Run(c, observer);
  }
  Device& device() { return *device_; }

 private:
  std::unique_ptr<Device> device_;
  Registry registry_;
};

}  // namespace assay

#endif  // ASSAY_TESTS_UNIT_PROVIDERS_VENDOR_TESTING_H_
