// Writes the outcome of a case for a failed expectation.
#ifndef ASSAY_TESTS_OUTCOME_TEXT_H_
#define ASSAY_TESTS_OUTCOME_TEXT_H_

#include <string>

#include "kernels/judge/outcome.h"
#include "kernels/text/cat.h"

namespace assay {

// The verdict, the findings, and the probes: a line each.
inline std::string Describe(const CaseOutcome& outcome) {
  std::string text = Cat("verdict ", static_cast<int>(outcome.verdict));
  if (outcome.precision) Append(&text, ", R ", outcome.precision->rms);
  for (const Finding& f : outcome.findings) {
    Append(&text, "\n  ", ReasonWord(f.reason), ": ", f.message);
  }
  for (const ProbeOutcome& p : outcome.probes) {
    Append(&text, "\n  ", p.name, " ", static_cast<int>(p.verdict), " ", p.mismatches, "/", p.count,
           " ", p.message);
  }
  return text;
}

}  // namespace assay

#endif  // ASSAY_TESTS_OUTCOME_TEXT_H_
