// Shared code of the built-in CPU kernels above the SIMD code: kernels that are functions,
// refusals, formats, the choice of streaming stores, and registry entries.
//
// Any thread may call the functions.
#ifndef ASSAY_KERNELS_PROVIDERS_BUILTIN_COMMON_H_
#define ASSAY_KERNELS_PROVIDERS_BUILTIN_COMMON_H_

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/providers/provider.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels::internal {

// A kernel that is a function of the views.
class FunctionKernel final : public Kernel {
 public:
  using Function = std::function<absl::Status(std::span<const TensorView>, const TensorView&)>;

  FunctionKernel(std::string implementation, Function launch, const Accumulator& accumulator)
      : implementation_(std::move(implementation)),
        launch_(std::move(launch)),
        accumulator_(accumulator) {}

  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    return launch_(inputs, output);
  }
  Accumulator accumulator() const override { return accumulator_; }
  std::string implementation() const override { return implementation_; }

 private:
  const std::string implementation_;
  const Function launch_;
  const Accumulator accumulator_;
};

inline absl::StatusOr<std::unique_ptr<Kernel>> Made(std::string implementation,
                                                    FunctionKernel::Function launch,
                                                    const Accumulator& accumulator = {}) {
  return std::make_unique<FunctionKernel>(std::move(implementation), std::move(launch),
                                          accumulator);
}

// The SIMD target that the CPU kernels run on: "AVX3_ZEN4".
std::string BuiltinTarget();

// "the built-in softmax has no fp32 to int8 form; it has …".
inline absl::Status NoSuchForm(std::string_view op, DType in, DType out, std::string_view has) {
  std::string message("the built-in ");
  message.append(op).append(" has no ").append(Name(in)).append(" to ").append(Name(out));
  message.append(" form; it has ").append(has);
  return absl::UnimplementedError(message);
}

// Whether a format is an 8- or 4-bit float (codes-inl.h).
inline bool IsCoded(DType t) { return !Info(t).is_integer && Info(t).storage_bits < 16; }

// The formats of the floating-point kernels. The output has the input's format, or fp32 if the
// input is tf32 or 16-bit, or fp32, fp16 or bf16 if the input is an 8- or 4-bit float.
inline bool IsFloatForm(DType in, DType out) {
  const bool half = out == DType::kF16 || out == DType::kBF16;
  if (IsCoded(in)) return half || out == DType::kF32;
  if (in == out) return half || out == DType::kF32 || out == DType::kF64;
  return out == DType::kF32 && (in == DType::kTF32 || in == DType::kF16 || in == DType::kBF16);
}
inline constexpr std::string_view kFloatForms =
    "fp64, fp32, fp16 and bf16, fp32 from tf32, fp16 or bf16, and fp32, fp16 or bf16 from 8-bit "
    "floats";
inline std::vector<DType> FloatFormats() {
  return {DType::kF64,    DType::kF32,      DType::kTF32, DType::kF16,     DType::kBF16,
          DType::kE4M3FN, DType::kE4M3FNUZ, DType::kE5M2, DType::kE5M2FNUZ};
}
inline std::vector<DType> FloatFormatsAnd(std::initializer_list<DType> more) {
  std::vector<DType> formats = FloatFormats();
  formats.insert(formats.end(), more);
  return formats;
}

// Refuses a gemm of int8 to int32 whose alpha or beta is no int32.
inline absl::Status CheckWholeScalars(const GemmProblem& p) {
  const auto whole = [](double v) { return v == std::nearbyint(v) && std::abs(v) < 0x1p31; };
  if (whole(p.alpha) && whole(p.beta)) return absl::OkStatus();
  return absl::UnimplementedError(Cat("the built-in int8 gemm computes in int32: gemm.alpha ",
                                      p.alpha, " and gemm.beta ", p.beta,
                                      " must be whole numbers below 2^31"));
}

// A number in the precision of the kernel: fp64 if the inputs are fp64, otherwise fp32.
inline double KernelScalar(DType in, double value) {
  return in == DType::kF64 ? value : static_cast<double>(static_cast<float>(value));
}

// Calls run(T(), TOut()) with the element types of a form that IsFloatForm accepts. The 16-bit
// types belong to the SIMD target, so the caller passes them. tf32 is held as fp32.
template <class F16, class BF16, class Coded, class Run>
void WithFloatForm(DType in, DType out, const Run& run) {
  const auto from = [&](auto coded_or_half) {
    if (out == DType::kF16) return run(coded_or_half, F16());
    if (out == DType::kBF16) return run(coded_or_half, BF16());
    return run(coded_or_half, float());
  };
  switch (in) {
    case DType::kF64:  // NOLINT(bugprone-branch-clone): the types differ
      return run(double(), double());
    case DType::kF32:
    case DType::kTF32:
      return run(float(), float());
    case DType::kF16:
      return out == DType::kF32 ? run(F16(), float()) : run(F16(), F16());
    case DType::kBF16:
      return out == DType::kF32 ? run(BF16(), float()) : run(BF16(), BF16());
    default:
      return from(Coded());
  }
}

// Whether stores should bypass the caches. That pays if input and output together, `bytes`, do not
// fit into the last-level cache, because it saves reading the output's lines.
inline bool StreamingPays(const Device& device, std::int64_t bytes) {
  std::int64_t last_level = 32 << 20;  // if the device does not say
  const auto& properties = device.info().properties;
  if (const auto it = properties.find("l3_bytes"); it != properties.end()) {
    const std::int64_t told = std::strtoll(it->second.c_str(), nullptr, 10);
    if (told > 0) last_level = told;
  }
  return bytes > last_level;
}

// Whether every row starts at a vector boundary of any target, as streaming stores need.
inline bool RowsAligned(const TensorView& v) {
  return reinterpret_cast<std::uintptr_t>(v.data) % 64 == 0 &&
         StorageBytes(v.dtype, v.extents.ld) % 64 == 0;
}

inline KernelEntry BuiltinEntry(std::string_view op, std::vector<DType> dtypes,
                                KernelFactory make) {
  return KernelEntry{op, "builtin", "cpu", std::move(dtypes), make, ASSAY_VERSION};
}

}  // namespace assay::kernels::internal

#endif  // ASSAY_KERNELS_PROVIDERS_BUILTIN_COMMON_H_
