// Describes the compare pass: one read of the output under test, of the FP64 reference r and of the
// error allowance E. It gives every statistic of a comparison.
//
// For each element, with u_o and η_o of the output's format:
//   T        = u_o·|r| + η_o/2 + (1 + u_o)·E            probabilistic bound
//   T_proven = u_o·|r| + η_o/2 + (1 + u_o)·κ·E          κ >= 1, a constant of the case
//   ρ        = max |o − r| / T;   accepted only if |o − r| <= T, so that NaN rejects
// The class rule comes first: the class (NaN, +Inf, −Inf, finite) of o must be the class of r
// rounded to the output's format. If [r − T, r + T] contains the format's overflow threshold, both
// classes are accepted.
#ifndef ASSAY_KERNELS_RUNTIME_COMPARE_H_
#define ASSAY_KERNELS_RUNTIME_COMPARE_H_

#include <cstdint>
#include <vector>

#include "kernels/runtime/tensor.h"

namespace assay::inline kernels {

// Decides which elements are mismatches. The first mismatches are kept as samples.
enum class Gate : std::uint8_t {
  kBound,          // |o − r| > T_proven, or a wrong class
  kBoundProbable,  // |o − r| > T, or a wrong class
  kAllClose,       // |o − r| > atol + rtol·|r|, or a wrong class
  kUlp,            // more than max_ulp from r rounded, or a wrong class
  kBitwise,        // other bits than r rounded (NaNs equal each other)
};

struct CompareRequest {
  TensorView output;                  // any format
  const double* reference = nullptr;  // r, [output.count()], logical order
  const double* allowance = nullptr;  // E >= 0, in the same order; nullptr: E = 0
  double proven_factor = 1.0;         // κ
  bool flushes_subnormals = false;    // η_o/2 becomes the smallest normal
  bool exact = false;                 // T = 0: integers and exact cases
  Gate gate = Gate::kBoundProbable;
  double atol = 0.0;
  double rtol = 0.0;
  double max_ulp = 0.0;
  bool digests = true;   // compute both digests, too
  bool poisoned = true;  // was poisoned before its launch; count what still is
};

struct ElementSample {
  std::int64_t index = -1;  // logical
  double actual = 0.0;
  double expected = 0.0;
  double bound = 0.0;  // the bound of the gate
  std::uint64_t actual_bits = 0;
  std::uint64_t expected_bits = 0;  // of r rounded to the output's format
};

inline constexpr int kMismatchSamples = 5;

// All results but the samples. It is plain data, so GPU threads use it, too.
struct CompareTotals {
  std::int64_t count = 0;
  std::int64_t mismatches = 0;       // by the request's gate
  std::int64_t beyond_probable = 0;  // |o − r| > T, without class mismatches
  std::int64_t beyond_proven = 0;    // |o − r| > T_proven, without class mismatches
  double rho = 0.0;                  // over elements where both are finite
  double rho_proven = 0.0;
  double max_abs_error = 0.0;
  double sum_abs_error = 0.0;
  double sum_squared_error = 0.0;
  double max_rel_error = 0.0;  // over r != 0
  double max_ulp = 0.0;        // |o − RNE(r)| / ulp(RNE(r)); floats only
  double dot = 0.0;            // Σ o·r, Σ o², Σ r² over finite pairs
  double sum_squared_actual = 0.0;
  double sum_squared_expected = 0.0;
  double max_abs_expected = 0.0;  // of finite values
  std::int64_t finite_pairs = 0;
  // Bias: t = sign(r)·(o − r)/ulp(r) over elements with u_o·|r| >= 4·E, r normal.
  std::int64_t bias_count = 0;
  double bias_sum = 0.0;
  double bias_sum_squared = 0.0;
  std::int64_t nan_count = 0;            // of the output
  std::int64_t inf_count = 0;            // of the output
  std::int64_t reference_nan_count = 0;  // of r rounded to the output's format
  std::int64_t reference_inf_count = 0;
  std::int64_t class_mismatches = 0;
  std::int64_t unwritten = 0;   // still equal to the first poison (formats with a payload)
  std::int64_t zero_count = 0;  // of the output, either sign
  std::int64_t reference_zero_count = 0;  // of r rounded to the output's format
  // Indices of the first NaN and the first Inf of the output; -1: none.
  std::int64_t first_nan = -1;
  std::int64_t first_inf = -1;
  std::int64_t first_unexpected_nan = -1;  // r is not NaN there
  std::int64_t first_unexpected_inf = -1;
  std::int64_t unexpected_nan = 0;  // without unwritten elements
  std::int64_t unexpected_inf = 0;
  std::int64_t first_unwritten = -1;
  ElementSample worst;  // the first of a wrong class, or else the largest |o − r| / T
  std::uint64_t digest_raw[2] = {0, 0};
  std::uint64_t digest_canonical[2] = {0, 0};
};

struct CompareResult : CompareTotals {
  std::vector<ElementSample> samples;  // the first kMismatchSamples mismatches, in order
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_RUNTIME_COMPARE_H_
