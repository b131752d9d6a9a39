// One call of UploadKernel. It writes the bytes of the file to the disk as they come, has the
// kernel compiled and checked on a thread for that, and sends the compiler's lines meanwhile.
#ifndef ASSAY_SERVER_RPC_UPLOAD_STREAM_H_
#define ASSAY_SERVER_RPC_UPLOAD_STREAM_H_

#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "assay/v1/user_kernel.pb.h"
#include "server/base/task_thread.h"
#include "server/kernels/user_kernels.h"
#include "server/rpc/open_streams.h"

namespace assay::server {

// The most bytes of a file in one message.
inline constexpr std::size_t kMostChunkBytes = 1 << 20;

// The most kernels that wait for the compiler, and the most libraries that wait to be checked.
inline constexpr std::size_t kMostKernelsWaiting = 16;

// Keeps itself alive until gRPC is done with it. Messages come as bytes, because a few bytes may
// grow to gigabytes.
class UploadStream final
    : public grpc::ServerBidiReactor<grpc::ByteBuffer, v1::UploadKernelResponse>,
      public OpenStream,
      public std::enable_shared_from_this<UploadStream> {
 public:
  struct Options {
    UserKernels* kernels = nullptr;
    TaskThread* compiles = nullptr;   // source: compiles one kernel after the other
    TaskThread* libraries = nullptr;  // checks and keeps libraries, which takes far less
    grpc::CallbackServerContext* context = nullptr;
    // How long the header may take to come: `base`. How long the file may take after it: `base`,
    // plus its bytes at `bytes_per_second`.
    absl::Duration base = absl::Seconds(60);
    std::int64_t bytes_per_second = 1'000'000;
    // Called once, when the call is over, with the status that the client gets and the kernel's
    // provider, which is empty if there is no kernel.
    std::function<void(const grpc::Status&, const std::string& provider)> ended;
  };

  static std::shared_ptr<UploadStream> Start(Options options);

  // Ends the call. A compile that runs for it is stopped.
  void Abort(const absl::Status& status) override;

 private:
  explicit UploadStream(Options options) : options_(std::move(options)) {}

  absl::Status Take(const v1::UploadKernelRequest& request);
  // Ends the call at `alarm` if `come`, a flag of mutex_, is not set by then.
  void Expect(std::string_view what, absl::Duration limit, const bool UploadStream::*come,
              grpc::Alarm& alarm);
  void Compile();
  void Send(v1::UploadKernelResponse response);
  void WriteNext();  // requires mutex_
  // Ends the call when all that waits is written. Only the first call counts.
  void End(const absl::Status& status);

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  const Options options_;
  std::shared_ptr<UploadStream> self_;    // until OnDone
  grpc::Alarm late_header_;               // rings when the header should have come
  grpc::Alarm late_;                      // rings when the file should have come
  grpc::ByteBuffer request_;              // while it is read
  std::unique_ptr<KernelUpload> upload_;  // the reader's, then the compiling thread's
  std::atomic<bool> cancel_{false};

  std::mutex mutex_;
  std::deque<v1::UploadKernelResponse> waiting_;  // mutex_; the first is being written
  bool writing_ = false;                          // mutex_
  bool begun_ = false;                            // mutex_; the header has come
  bool compiling_ = false;                        // mutex_; the file has come
  bool finished_ = false;                         // mutex_
  std::optional<absl::Status> end_;               // mutex_
  grpc::Status status_;                           // mutex_
  std::string provider_;                          // mutex_
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_RPC_UPLOAD_STREAM_H_
