// Groups what the jobs of a fleet say about themselves, beside the results of their cases.
//
// A suite may require kernels. If a kernel is missing, the job is FAILED, even if all its cases
// pass. If only some nodes lack the kernel, those nodes are at fault. If all nodes lack it, the
// library or the configuration is at fault.
#ifndef ASSAY_CLIENT_FLEET_JOBS_H_
#define ASSAY_CLIENT_FLEET_JOBS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "client/fleet/fleet.h"

namespace assay::client {

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

}  // namespace assay::client

#endif  // ASSAY_CLIENT_FLEET_JOBS_H_
