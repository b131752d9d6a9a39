#include "kernels/ops/attention/attention_probes.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "kernels/numerics/bound.h"
#include "kernels/numerics/convert.h"
#include "kernels/numerics/key_groups.h"
#include "kernels/numerics/unit_places.h"
#include "kernels/ops/attention/attention_reference.h"
#include "kernels/ops/common/load.h"
#include "kernels/ops/common/planning.h"
#include "kernels/ops/common/probe_data.h"
#include "kernels/runtime/cpu/parallel.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

// The largest group, whose weights and products are summed.
constexpr double kLargestGroup = 16;

// What scores are multiplied by, as the kernel gets it.
double ScoreScale(const AttentionProblem& p, DType input) {
  return p.Scale(input) * KernelScalar(input, p.scale_q) * KernelScalar(input, p.scale_k);
}

// u_P
double WeightRoundoff(const Case& c) {
  const double of_input = Info(c.dtype).unit_roundoff;
  if (c.intermediate_dtype == DType::kUnspecified) return of_input;
  return std::max(of_input, Info(c.intermediate_dtype).unit_roundoff);
}

// V holds whole numbers from 1 to this one, so no mean of 16 of them is 0. Of 8-bit floats, whose
// usual errors hide an output that is rounded twice, means of 16 have nine bits, one more than
// bf16, if the output holds them. Sums of V with weights of 128 stay inside fp16.
double LargestValue(const Case& c) {
  const bool exact_v = WeightRoundoff(c) == Info(c.dtype).unit_roundoff;
  const bool holds_nine_bits = Info(OutputType(c)).machine_epsilon <= 0x1p-8;
  return IsEightBitFloat(c.dtype) && exact_v && holds_nine_bits ? 28 : 8;
}

// The distance of scores beyond which exp falls to 0: exp(-104) is below half the smallest
// subnormal of fp32, exp(-746) of fp64.
double GapOf(DType input) { return input == DType::kF64 ? 760 : 110; }

// Magnitudes of the codes: powers of two between which exp falls to 0. The sign of the
// scale is in the queries'.
struct Magnitudes {
  double query, key;
};

// Nothing where the format holds none so large, or so small.
std::optional<Magnitudes> MagnitudesFor(const Case& c) {
  const DType input = c.dtype;
  const double scale = ScoreScale(std::get<AttentionProblem>(c.problem), input);
  if (!(std::abs(scale) > 0)) return std::nullopt;
  const int exponent =
      static_cast<int>(std::ceil(std::log2(GapOf(input)) - std::log2(std::abs(scale))));
  // Products of codes stay well inside the accumulator's range.
  if (std::abs(exponent) > (input == DType::kF64 ? 1000 : 120)) return std::nullopt;
  int key = exponent >= 0 ? exponent / 2 : -((1 - exponent) / 2);
  // fp16 holds no such query, which shows a kernel that reads bf16 as fp16. It may declare fp16.
  const bool declared = c.intermediate_dtype == DType::kF16;
  if (input == DType::kBF16 && std::abs(exponent) <= 40 && !declared) key -= 20;
  const int query = exponent - key;
  const FormatInfo& f = Info(input);
  for (const int e : {key, query}) {
    if (std::exp2(e) > f.max_finite || std::exp2(e) < f.min_normal) return std::nullopt;
  }
  return Magnitudes{std::copysign(std::exp2(query), scale), std::exp2(key)};
}

KeyGroups GroupsOf(const AttentionProblem& p, bool single) {
  return KeyGroups(p.seq, p.KvSeq(), p.causal, single ? SingleCodes(p.dim) : 0);
}

// Why neither probe's data can be made.
std::string WhyNoCodes(const Case& c) {
  const auto& p = std::get<AttentionProblem>(c.problem);
  constexpr std::int64_t kMostKeys = std::int64_t{1} << 32, kMostSharing = std::int64_t{1} << 20;
  if (p.KvSeq() >= kMostKeys || p.heads / p.KvHeads() >= kMostSharing) {
    return "the shape is beyond what its data can say";
  }
  if (!MagnitudesFor(c).has_value()) {
    return Cat("no ", Name(c.dtype), " codes drive exp to 0 under a scale of ",
               Shortest(ScoreScale(p, c.dtype)));
  }
  return "";
}

std::string WhyNotKeyGroups(const Case& c) {
  std::string why = WhyNoCodes(c);
  if (!why.empty()) return why;
  const auto& p = std::get<AttentionProblem>(c.problem);
  const std::int64_t groups = GroupsOf(p, /*single=*/false).groups();
  if (CodeWeight(groups, p.dim) > 0) return "";
  return Cat(groups, " groups of keys need as many codes, dim ", p.dim, " has ", MostCodes(p.dim));
}

std::string WhyNotSingleKeys(const Case& c) {
  std::string why = WhyNoCodes(c);
  if (!why.empty()) return why;
  const auto& p = std::get<AttentionProblem>(c.problem);
  if (p.dim < 2) return "a vector of one element has no room for a code";
  const double largest = 3 * std::abs(MagnitudesFor(c)->query);
  if (largest <= Info(c.dtype).max_finite) return "";
  return Cat("no ", Name(c.dtype), " codes drive exp to 0 under a scale of ",
             Shortest(ScoreScale(p, c.dtype)));
}

// MeanDeviation of the probe's scores; 0 where rounding to the output leaves none of it, for
// formats of at least 8 bits hold these means: whole 16ths up to 8, or up to 28 (LargestValue).
double GroupDeviation(const Case& c) {
  const std::optional<Magnitudes> magnitudes = MagnitudesFor(c);
  if (!magnitudes.has_value()) return 0;
  const auto& p = std::get<AttentionProblem>(c.problem);
  const DType input = c.dtype, output = OutputType(c);
  const double score = CodeWeight(GroupsOf(p, /*single=*/false).groups(), p.dim) *
                       magnitudes->query * magnitudes->key * ScoreScale(p, input);
  const double deviation =
      MeanDeviation(ArithmeticOf(input).u, WeightRoundoff(c), score, kLargestGroup);
  const bool holds_means = Info(output).machine_epsilon <= 0x1p-7;
  return holds_means && deviation < Info(output).unit_roundoff / 2 ? 0 : deviation;
}

// How far from V, relative to it, a single key's output may be: the weight and the sum are 1, and a
// kernel may multiply by an approximate reciprocal of the sum. 0 where rounding to the output
// leaves none of it.
double SingleDeviation(DType input, DType output) {
  constexpr double kRoundings = 4;
  const double deviation = kRoundings * ArithmeticOf(input).u;
  const bool holds_values = Info(output).machine_epsilon <= Info(input).machine_epsilon;
  return holds_values && deviation < Info(output).unit_roundoff / 2 ? 0 : deviation;
}

// Single products of the probes that are judged by the bound stay below.
constexpr double kLargestProduct = 0x1p120;

// The least number from x on that three bits hold: at most a quarter more.
double FewBitsFrom(double x) {
  int exponent = 0;
  const double fraction = std::frexp(x, &exponent);
  return std::ldexp(std::ceil(8 * fraction) / 8, exponent);
}

std::string OneHot(double value) { return ToString({PatternKind::kOneHot, value, 0}); }

// Every query reads one column of K, so its scores are single products, which no order of sums
// changes. They lie so far apart that one key mostly has all the weight, and that a hidden key
// often scores thousands more than it. All are below 0, or all above.
KernelProbe FarFrom0(const Case& c, const AttentionProblem& p, bool above) {
  const bool wide_keys = ReachesBeyondHalf(c.dtype), one_binade = above && wide_keys;
  // Of the score with the weight. Farther from 0, an output of 0 is within the bound.
  const double far = one_binade ? 24000 : 12000;
  // The ratio of the largest key to the least. Above, bf16 keys lie in one binade, so that scores
  // are 90 apart: a kernel may round Q times the scale to bf16, which changes their distances.
  // Below, a kernel may subtract 1e6 from base-2 scores that causality hides (Triton's tutorial).
  const double most_spread = one_binade ? 2 : above || p.masked() ? 1024 : 40;
  KernelProbe probe{above ? "far-above-0" : "far-below-0", {}};
  const FormatInfo& f = Info(c.dtype);
  const double scale = ScoreScale(p, c.dtype);
  // A format of wide range holds keys that fp16 does not.
  const double least = wide_keys ? kBeyondHalf : 16;
  const double spread = std::min(static_cast<double>(p.KvSeq() + 1), most_spread);
  const double most = std::floor(std::min(least * spread, f.max_finite));
  const double query = std::min(FewBitsFrom(far / ((above ? most : least) * std::abs(scale))),
                                LargestPowerOfTwo(c.dtype));
  const bool held = query >= f.min_normal && query * most <= kLargestProduct && least < most;
  if (!held || !(query * (above ? most : least) * std::abs(scale) >= GapOf(c.dtype))) {
    probe.skipped = Cat("no ", Name(c.dtype), " numbers make scores of ",
                        Shortest(above ? GapOf(c.dtype) : -GapOf(c.dtype)), " under a scale of ",
                        Shortest(scale));
    return probe;
  }
  if (c.intermediate_dtype != DType::kUnspecified) {
    probe.skipped = Cat("scores of thousands, rounded to ", Name(c.intermediate_dtype),
                        ", leave no order of the keys");
    return probe;
  }
  // If the right key's V is 0, the bound of an element is next to 0, and any other key's V shows.
  // A kernel may clip large V, of which fp16 holds sixteen times as much.
  const bool wide = !IsEightBitFloat(c.dtype) && !IsEightBitFloat(OutputType(c));
  const double large = wide ? 4096 / std::max(1.0, std::abs(p.scale_v)) : 1;
  const Pattern key{PatternKind::kIntegers, least, most}, value{PatternKind::kSparse, 0.5, large};
  probe.data = ProbeCase(c, p,
                         Cat(OneHot(std::copysign(query, above ? scale : -scale)), "/",
                             ToString(key), "/", ToString(value)),
                         /*exact=*/false);
  return probe;
}

// Scores fall from 0 in up to 64 even steps, and begin again. V has one number in each key, 1 or
// smaller than fp16 holds, so that weights of one size stand alone in an element.
KernelProbe SmallWeights(const Case& c, const AttentionProblem& p) {
  constexpr double kPeriod = 64;  // of row-vary
  constexpr double kLowest = 14;  // below 1e-6; a kernel may round Q or scores to 16 bits
  // A lost weight is all of an element. Rounded scores, P, l and exp are at most a tenth of it.
  constexpr double kRoundings = 0x1p-3;
  KernelProbe probe{"small-weights", {}};
  const FormatInfo& f = Info(c.dtype);
  const double scale = ScoreScale(p, c.dtype);
  // A column stands for every dim-th key, of which it shows the first.
  const auto shown = static_cast<double>(std::min(p.KvSeq(), p.dim));
  const double step = kLowest / (std::clamp(shown, 2.0, kPeriod) - 1);
  const double query = FewBitsFrom(step / std::abs(scale));
  if (!(query >= f.min_normal && kPeriod * query <= std::min(f.max_finite, kLargestProduct))) {
    probe.skipped = Cat("no ", Name(c.dtype), " numbers make scores of ", Shortest(-step),
                        " under a scale of ", Shortest(scale));
    return probe;
  }
  const Pattern key{PatternKind::kRowVary, 1, 0};
  const double value = ReachesBeyondHalf(OutputType(c)) ? kBelowHalf : 1;
  probe.deviation = kRoundings;
  probe.data = ProbeCase(
      c, p, Cat(OneHot(std::copysign(query, -scale)), "/", ToString(key), "/", OneHot(value)),
      /*exact=*/false);
  return probe;
}

// Whether P keeps its digits in small weights. It does not in fp16, and the bound allows for that
// only in kernels that round P before they divide by l.
bool HoldsSmallWeights(const Case& c) {
  return Info(c.dtype).min_normal <= 0x1p-100 && c.intermediate_dtype != DType::kF16;
}

bool IsPowerOfTwo(double x) {
  int exponent = 0;
  return std::abs(std::frexp(x, &exponent)) == 0.5;
}

}  // namespace

std::vector<KernelProbe> AttentionProbes(const Case& c) {
  const auto& p = std::get<AttentionProblem>(c.problem);
  std::vector<KernelProbe> probes = {FarFrom0(c, p, /*above=*/false),
                                     FarFrom0(c, p, /*above=*/true)};
  if (HoldsSmallWeights(c)) probes.push_back(SmallWeights(c, p));
  AttentionProblem exact = p;
  exact.scale_v = NearPowerOfTwo(p.scale_v, 2);
  KernelProbe groups{"key-groups", ProbeCase(c, exact, "", /*exact=*/true)};
  groups.deviation = GroupDeviation(groups.data);
  groups.skipped = WhyNotKeyGroups(groups.data);
  probes.push_back(std::move(groups));
  if (HasSignificandProbes(c.dtype)) {
    KernelProbe single{"exact-significand-v", ProbeCase(c, exact, "", /*exact=*/true)};
    single.data.significand = 2;
    single.deviation = SingleDeviation(c.dtype, OutputType(c));
    single.skipped = WhyNotSingleKeys(single.data);
    probes.push_back(std::move(single));
  }
  if (!p.causal) return probes;

  AttentionProblem open = p;
  open.causal = false;
  KernelProbe last{"last-row", ProbeCase(c, open, c.pattern, /*exact=*/false)};
  last.data.seed = c.seed;
  for (std::int64_t head = 0; head < p.batch * p.heads; ++head) {
    for (std::int64_t d = 0; d < p.dim; ++d) {
      last.same_elements.push_back(((head + 1) * p.seq - 1) * p.dim + d);
    }
  }
  probes.push_back(std::move(last));
  return probes;
}

bool ProbesShowScores(const Case& c) {
  const std::vector<KernelProbe> probes = AttentionProbes(c);
  return std::any_of(probes.begin(), probes.end(), [](const KernelProbe& probe) {
    return probe.skipped.empty() && probe.same_elements.empty();
  });
}

// Full significands, none 0. If the formats reach beyond fp16, so do they. In fp16 they are near
// its smallest normal numbers, and remain normal if they are scaled.
Pattern SingleKeyValues(const Case& c) {
  const auto& p = std::get<AttentionProblem>(c.problem);
  // V may be converted to the format that the weights are declared to have.
  const bool beyond = ReachesBeyondHalf(c.dtype) && ReachesBeyondHalf(OutputType(c)) &&
                      c.intermediate_dtype != DType::kF16;
  const double least = Info(DType::kF16).min_normal / std::clamp(std::abs(p.scale_v), 0.25, 1.0);
  const double unit = beyond ? kBeyondHalf : least;
  return {kFullSignificands.kind, unit * kFullSignificands.a, unit * kFullSignificands.b};
}

KeyGroups GroupsOf(const Case& c) {
  return GroupsOf(std::get<AttentionProblem>(c.problem), c.significand >= 0);
}

void SetKeyGroups(const Case& c, Plan& plan) {
  const auto& problem = std::get<AttentionProblem>(c.problem);
  const bool single = c.significand >= 0;
  const Magnitudes magnitudes = MagnitudesFor(c).value_or(Magnitudes{1, 1});
  plan.inputs[0].pattern = QueryCodes(magnitudes.query, problem.KvSeq(), problem.causal,
                                      problem.heads / problem.KvHeads(), single);
  plan.inputs[1].pattern = KeyCodes(magnitudes.key, single);
  plan.inputs[2].pattern =
      single ? SingleKeyValues(c) : Pattern{PatternKind::kIntegers, 1, LargestValue(c)};
  if (!problem.masked()) return;
  // Every query sees its one key.
  plan.inputs[3].pattern = single ? Pattern{PatternKind::kOnes, 0, 0} : KeyMask(problem.causal);
}

void AttentionKeyGroupsCpu(const Case& c, std::span<const TensorView> inputs, double* value) {
  const auto& problem = std::get<AttentionProblem>(c.problem);
  const DType input = c.dtype;
  const KeyGroups groups = GroupsOf(c);
  const std::int64_t dim = problem.dim, keys = problem.KvSeq();
  const double scale = KernelScalar(input, problem.scale_v);
  const double empty =
      problem.masked_rows == "zero" ? 0.0 : std::numeric_limits<double>::quiet_NaN();
  constexpr std::int64_t kGrain = 1 << 12;  // elements
  ParallelFor(problem.batch * problem.heads * problem.seq, std::max<std::int64_t>(1, kGrain / dim),
              [&](std::int64_t begin, std::int64_t end) {
                std::vector<double> v(static_cast<std::size_t>(dim));
                for (std::int64_t i = begin; i < end; ++i) {
                  const std::int64_t head = i / problem.seq, query = i % problem.seq;
                  const std::int64_t kv = KvHeadOf(problem, head);
                  const auto [first, size] = groups.Members(groups.Chosen(head, query));
                  const std::int64_t last = std::min(first + size, groups.Seen(query));
                  double* out = value + i * dim;
                  std::fill_n(out, dim, 0.0);
                  int found = 0;
                  for (std::int64_t key = first; key < last; ++key) {
                    if (problem.masked() &&
                        LoadDouble(DType::kI8, inputs[3].data, query * keys + key) == 0) {
                      continue;
                    }
                    ++found;
                    LoadDoubles(input, inputs[2].data, (kv * keys + key) * dim, dim, v.data());
                    for (std::int64_t d = 0; d < dim; ++d) {
                      out[d] += v[static_cast<std::size_t>(d)];
                    }
                  }
                  if (found == 0) {
                    std::fill_n(out, dim, empty);
                    continue;
                  }
                  for (std::int64_t d = 0; d < dim; ++d) out[d] *= scale / found;
                }
              });
}

std::vector<Identity> CheckFirstRows(const Case& c, const Plan& plan,
                                     std::span<const TensorView> inputs, const TensorView& output,
                                     const ReferenceBuffers& reference) {
  const auto& p = std::get<AttentionProblem>(c.problem);
  const auto read = [&](std::int64_t head, FirstRow& row) {
    const std::int64_t at = (head * p.seq + FirstRowQuery(p)) * p.dim;
    const std::int64_t first_key = KvHeadOf(p, head) * p.KvSeq() * p.dim;
    LoadDoubles(c.dtype, inputs[0].data, at, p.dim, row.query.data());
    LoadDoubles(c.dtype, inputs[1].data, first_key, p.dim, row.key.data());
    LoadDoubles(c.dtype, inputs[2].data, first_key, p.dim, row.key_value.data());
    LoadDoubles(output.dtype, output.data, at, p.dim, row.actual.data());
    std::copy_n(reference.value + at, p.dim, row.reference.data());
    return absl::OkStatus();
  };
  return *CheckFirstRows(c, plan, output.dtype, read);  // reading memory does not fail
}

std::optional<FirstRowRule> FirstRowRuleOf(const Case& c, const Plan& plan, DType output) {
  const auto& p = std::get<AttentionProblem>(c.problem);
  FirstRowRule rule;
  rule.query = p.seq - p.KvSeq();
  rule.value_scale = KernelScalar(c.dtype, p.scale_v);
  const bool subnormal = std::any_of(plan.inputs.begin(), plan.inputs.end(), [](const Operand& o) {
    return o.pattern.kind == PatternKind::kDenormal;
  });
  if (!p.causal || rule.query < 0 || p.masked() || !IsPowerOfTwo(rule.value_scale) || subnormal) {
    return std::nullopt;
  }
  rule.score_scale = std::abs(ScoreScale(p, c.dtype));
  rule.u = ArithmeticOf(c.dtype).u;
  rule.input_roundoff = WeightRoundoff(c);
  rule.sum_roundings = 2.0 * static_cast<double>(p.dim + 2);
  rule.min_normal = Info(output).min_normal;
  rule.flushes = plan.flushes_subnormals;
  rule.output = output;
  return rule;
}

absl::StatusOr<std::vector<Identity>> CheckFirstRows(const Case& c, const Plan& plan, DType output,
                                                     const ReadFirstRow& read) {
  const auto& p = std::get<AttentionProblem>(c.problem);
  const std::optional<FirstRowRule> rule = FirstRowRuleOf(c, plan, output);
  if (!rule) return std::vector<Identity>();
  Identity identity = FirstRowIdentity();
  const std::size_t dim = static_cast<std::size_t>(p.dim);
  const std::vector<double> none_read(dim);
  FirstRow row{none_read, none_read, none_read, none_read, none_read};
  for (std::int64_t head = 0; head < p.batch * p.heads; ++head) {
    if (absl::Status s = read(head, row); !s.ok()) return s;
    double sum = 0, magnitudes = 0;
    for (std::size_t d = 0; d < dim; ++d) {
      sum += row.query[d] * row.key[d];
      magnitudes += std::abs(row.query[d] * row.key[d]);
    }
    const double deviation = FirstRowDeviation(*rule, sum, magnitudes);
    for (std::size_t d = 0; d < dim; ++d) {
      const FirstRowElement found =
          JudgeFirstRow(*rule, deviation, row.key_value[d], row.reference[d], row.actual[d]);
      if (found == FirstRowElement::kLeftOut) continue;
      ++identity.count;
      if (found == FirstRowElement::kHolds || ++identity.broken > 1) continue;
      identity.message = Cat("head ", head, " query ", rule->query, " sees one key alone: column ",
                             d, " is ", Shortest(row.actual[d]), ", that key's value is ",
                             Shortest(Quantise(rule->value_scale * row.key_value[d], output)));
    }
  }
  return std::vector<Identity>{identity};
}

}  // namespace assay::kernels
