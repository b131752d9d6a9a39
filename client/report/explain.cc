#include "client/report/explain.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/lib/operators.h"
#include "client/lib/words.h"
#include "client/report/table.h"
#include "client/report/units.h"

namespace assay::client {
namespace {

constexpr std::size_t kLabelWidth = 9;

// Unit roundoff of a format as a power of two, and what is worth saying of it.
struct Roundoff {
  v1::DType dtype;
  int exponent;
  const char* note;
};
constexpr Roundoff kRoundoffs[] = {
    {v1::DTYPE_FP64, -53, ""},
    {v1::DTYPE_FP32, -24, ""},
    {v1::DTYPE_TF32, -11, ""},
    {v1::DTYPE_FP16, -11, ""},
    {v1::DTYPE_BF16, -8, "; 8 times fp16's, so that errors 8 times as large are the format's own"},
    {v1::DTYPE_E4M3FN, -4, ""},
    {v1::DTYPE_E4M3FNUZ, -4, ""},
    {v1::DTYPE_E5M2, -3, ""},
    {v1::DTYPE_E5M2FNUZ, -3, ""},
    {v1::DTYPE_E2M1, -2, ""},
};

v1::DType OutputOf(const v1::CaseSpec& spec) {
  return spec.out_dtype() != v1::DTYPE_UNSPECIFIED ? spec.out_dtype() : spec.dtype();
}

bool IsInteger(v1::DType dtype) { return dtype == v1::DTYPE_INT8 || dtype == v1::DTYPE_INT32; }

// What E is made of.
std::string AllowanceText(const v1::CaseSpec& spec) {
  const std::string& text = InfoOf(spec).allowance();
  return text.empty() ? "the roundings on the way" : text;
}

std::string BoundRule(const v1::CaseResult& result) {
  const v1::CaseSpec& spec = result.spec();
  const v1::DType output = OutputOf(spec);
  if (IsInteger(output) || InfoOf(spec).moves_values()) {
    return "each element exactly the correctly rounded result: nothing may be lost";
  }
  for (const Roundoff& r : kRoundoffs) {
    if (r.dtype != output) continue;
    return absl::StrCat(
        "each element within what its own arithmetic may lose: T = u·|expected| + half the "
        "smallest number + E, u = 2^",
        r.exponent, " (", Word(output), r.note, "), E ", AllowanceText(spec));
  }
  return "each element within what its own arithmetic may lose";
}

std::string ToleranceRule(const v1::CaseSpec& spec) {
  return absl::StrCat(
      "|actual - expected| ≤ ", spec.has_atol() ? ErrorText(spec.atol()) : "the format's atol",
      " + ", spec.has_rtol() ? ErrorText(spec.rtol()) : "the format's rtol", "·|expected|");
}

// "[0,7,1983,12]  got 0.2207 (0x3310)  expected 0.0312 ± 0.0005 (0x27fd)".
std::string MismatchText(const v1::Mismatch& m) {
  const auto [actual, expected] = TellingTexts(m.actual(), m.expected());
  return absl::StrCat("[", absl::StrJoin(m.index(), ","), "]  got ", actual, " (", m.actual_bits(),
                      ")  expected ", expected, " ± ", ErrorText(m.bound()), " (",
                      m.actual_bits() == m.expected_bits() && m.actual() != m.expected()
                          ? "rounds to the same"
                          : m.expected_bits(),
                      ")");
}

// How far beyond its bound, where that is a number.
std::string TimesBound(const v1::Mismatch& m) {
  const double error = std::abs(m.actual() - m.expected());
  if (!std::isfinite(error)) return "";
  if (m.bound() == 0) return error > 0 ? ", where nothing may be lost" : "";
  const double ratio = error / m.bound();
  return absl::StrCat(", ", RatioText(ratio), " times its bound");
}

std::string MarginText(const v1::CaseResult& result) {
  const v1::ErrorStats& s = result.stats();
  std::string text;
  if (s.has_rho()) {
    text = s.rho() == 0 ? "no error at all"
                        : absl::StrCat("the largest error is ", RatioText(s.rho()),
                                       " of its element's bound");
    if (s.has_worst() && s.rho() > 0) absl::StrAppend(&text, ", at ", MismatchText(s.worst()));
  }
  return text;
}

std::string ProvenanceText(const v1::Provenance& p) {
  const std::string kind = p.kind() == "nan" ? "NaN" : "Inf";
  std::string text = absl::StrCat(CountText(p.count()), " ", kind, " ");
  if (p.origin() == "unwritten") {
    absl::StrAppend(&text, "that are the poison of elements never written");
  } else if (p.origin() == "input") {
    absl::StrAppend(&text, "from inputs that hold ", kind);
  } else {
    absl::StrAppend(&text, "made by the arithmetic of the kernel");
  }
  absl::StrAppend(&text, p.expected() ? ", as the reference has them" : ", not in the reference");
  if (!p.first_index().empty()) {
    absl::StrAppend(&text, "; first at [", absl::StrJoin(p.first_index(), ","), "]");
  }
  return text;
}

std::string OperandText(const v1::OperandStats& o) {
  std::vector<std::string> parts;
  if (o.has_min()) {
    parts.push_back(absl::StrCat("min ", ValueText(o.min())));
    parts.push_back(absl::StrCat("max ", ValueText(o.max())));
    parts.push_back(absl::StrCat("mean ", ValueText(o.mean())));
    parts.push_back(absl::StrCat("rms ", ValueText(o.rms())));
  } else {
    parts.push_back("nothing finite");
  }
  if (o.zero_count() > 0) parts.push_back(absl::StrCat(CountText(o.zero_count()), " zeros"));
  if (o.nan_count() > 0) parts.push_back(absl::StrCat(CountText(o.nan_count()), " NaN"));
  if (o.inf_count() > 0) parts.push_back(absl::StrCat(CountText(o.inf_count()), " Inf"));
  return absl::StrCat(o.name(), "  ", CountText(o.count()),
                      " elements: ", absl::StrJoin(parts, ", "));
}

std::string ProbeText(const v1::ProbeResult& p) {
  std::string text = absl::StrCat(
      p.name(), " ",
      p.verdict() == v1::VERDICT_FAILED ? "FAILED" : absl::AsciiStrToLower(Word(p.verdict())));
  if (!p.message().empty()) absl::StrAppend(&text, ": ", p.message());
  if (p.verdict() == v1::VERDICT_FAILED && p.has_first_mismatch()) {
    absl::StrAppend(&text, "; first ", MismatchText(p.first_mismatch()));
  }
  if (p.has_golden()) {
    absl::StrAppend(&text, p.golden() ? ", the golden digest" : ", not the golden digest");
  }
  return text;
}

std::string ElementsText(std::int64_t count) {
  return absl::StrCat(CountText(count), count == 1 ? " element" : " elements");
}

std::string CriterionText(const v1::CriterionResult& c) {
  std::string text = absl::StrCat(Word(c.criterion()), c.passed() ? " would pass" : " would fail");
  if (c.has_mismatches() && c.mismatches() > 0) {
    absl::StrAppend(&text, " (", ElementsText(c.mismatches()), ")");
  }
  return text;
}

// The checks that ran and had nothing to say.
std::string QuietChecks(const v1::CaseResult& result) {
  const v1::ErrorStats& s = result.stats();
  std::vector<std::string> checks;
  checks.push_back(absl::StrCat(ElementsText(s.count()), " compared"));
  if (result.has_checksum()) {
    checks.back() += " one by one, all of them by the checksums of their rows and columns";
  }
  if (s.class_mismatches() == 0) checks.push_back("NaN and Inf where they belong");
  if (s.unwritten() == 0) checks.push_back("every element written");
  if (s.guard_hits() == 0) checks.push_back("guard bands untouched");
  if (s.has_bias_z()) checks.push_back(absl::StrFormat("bias z = %.1f", s.bias_z()));
  if (result.has_deterministic()) {
    checks.push_back(result.deterministic() ? "launches agree bit by bit" : "launches differ");
  }
  return absl::StrJoin(checks, ", ");
}

// "11.4 of 24, rms error 118 times what rounding makes likely, gain 1.2e-05 ± 3.0e-07".
std::string PrecisionText(const v1::CaseResult& result) {
  const v1::Precision& p = result.precision();
  std::vector<std::string> parts;
  if (p.has_bits()) parts.push_back(BitsText(p));
  if (p.has_rms()) {
    parts.push_back(
        absl::StrCat("rms error ", RatioText(p.rms()), " times what rounding makes likely"));
  }
  if (p.has_gain()) {
    parts.push_back(
        absl::StrCat("gain ", ErrorText(p.gain()),
                     p.has_gain_error() ? absl::StrCat(" ± ", ErrorText(p.gain_error())) : ""));
  }
  if (p.has_offset()) parts.push_back(absl::StrCat("offset ", ErrorText(p.offset())));
  // A finding names the format itself.
  const bool named =
      std::any_of(result.findings().begin(), result.findings().end(), [](const auto& finding) {
        return finding.reason() == "precision" || finding.reason() == "structure" ||
               finding.reason() == "suspect";
      });
  if (!named && !p.looks_like().empty()) {
    parts.push_back(absl::StrCat("errors as of ", p.looks_like()));
  }
  return absl::StrJoin(parts, ", ");
}

std::string BenchText(const v1::BenchStats& b) {
  std::string text = SecondsText(b.median_seconds());
  if (b.has_flops_per_second()) {
    absl::StrAppend(&text, ", ", RateText(b.flops_per_second(), "FLOP"));
  }
  if (b.has_bytes_per_second()) absl::StrAppend(&text, ", ", RateText(b.bytes_per_second(), "B"));
  if (b.has_efficiency()) {
    absl::StrAppend(&text, ", ", PercentText(b.efficiency()), " of the ", b.roof(), " roof");
  }
  return text;
}

}  // namespace

std::string RuleText(const v1::CaseResult& result) {
  const v1::CaseSpec& spec = result.spec();
  const v1::Criterion criterion =
      result.criterion() != v1::CRITERION_UNSPECIFIED ? result.criterion() : v1::CRITERION_BOUND;
  const std::string name = Word(criterion);
  switch (criterion) {
    case v1::CRITERION_DERIVED:
      return absl::StrCat(name, ": ", ToleranceRule(spec),
                          ", computed from the formats and the number of accumulations");
    case v1::CRITERION_ALLCLOSE:
      return absl::StrCat(name, ": ", ToleranceRule(spec));
    case v1::CRITERION_LEGACY:
      return absl::StrCat(name, ": largest absolute error at most ",
                          spec.has_atol() ? ErrorText(spec.atol()) : "the format's atol",
                          " and largest relative error at most ",
                          spec.has_rtol() ? ErrorText(spec.rtol()) : "the format's rtol");
    case v1::CRITERION_ULP:
      return absl::StrCat(name, ": each element at most ",
                          spec.has_max_ulp() ? ValueText(spec.max_ulp()) : "1",
                          " units in the last place from the rounded reference");
    case v1::CRITERION_BITWISE:
      return absl::StrCat(name, ": the bits of the rounded reference");
    default:
      return absl::StrCat(name, ": ", BoundRule(result));
  }
}

std::vector<Detail> ExplanationOf(const v1::CaseResult& result) {
  std::vector<Detail> lines;
  const auto add = [&lines](const char* label, std::string text) {
    if (!text.empty()) lines.push_back({label, std::move(text)});
  };
  const bool failed = result.verdict() == v1::VERDICT_FAILED;
  if (result.has_stats()) add("rule", RuleText(result));
  const std::vector<Detail> findings = FindingsOf(result);
  lines.insert(lines.end(), findings.begin(), findings.end());
  add("precision", PrecisionText(result));
  if (result.has_stats()) {
    const v1::ErrorStats& stats = result.stats();
    if (failed && stats.has_worst()) {
      add("worst", absl::StrCat(MismatchText(stats.worst()), TimesBound(stats.worst())));
    }
    if (!failed) add("margin", MarginText(result));
    add("checks", QuietChecks(result));
  }
  for (const auto& probe : result.probes()) {
    // What failed has a finding that says the same.
    const bool said =
        std::any_of(result.findings().begin(), result.findings().end(),
                    [&](const v1::Finding& f) { return f.subject() == probe.name(); });
    if (!said) add("probe", ProbeText(probe));
  }
  std::vector<std::string> criteria;
  for (const auto& criterion : result.criteria()) criteria.push_back(CriterionText(criterion));
  add("others", absl::StrJoin(criteria, ", "));
  for (const auto& provenance : result.provenance()) add("NaN, Inf", ProvenanceText(provenance));
  for (const auto& operand : result.inputs()) add("input", OperandText(operand));
  if (result.stats().has_max_abs_score()) {
    add("scores", absl::StrCat("up to ", ValueText(result.stats().max_abs_score())));
  }
  if (result.bench().has_median_seconds()) add("speed", BenchText(result.bench()));
  add("reads as", result.reads_as());
  add("refused", absl::StrJoin(result.refused_calls(), ", "));
  add("libraries", absl::StrJoin(result.loaded_libraries(), ", "));
  add("next", result.next_step());
  add("repro", result.repro());
  return lines;
}

std::string ExplanationText(const v1::CaseResult& result, bool colour) {
  const Row row = RowOf(result);
  std::string text =
      absl::StrCat("  ", Coloured(row.verdict, row.judged, colour), "  ", row.name, "\n");
  std::string last;
  for (const Detail& line : ExplanationOf(result)) {
    // One label serves the lines that share it.
    absl::StrAppend(&text, "    ", PadRight(line.label == last ? "" : line.label, kLabelWidth), " ",
                    line.text, "\n");
    last = line.label;
  }
  return text;
}

Json ExplanationJson(const Run& run, const v1::CaseResult& result) {
  Json json = TestJson(run, result);
  json["explanation"] = Json::array();
  for (const Detail& line : ExplanationOf(result)) {
    json["explanation"].push_back({{"label", line.label}, {"text", line.text}});
  }
  return json;
}

}  // namespace assay::client
