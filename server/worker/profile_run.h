// One case, run once more as a child process under a profiler.
//
// The case is run by a worker in the foreground, for its kernel alone: validated, untimed,
// without probes. perf counts the first launch of the kernel and nothing else (the worker
// tells it when); the profilers of GPUs see every kernel, of which the one under test is
// told of. Everything the profiler writes is in a folder that is gone
// afterwards; it is killed with all it started at its deadline or when cancelled.
#ifndef ASSAY_SERVER_WORKER_PROFILE_RUN_H_
#define ASSAY_SERVER_WORKER_PROFILE_RUN_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "assay/v1/case.pb.h"
#include "server/worker/executor.h"
#include "server/worker/profiler.h"
#include "server/worker/profiler_output.h"

namespace assay {

struct ProfileRun {
  Profiler profiler = Profiler::kPerf;
  std::string path;  // where its program is looked for, as in $PATH
  std::string worker_path;
  std::vector<std::string> worker_args;  // the device and its limits
  std::vector<std::string> environment;  // added to the daemon's own
  v1::CaseSpec spec;
  absl::Duration limit;                 // of the whole run
  const CancelToken* cancel = nullptr;  // may be null
};

// Never fails: what was not possible is in the note.
Profile RunUnderProfiler(const ProfileRun& run);

// The case as it is profiled.
v1::CaseSpec ProfiledSpec(const v1::CaseSpec& spec);

// The profiler's arguments for a worker's command; files are made in `folder`.
std::vector<std::string> ProfilerArgs(Profiler profiler, const std::string& program,
                                      const std::string& folder,
                                      const std::vector<std::string>& command);

}  // namespace assay

#endif  // ASSAY_SERVER_WORKER_PROFILE_RUN_H_
