// One call of BackupStore. It sends a copy of the store in pieces, as fast as the client takes
// them.
#ifndef ASSAY_SERVER_RPC_BACKUP_STREAM_H_
#define ASSAY_SERVER_RPC_BACKUP_STREAM_H_

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "assay/v1/service.grpc.pb.h"
#include "server/base/task_thread.h"
#include "server/rpc/open_streams.h"
#include "server/store/store.h"

namespace assay::server {

// The most calls at the same time, of which one is served.
inline constexpr std::size_t kMostBackups = 2;

// Keeps itself alive until gRPC is done with it.
class BackupStream final : public grpc::ServerWriteReactor<v1::BackupStoreResponse>,
                           public OpenStream,
                           public std::enable_shared_from_this<BackupStream> {
 public:
  struct Options {
    Store* store = nullptr;
    TaskThread* thread = nullptr;  // makes the copy and waits for the client; for this call alone
    grpc::CallbackServerContext* context = nullptr;
    // A client that does not take a piece for so long is dropped with DEADLINE_EXCEEDED.
    absl::Duration patience = absl::Seconds(60);
    // Cuts the client's connection; may be empty.
    std::function<void()> cut;
    // Called once, when the call is over, with the status that the client gets.
    std::function<void(const grpc::Status&)> ended;
  };

  // Starts serving a call. RESOURCE_EXHAUSTED goes to the client if kMostBackups are there.
  static std::shared_ptr<BackupStream> Start(Options options);

  // Ends the call.
  void Abort(const absl::Status& status) override;

 private:
  explicit BackupStream(Options options) : options_(std::move(options)) {}

  void Run();
  absl::Status Send(std::string_view piece, std::int64_t bytes);
  void End(const absl::Status& status);

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  const Options options_;
  std::shared_ptr<BackupStream> self_;  // until OnDone
  v1::BackupStoreResponse piece_;       // while it is written

  std::mutex mutex_;
  std::condition_variable changed_;
  bool writing_ = false;
  std::optional<absl::Status> abort_;
  grpc::Status status_;
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_RPC_BACKUP_STREAM_H_
