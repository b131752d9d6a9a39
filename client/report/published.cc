#include "client/report/published.h"

#include <algorithm>
#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/lib/operators.h"
#include "client/lib/words.h"
#include "client/report/columns.h"
#include "client/report/document.h"
#include "client/report/json.h"
#include "client/report/row.h"
#include "client/report/units.h"

namespace assay::client {
namespace {

constexpr char kPass[] = "✓";
constexpr char kFail[] = "✗";
constexpr std::size_t kFixedColumns = 3;  // case, score, published

// Figures end below one another, words begin so.
bool IsMeasured(std::size_t column) { return column > 0 && column < kFixedColumns; }

std::string Figure(double value) { return absl::StrFormat("%.3g", value); }

std::string Mark(bool passed) { return passed ? kPass : kFail; }

// What the source's own limit says of a measured error; none without either. A kernel
// whose output has a NaN or Inf too many has no largest error to speak of: no pass.
std::optional<bool> BySourcesLimit(const v1::CaseResult& result) {
  const v1::Published& published = result.spec().published();
  if (!published.has_limit() || !result.has_stats()) return std::nullopt;
  return result.stats().has_max_abs_error() && result.stats().class_mismatches() == 0 &&
         result.stats().max_abs_error() <= published.limit();
}

std::string PublishedCell(const v1::Published& published) {
  const std::string figure = published.has_max_abs_error() ? Figure(published.max_abs_error())
                             : published.has_limit() ? absl::StrCat("< ", Figure(published.limit()))
                                                     : "";
  return absl::StrCat(figure, figure.empty() ? "" : " ", Mark(published.passed()));
}

std::string MeasuredCell(const v1::CaseResult& result) {
  std::vector<std::string> words;
  if (result.has_stats() && result.stats().has_max_abs_error()) {
    words.push_back(Figure(result.stats().max_abs_error()));
  }
  if (const std::optional<bool> passed = BySourcesLimit(result)) words.push_back(Mark(*passed));
  words.push_back(RowOf(result).verdict);
  return absl::StrJoin(words, " ");
}

// Results of the same source, problem and formats.
struct Group {
  std::string title;
  std::vector<std::string> providers;
  std::vector<std::string> names;                                               // of rows
  std::map<std::string, std::map<std::string, const v1::CaseResult*>> results;  // name, provider
};

void AddUnique(std::vector<std::string>& list, const std::string& word) {
  if (std::find(list.begin(), list.end(), word) == list.end()) list.push_back(word);
}

// "heads=2 seq=256 dim=128": the extents, without the factors that are 0 by default.
std::string ExtentsText(const v1::CaseSpec& spec) {
  std::vector<std::string> words;
  const Json shape = ShapeOf(spec);
  for (const auto& [name, value] : shape.items()) {
    if (value.is_number_integer()) words.push_back(absl::StrCat(name, "=", value.dump()));
    if (value == true) words.push_back(name);
  }
  return absl::StrJoin(words, " ");
}

std::string TitleOf(const v1::CaseSpec& spec) {
  std::string formats = Word(spec.dtype());
  if (spec.out_dtype() != spec.dtype() && spec.out_dtype() != 0) {
    absl::StrAppend(&formats, " -> ", Word(spec.out_dtype()));
  }
  return absl::StrCat(spec.published().source(), " · ", OpOf(spec), " ", ExtentsText(spec), " · ",
                      formats);
}

std::vector<Group> Collect(const Report& report) {
  std::vector<Group> groups;
  for (const Run& run : report.runs) {
    for (const v1::CaseResult& result : run.results) {
      const v1::CaseSpec& spec = result.spec();
      if (!spec.has_published() || result.verdict() == v1::VERDICT_UNSUPPORTED) continue;
      const std::string title = TitleOf(spec);
      auto group = std::find_if(groups.begin(), groups.end(),
                                [&](const Group& g) { return g.title == title; });
      if (group == groups.end()) group = groups.insert(groups.end(), Group{title, {}, {}, {}});
      std::string provider = spec.provider();
      if (report.runs.size() > 1) absl::StrAppend(&provider, " @ ", run.target);
      AddUnique(group->providers, provider);
      AddUnique(group->names, spec.published().name());
      group->results[spec.published().name()][provider] = &result;
    }
  }
  return groups;
}

// "planted/wrong-axis: the source's outcome in 18 of 19 rows, not in One-hot pattern".
std::string AgreementNote(const Group& group, const std::string& provider) {
  int rows = 0;
  std::vector<std::string> others;
  for (const std::string& name : group.names) {
    const auto& of_name = group.results.at(name);
    const auto it = of_name.find(provider);
    if (it == of_name.end()) continue;
    const std::optional<bool> passed = BySourcesLimit(*it->second);
    if (!passed) continue;
    ++rows;
    if (*passed != it->second->spec().published().passed()) others.push_back(name);
  }
  if (rows == 0) return "";
  std::string note = absl::StrCat(provider, ": the source's outcome in ",
                                  rows - static_cast<int>(others.size()), " of ", rows, " rows");
  if (!others.empty()) absl::StrAppend(&note, ", not in ", absl::StrJoin(others, ", "));
  return note;
}

PublishedTable TableOf(const Group& group) {
  PublishedTable table;
  table.title = group.title;
  table.header = {"CASE", "MAX |S|", "PUBLISHED"};
  table.header.insert(table.header.end(), group.providers.begin(), group.providers.end());
  std::optional<double> limit;
  for (const std::string& name : group.names) {
    const auto& results = group.results.at(name);
    const v1::CaseResult& any = *results.begin()->second;
    std::string score;
    for (const auto& [provider, result] : results) {
      if (result->stats().has_max_abs_score()) score = Figure(result->stats().max_abs_score());
    }
    std::vector<std::string> row = {name, score, PublishedCell(any.spec().published())};
    for (const std::string& provider : group.providers) {
      const auto it = results.find(provider);
      row.push_back(it == results.end() ? "–" : MeasuredCell(*it->second));
    }
    table.rows.push_back(std::move(row));
    if (any.spec().published().has_limit()) limit = any.spec().published().limit();
  }
  if (limit) {
    table.notes.push_back(absl::StrCat(kPass, " ", kFail,
                                       ": the largest absolute error is, or is not, within the "
                                       "source's limit of ",
                                       Figure(*limit), "; the word is the verdict here"));
  }
  for (const std::string& provider : group.providers) {
    if (std::string note = AgreementNote(group, provider); !note.empty()) {
      table.notes.push_back(std::move(note));
    }
  }
  return table;
}

}  // namespace

std::vector<PublishedTable> PublishedTables(const Report& report) {
  std::vector<PublishedTable> tables;
  for (const Group& group : Collect(report)) tables.push_back(TableOf(group));
  return tables;
}

void WriteText(const PublishedTable& table, std::ostream& out) {
  std::vector<Cells> rows = {table.header};
  rows.insert(rows.end(), table.rows.begin(), table.rows.end());
  out << '\n' << table.title << '\n';
  WriteAligned(rows, "  ", IsMeasured, out);
  for (const std::string& note : table.notes) out << "  " << note << '\n';
  out << '\n';
}

void WriteMarkdown(const PublishedTable& table, std::ostream& out) {
  out << "\n### " << EscapeMarkdown(table.title) << "\n\n";
  const auto line = [&](const std::vector<std::string>& cells) {
    for (const std::string& cell : cells) out << "| " << EscapeMarkdown(cell) << ' ';
    out << "|\n";
  };
  line(table.header);
  for (std::size_t i = 0; i < table.header.size(); ++i) {
    out << (IsMeasured(i) ? "|--:" : "|---");
  }
  out << "|\n";
  for (const auto& row : table.rows) line(row);
  out << '\n';
  for (const std::string& note : table.notes) out << "- " << EscapeMarkdown(note) << '\n';
}

void WriteHtml(const PublishedTable& table, std::ostream& out) {
  out << "<h2>" << EscapeXml(table.title) << "</h2>\n<table class=\"published\"><thead><tr>";
  for (const std::string& cell : table.header) out << "<th>" << EscapeXml(cell) << "</th>";
  out << "</tr></thead>\n";
  for (const auto& row : table.rows) {
    out << "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) {
      out << (IsMeasured(i) ? "<td class=\"n\">" : "<td>") << EscapeXml(row[i]) << "</td>";
    }
    out << "</tr>\n";
  }
  out << "</table>\n";
  for (const std::string& note : table.notes) {
    out << "<p class=\"about\">" << EscapeXml(note) << "</p>\n";
  }
}

}  // namespace assay::client
