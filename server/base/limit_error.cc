#include "server/base/limit_error.h"

#include <utility>

#include "google/rpc/error_details.pb.h"
#include "kernels/text/cat.h"
#include "server/base/error_info.h"
#include "server/base/request_errors.h"

namespace assay::server {

absl::Status MakeLimitError(const LimitError& error) {
  const absl::Duration again = absl::Ceil(error.again, absl::Seconds(1));
  const bool never = again == absl::ZeroDuration();
  const std::string who(!error.who.empty()      ? error.who
                        : !error.client.empty() ? error.client
                                                : kAllClients);
  const std::string what = Cat(who, " may have ", error.value, " ", error.may, " (", error.limit,
                               error.fixed ? ", which is fixed)" : ")");
  const std::string note = error.note.empty() ? std::string() : Cat("; ", error.note);
  const std::string then =
      never ? std::string(error.instead) : Cat("try again in ", absl::FormatDuration(again));
  absl::Status status =
      absl::ResourceExhaustedError(Cat("a limit is reached: ", what, note, "; ", then));

  google::rpc::ErrorInfo info;
  info.set_domain(kErrorDomain);
  info.set_reason(std::string(Word(v1::ERROR_REASON_LIMIT_REACHED)));
  auto& metadata = *info.mutable_metadata();
  metadata["limit"] = std::string(error.limit);
  metadata["value"] = Cat(error.value);
  if (error.fixed) metadata["fixed"] = "true";
  if (!error.client.empty()) metadata["client"] = std::string(error.client);
  Attach(info, status);

  google::rpc::QuotaFailure quota;
  google::rpc::QuotaFailure::Violation& violation = *quota.add_violations();
  violation.set_subject(who);
  violation.set_description(what);
  Attach(quota, status);
  return never ? status : WithRetry(std::move(status), again);
}

}  // namespace assay::server
