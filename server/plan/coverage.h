// Coverage finds what a budget has left out altogether.
//
// A budget may leave out the larger cases of a ladder, and cases that fill. But some case must run
// of each kernel, and of each thing that is asked of it: exact data, times, repeated launches, a
// pattern in memory. Otherwise that thing is not proven.
#ifndef ASSAY_SERVER_PLAN_COVERAGE_H_
#define ASSAY_SERVER_PLAN_COVERAGE_H_

#include <set>
#include <string>
#include <vector>

#include "assay/v1/case.pb.h"

namespace assay::server {

// Of one device's part of a job. One thread.
class Coverage {
 public:
  // Whatever came of it, but that it was left out. A fill proves nothing that is listed.
  void Ran(const v1::CaseSpec& spec);

  // The groups of `planned` of which none ran, each once and in their order: "gemm onednn fp32
  // timed".
  std::vector<std::string> Missed(const std::vector<v1::CaseSpec>& planned) const;

 private:
  std::set<std::string> ran_;
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_PLAN_COVERAGE_H_
