// Runs a case whose kernel is a function of a caller's process, on the worker's side: one call of
// RunElsewhere.
//
// The call is the way to the function. What the kernel asks goes to the daemon, which passes it on
// to the caller, and the caller's answers come back. If the daemon sends no more, the function is
// lost: the launch fails, and the case ends.
#ifndef ASSAY_SERVER_WORKER_ELSEWHERE_CALL_H_
#define ASSAY_SERVER_WORKER_ELSEWHERE_CALL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "assay/worker/v1/worker.pb.h"
#include "kernels/ops/own_reference.h"
#include "kernels/providers/external/external.h"
#include "kernels/runtime/device.h"
#include "kernels/validate/runner.h"
#include "server/worker/duplex_stream.h"

namespace assay::server {

// One call. It deletes itself when gRPC is done with it.
class ElsewhereCall final
    : public DuplexStream<worker::v1::RunElsewhereRequest, worker::v1::RunElsewhereResponse>,
      private Elsewhere {
 public:
  // Called on the device's thread when the case has ended, to complete the answer.
  using Complete = std::function<void(worker::v1::RunCaseResponse&)>;

  explicit ElsewhereCall(Device& device) : device_(device) { Begin(); }

  // Runs the case and ends the call. Called on the device's thread.
  void Run(PhaseObserver& observer, const Complete& complete);

 private:
  grpc::Status RunCase(PhaseObserver& observer, const Complete& complete);

  std::unique_ptr<OwnReference> ReferenceOf(const Case& c);

  absl::Status Describe(const Case& c, const Plan& plan) override;
  absl::Status Send(int tensor, std::string_view bytes) override;
  absl::Status Launch(std::uint64_t poison) override;
  absl::Status LaunchReference() override;
  absl::StatusOr<Piece> Await() override;
  absl::Status Ask(worker::v1::RunElsewhereResponse message);

  void OnDone() override { delete this; }

  Device& device_;
  worker::v1::RunElsewhereRequest answer_;  // holds the piece that Await returned
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_WORKER_ELSEWHERE_CALL_H_
