// Processes that workers leave behind. A kernel may start a process that leaves the worker's
// process group (setsid), and that process outlives the worker.
//
// Linux gives a process whose parent has ended to the nearest "child subreaper" above it. The
// worker is one, so such processes stay below the worker. The daemon is one too, so it gets them
// when the worker ends. Every child of the daemon that the daemon did not start is then killed.
//
// Thread-safe.
#ifndef ASSAY_SERVER_CONTAINMENT_ORPHANS_H_
#define ASSAY_SERVER_CONTAINMENT_ORPHANS_H_

#include <sys/types.h>

#include <functional>
#include <string>

namespace assay::server {

// Makes this process a child subreaper. From then on KillOrphans works. Returns why that was not
// possible, or an empty text.
std::string BecomeSubreaper();
// Whether BecomeSubreaper was called and worked.
bool IsSubreaper();

// Runs `start`, which starts a process and returns its id, and notes the process as one of the
// daemon's own. No process is taken for an orphan meanwhile.
void StartOwn(const std::function<pid_t()>& start);
// Notes that an own process has been reaped.
void ForgetOwn(pid_t pid);

// Kills and reaps all children of this process that are not its own, and their descendants. Returns
// how many it killed. Does nothing if this process is no subreaper.
int KillOrphans();

}  // namespace assay::server

#endif  // ASSAY_SERVER_CONTAINMENT_ORPHANS_H_
