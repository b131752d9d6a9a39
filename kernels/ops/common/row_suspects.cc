#include "kernels/ops/common/row_suspects.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "kernels/numerics/convert.h"
#include "kernels/ops/common/diagnosing.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

// The share of a row's errors that a simulation may leave, for the kernel rounds otherwise.
// Another fault of a sum makes errors of the same sign and of a near size by chance.
constexpr double kLeft = 0.05;

// Whether enough elements are off by a unit or more. Any small error that points the same way
// explains elements that are only rounded to the other side.
bool TellApart(std::span<const WrongElement> elements, DType format) {
  const auto far = std::count_if(elements.begin(), elements.end(), [format](const WrongElement& e) {
    return e.expected != 0.0 && std::abs(e.actual - e.expected) >= UnitAt(format, e.expected);
  });
  return static_cast<std::size_t>(far) >= kLeastTested;
}

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

}  // namespace

std::vector<double> InputRow(const Scene& scene, std::int64_t index) {
  const std::int64_t cols = scene.plan.output.extents.cols;
  std::vector<double> x(static_cast<std::size_t>(cols));
  scene.inputs.Read(0, index / cols * cols, cols, x.data());
  return x;
}

Suspect Simulated(const Scene& scene, Simulate simulate, std::string reads_as,
                  std::string next_step) {
  auto test = [&scene, simulate = std::move(simulate)](
                  std::span<const WrongElement> elements) -> std::optional<Proof> {
    const std::int64_t cols = scene.plan.output.extents.cols;
    if (!TellApart(elements, scene.plan.output.dtype)) return std::nullopt;
    std::vector<double> value;
    for (const WrongElement& e : elements) {
      const std::vector<double> row = InputRow(scene, e.index);
      value.push_back(Quantise(simulate(row, static_cast<std::size_t>(e.index % cols)),
                               scene.plan.output.dtype));
    }
    return Explains(elements, value, cols);
  };
  return {std::move(reads_as), std::move(next_step), std::move(test)};
}

}  // namespace assay::kernels
