// Row: one result as the words of a table. All formats for people use the same words.
#ifndef ASSAY_CLIENT_REPORT_ROW_H_
#define ASSAY_CLIENT_REPORT_ROW_H_

#include <string>
#include <vector>

#include "client/report/report.h"

namespace assay::client {

struct Row {
  std::string verdict;                           // "passed", "FAILED", "ERROR", "inconclusive", …
  v1::Verdict judged = v1::VERDICT_UNSPECIFIED;  // the same; it has a colour
  std::string name;
  std::string ratio;      // error/bound: "0.92", "exact", "NaN map"; empty: not measured
  std::string precision;  // effective: "24.0 bits", "11.4 of 24"; empty: not measured
  std::string max_abs;
  std::string time;
  std::string rate;
  std::string of_roof;
  std::string change;  // against a baseline: "slower 1.103×"; empty: none
  std::string note;    // NaN that were expected, a low share of the roof; or why there is no figure
  std::string whole_note;  // the note and the change, for a row without a column of changes
  bool measured = false;   // an output was compared: the figures mean something
};

Row RowOf(const v1::CaseResult& result);

// What a person needs to find the fault: a line a finding, the worst element,
// the command that repeats it. {"bound", "2,048 of …"}.
struct Detail {
  std::string label;
  std::string text;
};
std::vector<Detail> DetailsOf(const v1::CaseResult& result);

// The findings alone, the first about elements with how they lie: "2,048 of 2,097,152
// elements beyond their bound, all in rows 63, 127, 191 … (period 64)". The worst
// element is left to a line of its own where the result has one.
std::vector<Detail> FindingsOf(const v1::CaseResult& result);

// Order in which results deserve attention: FAILED first, PASSED late, skipped
// last; among equals the larger error/bound first, then the order of the job.
bool WorseThan(const v1::CaseResult& a, const v1::CaseResult& b);

// Probes that the case should have had and the kernel or the device refused: a pass
// rests on less than others do. "exact-sparse, exact-integers"; empty: none.
std::string RefusedProbes(const v1::CaseResult& result);

// The effective precision, and the declared one if it was not reached: "24.0 bits", "11.4 of 24".
// Both have their place in one short cell: a kernel that reaches what it declares has one number.
// Empty if it was not measured.
std::string BitsText(const v1::Precision& precision);

// The model of a device as its daemon has it in reports: a CPU's with its cores, because its speed
// depends on them. "NVIDIA H200", "AMD EPYC 9755 (2 cores)".
std::string ModelName(const v1::Device& device);

// Whether operations of the type are no floating-point ones.
bool IsInteger(v1::DType dtype);

// Something was found, and nothing against the output: it was slow, or no time could be told.
bool OnlyOfTime(const v1::CaseResult& result);

// Passed, but slow enough that someone should look.
bool LookCloser(const v1::CaseResult& result);

// "kernel-lab · cpu:0 AMD EPYC 9755 (2 cores) · seed 1 · jobs/4f2k"
std::string Heading(const Run& run);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_REPORT_ROW_H_
