// The deviation σ of an output element of an attention, on host and device. std-only.
//
// For one query with n visible keys, scores s with maximum m, weights w = p/l, and values v:
//   Qv = Σw²v²   P2 = Σw²   ā = the mean of a_j, weighted by w_j²·Σ_c v_jc²
//   a_j = (d + 1)·(2s² + scale²·Σq²k²)/6 + 4s² + (s − m)² + 16
//   σ² = u_P²/3·(Qv + r²·P2) + u²/3·(ā·(Qv + r²·P2) + (n + 1)·(2r² + Qv)/6
//        + r²·((n + 1)·(2 + P2)/6 + 6)) + ulp(r)²/12
// The first term is the rounding of P to its format, the second the errors of scores and
// exponentials, then those of the sum P·V and of l. Σq²k² is taken as √(Σq⁴·Σk⁴), and Qv by the
// margins of a block of queries (see kernels/ops/common/product_residuals.h):
//   Qv of column c = Σw²·Σ_c v² of the query · C_c/Σ_c C_c,   C_c = Σ w²·v_c² over the block's
//   queries
//
// Weights that are nearly the same are rounded the same way, so their errors do not cancel: if
// n·P2 − 1, the variance of n·w, is below (8u_P)², u_P²·r² is added.
//
// A kernel may divide by l before it rounds P. Weights of many keys are small then, and fp16 rounds
// what is below its normal numbers to multiples of 2f, so each by f at most: together they are off
// by n·f² where their squares sum to P2. So everywhere u_P² stands for u_P² + n·f²/P2, but not in 8
// bits, which such a kernel has no use for.
//
// If the weights differ by less than the last place of their sum l, the additions of l in order all
// round alike. Then an element has no σ, and nothing is said of it.
//
// A kernel that declares a format of roundoff u_i for its scaled Q and K and its scores adds
// 27·(s² + scale²·Σq²k²)·(u_i/u)² to a_j. That is far above the variance of these roundings, for
// two reasons: they may all be at their worst, and the keys of a query share those of its Q.
//
// P in 8 bits has few steps. Weights that are nearly the same then have one error together, which
// may be all of u_P: such a row has no σ. Neither has a row whose largest weight has more than an
// eighth of Σw²: a kernel may multiply P by a factor before it rounds, and then the largest weights
// of all rows have one error. Nor a row that loses more than u_P/32 of its weights if those below
// 2^-10 become 0, as they do in e4m3 without a factor. f²/3·n·Qv is added
// for weights below the normal range of P's format, f half of its smallest step. It takes 1/l² as
// P2, which is more.
//
// The direction D = Σw·s·v − r·Σw·s is the change of an element if all scores grow by a common
// factor. s may be replaced by s − m. If the weights span few steps of P's format, D tells nothing:
// the rounding of a weight then depends on s as well. So D is used from n·P2 − 1 = (64u_P)² on. Nor
// does it tell anything if the outputs follow the scores within a few steps of their own format: r
// is then nearly the mean of v plus D, and its rounding depends on D. So D is used if the D² of a
// query's elements are 1000 times ulp(r)²/12 in the mean: nine steps. (Right fp16 kernels had z =
// 18 on values from 3/4 to 1, with a D of one step.) The direction of all queries costs another
// product, so of large outputs, and on GPUs of all, it is made of the first queries of each block
// alone. It is 0 for the others.
#ifndef ASSAY_KERNELS_OPS_ATTENTION_ATTENTION_DEVIATION_H_
#define ASSAY_KERNELS_OPS_ATTENTION_ATTENTION_DEVIATION_H_

#include <cmath>

#include "kernels/numerics/deviation.h"
#include "kernels/numerics/host_device.h"

namespace assay::inline kernels {

// Queries of a block whose direction is made.
inline constexpr int kDirectedQueries = 12;
// So many columns decide together whether D is used.
inline constexpr int kSteepColumns = 64;

// Exponentials below it, half of the smallest step of e4m3, may become 0 where P is in 8 bits.
inline constexpr double kLostBelow = 0x1p-10;

struct AttentionDeviation {
  double u = 0;
  double p_roundoff = 0;   // u_P
  double value_scale = 1;  // scale_v
  double value_error = 0;  // u if scale_v is not 1
  double score_terms = 1;  // d
  OutputSteps steps;       // of the output's format
  double flush = 0;        // f; 0: P has a wide range
  double declared = 0;     // (3·u_i/u)²
  double step = 0;         // f of weights that are divided by l before they are rounded

  // What s² and scale²·Σq²k² are multiplied by in a_j.
  ASSAY_HOST_DEVICE double OfScores() const { return (score_terms + 1) / 3 + 4 + 3 * declared; }
  ASSAY_HOST_DEVICE double OfSquares() const { return (score_terms + 1) / 6 + 3 * declared; }
  // a_j; `squares` is an upper bound of scale²·Σq²k².
  ASSAY_HOST_DEVICE double Score(double s, double distance, double squares) const {
    return OfScores() * s * s + OfSquares() * squares + distance * distance + 16;
  }
  // The square of what the weights of so many keys are rounded by, relative to them.
  ASSAY_HOST_DEVICE double WeightRounding(double visible, double p2) const {
    return p_roundoff * p_roundoff + (p2 > 0 ? visible * step * step / p2 : 0);
  }
  // Whether the weights lie within a few steps of P's format.
  ASSAY_HOST_DEVICE bool Alike(double visible, double p2) const {
    return visible * p2 - 1 < 64 * WeightRounding(visible, p2);
  }
  // Whether the weights lie within the last place of their sum l, u·n of a weight, and P's format
  // is finer: the additions of a sum in order then have one error together.
  ASSAY_HOST_DEVICE bool Repeats(double visible, double p2) const {
    const double place = u * visible;
    return place * place > 4 * WeightRounding(visible, p2) && visible * p2 - 1 < place * place;
  }
  // Whether P has so few steps that only its common factor tells something.
  ASSAY_HOST_DEVICE bool Coarse() const { return p_roundoff >= 0x1p-5; }
  // Whether D tells an error of the scale.
  ASSAY_HOST_DEVICE bool Tells(double visible, double p2) const {
    return !Coarse() && visible * p2 - 1 >= 64 * 64 * WeightRounding(visible, p2);
  }
  // Whether the outputs of a query follow the scale over so many steps of their format that their
  // roundings are independent of it: ΣD² and Σulp²/12 of kSteepColumns of its elements, from one
  // multiple of that number to the next.
  ASSAY_HOST_DEVICE static bool Steep(double along, double steps) { return along >= 1000 * steps; }
  // Whether the model says nothing of the elements of a query. `most` is its largest weight, `lost`
  // the share of its weights whose exponentials are below kLostBelow.
  ASSAY_HOST_DEVICE bool Silent(double visible, double p2, double most, double lost) const {
    if (Repeats(visible, p2)) return true;
    return Coarse() && (Alike(visible, p2) || most * most > p2 / 8 || lost > p_roundoff / 32);
  }
  // σ² of an element without its ulp is of_r·r² + of_q·Qv, with r without scale_v.
  struct Factors {
    double of_r = 0, of_q = 0;
  };
  ASSAY_HOST_DEVICE Factors Of(double visible, double p2, double mean) const {
    const double rounding = WeightRounding(visible, p2), third = u * u / 3, scale = value_scale;
    const double depth = (visible + 1) / 6;
    const double of_q = rounding / 3 + flush * flush / 3 * visible + third * (mean + depth);
    const double of_r = rounding / 3 * p2 + (Alike(visible, p2) ? rounding : 0) +
                        third * (mean * p2 + depth * (4 + p2) + 6) + value_error * value_error;
    return {scale * scale * of_r, scale * scale * of_q};
  }
  // σ of an element; r without scale_v.
  ASSAY_HOST_DEVICE double Of(double r, double visible, double qv, double p2, double mean) const {
    const Factors factors = Of(visible, p2, mean);
    return std::sqrt(factors.of_r * r * r + factors.of_q * qv + steps.Variance(r * value_scale));
  }
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_ATTENTION_ATTENTION_DEVIATION_H_
