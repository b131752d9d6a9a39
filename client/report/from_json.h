// Fills messages of the API from JSON. It is the inverse of MessageJson.
#ifndef ASSAY_CLIENT_REPORT_FROM_JSON_H_
#define ASSAY_CLIENT_REPORT_FROM_JSON_H_

#include <string>

#include "absl/status/status.h"
#include "client/report/json.h"
#include "google/protobuf/message.h"

namespace assay::client {

// Fills the fields of `message` that the object has: enums by their words, maps of
// strings and numbers, messages within, times as RFC 3339. Names that the message does
// not have are passed over: they may be a newer version's. INVALID_ARGUMENT names the
// path ("tests[3].bench.noise") of a value of the wrong kind.
absl::Status FillFromJson(const Json& object, const std::string& path,
                          google::protobuf::Message& message);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_REPORT_FROM_JSON_H_
