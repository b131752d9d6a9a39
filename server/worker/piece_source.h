// The source of a comparison's messages.
#ifndef ASSAY_SERVER_WORKER_PIECE_SOURCE_H_
#define ASSAY_SERVER_WORKER_PIECE_SOURCE_H_

#include "assay/v1/compare.pb.h"
#include "server/worker/message_source.h"

namespace assay::server {

using PieceSource = MessageSource<v1::CompareTensorsRequest>;

}  // namespace assay::server

#endif  // ASSAY_SERVER_WORKER_PIECE_SOURCE_H_
