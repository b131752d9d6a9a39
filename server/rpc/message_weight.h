// Tells from the bytes of a request what it takes in memory once it is parsed. On the wire an empty
// message has two bytes, and in memory hundreds. So a limit on the size of requests limits no
// memory, and a request is weighed before it is parsed.
//
// Thread-safe.
#ifndef ASSAY_SERVER_RPC_MESSAGE_WEIGHT_H_
#define ASSAY_SERVER_RPC_MESSAGE_WEIGHT_H_

#include <google/protobuf/message.h>
#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "kernels/ops/field.h"

namespace assay::server {

// What the message of this type in `bytes` takes in memory [bytes]: roughly, and rather too much.
// Counts only until more than `most` is known. Of bytes that are no such message, it counts those
// before the damage.
std::int64_t ParsedBytes(const google::protobuf::Descriptor& type, std::string_view bytes,
                         std::int64_t most);

enum class Parsed : std::uint8_t { kWhole, kTooLarge, kDamaged };

// Parses a message, unless it takes more than `most` bytes in memory. Bytes in pieces are put
// together first, unless there are more than `most`.
Parsed ParseAtMost(std::string_view bytes, std::int64_t most, google::protobuf::Message& message);
Parsed ParseAtMost(const grpc::ByteBuffer& bytes, std::int64_t most,
                   google::protobuf::Message& message);

// What is wrong with such bytes.
FieldError NoMessage(std::string_view field, const google::protobuf::Message& message);

// Parses a request. RESOURCE_EXHAUSTED, as LimitReached says, if it takes more than `most` bytes in
// memory; INVALID_ARGUMENT if it is no such message.
absl::Status ParseWeighed(std::string_view bytes, std::int64_t most,
                          google::protobuf::Message& request);
absl::Status ParseWeighed(const grpc::ByteBuffer& bytes, std::int64_t most,
                          google::protobuf::Message& request);

}  // namespace assay::server

#endif  // ASSAY_SERVER_RPC_MESSAGE_WEIGHT_H_
