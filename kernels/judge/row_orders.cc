#include "kernels/judge/row_orders.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/judge/pieces.h"
#include "kernels/judge/summation_orders.h"
#include "kernels/numerics/digest.h"
#include "kernels/ops/common/row_addends.h"
#include "kernels/ops/products.h"

namespace assay::inline kernels {
namespace {

// Rows that are summed at most, and their addends together, but for a single row: one is summed
// however long it is. That takes 136 bytes for each element of it, most of them in EmulateOrders.
constexpr std::int64_t kMostRows = 256, kAddends = std::int64_t{1} << 22;

// Sums of products, one for each row.
class RowSums {
 public:
  explicit RowSums(std::int64_t terms) {
    sums_.format = DType::kF32;
    sums_.terms = terms;
  }

  void AddAddends(const std::vector<double>& addends) {
    if (sums_.right.values.empty()) sums_.right.values.assign(addends.size(), 1.0);
    Add(addends, 0);
  }
  void AddSquares(const std::vector<double>& roots) {
    sums_.right.values.insert(sums_.right.values.end(), roots.begin(), roots.end());
    Add(roots, sums_.count());
  }
  double Factor() const {
    return sums_.elements.empty() ? 1.0 : EmulateOrders(sums_, DType::kF32).factor;
  }

 private:
  void Add(const std::vector<double>& left, std::int64_t right) {
    sums_.left.values.insert(sums_.left.values.end(), left.begin(), left.end());
    sums_.elements.push_back({sums_.count(), right, 1.0});
  }

  SampledProducts sums_;
};

// The sums that move the offset of a row and those that move its factor.
struct RowOrderSums {
  RowSums offset, gain;

  // Changes the row.
  void Add(const RowAddends& addends, std::vector<double>& row) {
    if (addends.exponentials) {
      // exp(x − m), as a softmax sums it.
      const double largest = *std::max_element(row.begin(), row.end());
      for (double& v : row) v /= largest;
      gain.AddAddends(row);
      return;
    }
    if (addends.elements) {
      offset.AddAddends(row);
      double mean = 0;
      for (const double v : row) mean += v / static_cast<double>(row.size());
      for (double& v : row) v -= mean;
    }
    gain.AddSquares(row);
  }
};

// The scale of the arguments that a softmax seems to have if it rounds x·log2(e): the fit e = s·D
// of softmax_deviation.h, with σ without what is common to a row.
class ScaleOfRounded {
 public:
  // r: the results of the row.
  void Add(const std::vector<double>& x, const std::vector<double>& r) {
    const double max = *std::max_element(x.begin(), x.end());
    const double top = Argument(max);
    double all = 0, weights = 0, center = 0;
    std::vector<double> weight(x.size()), y(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      y[i] = std::exp2(Argument(x[i]) - top);
      all += y[i];
      weight[i] = r[i] > 0 ? 1 / ((x[i] - max) * (x[i] - max) + x[i] * x[i] + 18) : 0.0;
      weights += weight[i];
      center += weight[i] * (x[i] - max);
    }
    if (!(weights > 0) || !std::isfinite(center)) return;
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (weight[i] == 0) continue;
      const double from = x[i] - max - center / weights;
      errors_ += weight[i] * (y[i] / all / r[i] - 1) * from;
      squares_ += weight[i] * from * from;
    }
  }
  double Scale() const {
    const double scale = squares_ > 0 ? std::abs(errors_ / squares_) : 0.0;
    return std::isfinite(scale) ? scale : 0.0;
  }

 private:
  static double Argument(double x) {
    constexpr float kLog2E = 1.44269504088896340736f;
    return static_cast<double>(static_cast<float>(x) * kLog2E);
  }

  double errors_ = 0, squares_ = 0;
};

// Whether the fit of a row's errors counts the row.
bool Counts(const RowAddends& addends, const std::vector<double>& row) {
  const double common = addends.elements ? row.front() : 0.0;
  return std::all_of(row.begin(), row.end(), [](double v) { return std::isfinite(v); }) &&
         std::any_of(row.begin(), row.end(), [&](double v) { return v != common; });
}

// The elements of a norm's row, or the results of a softmax.
absl::Status ReadRow(const PrecisionSubject& s, const RowAddends& addends, std::int64_t begin,
                     std::vector<double>& row) {
  const auto n = static_cast<std::int64_t>(row.size());
  if (addends.exponentials) {
    const TensorView right = DoublesView(s.reference.value, s.plan.output.extents.count());
    return ReadValues(s.device, right, begin, n, row);
  }
  s.inputs.Read(0, begin, n, row.data());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RowOrders> EmulateRowOrders(const PrecisionSubject& s) {
  const Extents& x = s.plan.output.extents;
  const std::int64_t n = x.cols, rows = x.batch * x.rows;
  if (n == 0 || rows == 0) return RowOrders();
  const std::int64_t count = std::min(rows, std::clamp<std::int64_t>(kAddends / n, 1, kMostRows));
  const RowAddends addends = RowAddendsOf(s.c);
  std::vector<double> row(static_cast<std::size_t>(n));
  RowOrderSums sums = {RowSums(n), RowSums(n)};
  std::vector<double> arguments(addends.arguments ? row.size() : 0);
  ScaleOfRounded scale;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t first = i * rows / count, behind = (i + 1) * rows / count;
    // The first row that counts, from a place that no period of the data shares: the last position
    // of each sequence may be padding.
    const std::int64_t places = behind - first;
    const auto shift = static_cast<std::int64_t>(
        DigestFinalise(static_cast<std::uint64_t>(i) * kDigestStep + kDigestStep) %
        static_cast<std::uint64_t>(places));
    for (std::int64_t turn = 0; turn < places; ++turn) {
      const std::int64_t at = first + (shift + turn) % places;
      if (absl::Status status = ReadRow(s, addends, at * n, row); !status.ok()) return status;
      if (!Counts(addends, row)) continue;
      if (addends.arguments) {
        s.inputs.Read(0, at * n, n, arguments.data());
        scale.Add(arguments, row);
      }
      sums.Add(addends, row);
      break;
    }
  }
  return RowOrders{
      .offset = sums.offset.Factor(), .gain = sums.gain.Factor(), .scale = scale.Scale()};
}

}  // namespace assay::kernels
