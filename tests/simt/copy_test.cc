// The built-in GPU copy under the emulator: every byte, none beside, at any alignment.
#include <gtest/gtest.h>

#include <vector>

#include "kernels/providers/builtin/copy_builtin_gpu.h"
#include "simt/testing.h"

namespace assay::inline kernels::gpu {
namespace {

class SimtCopy : public SimtTest {};
INSTANTIATE_TEST_SUITE_P(Waves, SimtCopy,
                         ::testing::Values(Form{32, DType::kI8, DType::kI8},
                                           Form{64, DType::kI8, DType::kI8}));

TEST_P(SimtCopy, EveryByteAndNoOther) {
  for (const std::int64_t bytes : {1, 15, 16, 31, 33, 1000, 1025, 16384, 16400, 40001}) {
    for (const std::int64_t offset : {0, 1, 16}) {
      // From and to the end of what was allocated, so that the address sanitizer sees it.
      const auto size = static_cast<std::size_t>(bytes + offset);
      std::vector<unsigned char> from(size), to(size, HostTensor::kUntouched);
      for (std::size_t i = 0; i < size; ++i) from[i] = static_cast<unsigned char>(i * 7 + i / 256);
      ASSERT_EQ(LaunchCopyBytes(from.data() + offset, to.data() + offset, bytes, nullptr), kOk);
      for (std::size_t i = 0; i < size; ++i) {
        const bool copied = i >= static_cast<std::size_t>(offset);
        ASSERT_EQ(to[i], copied ? from[i] : HostTensor::kUntouched) << bytes << " at " << i;
      }
    }
  }
}

}  // namespace
}  // namespace assay::kernels::gpu
