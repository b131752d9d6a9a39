#include "client/report/report.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/lib/words.h"
#include "client/report/csv.h"
#include "client/report/document.h"
#include "client/report/html.h"
#include "client/report/json.h"
#include "client/report/table.h"

namespace assay::client {
namespace {

struct FormatName {
  const char* word;
  const char* extension;
  Format format;
};
constexpr FormatName kFormats[] = {
    {"table", "", Format::kTable},          {"jsonl", ".jsonl", Format::kJsonl},
    {"csv", ".csv", Format::kCsv},          {"json", ".json", Format::kJson},
    {"junit", ".xml", Format::kJunit},      {"html", ".html", Format::kHtml},
    {"markdown", ".md", Format::kMarkdown},
};

}  // namespace

absl::StatusOr<Format> ParseFormat(std::string_view word) {
  std::vector<std::string> known;
  for (const FormatName& name : kFormats) {
    if (word == name.word) return name.format;
    known.emplace_back(name.word);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("format: unknown format \"", std::string(word), "\"", KnownWords(word, known)));
}

absl::StatusOr<Format> FormatOfFile(std::string_view path) {
  std::vector<std::string> known;
  for (const FormatName& name : kFormats) {
    if (*name.extension == '\0') continue;
    if (path.ends_with(name.extension)) return name.format;
    known.push_back(absl::StrCat(name.extension, " (", name.word, ")"));
  }
  const std::string ending = std::filesystem::path(path).extension().string();
  if (ending.empty() || ending == ".txt") return Format::kTable;
  return absl::InvalidArgumentError(absl::StrCat(
      "output: the ending \"", ending, "\" names no format; these do: ", absl::StrJoin(known, ", "),
      ", .txt (table); or say --format"));
}

std::unique_ptr<Sink> MakeSink(Format format, const Surface& surface) {
  switch (format) {
    case Format::kTable:
      return MakeTableSink(surface);
    case Format::kJsonl:
      return MakeJsonlSink(surface);
    case Format::kCsv:
      return MakeCsvSink(surface);
    case Format::kJson:
      return MakeDocumentSink(surface, WriteJson);
    case Format::kJunit:
      return MakeDocumentSink(surface, WriteJunit);
    case Format::kHtml:
      return MakeDocumentSink(surface, WriteHtml);
    case Format::kMarkdown:
      return MakeDocumentSink(surface, WriteMarkdown);
  }
  return nullptr;
}

void Counts::Add(v1::Verdict verdict) {
  ++total;
  switch (verdict) {
    case v1::VERDICT_PASSED:
      ++passed;
      break;
    case v1::VERDICT_FAILED:
      ++failed;
      break;
    case v1::VERDICT_INCONCLUSIVE:
      ++inconclusive;
      break;
    case v1::VERDICT_UNSUPPORTED:
      ++unsupported;
      break;
    case v1::VERDICT_SKIPPED:
      ++skipped;
      break;
    default:
      // A verdict this client does not know is nobody's pass.
      ++errors;
      break;
  }
}

Counts CountOf(const Report& report) {
  Counts counts;
  for (const Run& run : report.runs) {
    for (const v1::CaseResult& result : run.results) counts.Add(result.verdict());
  }
  return counts;
}

std::string Describe(const Counts& counts) {
  std::string text = absl::StrCat(counts.passed, " passed, ", counts.failed, " failed");
  if (counts.errors > 0) {
    absl::StrAppend(&text, ", ", counts.errors, counts.errors == 1 ? " error" : " errors");
  }
  if (counts.inconclusive > 0) absl::StrAppend(&text, ", ", counts.inconclusive, " inconclusive");
  if (counts.unsupported > 0) absl::StrAppend(&text, ", ", counts.unsupported, " unsupported");
  if (counts.skipped > 0) absl::StrAppend(&text, ", ", counts.skipped, " skipped");
  return text;
}

std::string ShapeText(const v1::CaseSpec& spec) {
  std::vector<std::string> words;
  const Json shape = ShapeOf(spec);
  for (const auto& [name, value] : shape.items()) {
    if (value.is_array()) {
      std::vector<std::string> extents;
      for (const auto& extent : value) extents.push_back(extent.dump());
      words.push_back(absl::StrCat(name, "=", absl::StrJoin(extents, "x")));
    } else if (value != false) {
      words.push_back(
          absl::StrCat(name, "=", value.is_string() ? value.get<std::string>() : value.dump()));
    }
  }
  return absl::StrJoin(words, " ");
}

double Seconds(const google::protobuf::Duration& duration) {
  return static_cast<double>(duration.seconds()) + 1e-9 * duration.nanos();
}

absl::Time Time(const google::protobuf::Timestamp& timestamp) {
  return absl::FromUnixSeconds(timestamp.seconds()) + absl::Nanoseconds(timestamp.nanos());
}

absl::Duration Elapsed(const v1::Job& job) {
  if (!job.has_end_time() || !job.has_start_time()) return absl::ZeroDuration();
  return Time(job.end_time()) - Time(job.start_time());
}

std::string Explain(const v1::Job& job, const Counts& counts) {
  switch (job.state()) {
    case v1::JOB_STATE_CANCELLED:
      return "cancelled";
    case v1::JOB_STATE_INTERRUPTED:
      return "interrupted: the daemon ended before the job did";
    default:
      break;
  }
  if (job.verdict() == v1::VERDICT_INCONCLUSIVE && counts.passed == 0 && counts.inconclusive == 0) {
    return "nothing ran, so nothing was proven";
  }
  return "";
}

}  // namespace assay::client
