// What the tests of the GPU's compare passes share: kinds of data, memory of exactly its
// size, and when a result is the plain loops'.
#ifndef ASSAY_TESTS_SIMT_COMPARE_SIMT_H_
#define ASSAY_TESTS_SIMT_COMPARE_SIMT_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "tests/unit/runtime/compare_testing.h"

namespace assay {

inline constexpr Kind kKinds[] = {Kind::kClean,   Kind::kWrong, Kind::kSparse,
                                  Kind::kSpecial, Kind::kExact, Kind::kNoAllowance};

// To the bit, but for the sums.
inline void ExpectTheSame(const CompareResult& gpu, const CompareResult& plain) {
  ExpectSame(gpu, plain);
  EXPECT_EQ(gpu.rho, plain.rho);
  EXPECT_EQ(gpu.rho_proven, plain.rho_proven);
  EXPECT_EQ(gpu.max_rel_error, plain.max_rel_error);
  EXPECT_EQ(gpu.max_ulp, plain.max_ulp);
}

// On the heap in exactly its size, so that the address sanitizer sees both ends, and
// `shift` bytes off any alignment.
struct Tight {
  explicit Tight(const Data& data, std::size_t shift = 0)
      : storage(static_cast<std::size_t>(data.request.output.bytes()) + shift),
        request(data.request) {
    std::copy_n(data.storage.data(), storage.size() - shift, storage.data() + shift);
    request.output.data = storage.data() + shift;
  }
  std::vector<unsigned char> storage;
  CompareRequest request;
};

}  // namespace assay

#endif  // ASSAY_TESTS_SIMT_COMPARE_SIMT_H_
