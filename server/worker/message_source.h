// The source of a stream's messages, for the code that passes them on.
#ifndef ASSAY_SERVER_WORKER_MESSAGE_SOURCE_H_
#define ASSAY_SERVER_WORKER_MESSAGE_SOURCE_H_

#include <functional>

namespace assay::server {

enum class NextMessage {
  kPiece,  // *message is the next one
  kWait,   // there is none now; `wake` is called when there may be one
  kEnd,    // all messages were taken
  kGone,   // the sender has given up
};

template <class Message>
class MessageSource {
 public:
  using Next = NextMessage;

  virtual ~MessageSource() = default;
  // Takes the next message. One thread at a time calls it.
  virtual Next Take(Message* message) = 0;
  // Sets the function that is called whenever the answer of Take may have changed. Any thread may
  // call it, and it must not call back. After a new one is set, the old one is not called. nullptr:
  // none.
  virtual void SetWake(std::function<void()> wake) = 0;
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_WORKER_MESSAGE_SOURCE_H_
