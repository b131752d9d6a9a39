// Where the messages of a comparison come from, for who passes them on.
#ifndef ASSAY_SERVER_WORKER_PIECE_SOURCE_H_
#define ASSAY_SERVER_WORKER_PIECE_SOURCE_H_

#include <functional>

#include "assay/v1/compare.pb.h"

namespace assay {

class PieceSource {
 public:
  enum class Next {
    kPiece,  // *piece is the next message
    kWait,   // none now; `wake` is called when there may be one
    kEnd,    // all were taken
    kGone,   // the sender has given up
  };
  virtual ~PieceSource() = default;
  // By one thread at a time.
  virtual Next Take(v1::CompareTensorsRequest* piece) = 0;
  // Called by any thread, which must not call back, whenever Take may answer otherwise
  // than before. Once another one is set the old one is not called any more; nullptr: none.
  virtual void SetWake(std::function<void()> wake) = 0;
};

}  // namespace assay

#endif  // ASSAY_SERVER_WORKER_PIECE_SOURCE_H_
