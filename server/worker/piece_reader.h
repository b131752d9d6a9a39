// Reads the messages of a comparison's stream, a few of them ahead, for a thread that takes them
// one by one. The daemon reads its client with it, and a worker reads its daemon.
#ifndef ASSAY_SERVER_WORKER_PIECE_READER_H_
#define ASSAY_SERVER_WORKER_PIECE_READER_H_

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>

#include "assay/v1/compare.pb.h"
#include "server/worker/piece_source.h"

namespace assay::server {

// The reading half of a call. The derived class ends the call with End and must live until OnDone.
// The reader holds at most kAhead messages. If nobody takes them, the sender waits.
class PieceReader : public grpc::ServerReadReactor<v1::CompareTensorsRequest>, public PieceSource {
 public:
  // Begins to read. Call it once, after SetWake if SetWake is used.
  void Begin();

  Next Take(v1::CompareTensorsRequest* piece) override;
  void SetWake(std::function<void()> wake) override;

  // Takes the next message, and waits for it.
  Next Await(v1::CompareTensorsRequest* piece);

 protected:
  // Ends the call. Nothing is read after it. Only the first End counts.
  void End(const grpc::Status& status);
  // Acts as if the sender had gone.
  void GiveUp();

  void OnReadDone(bool ok) override;
  void OnCancel() override { GiveUp(); }

 private:
  static constexpr std::size_t kAhead = 4;

  Next TakeLocked(v1::CompareTensorsRequest* piece);
  void ReadLocked();
  void WakeLocked();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> wake_;
  v1::CompareTensorsRequest incoming_;
  std::deque<v1::CompareTensorsRequest> queue_;
  bool reading_ = false;
  bool ended_ = false;     // the sender has said everything
  bool gone_ = false;      // the sender has gone
  bool finished_ = false;  // the call has ended
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_WORKER_PIECE_READER_H_
