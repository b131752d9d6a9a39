// What still fits into the time a job has on a device.
//
// Cases are sized by what the device has shown it can do: the first of an operator,
// provider, format and mode runs; what follows is predicted from the last one by its work
// (useful operations and bytes, of which a launch, its reference and its comparison are
// made), and a case that has run before by its own time. One that would take more than
// what is left, or so large a share of the whole that it would crowd out many others, does
// not fit.
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

 private:
  struct Seen {
    double seconds = 0;
    double work = 0;
  };
  double Predict(const v1::CaseSpec& spec) const;

  std::optional<double> seconds_;
  std::map<std::string, Seen> kinds_;    // by operator, provider, format, mode
  std::map<std::string, double> cases_;  // by all but name and seed [s]
};

}  // namespace assay

#endif  // ASSAY_SERVER_JOBS_BUDGET_H_
