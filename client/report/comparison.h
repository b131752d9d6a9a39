// Comparison: times held against the times of a baseline, as tables and documents.
//
// The order is slower, ambiguous, faster, same. Within each, larger changes come first.
#ifndef ASSAY_CLIENT_REPORT_COMPARISON_H_
#define ASSAY_CLIENT_REPORT_COMPARISON_H_

#include <ostream>
#include <string>
#include <vector>

#include "assay/v1/service.pb.h"
#include "client/report/json.h"
#include "client/report/report.h"
#include "proto/timing.h"

namespace assay::client {

struct Comparison {
  std::string baseline;  // as messages name it
  std::string current;
  std::vector<v1::BaselineChange> changes;  // in the order of `current`
  std::vector<std::string> missing;         // cases of the baseline alone
  std::vector<std::string> added;           // cases of `current` alone
  std::vector<v1::CaseResult> lost = {};    // of the baseline, without a time now that counts
};

// Changes, worst first.
std::vector<const v1::BaselineChange*> WorstFirst(const Comparison& comparison);

// "slower 1.103×", "same", "ambiguous 1.03× ± 4 %": a change in a few words.
std::string ChangeText(const v1::BaselineChange& change);

// "2 slower, 1 ambiguous, 0 faster, 30 same, 0 lost (threshold 5 %)".
std::string ChangeSummary(const Comparison& comparison);

// "gemm 64x64x64 fp32: no time now, ERROR timeout": a case that lost its time.
std::string LostText(const v1::CaseResult& lost);

// Writes it as table, json, jsonl, csv or markdown; other formats write nothing.
void WriteComparison(const Comparison& comparison, Format format, std::ostream& out);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_REPORT_COMPARISON_H_
