// Serves the requests of the daemon in a worker, which has one device.
//
// gRPC's threads only carry messages. Only the thread that called ServeWorker touches the device,
// and it serves the requests in the order in which they came.
#ifndef ASSAY_SERVER_WORKER_WORKER_SERVICE_H_
#define ASSAY_SERVER_WORKER_WORKER_SERVICE_H_

#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "assay/v1/case.pb.h"
#include "assay/worker/v1/worker.pb.h"
#include "kernels/bench/conditions.h"
#include "kernels/providers/provider.h"
#include "kernels/runtime/device.h"
#include "kernels/validate/runner.h"
#include "server/process/phase_page.h"
#include "server/worker/kept_ceilings.h"
#include "server/worker/memory_limit.h"

namespace assay::server {

// Describes the device and its kernels, for Describe and for `assay-worker --probe`.
worker::v1::DescribeResponse DescribeDevice(Device& device, const Registry& registry);

// Runs a case from its spec to its result, on the calling thread. A spec that cannot run gives
// ERROR. The daemon checks specs, so such a spec is a mistake of ours. `watcher` is told of the
// phases, too. `page`, `conditions`, `draws` and `watcher` may be null. `kernel_file` is the
// library of a user's kernel, and `reference_file` that of the case's own reference.
v1::CaseResult RunCaseSpec(const v1::CaseSpec& spec, Device& device, const Registry& registry,
                           Ceilings* ceilings, PhasePage* page, MemoryLimit* limit,
                           ConditionsReader* conditions = nullptr, KeptDraws* draws = nullptr,
                           PhaseObserver* watcher = nullptr, const std::string& kernel_file = "",
                           const std::string& reference_file = "");

// Runs the case and the cases that follow it, one after the other, each by `run`, as if it were
// alone. Ends when kInTurnFor is over, or after a case that neither passed nor is unsupported: if a
// later case ended the worker, that result would be lost. `page` may be null.
void RunInTurn(const worker::v1::RunCaseRequest& request, PhasePage* page,
               absl::FunctionRef<v1::CaseResult(const v1::CaseSpec&)> run,
               worker::v1::RunCaseResponse& response);

// Returns the device's ceilings, with what the data sheet says. Measures a ceiling if it is not
// known or is in doubt. If the arena was not held before, gives it back.
void MeasureCeilings(Device& device, Ceilings& ceilings,
                     worker::v1::MeasureCeilingsResponse* response);

// Serves the requests that come over the connected socket `fd`, on the calling thread, until the
// process ends. The daemon kills its workers, and a worker dies with its daemon.
[[noreturn]] void ServeWorker(int fd, Device& device, const Registry& registry,
                              KnownCeilings* ceilings, PhasePage* page, MemoryLimit* limit,
                              ConditionsReader* conditions = nullptr);

}  // namespace assay::server

#endif  // ASSAY_SERVER_WORKER_WORKER_SERVICE_H_
