#include "client/cli/baseline_source.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "client/cli/session.h"
#include "client/lib/parse.h"
#include "client/lib/words.h"
#include "client/report/baseline.h"

namespace assay::client {
namespace {

constexpr char kBaselines[] = "baselines/";
constexpr char kJobs[] = "jobs/";

bool IsFile(const std::string& word) {
  return word.find('/') != std::string::npos || word.ends_with(".json");
}

// What a comparison needs of a result.
v1::CaseResult Timing(v1::CaseResult result) {
  result.clear_stats();
  result.clear_provenance();
  result.clear_probes();
  result.clear_criteria();
  result.clear_inputs();
  result.clear_checksum();
  result.clear_slices();
  result.clear_phases();
  result.clear_digests();
  result.clear_pattern_of_errors();
  result.clear_reads_as();
  result.clear_next_step();
  result.mutable_bench()->clear_baseline();
  result.mutable_spec()->clear_golden();
  result.mutable_spec()->clear_published();
  return result;
}

}  // namespace

std::string BaselineName(const std::string& name) {
  return name.starts_with(kBaselines) ? name : kBaselines + name;
}

absl::Status CheckNewBaselineName(const std::string& name) {
  if (!name.ends_with(".json")) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "name: \"", name, "\" would be read as a file by --compare and baseline compare; ",
      "leave .json out, or write a file with --output ", name));
}

absl::StatusOr<v1::BaselineSource> ParseBaselineSource(const std::string& word) {
  v1::BaselineSource source;
  if (word.starts_with(kBaselines) || word.starts_with(kJobs)) {
    source.set_name(word);
  } else if (IsFile(word)) {
    auto baseline = ReadBaselineFile(word);
    if (!baseline.ok()) return baseline.status();
    *source.mutable_inline_() = *std::move(baseline);
  } else {
    source.set_name(BaselineName(word));
  }
  return source;
}

grpc::Status FetchBaseline(Connection& connection, const v1::BaselineSource& source,
                           v1::Baseline* baseline) {
  if (source.has_inline_()) {
    *baseline = source.inline_();
    return grpc::Status::OK;
  }
  if (!source.name().starts_with(kJobs)) {
    v1::GetBaselineRequest request;
    request.set_name(source.name());
    return Ask(connection, &Stub::GetBaseline, request, baseline);
  }
  Run run;
  v1::GetJobRequest request;
  request.set_name(source.name());
  grpc::Status status = Ask(connection, &Stub::GetJob, request, &run.job);
  if (!status.ok()) return status;
  if (run.job.state() != v1::JOB_STATE_FINISHED) {
    return {grpc::StatusCode::FAILED_PRECONDITION,
            absl::StrCat(source.name(), " is ", absl::AsciiStrToLower(Word(run.job.state())),
                         ": only a finished job has times to hold others against")};
  }
  if (run.job.devices_size() > 1) {
    return {grpc::StatusCode::FAILED_PRECONDITION,
            absl::StrCat(source.name(), " ran on ", run.job.devices_size(), " devices (",
                         absl::StrJoin(run.job.devices(), ", "), "), and a baseline is of one")};
  }
  status = FetchResults(connection, source.name(), &run.results);
  if (!status.ok()) return status;
  *baseline = DescribeRun(run);
  baseline->set_name(source.name());
  for (v1::CaseResult& result : run.results) {
    if (WasTimed(result)) *baseline->add_results() = Timing(std::move(result));
  }
  if (baseline->results().empty()) {
    return {grpc::StatusCode::FAILED_PRECONDITION, source.name() + " has no time that counts"};
  }
  baseline->set_case_count(baseline->results_size());
  return grpc::Status::OK;
}

grpc::Status SetBaseline(Connection& connection, const v1::BaselineSource& source,
                         v1::JobSpec* spec) {
  if (source.name().starts_with(kBaselines)) {
    spec->set_baseline(source.name());
    return grpc::Status::OK;
  }
  return FetchBaseline(connection, source, spec->mutable_inline_baseline());
}

absl::StatusOr<double> ParseThreshold(const std::string& text) {
  absl::string_view digits = text;
  const bool percent = absl::ConsumeSuffix(&digits, "%");
  auto value = ParseNumber("threshold", {digits.data(), digits.size()});
  if (!value.ok()) {
    return absl::InvalidArgumentError("threshold: must be a share such as 5% or 0.05, got \"" +
                                      text + "\"");
  }
  // Who writes 5 means 5 %.
  if (!percent && *value >= 1) {
    const double share = *value / 100;
    return absl::InvalidArgumentError(absl::StrCat("threshold: ", text, " would be ", 100 * *value,
                                                   " %; say ", text, "%",
                                                   share < 1 ? absl::StrCat(" or ", share) : ""));
  }
  return percent ? *value / 100 : *value;
}

grpc::Status AsMistake(const grpc::Status& status) {
  if (status.error_code() != grpc::StatusCode::FAILED_PRECONDITION &&
      status.error_code() != grpc::StatusCode::ALREADY_EXISTS) {
    return status;
  }
  return {grpc::StatusCode::INVALID_ARGUMENT, status.error_message()};
}

}  // namespace assay::client
