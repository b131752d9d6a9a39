// Jobs: what a fleet's jobs say of themselves, besides their cases.
//
// A suite may require kernels. A job that lacks one is FAILED though all its cases pass: on
// some nodes that is their fault; on all of them it is the library's or the configuration's.
#ifndef ASSAY_CLIENT_FLEET_JOBS_H_
#define ASSAY_CLIENT_FLEET_JOBS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "client/fleet/fleet.h"

namespace assay {

// One finding and the jobs that have it.
struct JobGroup {
  std::vector<const JobRow*> rows;
  std::size_t targets = 0;  // that have it
  std::size_t ran = 0;      // that ran the same cases of the suite

  bool failed() const { return rows.front()->failed; }
  bool everywhere() const { return targets > 1 && targets == ran; }
};

// The findings of the fleet's jobs, in a fixed order.
std::vector<JobGroup> GroupJobs(const Fleet& fleet);

// "a1:7575: the suite requires gemm onednn bf16 on cpu:0: it has none (jobs/4f2k)".
std::string JobLine(const JobRow& row);

}  // namespace assay

#endif  // ASSAY_CLIENT_FLEET_JOBS_H_
