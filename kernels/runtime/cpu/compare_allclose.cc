// Works in blocks, as compare_simd.cc does: sums and extremes without a division, exact ratios only
// if an error reaches the largest so far, and scalar code for blocks that are not finite.
#include "kernels/runtime/cpu/compare_allclose.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/runtime/cpu/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/runtime/cpu/compare_allclose.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#ifndef ASSAY_COMPARE_ALLCLOSE_SHARED_
#define ASSAY_COMPARE_ALLCLOSE_SHARED_
namespace assay::internal {

constexpr double kRelFloor = 1e-8;
constexpr std::int64_t kAllCloseBlock = 1024;
constexpr std::int64_t kAllCloseChunk = 32 * kAllCloseBlock;

struct AllCloseInput {
  const float* actual;
  const float* expected;
  std::int64_t count;
  double atol;
  double rtol;
};

struct AllCloseSums {
  double abs_error = 0;
  double squared_error = 0;
};

inline void AddCloseElement(const AllCloseInput& in, std::int64_t i, AllCloseSums* sums,
                            AllCloseResult* c) {
  const double a = static_cast<double>(in.actual[i]);
  const double e = static_cast<double>(in.expected[i]);
  ++c->count;
  if (std::isnan(a)) ++c->nan_count;
  if (std::isinf(a)) ++c->inf_count;
  bool accepted = a == e;
  if (std::isfinite(a) && std::isfinite(e)) {
    ++c->finite_pairs;
    const double error = std::abs(a - e);
    sums->abs_error += error;
    sums->squared_error += error * error;
    c->max_abs_error = std::max(c->max_abs_error, error);
    c->max_rel_error = std::max(c->max_rel_error, error / (std::abs(e) + kRelFloor));
    accepted = error <= std::fma(in.rtol, std::abs(e), in.atol);
  }
  if (!accepted && c->mismatches++ == 0) c->first_mismatch = i;
}

}  // namespace assay::internal
#endif  // ASSAY_COMPARE_ALLCLOSE_SHARED_

HWY_BEFORE_NAMESPACE();
namespace assay::internal {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<double>;
using V = hn::Vec<D>;

// Computes the statistics of one block, without the ratio and the mismatches. If a value is not
// finite, returns false and adds nothing.
bool CloseBlock(const AllCloseInput& in, std::int64_t begin, std::int64_t end, AllCloseSums* sums,
                AllCloseResult* c, bool* flagged) {
  const D d;
  const hn::Rebind<float, D> df;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const V atol = hn::Set(d, in.atol);
  const V rtol = hn::Set(d, in.rtol);
  const V rel = hn::Set(d, c->max_rel_error);
  const V rel_floor = hn::Set(d, c->max_rel_error * kRelFloor * (1.0 - 0x1p-50));
  V sum = hn::Zero(d), squares = hn::Zero(d), largest = hn::Zero(d);
  V signs = hn::Zero(d);
  for (std::int64_t i = begin; i < end; i += lanes) {
    const V a = hn::PromoteTo(d, hn::LoadU(df, in.actual + i));
    const V e = hn::PromoteTo(d, hn::LoadU(df, in.expected + i));
    const V error = hn::Abs(hn::Sub(a, e));
    const V magnitude = hn::Abs(e);
    signs = hn::Or3(signs, hn::Sub(hn::MulAdd(rtol, magnitude, atol), error),
                    hn::Sub(hn::MulAdd(rel, magnitude, rel_floor), error));
    sum = hn::Add(sum, error);
    squares = hn::MulAdd(error, error, squares);
    largest = hn::Max(largest, error);
  }
  const double total = hn::GetLane(hn::SumOfLanes(d, sum));
  if (!std::isfinite(total)) return false;
  sums->abs_error += total;
  sums->squared_error += hn::GetLane(hn::SumOfLanes(d, squares));
  c->max_abs_error = std::max(c->max_abs_error, hn::GetLane(hn::MaxOfLanes(d, largest)));
  c->count += end - begin;
  c->finite_pairs += end - begin;
  *flagged = !hn::AllFalse(d, hn::MaskFromVec(signs));
  return true;
}

// Computes the largest ratio and the mismatches of a finite block.
void CloseRatios(const AllCloseInput& in, std::int64_t begin, std::int64_t end, AllCloseResult* c) {
  const D d;
  const hn::Rebind<float, D> df;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  V largest = hn::Zero(d);
  std::int64_t mismatches = 0;
  for (std::int64_t i = begin; i < end; i += lanes) {
    const V a = hn::PromoteTo(d, hn::LoadU(df, in.actual + i));
    const V e = hn::PromoteTo(d, hn::LoadU(df, in.expected + i));
    const V error = hn::Abs(hn::Sub(a, e));
    const V magnitude = hn::Abs(e);
    const auto close =
        hn::Le(error, hn::MulAdd(hn::Set(d, in.rtol), magnitude, hn::Set(d, in.atol)));
    largest = hn::Max(largest, hn::Div(error, hn::Add(magnitude, hn::Set(d, kRelFloor))));
    const auto close_count = static_cast<std::int64_t>(hn::CountTrue(d, close));
    if (close_count != lanes && c->first_mismatch < 0) {
      // The first false lane of the mask.
      c->first_mismatch = i + static_cast<std::int64_t>(hn::FindFirstTrue(d, hn::Not(close)));
    }
    mismatches += lanes - close_count;
  }
  c->mismatches += mismatches;
  c->max_rel_error = std::max(c->max_rel_error, hn::GetLane(hn::MaxOfLanes(d, largest)));
}

void CloseChunk(const AllCloseInput& in, std::int64_t chunk, AllCloseSums* sums,
                AllCloseResult* c) {
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(D()));
  const std::int64_t last = std::min((chunk + 1) * kAllCloseChunk, in.count);
  for (std::int64_t begin = chunk * kAllCloseChunk; begin < last; begin += kAllCloseBlock) {
    const std::int64_t end = std::min(begin + kAllCloseBlock, last);
    const std::int64_t whole = end - (end - begin) % lanes;
    std::int64_t scalar = begin;
    bool flagged = false;
    if (whole > begin && CloseBlock(in, begin, whole, sums, c, &flagged)) {
      if (flagged) CloseRatios(in, begin, whole, c);
      scalar = whole;
    }
    for (; scalar < end; ++scalar) AddCloseElement(in, scalar, sums, c);
  }
}

// Processes chunks [begin, end). Each chunk has its own sums; the other statistics are shared.
void CloseChunks(const AllCloseInput& in, std::int64_t begin, std::int64_t end, AllCloseSums* sums,
                 AllCloseResult* c) {
  for (std::int64_t chunk = begin; chunk < end; ++chunk) CloseChunk(in, chunk, sums + chunk, c);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace assay::internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay {
namespace internal {
namespace {

HWY_EXPORT(CloseChunks);

void DispatchCloseChunks(const AllCloseInput& in, std::int64_t begin, std::int64_t end,
                         AllCloseSums* sums, AllCloseResult* c) {
  HWY_DYNAMIC_DISPATCH(CloseChunks)(in, begin, end, sums, c);
}

}  // namespace
}  // namespace internal

double AllCloseResult::mean_abs_error() const {
  return finite_pairs == 0 ? 0.0 : sum_abs_error / static_cast<double>(finite_pairs);
}

double AllCloseResult::rms_error() const {
  return finite_pairs == 0 ? 0.0 : std::sqrt(sum_squared_error / static_cast<double>(finite_pairs));
}

absl::StatusOr<AllCloseResult> CompareAllCloseCpu(const TensorView& actual,
                                                  const TensorView& expected, double atol,
                                                  double rtol) {
  if (actual.dtype != DType::kF32 || expected.dtype != DType::kF32) {
    return absl::InvalidArgumentError(
        absl::StrCat("allclose: actual is ", std::string(Name(actual.dtype)), ", expected is ",
                     std::string(Name(expected.dtype)), "; both must be fp32"));
  }
  if (actual.count() != expected.count()) {
    return absl::InvalidArgumentError(absl::StrCat("allclose: actual has ", actual.count(),
                                                   " elements, expected has ", expected.count(),
                                                   "; both must have the same"));
  }
  if (!actual.extents.dense() || !expected.extents.dense()) {
    return absl::InvalidArgumentError("allclose: both tensors must be dense");
  }
  if (!(atol >= 0.0) || !(rtol >= 0.0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("allclose: atol is ", atol, ", rtol is ", rtol, "; both must be at least 0"));
  }
  const internal::AllCloseInput in{actual.as<float>(), expected.as<float>(), actual.count(), atol,
                                   rtol};
  const std::int64_t chunks = (in.count + internal::kAllCloseChunk - 1) / internal::kAllCloseChunk;
  std::vector<internal::AllCloseSums> sums(static_cast<std::size_t>(chunks));
  std::mutex mutex;
  AllCloseResult result;
  ParallelFor(chunks, /*grain=*/2, [&](std::int64_t begin, std::int64_t end) {
    AllCloseResult part;
    internal::DispatchCloseChunks(in, begin, end, sums.data(), &part);
    // Only the sums depend on the order.
    const std::lock_guard<std::mutex> lock(mutex);
    result.count += part.count;
    result.finite_pairs += part.finite_pairs;
    result.mismatches += part.mismatches;
    result.nan_count += part.nan_count;
    result.inf_count += part.inf_count;
    result.max_abs_error = std::max(result.max_abs_error, part.max_abs_error);
    result.max_rel_error = std::max(result.max_rel_error, part.max_rel_error);
    if (part.first_mismatch >= 0 &&
        (result.first_mismatch < 0 || part.first_mismatch < result.first_mismatch)) {
      result.first_mismatch = part.first_mismatch;
    }
  });
  for (const internal::AllCloseSums& s : sums) {
    result.sum_abs_error += s.abs_error;
    result.sum_squared_error += s.squared_error;
  }
  return result;
}

}  // namespace assay
#endif  // HWY_ONCE
