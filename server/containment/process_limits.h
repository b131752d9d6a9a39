// Limits of a worker process that the kernel of the system counts: processes, open files, the size
// of a file. The daemon sets them from outside, so nothing in the worker can raise them again.
#ifndef ASSAY_SERVER_CONTAINMENT_PROCESS_LIMITS_H_
#define ASSAY_SERVER_CONTAINMENT_PROCESS_LIMITS_H_

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace assay::server {

struct ProcessLimits {
  std::int64_t tasks = 0;       // processes and threads of the user on the whole node
  std::int64_t open_files = 0;  // in one process
  std::int64_t file_bytes = 0;  // the largest file that it may write
};

// The limits for this node. RLIMIT_NPROC counts every task of the user, those of other programs
// too. So the limit is what the user has now, plus room for many workers: it stops a program that
// starts others without end, and nothing else.
ProcessLimits LimitsHere();

// Sets the limits of a process of the same user, and makes it the first to be killed when memory is
// short. A limit that is lower already stays. Returns why that was not possible, or an empty text.
std::string LimitProcess(pid_t pid, const ProcessLimits& limits);

// "at most 8240 tasks of the user, 8192 open files, files of 4 GiB".
std::string LimitsText(const ProcessLimits& limits);

}  // namespace assay::server

#endif  // ASSAY_SERVER_CONTAINMENT_PROCESS_LIMITS_H_
