// Reads the messages of a stream, a few of them ahead, for a thread that takes them one by one. The
// daemon reads its clients with it, and a worker reads its daemon.
#ifndef ASSAY_SERVER_WORKER_MESSAGE_READER_H_
#define ASSAY_SERVER_WORKER_MESSAGE_READER_H_

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <type_traits>
#include <utility>

#include "server/worker/message_source.h"

namespace assay::server {

// The reading half of a call. `Reactor` is gRPC's own for the call. The derived class ends the call
// with End and must live until OnDone. The reader holds at most kAhead messages. If nobody takes
// them, the sender waits.
//
// `Wire` is what gRPC reads: messages, or their bytes (grpc::ByteBuffer). Of bytes, the derived
// class makes messages: its OnReadDone gives them to Push.
template <class Reactor, class Message, class Wire = Message>
class MessageReader : public Reactor, public MessageSource<Message> {
 public:
  using Next = NextMessage;

  // Begins to read. Call it once, after SetWake if SetWake is used, and after each Pause.
  void Begin() {
    const std::lock_guard lock(mutex_);
    ReadLocked();
  }

  Next Take(Message* message) override {
    const std::lock_guard lock(mutex_);
    return TakeLocked(message);
  }

  void SetWake(std::function<void()> wake) override {
    const std::lock_guard lock(mutex_);
    wake_ = std::move(wake);
  }

  // Takes the next message, and waits for it.
  Next Await(Message* message) {
    std::unique_lock lock(mutex_);
    Next next = TakeLocked(message);
    while (next == Next::kWait) {
      changed_.wait(lock);
      next = TakeLocked(message);
    }
    return next;
  }

 protected:
  static constexpr std::size_t kAhead = 4;

  // Ends the call. Nothing is read after it. Only the first End counts.
  void End(const grpc::Status& status) {
    {
      const std::lock_guard lock(mutex_);
      if (std::exchange(finished_, true)) return;
    }
    this->Finish(status);  // may delete this object
  }

  // What was read last. For OnReadDone.
  Wire& incoming() { return incoming_; }

  // Takes a message that was read, and reads on. Null: the sender has said everything.
  void Push(Message* message) {
    const std::lock_guard lock(mutex_);
    reading_ = false;
    if (message != nullptr && !gone_) queue_.push_back(std::move(*message));
    if (message == nullptr) ended_ = true;
    ReadLocked();
    WakeLocked();
  }

  // In place of Push, for a message that the derived class keeps: nothing is read until Begin is
  // called again.
  void Pause() {
    const std::lock_guard lock(mutex_);
    reading_ = false;
    incoming_.Clear();
  }

  // Has the reading thread look again.
  void Wake() {
    const std::lock_guard lock(mutex_);
    WakeLocked();
  }

  // Acts as if the sender had gone.
  void GiveUp() {
    const std::lock_guard lock(mutex_);
    gone_ = true;
    queue_.clear();
    WakeLocked();
  }

  void OnReadDone(bool ok) override {
    if constexpr (std::is_same_v<Wire, Message>) Push(ok ? &incoming_ : nullptr);
  }
  void OnCancel() override { GiveUp(); }

  // Called under the lock. The woken thread may end the call and delete this object once it is
  // free.
  void WakeLocked() {
    changed_.notify_all();
    if (wake_) wake_();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool gone_ = false;      // the sender has gone
  bool finished_ = false;  // the call has ended

 private:
  Next TakeLocked(Message* message) {
    if (gone_) return Next::kGone;
    if (queue_.empty()) return ended_ ? Next::kEnd : Next::kWait;
    message->Swap(&queue_.front());
    queue_.pop_front();
    ReadLocked();
    return Next::kPiece;
  }

  void ReadLocked() {
    if (reading_ || ended_ || gone_ || finished_ || queue_.size() >= kAhead) return;
    reading_ = true;
    incoming_.Clear();
    this->StartRead(&incoming_);
  }

  std::function<void()> wake_;
  Wire incoming_;
  std::deque<Message> queue_;
  bool reading_ = false;
  bool ended_ = false;  // the sender has said everything
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_WORKER_MESSAGE_READER_H_
