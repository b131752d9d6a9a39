// What leaves a GPU while cases run on it, counted by the emulator's driver: some words a
// case, whatever its size, and no device memory is taken once the arena is.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "kernels/backends/gpu_backend.h"
#include "kernels/providers/provider.h"
#include "kernels/simt/engine.h"
#include "kernels/text/cat.h"
#include "kernels/validate/runner.h"
#include "simt/host_control.h"
#include "tests/sample_problems.h"

namespace assay {
namespace {

// Off the device, a case: some 300 for each launch that is judged, those of up to four probes among
// them. The residual pass has 216 for each of two launches.
constexpr std::int64_t kMostBytes = 2560;
constexpr std::int64_t kMostCopies = 48;  // some 7 a probe

class SimtTraffic : public ::testing::Test {
 protected:
  SimtTraffic() {
    simt::CurrentConfig() = simt::Config{};
    simt::TakeFaults();
    GpuBackend().Register(registry_);
    device_ = *GpuBackend().MakeDevice(0, ArenaOptions{.max_bytes = std::int64_t{64} << 20});
    Run(CaseOf(CopyProblem{.count = 7}, DType::kF32));  // takes the arena
  }
  ~SimtTraffic() override {
    for (const simt::Fault& fault : simt::TakeFaults()) ADD_FAILURE() << fault.message;
  }

  CaseOutcome Run(const Case& c) {
    PhaseObserver observer;
    return CaseRunner(*device_, registry_, nullptr).Run(c, observer);
  }
  static Case CaseOf(const Problem& problem, DType dtype) {
    Case c;
    c.problem = problem;
    c.dtype = dtype;
    c.provider = "builtin";
    c.seed = 7;
    return c;
  }

  Registry registry_;
  std::unique_ptr<Device> device_;
};

// The ordinary case of an op, and the forms of it that look at more; odd extents.
std::vector<Problem> ProblemsOf(std::string_view op) {
  if (op == "gemm") {
    GemmProblem full{.m = 17, .n = 24, .k = 40, .batch = 2, .trans_b = true, .beta = 1};
    full.bias = true;
    return {GemmProblem{.m = 33, .n = 29, .k = 65}, full};
  }
  if (op == "conv") {
    ConvProblem p;
    p.channels = 4;
    p.filters = 5;
    p.input = {7, 9};
    p.kernel = {3, 3};
    p.padding = {1};
    return {p};
  }
  if (op == "attention") {
    AttentionProblem p;
    p.heads = 6;
    p.kv_heads = 3;
    p.seq = 37;
    p.kv_seq = 37;
    p.dim = 64;
    AttentionProblem causal = p;
    causal.causal = true;
    return {p, causal};
  }
  if (op == "softmax") return {SoftmaxProblem{.rows = 15, .cols = 143}};
  if (op == "layer_norm") return {LayerNormProblem{.rows = 15, .cols = 143}};
  if (op == "dequant_softmax") return {DequantSoftmaxProblem{.m = 15, .n = 143, .k = 65}};
  if (op == "copy") return {CopyProblem{.count = 2570}};
  return SampleProblems(op);
}

// Its reference, guards, statistics, digests, recheck, probes and identities included.
TEST_F(SimtTraffic, FewBytesLeaveTheDeviceACaseWithItsProbes) {
  const simt::HostUse begin = simt::InUse();
  int runs = 0, probes = 0;
  std::int64_t most_bytes = 0, most_copies = 0;
  for (const KernelEntry& entry : registry_.entries()) {
    if (entry.provider != "builtin") continue;
    for (const DType dtype : entry.dtypes) {
      for (const Problem& problem : ProblemsOf(entry.op)) {
        const Case c = CaseOf(problem, dtype);
        if (!Check(c).empty()) continue;  // int8 takes no bias
        const simt::HostUse before = simt::InUse();
        const CaseOutcome outcome = Run(c);
        const simt::HostUse after = simt::InUse();
        const std::string what = Cat(entry.op, " ", Name(dtype));
        EXPECT_EQ(outcome.verdict, Verdict::kPassed)
            << what << ": " << (outcome.findings.empty() ? "" : outcome.findings[0].message);
        const std::int64_t bytes = after.bytes_to_host - before.bytes_to_host;
        const std::int64_t copies = after.copies_to_host - before.copies_to_host;
        EXPECT_LT(bytes, kMostBytes) << what;
        EXPECT_LT(copies, kMostCopies) << what;
        EXPECT_GT(copies, 0) << what;
        most_bytes = std::max(most_bytes, bytes);
        most_copies = std::max(most_copies, copies);
        ++runs;
        for (const ProbeOutcome& p : outcome.probes) probes += p.verdict == Verdict::kPassed;
      }
    }
  }
  EXPECT_GE(runs, 20);
  EXPECT_GE(probes, 30);
  RecordProperty("most_bytes", std::to_string(most_bytes));
  RecordProperty("most_copies", std::to_string(most_copies));
  EXPECT_EQ(simt::InUse().allocations, begin.allocations) << "memory was taken during a suite";
}

// However often a launch is repeated to be timed, and the caches emptied before each.
TEST_F(SimtTraffic, TimingTakesNoMoreOffTheDeviceAndNoMemory) {
  Case c = CaseOf(SoftmaxProblem{.rows = 129, .cols = 300}, DType::kF16);
  c.mode = Mode::kBenchmark;
  const simt::HostUse before = simt::InUse();
  const CaseOutcome outcome = Run(c);
  const simt::HostUse after = simt::InUse();
  EXPECT_EQ(outcome.verdict, Verdict::kPassed);
  ASSERT_TRUE(outcome.bench.has_value());
  EXPECT_TRUE(outcome.bench->from_memory);
  EXPECT_GE(outcome.bench->samples, 10);
  EXPECT_LT(after.bytes_to_host - before.bytes_to_host, kMostBytes);
  EXPECT_EQ(after.allocations, before.allocations);
}

// What the device says of itself is what its driver saw.
TEST_F(SimtTraffic, TheDeviceCountsWhatItsDriverDoes) {
  const simt::HostUse before = simt::InUse();
  const Traffic first = device_->traffic();
  Run(CaseOf(GemmProblem{.m = 33, .n = 29, .k = 65}, DType::kF16));
  const simt::HostUse after = simt::InUse();
  const Traffic last = device_->traffic();
  EXPECT_GT(last.copies_off, first.copies_off);
  EXPECT_EQ(last.copies_off - first.copies_off, after.copies_to_host - before.copies_to_host);
  EXPECT_EQ(last.bytes_off - first.bytes_off, after.bytes_to_host - before.bytes_to_host);
  EXPECT_EQ(last.copies_on - first.copies_on, after.copies_to_device - before.copies_to_device);
  EXPECT_EQ(last.bytes_on - first.bytes_on, after.bytes_to_device - before.bytes_to_device);
  EXPECT_EQ(last.allocations, first.allocations);
  device_->arena().Release();
  EXPECT_TRUE(device_->arena().Allocate(1, false).ok());
  EXPECT_EQ(device_->traffic().allocations, first.allocations + 1);
}

}  // namespace
}  // namespace assay
