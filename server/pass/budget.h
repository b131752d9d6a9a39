// Budget predicts whether a case still fits into the time that a job has on a device.
//
// The first case of each way always runs. A way is an operator with its mode, its checks and its
// repeats. The time of later cases is predicted from their work (useful operations and bytes):
// at the best rate of the case's kind (the way, provider and format), or of its way if that is
// better. A case that has run before is predicted by its own time. The time of timed launches is
// kept apart. It is about the same for every size, until the least number of launches takes longer.
//
// A case does not fit in three situations:
//   - it would take more time than is left,
//   - it would take so large a share of the whole that it crowds out many others,
//   - its deadline is likely to end it, which would look like a kernel that hangs.
#ifndef ASSAY_SERVER_PASS_BUDGET_H_
#define ASSAY_SERVER_PASS_BUDGET_H_

#include <map>
#include <optional>
#include <string>

#include "assay/v1/case.pb.h"

namespace assay::server {

// The flops and bytes of a case's launches and of their check. 0 if the case has no plan.
double WorkOf(const v1::CaseSpec& spec);

// A case's timed launches, and one of them [s].
struct Sampling {
  double seconds = 0;
  double launch = 0;
};

// Of one device's part of a job. One thread.
class Budget {
 public:
  // Nothing: everything fits.
  explicit Budget(std::optional<double> seconds) : seconds_(seconds) {}

  // Why a case does not fit where `elapsed` seconds have gone; empty where it does.
  std::string WhyNot(const v1::CaseSpec& spec, double elapsed) const;
  // What a case took [s], and of that its timed launches.
  void Took(const v1::CaseSpec& spec, double seconds, const Sampling& sampling = {});
  // That a case was ended by its deadline: what is as large, and goes the same way, does not fit.
  void EndedLate(const v1::CaseSpec& spec);

 private:
  // Both in seconds: what grows with a case's work, and how long it is timed beyond the least.
  struct Parts {
    double work = 0;
    double sampling = 0;
  };
  Parts Predict(const v1::CaseSpec& spec) const;

  std::optional<double> seconds_;
  std::map<std::string, double> rates_;     // least seconds a unit of work, by kind and operator
  std::map<std::string, double> sampling_;  // longest, by operator
  std::map<std::string, Parts> cases_;      // by all but name and seed
  std::map<std::string, double> late_;      // least work of those that ended late, by operator
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_PASS_BUDGET_H_
