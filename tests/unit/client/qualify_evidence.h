// Made-up results of a device, for the tests of a qualification.
#ifndef ASSAY_TESTS_UNIT_CLIENT_QUALIFY_EVIDENCE_H_
#define ASSAY_TESTS_UNIT_CLIENT_QUALIFY_EVIDENCE_H_

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "client/qualify/judgement.h"

namespace assay::client::qualify_testing {

inline v1::CaseResult Result(v1::Verdict verdict, const std::string& reason = "", int index = 0,
                             const std::string& provider = "onednn") {
  v1::CaseResult result;
  result.set_index(index);
  result.set_name("gemm " + std::to_string(index));
  result.mutable_spec()->mutable_gemm()->set_m(8);
  result.mutable_spec()->set_provider(provider);
  result.set_device("cuda:0");
  result.set_verdict(verdict);
  if (!reason.empty()) {
    result.add_findings()->set_reason(reason);
    result.mutable_findings(0)->set_message("as the test says");
    result.set_repro("assay run gemm");
  }
  return result;
}

inline v1::CaseResult Late(int index, const std::string& phase = "kernel",
                           const std::string& device = "cuda:0") {
  v1::CaseResult late = Result(v1::VERDICT_ERROR, "timeout", index);
  late.set_device(device);
  late.mutable_findings(0)->set_phase(phase);
  return late;
}

inline v1::CaseResult Killed(int index) {
  v1::CaseResult killed = Result(v1::VERDICT_ERROR, "crash", index);
  killed.mutable_findings(0)->set_blame(v1::BLAME_HOST);
  killed.mutable_findings(0)->mutable_death()->set_cause(v1::DEATH_CAUSE_KILLED);
  return killed;
}

// It did not run: its device was in quarantine.
inline v1::CaseResult SetAside(int index) {
  v1::CaseResult aside = Result(v1::VERDICT_ERROR, "fault", index);
  aside.mutable_findings(0)->set_quarantined(true);
  return aside;
}

inline DeviceEvidence Evidence(std::vector<v1::CaseResult> results) {
  DeviceEvidence evidence;
  evidence.job.set_name("jobs/test");
  evidence.job.set_state(v1::JOB_STATE_FINISHED);
  evidence.results = std::move(results);
  return evidence;
}

inline std::string CodeOf(const DeviceEvidence& evidence,
                          const std::set<std::string>& ignored = {}) {
  return std::string(Judge(evidence, ignored).code().code);
}

inline const v1::CaseResult kRight = Result(v1::VERDICT_PASSED, "", 7);

}  // namespace assay::client::qualify_testing

#endif  // ASSAY_TESTS_UNIT_CLIENT_QUALIFY_EVIDENCE_H_
