#include "client/report/baseline.h"

#include <cerrno>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/lib/case_options.h"
#include "client/lib/operators.h"
#include "client/lib/text.h"
#include "client/lib/visible_message.h"
#include "client/lib/words.h"
#include "client/report/from_json.h"

namespace assay::client {
namespace {

constexpr char kBaselineSchema[] = "assay.baseline/v1";
constexpr char kReportSchema[] = "assay.report/v1";
constexpr std::uintmax_t kMostBytes = std::uintmax_t{512} << 20;

absl::Status Bad(const std::string& name, std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(name, ": ", View(what)));
}

std::string_view TextOf(const absl::Status& status) {
  return {status.message().data(), status.message().size()};
}

std::string Text(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : "";
}

absl::Status CheckSchema(const Json& document, const std::string& name) {
  if (!document.is_object()) return Bad(name, "is no baseline: must be a JSON object");
  const std::string schema = Text(document, "schema");
  if (schema == kBaselineSchema || schema == kReportSchema) return absl::OkStatus();
  const std::string known = absl::StrCat(kBaselineSchema, " or ", kReportSchema);
  for (const char* family : {"assay.baseline/", "assay.report/"}) {
    if (schema.starts_with(family)) {
      return Bad(name, absl::StrCat("has the schema \"", schema,
                                    "\", which this assay does not "
                                    "know: it reads ",
                                    known));
    }
  }
  return Bad(name, absl::StrCat("is no baseline: its \"schema\" must be ", known,
                                schema.empty() ? ", and it has none" : ", got \"", schema,
                                schema.empty() ? "" : "\""));
}

// Of what is not JSON: a file that was cut short, or is empty, looks like one.
std::string WhereItEnds(std::string_view text) {
  std::size_t end = text.find_last_not_of(" \t\r\n");
  if (end == std::string_view::npos) return ": it is empty";
  if (text[end] == '}') return "";
  return absl::StrCat(" (it ends after ", text.size(), " bytes, and not with a }: cut short?)");
}

bool IsTimedMode(const Json& test) {
  const std::string mode = absl::AsciiStrToLower(Text(test, "mode"));
  return mode == "benchmark" || mode == "both";
}

constexpr double kLongestLaunch = 366.0 * 24 * 3600;  // [s]

// Whether a test has a time, which must then be one: above 0 and finite. Tests of a report
// need none, but for benchmarks that passed; all tests of a baseline do.
absl::StatusOr<bool> HasTime(const Json& test, const std::string& path, bool report) {
  const std::string of = Text(test, "name").empty() ? "" : " (" + Text(test, "name") + ")";
  const auto bench = test.find("bench");
  const bool there = bench != test.end() && bench->is_object();
  if (!there || !bench->contains("median_seconds") || (*bench)["median_seconds"].is_null()) {
    const bool expected =
        !report || (Text(test, "verdict") == Word(v1::VERDICT_PASSED) && IsTimedMode(test));
    if (!expected) return false;
    return absl::InvalidArgumentError(
        absl::StrCat(path, ".bench.median_seconds: is missing; must be a time above 0 [s]", of));
  }
  for (const char* key : {"median_seconds", "p10_seconds", "p90_seconds"}) {
    const auto value = bench->find(key);
    if (value == bench->end() || value->is_null()) continue;
    const double seconds = value->is_number() ? value->get<double>() : 0;
    if (seconds > 0 && seconds <= kLongestLaunch) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(path, ".bench.", key,
                     seconds > kLongestLaunch ? ": must be a time of at most a year [s], got "
                                              : ": must be a time above 0 [s], got ",
                     Compact(*value).substr(0, 60), of));
  }
  if (const auto noise = bench->find("noise"); noise != bench->end() && !noise->is_null()) {
    const double share = noise->is_number() ? noise->get<double>() : -1;
    if (!(share >= 0 && std::isfinite(share))) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ".bench.noise: must be a share of the time, 0 or more, got ",
                       Compact(*noise).substr(0, 60), of));
    }
  }
  return true;
}

// The case that a test of a report tells of.
absl::Status FillCase(const Json& test, const std::string& path, v1::CaseResult& result) {
  const std::string op = Text(test, "op");
  const auto* field = v1::CaseSpec::descriptor()->FindFieldByName(op);
  const auto* problem = v1::CaseSpec::descriptor()->FindOneofByName("problem");
  if (field == nullptr || field->containing_oneof() != problem) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ".op: unknown operator \"", op, "\"", KnownWords(op, OperatorNames())));
  }
  // Fields of the result and of its spec that a test has under their own names; a word of
  // the verdict is the one that is needed of what is not the spec's.
  Json of_spec = Json::object();
  for (const char* key : {"provider", "dtype", "out_dtype", "pattern", "seed", "mode"}) {
    if (test.contains(key)) of_spec[key] = test[key];
  }
  of_spec["name"] = Text(test, "name");
  of_spec[op] = test.contains("shape") ? test["shape"] : Json::object();
  Json of_result = Json::object();
  for (const char* key : {"name", "index", "device", "verdict", "implementation", "findings"}) {
    if (test.contains(key)) of_result[key] = test[key];
  }
  if (test.contains("bench") && test["bench"].is_object()) {
    of_result["bench"] = test["bench"];
    of_result["bench"].erase("baseline");
  }
  if (absl::Status s = FillFromJson(of_result, path, result); !s.ok()) return s;
  return FillFromJson(of_spec, path, *result.mutable_spec());
}

}  // namespace

Json BaselineSummaryJson(const v1::Baseline& baseline) {
  Json json = MessageJson(baseline);
  json.erase("results");
  json.erase("untimed");
  return json;
}

Json BaselineJson(const v1::Baseline& baseline) {
  Json json;
  json["schema"] = kBaselineSchema;
  const Json summary = BaselineSummaryJson(baseline);
  for (const auto& [key, value] : summary.items()) json[key] = value;
  json["tests"] = Json::array();
  const Run run;
  for (const v1::CaseResult& result : baseline.results()) {
    Json test = TestJson(run, result);
    // What a case was verified by is not what it took.
    for (const char* key : {"target", "criterion", "atol", "rtol", "repro"}) test.erase(key);
    json["tests"].push_back(std::move(test));
  }
  return json;
}

absl::StatusOr<v1::Baseline> ParseBaseline(std::string_view text, const std::string& name) {
  const Json document = Json::parse(text, nullptr, false);
  if (document.is_discarded()) {
    return Bad(name, absl::StrCat("is no baseline: not JSON", WhereItEnds(text)));
  }
  if (absl::Status s = CheckSchema(document, name); !s.ok()) return s;
  v1::Baseline baseline;
  const bool report = Text(document, "schema") == kReportSchema;
  Json summary = document;
  summary.erase("tests");
  if (report && Text(document, "model").empty()) summary["model"] = Text(document, "gpu");
  // A report of several devices or suites joins them with commas.
  if (absl::Status s = FillFromJson(summary, "", baseline); !s.ok()) return Bad(name, TextOf(s));
  baseline.set_name(name);
  const auto tests = document.find("tests");
  if (tests == document.end() || !tests->is_array()) return Bad(name, "tests: must be a list");
  std::set<std::string> devices;
  for (std::size_t n = 0; n < tests->size(); ++n) {
    const Json& test = (*tests)[n];
    const std::string path = absl::StrCat("tests[", n, "]");
    if (!test.is_object()) return Bad(name, absl::StrCat(path, ": must be an object"));
    const absl::StatusOr<bool> has_time = HasTime(test, path, report);
    if (!has_time.ok()) return Bad(name, TextOf(has_time.status()));
    v1::CaseResult result;
    if (!*has_time && !IsTimedMode(test)) continue;
    if (absl::Status s = FillCase(test, path, result); !s.ok()) return Bad(name, TextOf(s));
    if (!*has_time) *baseline.add_untimed() = result;
    if (!WasTimed(result)) continue;
    devices.insert(Text(test, "target") + " " + Text(test, "device"));
    *baseline.add_results() = std::move(result);
  }
  if (devices.size() > 1) {
    return Bad(name, absl::StrCat("has times of ", devices.size(), " devices (",
                                  absl::StrJoin(devices, ", "), "): a baseline is of one"));
  }
  if (baseline.results().empty() && baseline.untimed().empty()) {
    return Bad(name, "has no times: none of its tests was a benchmark");
  }
  // A document that cases were taken from is not what was measured.
  if (const int told = baseline.case_count();
      !report && told != 0 && told != baseline.results_size()) {
    return Bad(name, absl::StrCat("case_count: must be the number of its tests with a time, ",
                                  baseline.results_size(), ", got ", told));
  }
  baseline.set_case_count(baseline.results_size());
  MakeVisible(baseline);
  return baseline;
}

absl::StatusOr<v1::Baseline> ReadBaselineFile(const std::string& path) {
  std::error_code none;
  const std::filesystem::file_status about = std::filesystem::status(path, none);
  if (std::filesystem::is_directory(about)) return Bad(path, "is a folder, and no baseline");
  if (std::filesystem::exists(about) && !std::filesystem::is_regular_file(about)) {
    return Bad(path, "is a pipe or a device; must be a regular file");
  }
  errno = 0;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file)
    return Bad(path, absl::StrCat("cannot be read: ", std::generic_category().message(errno)));
  const auto size = static_cast<std::uintmax_t>(file.tellg());
  if (size > kMostBytes) return Bad(path, "is too large for a baseline: above 512 MiB");
  file.seekg(0);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) return Bad(path, "cannot be read");
  return ParseBaseline(text.str(), path);
}

std::vector<std::string> OtherVersions(const v1::Baseline& baseline, const v1::Baseline& current) {
  std::map<std::string, std::pair<std::string, std::string>> versions;
  for (const auto& [name, version] : baseline.versions()) versions[name].first = version;
  for (const auto& [name, version] : current.versions()) versions[name].second = version;
  std::vector<std::string> lines;
  for (const auto& [name, both] : versions) {
    const auto& [was, is] = both;
    // What only one side has was not used, or not told.
    if (was.empty() || is.empty() || was == is || name == "assay") continue;
    lines.push_back(absl::StrCat(name, " ", was, " there, ", is, " here"));
  }
  return lines;
}

v1::Baseline DescribeRun(const Run& run) {
  v1::Baseline baseline;
  baseline.set_job(run.job.name());
  if (run.job.devices_size() > 0) baseline.set_device(run.job.devices(0));
  baseline.set_suite(run.job.suite());
  baseline.set_suite_version(run.job.suite_version());
  for (const auto& [key, value] : run.job.environment()) {
    if (key == "model") {
      baseline.set_model(value);
    } else if (key == "driver_version") {
      baseline.set_driver_version(value);
    } else if (key == "host") {
      baseline.set_host(value);
    } else if (key != "callers_terms") {  // which is no version
      (*baseline.mutable_versions())[key] = value;
    }
  }
  return baseline;
}

}  // namespace assay::client
