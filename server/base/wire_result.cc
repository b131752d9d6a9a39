#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/strings/str_format.h"
#include "kernels/judge/phase.h"
#include "kernels/text/hex.h"
#include "server/base/finding.h"
#include "server/base/wire.h"

namespace assay::server {
namespace {

std::string Bits(std::uint64_t bits, DType dtype) {
  return absl::StrFormat("0x%0*x", Info(dtype).storage_bits / 4, bits);
}

void Coordinates(std::int64_t index, const std::vector<std::int64_t>& dims,
                 google::protobuf::RepeatedField<std::int64_t>* out) {
  std::vector<std::int64_t> reversed;
  for (auto d = dims.rbegin(); d != dims.rend(); ++d) {
    reversed.push_back(*d > 0 ? index % *d : 0);
    index = *d > 0 ? index / *d : 0;
  }
  for (auto i = reversed.rbegin(); i != reversed.rend(); ++i) out->Add(*i);
}

void ToFailure(const KernelFailure& failure, v1::Finding& finding) {
  const Phase phase = failure.reference   ? Phase::kReference
                      : failure.preparing ? Phase::kPrepare
                                          : Phase::kKernel;
  SetPhase(static_cast<v1::Phase>(phase), finding);
  if (failure.cause == DeathCause::kNone) return;
  v1::Death& death = *finding.mutable_death();
  death.set_cause(static_cast<v1::DeathCause>(failure.cause));
  if (failure.signal != 0) death.set_signal(failure.signal);
  if (failure.cause == DeathCause::kExit) death.set_exit_code(failure.exit_code);
}

void ToMismatch(const ElementSample& sample, const Operand& output, v1::Mismatch* out) {
  Coordinates(sample.index, output.dims, out->mutable_index());
  out->set_actual(sample.actual);
  out->set_expected(sample.expected);
  out->set_bound(sample.bound);
  out->set_actual_bits(Bits(sample.actual_bits, output.dtype));
  out->set_expected_bits(Bits(sample.expected_bits, output.dtype));
}

void ToStats(const CaseOutcome& outcome, v1::ErrorStats* out) {
  const CompareResult& r = *outcome.compare;
  const Plan& plan = *outcome.plan;
  out->set_count(r.count);
  out->set_mismatches(r.mismatches);
  out->set_nan_count(r.nan_count);
  out->set_inf_count(r.inf_count);
  out->set_reference_nan_count(r.reference_nan_count);
  out->set_reference_inf_count(r.reference_inf_count);
  out->set_class_mismatches(r.class_mismatches);
  out->set_unwritten(outcome.unwritten.value_or(r.unwritten));
  out->set_guard_hits(outcome.guard_hits);
  out->set_zero_count(r.zero_count);
  if (r.finite_pairs > 0) {
    const auto n = static_cast<double>(r.finite_pairs);
    out->set_rho(r.rho);
    out->set_rho_proven(r.rho_proven);
    out->set_max_abs_error(r.max_abs_error);
    out->set_mean_abs_error(r.sum_abs_error / n);
    out->set_rms_error(std::sqrt(r.sum_squared_error / n));
    out->set_max_abs_reference(r.max_abs_expected);
    if (r.max_abs_expected > 0) out->set_max_rel_error(r.max_rel_error);
    if (plan.elementwise || outcome.reports_ulp) out->set_max_ulp(r.max_ulp);
    const double norms = std::sqrt(r.sum_squared_actual) * std::sqrt(r.sum_squared_expected);
    if (norms > 0) out->set_cosine(std::clamp(r.dot / norms, -1.0, 1.0));
  }
  if (outcome.bias_z) out->set_bias_z(*outcome.bias_z);
  if (outcome.max_abs_score) out->set_max_abs_score(*outcome.max_abs_score);
  for (const ElementSample& sample : r.samples) {
    ToMismatch(sample, plan.output, out->add_mismatch_samples());
  }
  if (r.worst.index >= 0) ToMismatch(r.worst, plan.output, out->mutable_worst());
}

void ToBench(const BenchStats& b, v1::BenchStats* out) {
  const auto set = [](const std::optional<double>& v, auto setter) {
    if (v) setter(*v);
  };
  out->set_samples(b.samples);
  out->set_roof(std::string(b.roof));
  set(b.median_seconds, [&](double v) { out->set_median_seconds(v); });
  set(b.p10_seconds, [&](double v) { out->set_p10_seconds(v); });
  set(b.p90_seconds, [&](double v) { out->set_p90_seconds(v); });
  set(b.noise, [&](double v) { out->set_noise(v); });
  set(b.median_standard_error, [&](double v) { out->set_median_standard_error(v); });
  set(b.flops_per_second, [&](double v) { out->set_flops_per_second(v); });
  set(b.bytes_per_second, [&](double v) { out->set_bytes_per_second(v); });
  set(b.efficiency, [&](double v) { out->set_efficiency(v); });
  set(b.ceiling_flops_per_second, [&](double v) { out->set_ceiling_flops_per_second(v); });
  set(b.ceiling_bytes_per_second, [&](double v) { out->set_ceiling_bytes_per_second(v); });
  out->set_noisy(b.noisy);
  if (b.replayed) out->set_launches_per_sample(b.launches_per_sample);
  // If the device told nothing, there is nothing to write.
  if (!b.conditions || *b.conditions == BenchConditions{}) return;
  const BenchConditions& c = *b.conditions;
  v1::BenchConditions& seen = *out->mutable_conditions();
  set(c.min_clock_hertz, [&](double v) { seen.set_min_clock_hertz(v); });
  set(c.median_clock_hertz, [&](double v) { seen.set_median_clock_hertz(v); });
  set(c.max_temperature_celsius, [&](double v) { seen.set_max_temperature_celsius(v); });
  set(c.mean_power_watts, [&](double v) { seen.set_mean_power_watts(v); });
  for (const std::string& reason : c.throttle_reasons) seen.add_throttle_reasons(reason);
  if (c.others_bytes) seen.set_others_bytes(*c.others_bytes);
  set(c.waiting_ratio, [&](double v) { seen.set_waiting_ratio(v); });
}

void ToProbe(const ProbeOutcome& p, const Operand& output, v1::ProbeResult* out) {
  out->set_name(p.name);
  out->set_verdict(static_cast<v1::Verdict>(p.verdict));
  out->set_message(p.message);
  out->set_refused(p.refused);
  out->set_count(p.count);
  out->set_mismatches(p.mismatches);
  out->set_digest(p.digest);
  if (p.golden) out->set_golden(*p.golden);
  if (p.first) ToMismatch(*p.first, output, out->mutable_first_mismatch());
}

void ToCriterion(const CriterionOutcome& c, v1::CriterionResult* out) {
  out->set_criterion(static_cast<v1::Criterion>(c.criterion));
  out->set_passed(c.passed);
  if (c.mismatches) out->set_mismatches(*c.mismatches);
  if (c.atol) out->set_atol(*c.atol);
  if (c.rtol) out->set_rtol(*c.rtol);
}

void ToOperandStats(const OperandStats& s, v1::OperandStats* out) {
  out->set_name(std::string(s.name));
  out->set_count(s.count);
  out->set_nan_count(s.nan_count);
  out->set_inf_count(s.inf_count);
  out->set_zero_count(s.zero_count);
  if (s.min) out->set_min(*s.min);
  if (s.max) out->set_max(*s.max);
  if (s.mean) out->set_mean(*s.mean);
  if (s.rms) out->set_rms(*s.rms);
}

void ToChecksum(const ChecksumOutcome& c, v1::ChecksumStats* out) {
  out->set_probes(c.probes);
  if (c.max_row_ratio) out->set_max_row_ratio(*c.max_row_ratio);
  if (c.max_column_ratio) out->set_max_column_ratio(*c.max_column_ratio);
  out->set_screened_rows(c.screened_rows);
  out->set_wrong_elements(c.wrong_elements);
  for (const std::int64_t i : c.located) out->add_located(i);
}

void ToSlice(const Slice& s, v1::Slice* out) {
  out->set_name(s.name);
  for (const std::int64_t at : s.begin) out->add_begin(at);
  for (const std::int64_t extent : s.shape) out->add_shape(extent);
  for (const double v : s.values) out->add_values(v);
  for (const std::string& bits : s.bits) out->add_bits(bits);
}

void ToPrecision(const Precision& from, v1::Precision* to) {
  to->set_bits(from.bits);
  to->set_declared_bits(from.declared_bits);
  to->set_rms(from.rms);
  if (from.gain) to->set_gain(*from.gain);
  if (from.gain_error) to->set_gain_error(*from.gain_error);
  if (from.offset) to->set_offset(*from.offset);
  to->set_looks_like(from.looks_like);
}

void ToFinding(const Finding& from, v1::Finding& to) {
  to = MakeFinding(static_cast<v1::Reason>(from.reason), from.message);
  to.set_blame(static_cast<v1::Blame>(from.blame));
  to.set_subject(from.subject);
  to.set_headline(from.message.substr(0, from.headline));
  if (from.failure) ToFailure(*from.failure, to);
}

void ToProvenance(const Provenance& from, const Operand& output, v1::Provenance* to) {
  to->set_kind(std::string(from.kind));
  to->set_origin(std::string(from.origin));
  to->set_expected(from.expected);
  to->set_count(from.count);
  if (from.first >= 0) Coordinates(from.first, output.dims, to->mutable_first_index());
}

}  // namespace

v1::CaseResult ToResult(const Case& asked, const CaseOutcome& outcome, std::string_view device) {
  Case c = asked;
  if (outcome.seed) c.seed = outcome.seed;  // the one that repeats it
  v1::CaseResult result;
  *result.mutable_spec() = ToProto(c);
  result.set_name(c.name.empty() ? DefaultName(c) : c.name);
  result.set_device(std::string(device));
  result.set_verdict(static_cast<v1::Verdict>(outcome.verdict));
  result.set_criterion(static_cast<v1::Criterion>(
      c.criterion == Criterion::kUnspecified ? Criterion::kBound : c.criterion));
  result.set_implementation(outcome.implementation);
  result.set_repro(ReproLine(c, device));
  for (const Finding& f : outcome.findings) ToFinding(f, *result.add_findings());
  SetPhases(static_cast<v1::Phase>(outcome.last_phase), result);
  if (c.pattern.empty() && outcome.plan && !outcome.plan->inputs.empty()) {
    // The op's own pattern, which all its data operands share.
    result.mutable_spec()->set_pattern(ToString(outcome.plan->inputs[0].pattern));
  }
  if (outcome.atol) result.mutable_spec()->set_atol(*outcome.atol);
  if (outcome.rtol) result.mutable_spec()->set_rtol(*outcome.rtol);
  for (const std::string& name : outcome.loaded_libraries) result.add_loaded_libraries(name);
  if (outcome.deterministic) result.set_deterministic(*outcome.deterministic);
  if (outcome.compare && outcome.plan) {
    ToStats(outcome, result.mutable_stats());
    result.mutable_digests()->set_raw(Hex128(outcome.compare->digest_raw));
    result.mutable_digests()->set_canonical(Hex128(outcome.compare->digest_canonical));
    for (const Provenance& p : outcome.provenance) {
      ToProvenance(p, outcome.plan->output, result.add_provenance());
    }
  }
  if (outcome.plan) {
    for (const ProbeOutcome& p : outcome.probes) {
      ToProbe(p, outcome.plan->output, result.add_probes());
    }
  }
  for (const CriterionOutcome& o : outcome.criteria) ToCriterion(o, result.add_criteria());
  for (const OperandStats& s : outcome.inputs) ToOperandStats(s, result.add_inputs());
  if (outcome.checksum) ToChecksum(*outcome.checksum, result.mutable_checksum());
  for (const Slice& s : outcome.slices) ToSlice(s, result.add_slices());
  if (outcome.precision) ToPrecision(*outcome.precision, result.mutable_precision());
  result.set_pattern_of_errors(outcome.pattern_of_errors);
  result.set_reads_as(outcome.reads_as);
  result.set_next_step(outcome.next_step);
  if (outcome.bench) ToBench(*outcome.bench, result.mutable_bench());
  for (const PhaseTime& p : outcome.phases) {
    v1::PhaseTime* phase = result.add_phases();
    phase->set_phase(std::string(p.phase));
    phase->set_seconds(p.seconds);
  }
  return result;
}

v1::CaseResult ResultWithoutRun(const v1::CaseSpec& spec, std::string_view device,
                                v1::Verdict verdict, v1::Finding finding) {
  v1::CaseResult result;
  *result.mutable_spec() = spec;
  result.set_name(spec.name());
  if (spec.name().empty()) {
    std::vector<FieldError> ignored;  // a spec that was accepted has none
    result.set_name(DefaultName(FromProto(spec, ignored)));
  }
  result.set_device(std::string(device));
  result.set_verdict(verdict);
  *result.add_findings() = std::move(finding);
  result.set_criterion(spec.criterion() == v1::CRITERION_UNSPECIFIED ? v1::CRITERION_BOUND
                                                                     : spec.criterion());
  result.set_repro(ReproLine(spec, device));
  return result;
}

std::string ReproLine(const v1::CaseSpec& spec, std::string_view device) {
  std::vector<FieldError> ignored;
  return ReproLine(FromProto(spec, ignored), device);
}

std::vector<v1::Kernel> ListKernels(const Registry& registry) {
  std::vector<v1::Kernel> kernels;
  for (const KernelEntry& entry : registry.entries()) {
    v1::Kernel& kernel = kernels.emplace_back();
    kernel.set_op(std::string(entry.op));
    kernel.set_provider(std::string(entry.provider));
    kernel.set_backend(std::string(entry.backend));
    kernel.set_version(entry.version);
    kernel.set_available(entry.unavailable_reason.empty());
    kernel.set_unavailable_reason(entry.unavailable_reason);
    for (const DType t : entry.dtypes) kernel.add_dtypes(static_cast<v1::DType>(t));
  }
  std::sort(kernels.begin(), kernels.end(), [](const v1::Kernel& a, const v1::Kernel& b) {
    return std::tie(a.op(), a.provider()) < std::tie(b.op(), b.provider());
  });
  return kernels;
}

}  // namespace assay::server
