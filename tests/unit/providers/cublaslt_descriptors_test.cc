// The real cuBLASLt, where it is installed, takes every descriptor that the provider makes:
// none of that needs a device. What it would compute is not looked at.
#include <gtest/gtest.h>

#include <string>

#include "kernels/ops/op.h"
#include "kernels/providers/cublaslt/description.h"

namespace assay {
namespace {

TEST(CublasltDescriptors, AreTakenByTheLibraryItself) {
  const absl::StatusOr<const cublaslt::Api*>& api = cublaslt::Load();
  if (!api.ok()) GTEST_SKIP() << api.status().message();
  struct Form {
    DType in, out;
  };
  int described = 0;
  for (const Form form : {Form{DType::kF64, DType::kF64}, Form{DType::kF32, DType::kF32},
                          Form{DType::kTF32, DType::kF32}, Form{DType::kF16, DType::kF16},
                          Form{DType::kBF16, DType::kF32}, Form{DType::kE4M3FN, DType::kE4M3FN},
                          Form{DType::kI8, DType::kI32}}) {
    for (const std::string activation : {"none", "relu", "gelu_tanh"}) {
      for (const bool fused : {false, true}) {
        if (form.in == DType::kI8 && (fused || activation != "none")) continue;
        Case c;
        GemmProblem p{.m = 32, .n = 48, .k = 64, .batch = 3, .trans_b = true};
        p.beta = form.out == DType::kE4M3FN ? 0 : 1;
        p.bias = p.channel_scale = fused;
        p.activation = activation;
        c.problem = p;
        c.dtype = form.in;
        c.out_dtype = form.out;
        const absl::StatusOr<Plan> plan = FindOp("gemm")->MakePlan(c);
        ASSERT_TRUE(plan.ok()) << plan.status();
        const auto formats = cublaslt::FormatsOf(form.in, form.out);
        ASSERT_TRUE(formats.ok()) << formats.status();
        cublaslt::Descriptors d(**api);
        cublaslt::Describe(p, *plan, *formats, d);
        cublaslt::Prefer(32 << 20, d);
        EXPECT_TRUE(d.status.ok()) << Name(form.in) << " " << p.Describe() << ": " << d.status;
        ++described;
      }
    }
  }
  EXPECT_EQ(described, 6 * 6 + 1);
}

}  // namespace
}  // namespace assay
