// Shared code for the tests of GPU kernels under the emulator: tensors of exactly their size with
// values rounded to their format, and a test fixture that reports the faults of launches.
#ifndef ASSAY_TESTS_SIMT_TESTING_H_
#define ASSAY_TESTS_SIMT_TESTING_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "kernels/numerics/convert.h"
#include "kernels/runtime/gpu/port.h"

namespace assay::inline kernels::gpu {

struct Form {
  int wave;
  DType in;
  DType out;
};

// A tensor on the heap without slack, so that the address sanitizer sees both ends.
class HostTensor {
 public:
  HostTensor(DType dtype, std::int64_t count, const std::function<double(std::int64_t)>& value)
      : dtype_(dtype), bytes_(static_cast<std::size_t>(StorageBytes(dtype, count))) {
    for (std::int64_t i = 0; i < count; ++i) {
      StoreBits(dtype_, bytes_.data(), i, RoundToFormat(value(i), dtype_));
    }
  }
  // Makes a tensor whose bytes all have one value. A kernel must overwrite it, or leave it alone.
  static constexpr unsigned char kUntouched = 0xA5;
  HostTensor(DType dtype, std::int64_t count)
      : dtype_(dtype), bytes_(static_cast<std::size_t>(StorageBytes(dtype, count)), kUntouched) {}

  void* data() { return bytes_.data(); }
  double operator[](std::int64_t i) const { return LoadDouble(dtype_, bytes_.data(), i); }
  bool Untouched(std::int64_t i) const {
    const auto width = static_cast<std::size_t>(StorageBytes(dtype_, 1));
    for (std::size_t b = 0; b < width; ++b) {
      if (bytes_[static_cast<std::size_t>(i) * width + b] != kUntouched) return false;
    }
    return true;
  }
  bool operator==(const HostTensor& other) const { return bytes_ == other.bytes_; }

 private:
  DType dtype_;
  std::vector<unsigned char> bytes_;
};

class SimtTest : public ::testing::TestWithParam<Form> {
 protected:
  SimtTest() {
    simt::CurrentConfig() = simt::Config{};
    simt::CurrentConfig().wave_width = GetParam().wave;
    simt::TakeFaults();
  }
  ~SimtTest() override {
    for (const simt::Fault& fault : simt::TakeFaults()) ADD_FAILURE() << fault.message;
    simt::CurrentConfig() = simt::Config{};
  }
};

inline const ::testing::internal::ParamGenerator<Form> kForms =
    ::testing::Values(Form{32, DType::kF32, DType::kF32}, Form{64, DType::kF32, DType::kF32},
                      Form{32, DType::kF16, DType::kF16}, Form{64, DType::kF16, DType::kF32},
                      Form{32, DType::kBF16, DType::kBF16}, Form{64, DType::kBF16, DType::kF32});

}  // namespace assay::kernels::gpu

#endif  // ASSAY_TESTS_SIMT_TESTING_H_
