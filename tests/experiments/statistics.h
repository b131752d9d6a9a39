// Computes what the experiment prints of one product: the share of the bound, R, the largest z, the
// largest R of rows, columns and tiles, and the gain.
//
// With p_k = a_k·b_k: r = Σp_k, S = Σ|p_k|, e = y − r. The deviation σ
// (kernels/numerics/deviation.h) takes Q = Σp_k² or something near it. Kinds of Q are held against
// one another. All are computed in double. Pure.
//
// W is the largest minus the smallest prefix sum of the products in the order of k, 0 among them.
// No sum of adjacent products is above W.
#ifndef ASSAY_TESTS_EXPERIMENTS_STATISTICS_H_
#define ASSAY_TESTS_EXPERIMENTS_STATISTICS_H_

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/numerics/dtype.h"
#include "tests/experiments/data.h"

namespace assay::experiment {

enum QKind : std::uint8_t {
  kExact,  // Σ a²·b², O(m·n·k) work
  kUpper,  // √(Σa⁴ · Σb⁴), O((m + n)·k) work: Cauchy and Schwarz, never below the exact one
  kMargins,  // the same work: row mean · column mean / mean of the exact one, which are exact
  kPrefix,   // exact, and k·W² in place of the mean of Σs_k²: W as below
  kQKinds,
};

// Exact values of every element, [m, n] by rows.
struct Reference {
  Shape shape;
  std::vector<double> r, s, w;
  std::array<std::vector<double>, kQKinds> q;
};
Reference Refer(const Operands& operands);

// The accumulator that σ allows beside fp32 to nearest. A roundoff of 0 means none.
struct Truncating {
  double roundoff = 0;        // u_a
  double block = 1;           // b: products added at once
  std::int64_t promoted = 0;  // L: products between promotions to fp32; 0: never
};
// Of the formats: none for fp32, 2^-24 and 8 for 16 bits, 2^-14 and 32 for 8 bits.
Truncating TruncatingOf(DType input, std::int64_t promoted);

struct Statistics {
  double rho = 0;       // largest |e| / T of the probabilistic bound
  double rho_held = 0;  // the same if E is at least L·u_a·S
  double lost = 0;      // largest |e|/(k·2u_a·S), beside the output's rounding
  struct OfQ {
    double r = 0;        // R = sqrt(mean(e²/σ²))
    double sampled = 0;  // R over 256 of the elements
    double z = 0;        // largest |e|/σ
    double group = 0;    // largest R of a row, column or tile, over its threshold
    double group_r = 0;  // the same R itself
    double gain = 0;
    double gain_error = 0;  // standard error of the gain
    double gain_limit = 0;  // what |gain| may be
  };
  std::array<OfQ, kQKinds> of;
};
Statistics Measure(const Reference& reference, std::span<const float> y, DType input, DType output,
                   const Truncating& truncating);

// max(2, (21 + ln G)/(1.74·√N)): for the largest R of `groups` groups of `count` elements.
double Limit(double groups, double count);

}  // namespace assay::experiment

#endif  // ASSAY_TESTS_EXPERIMENTS_STATISTICS_H_
