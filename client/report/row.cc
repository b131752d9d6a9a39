#include "client/report/row.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/lib/operators.h"
#include "client/lib/text.h"
#include "client/lib/words.h"
#include "client/report/comparison.h"
#include "client/report/profile.h"
#include "client/report/reading.h"
#include "client/report/units.h"

namespace assay::client {
namespace {

constexpr double kWaitsWorthTelling = 0.05;  // of a noisy time
constexpr std::array<std::string_view, 3> kOpenMp = {"libgomp.so", "libomp.so", "libiomp5.so"};

std::string Coordinates(const google::protobuf::RepeatedField<std::int64_t>& index) {
  return absl::StrCat("[", absl::StrJoin(index, ","), "]");
}

std::string RatioCell(const v1::CaseResult& result) {
  const v1::ErrorStats& stats = result.stats();
  const std::int64_t nan = stats.reference_nan_count();
  const std::int64_t inf = stats.reference_inf_count();
  const bool nothing_finite = stats.count() > 0 && nan + inf >= stats.count();
  if (nothing_finite || (!stats.has_rho() && nan + inf > 0)) return nan > 0 ? "NaN map" : "Inf map";
  if (stats.has_max_abs_error() && stats.max_abs_error() == 0 && stats.mismatches() == 0) {
    // Against a reference that rounds as the kernel does, no difference is not yet no error.
    const bool reference_rounds =
        result.spec().dtype() == v1::DTYPE_FP64 && !InfoOf(result.spec()).moves_values();
    return reference_rounds ? "0" : "exact";
  }
  return stats.has_rho() ? RatioText(stats.rho()) : "";
}

std::string MaxAbsCell(const v1::ErrorStats& stats) {
  return stats.has_max_abs_error() ? ErrorText(stats.max_abs_error()) : "";
}

// The libraries that a user's kernel had loaded, which may have done its work. Those that a
// compiler needs for `#pragma omp` do none.
std::string ForeignLibraries(const v1::CaseResult& result) {
  std::vector<std::string> names;
  for (const std::string& name : result.loaded_libraries()) {
    const bool of_compiler = std::any_of(kOpenMp.begin(), kOpenMp.end(), [&](std::string_view own) {
      return name.starts_with(own);
    });
    if (!of_compiler) names.push_back(name);
  }
  return absl::StrJoin(names, ", ");
}

std::string KindWord(const std::string& kind) { return kind == "nan" ? "NaN" : "Inf"; }

// "2,048 NaN, all expected; 3 Inf from the kernel, first at [0,1]".
std::string ProvenanceNote(const v1::CaseResult& result) {
  std::vector<std::string> notes;
  for (const auto& origin : result.provenance()) {
    if (origin.count() == 0) continue;
    std::string note = absl::StrCat(CountText(origin.count()), " ", KindWord(origin.kind()), ", ");
    if (origin.expected()) {
      absl::StrAppend(&note, origin.count() == 1 ? "expected" : "all expected");
    } else {
      absl::StrAppend(&note,
                      origin.origin() == "input"    ? "from an input"
                      : origin.origin() == "kernel" ? "made by the kernel"
                                                    : origin.origin(),
                      ", first at ", Coordinates(origin.first_index()));
    }
    notes.push_back(std::move(note));
  }
  return absl::StrJoin(notes, "; ");
}

std::string VerdictWord(v1::Verdict verdict) {
  switch (verdict) {
    case v1::VERDICT_FAILED:
    case v1::VERDICT_ERROR:
      return Word(verdict);
    default:
      return absl::AsciiStrToLower(Word(verdict));
  }
}

// Whether the rate is said in bytes: the memory or a cache is the roof, or nothing is
// computed.
bool RateIsOfBytes(const v1::BenchStats& bench) {
  if (!bench.has_flops_per_second()) return true;
  return bench.has_bytes_per_second() && (bench.roof() == "memory" || bench.roof() == "cache");
}

void FillBench(const v1::CaseResult& result, Row& row) {
  const v1::BenchStats& bench = result.bench();
  if (bench.has_median_seconds()) row.time = SecondsText(bench.median_seconds());
  if (RateIsOfBytes(bench)) {
    if (bench.has_bytes_per_second()) row.rate = RateText(bench.bytes_per_second(), "B");
  } else {
    row.rate = RateText(bench.flops_per_second(), IsInteger(result.spec().dtype()) ? "OP" : "FLOP");
  }
  if (bench.has_efficiency()) row.of_roof = PercentText(bench.efficiency());
  if (bench.roof() == "cache") row.of_roof = "in cache";
  if (bench.has_baseline()) row.change = ChangeText(bench.baseline());
}

// Whether its row has figures: an output was compared, and is what was judged.
bool HasFigures(const v1::CaseResult& result) {
  if (!result.has_stats()) return false;
  return result.verdict() == v1::VERDICT_PASSED || result.verdict() == v1::VERDICT_FAILED ||
         (result.verdict() == v1::VERDICT_INCONCLUSIVE && OnlyOfTime(result));
}

int Rank(v1::Verdict verdict) {
  switch (verdict) {
    case v1::VERDICT_FAILED:
      return 0;
    case v1::VERDICT_ERROR:
    case v1::VERDICT_UNSPECIFIED:
      return 1;
    case v1::VERDICT_INCONCLUSIVE:
      return 2;
    case v1::VERDICT_PASSED:
      return 3;
    case v1::VERDICT_UNSUPPORTED:
      return 4;
    default:
      return 5;
  }
}

// A message may hold text of strangers, such as what a user's function raised.
std::string Shown(std::string_view message) {
  return Visible(absl::StrReplaceAll(View(message), {{"\n", " "}}));
}

}  // namespace

bool OnlyOfTime(const v1::CaseResult& result) {
  constexpr std::array<std::string_view, 4> kOfTime = {"slower", "efficiency", "noisy", "replay"};
  return result.findings_size() > 0 &&
         std::all_of(result.findings().begin(), result.findings().end(), [&](const auto& finding) {
           return std::find(kOfTime.begin(), kOfTime.end(), finding.reason()) != kOfTime.end();
         });
}

Row RowOf(const v1::CaseResult& result) {
  Row row;
  row.verdict = VerdictWord(result.verdict());
  row.judged = result.verdict();
  row.name = Visible(result.name());
  const bool settled =
      result.verdict() == v1::VERDICT_PASSED || result.verdict() == v1::VERDICT_FAILED;
  row.measured = HasFigures(result);
  if (!row.measured) {
    if (!result.findings().empty()) {
      row.note = Shown(result.findings(0).message());
      if (settled) row.note = absl::StrCat(result.findings(0).reason(), ": ", row.note);
    }
    row.whole_note = row.note;
    return row;
  }
  row.ratio = RatioCell(result);
  row.precision = BitsText(result.precision());
  row.max_abs = MaxAbsCell(result.stats());
  if (result.has_bench()) FillBench(result, row);
  row.note = ProvenanceNote(result);
  if (const std::string refused = RefusedProbes(result); !refused.empty()) {
    absl::StrAppend(&row.note, row.note.empty() ? "" : "; ", "without probes: ", refused);
  }
  if (LookCloser(result)) {
    absl::StrAppend(&row.note, row.note.empty() ? "" : "; ", "look closer: below ",
                    PercentText(LowShare(result)));
  } else if (ReadingOf(result) == SpeedReading::kEfficient) {
    absl::StrAppend(&row.note, row.note.empty() ? "" : "; ", ReadingWord(SpeedReading::kEfficient));
  }
  if (result.bench().noisy()) {
    absl::StrAppend(
        &row.note, row.note.empty() ? "" : "; ", "noisy",
        result.bench().has_noise() ? absl::StrCat(": ± ", PercentText(result.bench().noise())) : "",
        result.bench().conditions().waiting_ratio() > kWaitsWorthTelling ? ", waited for processors"
                                                                         : "");
  }
  row.whole_note = row.note;
  // A failure says it in its finding.
  if (!row.change.empty() && result.verdict() != v1::VERDICT_FAILED) {
    absl::StrAppend(&row.whole_note, row.note.empty() ? "" : "; ", row.change);
  }
  return row;
}

std::vector<Detail> FindingsOf(const v1::CaseResult& result) {
  std::vector<Detail> findings;
  const bool failed = result.verdict() == v1::VERDICT_FAILED;
  std::string pattern = result.pattern_of_errors();
  for (const auto& finding : result.findings()) {
    // The worst element has a line of its own below.
    const bool short_of_worst = failed && result.stats().has_worst() && !finding.headline().empty();
    findings.push_back(
        {finding.reason(), Shown(short_of_worst ? finding.headline() : finding.message())});
    const std::string& reason = finding.reason();
    if (pattern.empty() || !(reason == "bound" || reason == "class" || reason == "exact" ||
                             reason == "threshold" || reason == "unwritten")) {
      continue;
    }
    absl::StrAppend(&findings.back().text, ", ", pattern);
    pattern.clear();
  }
  if (!pattern.empty()) findings.push_back({"errors", pattern});
  return findings;
}

std::vector<Detail> DetailsOf(const v1::CaseResult& result) {
  const bool failed = result.verdict() == v1::VERDICT_FAILED;
  std::vector<Detail> details = FindingsOf(result);
  // A row without figures says its first finding itself.
  if (!(HasFigures(result) && result.verdict() != v1::VERDICT_PASSED) && !details.empty()) {
    details.erase(details.begin());
  }
  const bool of_elements =
      std::any_of(result.findings().begin(), result.findings().end(), [](const auto& finding) {
        return finding.reason() != "slower" && finding.reason() != "efficiency";
      });
  if (!HasFigures(result)) {  // its row has no cell for it
    if (std::string bits = BitsText(result.precision()); !bits.empty()) {
      details.push_back({"precision", std::move(bits)});
    }
  }
  if (failed && of_elements && result.stats().has_worst()) {
    const v1::Mismatch& worst = result.stats().worst();
    const auto [actual, expected] = TellingTexts(worst.actual(), worst.expected());
    details.push_back(
        {"worst", absl::StrCat(Coordinates(worst.index()), "  got ", actual, " (",
                               worst.actual_bits(), ")  expected ", expected, " ± ",
                               ErrorText(worst.bound()), " (", worst.expected_bits(), ")")});
  }
  if (!result.reads_as().empty()) details.push_back({"reads as", result.reads_as()});
  if (!result.refused_calls().empty()) {
    details.push_back({"refused", absl::StrJoin(result.refused_calls(), ", ")});
  }
  if (std::string names = ForeignLibraries(result); !names.empty()) {
    details.push_back({"libraries", std::move(names)});
  }
  if (!result.next_step().empty()) details.push_back({"next", result.next_step()});
  if (const std::string profile = ProfileText(result.bench()); !profile.empty()) {
    details.push_back({"profile", profile});
  }
  const bool repeatable = failed || result.verdict() == v1::VERDICT_ERROR;
  if (repeatable && !result.repro().empty()) details.push_back({"repro", result.repro()});
  return details;
}

bool WorseThan(const v1::CaseResult& a, const v1::CaseResult& b) {
  if (Rank(a.verdict()) != Rank(b.verdict())) return Rank(a.verdict()) < Rank(b.verdict());
  if (LookCloser(a) != LookCloser(b)) return LookCloser(a);
  // NaN compares unequal to itself; as the worst of all it comes first.
  const auto rho = [](const v1::CaseResult& r) {
    return r.stats().has_rho() && !(r.stats().rho() >= 0) ? 1e300 : r.stats().rho();
  };
  if (rho(a) != rho(b)) return rho(a) > rho(b);
  return a.index() < b.index();
}

std::string RefusedProbes(const v1::CaseResult& result) {
  std::vector<std::string> names;
  for (const v1::ProbeResult& probe : result.probes()) {
    if (probe.refused()) names.push_back(probe.name());
  }
  return absl::StrJoin(names, ", ");
}

std::string BitsText(const v1::Precision& precision) {
  if (!precision.has_bits()) return "";
  const double bits = precision.bits(), declared = precision.declared_bits();
  const std::string effective =
      std::isfinite(bits) ? absl::StrFormat("%.1f", bits) : ValueText(bits);
  // What is shown as the same is not said twice.
  const bool reached = effective == absl::StrFormat("%.1f", declared);
  if (reached || !precision.has_declared_bits()) return absl::StrCat(effective, " bits");
  return absl::StrCat(effective, " of ", ValueText(declared));
}

bool IsInteger(v1::DType dtype) { return dtype == v1::DTYPE_INT8 || dtype == v1::DTYPE_INT32; }

bool LookCloser(const v1::CaseResult& result) {
  return ReadingOf(result) == SpeedReading::kLookCloser;
}

std::string ModelName(const v1::Device& device) {
  if (device.backend() != "cpu" || device.compute_units() <= 0) return device.model();
  return absl::StrCat(device.model(), " (", device.compute_units(),
                      device.compute_units() == 1 ? " core)" : " cores)");
}

namespace {

// What a heading tells of a job's cases: the operator that all have, and a user's kernel.
struct OfCases {
  std::string op, kernel;
};

OfCases ReadCases(const Run& run) {
  // A job that has ended does not repeat its cases.
  std::vector<const v1::CaseSpec*> specs;
  for (const v1::CaseSpec& spec : run.job.spec().cases().cases()) specs.push_back(&spec);
  if (specs.empty()) {
    for (const v1::CaseResult& result : run.results) specs.push_back(&result.spec());
  }
  OfCases cases;
  if (!specs.empty()) cases.op = OpOf(*specs.front());
  for (const v1::CaseSpec* spec : specs) {
    if (OpOf(*spec) != cases.op) cases.op.clear();
    if (cases.kernel.empty() && spec->provider().starts_with("user/")) {
      cases.kernel = spec->provider();
    }
  }
  return cases;
}

}  // namespace

std::string Heading(const Run& run) {
  std::vector<std::string> parts;
  const OfCases cases = ReadCases(run);
  if (!run.job.suite().empty()) {
    parts.push_back(run.job.suite());
  } else if (!cases.op.empty()) {
    parts.push_back(cases.op);
  }
  for (const std::string& device : run.job.devices()) {
    std::string part = device.substr(device.rfind('/') + 1);
    for (const v1::Device& known : run.devices) {
      if (known.id() != part || known.model().empty()) continue;
      absl::StrAppend(&part, " ", ModelName(known));
    }
    parts.push_back(std::move(part));
  }
  parts.push_back(absl::StrCat("seed ", run.job.spec().has_seed() ? run.job.spec().seed() : 1));
  parts.push_back(run.job.name());
  if (!cases.kernel.empty()) parts.push_back(absl::StrCat("kernel ", cases.kernel));
  return absl::StrJoin(parts, " · ");
}

}  // namespace assay::client
