#include "client/report/row_layout.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/report/columns.h"
#include "client/report/grid.h"
#include "client/report/units.h"
#include "client/report/wrap.h"

namespace assay::client {
namespace {

constexpr std::size_t kVerdictWidth = 8;
constexpr std::size_t kNameWidth = 40;  // in a pipe, to begin with
constexpr std::size_t kWideName = 60;   // wider than this the figures are far from it
// A terminal leaves columns out until this much is left for the case: "attention
// 1x16x2048x64 causal fp16 builtin".
constexpr std::size_t kEnoughName = 42;
constexpr std::size_t kFixed = 2 + kVerdictWidth + 1 + 1;  // around the case
constexpr std::size_t kGap = 2;                            // before every column but the first
constexpr std::size_t kIndent = 4;                         // of details
constexpr std::size_t kLeastDetail = 30;                   // narrower than this none is wrapped

}  // namespace

const RowLayout::Column RowLayout::kColumns[] = {
    {"ERROR/BOUND", 12, &Row::ratio, 6}, {"PRECISION", 10, &Row::precision, 5},
    {"MAX ABS", 9, &Row::max_abs, 1},    {"TIME", 10, &Row::time, 4},
    {"RATE", 13, &Row::rate, 2},         {"OF ROOF", 8, &Row::of_roof, 3},
};

RowLayout::RowLayout(int width, bool colour, bool precision)
    : width_(width),
      colour_(colour),
      name_width_(kNameWidth),
      columns_(std::begin(kColumns), std::end(kColumns)) {
  if (!precision) {
    std::erase_if(columns_, [](const Column& column) { return column.cell == &Row::precision; });
  }
  if (width_ <= 0) return;
  const auto columns = static_cast<std::size_t>(width_);
  const auto others = [this] {
    std::size_t sum = kFixed;
    for (const Column& column : columns_) sum += column.width + kGap;
    return sum - kGap;
  };
  while (columns_.size() > 1 && columns < others() + kEnoughName) {
    columns_.erase(
        std::min_element(columns_.begin(), columns_.end(),
                         [](const Column& a, const Column& b) { return a.worth < b.worth; }));
  }
  const std::size_t left = columns > others() ? columns - others() : 0;
  name_width_ = std::min(std::max(left, std::size_t{1}), kWideName);
}

void RowLayout::Expect(std::size_t name_width) {
  if (width_ <= 0) name_width_ = std::max(name_width_, name_width);
}

std::string RowLayout::Header(const std::string& of_case) const {
  std::string line =
      absl::StrCat("  ", PadRight("VERDICT", kVerdictWidth), " ", PadRight(of_case, name_width_));
  const char* gap = " ";
  for (const Column& column : columns_) {
    absl::StrAppend(&line, gap, PadLeft(column.heading, column.width));
    gap = "  ";
  }
  return absl::StrCat(width_ > 0 ? Shorten(line, static_cast<std::size_t>(width_)) : line, "\n");
}

std::string RowLayout::Figures(const Row& row) const {
  std::string figures;
  for (const Column& column : columns_) {
    absl::StrAppend(&figures, figures.empty() ? "" : "  ",
                    PadLeft(OrDash(row.*column.cell), column.width));
  }
  return figures;
}

std::string RowLayout::Line(const Row& row) {
  const std::size_t name = DisplayWidth(row.name);
  Expect(name);
  const std::string verdict = PadRight(row.verdict, kVerdictWidth);
  const std::string shown = absl::StrCat("  ", Coloured(verdict, row.judged, colour_), " ");
  // A long verdict pushes into the name's column, not the figures out of theirs.
  const std::size_t over = DisplayWidth(verdict) - kVerdictWidth;
  const std::size_t room = name_width_ > over ? name_width_ - over : 0;
  if (!row.measured) {
    const std::size_t whole =
        kFixed + over + std::max(name, room) + 2 + DisplayWidth(row.whole_note);
    if (width_ <= 0 || whole <= static_cast<std::size_t>(width_)) {
      return absl::StrCat(shown, PadRight(row.name, room), "   ", row.whole_note, "\n");
    }
    const auto columns = static_cast<std::size_t>(width_);
    const std::size_t most = columns > kFixed + over ? columns - kFixed - over + 1 : 1;
    return absl::StrCat(shown, ShortenMiddle(row.name, most), "\n", Below(row.whole_note));
  }
  const std::string figures = Figures(row);
  std::string lines;
  std::size_t used = kFixed + name_width_ + DisplayWidth(figures);
  if (width_ <= 0 || name <= room) {
    lines = absl::StrCat(shown, PadRight(row.name, room), " ", figures);
  } else {
    const auto columns = static_cast<std::size_t>(width_);
    const std::size_t most = columns > kFixed + over ? columns - kFixed - over + 1 : 1;
    lines = absl::StrCat(shown, ShortenMiddle(row.name, most), "\n",
                         std::string(kFixed + name_width_, ' '), figures);
  }
  if (row.whole_note.empty()) return absl::StrCat(lines, "\n");
  used += 3 + DisplayWidth(row.whole_note);
  if (width_ <= 0 || used <= static_cast<std::size_t>(width_)) {
    return absl::StrCat(lines, "   ", row.whole_note, "\n");
  }
  return absl::StrCat(lines, "\n", Below(row.whole_note));
}

// A note in lines of its own.
std::string RowLayout::Below(const std::string& note) const {
  const std::string indent(kIndent, ' ');
  const auto columns = static_cast<std::size_t>(std::max(width_, 0));
  const std::size_t room = columns >= kIndent + kLeastDetail ? columns - kIndent : note.size();
  std::string lines;
  for (const std::string& line : Fill(note, room)) absl::StrAppend(&lines, indent, line, "\n");
  return lines;
}

std::string RowLayout::Block(const v1::CaseResult& result, const std::string& origin) {
  Row row = RowOf(result);
  if (!origin.empty()) row.name = absl::StrCat(origin, " ", row.name);
  std::string block = Line(row);
  for (const Detail& detail : DetailsOf(result)) {
    std::string lead = absl::StrCat("    ", PadRight(detail.label, 9), " ");
    const std::size_t indent = DisplayWidth(lead);
    // A command is copied as it stands.
    const bool wrapped = detail.label != "repro" && width_ > 0 &&
                         static_cast<std::size_t>(width_) >= indent + kLeastDetail;
    const std::vector<std::string> lines =
        wrapped ? Fill(detail.text, static_cast<std::size_t>(width_) - indent)
                : std::vector<std::string>{detail.text};
    for (const std::string& line : lines) {
      absl::StrAppend(&block, lead, line, "\n");
      lead.assign(indent, ' ');
    }
  }
  const std::size_t width = width_ > 4 ? static_cast<std::size_t>(width_) - 4 : 0;
  for (const v1::Slice& slice : result.slices()) {
    for (const auto line :
         absl::StrSplit(SliceGrid(slice, false, width), '\n', absl::SkipEmpty())) {
      absl::StrAppend(&block, "    ", line, "\n");
    }
  }
  return block;
}

std::string Coloured(const std::string& words, v1::Verdict verdict, bool colour) {
  const bool wrong = verdict == v1::VERDICT_FAILED || verdict == v1::VERDICT_ERROR;
  const char* code = verdict == v1::VERDICT_PASSED         ? "32"
                     : wrong                               ? "31;1"
                     : verdict == v1::VERDICT_INCONCLUSIVE ? "33"
                                                           : "2";
  return Painted(words, code, colour);
}

}  // namespace assay::client
