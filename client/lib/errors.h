// Turns errors of the daemon or the network into lines for a person and into an exit code. All
// functions are pure.
#ifndef ASSAY_CLIENT_LIB_ERRORS_H_
#define ASSAY_CLIENT_LIB_ERRORS_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "assay/v1/job.pb.h"
#include "assay/v1/types.pb.h"
#include "client/lib/transport.h"
#include "grpcpp/support/status.h"

namespace assay::client {

// The exit codes of `assay`, a contract with scripts.
enum class ExitCode {
  kPassed = 0,     // everything asked for passed
  kFailed = 1,     // a verdict says FAILED
  kUsage = 2,      // the command line or the request is malformed
  kRefused = 3,    // the daemon cannot be reached, or refused
  kNoVerdict = 4,  // ended without a verdict
};

// What failed: lines to print, each without the leading "assay: ", and the code.
struct Failure {
  std::vector<std::string> lines;
  ExitCode code = ExitCode::kUsage;
};

// The reason that the daemon gave for an error; unspecified if it gave none.
v1::ErrorReason ReasonOf(const grpc::Status& status);

// What is wrong with one field of a malformed request.
struct BadField {
  std::string option;       // in the user's own words: "gemm.m"; empty: the description says it all
  std::string description;  // "must be at least 1, got 0"
  std::string path = {};    // in the request: "spec.cases[3].gemm.m"; not for editing
};

// The same error, with its fields as `edit` leaves them.
grpc::Status WithFields(const grpc::Status& status, absl::FunctionRef<void(BadField&)> edit);

// "cannot reach assayd at HOST: connection refused": of a status that is NeverConnected.
std::string WhyUnreachable(const grpc::Status& status, std::string_view target);

// The exit code of a status that is not OK: malformed requests and unknown names
// are usage (2), everything else is the daemon's refusal (3).
ExitCode ExitCodeOf(const grpc::Status& status);

// What a failed call means. A malformed request gives one line a bad field, with
// the path shortened to the user's own words ("spec.cases.cases[3].gemm.m" is
// "gemm.m") and said once however many cases of a sweep share it.
// `target` is the daemon's address as the user wrote it.
Failure Describe(const grpc::Status& status, std::string_view target);

// A usage error of the client's own.
Failure Usage(const absl::Status& status);

// The code of a job that has ended: PASSED 0, FAILED 1, anything else 4.
ExitCode ExitCodeOf(const v1::Job& job);

// The field path in the user's words.
std::string ShortPath(std::string_view path);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_LIB_ERRORS_H_
