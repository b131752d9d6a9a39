// The messages of a comparison's stream, a few of them read ahead, for a thread that
// takes them one by one. The daemon reads its client so, and a worker its daemon.
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

namespace assay {

// The reading half of a call; who derives from it ends the call with End and outlives
// OnDone. Holds at most kAhead messages: where nobody takes them the sender waits.
class PieceReader : public grpc::ServerReadReactor<v1::CompareTensorsRequest>, public PieceSource {
 public:
  // Begins to read; called once, after SetWake where there is one.
  void Begin();

  Next Take(v1::CompareTensorsRequest* piece) override;
  void SetWake(std::function<void()> wake) override;

  // As Take, but waits for the next message.
  Next Await(v1::CompareTensorsRequest* piece);

 protected:
  // Ends the call; nothing is read after it. Later calls are ignored.
  void End(const grpc::Status& status);
  // As if the sender had gone.
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
  bool gone_ = false;      // or will say no more
  bool finished_ = false;  // the call
};

}  // namespace assay

#endif  // ASSAY_SERVER_WORKER_PIECE_READER_H_
