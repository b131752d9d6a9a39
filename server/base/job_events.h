// Makes small pieces of jobs' records: times, state changes, findings.
#ifndef ASSAY_SERVER_BASE_JOB_EVENTS_H_
#define ASSAY_SERVER_BASE_JOB_EVENTS_H_

#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "assay/v1/job.pb.h"

namespace assay::server {

google::protobuf::Timestamp TimestampNow();
// Since 1970 [s].
double UnixSeconds(const google::protobuf::Timestamp& time);
absl::Time ToTime(const google::protobuf::Timestamp& t);
absl::Duration ToDuration(const google::protobuf::Duration& d);

v1::JobEvent StateChange(v1::JobState from, v1::JobState to, std::string_view reason);
// Adds what the daemon says of the job itself. Neither a kernel nor a device is to blame for a
// crash or a fault of the daemon's: the host is.
void AddFinding(v1::Job& job, v1::Reason reason, std::string_view message);

// UNAVAILABLE: the daemon stops, and the job goes on with the next one.
absl::Status StopsForNow(std::string_view name);

}  // namespace assay::server

#endif  // ASSAY_SERVER_BASE_JOB_EVENTS_H_
