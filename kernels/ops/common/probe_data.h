// Data of exact cases of matrix products: whole numbers whose sums are exact in the
// accumulator whatever the order, so that one result is right and all others wrong.
#ifndef ASSAY_KERNELS_OPS_COMMON_PROBE_DATA_H_
#define ASSAY_KERNELS_OPS_COMMON_PROBE_DATA_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/numerics/dtype.h"
#include "kernels/ops/case.h"
#include "kernels/ops/op.h"

namespace assay::inline kernels {

// Every probe's, whatever the case's: a probe has one result for each problem and format.
inline constexpr std::uint64_t kProbeSeed = 0x61737361795f7072;

// A case of the same kernel on a problem of its own with a pattern of data, judged by
// the bound, or exactly where `exact`.
Case ProbeCase(const Case& c, Problem problem, std::string pattern, bool exact);

// What is done with a sum S: factor·S + addend, |addend| at most the figure.
struct SumUse {
  double factor = 1;
  double addend = 0;
  // Products of a sum that may differ from 0, on average. A transform rounds longer sums too much.
  double most_products = std::numeric_limits<double>::infinity();
  bool plain() const { return factor == 1 && addend == 0; }
};

// exact-sparse: ±1, so dense that a sum of k products is within the integers that the narrowest
// accumulator of the input's holds all of, and below the output's overflow (six deviations of it),
// 1 where every product fits. Such sums are near 0, where the output's format is finest: in most
// elements a single lost product shows.
double SparseDensity(std::int64_t k, DType input, DType output, const SumUse& use);

// exact-integers: 1 to 4, so dense that sums stay exact in an fp32 accumulator, of 8- and
// 4-bit floats in one of 14 bits, which some hardware has, and below the output's overflow
// (ten deviations). Where sums of k such products are all
// within the integers that a 16-bit output holds, 1 to a larger power of two that the
// input holds all integers of, so that rounding shows. Of integers that are summed in integers -128
// to -64. Of integers whose output is a float numbers near ±128, where fp32 holds their sums.
// Nothing where no such sum exists.
std::optional<Pattern> IntegerData(std::int64_t k, DType input, DType output, const SumUse& use);

// Both probes of a product of sums of k: one where integers make every case exact.
std::vector<KernelProbe> ProductProbes(const Case& c, const Problem& problem, std::int64_t k,
                                       const SumUse& use);

// The significand probes of a product: one for each of its two operands, whose names are the last
// two arguments. The other operand holds 0 and single powers of two, all the same
// (kernels/numerics/unit_places.h), so every element of the output is an element of the first one
// times that power, or 0: a sum of it and zeros is exact in every order, split and format of
// accumulator. In 8-bit floats they show that every number of the format is read as what it is.
// There are none of integers and of 4-bit floats, whose few numbers are in every case.
std::vector<KernelProbe> SignificandProbes(const Case& c, const Problem& problem,
                                           std::string_view first, std::string_view second);

// What the two operands of a significand probe hold: one numbers, the other 0 and one unit. In
// formats of 16 bits and more the numbers are small and the unit is large (LargeUnit), because a
// kernel may take small numbers for 0, or clip large ones. Their products are from 1 to 3. If the
// output's format goes beyond what fp16 holds, the products are large if `beyond` (LargeProduct),
// and else small, too; fp16 inputs have no room for both. A kernel may multiply or divide an
// operand by up to `most_factor`, a power of two: the operand stays normal and finite.
struct Significands {
  Pattern numbers;
  double unit = 1;
};
Significands SignificandData(const Case& c, bool beyond, double most_factor = 1);

// Whether they show significands of a format: 16 bits or more.
bool HasSignificandProbes(DType input);
bool IsEightBitFloat(DType input);

// Whether a format holds numbers that fp16 does not. A kernel may take its data through fp16.
bool ReachesBeyondHalf(DType t);
// Such a number, a power of two.
inline constexpr double kBeyondHalf = 0x1p17;
// Larger than what kernels clip their results at: 65504, 1e6, 1e9. Products of fp16's numbers do
// not reach it, if one of them may be multiplied by a factor: theirs is beyond fp16.
double LargeProduct(DType input);
// Whether a kernel declares that it holds intermediate results in fp16, which may overflow there.
bool HoldsInHalf(const Case& c, const Plan& plan);

// An eighth of the smallest number of fp16.
inline constexpr double kBelowHalf = 0x1p-27;
// Numbers near 0, which a kernel may take for 0: below the smallest one of fp16 if the format
// reaches beyond it, else fp16's normal numbers below 1e-4.
Pattern NearZero(DType t);

// The largest power of two of a format.
double LargestPowerOfTwo(DType t);

// Whether a kernel is neither a user's, which may be made for its extents, nor a caller's function.
bool IsOurs(const Case& c);

// What ExactProduct takes for the first two operands of an exact case.
double LargestElement(const Case& c, const Plan& plan);

// Adds the exact case `nan`: the first operand has some NaN, and whatever a right kernel adds to
// one, or multiplies by it, is NaN. All other results stay numbers. `pattern` begins with one of
// the two below; the bound judges, if not `exact`. There is no such case
// - of integers and of formats of 8 bits and fewer: a kernel may clip numbers before it converts
//   them to such a format, and fmax(NaN, x) is x, or decode them as if they were all finite;
// - if the kernel declares that it splits or transforms its operands.
// A kernel may refuse such data.
void AddNanProbe(const Case& c, const Plan& plan, Problem problem, std::string pattern,
                 std::vector<KernelProbe>& probes, bool exact = false,
                 std::string_view name = "nan");
inline constexpr std::string_view kNanInEachRow = "one-hot:nan:1";  // of the operand, else 1
inline constexpr std::string_view kAllNan = "constant:nan";

// ±2^e nearest to x in exponent, |e| <= most; 0 stays.
double NearPowerOfTwo(double x, int most);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_COMMON_PROBE_DATA_H_
