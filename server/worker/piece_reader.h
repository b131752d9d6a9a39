// Reads the messages of a comparison's stream.
#ifndef ASSAY_SERVER_WORKER_PIECE_READER_H_
#define ASSAY_SERVER_WORKER_PIECE_READER_H_

#include "server/worker/message_reader.h"
#include "server/worker/piece_source.h"

namespace assay::server {

using PieceReader =
    MessageReader<grpc::ServerReadReactor<v1::CompareTensorsRequest>, v1::CompareTensorsRequest>;

}  // namespace assay::server

#endif  // ASSAY_SERVER_WORKER_PIECE_READER_H_
