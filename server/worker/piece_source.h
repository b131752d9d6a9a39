// The source of a comparison's messages, for the code that passes them on.
#ifndef ASSAY_SERVER_WORKER_PIECE_SOURCE_H_
#define ASSAY_SERVER_WORKER_PIECE_SOURCE_H_

#include <functional>

#include "assay/v1/compare.pb.h"

namespace assay::server {

class PieceSource {
 public:
  enum class Next {
    kPiece,  // *piece is the next message
    kWait,   // there is none now; `wake` is called when there may be one
    kEnd,    // all messages were taken
    kGone,   // the sender has given up
  };
  virtual ~PieceSource() = default;
  // Takes the next message. One thread at a time calls it.
  virtual Next Take(v1::CompareTensorsRequest* piece) = 0;
  // Sets the function that is called whenever the answer of Take may have changed. Any thread may
  // call it, and it must not call back. After a new one is set, the old one is not called. nullptr:
  // none.
  virtual void SetWake(std::function<void()> wake) = 0;
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_WORKER_PIECE_SOURCE_H_
