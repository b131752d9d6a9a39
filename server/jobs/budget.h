// What still fits into the time a job has on a device.
//
// Cases are sized by what the device has shown it can do: the first that goes an operator's way
// (its mode, its checks, its repeats) runs; what follows is predicted by its work (useful
// operations and bytes, of which a launch, its reference and its comparison are made) at the
// best rate of its kind (that way, provider and format), of which a small or a first case shows
// little, or of its way, whichever is better; and a case that has run before by its own time.
// One that would take more than what is left, or so large a share of the whole that it would
// crowd out many others, does not fit; nor does one that is likely to be ended by its deadline,
// which would look like a kernel that hangs.
#ifndef ASSAY_SERVER_JOBS_BUDGET_H_
#define ASSAY_SERVER_JOBS_BUDGET_H_

#include <map>
#include <optional>
#include <string>

#include "assay/v1/case.pb.h"

namespace assay {

// Of one device's part of a job. One thread.
class Budget {
 public:
  // Nothing: everything fits.
  explicit Budget(std::optional<double> seconds) : seconds_(seconds) {}

  // Why a case does not fit where `elapsed` seconds have gone; empty where it does.
  std::string WhyNot(const v1::CaseSpec& spec, double elapsed) const;
  // What a case took [s].
  void Took(const v1::CaseSpec& spec, double seconds);
  // That a case was ended by its deadline: what is as large, and goes the same way, does not fit.
  void EndedLate(const v1::CaseSpec& spec);

 private:
  double Predict(const v1::CaseSpec& spec) const;

  std::optional<double> seconds_;
  std::map<std::string, double> rates_;  // least seconds a unit of work, by kind and operator
  std::map<std::string, double> cases_;  // by all but name and seed [s]
  std::map<std::string, double> late_;   // least work of those that ended late, by operator
};

}  // namespace assay

#endif  // ASSAY_SERVER_JOBS_BUDGET_H_
