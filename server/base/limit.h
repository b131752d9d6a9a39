// The limits of the daemon: those that a setting gives, and those that are fixed. And the one error
// that says that a limit is reached.
#ifndef ASSAY_SERVER_BASE_LIMIT_H_
#define ASSAY_SERVER_BASE_LIMIT_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace assay::server {

enum class Limit : std::uint8_t {
  kWaitingJobs,
  kClientWaitingJobs,
  kClientCases,
  kClientWatchers,
  kWatchers,
  kClientConnections,
  kClientUploads,
  kClientComparisons,
  kRequestBytes,
  // One of these may be reached in a stream.
  kKeptKernels,
  kKeptKernelBytes,
  // No setting gives these.
  kWaitingCalls,
  kWaitingKernels,
  kWaitingComparisons,
  kBackups,
};

// The values of the limits that are a client's, and of those that hold for all clients together. 0
// means no limit.
struct ClientLimitValues {
  std::int64_t waiting_jobs = 500;          // queued and not begun
  std::int64_t cases_per_minute = 200'000;  // accepted
  std::int64_t watchers = 1'000;            // open streams of WatchJob
  std::int64_t all_watchers = 2'000;        // of all clients
  std::int64_t connections = 1'000;         // open
  std::int64_t uploads = 4;                 // of users' kernels, open
  std::int64_t comparisons = 16;            // open streams of CompareTensors

  friend bool operator==(const ClientLimitValues&, const ClientLimitValues&) = default;
};

// All limits.
std::span<const Limit> Limits();

// The name of the setting that gives the limit: "client-max-watchers". Of a fixed limit, a name of
// that form: "waiting-calls".
std::string_view Setting(Limit limit);
// Whether it is counted when the call that it refuses ends, and not where it is reached: it is
// fixed, or may be reached in a stream, which has no metrics.
bool IsCountedAtEnd(Limit limit);

struct Reached {
  Limit limit;
  std::string_view client{};   // whose limit it is, "uid:1000"; empty: that of all
  std::int64_t value = 0;      // of the setting, or what follows from it
  std::int64_t wanted = 0;     // cases that the request has; the other limits count by one
  absl::Duration again;        // when to come again; 0: never with the same request
  std::string_view may{};      // what there may be `value` of; empty: as the limit has it
  std::string_view instead{};  // what to do, if not to come again
};

// RESOURCE_EXHAUSTED, reason LIMIT_REACHED: says which limit, whose, its value and when to come
// again, in words and with google.rpc.ErrorInfo, QuotaFailure and, if it is of use to come again,
// RetryInfo.
absl::Status LimitReached(const Reached& reached);

}  // namespace assay::server

#endif  // ASSAY_SERVER_BASE_LIMIT_H_
