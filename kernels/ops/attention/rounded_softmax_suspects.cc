// Scores or weights of an attention that are rounded to the input's format on their way, as they
// are if a kernel is made of operators that each store their result.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <variant>

#include "kernels/numerics/convert.h"
#include "kernels/ops/attention/attention_rows.h"
#include "kernels/ops/attention/attention_suspects.h"
#include "kernels/ops/case.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

// What is rounded. `product`: Q·K before it is scaled. `score`: behind the scale.
struct Roundings {
  bool product = false;
  bool score = false;
  // The weights: not at all, exp alone, exp and so its sum, or exp divided by its sum.
  enum class Weight : std::uint8_t { kNone, kExp, kExpAndSum, kQuotient } weight = Weight::kNone;

  bool scores() const { return product || score; }
  bool any() const { return scores() || weight != Weight::kNone; }
};

std::vector<Roundings> AllRoundings() {
  using Weight = Roundings::Weight;
  std::vector<Roundings> all;
  for (const bool product : {false, true}) {
    for (const bool score : {false, true}) {
      for (const Weight weight :
           {Weight::kNone, Weight::kExp, Weight::kExpAndSum, Weight::kQuotient}) {
        if (const Roundings r{product, score, weight}; r.any()) all.push_back(r);
      }
    }
  }
  return all;
}

std::vector<double> RoundedScores(std::vector<double> scores, const Roundings& r, double scale,
                                  DType format) {
  for (double& s : scores) {
    if (!std::isfinite(s)) continue;
    if (r.product) s = Quantise(s / scale, format) * scale;
    if (r.score) s = Quantise(s, format);
  }
  return scores;
}

// An element with those roundings, before its own. NaN if the row sees no key.
double Rounded(AttentionRows& rows, std::int64_t index, const Roundings& r, double scale,
               DType format) {
  using Weight = Roundings::Weight;
  const std::int64_t row = rows.RowOf(index);
  std::vector<double> weights = RoundedScores(rows.Scores(row), r, scale, format);
  const double max = *std::max_element(weights.begin(), weights.end());
  if (!std::isfinite(max)) return std::numeric_limits<double>::quiet_NaN();
  double sum = 0;
  for (double& w : weights) {
    const double exponential = std::exp(w - max);
    const bool rounded = r.weight == Weight::kExp || r.weight == Weight::kExpAndSum;
    w = rounded ? Quantise(exponential, format) : exponential;
    sum += r.weight == Weight::kExpAndSum ? w : exponential;
  }
  const double* value = rows.Values(row, rows.ColumnOf(index));
  double o = 0;
  for (double w : weights) {
    w /= sum;
    o += (r.weight == Weight::kQuotient ? Quantise(w, format) : w) * *value;
    value += rows.dim();
  }
  return o;
}

using Elements = std::span<const WrongElement>;

// Fifteen ways are tried for each element; of longer rows it would take too long.
constexpr std::int64_t kMostKeys = 16'384;

// Of all ways to round, the one that leaves least of the errors.
struct Nearest {
  Roundings roundings;
  std::vector<double> values;
  double left = std::numeric_limits<double>::infinity();  // Σ (actual − value)²
};

Nearest NearestOf(const Scene& scene, Elements elements) {
  const auto& p = std::get<AttentionProblem>(scene.c.problem);
  const double scale = p.Scale(scene.c.dtype) * p.scale_q * p.scale_k;
  AttentionRows rows(scene);
  Nearest nearest;
  for (const Roundings& r : AllRoundings()) {
    std::vector<double> values;
    double left = 0;
    for (const WrongElement& e : elements) {
      values.push_back(
          Quantise(Rounded(rows, e.index, r, scale, scene.c.dtype), scene.plan.output.dtype));
      left += (e.actual - values.back()) * (e.actual - values.back());
    }
    if (left < nearest.left) nearest = {r, std::move(values), left};
  }
  return nearest;
}

}  // namespace

std::vector<Suspect> RoundedSoftmaxSuspects(const Scene& scene) {
  const DType format = scene.c.dtype;
  const auto& p = std::get<AttentionProblem>(scene.c.problem);
  if (Info(format).storage_bits != 16 || p.KvSeq() > kMostKeys ||
      scene.c.intermediate_dtype != DType::kUnspecified ||
      p.Scale(format) * p.scale_q * p.scale_k == 0) {
    return {};
  }
  auto test = [&scene, format](Elements elements) -> std::optional<Proof> {
    const Nearest nearest = NearestOf(scene, elements);
    if (!std::isfinite(nearest.left)) return std::nullopt;
    // Other roundings make errors of the same size. These must take most of each away.
    constexpr double kLeft = 0.5;
    std::optional<Proof> proof = Agreement(elements, [&](std::size_t i) {
      return Computed{nearest.values[i],
                      kLeft * std::abs(elements[i].actual - elements[i].expected)};
    });
    if (!proof.has_value()) return std::nullopt;
    const bool weights = nearest.roundings.weight != Roundings::Weight::kNone;
    const std::string_view what = !nearest.roundings.scores() ? "the weights of the softmax are"
                                  : weights ? "the scores and the weights of the softmax are"
                                            : "the scores are";
    proof->reads_as = Cat(what, " rounded to ", Name(format), " on their way");
    return proof;
  };
  std::vector<Suspect> suspects;
  suspects.push_back({"",
                      Cat("keep scores and weights in FP32; or, if it is meant so, declare it: "
                          "--intermediate-dtype ",
                          Name(format)),
                      std::move(test)});
  return suspects;
}

}  // namespace assay::kernels
