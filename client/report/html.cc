#include "client/report/html.h"

#include <zlib.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "client/lib/operators.h"
#include "client/lib/text.h"
#include "client/lib/words.h"
#include "client/report/document.h"
#include "client/report/html_parts.h"
#include "client/report/json.h"
#include "client/report/published.h"
#include "client/report/row.h"
#include "client/report/table.h"
#include "client/report/units.h"

namespace assay::client {
namespace {

// Longer documents are deflated: shorter ones can be read as they are.
constexpr std::size_t kLongestPlain = 1 << 20;

// The words of a row; what it does not say is absent.
Json RowJson(const v1::CaseResult& result) {
  const Row row = RowOf(result);
  Json json = {{"verdict", row.verdict}};
  const auto add = [&json](const char* name, const std::string& text) {
    if (!text.empty()) json[name] = text;
  };
  add("ratio", row.ratio);
  add("precision", row.precision);
  add("max_abs", row.max_abs);
  add("time", row.time);
  add("rate", row.rate);
  add("of_roof", row.of_roof);
  // A failure's row says its reason; on a terminal a line below it does.
  std::string note = row.whole_note;
  if (row.measured && result.verdict() == v1::VERDICT_FAILED && !result.findings().empty()) {
    const std::vector<Detail> findings = FindingsOf(result);
    note = absl::StrCat(findings[0].label, ": ", findings[0].text, note.empty() ? "" : "; ", note);
  }
  add("note", note);
  if (result.bench().has_baseline()) {
    add("baseline_time", SecondsText(result.bench().baseline().baseline_seconds()));
    add("time", SecondsText(result.bench().baseline().seconds()));
  }
  if (LookCloser(result)) json["look_closer"] = true;
  for (const Detail& detail : DetailsOf(result)) {
    json["details"].push_back({{"label", detail.label}, {"text", detail.text}});
  }
  return json;
}

// The operators with a sequence: [{"op": "attention", "title": "keys", "fields": […]}], in the
// order of the API. The first field of a shape that is not 0 has the length.
Json LengthsJson() {
  Json lengths = Json::array();
  for (const std::string& op : OperatorNames()) {
    const v1::LengthAxis& axis = InfoOf(op).length();
    if (axis.fields().empty()) continue;
    lengths.push_back({{"op", op}, {"title", axis.title()}, {"fields", axis.fields()}});
  }
  return lengths;
}

// {"rows": in the order of "tests", "order": positions there, the worst first, "lengths"}.
Json ViewJson(const Report& report) {
  std::vector<const v1::CaseResult*> results;
  for (const Run& run : report.runs) {
    for (const v1::CaseResult& result : run.results) results.push_back(&result);
  }
  Json view = {{"rows", Json::array()}, {"order", Json::array()}, {"lengths", LengthsJson()}};
  std::vector<std::size_t> order;
  for (const v1::CaseResult* result : results) {
    view["rows"].push_back(RowJson(*result));
    order.push_back(order.size());
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return WorseThan(*results[a], *results[b]);
  });
  for (std::size_t position : order) view["order"].push_back(position);
  return view;
}

// In zlib's format, as the browser's DecompressionStream("deflate") reads it; empty where
// there is no memory for it.
std::string Deflate(const std::string& text) {
  uLongf size = compressBound(text.size());
  std::string packed(size, '\0');
  if (compress2(reinterpret_cast<Bytef*>(packed.data()), &size,
                reinterpret_cast<const Bytef*>(text.data()), text.size(), 6) != Z_OK) {
    return "";
  }
  packed.resize(size);
  return packed;
}

std::string DataBlock(const char* id, const Json& json) {
  const std::string text = Compact(json);
  const std::string packed = text.size() > kLongestPlain ? Deflate(text) : "";
  if (packed.empty()) {
    return absl::StrCat("<script type=\"application/json\" id=\"", id, "\">",
                        EscapeScriptJson(text), "</script>\n");
  }
  return absl::StrCat("<script type=\"text/plain\" data-encoding=\"deflate\" id=\"", id, "\">",
                      absl::Base64Escape(packed), "</script>\n");
}

// How many of its cases a job that is not finished has results of; empty for finished ones.
std::string Unfinished(const Run& run) {
  const char* what = nullptr;
  switch (run.job.state()) {
    case v1::JOB_STATE_QUEUED:
      what = "not started yet";
      break;
    case v1::JOB_STATE_RUNNING:
      what = "still running when this was written";
      break;
    case v1::JOB_STATE_CANCELLED:
      what = "cancelled";
      break;
    case v1::JOB_STATE_INTERRUPTED:
      what = "interrupted: the daemon ended before the job did";
      break;
    default:
      return "";
  }
  const auto results = std::count_if(
      run.results.begin(), run.results.end(),
      [](const v1::CaseResult& result) { return result.verdict() != v1::VERDICT_SKIPPED; });
  return absl::StrCat(run.job.name(), ": ", what, "; ", results, " of ", run.job.counts().total(),
                      " cases have a result.");
}

std::string HeaderHtml(const Report& report) {
  std::string html;
  for (const Run& run : report.runs) {
    const std::string verdict =
        run.job.verdict() != 0 ? Word(run.job.verdict()) : Word(run.job.state());
    absl::StrAppend(
        &html, "<div class=\"title\"><h1>", EscapeXml(Heading(run)), "</h1><span class=\"badge ",
        EscapeXml(verdict), "\">", EscapeXml(verdict), "</span></div>\n<p class=\"run\">",
        EscapeXml(run.target), " · ",
        absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", report.generated_at, absl::UTCTimeZone()));
    if (!run.server.version().empty()) {
      absl::StrAppend(&html, " · assayd ", EscapeXml(run.server.version()));
    }
    absl::StrAppend(&html, "</p>\n");
    if (const std::string state = Unfinished(run); !state.empty()) {
      absl::StrAppend(&html, "<p class=\"banner\">", EscapeXml(state), "</p>\n");
    }
    for (const auto& finding : run.job.findings()) {
      absl::StrAppend(&html, "<p class=\"banner FAILED\">", EscapeXml(finding.reason()), ": ",
                      EscapeXml(finding.message()), "</p>\n");
    }
  }
  absl::StrAppend(&html, "<p class=\"summary\"><b>", EscapeXml(Summary(report)), "</b></p>\n");
  return html;
}

std::string TitleText(const Report& report) {
  return report.runs.size() == 1 ? Heading(report.runs.front()) : Summary(report);
}

}  // namespace

void WriteHtml(const Report& report, std::ostream& out) {
  std::ostringstream published;
  for (const PublishedTable& table : PublishedTables(report)) WriteHtml(table, published);
  FillPage(HtmlPage(),
           {{"title", EscapeXml(absl::StrCat(TitleText(report), " · Assay"))},
            {"style", std::string(HtmlStyle())},
            {"header", HeaderHtml(report)},
            {"published", published.str()},
            {"data", DataBlock("report", ReportJson(report)) + DataBlock("view", ViewJson(report))},
            {"library", std::string(HtmlLibrary())},
            {"script", std::string(HtmlScript())}},
           out);
}

void FillPage(std::string_view page, const std::map<std::string_view, std::string>& parts,
              std::ostream& out) {
  for (;;) {
    const std::size_t open = page.find("{{");
    out << page.substr(0, open);
    if (open == std::string_view::npos) return;
    const std::size_t close = page.find("}}", open);
    out << parts.at(page.substr(open + 2, close - open - 2));
    page = page.substr(close + 2);
  }
}

std::string EscapeScriptJson(std::string_view json) {
  // "<" stands in strings only, where its escape means the same.
  return absl::StrReplaceAll(View(json), {{"<", "\\u003c"}});
}

}  // namespace assay::client
