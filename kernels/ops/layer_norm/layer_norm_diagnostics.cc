// What layer_norm knows of wrong results of its kernels.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <set>
#include <utility>
#include <variant>

#include "absl/strings/str_format.h"
#include "kernels/ops/case.h"
#include "kernels/ops/common/diagnosing.h"
#include "kernels/ops/common/row_suspects.h"
#include "kernels/ops/diagnostics.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

// If the mean is so much larger than the spread, fp32 keeps fewer than half of its digits
// for E[x²] − E[x]².
constexpr double kCancelling = 0x1p12;

struct Moments {
  double mean = 0;
  double variance = 0;
};

Moments TwoPass(const std::vector<double>& row, bool rms) {
  const auto n = static_cast<double>(row.size());
  Moments m;
  if (!rms) {
    for (const double v : row) m.mean += v / n;
  }
  for (const double v : row) m.variance += (v - m.mean) * (v - m.mean) / n;
  return m;
}

// The sums end `left_out` columns early and are divided by all.
Moments Short(const std::vector<double>& row, bool rms, std::int64_t left_out) {
  const auto n = static_cast<double>(row.size());
  const auto end = row.end() - left_out;
  Moments m;
  if (!rms) m.mean = std::accumulate(row.begin(), end, 0.0) / n;
  for (auto x = row.begin(); x != end; ++x) m.variance += (*x - m.mean) * (*x - m.mean) / n;
  return m;
}

// E[x²] − E[x]² in fp32, term after term.
Moments OnePass(const std::vector<double>& row) {
  float sum = 0;
  float squares = 0;
  for (const double v : row) {
    const auto x = static_cast<float>(v);
    sum += x;
    squares += x * x;
  }
  const auto n = static_cast<float>(row.size());
  const float mean = sum / n;
  return {static_cast<double>(mean), static_cast<double>(squares / n - mean * mean)};
}

// A layer norm from moments; weight and bias are those of the case.
Simulate Normalised(const Scene& scene, std::function<Moments(const std::vector<double>&)> moments,
                    double eps, bool weighted = true, bool biased = true) {
  const auto& p = std::get<LayerNormProblem>(scene.c.problem);
  return [&scene, &p, moments = std::move(moments), eps, weighted, biased](
             const std::vector<double>& row, std::size_t at) {
    const Moments m = moments(row);
    double y = (row[at] - m.mean) / std::sqrt(m.variance + eps);
    if (!p.affine) return y;
    double parameter = 0;
    if (weighted) {
      scene.inputs.Read(1, static_cast<std::int64_t>(at), 1, &parameter);
      y *= parameter;
    }
    if (biased && !p.rms) {
      scene.inputs.Read(2, static_cast<std::int64_t>(at), 1, &parameter);
      y += parameter;
    }
    return y;
  };
}

// The last columns are left out of a row's sums: those behind the last whole tile, or the last
// tile.
void AddTails(const Scene& scene, std::vector<Suspect>& suspects) {
  const auto& p = std::get<LayerNormProblem>(scene.c.problem);
  std::set<std::int64_t> tails;
  for (const std::int64_t tile : {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}) {
    const std::int64_t tail = p.cols % tile == 0 ? tile : p.cols % tile;
    if (tail < p.cols) tails.insert(tail);
  }
  for (const std::int64_t tail : tails) {
    const auto moments = [&p, tail](const std::vector<double>& row) {
      return Short(row, p.rms, tail);
    };
    suspects.push_back(
        Simulated(scene, Normalised(scene, moments, p.eps),
                  Cat("the last ", tail == 1 ? "column is" : Cat(tail, " columns are"),
                      " left out of ", p.rms ? "the sum of squares" : "the row's sums"),
                  "have every loop over a row end behind its last column: look at its remainder"));
  }
}

// The eps with which the elements come out as they did: the median of what each says. 0: none.
double EpsBehind(const Scene& scene, std::span<const WrongElement> elements) {
  const auto& p = std::get<LayerNormProblem>(scene.c.problem);
  const auto moments = [&p](const std::vector<double>& row) { return TwoPass(row, p.rms); };
  const Simulate normalised = Normalised(scene, moments, p.eps);
  std::vector<double> found;
  for (const WrongElement& e : elements) {
    const std::vector<double> row = InputRow(scene, e.index);
    const std::int64_t column = e.index % p.cols;
    double bias = 0;
    if (p.affine && !p.rms) scene.inputs.Read(2, column, 1, &bias);
    const double ratio =
        (normalised(row, static_cast<std::size_t>(column)) - bias) / (e.actual - bias);
    const double variance = TwoPass(row, p.rms).variance;
    const double eps = (variance + p.eps) * ratio * ratio - variance;
    if (std::isfinite(eps)) found.push_back(eps);
  }
  if (found.empty()) return 0;
  const auto middle = found.begin() + static_cast<std::ptrdiff_t>(found.size() / 2);
  std::nth_element(found.begin(), middle, found.end());
  return *middle;
}

// Whether all elements are within their bounds if they are only too large by one factor.
bool AreScaled(std::span<const WrongElement> elements) {
  double products = 0, squares = 0;
  for (const WrongElement& e : elements) {
    products += e.actual * e.expected;
    squares += e.expected * e.expected;
  }
  const double factor = products / squares;
  return std::all_of(elements.begin(), elements.end(), [factor](const WrongElement& e) {
    return std::abs(e.actual - factor * e.expected) <= e.bound;
  });
}

// Another eps than the case's, of two digits at most, with which all elements come out alike.
Suspect OtherEps(const Scene& scene) {
  auto test = [&scene](std::span<const WrongElement> elements) -> std::optional<Proof> {
    const auto& p = std::get<LayerNormProblem>(scene.c.problem);
    const double eps = std::strtod(Digits(EpsBehind(scene, elements), 2).c_str(), nullptr);
    // Of long rows, all variances are nearly the same: then it may be any factor.
    if (!(eps > 0) || eps == p.eps || AreScaled(elements)) return std::nullopt;
    const auto moments = [&p](const std::vector<double>& row) { return TwoPass(row, p.rms); };
    std::optional<Proof> proof =
        Simulated(scene, Normalised(scene, moments, eps), "", "").test(elements);
    if (proof.has_value()) {
      proof->reads_as = Cat("eps is ", Shortest(eps), ", and the case says ", Shortest(p.eps));
    }
    return proof;
  };
  return {"", "give the kernel the case's eps, or the case the kernel's", std::move(test)};
}

// What is usually wrong with the moments of a row.
std::vector<Suspect> LayerNormSuspects(const Scene& scene) {
  const auto& p = std::get<LayerNormProblem>(scene.c.problem);
  std::vector<Suspect> suspects;
  const auto two_pass = [&p](const std::vector<double>& row) { return TwoPass(row, p.rms); };
  const auto add = [&](Simulate simulate, std::string reads_as, std::string next_step) {
    suspects.push_back(
        Simulated(scene, std::move(simulate), std::move(reads_as), std::move(next_step)));
  };
  if (p.affine) {
    add(Normalised(scene, two_pass, p.eps, false, true), "the weight is left out",
        "multiply column j by weight[j]");
    if (!p.rms) {
      add(Normalised(scene, two_pass, p.eps, true, false), "the bias is left out",
          "add bias[j] to column j");
    }
  }
  add(Normalised(scene, two_pass, 0.0), "eps is left out",
      "add eps to the variance, in FP32, before the reciprocal square root");
  add(Normalised(
          scene,
          [&p](const std::vector<double>& row) {
            Moments m = TwoPass(row, p.rms);
            const auto n = static_cast<double>(row.size());
            if (n > 1) m.variance *= n / (n - 1);
            return m;
          },
          p.eps),
      "the variance is divided by n - 1, not by n", "divide by the number of columns");
  if (!p.rms) {
    add(Normalised(
            scene, [](const std::vector<double>& row) { return TwoPass(row, true); }, p.eps),
        "the mean is not subtracted", "subtract the row's mean before the squares are summed");
    add(Normalised(
            scene, [](const std::vector<double>& row) { return OnePass(row); }, p.eps),
        "the variance is taken in one pass, as E[x²] - E[x]²: with a mean far from 0 both are "
        "large, and their difference loses its digits",
        "sum (x - mean)² in a second pass, or by Welford's update");
  }
  AddTails(scene, suspects);
  suspects.push_back(OtherEps(scene));
  return suspects;
}

std::optional<Reading> VarianceCancels(const Signs& s) {
  // A mean of squares cannot come out below 0.
  const bool rms = std::get<LayerNormProblem>(s.c.problem).rms;
  if (!s.made_by_kernel || rms) return std::nullopt;
  const OperandStats& x = s.inputs.front();
  if (!x.mean || !x.rms) return std::nullopt;
  const double squared_mean = *x.mean * *x.mean;
  const double variance = std::max(0.0, *x.rms * *x.rms - squared_mean);
  const bool whole_rows = !s.axes.empty() && !s.axes.back().selective();
  const std::string rows = whole_rows ? " in whole rows" : "";
  const std::string got = UnexpectedKinds(s.compare);
  if (squared_mean > kCancelling * variance) {
    const std::string times =
        variance > 0 ? absl::StrFormat("%.2g times the variance", squared_mean / variance)
                     : "everything, for the rows are constant";
    return Reading{Cat(got, rows, " from finite inputs whose squared mean is ", times,
                       ": the variance came out as 0 or less"),
                   "sum (x - mean)² in a second pass or by Welford's update, in FP32, and add eps "
                   "before the reciprocal square root",
                   "variance-cancels"};
  }
  if (whole_rows) {
    return Reading{Cat(got,
                       " in whole rows from finite inputs: the reciprocal square root of a "
                       "variance of 0 or less"),
                   "add eps in FP32 before the reciprocal square root, and never subtract two "
                   "sums of squares",
                   "variance-cancels"};
  }
  return std::nullopt;
}

class OfLayerNorm final : public Diagnostics {
 public:
  std::optional<Reading> NonFinite(const Signs& signs) const override {
    return VarianceCancels(signs);
  }

  Reading RowFactor(const Case& c) const override {
    if (std::get<LayerNormProblem>(c.problem).rms) {
      return {": its mean of squares, or eps, is wrong",
              "sum x² over all columns in FP32, divide by their number, and add eps before the "
              "reciprocal square root"};
    }
    return {": its variance is wrong",
            "sum (x - mean)² in FP32, in a second pass or by Welford's update"};
  }

  std::optional<Reading> FailedProbe(std::string_view name, const ElementSample*) const override {
    if (name == "large-mean") {
      return Reading{
          "the variance loses its digits on rows whose mean is large against their deviation "
          "(large-mean), as it does in one pass, as E[x²] - E[x]²",
          "sum (x - mean)² in a second pass, or by Welford's update, in FP32"};
    }
    if (name == "large") {
      return Reading{
          "rows of large elements come out wrong (large): elements are limited, or their squares "
          "overflow",
          "take the elements as they are, and sum their squares in FP32"};
    }
    if (name == "small-variance") {
      return Reading{
          "rows whose variance is near eps come out wrong (small-variance), and others right: eps "
          "is left out or is not the one asked for, or their squares underflow in 16 bits",
          "add eps to the variance, in FP32, before the reciprocal square root"};
    }
    if (name == "last-column") {
      return Reading{
          "rows come out wrong where only the last column is not 0 (last-column): it is left out "
          "of a row's sum",
          "have every loop over a row end behind its last column"};
    }
    return std::nullopt;
  }

  std::vector<Suspect> Suspects(const Scene& scene) const override {
    return LayerNormSuspects(scene);
  }

  std::int64_t ReadFor(const Case&, const Plan& plan, std::int64_t elements) const override {
    return plan.output.extents.cols * elements;
  }
};

}  // namespace

const Diagnostics& LayerNormDiagnostics() {
  static const OfLayerNorm diagnostics;
  return diagnostics;
}

}  // namespace assay::kernels
