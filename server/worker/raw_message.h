// A message as the bytes that gRPC sends.
#ifndef ASSAY_SERVER_WORKER_RAW_MESSAGE_H_
#define ASSAY_SERVER_WORKER_RAW_MESSAGE_H_

#include <google/protobuf/message_lite.h>
#include <grpcpp/support/byte_buffer.h>

#include <cstdint>

namespace assay::server {

inline grpc::ByteBuffer RawMessage(const google::protobuf::MessageLite& message) {
  const grpc::Slice bytes(message.ByteSizeLong());
  message.SerializeWithCachedSizesToArray(const_cast<std::uint8_t*>(bytes.begin()));
  return {&bytes, 1};
}

}  // namespace assay::server

#endif  // ASSAY_SERVER_WORKER_RAW_MESSAGE_H_
