// Shared code for the tests of the GPU's compare passes: kinds of data, memory of exactly the
// data's size, and the comparison of a result with that of the plain loops.
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

// Expects the same bits, except for the sums.
inline void ExpectTheSame(const CompareResult& gpu, const CompareResult& plain) {
  ExpectSame(gpu, plain);
  EXPECT_EQ(gpu.rho, plain.rho);
  EXPECT_EQ(gpu.rho_proven, plain.rho_proven);
  EXPECT_EQ(gpu.max_rel_error, plain.max_rel_error);
  EXPECT_EQ(gpu.max_ulp, plain.max_ulp);
}

// Holds the data on the heap in exactly their size, so that the address sanitizer sees both ends.
// The data begin `shift` bytes off any alignment.
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
