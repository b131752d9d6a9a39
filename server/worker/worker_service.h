// The worker's side of the socket pair: one device, one thread that drives it.
//
// gRPC's threads only carry messages; every touch of the device happens on the
// thread that called ServeWorker, in the order in which requests came.
#ifndef ASSAY_SERVER_WORKER_WORKER_SERVICE_H_
#define ASSAY_SERVER_WORKER_WORKER_SERVICE_H_

#include <memory>
#include <string>

#include "assay/v1/case.pb.h"
#include "assay/worker/v1/worker.pb.h"
#include "kernels/bench/conditions.h"
#include "kernels/providers/provider.h"
#include "kernels/runtime/device.h"
#include "kernels/validate/runner.h"
#include "server/worker/kept_ceilings.h"
#include "server/worker/memory_limit.h"
#include "server/worker/phase_page.h"

namespace assay {

// What Describe and the probe answer.
worker::v1::DescribeResponse DescribeDevice(Device& device, const Registry& registry);

// A case from its spec to its result, on the calling thread. A spec that cannot be
// run (the daemon checks them, so it is a mistake of ours) gives ERROR. `page` may be null,
// and so may `conditions`, and `watcher`, who is told of the phases, too.
v1::CaseResult RunCaseSpec(const v1::CaseSpec& spec, Device& device, const Registry& registry,
                           Ceilings* ceilings, PhasePage* page, MemoryLimit* limit,
                           ConditionsProbe* conditions = nullptr, PhaseObserver* watcher = nullptr);

// The device's ceilings, measured where they are not known, are suspect or noisy, with what a
// data sheet says beside them. Gives the arena back where it was not held before.
void MeasureCeilings(Device& device, Ceilings& ceilings,
                     worker::v1::MeasureCeilingsResponse* response);

// Serves the requests that come over the connected socket `fd`, on the calling
// thread, until the process ends: the daemon kills its workers, and a worker dies
// with its daemon.
[[noreturn]] void ServeWorker(int fd, Device& device, const Registry& registry,
                              KnownCeilings* ceilings, PhasePage* page, MemoryLimit* limit,
                              ConditionsProbe* conditions = nullptr);

}  // namespace assay

#endif  // ASSAY_SERVER_WORKER_WORKER_SERVICE_H_
