#include "client/report/document.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/lib/operators.h"
#include "client/lib/words.h"
#include "client/report/published.h"
#include "client/report/row.h"
#include "client/report/table.h"

namespace assay::client {
namespace {

class DocumentSink : public Sink {
 public:
  DocumentSink(const Surface& surface, DocumentWriter writer)
      : surface_(surface), writer_(writer) {}
  void OnNote(std::string_view note) override { surface_.err << note << '\n' << std::flush; }
  void OnEnd(const Report& report) override {
    writer_(report, surface_.out);
    surface_.out << std::flush;
    surface_.err << Summary(report) << '\n' << std::flush;
  }

 private:
  Surface surface_;
  DocumentWriter writer_;
};

std::vector<const v1::CaseResult*> WorstFirst(const Run& run) {
  std::vector<const v1::CaseResult*> results;
  for (const auto& result : run.results) results.push_back(&result);
  std::sort(results.begin(), results.end(),
            [](const auto* a, const auto* b) { return WorseThan(*a, *b); });
  return results;
}

std::string FindingsText(const v1::CaseResult& result) {
  std::vector<std::string> lines;
  for (const auto& finding : result.findings()) {
    lines.push_back(absl::StrCat(finding.reason(), ": ", finding.message()));
  }
  return absl::StrJoin(lines, "\n");
}

// The element that says how a test case ended; none for a pass.
void WriteOutcome(const v1::CaseResult& result, std::ostream& out) {
  const std::string message =
      EscapeXml(result.findings().empty() ? Word(result.verdict()) : result.findings(0).message());
  const std::string reason =
      EscapeXml(result.findings().empty() ? "" : result.findings(0).reason());
  const std::string text = EscapeXml(FindingsText(result));
  switch (result.verdict()) {
    case v1::VERDICT_PASSED:
      return;
    case v1::VERDICT_FAILED:
      out << "      <failure message=\"" << message << "\" type=\"" << reason << "\">" << text
          << "</failure>\n";
      return;
    case v1::VERDICT_UNSUPPORTED:
    case v1::VERDICT_SKIPPED:
      out << "      <skipped message=\"" << message << "\"/>\n";
      return;
    default:
      out << "      <error message=\"" << message << "\" type=\"" << reason << "\">" << text
          << "</error>\n";
  }
}

Counts CountOf(const Run& run) {
  Counts counts;
  for (const auto& result : run.results) counts.Add(result.verdict());
  return counts;
}

// Why a run without a failure proves nothing; empty where it does, or a finding or an error says
// it already.
std::string Unproven(const Run& run, const Counts& counts) {
  if (run.job.findings_size() > 0) return "";
  if (run.job.state() != v1::JOB_STATE_FINISHED && run.job.state() != v1::JOB_STATE_UNSPECIFIED) {
    return absl::StrCat("the job is ", absl::AsciiStrToLower(Word(run.job.state())), ": ",
                        counts.total - counts.skipped, " of ", std::max(run.total, counts.total),
                        " cases have a result");
  }
  const bool said = counts.failed + counts.errors + counts.inconclusive > 0;
  return said || counts.passed > 0 ? "" : "nothing ran that could pass";
}

// Test cases of the job itself, by their element.
struct JobCases {
  int failures = 0;  // a required kernel is missing
  int errors = 0;    // it proves nothing

  explicit JobCases(const Run& run)
      : failures(run.job.findings_size()), errors(Unproven(run, CountOf(run)).empty() ? 0 : 1) {}
  int total() const { return failures + errors; }
};

void WriteJobCase(std::string_view element, std::string_view reason, std::string_view message,
                  std::ostream& out) {
  out << "    <testcase classname=\"assay.job\" name=\"" << EscapeXml(reason)
      << "\" time=\"0\">\n      <" << element << " message=\"" << EscapeXml(message) << "\" type=\""
      << EscapeXml(reason) << "\"/>\n    </testcase>\n";
}

}  // namespace

std::unique_ptr<Sink> MakeDocumentSink(const Surface& surface, DocumentWriter writer) {
  return std::make_unique<DocumentSink>(surface, writer);
}

void WriteJunit(const Report& report, std::ostream& out) {
  const auto failures = [](const Counts& counts) { return counts.failed; };
  const auto errors = [](const Counts& counts) { return counts.errors + counts.inconclusive; };
  const auto skipped = [](const Counts& counts) { return counts.unsupported + counts.skipped; };
  const Counts all = CountOf(report);
  int job_failures = 0, job_errors = 0;
  for (const Run& run : report.runs) {
    job_failures += JobCases(run).failures;
    job_errors += JobCases(run).errors;
  }
  out << "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"assay\" tests=\""
      << all.total + job_failures + job_errors << "\" failures=\"" << failures(all) + job_failures
      << "\" errors=\"" << errors(all) + job_errors << "\">\n";
  for (const Run& run : report.runs) {
    const Counts counts = CountOf(run);
    const JobCases of_job(run);
    const std::string suite = run.job.suite().empty() ? run.job.name() : run.job.suite();
    const absl::Time begin =
        run.job.has_start_time() ? Time(run.job.start_time()) : report.generated_at;
    out << "  <testsuite name=\"" << EscapeXml(suite) << "\" tests=\""
        << counts.total + of_job.total() << "\" failures=\"" << failures(counts) + of_job.failures
        << "\" errors=\"" << errors(counts) + of_job.errors << "\" skipped=\"" << skipped(counts)
        << "\" time=\"" << absl::StrFormat("%.6f", absl::ToDoubleSeconds(Elapsed(run.job)))
        << "\" timestamp=\"" << absl::FormatTime("%Y-%m-%dT%H:%M:%S", begin, absl::UTCTimeZone())
        << "\" hostname=\"" << EscapeXml(run.target) << "\">\n";
    out << "    <properties>\n      <property name=\"job\" value=\"" << EscapeXml(run.job.name())
        << "\"/>\n    </properties>\n";
    for (const auto& result : run.results) {
      out << "    <testcase classname=\"assay." << OpOf(result.spec()) << "\" name=\""
          << EscapeXml(result.name()) << "\" time=\""
          << absl::StrFormat("%.6f", Seconds(result.duration())) << "\">\n";
      WriteOutcome(result, out);
      if (!result.repro().empty()) {
        out << "      <system-out>" << EscapeXml(result.repro()) << "</system-out>\n";
      }
      out << "    </testcase>\n";
    }
    for (const auto& finding : run.job.findings()) {
      WriteJobCase("failure", finding.reason(), finding.message(), out);
    }
    if (const std::string why = Unproven(run, counts); !why.empty()) {
      WriteJobCase("error", "unproven", why, out);
    }
    out << "  </testsuite>\n";
  }
  out << "</testsuites>\n";
}

void WriteMarkdown(const Report& report, std::ostream& out) {
  for (const Run& run : report.runs) out << "## " << EscapeMarkdown(Heading(run)) << "\n\n";
  out << "**" << EscapeMarkdown(Summary(report)) << "**\n\n";
  for (const PublishedTable& table : PublishedTables(report)) WriteMarkdown(table, out);
  if (!PublishedTables(report).empty()) out << '\n';
  bool changes = false;  // a baseline was given
  for (const Run& run : report.runs) {
    for (const auto& result : run.results) changes = changes || result.bench().has_baseline();
  }
  out << "| Verdict | Case | Error/bound | Precision | Max abs | Time | Rate | Of roof | "
      << (changes ? "Change | |\n" : "|\n") << "|---|---|--:|--:|--:|--:|--:|--:|"
      << (changes ? "---|---|\n" : "---|\n");
  for (const Run& run : report.runs) {
    for (const v1::CaseResult* result : WorstFirst(run)) {
      const Row row = RowOf(*result);
      out << "| " << row.verdict << " | " << EscapeMarkdown(row.name);
      for (const std::string* cell :
           {&row.ratio, &row.precision, &row.max_abs, &row.time, &row.rate, &row.of_roof}) {
        out << " | " << EscapeMarkdown(*cell);
      }
      if (changes) out << " | " << EscapeMarkdown(row.change);
      out << " | " << EscapeMarkdown(row.note) << " |\n";
    }
  }
  for (const Run& run : report.runs) {
    for (const v1::CaseResult* result : WorstFirst(run)) {
      const std::vector<Detail> details = DetailsOf(*result);
      if (details.empty()) continue;
      out << "\n### " << EscapeMarkdown(result->name()) << "\n\n```\n";
      for (const Detail& detail : details) {
        out << absl::StrFormat("%-10s %s\n", detail.label, detail.text);
      }
      out << "```\n";
    }
  }
}

std::string EscapeXml(std::string_view text) {
  std::string escaped;
  for (std::size_t i = 0; i < text.size(); ++i) {
    // XML has no U+FFFE and U+FFFF.
    if (const std::string_view one = text.substr(i, 3); one == "\uFFFE" || one == "\uFFFF") {
      escaped += "\uFFFD";
      i += 2;
      continue;
    }
    switch (const char c = text[i]) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' && c != '\r') {
          escaped += "\xEF\xBF\xBD";
        } else {
          escaped += c;
        }
    }
  }
  return escaped;
}

std::string EscapeMarkdown(std::string_view text) {
  const auto word = [&](std::size_t i) {
    return i < text.size() && (absl::ascii_isalnum(static_cast<unsigned char>(text[i])) != 0);
  };
  std::string escaped;
  for (std::size_t i = 0; i < text.size(); ++i) {
    switch (const char c = text[i]) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '\n':
      case '\r':
        escaped += ' ';
        break;
      case '_':  // within a word, as in layer_norm, it marks nothing
        if (!(i > 0 && word(i - 1) && word(i + 1))) escaped += '\\';
        escaped += c;
        break;
      case '\\':
      case '`':
      case '*':
      case '[':
      case ']':
      case '|':
        escaped += '\\';
        [[fallthrough]];
      default:
        escaped += c;
    }
  }
  return escaped;
}

}  // namespace assay::client
