#include "server/base/job_events.h"

#include <string>

#include "absl/time/clock.h"
#include "google/protobuf/util/time_util.h"
#include "kernels/text/cat.h"
#include "server/base/error_info.h"
#include "server/base/finding.h"

namespace assay::server {

using google::protobuf::util::TimeUtil;

google::protobuf::Timestamp TimestampNow() {
  return TimeUtil::NanosecondsToTimestamp(absl::GetCurrentTimeNanos());
}

double UnixSeconds(const google::protobuf::Timestamp& time) {
  return static_cast<double>(TimeUtil::TimestampToNanoseconds(time)) * 1e-9;
}

absl::Time ToTime(const google::protobuf::Timestamp& t) {
  return absl::FromUnixNanos(TimeUtil::TimestampToNanoseconds(t));
}

absl::Duration ToDuration(const google::protobuf::Duration& d) {
  return absl::Seconds(d.seconds()) + absl::Nanoseconds(d.nanos());
}

v1::JobEvent StateChange(v1::JobState from, v1::JobState to, std::string_view reason) {
  v1::JobEvent event;
  *event.mutable_create_time() = TimestampNow();
  event.mutable_state_change()->set_from(from);
  event.mutable_state_change()->set_to(to);
  event.mutable_state_change()->set_reason(std::string(reason));
  return event;
}

void AddFinding(v1::Job& job, v1::Reason reason, std::string_view message) {
  v1::Finding& finding = *job.add_findings() = MakeFinding(reason, message);
  if (reason == v1::REASON_CRASH || reason == v1::REASON_FAULT) finding.set_blame(v1::BLAME_HOST);
}

absl::Status StopsForNow(std::string_view name) {
  return WithReason(absl::UnavailableError(
                        Cat("assayd is stopping; ", name, " goes on when it is started again")),
                    v1::ERROR_REASON_STOPPING);
}

}  // namespace assay::server
