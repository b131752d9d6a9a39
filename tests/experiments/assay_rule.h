// Holds an output of the experiment against Assay's own rule: its model of the errors, its limits,
// its matched filter and its gates, from the code that judges results. Only the reference r and
// Σ|p| are the experiment's; both are FP64 sums of the same products.
#ifndef ASSAY_TESTS_EXPERIMENTS_ASSAY_RULE_H_
#define ASSAY_TESTS_EXPERIMENTS_ASSAY_RULE_H_

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/judge/narrowing.h"
#include "kernels/judge/precision.h"
#include "kernels/ops/case.h"
#include "kernels/ops/plan.h"
#include "kernels/ops/products.h"
#include "tests/experiments/products.h"

namespace assay::experiment {

// What Assay says of one output.
struct Said {
  bool fails = false;
  bool doubts = false;  // INCONCLUSIVE, reason `suspect`
  double share = 0;     // the largest statistic over the limit from which it fails or is doubted
  std::string why;      // the first message
};

// Of the operands of one draw in one pair of formats. They and the reference must outlive it.
class AssayRule {
 public:
  AssayRule(const Data& data, const Formats& formats, const Operands& operands,
            const Reference& reference);

  // `assay run`, if these data are a pattern whose verdicts follow from statistics. The kernel
  // declares the accumulator of the algorithm's unit.
  std::optional<Said> OfRun(std::span<const float> y, const Algorithm& algorithm) const;
  // `assay compare`, which knows neither how the data came about nor what summed them.
  Said OfCompare(std::span<const float> y) const;

 private:
  struct Held {
    Plan plan;
    bool received = false;
    PrecisionGate gate;
  };
  Said Judge(const Held& held, std::span<const float> y) const;
  PrecisionReading Read(const Held& held, const PrecisionGate& gate, bool filters,
                        std::span<const float> y) const;
  Narrowing Filter(const Held& held, double rms, std::span<const float> y) const;
  std::vector<float> Deviations(const Plan& plan) const;

  const Reference& reference_;
  Case case_;
  bool drawn_ = false;  // whether the data are a pattern of `assay run`
  Plan plan_;
  std::vector<std::int64_t> sampled_;  // elements of products_
  SampledProducts products_;
  double order_factor_ = 1;
};

}  // namespace assay::experiment

#endif  // ASSAY_TESTS_EXPERIMENTS_ASSAY_RULE_H_
