// A device's worker, kept alive: runs cases in it, and turns every way in which it
// can die into a result.
//
// One worker process a device, kept by a WorkerKeeper, and killed with the supervisor. Where
// workers keep dying the device is quarantined: every case then is ERROR (fault) until
// Release is called or the daemon starts anew.
//
// Thread-safety: as CaseExecutor says; the callbacks of the options are called by
// any thread, never with a lock held that Describe needs.
#ifndef ASSAY_SERVER_WORKER_SUPERVISOR_H_
#define ASSAY_SERVER_WORKER_SUPERVISOR_H_

#include <memory>

#include "server/worker/executor.h"
#include "server/worker/supervisor_options.h"

namespace assay {

std::unique_ptr<CaseExecutor> MakeSupervisor(SupervisorOptions options);

}  // namespace assay

#endif  // ASSAY_SERVER_WORKER_SUPERVISOR_H_
