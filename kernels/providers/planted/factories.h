// The factories behind the table of planted.h, one an operator; which defect is
// meant is the case's provider.
#ifndef ASSAY_KERNELS_PROVIDERS_PLANTED_FACTORIES_H_
#define ASSAY_KERNELS_PROVIDERS_PLANTED_FACTORIES_H_

#include <string_view>

#include "kernels/numerics/convert.h"
#include "kernels/providers/provider.h"

namespace assay::planted {

using Made = absl::StatusOr<std::unique_ptr<Kernel>>;

Made MakeGemm(const Case& c, const Plan& plan, Device& device);
Made MakeConv(const Case& c, const Plan& plan, Device& device);
Made MakeAttention(const Case& c, const Plan& plan, Device& device);
Made MakeSoftmax(const Case& c, const Plan& plan, Device& device);
Made MakeLayerNorm(const Case& c, const Plan& plan, Device& device);
Made MakeCopy(const Case& c, const Plan& plan, Device& device);

// "wrong-tile" of "planted/wrong-tile"; empty where the provider is another.
std::string_view DefectOf(const Case& c);
absl::Status NoSuchDefect(const Case& c);

// Element (batch, row, col) of a view, as a value.
inline double Get(const TensorView& v, std::int64_t b, std::int64_t r, std::int64_t c) {
  return LoadDouble(v.dtype, v.data, b * v.extents.batch_stride + r * v.extents.ld + c);
}
// … of a dense view, by logical index.
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

// A running sum as a right kernel keeps it: in fp64 for fp64 and for integers, whose
// sums it holds exactly, else in fp32.
class Accumulator {
 public:
  explicit Accumulator(DType inputs) : wide_(inputs == DType::kF64 || Info(inputs).is_integer) {}

  void AddProduct(double a, double b) {
    if (wide_) {
      sum_ += a * b;
    } else {
      sum_ = static_cast<float>(sum_) + static_cast<float>(a) * static_cast<float>(b);
    }
  }
  double sum() const { return sum_; }

 private:
  bool wide_;
  double sum_ = 0;
};

}  // namespace assay::planted

#endif  // ASSAY_KERNELS_PROVIDERS_PLANTED_FACTORIES_H_
