// What the residuals say of a GPU's kernels, under the emulator: right kernels reach what is
// declared, and a kernel that loses bits fails by its precision, although each of its elements is
// within the bound. Nothing else looks: the cases have no probes.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/backends/gpu_backend.h"
#include "kernels/providers/planted/tamper.h"
#include "kernels/providers/provider.h"
#include "kernels/runtime/gpu/stream_of.h"
#include "kernels/simt/engine.h"
#include "kernels/text/cat.h"
#include "kernels/validate/runner.h"
#include "tests/outcome_text.h"

namespace assay {
namespace {

KernelFactory BuiltInFactory(const Case& c) {
  static const auto* const registry = [] {
    auto* all = new Registry;
    GpuBackend().Register(*all);
    return all;
  }();
  const KernelEntry* entry = registry->Find(OpName(c.problem), "builtin", gpu::BackendName());
  return entry == nullptr ? nullptr : entry->make;
}

// The built-in kernel, with one bit of each element's code flipped.
class CoarseKernel final : public Kernel {
 public:
  CoarseKernel(std::unique_ptr<Kernel> right, Device& device, std::uint64_t bit)
      : right_(std::move(right)), device_(device), bit_(bit) {}

  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    if (absl::Status s = right_->Launch(inputs, output); !s.ok()) return s;
    const absl::StatusOr<gpu::Stream> stream = gpu::StreamOf(device_);
    if (!stream.ok()) return stream.status();
    const Extents& e = output.extents;
    gpu::Tamper flip{.change = gpu::Change::kFlip, .view = output, .code = bit_};
    flip.tile = {0, 0, 0, e.batch, e.rows, e.cols};
    EXPECT_EQ(gpu::LaunchTamper(flip, *stream), gpu::kOk);
    return absl::OkStatus();
  }

 private:
  std::unique_ptr<Kernel> right_;
  Device& device_;
  const std::uint64_t bit_;
};

absl::StatusOr<std::unique_ptr<Kernel>> MakeCoarse(const Case& c, const Plan& plan,
                                                   Device& device) {
  auto right = BuiltInFactory(c)(c, plan, device);
  if (!right.ok()) return right.status();
  // 16 units in the last place, or 32: below the bound, and above what rounding usually does.
  const std::uint64_t bit = std::holds_alternative<AttentionProblem>(c.problem) ? 0x20 : 0x10;
  return std::make_unique<CoarseKernel>(*std::move(right), device, bit);
}

bool Has(const CaseOutcome& outcome, Reason reason) {
  return std::any_of(outcome.findings.begin(), outcome.findings.end(),
                     [&](const Finding& f) { return f.reason == reason; });
}

// Long sums: the bound of an element is far above what rounding usually does.
std::vector<Problem> Problems() {
  AttentionProblem attention;
  attention.heads = 1;
  attention.seq = 40;
  attention.kv_seq = 260;
  attention.dim = 32;
  AttentionProblem causal = attention;
  causal.seq = 66;
  causal.kv_seq = 132;
  causal.causal = true;
  return {attention,
          causal,
          SoftmaxProblem{.rows = 16, .cols = 520},
          LayerNormProblem{.rows = 16, .cols = 520},
          LayerNormProblem{.rows = 16, .cols = 520, .affine = true},
          LayerNormProblem{.rows = 16, .cols = 520, .affine = true, .rms = true},
          DequantSoftmaxProblem{.m = 16, .n = 520, .k = 33}};
}

class SimtPrecision : public ::testing::TestWithParam<int> {
 protected:
  SimtPrecision() {
    simt::CurrentConfig() = simt::Config{};
    simt::CurrentConfig().wave_width = GetParam();
    simt::TakeFaults();
    device_ = *GpuBackend().MakeDevice(0, ArenaOptions{.max_bytes = std::int64_t{64} << 20});
    GpuBackend().Register(registry_);
    for (const Problem& problem : Problems()) {
      if (registry_.Find(OpName(problem), "coarse", gpu::BackendName()) != nullptr) continue;
      registry_.Add({.op = OpName(problem),
                     .provider = "coarse",
                     .backend = gpu::BackendName(),
                     .dtypes = {DType::kF32},
                     .make = &MakeCoarse,
                     .version = {},
                     .unavailable_reason = {}});
    }
  }
  ~SimtPrecision() override {
    device_.reset();
    for (const simt::Fault& fault : simt::TakeFaults()) ADD_FAILURE() << fault.message;
    simt::CurrentConfig() = simt::Config{};
  }

  CaseOutcome Run(const Problem& problem, DType dtype, std::string provider, std::uint64_t seed) {
    Case c;
    c.problem = problem;
    c.dtype = dtype;
    c.provider = std::move(provider);
    c.seed = seed;
    c.probes = false;
    PhaseObserver observer;
    return CaseRunner(*device_, registry_, nullptr).Run(c, observer);
  }

  std::unique_ptr<Device> device_;
  Registry registry_;
};
INSTANTIATE_TEST_SUITE_P(Waves, SimtPrecision, ::testing::Values(32, 64));

TEST_P(SimtPrecision, RightKernelsReachWhatIsDeclared) {
  for (const Problem& problem : Problems()) {
    for (const DType t : {DType::kF32, DType::kF16, DType::kBF16}) {
      const CaseOutcome outcome = Run(problem, t, "builtin", 1);
      const std::string what = Cat(OpName(problem), " ", Name(t), ": ", Describe(outcome));
      EXPECT_EQ(outcome.verdict, Verdict::kPassed) << what;
      ASSERT_TRUE(outcome.precision.has_value()) << what;
      EXPECT_GT(outcome.precision->rms, 0) << what;
      EXPECT_LT(outcome.precision->rms, 1.2) << what;
    }
  }
}

TEST_P(SimtPrecision, LostBitsAreFoundBelowTheBound) {
  for (const Problem& problem : Problems()) {
    const CaseOutcome outcome = Run(problem, DType::kF32, "coarse", 1);
    const std::string what = Cat(OpName(problem), ": ", Describe(outcome));
    EXPECT_EQ(outcome.verdict, Verdict::kFailed) << what;
    EXPECT_TRUE(Has(outcome, Reason::kPrecision)) << what;
    EXPECT_FALSE(Has(outcome, Reason::kBound)) << what;
    ASSERT_TRUE(outcome.precision.has_value()) << what;
    EXPECT_GT(outcome.precision->rms, 2) << what;
  }
}

}  // namespace
}  // namespace assay
