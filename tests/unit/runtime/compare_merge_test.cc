// What a comparison is put together from: parts that are merged in order, and a request that is
// checked first.
#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "kernels/numerics/digest.h"
#include "kernels/runtime/cpu/compare_canonical.h"
#include "kernels/runtime/cpu/compare_cpu.h"
#include "kernels/runtime/cpu/compare_element.h"
#include "kernels/runtime/cpu/compare_simd.h"
#include "tests/unit/runtime/compare_testing.h"

namespace assay {
namespace {

using internal::AddElement;
using internal::CheckCompareRequest;
using internal::CompareRule;
using internal::MergeCompare;

// Members that are added, and those of which the larger one counts.
constexpr std::int64_t CompareTotals::*kAdded[] = {
    &CompareTotals::count,
    &CompareTotals::mismatches,
    &CompareTotals::beyond_probable,
    &CompareTotals::beyond_proven,
    &CompareTotals::finite_pairs,
    &CompareTotals::bias_count,
    &CompareTotals::nan_count,
    &CompareTotals::inf_count,
    &CompareTotals::reference_nan_count,
    &CompareTotals::reference_inf_count,
    &CompareTotals::class_mismatches,
    &CompareTotals::unwritten,
    &CompareTotals::zero_count,
    &CompareTotals::reference_zero_count,
    &CompareTotals::unexpected_nan,
    &CompareTotals::unexpected_inf,
};
constexpr double CompareTotals::*kSums[] = {
    &CompareTotals::sum_abs_error,
    &CompareTotals::sum_squared_error,
    &CompareTotals::dot,
    &CompareTotals::sum_squared_actual,
    &CompareTotals::sum_squared_expected,
    &CompareTotals::bias_sum,
    &CompareTotals::bias_sum_squared,
};
constexpr double CompareTotals::*kLargest[] = {
    &CompareTotals::rho,           &CompareTotals::rho_proven, &CompareTotals::max_abs_error,
    &CompareTotals::max_rel_error, &CompareTotals::max_ulp,    &CompareTotals::max_abs_expected,
};
constexpr std::int64_t CompareTotals::*kFirst[] = {
    &CompareTotals::first_nan,
    &CompareTotals::first_inf,
    &CompareTotals::first_unexpected_nan,
    &CompareTotals::first_unexpected_inf,
    &CompareTotals::first_unwritten,
};

// A part of which every member has a value of its own.
CompareResult Part(int begin) {
  CompareResult c;
  int v = begin;
  for (const auto member : kAdded) c.*member = ++v;
  for (const auto member : kSums) c.*member = ++v;
  for (const auto member : kLargest) c.*member = ++v;
  for (const auto member : kFirst) c.*member = ++v;
  for (std::uint64_t* digest : {c.digest_raw, c.digest_canonical}) {
    for (int k = 0; k < 2; ++k) digest[k] = static_cast<std::uint64_t>(++v);
  }
  return c;
}

TEST(MergeCompare, AddsOrTakesTheLargerOrTheFirst) {
  const CompareResult small = Part(100), large = Part(1000);
  for (const auto& [into, next] : {std::pair{small, large}, {large, small}}) {
    CompareResult c = into;
    MergeCompare(next, &c);
    for (const auto member : kAdded) EXPECT_EQ(c.*member, into.*member + next.*member);
    for (const auto member : kSums) EXPECT_EQ(c.*member, into.*member + next.*member);
    for (const auto member : kLargest) EXPECT_EQ(c.*member, large.*member);
    for (const auto member : kFirst) EXPECT_EQ(c.*member, into.*member);
    for (int k = 0; k < 2; ++k) {
      EXPECT_EQ(c.digest_raw[k], small.digest_raw[k] + large.digest_raw[k]);
      EXPECT_EQ(c.digest_canonical[k], small.digest_canonical[k] + large.digest_canonical[k]);
    }
  }
  CompareResult empty;
  MergeCompare(small, &empty);
  for (const auto member : kFirst) EXPECT_EQ(empty.*member, small.*member);
  CompareResult at_zero;
  for (const auto member : kFirst) at_zero.*member = 0;
  MergeCompare(small, &at_zero);
  for (const auto member : kFirst) EXPECT_EQ(at_zero.*member, 0);
}

// Whose worst element is the result's: (index, ratio, wrong classes) of both parts.
TEST(MergeCompare, WorstIsOfAWrongClassOrTheFirstLargestRatio) {
  const auto worst = [](std::int64_t at, double rho, std::int64_t wrong, std::int64_t next_at,
                        double next_rho, std::int64_t next_wrong) {
    CompareResult c, next;
    c.worst.index = at;
    c.rho = rho;
    c.class_mismatches = wrong;
    next.worst.index = next_at;
    next.rho = next_rho;
    next.class_mismatches = next_wrong;
    MergeCompare(next, &c);
    return c.worst.index;
  };
  EXPECT_EQ(worst(3, 2, 0, 10, 1, 0), 3);
  EXPECT_EQ(worst(3, 2, 0, 10, 2, 0), 3) << "of equal ratios the earlier";
  EXPECT_EQ(worst(3, 2, 0, 10, 3, 0), 10);
  EXPECT_EQ(worst(3, 2, 0, 10, 0, 1), 10) << "a wrong class";
  EXPECT_EQ(worst(3, 2, 1, 10, 9, 1), 3) << "of wrong classes the earlier";
  EXPECT_EQ(worst(3, 2, 1, 10, 9, 0), 3);
  EXPECT_EQ(worst(-1, 0, 0, 10, 0, 0), 10) << "nothing before";
  EXPECT_EQ(worst(-1, 0, 0, 0, 0, 0), 0);
  EXPECT_EQ(worst(0, 1, 0, 10, 0.5, 0), 0);
  EXPECT_EQ(worst(3, 2, 0, -1, 0, 0), 3) << "nothing after";
}

TEST(MergeCompare, KeepsTheFirstSamples) {
  const auto part = [](int begin, int samples) {
    CompareResult c;
    for (int i = 0; i < samples; ++i) c.samples.push_back(ElementSample{.index = begin + i});
    return c;
  };
  CompareResult c = part(0, 3);
  MergeCompare(part(10, 5), &c);
  std::vector<std::int64_t> indices;
  for (const ElementSample& s : c.samples) indices.push_back(s.index);
  EXPECT_EQ(indices, (std::vector<std::int64_t>{0, 1, 2, 10, 11}));
}

TEST(AddElement, KeepsTheFirstMismatches) {
  CompareRequest request;
  request.output.dtype = DType::kF16;
  const CompareRule rule(request);
  CompareResult c;
  for (std::int64_t i = 0; i < 8; ++i) {
    AddElement(rule, i, RoundToFormat(i == 2 ? 1.0 : 2.0, DType::kF16), 1.0, 0.0, &c);
  }
  std::vector<std::int64_t> indices;
  for (const ElementSample& s : c.samples) indices.push_back(s.index);
  EXPECT_EQ(indices, (std::vector<std::int64_t>{0, 1, 3, 4, 5}));
}

TEST(CompareRequest, SaysWhatIsWrong) {
  double reference[1] = {1};
  float output[1] = {1};
  CompareRequest right;
  right.output = {output, DType::kF32, Extents::Dense(1, 1, 1)};
  right.reference = reference;
  EXPECT_TRUE(CheckCompareRequest(right).ok());
  const auto fault = [&](auto change) {
    CompareRequest r = right;
    change(r);
    const absl::Status status = CheckCompareRequest(r);
    EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << status;
    for (const auto& compare : {CompareCpu, ComparePlain}) {
      if (!status.ok()) {
        EXPECT_EQ(compare(r).status(), status);
      }
    }
    return std::string(status.message());
  };
  EXPECT_EQ(fault([](CompareRequest& r) { r.output.dtype = DType::kUnspecified; }),
            "compare: output.dtype is unspecified; it must name the output's format");
  EXPECT_EQ(fault([](CompareRequest& r) { r.output.extents.rows = -5; }),
            "compare: output.extents hold -5 elements; the count must be at least 0");
  EXPECT_EQ(fault([](CompareRequest& r) { r.output.data = nullptr; }),
            "compare: output.data is null; it must hold 1 elements");
  EXPECT_EQ(fault([](CompareRequest& r) { r.reference = nullptr; }),
            "compare: reference is null; it must hold 1 elements");
  EXPECT_EQ(fault([](CompareRequest& r) {
              r.output = {nullptr, DType::kF32, Extents::Dense(1, 0, 5)};
              r.reference = nullptr;
            }),
            "");
  EXPECT_EQ(fault([](CompareRequest& r) { r.proven_factor = 0.75; }),
            "compare: proven_factor is 0.75; it must be at least 1");
  EXPECT_EQ(fault([](CompareRequest& r) { r.proven_factor = 1.5; }), "");
  EXPECT_EQ(fault([](CompareRequest& r) { r.proven_factor = kNaN; }),
            "compare: proven_factor is nan; it must be at least 1");
  const std::pair<std::string, double CompareRequest::*> tolerances[] = {
      {"atol", &CompareRequest::atol},
      {"rtol", &CompareRequest::rtol},
      {"max_ulp", &CompareRequest::max_ulp}};
  for (const auto& [name, tolerance] : tolerances) {
    const auto member = tolerance;
    EXPECT_EQ(fault([&](CompareRequest& r) { r.*member = -1; }),
              "compare: " + name + " is -1; it must be at least 0");
    EXPECT_EQ(fault([&](CompareRequest& r) { r.*member = kNaN; }),
              "compare: " + name + " is nan; it must be at least 0");
    EXPECT_EQ(fault([&](CompareRequest& r) { r.*member = 0.5; }), "");
  }
}

// The plain loops leave the digests out, too.
TEST(ComparePlain, ComputesDigestsOnlyWhereAsked) {
  Data data(DType::kF16, Extents::Dense(1, 1, 7));
  data.Set(6, 3.0);
  EXPECT_NE(ComparePlain(data.request)->digest_raw[0], 0u);
  data.request.digests = false;
  for (const auto& c : {*ComparePlain(data.request), *CompareCpu(data.request)}) {
    for (int k = 0; k < 2; ++k) {
      EXPECT_EQ(c.digest_raw[k], 0u);
      EXPECT_EQ(c.digest_canonical[k], 0u);
    }
  }
}

// What CanonicalWord does, of each word and of no further one.
TEST(Canonical, MakesAsManyWordsCanonicalAsItIsAsked) {
  constexpr std::size_t kWords = 300;
  std::mt19937_64 random(1);
  for (const DType t : kFormatsUnderTest) {
    if (Info(t).is_integer) continue;
    const double values[] = {0.0, -0.0, kNaN, kInf, -kInf, 1.0, -1.0, Info(t).max_finite};
    std::vector<std::uint64_t> raw(kWords + 100), out(kWords + 100, 42);
    const int width = Info(t).storage_bits;
    for (std::uint64_t& word : raw) {
      word = 0;
      for (int k = 0; k < 64; k += width) {
        const std::uint64_t any = random() & (~std::uint64_t{0} >> (64 - width));
        const double value = values[random() % std::size(values)];
        word |= (random() % 2 == 0 ? any : RoundToFormat(value, t)) << k;
      }
    }
    internal::Canonical(t).Copy(reinterpret_cast<const unsigned char*>(raw.data()), kWords,
                                reinterpret_cast<unsigned char*>(out.data()));
    for (std::size_t i = 0; i < out.size(); ++i) {
      ASSERT_EQ(out[i], i < kWords ? CanonicalWord(t, raw[i]) : 42) << Name(t) << " word " << i;
    }
  }
}

// A thread whose elements are quick is done before the one that has the first elements. The first
// half takes longer than the time for which a processor runs a thread before it turns to another,
// so that this holds on a single processor, too.
TEST(CompareCpu, MergesPartsInTheOrderOfTheirElements) {
  constexpr std::int64_t kChunks = 64;
  Data data(DType::kF32, Extents::Dense(1, kChunks, internal::kCompareChunk));
  const std::int64_t count = data.request.output.count();
  for (std::int64_t i = 0; i < count; ++i) data.Set(i, i < count / 2 ? kNaN : 1.0);
  data.request.digests = false;
  const int threads = omp_get_max_threads();
  omp_set_num_threads(4);
  for (int run = 0; run < 3; ++run) {
    const CompareResult c = *CompareCpu(data.request);
    EXPECT_EQ(c.worst.index, 0);
    EXPECT_EQ(c.first_nan, 0);
    ASSERT_FALSE(c.samples.empty());
    EXPECT_EQ(c.samples.front().index, 0);
    EXPECT_EQ(c.mismatches, count);
  }
  omp_set_num_threads(threads);
}

}  // namespace
}  // namespace assay
