// A comparison on the worker's side: the pieces of the stream, as they come, into the
// device's memory, then the result.
#ifndef ASSAY_SERVER_WORKER_COMPARE_CALL_H_
#define ASSAY_SERVER_WORKER_COMPARE_CALL_H_

#include <memory>

#include "assay/worker/v1/worker.pb.h"
#include "kernels/runtime/device.h"
#include "kernels/validate/runner.h"
#include "server/worker/piece_reader.h"

namespace assay {

// Deletes itself once gRPC is done with it.
class CompareCall final : public PieceReader {
 public:
  CompareCall(Device& device, worker::v1::RunCaseResponse* response)
      : device_(device), response_(response) {
    Begin();
  }

  // On the device's thread: takes the pieces to the last and ends the call. INVALID_ARGUMENT
  // where they are not what the header says, CANCELLED where the sender gives up.
  void Run(PhaseObserver& observer);

 private:
  grpc::Status Compare(PhaseObserver& observer);
  void OnDone() override { delete this; }

  Device& device_;
  worker::v1::RunCaseResponse* response_;
};

}  // namespace assay

#endif  // ASSAY_SERVER_WORKER_COMPARE_CALL_H_
