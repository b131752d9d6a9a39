#include "server/worker/piece_reader.h"

#include <utility>

namespace assay::server {

void PieceReader::Begin() {
  const std::lock_guard lock(mutex_);
  ReadLocked();
}

PieceSource::Next PieceReader::Take(v1::CompareTensorsRequest* piece) {
  const std::lock_guard lock(mutex_);
  return TakeLocked(piece);
}

void PieceReader::SetWake(std::function<void()> wake) {
  const std::lock_guard lock(mutex_);
  wake_ = std::move(wake);
}

PieceSource::Next PieceReader::Await(v1::CompareTensorsRequest* piece) {
  std::unique_lock lock(mutex_);
  Next next = TakeLocked(piece);
  while (next == Next::kWait) {
    changed_.wait(lock);
    next = TakeLocked(piece);
  }
  return next;
}

void PieceReader::End(const grpc::Status& status) {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(finished_, true)) return;
  }
  Finish(status);  // may delete this object
}

void PieceReader::GiveUp() {
  const std::lock_guard lock(mutex_);
  gone_ = true;
  queue_.clear();
  WakeLocked();
}

void PieceReader::OnReadDone(bool ok) {
  const std::lock_guard lock(mutex_);
  reading_ = false;
  if (ok && !gone_) queue_.push_back(std::move(incoming_));
  if (!ok) ended_ = true;
  ReadLocked();
  WakeLocked();
}

PieceSource::Next PieceReader::TakeLocked(v1::CompareTensorsRequest* piece) {
  if (gone_) return Next::kGone;
  if (queue_.empty()) return ended_ ? Next::kEnd : Next::kWait;
  piece->Swap(&queue_.front());
  queue_.pop_front();
  ReadLocked();
  return Next::kPiece;
}

void PieceReader::ReadLocked() {
  if (reading_ || ended_ || gone_ || finished_ || queue_.size() >= kAhead) return;
  reading_ = true;
  incoming_.Clear();
  StartRead(&incoming_);
}

void PieceReader::WakeLocked() {
  // Called under the lock. The woken thread may end the call and delete this object once it is
  // free.
  changed_.notify_all();
  if (wake_) wake_();
}

}  // namespace assay::server
