// Judges how exactly a kernel computed, from the errors of all its elements together.
//
// The bound of an element is a worst case, and a kernel that loses half of its bits may stay below
// it. But then its errors are many times those of right kernels, or they have a pattern. This file
// holds the sums of the residual pass (kernels/runtime/residuals.h) against the operator's model
// (ResidualModel) and says what is wrong. kernels/README.md explains the statistics to users.
//
// Thresholds. With |z| = |e|/σ the tail of right kernels is P(|z| > t) ≈ exp(−1.74 t). So R of the
// largest of G groups of N elements stays below (21 + ln G)/(1.74·√N), with a chance of 1e-9 that
// it does not; a floor above every R that a right kernel was seen to have is added
// (tests/experiments measures both).
#ifndef ASSAY_KERNELS_JUDGE_PRECISION_H_
#define ASSAY_KERNELS_JUDGE_PRECISION_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "kernels/judge/finding.h"
#include "kernels/judge/narrowing.h"
#include "kernels/judge/outcome.h"
#include "kernels/ops/op.h"
#include "kernels/ops/plan.h"
#include "kernels/runtime/residuals.h"

namespace assay::inline kernels {

// By how much another order of the sums of a row may move what its elements share, in a norm its
// offset by the sum of the elements and its factor by that of the squares, in a softmax its factor
// by the sum of the exponentials. 1: by no more than the limits hold.
struct RowOrders {
  double offset = 1;
  double gain = 1;
  // How far the scale of a softmax's arguments may be off: equal arguments are rounded alike.
  double scale = 0;
};

// How many times its limit a statistic must be before a verdict follows. Infinity: never.
struct PrecisionGate {
  double fails = std::numeric_limits<double>::infinity();
  double doubtful = std::numeric_limits<double>::infinity();
  // Whether tiles and single elements count. Their deviations are certain only for drawn data.
  bool places = true;
  // How many times further what all elements of a row share must be before it fails.
  RowOrders row_orders = {};
  // The common factor of all elements that another order of their sums may make.
  double order_gain = 0;
  // How many times further a row or a column must be before it fails: the order of the terms may
  // move its elements more than a sample of all elements shows.
  double group_orders = 1;
};

// The gate of data that this product generated: a statistic beyond its limit fails if the model
// says that the data let it.
PrecisionGate GateOfGenerated(const ResidualModel& model);

// The gate of tensors that a user sent. `order_factor` >= 1 says by how much another order of the
// terms may raise a statistic. Inputs in fp32 fail beyond twice the limit. Narrower inputs are only
// doubted, because matrix units truncate their sums.
PrecisionGate GateOfReceived(const Case& c, double order_factor);

// One thing that the statistics say against a kernel.
struct PrecisionFinding {
  Verdict verdict = Verdict::kUnspecified;  // FAILED or INCONCLUSIVE
  Finding finding;                          // precision, structure or suspect
  bool names_format = false;                // the errors are those of one; see AddNarrowing
};

struct PrecisionReading {
  std::optional<Precision> precision;
  std::vector<PrecisionFinding> findings;  // most important first
};

// What the sums say. With fewer than 64 elements that count there is no precision and no finding.
PrecisionReading ReadPrecision(const ResidualModel& model, const Plan& plan,
                               const ResidualSums& sums, const PrecisionGate& gate);

// Adds what the matched filter found: the errors are those of `narrowing`. That is proof enough for
// FAILED, whatever the other statistics say. Without a name nothing changes.
void AddNarrowing(const Narrowing& narrowing, PrecisionReading& reading);

// The limit of R for the largest of `groups` groups of `count` elements each, at least `floor`.
double RmsLimit(double floor, std::int64_t count, std::int64_t groups);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_JUDGE_PRECISION_H_
