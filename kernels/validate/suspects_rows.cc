// What is usually wrong with softmax and layer norm: the sums of a row.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>
#include <variant>

#include "kernels/numerics/cat.h"
#include "kernels/numerics/convert.h"
#include "kernels/validate/suspects.h"

namespace assay {
namespace {

// The share of a row's errors that a simulation may leave, for the kernel rounds otherwise.
// Another fault of a sum makes errors of the same sign and of a near size by chance.
constexpr double kLeft = 0.05;

// Whether the simulated errors of each row are those seen, but for the share above.
std::optional<Proof> Explains(std::span<const WrongElement> elements, std::span<const double> value,
                              std::int64_t cols) {
  struct Squares {
    double seen = 0, left = 0;
  };
  std::map<std::int64_t, Squares> rows;
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const WrongElement& e = elements[i];
    if (!std::isfinite(value[i]) || e.expected == 0.0) return std::nullopt;
    // Relative, so that small elements count.
    const double error = (e.actual - e.expected) / e.expected;
    const double rest = (e.actual - value[i]) / e.expected;
    Squares& row = rows[e.index / cols];
    row.seen += error * error;
    row.left += rest * rest;
  }
  for (const auto& [at, row] : rows) {
    if (!(row.left <= kLeft * kLeft * row.seen)) return std::nullopt;
  }
  return Proof{Cat("simulated so, ", elements.size(), " sampled elements come out alike"), "",
               false};
}

// The input row of an element.
std::vector<double> RowOf(const Scene& scene, std::int64_t index) {
  const std::int64_t cols = scene.plan.output.extents.cols;
  std::vector<double> x(static_cast<std::size_t>(cols));
  scene.inputs.Read(0, index / cols * cols, cols, x.data());
  return x;
}

using Simulate = std::function<double(const std::vector<double>& row, std::size_t at)>;

Suspect Simulated(const Scene& scene, Simulate simulate, std::string reads_as,
                  std::string next_step) {
  auto test = [&scene, simulate = std::move(simulate)](
                  std::span<const WrongElement> elements) -> std::optional<Proof> {
    const std::int64_t cols = scene.plan.output.extents.cols;
    std::vector<double> value;
    for (const WrongElement& e : elements) {
      const std::vector<double> row = RowOf(scene, e.index);
      value.push_back(Quantise(simulate(row, static_cast<std::size_t>(e.index % cols)),
                               scene.plan.output.dtype));
    }
    return Explains(elements, value, cols);
  };
  return {std::move(reads_as), std::move(next_step), std::move(test)};
}

double Largest(const std::vector<double>& row) { return *std::max_element(row.begin(), row.end()); }

// Exponentials of a row rounded to `terms`, their sum kept in `sum`.
Simulate NarrowSoftmax(DType terms, DType sum) {
  return [terms, sum](const std::vector<double>& row, std::size_t at) {
    const double max = Largest(row);
    double total = 0;
    for (const double v : row) total = Quantise(total + Quantise(std::exp(v - max), terms), sum);
    return Quantise(std::exp(row[at] - max), terms) / total;
  };
}

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

}  // namespace

std::vector<Suspect> SoftmaxSuspects(const Scene& scene) {
  std::vector<Suspect> suspects;
  const std::string sum_in_32 =
      "keep the row's sum in FP32 and round the quotient once, at the end";
  // From coarse to fine: what a coarse sum explains a finer one does not.
  for (const DType format : {DType::kBF16, DType::kF16}) {
    suspects.push_back(Simulated(scene, NarrowSoftmax(DType::kF32, format),
                                 Cat("the sum of a row's exponentials is kept in ", Name(format),
                                     ": terms below half of its last place are lost"),
                                 sum_in_32));
    suspects.push_back(Simulated(
        scene, NarrowSoftmax(format, DType::kF32),
        Cat("the exponentials are held in ", Name(format),
            ": small ones lose their digits or become 0"),
        "keep the exponentials in FP32 until they are divided; where they must be stored in 16 "
        "bits, bf16 keeps small ones that fp16 does not"));
    suspects.push_back(Simulated(scene, NarrowSoftmax(format, format),
                                 Cat("exponentials and their sum are kept in ", Name(format)),
                                 sum_in_32));
  }
  return suspects;
}

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
  return suspects;
}

}  // namespace assay
