#include "client/lib/errors.h"

#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/lib/text.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace assay {
namespace {

// A malformed sweep can be refused in thousands of places; the first few say it.
constexpr std::size_t kMostFieldLines = 20;

// gRPC spells causes in its own layers of text; these are the words for them.
// Order matters: the first that occurs is the cause.
struct Cause {
  const char* text;
  const char* words;
  bool is_it_running;  // the daemon may simply not be there
};
constexpr Cause kCauses[] = {
    {"Connection refused", "connection refused", true},
    {"CERTIFICATE_VERIFY_FAILED", "its certificate is not trusted (--tls-ca)", false},
    {"WRONG_VERSION_NUMBER", "it does not speak TLS", false},
    {"No match found for server name", "its certificate is for another name (--tls-server-name)",
     false},
    {"Peer name", "its certificate is for another name (--tls-server-name)", false},
    {"andshake", "the TLS handshake failed: it does not speak TLS, or --tls-ca does not know it",
     false},
    {"DNS resolution failed", "the host name is unknown", true},
    {"Domain name not found", "the host name is unknown", true},
    {"No route to host", "no route to the host", true},
    {"Network is unreachable", "the network is unreachable", true},
    {"No such file or directory", "the socket does not exist", true},
    {"onnection reset", "connection reset: does it ask for TLS, or for a certificate?", false},
    {"Socket closed", "the connection was closed: does it ask for TLS, or for a certificate?",
     false},
    {"imed out", "no answer in time", true},
    {"imeout", "no answer in time", true},
    {"eadline", "no answer in time", true},
};

Cause CauseOf(const std::string& message) {
  for (const Cause& cause : kCauses) {
    if (absl::StrContains(message, cause.text)) return cause;
  }
  return {message.c_str(), message.c_str(), true};
}

// Fields of a job that its options spell otherwise.
std::string OptionOf(std::string path) {
  constexpr std::pair<const char*, const char*> kOptions[] = {{"filter.providers[", "provider"},
                                                              {"filter.dtypes[", "dtype"},
                                                              {"filter.ops[", "op"},
                                                              {"profiler", "profile"},
                                                              {"repeats", "repeat"},
                                                              {"inline_baseline", "baseline"},
                                                              {"baseline_threshold", "threshold"},
                                                              {"baseline_id", "name"}};
  for (const auto& [field, option] : kOptions) {
    if (absl::StartsWith(path, field)) return option;
  }
  return path;
}

std::string OptionOfField(const std::string& field) {
  // A list of jobs has a filter, too, which is one option.
  if (field == "spec.filter") return "filter (--name, --op, --provider, --dtype)";
  return OptionOf(ShortPath(field));
}

// What lists the things of which one was not found.
std::string ListedBy(const std::string& message) {
  constexpr std::pair<const char*, const char*> kKinds[] = {
      {"no baseline \"", "baseline list"}, {"no job \"", "jobs"}, {"no device \"", "devices"}};
  for (const auto& [beginning, command] : kKinds) {
    if (absl::StartsWith(message, beginning)) return absl::StrCat(" (assay ", command, ")");
  }
  return "";
}

std::vector<std::string> FieldLines(const grpc::Status& status) {
  google::rpc::Status details;
  if (!details.ParseFromString(status.error_details())) return {};
  std::vector<std::string> lines;
  std::map<std::string, int> places;  // line -> how many fields it was said of
  for (const auto& any : details.details()) {
    google::rpc::BadRequest bad;
    if (!any.UnpackTo(&bad)) continue;
    for (const auto& violation : bad.field_violations()) {
      const std::string path = OptionOfField(violation.field());
      std::string line = path.empty() ? violation.description()
                                      : absl::StrCat(path, ": ", violation.description());
      if (places[line]++ == 0) lines.push_back(std::move(line));
    }
  }
  for (std::string& line : lines) {
    if (const int n = places[line]; n > 1) absl::StrAppend(&line, " (", n, " cases)");
  }
  if (lines.size() > kMostFieldLines) {
    const std::size_t more = lines.size() - kMostFieldLines;
    lines.resize(kMostFieldLines);
    lines.push_back(absl::StrCat("… and ", more, " more"));
  }
  return lines;
}

}  // namespace

bool NeverConnected(const grpc::Status& status) {
  if (status.error_code() != grpc::StatusCode::UNAVAILABLE) return false;
  const std::string& message = status.error_message();
  for (const char* text : {"ailed to connect", "DNS resolution", "Domain name", "andshake",
                           "empty address list", "Connection refused", "No such file"}) {
    if (absl::StrContains(message, text)) return true;
  }
  return false;
}

bool ConnectionLost(const grpc::Status& status) {
  const std::string& message = status.error_message();
  // What gRPC 1.51 makes of a peer that died in the middle of a frame.
  if (status.error_code() == grpc::StatusCode::INTERNAL) {
    return absl::StrContains(message, "RST_STREAM") || absl::StrContains(message, "GOAWAY");
  }
  if (status.error_code() != grpc::StatusCode::UNAVAILABLE || NeverConnected(status)) return false;
  for (const char* text : {"Socket closed", "onnection reset", "GOAWAY", "Broken pipe"}) {
    if (absl::StrContains(message, text)) return true;
  }
  return false;
}

bool IsTransient(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE || ConnectionLost(status);
}

ExitCode ExitCodeOf(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::OK:
      return ExitCode::kPassed;
    case grpc::StatusCode::INVALID_ARGUMENT:
    case grpc::StatusCode::NOT_FOUND:
    case grpc::StatusCode::OUT_OF_RANGE:
      return ExitCode::kUsage;
    default:
      return ExitCode::kRefused;
  }
}

Failure Describe(const grpc::Status& status, std::string_view target) {
  Failure failure{{}, ExitCodeOf(status)};
  const std::string& message = status.error_message();
  switch (status.error_code()) {
    case grpc::StatusCode::INVALID_ARGUMENT:
      failure.lines = FieldLines(status);
      if (failure.lines.empty()) failure.lines = absl::StrSplit(message, '\n');
      return failure;
    case grpc::StatusCode::NOT_FOUND:
    case grpc::StatusCode::OUT_OF_RANGE:
      failure.lines = {absl::StrCat(absl::StripPrefix(message, "spec."), ListedBy(message))};
      return failure;
    case grpc::StatusCode::UNAVAILABLE:
      if (NeverConnected(status)) {
        const Cause cause = CauseOf(message);
        failure.lines = {absl::StrCat(
            "cannot reach assayd at ", View(target), ": ", cause.words,
            cause.is_it_running ? ". Is it running? Set --target or ASSAY_TARGET." : "")};
        return failure;
      }
      if (ConnectionLost(status)) {
        failure.lines = {absl::StrCat("lost assayd at ", View(target), ": the connection broke")};
        return failure;
      }
      break;
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      failure.lines = {
          absl::StrCat("cannot reach assayd at ", View(target), ": no answer in time")};
      return failure;
    case grpc::StatusCode::UNAUTHENTICATED:
      failure.lines = {absl::StrCat("assayd at ", View(target), " does not know this caller: ",
                                    message, " (--tls-cert, --tls-key)")};
      return failure;
    case grpc::StatusCode::PERMISSION_DENIED:
      failure.lines = {absl::StrCat("assayd at ", View(target), " does not allow this: ", message)};
      return failure;
    case grpc::StatusCode::UNIMPLEMENTED:
      failure.lines = {absl::StrCat("assayd at ", View(target), " cannot do this: ",
                                    message.empty() ? "not implemented" : message)};
      return failure;
    default:
      break;
  }
  failure.lines = {absl::StrCat("assayd at ", View(target), " refused: ", message)};
  return failure;
}

Failure Usage(const absl::Status& status) {
  return {absl::StrSplit(status.message(), '\n'), ExitCode::kUsage};
}

ExitCode ExitCodeOf(const v1::Job& job) {
  switch (job.verdict()) {
    case v1::VERDICT_PASSED:
      return ExitCode::kPassed;
    case v1::VERDICT_FAILED:
      return ExitCode::kFailed;
    default:
      return ExitCode::kNoVerdict;
  }
}

std::string ShortPath(std::string_view path) {
  absl::string_view rest = View(path);
  absl::ConsumePrefix(&rest, "spec.");
  absl::ConsumePrefix(&rest, "cases.");
  // A comparison's header, and the operation in it.
  absl::ConsumePrefix(&rest, "header.");
  absl::ConsumePrefix(&rest, "operation.");
  if (absl::StartsWith(rest, "cases[")) {
    const std::size_t end = rest.find(']');
    if (end == absl::string_view::npos) return std::string(rest);
    rest.remove_prefix(end + 1);
    absl::ConsumePrefix(&rest, ".");
  }
  // A suite's text has positions of its own, which the description begins with.
  if (rest == "suite_text") return "";
  return std::string(rest);
}

}  // namespace assay
