// What the comparison says of one element: the specification that the plain pass
// is a loop of, and the slow path of the SIMD pass.
//
// Everything the rule needs of the output's format is taken from its row of
// kFormats once, in CompareRule. In exact mode and for integer outputs the
// expected value is r rounded to the output's format and T = 0, so that the
// correctly rounded result of an exact sum is the only one accepted.
#ifndef ASSAY_KERNELS_RUNTIME_CPU_COMPARE_ELEMENT_H_
#define ASSAY_KERNELS_RUNTIME_CPU_COMPARE_ELEMENT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/runtime/compare.h"

namespace assay::internal {

// The constants of a request.
struct CompareRule {
  explicit CompareRule(const CompareRequest& request);

  DType dtype;
  Gate gate;
  bool is_integer;
  bool exact;            // T = 0, expected is r rounded
  bool payload;          // unwritten elements are told by their poison
  std::uint64_t poison;  // its bits
  int mantissa_bits;
  double max_finite;
  double min_normal;
  double overflow;       // magnitude from which rounding overflows; +Inf where it saturates
  double max_ulp_size;   // ulp of max_finite
  double min_subnormal;  // η
  double u;              // u_o
  double eta_half;       // η_o/2, or the smallest normal where the device flushes
  double e_factor;       // 1 + u_o
  double proven_factor;  // (1 + u_o)·κ
  double atol;
  double rtol;
  double max_ulp;
};

enum class ValueClass : std::uint8_t { kFinite, kPosInf, kNegInf, kNan };

ValueClass ClassOf(double v);

// One element judged.
struct Judgement {
  double actual;
  double expected;  // r, or r rounded in exact mode
  std::uint64_t expected_bits;
  double rounded;  // value of expected_bits
  ValueClass actual_class;
  ValueClass expected_class;  // of r rounded
  bool class_ok;
  bool pair;  // classes agree and the output is finite: it has an error
  double error;
  double bound;         // T
  double bound_proven;  // T_proven
  double rho;           // error / T, Inf where T is 0 and the error is not
  double rho_proven;
  double ulps;  // |o - r rounded| / ulp(r rounded), Inf counted as one past the largest
  double gate_bound;
  bool mismatch;
};

Judgement JudgeElement(const CompareRule& rule, std::uint64_t bits, double r, double e);

// error / bound so that accepted and <= 1 are the same thing, and NaN is rejected.
double ErrorRatio(double error, double bound);

// Distance between neighbours of a format at |v|, subnormals included.
double UlpAt(const CompareRule& rule, double v);

// Adds element `index` to every statistic but the digests. Elements must come in
// ascending order.
void AddElement(const CompareRule& rule, std::int64_t index, std::uint64_t bits, double r, double e,
                CompareResult* result);

// Adds what came of the elements behind those of `into`, sums included.
void MergeCompare(const CompareResult& next, CompareResult* into);

// Storage element of a logical index.
std::int64_t StorageIndex(const Extents& extents, std::int64_t logical);

// INVALID_ARGUMENT naming the field of the request that is wrong.
absl::Status CheckCompareRequest(const CompareRequest& request);

}  // namespace assay::internal

#endif  // ASSAY_KERNELS_RUNTIME_CPU_COMPARE_ELEMENT_H_
