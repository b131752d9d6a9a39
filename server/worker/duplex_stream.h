// A call with streams both ways, for a server: reads as MessageReader does, and writes the messages
// that it is given one after the other.
#ifndef ASSAY_SERVER_WORKER_DUPLEX_STREAM_H_
#define ASSAY_SERVER_WORKER_DUPLEX_STREAM_H_

#include <deque>
#include <optional>
#include <type_traits>
#include <utility>

#include "absl/time/time.h"
#include "server/base/even_time.h"
#include "server/worker/message_reader.h"
#include "server/worker/raw_message.h"

namespace assay::server {

// The derived class ends the call with EndAfterWrites and must live until OnDone. At most kAhead
// messages wait to be written. Any thread may call its functions. `WireIn`
// and `WireOut` are grpc::ByteBuffer if gRPC has the messages as bytes. Then the derived class
// parses what comes, as MessageReader says.
template <class In, class Out, class WireIn = In, class WireOut = Out>
class DuplexStream : public MessageReader<grpc::ServerBidiReactor<WireIn, WireOut>, In, WireIn> {
 protected:
  // Takes the message, unless too many wait. After the end or a broken connection it takes and
  // drops it.
  bool Offer(Out* message) {
    const std::lock_guard lock(this->mutex_);
    return OfferLocked(message);
  }
  // The same, and waits for room. Returns false if nobody reads any more.
  bool Write(Out* message) {
    std::unique_lock lock(this->mutex_);
    while (!OfferLocked(message)) this->changed_.wait(lock);
    return !ClosedLocked();
  }
  // Ends the call when everything that was taken is written. Only the first end counts.
  void EndAfterWrites(const grpc::Status& status) {
    {
      const std::lock_guard lock(this->mutex_);
      if (end_) return;
      end_ = status;
      if (writing_) return;  // OnWriteDone ends it
      this->finished_ = true;
    }
    this->Finish(status);  // may delete this object
  }

  // Whether a message has been on its way since before `time`. Its time begins anew then.
  bool StalledSince(absl::Time time) {
    const std::lock_guard lock(this->mutex_);
    if (!writing_ || write_began_ > time) return false;
    write_began_ = EvenTime();
    return true;
  }

  // Called when there is room for a message again.
  virtual void OnRoom() {}

  // gRPC keeps the object until this has returned.
  void OnWriteDone(bool ok) override {
    {
      const std::lock_guard lock(this->mutex_);
      outgoing_.pop_front();
      if (!ok || this->gone_) {
        broken_ = true;
        outgoing_.clear();
      }
      writing_ = false;
      WriteLocked();
      this->WakeLocked();
    }
    OnRoom();
    FinishIfDue();
  }

 private:
  bool ClosedLocked() const { return broken_ || this->gone_ || end_.has_value(); }

  bool OfferLocked(Out* message) {
    if (ClosedLocked()) return true;
    if (outgoing_.size() >= this->kAhead) return false;
    if constexpr (std::is_same_v<WireOut, Out>) {
      outgoing_.push_back(std::move(*message));
    } else {
      outgoing_.push_back(RawMessage(*message));
    }
    WriteLocked();
    return true;
  }

  void WriteLocked() {
    if (writing_ || outgoing_.empty()) return;
    writing_ = true;
    write_began_ = EvenTime();
    this->StartWrite(&outgoing_.front());
  }

  void FinishIfDue() {
    grpc::Status status;
    {
      const std::lock_guard lock(this->mutex_);
      if (!end_ || writing_ || std::exchange(this->finished_, true)) return;
      status = *end_;
    }
    this->Finish(status);
  }

  std::deque<WireOut> outgoing_;  // the first is being written
  bool writing_ = false;
  absl::Time write_began_;
  bool broken_ = false;  // the connection
  std::optional<grpc::Status> end_;
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_WORKER_DUPLEX_STREAM_H_
