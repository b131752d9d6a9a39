#include "kernels/diagnose/diagnose.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "absl/strings/str_format.h"
#include "kernels/diagnose/diagnose_rules.h"
#include "kernels/judge/verdict.h"
#include "kernels/ops/op.h"
#include "kernels/text/cat.h"
#include "kernels/text/percent.h"

namespace assay::inline kernels {
namespace internal {
namespace {

// Launches of which a tenth that differs is seldom.
constexpr int kManyLaunches = 20;

}  // namespace

const Finding* FindingOf(const Symptoms& s, Reason reason) {
  for (const Finding& f : s.outcome.findings) {
    if (f.reason == reason) return &f;
  }
  return nullptr;
}

bool InputsFinite(const Symptoms& s) {
  const auto& inputs = s.outcome.inputs;
  return !inputs.empty() &&
         std::all_of(inputs.begin(), inputs.end(), [](const auto& i) { return i.finite(); });
}

const Diagnostics& OperatorsOwn(const Symptoms& s) { return OpOf(s.c).diagnostics(); }

Signs SignsOf(const Symptoms& s) {
  const CompareResult& r = *s.outcome.compare;
  return {s.c,
          s.plan,
          r,
          s.outcome.inputs,
          s.outcome.max_abs_score,
          s.anatomy != nullptr ? std::span(s.anatomy->axes) : std::span<const AxisErrors>(),
          r.unexpected_nan + r.unexpected_inf > 0 && InputsFinite(s)};
}

std::optional<Reading> WritesOutside(const Symptoms& s) {
  if (s.outcome.guard_hits == 0) return std::nullopt;
  std::string where = "before, behind or between the rows of its operands";
  if (s.plan.output.extents.ld > s.plan.output.extents.cols) {
    where += Cat(" (rows of ", s.plan.output.extents.cols, " with a leading dimension of ",
                 s.plan.output.extents.ld, ")");
  }
  return Reading{Cat("the kernel writes ", where),
                 "look at the bounds of its stores at the edges of the output; a memory checker "
                 "(AddressSanitizer, compute-sanitizer) names the line"};
}

std::optional<Reading> ChangesInput(const Symptoms& s) {
  const Finding* guard = FindingOf(s, Reason::kGuard);
  if (guard == nullptr || guard->operand.empty()) return std::nullopt;
  return Reading{"the kernel writes into an operand that it may only read",
                 "look for a workspace or an in-place step that aliases the input"};
}

std::optional<Reading> Nondeterministic(const Symptoms& s) {
  if (FindingOf(s, Reason::kNondeterministic) == nullptr) return std::nullopt;
  const int odd = s.outcome.odd_launches;
  const int launches = s.outcome.launches;
  const std::string differ =
      odd > 0 ? Cat(odd, " of ", launches, " launches differ from the others") : "launches differ";
  const std::string_view find_race =
      "look for a missing barrier between writing and reading shared data; a race checker "
      "(ThreadSanitizer, compute-sanitizer --tool racecheck) names it";
  std::string_view race;
  if (s.anatomy != nullptr) {
    race = "elements are beyond their bounds: a race, and not only another order of the sums";
  } else if (Info(s.plan.output.dtype).is_integer) {
    race = "integer sums are the same in every order: a race";
  } else if (launches >= kManyLaunches && odd * 10 <= launches) {
    race = "another order of the sums would differ more often: a race";
  }
  if (!race.empty()) return Reading{Cat(differ, ", and ", race), std::string(find_race)};
  std::string next_step =
      "reduce in blocks of a fixed size and a fixed order, without atomic adds; where there are "
      "none, ";
  next_step += find_race;
  return Reading{Cat(differ,
                     ", and the judged one is within its bounds: the order of the sums changes "
                     "(atomic adds, threads that join in any order)"),
                 std::move(next_step)};
}

std::optional<Reading> ProbesOnly(const Symptoms& s) {
  std::vector<std::string> failed;
  const ProbeOutcome* first = nullptr;
  for (const ProbeOutcome& p : s.outcome.probes) {
    if (p.verdict != Verdict::kFailed) continue;
    if (first == nullptr) first = &p;
    failed.push_back(p.name);
  }
  if (first == nullptr || s.anatomy != nullptr) return std::nullopt;
  const std::string names = Join(failed, ", ");
  const bool nan = std::all_of(failed.begin(), failed.end(),
                               [](const std::string& name) { return name.starts_with("nan"); });
  if (nan) {
    return Reading{
        Cat("a NaN of the inputs does not come out as it must (", names,
            "): the kernel takes it for a number or leaves it out, or gives it to elements that do "
            "not depend on it"),
        "look for a max, min, clip or comparison of the inputs or the result (each is "
        "false for NaN), for masks that multiply by 0, and for fast-math"};
  }
  // The last says most: without eps the rows of large-mean that are constant are wrong, too.
  for (auto p = s.outcome.probes.rbegin(); p != s.outcome.probes.rend(); ++p) {
    if (p->verdict != Verdict::kFailed) continue;
    const ElementSample* wrong = p->first.has_value() ? &*p->first : nullptr;
    if (auto known = OperatorsOwn(s).FailedProbe(p->name, wrong)) return known;
  }
  if (first->mismatches == 1 && first->first.has_value()) {
    const std::uint64_t flipped = first->first->actual_bits ^ first->first->expected_bits;
    if (std::has_single_bit(flipped)) {
      return Reading{Cat("exact data (", names, ") show one element with one wrong bit (bit ",
                         std::countr_zero(flipped),
                         "), too small an error for the bounds of other data: a flipped bit, or a "
                         "stray write"),
                     "run it again: what stays is the kernel's, what stays on this device alone is "
                     "the device's"};
    }
  }
  return Reading{Cat("the data come out within their bounds, and exact data do not (", names,
                     "): an error that rounding hides, in an index or in a rounding"),
                 "look at the first element the probe names, whose one right value is known"};
}

std::optional<Reading> Slow(const Symptoms& s) {
  if (!s.outcome.bench.has_value() || !s.outcome.bench->efficiency.has_value()) {
    return std::nullopt;
  }
  const BenchStats& bench = *s.outcome.bench;
  const bool asked = FindingOf(s, Reason::kEfficiency) != nullptr;
  const bool timed = bench.samples > 1 && bench.median_seconds.value_or(0) >= kLeastTimed;
  const bool passes = bench.roof == "memory" && OpOf(s.c).traits().several_passes;
  const double slow = passes ? kSlowPassesEfficiency : kSlowEfficiency;
  if (!asked && (!timed || *bench.efficiency >= slow)) return std::nullopt;
  if (bench.roof == "memory") {
    return Reading{
        absl::StrFormat("slow: %s of the memory roof, though there is little to compute: data "
                        "move more than once, in pieces that are not contiguous, or by too few "
                        "threads",
                        Percent(*bench.efficiency)),
        "look at the access pattern (neighbouring threads or lanes on neighbouring addresses, "
        "vector loads), at the hit rate of the last cache, and at occupancy (128 to 256 threads "
        "a block)"};
  }
  return Reading{absl::StrFormat("slow: %s of the compute roof: the arithmetic units wait, or the "
                                 "wide ones are not used",
                                 Percent(*bench.efficiency)),
                 "look at whether the matrix or vector instructions of the format are used at "
                 "all, at tile sizes (data used often enough once loaded), and at occupancy"};
}

std::optional<Reading> TolerancesTooTight(const Symptoms& s) {
  const Criterion asked = s.c.criterion;
  if (asked == Criterion::kUnspecified || asked == Criterion::kBound) return std::nullopt;
  if (!s.outcome.compare.has_value() || s.outcome.verdict != Verdict::kFailed) return std::nullopt;
  const CompareResult& r = *s.outcome.compare;
  if (r.mismatches == 0 || r.beyond_probable > 0 || r.class_mismatches > 0) return std::nullopt;
  for (const Reason other : {Reason::kExact, Reason::kBias, Reason::kGuard, Reason::kUnwritten}) {
    if (FindingOf(s, other) != nullptr) return std::nullopt;
  }
  return Reading{
      "every element is within the error bound of its own arithmetic: what was asked "
      "for is less than rounding to these formats alone may be off",
      "judge by the bound (--criterion bound), or allow what the formats cost "
      "(--criterion derived)"};
}

std::optional<Reading> Suspicious(const Symptoms& s) {
  const Finding* suspect = FindingOf(s, Reason::kSuspect);
  if (suspect == nullptr || s.outcome.compare->beyond_probable == 0 ||
      s.outcome.compare->beyond_proven > 0) {
    return std::nullopt;
  }
  return Reading{
      "within what is proven, beyond what is usual: a sum in one sequence over data that "
      "is not random can do that, and so can truncating hardware",
      s.received ? "make the output again from zero-mean random inputs: on those few right "
                   "results are beyond what is usual"
                 : "run the case on zero-mean random data (--pattern normal), where the usual "
                   "bound gates"};
}

// A verdict that only the errors of all elements together gave.
std::optional<Reading> BelowTheBound(const Symptoms& s) {
  if (FindingOf(s, Reason::kBound) != nullptr || !s.outcome.precision) return std::nullopt;
  const Precision& p = *s.outcome.precision;
  if (!p.looks_like.empty()) {
    return Reading{Cat("the kernel computes with ", p.looks_like),
                   Cat("keep the operands and the result in ", Name(s.plan.output.dtype),
                       " on their way: switch fast modes off (TF32, reduced precision)")};
  }
  if (FindingOf(s, Reason::kPrecision) != nullptr) {
    return Reading{
        "each element is within its bound, and all errors together are too large: less "
        "precise arithmetic inside, such as sums in a narrower format",
        "accumulate in fp32 across the whole sum, and look at the format of every "
        "intermediate value"};
  }
  if (FindingOf(s, Reason::kStructure) != nullptr) {
    return Reading{
        "each element is within its bound, and the errors have a pattern that rounding "
        "does not leave",
        "look for a constant that is not exact (a scale, eps, a divisor), or for a row, "
        "column or tile that is computed in another way"};
  }
  return std::nullopt;
}

std::optional<Reading> DoubtfulErrors(const Symptoms& s) {
  const Finding* suspect = FindingOf(s, Reason::kSuspect);
  if (!s.received || suspect == nullptr || !s.outcome.precision ||
      s.outcome.verdict != Verdict::kInconclusive || s.outcome.compare->mismatches > 0) {
    return std::nullopt;
  }
  return Reading{"",
                 "look at the constants (eps, a scale, a divisor) and at the format of every "
                 "intermediate value; a run of the kernel itself, on random data that Assay makes, "
                 "decides"};
}

std::optional<Reading> TooWide(const Symptoms& s) {
  if (FindingOf(s, Reason::kSuspect) == nullptr || !s.plan.vacuous) return std::nullopt;
  return Reading{
      "", s.plan.elementwise
              ? "run smaller positions, whose bound says something, or trust the exact cases alone"
              : "run fewer terms (a shorter sum has a bound that says something), or "
                "trust the exact cases alone"};
}

std::optional<Reading> NothingProven(const Symptoms& s) {
  if (FindingOf(s, Reason::kZeros) == nullptr) return std::nullopt;
  const CompareResult& r = *s.outcome.compare;
  // Beside checksums nothing counts the zeros of the right result.
  if (!s.outcome.checksum && r.zero_count > r.reference_zero_count) {
    return Reading{
        Cat(Grouped(r.zero_count), " of ", Grouped(r.count), " elements are 0, and only ",
            Grouped(r.reference_zero_count),
            " of the right result are. The tolerances that were asked for also pass a result that "
            "was never computed"),
        "judge by the bound (--criterion bound), or give tolerances well below the result's size"};
  }
  return Reading{"", s.received ? "make the output from inputs whose result is not 0"
                                : "choose data whose result is not 0: --pattern normal"};
}

std::optional<Reading> Unread(const Symptoms& s) {
  const CompareResult& r = *s.outcome.compare;
  if (s.outcome.verdict != Verdict::kFailed || r.mismatches == 0 || r.worst.index < 0) {
    return std::nullopt;
  }
  return Reading{"",
                 Cat("compute the worst element, ", Coordinates(r.worst.index, s.plan.output.dims),
                     ", by hand from its inputs; if it comes out right so, halve the problem "
                     "until it is right to find the extent that matters")};
}

}  // namespace internal

namespace {

using namespace internal;  // NOLINT: the table below is all it is for

// The order of the rules: what is certain of itself, then a suspect that elements bear
// out one by one, then what places and values tell, then a suspect by circumstances,
// then what is left.
struct Entry {
  std::string_view name;  // empty: the operator names its own
  Rule* rule;
};

constexpr Entry kBeforeProof[] = {
    {"writes-outside", &WritesOutside},
    {"changes-input", &ChangesInput},
    {"unwritten", &Unwritten},
    {"nondeterministic", &Nondeterministic},
    {"tolerances-too-tight", &TolerancesTooTight},
    {"may-overflow", &MayOverflow},
    {"", &OfOperator},
    {"reads-outside", &ReadsOutside},
    {"nan-is-lost", &NanIsLost},
    {"zero-output", &ZeroOutput},
    {"constant-output", &ConstantOutput},
    {"truncation", &Truncation},
};
constexpr Entry kBehindProof[] = {
    {"transposed", &Transposed},
    {"displaced", &Displaced},
    {"tail-underflows", &TailUnderflows},
    {"wrong-scale", &WrongScale},
    {"column-scale", &ColumnScale},
    {"missing-bias", &MissingBias},
    {"row-factor", &RowFactor},
    {"single-element", &SingleElement},
    {"", &PlaceOfOperator},
    {"tile-edges", &TileEdges},
    {"tail", &Tail},
    {"block", &OneBlock},
    {"whole-heads", &WholeHeads},
    {"zero-lines", &ZeroLines},
};
constexpr Entry kBehindSuspects[] = {
    {"narrow-sums", &NarrowSums},
    {"narrow-bf16", &NarrowBf16},
    {"non-finite", &NonFinite},
    {"probes-only", &ProbesOnly},
    {"below-the-bound", &BelowTheBound},
    {"slow", &Slow},
    {"suspicious", &Suspicious},
    {"too-wide", &TooWide},
    {"doubtful-errors", &DoubtfulErrors},
    {"nothing-proven", &NothingProven},
    {"unread", &Unread},
};

template <std::size_t N>
std::optional<Diagnosis> First(const Entry (&table)[N], const Symptoms& s) {
  for (const Entry& entry : table) {
    std::optional<Reading> reading = entry.rule(s);
    if (reading.has_value()) {
      return Diagnosis{reading->rule.empty() ? entry.name : reading->rule,
                       std::move(reading->reads_as), std::move(reading->next_step)};
    }
  }
  return std::nullopt;
}

}  // namespace

Diagnosis Diagnose(const Symptoms& s) {
  if (!s.outcome.compare.has_value()) return {};
  // A device that is at fault says nothing of the kernel.
  if (s.outcome.verdict == Verdict::kError) return {};
  if (std::optional<Diagnosis> d = First(kBeforeProof, s)) return *std::move(d);
  const auto convicted = [&s](bool circumstantial) {
    return s.conviction != nullptr && s.conviction->circumstantial == circumstantial;
  };
  const auto read = [&s] {
    return Diagnosis{"suspect", Cat(s.conviction->reads_as, " (", s.conviction->evidence, ")"),
                     s.conviction->next_step};
  };
  if (convicted(false)) return read();
  if (std::optional<Diagnosis> d = First(kBehindProof, s)) return *std::move(d);
  // Errors of the size that narrow sums have are not theirs if exact cases say otherwise.
  if (convicted(true) && !RoundsASingleTerm(s) && !SumsAreRight(s)) return read();
  if (std::optional<Diagnosis> d = First(kBehindSuspects, s)) return *std::move(d);
  return {};
}

}  // namespace assay::kernels
