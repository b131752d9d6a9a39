// Reads messages from the columns that the store's tables keep them in.
#ifndef ASSAY_SERVER_STORE_RECORD_H_
#define ASSAY_SERVER_STORE_RECORD_H_

#include <string_view>

#include "absl/status/status.h"
#include "google/protobuf/message.h"
#include "kernels/text/cat.h"

namespace assay::server {

// Whether the column's bytes are such a message, which then holds them.
inline bool ParseRecord(google::protobuf::Message& message, std::string_view bytes) {
  return message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

// DATA_LOSS: `what` (a "record", "result") of `name` is not what was written.
inline absl::Status Unreadable(std::string_view what, std::string_view name) {
  return absl::DataLossError(
      Cat("the store's ", what, " of ", name, " cannot be read: it is damaged"));
}

}  // namespace assay::server

#endif  // ASSAY_SERVER_STORE_RECORD_H_
