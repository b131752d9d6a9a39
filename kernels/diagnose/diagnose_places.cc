// Where the errors lie: tails, tiles, blocks, elements that belong elsewhere.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>

#include "absl/strings/str_format.h"
#include "kernels/diagnose/anatomy_words.h"
#include "kernels/diagnose/diagnose_rules.h"
#include "kernels/numerics/poison.h"
#include "kernels/ops/op.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels::internal {
namespace {

using Kind = AxisErrors::Kind;

bool IsPowerOfTwo(std::int64_t v) {
  return v > 0 && std::has_single_bit(static_cast<std::uint64_t>(v));
}

// The innermost selective axis of a kind, or nullptr.
const AxisErrors* AxisOf(const Anatomy& a, Kind kind) {
  for (auto axis = a.axes.rbegin(); axis != a.axes.rend(); ++axis) {
    if (axis->kind == kind) return &*axis;
  }
  return nullptr;
}

// "16 columns further right", "1 row further up and 2 heads before".
std::string Away(const Anatomy& a) {
  std::vector<std::string> parts;
  for (std::size_t d = a.axes.size(); d-- > 0;) {
    const std::int64_t step = a.displaced[d];
    if (step == 0) continue;
    const std::int64_t n = std::abs(step);
    const std::string_view name = a.axes[d].name;
    const std::string of = OfAxis(name);
    parts.push_back(Cat(n, " ", n == 1 ? std::string(Singular(name)) : Plural(name),
                        step > 0 ? " further on" : " before", of.empty() ? "" : " along ",
                        of.empty() ? "" : name));
  }
  return Join(parts, " and ");
}

// Behind the words of an axis: " of 61", and ", of 61" if the axis has a number.
std::string OfExtent(const AxisErrors& axis) {
  return Cat(OfAxis(axis.name).empty() ? "" : ",", " of ", axis.extent);
}

// After the first launch, outputs hold large numbers before a launch. An element that still holds
// one of them was not written. In 8 bits it may be a result.
std::optional<Reading> UnwrittenLater(const Symptoms& s) {
  const DType output = s.plan.output.dtype;
  const auto& samples = s.outcome.compare->samples;
  const auto poison = [&](const ElementSample& e) {
    return e.actual_bits == PoisonBits(output, Poison::kHigh) ||
           e.actual_bits == PoisonBits(output, Poison::kLow);
  };
  if (Info(output).storage_bits < 16 || samples.empty() ||
      !std::all_of(samples.begin(), samples.end(), poison)) {
    return std::nullopt;
  }
  return Reading{
      "elements hold what the output held before the launch: a launch after the first does not "
      "write them",
      "look at what a later launch skips: results that are kept, or a flag that the first one "
      "sets"};
}

// One element that is only just beyond its bound says nothing of itself: arithmetic that is a
// little less precise everywhere has one by chance.
std::optional<Reading> JustBeyond(const Symptoms& s, const ElementSample& e) {
  constexpr double kJust = 2;
  const double error = std::abs(e.actual - e.expected);
  if (!(e.bound > 0) || !(error <= kJust * e.bound) || s.c.dtype == DType::kF64) {
    return std::nullopt;
  }
  const OpTraits traits = OpOf(s.c).traits();
  const bool declares = traits.intermediates && s.c.intermediate_dtype == DType::kUnspecified &&
                        Info(s.c.dtype).storage_bits == 16;
  return Reading{absl::StrFormat("one element alone is beyond its bound, and only just (%.2f "
                                 "times): arithmetic that is a little less precise everywhere "
                                 "does that",
                                 error / e.bound),
                 Cat("keep sums and intermediate values in FP32",
                     declares ? Cat("; or, if they are meant to be in ", Name(s.c.dtype),
                                    ", declare it: --intermediate-dtype ", Name(s.c.dtype))
                              : "")};
}

}  // namespace

std::optional<Reading> Unwritten(const Symptoms& s) {
  if (s.outcome.unwritten.value_or(0) == 0) return UnwrittenLater(s);
  const std::int64_t unwritten = *s.outcome.unwritten;
  if (unwritten >= s.outcome.compare->count) {
    return Reading{"the kernel writes nothing",
                   "look at whether it is launched at all, and at the pointer it stores to"};
  }
  if (s.anatomy != nullptr && !s.anatomy->axes.empty()) {
    if (unwritten == 1 && s.anatomy->axes.size() > 1) {
      return Reading{Cat("part of the output is never written: ", s.anatomy->words),
                     "look at the index that is stored to, and at its limit"};
    }
    for (auto axis = s.anatomy->axes.rbegin(); axis != s.anatomy->axes.rend(); ++axis) {
      const bool last =
          axis->kind == Kind::kSingle && axis->extent > 1 && axis->first == axis->extent - 1;
      if (!axis->at_the_end() && !last) continue;
      return Reading{Cat("the tail is never written: ", DescribeAxis(*axis), OfExtent(*axis)),
                     "look at the remainder of the loop over it: what is left when the extent is "
                     "no multiple of the tile or the vector"};
    }
    return Reading{Cat("part of the output is never written: ", s.anatomy->words),
                   "look at the grid: whether every tile has a block, and at early returns"};
  }
  return Reading{"part of the output is never written",
                 "look at the grid: whether every tile has a block, and at early returns"};
}

std::optional<Reading> Displaced(const Symptoms& s) {
  if (s.anatomy == nullptr || s.anatomy->displaced.empty()) return std::nullopt;
  return Reading{Cat("the wrong elements hold values that belong ", Away(*s.anatomy),
                     ": a tile computed twice, a stale buffer, or an index that is off"),
                 "look at the index of the tile: where it is loaded from, and where it is stored"};
}

std::optional<Reading> Transposed(const Symptoms& s) {
  if (s.anatomy == nullptr || !s.anatomy->transposed) return std::nullopt;
  return Reading{
      "the result is stored transposed: each element holds what belongs at its row and "
      "column exchanged",
      "look at the layout of the store: row-major, the last axis contiguous"};
}

std::optional<Reading> PlaceOfOperator(const Symptoms& s) {
  if (s.anatomy == nullptr) return std::nullopt;
  return OperatorsOwn(s).Place(SignsOf(s));
}

std::optional<Reading> TileEdges(const Symptoms& s) {
  if (s.anatomy == nullptr) return std::nullopt;
  const AxisErrors* axis = AxisOf(*s.anatomy, Kind::kPeriodic);
  if (axis == nullptr) return std::nullopt;
  const bool first = axis->first == 0;
  const bool last = axis->first + axis->run == axis->period;
  const std::string many =
      axis->run == 1 ? std::string(Singular(axis->name)) : Cat(axis->run, " ", Plural(axis->name));
  const std::string_view own = OperatorsOwn(s).TileEdges(s.c, axis->name);
  if (IsPowerOfTwo(axis->period) && axis->period >= 4 && (first || last)) {
    return Reading{
        Cat("the ", first ? "first " : "last ", many, " of each tile of ", axis->period, " ",
            Plural(axis->name), OfAxis(axis->name), axis->run == 1 ? " is wrong" : " are wrong"),
        own.empty() ? "look at the comparisons at tile edges: < for <=, and what is "
                      "loaded for the neighbouring tile"
                    : std::string(own)};
  }
  return Reading{
      Cat("the errors repeat every ", axis->period, " ", Plural(axis->name), OfAxis(axis->name),
          ": something that is done once a tile, a warp or a vector"),
      Cat("look for what has a width of ", axis->period)};
}

std::optional<Reading> Tail(const Symptoms& s) {
  if (s.anatomy == nullptr) return std::nullopt;
  for (auto axis = s.anatomy->axes.rbegin(); axis != s.anatomy->axes.rend(); ++axis) {
    const bool single =
        axis->kind == Kind::kSingle && axis->extent > 2 && axis->first == axis->extent - 1;
    const bool range = axis->at_the_end() && 2 * axis->hit <= axis->extent;
    if (!single && !range) continue;
    return Reading{Cat("only ", DescribeAxis(*axis), OfExtent(*axis),
                       axis->hit == 1 ? " is wrong: the tail" : " are wrong: the tail"),
                   "look at the remainder of the loop over it: what is left when the extent is no "
                   "multiple of the tile or the vector"};
  }
  return std::nullopt;
}

std::optional<Reading> OneBlock(const Symptoms& s) {
  if (s.anatomy == nullptr || !s.anatomy->one_block) return std::nullopt;
  return Reading{
      "one block of the output is wrong: one tile, computed by one thread block or core",
      "look at that tile's indices and at what it shares with its neighbours; if another "
      "block is wrong at the next run, look for a race"};
}

std::optional<Reading> SingleElement(const Symptoms& s) {
  if (s.anatomy == nullptr || s.anatomy->wrong != 1) return std::nullopt;
  const ElementSample& e = s.outcome.compare->worst;
  if (std::optional<Reading> just = JustBeyond(s, e)) return just;
  const std::uint64_t flipped = e.actual_bits ^ e.expected_bits;
  if (std::has_single_bit(flipped)) {
    return Reading{absl::StrFormat("one element, and one bit of it (bit %d) is not as expected: a "
                                   "flipped bit, or a stray write",
                                   std::countr_zero(flipped)),
                   s.received
                       ? "make it again: if the same element is wrong, suspect the kernel; if it "
                         "moves, memory or a race; if only one device shows it, the device"
                       : "run it again: if the same element is wrong, suspect the kernel; if it "
                         "moves, memory or a race (--repeat 250); if only this device shows it, "
                         "the device"};
  }
  return Reading{"one element alone is wrong: a stray write, a race, or a special case of the code",
                 s.received ? "make it again: if the same element is wrong, suspect the kernel; if "
                              "it moves, a race"
                            : "run it again: if the same element is wrong, suspect the kernel; if "
                              "it moves, a race (--repeat 250)"};
}

std::optional<Reading> WholeHeads(const Symptoms& s) {
  if (s.anatomy == nullptr || s.anatomy->axes.size() < 3 || s.anatomy->fill < 0.5) {
    return std::nullopt;
  }
  for (std::size_t d = 0; d + 2 < s.anatomy->axes.size(); ++d) {
    const AxisErrors& axis = s.anatomy->axes[d];
    if (!axis.selective()) continue;
    const auto inner = s.anatomy->axes.end() - 2;
    if (inner->selective() || (inner + 1)->selective()) return std::nullopt;
    return Reading{Cat("whole matrices are wrong: ", DescribeAxis(axis)),
                   Cat("look at the stride from one ", Singular(axis.name), OfAxis(axis.name),
                       " to the next, and at the grid's "
                       "limit in that dimension")};
  }
  return std::nullopt;
}

}  // namespace assay::kernels::internal
