// The factories behind the tables of planted.h, one for each operator. The case's provider names
// the defect.
#ifndef ASSAY_KERNELS_PROVIDERS_PLANTED_FACTORIES_H_
#define ASSAY_KERNELS_PROVIDERS_PLANTED_FACTORIES_H_

#include <bit>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string_view>

#include "kernels/numerics/convert.h"
#include "kernels/providers/provider.h"

namespace assay::inline kernels::planted {

using Made = absl::StatusOr<std::unique_ptr<Kernel>>;

Made MakeGemm(const Case& c, const Plan& plan, Device& device);
// The kernels of gemm whose defects hide below the bound.
Made MakeHiddenGemm(const Case& c, const Plan& plan);
Made MakeConv(const Case& c, const Plan& plan, Device& device);
Made MakeAttention(const Case& c, const Plan& plan, Device& device);
Made MakeSoftmax(const Case& c, const Plan& plan, Device& device);
Made MakeLayerNorm(const Case& c, const Plan& plan, Device& device);
Made MakeCopy(const Case& c, const Plan& plan, Device& device);
Made MakeDequantSoftmax(const Case& c, const Plan& plan, Device& device);
Made MakeReduce(const Case& c, const Plan& plan, Device& device);
Made MakeElementwise(const Case& c, const Plan& plan, Device& device);
Made MakeRope(const Case& c, const Plan& plan, Device& device);

// "wrong-tile" for "planted/wrong-tile"; empty if the provider is not a planted one.
std::string_view DefectOf(const Case& c);
absl::Status NoSuchDefect(const Case& c);

// The value of element (batch, row, col) of a view.
inline double Get(const TensorView& v, std::int64_t b, std::int64_t r, std::int64_t c) {
  return LoadDouble(v.dtype, v.data, b * v.extents.batch_stride + r * v.extents.ld + c);
}
// The value of element i of a dense view, by logical index.
inline double Get(const TensorView& v, std::int64_t i) { return LoadDouble(v.dtype, v.data, i); }

inline void PutBits(const TensorView& v, std::int64_t b, std::int64_t r, std::int64_t c,
                    std::uint64_t bits) {
  StoreBits(v.dtype, v.data, b * v.extents.batch_stride + r * v.extents.ld + c, bits);
}
inline void Put(const TensorView& v, std::int64_t b, std::int64_t r, std::int64_t c, double value) {
  PutBits(v, b, r, c, RoundToFormat(value, v.dtype));
}
inline void Put(const TensorView& v, std::int64_t i, double value) {
  StoreBits(v.dtype, v.data, i, RoundToFormat(value, v.dtype));
}

// `v` rounded to fp16. A float that is a normal number there loses 13 bits.
inline double ToHalf(double v) { return Quantise(v, DType::kF16); }
inline float ToHalf(float v) {
  if (!(std::fabs(v) >= 0x1p-14F && std::fabs(v) <= 65504.0F)) {
    return static_cast<float>(ToHalf(static_cast<double>(v)));
  }
  const auto bits = std::bit_cast<std::uint32_t>(v);
  return std::bit_cast<float>((bits + 0xfff + ((bits >> 13) & 1)) & ~std::uint32_t{0x1fff});
}

// `v` rounded to a code towards zero.
inline std::uint64_t Truncated(double v, DType format) {
  const std::uint64_t bits = RoundToFormat(v, format);
  return std::fabs(ToDouble(format, bits)) > std::fabs(v) ? bits - 1 : bits;
}

}  // namespace assay::kernels::planted

#endif  // ASSAY_KERNELS_PROVIDERS_PLANTED_FACTORIES_H_
