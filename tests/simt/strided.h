// Tensors of many shapes for the tests of a GPU's primitives. Their storage has padding and exactly
// the right size, so that writes around the logical elements are found.
#ifndef ASSAY_TESTS_SIMT_STRIDED_H_
#define ASSAY_TESTS_SIMT_STRIDED_H_

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/numerics/convert.h"
#include "kernels/numerics/philox.h"
#include "kernels/runtime/tensor.h"
#include "simt/testing.h"

namespace assay::inline kernels::gpu {

inline constexpr DType kAllFormats[] = {
    DType::kF64,      DType::kF32,  DType::kTF32,     DType::kF16,  DType::kBF16, DType::kE4M3FN,
    DType::kE4M3FNUZ, DType::kE5M2, DType::kE5M2FNUZ, DType::kE2M1, DType::kI8,   DType::kI32};

inline std::vector<Extents> AwkwardExtents() {
  std::vector<Extents> all;
  for (const std::int64_t n : {1, 31, 33, 63, 65, 1000, 1025}) {
    all.push_back(Extents::Dense(1, 1, n));
  }
  all.push_back(Extents::Dense(3, 5, 33));
  all.push_back(Extents{1, 3, 130, 137, 0});         // padded rows
  all.push_back(Extents{1, 4, 64, 96, 0});           // padded rows that begin at 16 bytes
  all.push_back(Extents{2, 3, 33, 37, 3 * 37 + 5});  // padded rows and batches
  all.push_back(Extents{2, 5, 65, 65, 5 * 65 + 3});  // padded batches alone
  all.push_back(Extents{3, 1, 31, 40, 33});          // with one row ld has no meaning
  all.push_back(Extents{3, 2, 33, 36, 36 + 33});     // batches without padding between
  return all;
}

inline std::string Describe(DType t, const Extents& e) {
  return std::string(Name(t)) + " " + std::to_string(e.batch) + "x" + std::to_string(e.rows) + "x" +
         std::to_string(e.cols) + " ld " + std::to_string(e.ld) + " batch_stride " +
         std::to_string(e.batch_stride);
}

class Strided {
 public:
  // `shift`: the data begin so many bytes behind a multiple of 16.
  Strided(DType dtype, const Extents& extents, std::int64_t shift = 0)
      : extents_(extents), dtype_(dtype), shift_(shift) {
    bytes_.assign(static_cast<std::size_t>(StorageBytes(dtype, extents.span()) + shift),
                  HostTensor::kUntouched);
  }

  TensorView view() { return TensorView{bytes_.data() + shift_, dtype_, extents_}; }
  const std::vector<unsigned char>& bytes() const { return bytes_; }
  std::int64_t OffsetOf(std::int64_t i) const {
    const std::int64_t row = i / extents_.cols;
    return row / extents_.rows * extents_.batch_stride + row % extents_.rows * extents_.ld +
           i % extents_.cols;
  }
  void Store(std::int64_t i, std::uint64_t bits) {
    StoreBits(dtype_, bytes_.data() + shift_, OffsetOf(i), bits);
  }
  std::uint64_t Load(std::int64_t i) const {
    return LoadBits(dtype_, bytes_.data() + shift_, OffsetOf(i));
  }
  // Fills the storage and its padding with random codes, among them NaN and -0.
  void Scramble(std::uint64_t seed) {
    for (std::size_t i = 0; i < bytes_.size(); ++i) {
      bytes_[i] = static_cast<unsigned char>(PhiloxWord(seed, 1, 0, static_cast<std::int64_t>(i)));
    }
  }

 private:
  Extents extents_;
  DType dtype_;
  std::int64_t shift_;
  std::vector<unsigned char> bytes_;
};

inline const ::testing::internal::ParamGenerator<Form> kWaves =
    ::testing::Values(Form{32, DType::kF32, DType::kF32}, Form{64, DType::kF32, DType::kF32});

}  // namespace assay::kernels::gpu

#endif  // ASSAY_TESTS_SIMT_STRIDED_H_
