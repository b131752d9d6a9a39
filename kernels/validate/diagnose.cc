#include "kernels/validate/diagnose.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "kernels/numerics/cat.h"
#include "kernels/validate/anatomy_words.h"
#include "kernels/validate/diagnose_rules.h"

namespace assay {
namespace internal {

const Finding* FindingOf(const Symptoms& s, std::string_view reason) {
  for (const Finding& f : s.outcome.findings) {
    if (f.reason == reason) return &f;
  }
  return nullptr;
}

bool IsOp(const Symptoms& s, std::string_view op) { return OpName(s.c.problem) == op; }

bool InputsFinite(const Symptoms& s) {
  const auto& inputs = s.outcome.inputs;
  return !inputs.empty() && std::all_of(inputs.begin(), inputs.end(), [](const OperandStats& i) {
    return i.nan_count == 0 && i.inf_count == 0;
  });
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
  const Finding* guard = FindingOf(s, "guard");
  if (guard == nullptr || guard->message.find("changed its input") == std::string::npos) {
    return std::nullopt;
  }
  return Reading{"the kernel writes into an operand that it may only read",
                 "look for a workspace or an in-place step that aliases the input"};
}

std::optional<Reading> Nondeterministic(const Symptoms& s) {
  if (FindingOf(s, "nondeterministic") == nullptr) return std::nullopt;
  if (s.anatomy != nullptr) {
    return Reading{Cat("launches differ and elements are beyond their bounds: a race, not only "
                       "another order of the sums"),
                   "look for a missing barrier between writing and reading shared data; a race "
                   "checker (ThreadSanitizer, compute-sanitizer --tool racecheck) names it"};
  }
  return Reading{
      "launches differ within their bounds: the order of the sums changes (atomic adds, "
      "threads that join in any order)",
      "reduce in blocks of a fixed size and a fixed order, without atomic adds"};
}

std::optional<Reading> ProbesOnly(const Symptoms& s) {
  std::vector<std::string> failed;
  for (const ProbeOutcome& p : s.outcome.probes) {
    if (p.verdict == Verdict::kFailed) failed.push_back(p.name);
  }
  if (failed.empty() || s.anatomy != nullptr) return std::nullopt;
  return Reading{
      Cat("the data come out within their bounds, and exact data do not (", Join(failed, ", "),
          "): an error that rounding hides, in an index or in a rounding"),
      "look at the first element the probe names; with exact data it is wrong by whole "
      "terms"};
}

std::optional<Reading> Slow(const Symptoms& s) {
  if (!s.outcome.bench.has_value() || !s.outcome.bench->efficiency.has_value()) {
    return std::nullopt;
  }
  const BenchStats& bench = *s.outcome.bench;
  const bool asked = FindingOf(s, "efficiency") != nullptr;
  const bool timed = bench.samples > 1 && bench.median_seconds.value_or(0) >= kLeastTimed;
  if (!asked && (!timed || *bench.efficiency >= kSlowEfficiency)) return std::nullopt;
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

std::optional<Reading> Suspicious(const Symptoms& s) {
  const Finding* suspect = FindingOf(s, "suspect");
  if (suspect == nullptr || s.outcome.compare->beyond_probable == 0 ||
      s.outcome.compare->beyond_proven > 0) {
    return std::nullopt;
  }
  return Reading{
      "within what is proven, beyond what is usual: a sum in one sequence over data that "
      "is not random can do that, and so can truncating hardware",
      "run the case on zero-mean random data (--pattern normal), where the usual bound "
      "gates"};
}

std::optional<Reading> TooWide(const Symptoms& s) {
  if (FindingOf(s, "suspect") == nullptr || !s.plan.vacuous) return std::nullopt;
  return Reading{"",
                 "run fewer terms (a shorter sum has a bound that says something), or trust the "
                 "exact probes alone"};
}

std::optional<Reading> NothingProven(const Symptoms& s) {
  if (FindingOf(s, "zeros") == nullptr) return std::nullopt;
  return Reading{"", "choose data whose result is not 0: --pattern normal"};
}

}  // namespace internal

namespace {

using namespace internal;  // NOLINT: the table below is all it is for

// What is wrong beside its own rules; the conviction stands between them.
struct Entry {
  std::string_view name;
  Rule* rule;
};

constexpr Entry kBeforeSuspects[] = {
    {"writes-outside", &WritesOutside},
    {"changes-input", &ChangesInput},
    {"unwritten", &Unwritten},
    {"nondeterministic", &Nondeterministic},
    {"masked-rows", &MaskedRows},
    {"exp-overflows", &ExpOverflows},
    {"variance-cancels", &VarianceCancels},
    {"sum-overflows", &SumOverflows},
    {"reads-outside", &ReadsOutside},
    {"zero-output", &ZeroOutput},
    {"constant-output", &ConstantOutput},
    {"truncation", &Truncation},
};
constexpr Entry kBehindSuspects[] = {
    {"transposed", &Transposed},
    {"displaced", &Displaced},
    {"tail-underflows", &TailUnderflows},
    {"wrong-scale", &WrongScale},
    {"column-scale", &ColumnScale},
    {"missing-bias", &MissingBias},
    {"row-factor", &RowFactor},
    {"single-element", &SingleElement},
    {"tile-edges", &TileEdges},
    {"tail", &Tail},
    {"block", &OneBlock},
    {"whole-heads", &WholeHeads},
    {"narrow-sums", &NarrowSums},
    {"narrow-bf16", &NarrowBf16},
    {"non-finite", &NonFinite},
    {"probes-only", &ProbesOnly},
    {"slow", &Slow},
    {"suspicious", &Suspicious},
    {"too-wide", &TooWide},
    {"nothing-proven", &NothingProven},
};

template <std::size_t N>
std::optional<Diagnosis> First(const Entry (&table)[N], const Symptoms& s) {
  for (const Entry& entry : table) {
    std::optional<Reading> reading = entry.rule(s);
    if (reading.has_value()) {
      return Diagnosis{entry.name, std::move(reading->reads_as), std::move(reading->next_step)};
    }
  }
  return std::nullopt;
}

}  // namespace

Diagnosis Diagnose(const Symptoms& s) {
  if (!s.outcome.compare.has_value()) return {};
  // A device that is at fault says nothing of the kernel.
  if (s.outcome.verdict == Verdict::kError) return {};
  if (std::optional<Diagnosis> d = First(kBeforeSuspects, s)) return *std::move(d);
  if (s.conviction != nullptr) {
    return {"suspect", Cat(s.conviction->reads_as, " (", s.conviction->evidence, ")"),
            s.conviction->next_step};
  }
  if (std::optional<Diagnosis> d = First(kBehindSuspects, s)) return *std::move(d);
  return {};
}

}  // namespace assay
