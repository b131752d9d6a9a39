#include "client/lib/errors.h"

#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/lib/text.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace assay::client {
namespace {

// A malformed sweep can be refused in thousands of places; the first few say it.
constexpr std::size_t kMostFieldLines = 20;

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
  // Fields of a job, and not of a list of jobs or of a case, which have the same short names.
  constexpr std::pair<const char*, const char*> kOfJob[] = {
      {"spec.filter", "filter (--name, --op, --provider, --dtype)"},
      {"spec.deadline", "job-deadline"},
      {"spec.case_deadline", "case-deadline"},
      {"spec.wait_for_others", "wait-for-others"}};
  for (const auto& [path, option] : kOfJob) {
    if (field == path) return option;
  }
  return OptionOf(ShortPath(field));
}

// The command that lists the things of which one was not found. An error that is about a field
// of the request lists them itself.
std::string ListedBy(const grpc::Status& status) {
  if (ErrorInfoOf(status).metadata().contains("field")) return "";
  switch (ReasonOf(status)) {
    case v1::ERROR_REASON_BASELINE_NOT_FOUND:
      return " (assay baseline list)";
    case v1::ERROR_REASON_JOB_NOT_FOUND:
      return " (assay jobs)";
    case v1::ERROR_REASON_DEVICE_NOT_FOUND:
      return " (assay devices)";
    default:
      return "";
  }
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
      std::string line =
          VisibleLines(path.empty() ? violation.description()
                                    : absl::StrCat(path, ": ", violation.description()));
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

v1::ErrorReason ReasonOf(const grpc::Status& status) {
  v1::ErrorReason reason = v1::ERROR_REASON_UNSPECIFIED;
  v1::ErrorReason_Parse("ERROR_REASON_" + ErrorInfoOf(status).reason(), &reason);
  return reason;
}

grpc::Status WithFields(const grpc::Status& status, absl::FunctionRef<void(BadField&)> edit) {
  google::rpc::Status details;
  if (!details.ParseFromString(status.error_details())) return status;
  for (auto& any : *details.mutable_details()) {
    google::rpc::BadRequest bad;
    if (!any.UnpackTo(&bad)) continue;
    for (auto& violation : *bad.mutable_field_violations()) {
      BadField field{OptionOfField(violation.field()), violation.description(), violation.field()};
      edit(field);
      violation.set_field(field.option);
      violation.set_description(field.description);
    }
    any.PackFrom(bad);
  }
  return {status.error_code(), status.error_message(), details.SerializeAsString()};
}

std::string WhyUnreachable(const grpc::Status& status, std::string_view target) {
  return absl::StrCat("cannot reach assayd at ", View(target), ": ", CauseOf(status).words);
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
      failure.lines = {absl::StrCat(message, ListedBy(status))};
      return failure;
    case grpc::StatusCode::UNAVAILABLE:
      if (NeverConnected(status)) {
        failure.lines = {absl::StrCat(
            WhyUnreachable(status, target),
            CauseOf(status).is_it_running ? ". Is it running? Set --target or ASSAY_TARGET." : "")};
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
                                    message, " (--tls-cert, --token-file)")};
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

}  // namespace assay::client
