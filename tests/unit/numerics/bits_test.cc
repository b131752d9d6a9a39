#include "kernels/numerics/bits.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <random>

namespace assay {
namespace {

template <class T>
void ExpectAsTheStandardLibrary(T v) {
  EXPECT_EQ(CountOnes(v), std::popcount(v)) << v;
  EXPECT_EQ(CountLeadingZeros(v), std::countl_zero(v)) << v;
  EXPECT_EQ(CountTrailingZeros(v), std::countr_zero(v)) << v;
  EXPECT_EQ(BitWidth(v), static_cast<int>(std::bit_width(v))) << v;
  EXPECT_EQ(HasOneBit(v), std::has_single_bit(v)) << v;
}

template <class T>
void ExpectAll() {
  ExpectAsTheStandardLibrary<T>(0);
  ExpectAsTheStandardLibrary<T>(static_cast<T>(-1));
  std::mt19937_64 draw(1);
  for (int bit = 0; bit < kBitsOf<T>; ++bit) {
    ExpectAsTheStandardLibrary<T>(static_cast<T>(T{1} << bit));
    ExpectAsTheStandardLibrary<T>(static_cast<T>(draw() >> bit));
  }
}

TEST(Bits, AreCountedAsTheStandardLibraryDoesOnTheHost) {
  ExpectAll<std::uint32_t>();
  ExpectAll<std::uint64_t>();
  ExpectAll<unsigned long long>();
}

}  // namespace
}  // namespace assay
