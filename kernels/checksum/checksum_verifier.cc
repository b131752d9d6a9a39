#include "kernels/checksum/checksum_verifier.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_format.h"
#include "kernels/judge/recheck.h"
#include "kernels/numerics/bound.h"
#include "kernels/numerics/convert.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

// Lines named in a message.
constexpr std::size_t kNamed = 3;

// Of two numbers, one of which is not finite.
bool SameClass(double a, double b) { return std::isnan(a) ? std::isnan(b) : a == b; }

std::string NameOf(const ChecksumLine& line, std::string_view what, const GemmProblem& p) {
  if (p.batch == 1) return Cat(what, " ", line.index);
  return Cat(what, " ", line.index, " of matrix ", line.batch);
}

// "3 rows beyond their checksum's bound: row 5 (residual 1.2e+03, at most 4.5), …".
std::string Describe(const ChecksumSide& side, std::string_view what, const GemmProblem& p) {
  std::string text =
      Cat(Grouped(side.beyond), " ", what, side.beyond == 1 ? "" : "s", " beyond the bound of ",
          side.beyond == 1 ? "its checksum: " : "their checksums: ");
  std::size_t named = 0;
  for (const ChecksumLine& line : side.lines) {
    if (!line.beyond || named == kNamed) break;
    text += absl::StrFormat("%s%s (residual %.3g, at most %.3g)", named == 0 ? "" : ", ",
                            NameOf(line, what, p), line.residual, line.threshold);
    ++named;
  }
  if (side.beyond > static_cast<std::int64_t>(named)) text += ", …";
  return text;
}

std::string DescribeBoth(const ChecksumMeasures& m, const GemmProblem& p) {
  std::string text;
  if (m.rows.beyond > 0) text = Describe(m.rows, "row", p);
  if (m.columns.beyond > 0) {
    Append(&text, text.empty() ? "" : "; ", Describe(m.columns, "column", p));
  }
  if (!text.empty() && !m.located.empty()) {
    Append(&text, "; they meet in the element [", Join(m.located, ","), "]");
  }
  return text;
}

// The rows of output elements, each row once. The indices are sorted.
std::vector<LineId> RowsOfElements(const std::vector<std::int64_t>& indices, const GemmProblem& p) {
  std::vector<LineId> rows;
  rows.reserve(indices.size());
  for (std::int64_t index : indices) rows.push_back({index / (p.m * p.n), index / p.n % p.m});
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return rows;
}

std::vector<LineId> Ids(const ChecksumSide& side) {
  std::vector<LineId> ids;
  for (const ChecksumLine& line : side.lines) ids.push_back({line.batch, line.index});
  return ids;
}

// What only the pass over the whole output knows.
void TakeCounts(const ChecksumSums& whole, CompareResult& r) {
  // Elements seen to be of the class they should be of; of the others nothing is known.
  const std::int64_t nan = r.nan_count - r.unwritten - r.unexpected_nan;
  const std::int64_t inf = r.inf_count - r.unexpected_inf;
  r.nan_count = whole.nan_count;
  r.inf_count = whole.inf_count;
  r.zero_count = whole.zero_count;
  r.unwritten = whole.unwritten;
  r.first_nan = whole.first_nan;
  r.first_inf = whole.first_inf;
  r.first_unwritten = whole.first_unwritten;
  r.unexpected_nan = std::max<std::int64_t>(0, whole.nan_count - whole.unwritten - nan);
  r.unexpected_inf = std::max<std::int64_t>(0, whole.inf_count - inf);
  if (r.unexpected_nan > 0 && r.first_unexpected_nan < 0) r.first_unexpected_nan = r.first_nan;
  if (r.unexpected_inf > 0 && r.first_unexpected_inf < 0) r.first_unexpected_inf = r.first_inf;
}

std::int64_t Wrong(const CompareResult& r, bool probable) {
  return r.class_mismatches + (probable ? r.beyond_probable : r.beyond_proven);
}

}  // namespace

// Sampled elements against the host's plain reference.
struct ChecksumVerifier::Samples {
  CompareResult compared;
  std::vector<std::int64_t> rejected;  // indices of the output
};

End ChecksumVerifier::Prepare(const Op& op, const Plan& plan) {
  op_ = &op;
  plan_ = &plan;
  if (std::string refusal = ChecksumRefusal(case_, plan); !refusal.empty()) {
    return Ended{Verdict::kUnsupported, {Reason::kUnsupported, std::move(refusal)}};
  }
  lines_.emplace(case_, op, plan, device_);
  if (absl::Status s = lines_->Reserve(); !s.ok()) return EndedBy(s, "checksums");
  return std::nullopt;
}

absl::StatusOr<ChecksumVerifier::Samples> ChecksumVerifier::Sample(const TensorView& output,
                                                                   const HostInputs& host,
                                                                   bool flushes, bool exact) {
  const std::vector<std::int64_t> at = op_->Samples(case_, *plan_, case_.seed.value_or(1),
                                                    std::min(kRecheckSamples, output.count()));
  std::vector<double> value(at.size()), allowance(at.size());
  op_->ReferenceAt(case_, *plan_, host, at, value.data(), allowance.data());
  const DType t = output.dtype;
  const OutputRounding rounding = OutputRoundingOf(t, flushes);
  Samples samples;
  CompareResult& r = samples.compared;
  unsigned char raw[8];
  for (std::size_t i = 0; i < at.size(); ++i) {
    if (absl::Status s = device_.ToHost(output, at[i], 1, raw); !s.ok()) return s;
    const double actual = LoadDouble(t, raw, 0);
    const double rounded = Quantise(value[i], t);
    const double bound = exact ? 0.0 : TBound(rounding, value[i], allowance[i]);
    const double proven =
        exact ? 0.0 : TBound(rounding, value[i], plan_->proven_factor * allowance[i]);
    const double limit = plan_->zero_mean_random ? bound : proven;
    ++r.count;
    r.max_abs_expected =
        std::max(r.max_abs_expected, std::isfinite(value[i]) ? std::abs(value[i]) : 0.0);
    if (!std::isfinite(actual) || !std::isfinite(rounded)) {
      const bool may_overflow = std::abs(value[i]) + proven >= Info(t).max_finite;
      const bool overflow_is_nan = !Info(t).has_inf;
      if (!SameClass(actual, rounded) &&
          !(may_overflow && (!std::isnan(actual) || overflow_is_nan))) {
        samples.rejected.push_back(at[i]);
      }
      continue;
    }
    const double expected = exact ? rounded : value[i];
    const double error = std::abs(actual - expected);
    ++r.finite_pairs;
    r.max_abs_error = std::max(r.max_abs_error, error);
    r.sum_abs_error += error;
    r.sum_squared_error += error * error;
    if (value[i] != 0.0) r.max_rel_error = std::max(r.max_rel_error, error / std::abs(value[i]));
    r.dot += actual * expected;
    r.sum_squared_actual += actual * actual;
    r.sum_squared_expected += expected * expected;
    if (error > 0.0) {
      r.rho = std::max(r.rho, error / bound);
      r.rho_proven = std::max(r.rho_proven, error / proven);
    }
    if (!(error <= limit)) samples.rejected.push_back(at[i]);
  }
  return samples;
}

absl::Status ChecksumVerifier::Recompute(const ChecksumMeasures& m, const Samples& samples,
                                         std::span<const TensorView> inputs,
                                         const TensorView& output, const HostInputs& host,
                                         bool flushes, ChecksumFindings& out, bool& clipped) {
  const auto& p = std::get<GemmProblem>(case_.problem);
  const FormatInfo& format = Info(output.dtype);
  const bool saturates = format.storage_bits <= 8;  // a gemm has no integers of 8 bits
  CompareRequest request;
  request.proven_factor = plan_->proven_factor;
  request.exact = plan_->exact || m.exact;
  request.flushes_subnormals = flushes;
  request.gate = MakeGating(case_, *plan_, 0.0).gate;
  const bool probable = plan_->zero_mean_random;

  std::vector<LineId> rows = RowsOfElements(samples.rejected, p);
  const auto sampled = static_cast<std::int64_t>(rows.size());
  for (const LineId& id : Ids(m.rows)) {
    if (std::find(rows.begin(), rows.begin() + sampled, id) == rows.begin() + sampled) {
      rows.push_back(id);
    }
  }
  const auto look = [&](std::vector<LineId> lines, bool columns, std::int64_t most,
                        const ChecksumSide& side, std::string_view what) -> absl::Status {
    const auto all = static_cast<std::int64_t>(lines.size());
    absl::StatusOr<CompareResult> r =
        lines_->Compare(std::move(lines), columns, inputs, output, request);
    if (!r.ok()) return r.status();
    out.compared = *r;
    out.unbounded += lines_->unbounded();
    out.outcome.wrong_elements = Wrong(out.compared, probable || request.exact);
    absl::StatusOr<std::string> fault = lines_->RecheckOnHost(host, out.compared, flushes);
    if (!fault.ok()) return fault.status();
    out.fault = *std::move(fault);
    if (out.outcome.wrong_elements > 0 || !out.fault.empty()) return absl::OkStatus();
    clipped = clipped || (saturates && r->max_abs_expected > format.max_finite);
    if (all > most) {
      Append(&out.suspicious, out.suspicious.empty() ? "" : "; ", Grouped(all), " ", what,
             "s have suspicious checksums, of which the ", most,
             " worst were recomputed and are right");
    } else if (side.beyond > 0 && !clipped) {
      // Lines whose every element is within its bound exceed it with a chance of 3e-14.
      out.fault =
          Cat(Describe(side, what, p), "; the device's own reference finds nothing wrong there");
    }
    return absl::OkStatus();
  };
  if (!rows.empty()) {
    absl::Status status = look(rows, /*columns=*/false, kRecomputedRows, m.rows, "row");
    if (!status.ok()) return status;
    if (out.outcome.wrong_elements == 0 && out.fault.empty() && sampled > 0) {
      out.fault =
          Cat("the host finds ", Grouped(static_cast<std::int64_t>(samples.rejected.size())),
              " of ", Grouped(samples.compared.count),
              " sampled elements beyond their bound, the device none in their rows");
    }
  }
  const bool clear = out.outcome.wrong_elements == 0 && out.fault.empty();
  if (!clear || m.columns.lines.empty()) return absl::OkStatus();
  return look(Ids(m.columns), /*columns=*/true, kRecomputedColumns, m.columns, "column");
}

End ChecksumVerifier::Verify(std::span<const TensorView> inputs, const TensorView& output,
                             const HostInputs& host, bool flushes, ChecksumFindings& out) {
  const auto& p = std::get<GemmProblem>(case_.problem);
  out = {};
  clock_.Enter(Phase::kCompare);
  absl::StatusOr<ChecksumMeasures> m =
      MeasureChecksums(case_, *plan_, device_, inputs, output, flushes);
  if (!m.ok()) return RefusedBy(m.status(), "checksums");
  out.outcome.probes = m->probes;
  out.outcome.max_row_ratio = m->rows.max_ratio;
  out.outcome.max_column_ratio = m->columns.max_ratio;
  out.outcome.screened_rows = static_cast<std::int64_t>(m->rows.lines.size());
  out.outcome.located = m->located;
  out.wrong = DescribeBoth(*m, p);
  out.exact = m->exact;

  clock_.Enter(Phase::kRecheck);
  absl::StatusOr<Samples> samples = Sample(output, host, flushes, plan_->exact || m->exact);
  if (!samples.ok()) return EndedBy(samples.status(), "recheck");
  out.rechecked = samples->compared.count;
  out.compared = samples->compared;

  clock_.Enter(Phase::kReference);
  bool clipped = false;
  absl::Status status = Recompute(*m, *samples, inputs, output, host, flushes, out, clipped);
  if (status.ok()) status = device_.Synchronize();
  if (!status.ok()) return RefusedBy(status, "reference");
  if (clipped && out.outcome.wrong_elements == 0 && out.fault.empty()) {
    return Ended{
        Verdict::kUnsupported,
        {Reason::kUnsupported, Cat("some results are beyond ", Name(output.dtype),
                                   "'s largest number and saturate, which checksums do not "
                                   "follow; verify in full")}};
  }
  TakeCounts(m->output, out.compared);
  if (out.suspicious.empty() || m->input_non_finite == 0 || !out.wrong.empty()) return std::nullopt;
  return Ended{
      Verdict::kUnsupported,
      {Reason::kUnsupported, Cat("the inputs hold ", Grouped(m->input_non_finite),
                                 " NaN and infinities, which checksums spread over everything; "
                                 "verify in full")}};
}

Judgement JudgeChecksums(const Case& c, const Plan& plan, const ChecksumFindings& findings,
                         Evidence evidence) {
  // Shares are of the whole output: the elements no one looked at have their checksums.
  CompareResult judged = findings.compared;
  judged.count = plan.output.extents.count();
  // An output of zeros whose checksums hold has a reference of zeros.
  judged.reference_zero_count = findings.wrong.empty() ? judged.zero_count : 0;
  evidence.compare = &judged;
  evidence.rechecked = findings.rechecked;
  evidence.recheck_fault = findings.fault;
  evidence.all_unbounded = findings.unbounded;
  Plan judged_plan = plan;
  judged_plan.exact |= findings.exact;
  Judgement j = Judge(c, judged_plan, evidence);
  if (j.verdict == Verdict::kError) return j;
  if (!findings.wrong.empty()) {
    j.verdict = Verdict::kFailed;
    const auto at = std::find_if(j.findings.begin(), j.findings.end(), [](const Finding& f) {
      return f.reason != Reason::kGuard && f.reason != Reason::kUnwritten &&
             f.reason != Reason::kClass;
    });
    j.findings.insert(at, Finding{findings.exact ? Reason::kExact : Reason::kBound,
                                  "checksum: " + findings.wrong});
  } else if (!findings.suspicious.empty() && j.verdict != Verdict::kFailed) {
    j.verdict = Verdict::kInconclusive;
    j.findings.insert(
        j.findings.begin(),
        Finding{Reason::kSuspect, Cat("checksum: ", findings.suspicious, "; verify in full")});
  }
  return j;
}

}  // namespace assay::kernels
