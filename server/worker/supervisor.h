// The executor of a device. It runs cases in the device's worker and turns every death of the
// worker into a result.
//
// A device has one worker process. A WorkerKeeper keeps it, and it is killed with the supervisor.
// If workers keep dying, the device is quarantined: every case is then ERROR (fault) until Release
// is called or the daemon starts again.
//
// Thread-safety: as CaseExecutor says. Any thread may call the callbacks of the options, but never
// with a lock held that Describe needs.
#ifndef ASSAY_SERVER_WORKER_SUPERVISOR_H_
#define ASSAY_SERVER_WORKER_SUPERVISOR_H_

#include <memory>

#include "server/worker/executor.h"
#include "server/worker/supervisor_options.h"

namespace assay::server {

std::unique_ptr<CaseExecutor> MakeSupervisor(SupervisorOptions options);

}  // namespace assay::server

#endif  // ASSAY_SERVER_WORKER_SUPERVISOR_H_
