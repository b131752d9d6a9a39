// What still fits into the time a job has on a device.
//
// Cases are sized by what the device has shown it can do: the first that goes an operator's way
// (its mode, its checks, its repeats) runs; what follows is predicted by its work (useful
// operations and bytes, of which a launch, its reference and its comparison are made) at the
// best rate of its kind (that way, provider and format), of which a small or a first case shows
// little, or of its way, whichever is better; and a case that has run before by its own time.
// What a case spends on timed launches is kept apart: they go on for about as long whatever
// their size, until launches are so long that the least number of them takes longer.
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

}  // namespace assay

#endif  // ASSAY_SERVER_JOBS_BUDGET_H_
