// Makes the error that says that a limit is reached. LimitReached of limit.h makes it for most
// limits. A part that says more of its own limit makes it here.
#ifndef ASSAY_SERVER_BASE_LIMIT_ERROR_H_
#define ASSAY_SERVER_BASE_LIMIT_ERROR_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace assay::server {

// Whose the limits are that hold for all clients together.
inline constexpr std::string_view kAllClients = "all clients together";

struct LimitError {
  std::string_view limit;      // the setting that gives it; of a fixed one, a name of that form
  bool fixed = false;          // no setting gives it, and the error says so
  std::string_view client{};   // whose limit it is, "uid:1000"; empty: that of all
  std::string_view who{};      // instead of the client in the text; empty: the client, or all
  std::int64_t value = 0;      // that is reached
  std::string may;             // what there may be `value` of: "jobs that wait"
  std::string note{};          // what else the text says, before when to come again
  absl::Duration again;        // when to come again; 0: never with the same request
  std::string_view instead{};  // what to do, if not to come again
};

// RESOURCE_EXHAUSTED, reason LIMIT_REACHED: says which limit, whose, its value and when to come
// again, in words and with google.rpc.ErrorInfo, QuotaFailure and, if it is of use to come again,
// RetryInfo.
absl::Status MakeLimitError(const LimitError& error);

}  // namespace assay::server

#endif  // ASSAY_SERVER_BASE_LIMIT_ERROR_H_
