#include "kernels/diagnose/anatomy_words.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "kernels/judge/verdict.h"
#include "kernels/text/cat.h"
#include "kernels/text/percent.h"

namespace assay::inline kernels {
namespace {

using Kind = AxisErrors::Kind;

// Shares of the places below which they are said.
constexpr double kDense = 0.9;
constexpr double kNearly = 0.99;
// Indices of a period that are written out.
constexpr std::int64_t kShownPeriods = 3;

bool HasNumber(std::string_view name) {
  return std::find(std::begin(kNumberedAxes), std::end(kNumberedAxes), name) !=
         std::end(kNumberedAxes);
}

std::string Periodic(const AxisErrors& axis) {
  const std::string name = Plural(axis.name);
  std::vector<std::string> shown;
  std::int64_t at = axis.first;
  for (; at < axis.extent && static_cast<std::int64_t>(shown.size()) < kShownPeriods;
       at += axis.period) {
    shown.push_back(axis.run == 1 ? Cat(at)
                                  : Cat(at, "-", std::min(at + axis.run, axis.extent) - 1));
  }
  return Cat(name, " ", Join(shown, ", "), at < axis.extent ? " …" : "", OfAxis(axis.name),
             " (period ", axis.period, ")");
}

std::string BlockWords(const Anatomy& a) {
  std::vector<std::int64_t> corner;
  for (const AxisErrors& axis : a.axes) corner.push_back(axis.first);
  const std::size_t n = a.axes.size();
  const auto extent = [&](std::size_t d) { return a.axes[d].last - a.axes[d].first + 1; };
  return Cat("all in one ", extent(n - 2), "x", extent(n - 1), " block at [", Join(corner, ","),
             "]");
}

// Where they lie to one side of the diagonal, or on one.
std::string Diagonal(const Anatomy& a) {
  if (!a.least_diagonal.has_value()) return "";
  const AxisErrors& rows = a.axes[a.axes.size() - 2];
  const AxisErrors& cols = a.axes.back();
  if (rows.hit < 4 || cols.hit < 4) return "";
  const std::int64_t least = *a.least_diagonal;
  const std::int64_t most = *a.most_diagonal;
  if (least == most) {
    return least == 0 ? "all on the diagonal"
                      : Cat("all on the diagonal ", std::abs(least), " ",
                            least > 0 ? "right of" : "left of", " the main one");
  }
  // A triangle of a matrix that is far from square says nothing.
  if (2 * std::min(rows.extent, cols.extent) < std::max(rows.extent, cols.extent)) return "";
  if (least >= 1) return "all right of the diagonal";
  if (most <= -1) return "all left of the diagonal";
  if (least == 0) return "all on and right of the diagonal";
  if (most == 0) return "all on and left of the diagonal";
  return "";
}

}  // namespace

std::string_view Singular(std::string_view name) { return HasNumber(name) ? "index" : name; }

std::string Plural(std::string_view name) {
  if (HasNumber(name)) return "indices";
  return Cat(name, name == "batch" ? "es" : name == "index" ? "es" : "s");
}

std::string OfAxis(std::string_view name) { return HasNumber(name) ? Cat(" of ", name) : ""; }

std::string DescribeAxis(const AxisErrors& axis) {
  const std::string_view one = Singular(axis.name);
  const std::string name = Plural(axis.name);
  const std::string of = OfAxis(axis.name);
  switch (axis.kind) {
    case Kind::kAll:
      return "";
    case Kind::kSingle:
      if (axis.extent > 1 && axis.first == axis.extent - 1) {
        return Cat("the last ", one, " (", axis.first, ")", of);
      }
      return Cat(one, " ", axis.first, of);
    case Kind::kRange:
      if (axis.at_the_end()) return Cat("the last ", axis.last - axis.first + 1, " ", name, of);
      if (axis.first == 0) return Cat("the first ", axis.last + 1, " ", name, of);
      return Cat(name, " ", axis.first, " to ", axis.last, of);
    case Kind::kPeriodic:
      return Periodic(axis);
    case Kind::kAllBut:
      return Cat("every ", one, of, " but ", Join(axis.missing, ", "));
    case Kind::kSome:
      return Cat(Grouped(axis.hit), " of ", Grouped(axis.extent), " ", name, of);
  }
  return "";
}

std::string DescribeErrors(const Anatomy& a) {
  if (a.wrong == 0) return "";
  std::string of_seen;
  if (a.seen < a.count) of_seen = Cat(" (of the first ", Grouped(a.seen), " elements)");
  if (a.wrong == a.seen) return Cat("every element", of_seen);
  if (a.wrong == 1) {
    std::vector<std::int64_t> at;
    for (const AxisErrors& axis : a.axes) at.push_back(axis.first);
    return Cat("a single element, [", Join(at, ","), "]", of_seen);
  }
  if (a.one_block) return Cat(BlockWords(a), of_seen);
  std::string words = Diagonal(a);
  bool scattered = false;
  if (words.empty()) {
    std::vector<std::string> places;
    std::vector<std::string> some;
    for (auto axis = a.axes.rbegin(); axis != a.axes.rend(); ++axis) {
      if (axis->extent == 1 || !axis->selective()) continue;
      (axis->kind == Kind::kSome ? some : places).push_back(DescribeAxis(*axis));
    }
    scattered = places.empty();
    if (!places.empty()) {
      // "Of" belongs to the number of an axis there.
      const bool numbered = std::any_of(a.axes.begin(), a.axes.end(), [](const AxisErrors& axis) {
        return HasNumber(axis.name);
      });
      words = numbered ? Cat("all at ", Join(places, ", and at "))
                       : Cat("all in ", Join(places, " of "));
      if (!some.empty()) words += Cat(", ", Join(some, ", "));
    } else if (!some.empty()) {
      words = Cat("scattered over ", Join(some, " and "));
    } else {
      words = "scattered over the whole output";
    }
  }
  // The share of the places they could have been at.
  const double share = static_cast<double>(a.wrong) / static_cast<double>(a.seen);
  if (scattered) {
    words = share >= kNearly ? "nearly every element"
                             : Cat(words, ", ", Percent(share), " of all elements");
  } else if (a.fill < kDense) {
    words += Cat(", ", Percent(a.fill), " of the elements there");
  }
  return Cat(words, of_seen);
}

}  // namespace assay::kernels
