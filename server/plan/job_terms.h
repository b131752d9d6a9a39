// Says on whose terms a job runs: the suite's, or the caller's. What the job says of its devices
// depends on it.
#ifndef ASSAY_SERVER_PLAN_JOB_TERMS_H_
#define ASSAY_SERVER_PLAN_JOB_TERMS_H_

#include "assay/v1/job.pb.h"

namespace assay::server {

struct JobTerms {
  bool filtered = false;         // it runs a share of its suite
  bool suite_of_daemon = false;  // not one that the client wrote
  bool as_written = false;       // each case in the suite's own mode
  bool callers_budget = false;   // its cases are others than the suite's own budget takes
  // Times that its are held against: what came of it is the caller's to judge.
  bool callers_baseline = false;

  // All of a suite of the daemon's own, in the suite's own time.
  bool WholeSuite() const { return suite_of_daemon && !filtered && !callers_budget; }
};

// Of a job that has its spec and its environment.
JobTerms TermsOf(const v1::Job& job);

}  // namespace assay::server

#endif  // ASSAY_SERVER_PLAN_JOB_TERMS_H_
