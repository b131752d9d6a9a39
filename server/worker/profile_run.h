// Runs a case once more under a profiler, as a child process.
//
// A worker in the foreground runs the case for its kernel alone: validated, without timing and
// without probes. perf counts only the first launch of the kernel, because the worker tells it
// when. The profilers of GPUs see every kernel, and only the one under test is reported. The
// profiler writes into a folder that is removed afterwards. At the deadline, or when the run is
// cancelled, the profiler and all that it started are killed.
#ifndef ASSAY_SERVER_WORKER_PROFILE_RUN_H_
#define ASSAY_SERVER_WORKER_PROFILE_RUN_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "assay/v1/case.pb.h"
#include "server/worker/executor.h"
#include "server/worker/profiler.h"
#include "server/worker/profiler_output.h"

namespace assay::server {

struct ProfileRun {
  Profiler profiler = Profiler::kPerf;
  std::string path;  // the folders to find its program in, as in $PATH
  std::string worker_path;
  std::vector<std::string> worker_args;  // the device and its limits
  std::vector<std::string> environment;  // added to the daemon's own
  v1::CaseSpec spec;
  absl::Duration limit;                 // of the whole run
  const CancelToken* cancel = nullptr;  // may be null
};

// Runs the case. It never fails: the note says what was not possible.
Profile RunUnderProfiler(const ProfileRun& run);

// The spec of the case as it is profiled.
v1::CaseSpec ProfiledSpec(const v1::CaseSpec& spec);

// The profiler's arguments for a worker's command. The profiler writes its files into `folder`.
std::vector<std::string> ProfilerArgs(Profiler profiler, const std::string& program,
                                      const std::string& folder,
                                      const std::vector<std::string>& command);

}  // namespace assay::server

#endif  // ASSAY_SERVER_WORKER_PROFILE_RUN_H_
