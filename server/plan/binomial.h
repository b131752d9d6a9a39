// Probabilities of a number of successes in independent trials, and the exact confidence interval
// of a rate that was counted (Clopper and Pearson, 1934).
#ifndef ASSAY_SERVER_PLAN_BINOMIAL_H_
#define ASSAY_SERVER_PLAN_BINOMIAL_H_

namespace assay::server {

// The chance of at most `successes` in `trials` if each succeeds with probability `rate`, in [0,
// 1].
double ChanceOfAtMost(int successes, int trials, double rate);

// The ends of the interval that holds the true rate with a confidence of 95 %: 2.5 % lie beyond
// each end. `trials` >= 1, 0 <= `successes` <= `trials`. 20 of 20 give 0.8316 to 1.
double LowestRate(int successes, int trials);
double HighestRate(int successes, int trials);

}  // namespace assay::server

#endif  // ASSAY_SERVER_PLAN_BINOMIAL_H_
