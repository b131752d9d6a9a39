// Serves a comparison on the worker's side. It copies the pieces of the stream into the device's
// memory as they come, and then returns the result.
#ifndef ASSAY_SERVER_WORKER_COMPARE_CALL_H_
#define ASSAY_SERVER_WORKER_COMPARE_CALL_H_

#include <memory>

#include "assay/worker/v1/worker.pb.h"
#include "kernels/ops/field.h"
#include "kernels/runtime/device.h"
#include "kernels/validate/runner.h"
#include "server/worker/piece_reader.h"

namespace assay::server {

// One call. It deletes itself when gRPC is done with it.
class CompareCall final : public PieceReader {
 public:
  CompareCall(Device& device, worker::v1::RunCaseResponse* response)
      : device_(device), response_(response) {
    Begin();
  }

  // Takes all pieces and ends the call. Called on the device's thread. If the pieces are not what
  // the header says, the response is `refused`. If the sender gives up, the call ends with
  // CANCELLED.
  void Run(PhaseObserver& observer);

 private:
  grpc::Status Compare(PhaseObserver& observer);
  // Answers what is wrong with a field of the public request.
  grpc::Status Refuse(const FieldError& error);
  void OnDone() override { delete this; }

  Device& device_;
  worker::v1::RunCaseResponse* response_;
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_WORKER_COMPARE_CALL_H_
