// Runs gemm with cublasLtMatmul; cublaslt.h explains the swap of operands.
//
// The library decides what it supports. The problem is described to it as it is. If its heuristic
// has no algorithm, the refusal says what is known of the library's requirements.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "kernels/providers/cublaslt/api.h"
#include "kernels/providers/cublaslt/cublaslt.h"
#include "kernels/providers/cublaslt/description.h"
#include "kernels/providers/cublaslt/forms.h"
#include "kernels/runtime/gpu/stream_of.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

using cublaslt::Api;
using cublaslt::ArchitectureOf;
using cublaslt::CheckProblem;
using cublaslt::Describe;
using cublaslt::Descriptors;
using cublaslt::Formats;
using cublaslt::FormatsOf;
using cublaslt::StatusOf;

// The workspace sizes that NVIDIA's documentation recommends: for Hopper and later, and for older
// devices.
constexpr std::int64_t kWorkspaceHopper = 32 << 20;
constexpr std::int64_t kWorkspace = 4 << 20;
constexpr int kAlgorithms = 16;  // proposals to ask the heuristic for

// alpha or beta in the scale type.
struct Scalar {
  Scalar(cudaDataType_t type, double value) {
    if (type == CUDA_R_64F) {
      bits.f64 = value;
    } else if (type == CUDA_R_32I) {
      bits.i32 = static_cast<std::int32_t>(value);
    } else {
      bits.f32 = static_cast<float>(value);
    }
  }
  union {
    double f64;
    float f32;
    std::int32_t i32;
  } bits;
};

// An algorithm that the heuristic proposes, with its description.
struct Algorithm {
  cublasLtMatmulAlgo_t algo = {};
  std::int64_t workspace = 0;
  bool plain = false;  // the library says: fused multiply-adds alone, no matrix unit
  std::string text;
};

template <class T>
T ConfigOf(const Api& api, const cublasLtMatmulAlgo_t& algo,
           cublasLtMatmulAlgoConfigAttributes_t attribute, T fallback) {
  T value = fallback;
  std::size_t written = 0;
  const cublasStatus_t status = api.config_get(&algo, attribute, &value, sizeof value, &written);
  return status == CUBLAS_STATUS_SUCCESS ? value : fallback;
}

std::string_view UnitOf(std::uint64_t flags) {
  if ((flags & CUBLASLT_NUMERICAL_IMPL_FLAGS_HMMA) != 0) return ", hmma";
  if ((flags & CUBLASLT_NUMERICAL_IMPL_FLAGS_IMMA) != 0) return ", imma";
  if ((flags & CUBLASLT_NUMERICAL_IMPL_FLAGS_DMMA) != 0) return ", dmma";
  if ((flags & CUBLASLT_NUMERICAL_IMPL_FLAGS_FMA) != 0) return ", fma";
  return "";
}

// What an algorithm's products are made with.
constexpr std::uint64_t kUnits =
    CUBLASLT_NUMERICAL_IMPL_FLAGS_FMA | CUBLASLT_NUMERICAL_IMPL_FLAGS_HMMA |
    CUBLASLT_NUMERICAL_IMPL_FLAGS_IMMA | CUBLASLT_NUMERICAL_IMPL_FLAGS_DMMA;

// Chooses the first algorithm whose sums are in the compute type from end to end.
absl::StatusOr<Algorithm> Choose(const Descriptors& d, cublasLtHandle_t handle) {
  std::array<cublasLtMatmulHeuristicResult_t, kAlgorithms> results = {};
  int found = 0;
  const cublasStatus_t status = d.api.heuristic(handle, d.desc, d.a, d.b, d.c, d.d, d.preference,
                                                kAlgorithms, results.data(), &found);
  if (status != CUBLAS_STATUS_SUCCESS) return StatusOf(status, "the heuristic");
  for (int i = 0; i < found; ++i) {
    const cublasLtMatmulHeuristicResult_t& r = results[static_cast<std::size_t>(i)];
    if (r.state != CUBLAS_STATUS_SUCCESS) continue;
    const auto split = ConfigOf<std::int32_t>(d.api, r.algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, 1);
    const auto scheme = ConfigOf<std::uint32_t>(
        d.api, r.algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, CUBLASLT_REDUCTION_SCHEME_NONE);
    std::uint64_t flags = 0;
    std::size_t written = 0;
    if (d.api.capability_get(&r.algo, CUBLASLT_ALGO_CAP_NUMERICAL_IMPL_FLAGS, &flags, sizeof flags,
                             &written) != CUBLAS_STATUS_SUCCESS) {
      flags = 0;
    }
    if ((flags & CUBLASLT_NUMERICAL_IMPL_FLAGS_ACCUMULATOR_16F) != 0) continue;
    if (split > 1 && scheme != CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) continue;
    return Algorithm{
        r.algo, static_cast<std::int64_t>(r.workspaceSize),
        (flags & kUnits) == CUBLASLT_NUMERICAL_IMPL_FLAGS_FMA,
        Cat("cublaslt ", d.api.version, " algo ",
            ConfigOf<std::int32_t>(d.api, r.algo, CUBLASLT_ALGO_CONFIG_ID, -1), " tile id ",
            ConfigOf<std::uint32_t>(d.api, r.algo, CUBLASLT_ALGO_CONFIG_TILE_ID, 0), " stages id ",
            ConfigOf<std::uint32_t>(d.api, r.algo, CUBLASLT_ALGO_CONFIG_STAGES_ID, 0), " split-k ",
            split, UnitOf(flags), ", workspace ", r.workspaceSize, " bytes")};
  }
  return absl::UnimplementedError(
      Cat("cuBLASLt ", d.api.version, "'s heuristic has ", found,
          " algorithms for this problem, none of which sums in the compute type throughout"));
}

class GemmKernel final : public Kernel {
 public:
  GemmKernel(const GemmProblem& p, const Formats& f, bool narrow, Device& device,
             cublasLtHandle_t handle, std::unique_ptr<Descriptors> descriptors, Algorithm algorithm,
             void* workspace)
      : p_(p),
        vector_alpha_(p.channel_scale && f.in != CUDA_R_8F_E4M3),
        fp8_(f.in == CUDA_R_8F_E4M3),
        tf32_(f.compute == CUBLAS_COMPUTE_32F_FAST_TF32),
        narrow_(narrow),
        device_(device),
        handle_(handle),
        d_(std::move(descriptors)),
        algorithm_(std::move(algorithm)),
        workspace_(workspace),
        alpha_(f.scale, Factor(p, f)),
        beta_(f.scale, p.beta) {}

  // FP8's scales are set in the library, as pointers.
  static double Factor(const GemmProblem& p, const Formats& f) {
    if (f.in == CUDA_R_8F_E4M3) return p.alpha;
    if (f.scale == CUDA_R_64F) return p.alpha * p.scale_a * p.scale_b;
    return static_cast<double>(static_cast<float>(p.alpha) * static_cast<float>(p.scale_a) *
                               static_cast<float>(p.scale_b));
  }

  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    const absl::StatusOr<gpu::Stream> stream = gpu::StreamOf(device_);
    if (!stream.ok()) return stream.status();
    const auto data = [&](int operand) -> const void* {
      return inputs[static_cast<std::size_t>(operand)].data;
    };
    if (p_.bias) d_->Set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, data(p_.bias_operand()), "the bias");
    if (p_.channel_scale && fp8_) {
      d_->Set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, data(p_.channel_scale_operand()), "the scale");
    }
    if (!d_->status.ok()) return d_->status;
    const void* alpha = vector_alpha_ ? data(p_.channel_scale_operand()) : &alpha_.bits;
    const void* c = p_.beta != 0.0 ? data(2) : output.data;
    return StatusOf(d_->api.matmul(handle_, d_->desc, alpha, data(1), d_->a, data(0), d_->b,
                                   &beta_.bits, c, d_->c, output.data, d_->d, &algorithm_.algo,
                                   workspace_, static_cast<std::size_t>(algorithm_.workspace),
                                   static_cast<cudaStream_t>(*stream)),
                    "the launch");
  }

  // On Hopper the tensor cores add blocks of 32 FP8 products in 14 bits, truncating (measured by
  // DeepSeek-AI, DeepSeek-V3 Technical Report, 2024, section 3.3.2). With accurate accumulation the
  // library adds such sums in fp32 after some instructions of 32 products: 4 of them in CUTLASS,
  // whose kernels it has. Of other formats nothing is published but that tensor cores cut off (M.
  // Fasi, N. Higham, M. Mikaitis, S. Pranesh, "Numerical behavior of NVIDIA tensor cores", PeerJ
  // Computer Science 7 (2021)).
  // The library calls some of its TF32 algorithms plain, and they cut off (cuBLASLt 13.1, algorithm
  // 43, on an H100).
  Accumulator accumulator() const override {
    if (algorithm_.plain && !tf32_) return {};
    if (narrow_) {
      return {kNarrowestRoundoff, kNarrowBlock, {kNarrowestRoundoff, kNarrowBlock, -1, 128}};
    }
    return {.truncation = {.roundoff = kTruncatedRoundoff}};
  }
  std::string implementation() const override { return algorithm_.text; }

 private:
  const GemmProblem p_;
  const bool vector_alpha_;
  const bool fp8_;
  const bool tf32_;
  const bool narrow_;
  Device& device_;
  const cublasLtHandle_t handle_;
  const std::unique_ptr<Descriptors> d_;
  const Algorithm algorithm_;
  void* const workspace_;
  const Scalar alpha_;
  const Scalar beta_;
};

// Puts FP8's scales of A and B into device memory: one number each. If B has a scale for each
// column, A gets a scale for each row.
absl::Status SetFp8Scales(const GemmProblem& p, Device& device, Descriptors& d) {
  const std::int8_t accurate = 0;
  d.Set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, accurate, "accurate accumulation");
  if (!p.channel_scale && p.scale_a == 1.0 && p.scale_b == 1.0) return d.status;
  constexpr std::size_t kApart = 64;  // [floats] between the two scales
  std::vector<float> scales;
  const auto a = static_cast<float>(p.scale_a), b = static_cast<float>(p.scale_b);
  if (p.channel_scale) {
    scales.assign(static_cast<std::size_t>(p.m), a * b);
  } else {
    scales.assign(kApart + 1, a);
    scales[kApart] = b;
  }
  const auto bytes = static_cast<std::int64_t>(scales.size() * sizeof(float));
  const absl::StatusOr<Block> block = device.arena().Allocate(bytes, /*guarded=*/false);
  if (!block.ok()) return block.status();
  if (absl::Status s = device.FromHost(scales.data(), bytes, block->data); !s.ok()) return s;
  const void* const rows = block->data;
  d.Set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, rows, "A's scale");
  if (p.channel_scale) {
    const std::int32_t outer = CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
    d.Set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, outer, "a scale a column");
    d.Set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, outer, "a scale a row");
    d.Set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, cublaslt::kAligned, "a scale a column");
  } else {
    const void* const columns = static_cast<const float*>(block->data) + kApart;
    d.Set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, columns, "B's scale");
  }
  return d.status;
}

// Adds to "…: CUBLAS_STATUS_NOT_SUPPORTED" what may be missing.
absl::Status Explained(const absl::Status& refused, const GemmProblem& p, DType in) {
  if (!absl::IsUnimplemented(refused)) return refused;
  std::string more;
  if (in == DType::kI8) {
    more =
        "; its int8 kernels need gemm.trans_a false, gemm.trans_b true, and n, k and leading "
        "dimensions in multiples of 4";
  } else if (p.channel_scale) {
    more = "; a scale a column (gemm.channel_scale) exists for few formats";
  }
  return absl::UnimplementedError(
      Cat(refused.message(), " for ", Name(in), " gemm ", p.Describe(), more));
}

absl::StatusOr<std::unique_ptr<Kernel>> Make(const Case& c, const Plan& plan, Device& device) {
  const auto& p = std::get<GemmProblem>(c.problem);
  const absl::StatusOr<const Api*>& api = cublaslt::Load();
  if (!api.ok()) return api.status();
  const absl::StatusOr<Formats> f = FormatsOf(c.dtype, plan.output.dtype);
  if (!f.ok()) return f.status();
  const int architecture = ArchitectureOf(device);
  if (absl::Status s = CheckProblem(p, plan, architecture); !s.ok()) return s;
  const absl::StatusOr<cublasLtHandle_t> handle = cublaslt::Handle();
  if (!handle.ok()) return handle.status();

  auto d = std::make_unique<Descriptors>(**api);
  Describe(p, plan, *f, *d);
  if (!d->status.ok()) return Explained(d->status, p, c.dtype);
  if (c.dtype == DType::kE4M3FN) {
    if (absl::Status s = SetFp8Scales(p, device, *d); !s.ok()) return Explained(s, p, c.dtype);
  }
  const auto most = static_cast<std::uint64_t>(std::clamp<std::int64_t>(
      device.arena().available_bytes(1), 0, architecture >= 90 ? kWorkspaceHopper : kWorkspace));
  cublaslt::Prefer(most, *d);
  if (!d->status.ok()) return d->status;

  absl::StatusOr<Algorithm> algorithm = Choose(*d, *handle);
  if (!algorithm.ok()) return Explained(algorithm.status(), p, c.dtype);
  void* workspace = nullptr;
  if (algorithm->workspace > 0) {
    const absl::StatusOr<Block> block =
        device.arena().Allocate(algorithm->workspace, /*guarded=*/true);
    if (!block.ok()) return block.status();
    workspace = block->data;
  }
  const bool narrow = c.dtype == DType::kE4M3FN && architecture == 90;
  return std::make_unique<GemmKernel>(p, *f, narrow, device, *handle, std::move(d),
                                      *std::move(algorithm), workspace);
}

}  // namespace

KernelEntry CublasltGemm(std::string_view backend) {
  const absl::StatusOr<const Api*>& api = cublaslt::Load();
  return KernelEntry{.op = "gemm",
                     .provider = "cublaslt",
                     .backend = backend,
                     .dtypes = {DType::kF64, DType::kF32, DType::kTF32, DType::kF16, DType::kBF16,
                                DType::kE4M3FN, DType::kI8},
                     .make = &Make,
                     .version = api.ok() ? (*api)->version : "",
                     .unavailable_reason = api.ok() ? "" : std::string(api.status().message())};
}

}  // namespace assay::kernels
