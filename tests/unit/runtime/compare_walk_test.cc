// How the SIMD pass walks over a tensor: tails, tensors smaller than a vector, sums that are not
// taken from squares, errors that lie exactly on a bound, and memory that it must not read.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/numerics/convert.h"
#include "kernels/runtime/cpu/compare_cpu.h"
#include "kernels/runtime/cpu/compare_simd.h"
#include "tests/unit/runtime/compare_testing.h"
#include "tests/unit/runtime/targets.h"

namespace assay {
namespace {

using internal::kCompareBlock;

// Every target gives what the plain loops give.
void ExpectPlain(const CompareRequest& request) {
  const CompareResult plain = *ComparePlain(request);
  ForEachTarget([&](const char* target) {
    SCOPED_TRACE(target);
    ExpectSame(*CompareCpu(request), plain);
  });
}

void FillWith(double value, Data* data) {
  for (std::int64_t i = 0; i < data->request.output.count(); ++i) {
    data->R(i) = value;
    data->E(i) = 0.0;
    data->Set(i, value);
  }
}

// The scalar code takes the elements behind the last whole vector. It counts their zeros, but the
// canonical digest needs the zeros' signs, too.
TEST(CompareWalk, NegativeZerosAndNaNsOfATailAreCanonical) {
  for (const DType t : kFormatsUnderTest) {
    for (const std::int64_t n : {std::int64_t{3}, kCompareBlock + 7}) {
      Data data(t, Extents::Dense(1, 1, n));
      FillWith(1.0, &data);
      const std::uint64_t one = RoundToFormat(1.0, t);
      for (std::int64_t i = std::max<std::int64_t>(0, n - 9); i < n; ++i) {
        SCOPED_TRACE(testing::Message() << Name(t) << " element " << i << " of " << n);
        data.R(i) = -0.0;
        data.Set(i, -0.0);
        ExpectPlain(data.request);
        data.R(i) = kNaN;
        data.Set(i, kNaN);
        ExpectPlain(data.request);
        data.R(i) = 1.0;
        data.SetBits(i, one);
      }
    }
  }
}

// Where every element is a NaN, as it should be, no element has an error.
TEST(CompareWalk, WorstElementOfATensorSmallerThanAVectorHasAnError) {
  for (std::int64_t n = 1; n <= 9; ++n) {
    Data data(DType::kF32, Extents::Dense(1, 1, n));
    FillWith(kNaN, &data);
    for (std::int64_t first = n; first >= 0; --first) {
      if (first < n) data.R(first) = 2.0;
      if (first < n) data.Set(first, 2.0);
      ForEachTarget([&](const char* target) {
        SCOPED_TRACE(testing::Message() << target << " " << n << " elements");
        EXPECT_EQ(CompareCpu(data.request)->worst.index, first < n ? first : -1);
      });
    }
  }
}

// o·r from the squares of o, r and their difference is accurate only if o is close to r.
TEST(CompareWalk, DotProductIsAccurateHoweverFarApartTheNumbersAre) {
  const auto expect = [](DType t, double output, double reference) {
    Data data(t, Extents::Dense(1, 1, kCompareBlock));
    for (std::int64_t i = 0; i < kCompareBlock; ++i) {
      const double varied = 1.0 + static_cast<double>(i % 37) / 37;
      data.R(i) = reference * varied;
      data.Set(i, output * varied);
    }
    const double plain = ComparePlain(data.request)->dot;
    ForEachTarget([&](const char* target) {
      EXPECT_NEAR(CompareCpu(data.request)->dot, plain, 1e-12 * std::abs(plain))
          << target << " " << Name(t) << " " << output << " times " << reference;
    });
  };
  for (const DType t : {DType::kF64, DType::kF32, DType::kTF32, DType::kBF16}) {
    for (const double r : {1.0, 0.9, -1.0, 3e7, 3e-9, -1e12}) expect(t, 1.0, r);
  }
  expect(DType::kF64, 1e-200, 1e200);  // a square is infinite
  expect(DType::kF64, 1e-180, 1e-120);
  expect(DType::kF64, 1e200, 1e-200);
}

// The five samples are the first five of the part, too, before parts are merged.
TEST(CompareWalk, PartKeepsTheFirstFiveMismatches) {
  Data data(DType::kF32, Extents::Dense(1, 1, 3 * kCompareBlock));
  FillWith(1.0, &data);
  for (std::int64_t i = 5; i < 3 * kCompareBlock; i += 300) data.Set(i, 2.0);
  const internal::CompareRule rule(data.request);
  std::vector<internal::ChunkSums> sums(1);
  CompareResult part;
  internal::CompareChunks(data.request, rule, 0, 1, sums.data(), &part);
  EXPECT_EQ(part.mismatches, 11);
  ASSERT_EQ(part.samples.size(), 5u);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(part.samples[i].index, 5 + 300 * static_cast<std::int64_t>(i));
  }
  for (std::int64_t i = 5; i < 900; ++i) data.Set(i, 2.0);  // more than five in one block
  part = CompareResult();
  internal::CompareChunks(data.request, rule, 0, 1, sums.data(), &part);
  EXPECT_EQ(part.samples.size(), 5u);
}

// An allowance that makes fma(factor, allowance, rounding) the error itself; NaN: there is none.
double AllowanceOnTheBound(double error, double factor, double rounding) {
  double e = (error - rounding) / factor;
  for (int k = 0; k < 4; ++k) e = std::nextafter(e, -kInf);
  for (int k = 0; k < 8; ++k) {
    if (e >= 0 && std::fma(factor, e, rounding) == error) return e;
    e = std::nextafter(e, kInf);
  }
  return kNaN;
}

void ExpectPlainToTheLastBit(const CompareRequest& request) {
  const CompareResult plain = *ComparePlain(request);
  ForEachTarget([&](const char* target) {
    SCOPED_TRACE(testing::Message() << target << " gate " << static_cast<int>(request.gate));
    const CompareResult fast = *CompareCpu(request);
    ExpectSame(fast, plain);
    EXPECT_EQ(fast.rho, plain.rho);
    EXPECT_EQ(fast.rho_proven, plain.rho_proven);
    EXPECT_EQ(fast.max_rel_error, plain.max_rel_error);
    EXPECT_EQ(fast.max_ulp, plain.max_ulp);
  });
}

// Errors that are their bound, or the next number above it. A target without fused multiply-adds
// must not round the bound in another way.
TEST(CompareWalk, ErrorsOnTheBoundAreJudgedToTheLastBit) {
  std::mt19937_64 random(11);
  std::uniform_real_distribution<double> uniform(-1.0, 1.0);
  for (const DType t : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16, DType::kE4M3FN}) {
    SCOPED_TRACE(Name(t));
    Data data(t, Extents::Dense(1, 1, 2 * kCompareBlock + 5));
    const internal::CompareRule rule(data.request);
    std::int64_t found = 0;
    for (std::int64_t i = 0; i < data.request.output.count(); ++i) {
      const double r = 1.5 + 0.4 * uniform(random);
      data.R(i) = r;
      data.Set(i, r * (1.0 + 8.0 * rule.u * uniform(random)));
      const double actual = ToDouble(t, LoadBits(t, data.storage.data(), i));
      const double rounding = std::fma(rule.u, std::abs(r), rule.eta_half);
      const double e = AllowanceOnTheBound(
          std::abs(actual - r), i % 2 == 0 ? rule.e_factor : rule.proven_factor, rounding);
      found += e > 0;
      data.E(i) = !(e > 0) ? 1.0 : i % 3 == 0 ? e : std::nextafter(e, 0.0);
    }
    EXPECT_GT(found, 100);
    for (const bool large_ratio_first : {false, true}) {
      // Errors beyond the bound are no records then.
      if (large_ratio_first) data.Set(0, 4.0);
      for (const Gate gate : kGates) {
        data.request.gate = gate;
        data.request.max_ulp = 3.0;
        ExpectPlainToTheLastBit(data.request);
      }
      CompareRequest close = data.request;
      close.gate = Gate::kAllClose;
      close.atol = 0.5 * rule.u;
      for (std::int64_t i = 1; i < close.output.count(); i += 133) {
        const double error = std::abs(ToDouble(t, LoadBits(t, data.storage.data(), i)) - data.R(i));
        close.rtol = AllowanceOnTheBound(error, data.R(i), close.atol);
        if (close.rtol > 0) ExpectPlainToTheLastBit(close);
      }
    }
  }
}

// A copy of data behind which no byte can be read.
class BeforeAGap {
 public:
  BeforeAGap(const void* from, std::int64_t bytes) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const auto size = static_cast<std::size_t>(bytes);
    const std::size_t room = (size + page - 1) / page * page;
    all_ = room + page;
    begin_ = static_cast<unsigned char*>(
        mmap(nullptr, all_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_EQ(mprotect(begin_ + room, page, PROT_NONE), 0);
    data_ = begin_ + room - size;
    std::memcpy(data_, from, size);
  }
  BeforeAGap(const BeforeAGap&) = delete;
  ~BeforeAGap() { munmap(begin_, all_); }
  void* data() const { return data_; }
  const double* doubles() const { return static_cast<const double*>(data_); }

 private:
  unsigned char* begin_;
  void* data_;
  std::size_t all_;
};

TEST(CompareWalk, ReadsNothingBehindTheTensors) {
  for (const DType t : kFormatsUnderTest) {
    for (const Extents& x :
         {Extents::Dense(1, 1, 1), Extents::Dense(1, 1, 2), Extents::Dense(1, 1, 14),
          Extents::Dense(1, 1, kCompareBlock - 2), Extents::Dense(1, 1, kCompareBlock),
          Extents::Dense(1, 1, kCompareBlock + 6), Extents{1, 2, 6, 9, 18}, Extents{2, 1, 8, 8, 12},
          Extents{1, 4, 256, 258, 1032}}) {
      Data data(t, x);
      Fill(Kind::kSparse, 3, &data);
      const CompareResult plain = *ComparePlain(data.request);
      const std::int64_t doubles = x.count() * static_cast<std::int64_t>(sizeof(double));
      const BeforeAGap output(data.storage.data(), StorageBytes(t, x.span()));
      const BeforeAGap reference(data.reference.data(), doubles);
      const BeforeAGap allowance(data.allowance.data(), doubles);
      data.request.output.data = output.data();
      data.request.reference = reference.doubles();
      data.request.allowance = allowance.doubles();
      ForEachTarget([&](const char* target) {
        SCOPED_TRACE(testing::Message() << target << " " << Name(t) << " " << x.count());
        ExpectSame(*CompareCpu(data.request), plain);
      });
    }
  }
}

// Leaves `byte` in all of the stack that the next call takes.
[[gnu::noinline]] void DirtyStack(unsigned char byte) {
  volatile unsigned char room[1 << 17];
  for (volatile unsigned char& at : room) at = byte;
}

// The pass begins with no number that was in memory before.
TEST(CompareWalk, StaleMemoryChangesNothing) {
  for (const DType t : kFormatsUnderTest) {
    for (const bool exact : {false, true}) {
      Data data(t, Extents::Dense(1, 1, 2 * kCompareBlock + 3));
      Fill(exact ? Kind::kExact : Kind::kWrong, 7, &data);
      if (!exact) data.request.allowance = nullptr;
      const CompareResult plain = *ComparePlain(data.request);
      for (const int byte : {0x3f, 0x7f, 0xff}) {
        SCOPED_TRACE(testing::Message() << Name(t) << " exact " << exact << " byte " << byte);
        DirtyStack(static_cast<unsigned char>(byte));
        ExpectSame(*CompareCpu(data.request), plain);
      }
    }
  }
}

}  // namespace
}  // namespace assay
