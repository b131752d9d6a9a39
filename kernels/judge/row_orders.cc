#include "kernels/judge/row_orders.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/judge/pieces.h"
#include "kernels/judge/summation_orders.h"
#include "kernels/ops/common/row_addends.h"
#include "kernels/ops/products.h"

namespace assay::inline kernels {
namespace {

// Rows that are summed at most, and their addends together.
constexpr std::int64_t kMostRows = 256, kLeastRows = 8, kAddends = std::int64_t{1} << 20;

// Sums of products, one for each row.
class RowSums {
 public:
  explicit RowSums(std::int64_t terms) {
    sums_.format = DType::kF32;
    sums_.terms = terms;
  }

  void Add(const std::vector<double>& left, const std::vector<double>& right) {
    const auto row = static_cast<std::int64_t>(sums_.elements.size());
    sums_.left.values.insert(sums_.left.values.end(), left.begin(), left.end());
    sums_.right.values.insert(sums_.right.values.end(), right.begin(), right.end());
    sums_.elements.push_back({row, row, 1.0});
  }
  double Factor() const {
    return sums_.elements.empty() ? 1.0 : EmulateOrders(sums_, DType::kF32).factor;
  }

 private:
  SampledProducts sums_;
};

}  // namespace

absl::StatusOr<double> RowOrderFactor(const PrecisionSubject& s) {
  const Extents& x = s.plan.output.extents;
  const std::int64_t n = x.cols, rows = x.batch * x.rows;
  if (n == 0 || rows == 0) return 1.0;
  const std::int64_t count = std::min(rows, std::clamp(kAddends / n, kLeastRows, kMostRows));
  const RowAddends addends = RowAddendsOf(s.c);
  const std::vector<double> ones(static_cast<std::size_t>(n), 1.0);
  std::vector<double> row(static_cast<std::size_t>(n));
  RowSums plain(n), squares(n);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t begin = i * rows / count * n;
    if (addends.exponentials) {
      const TensorView right = DoublesView(s.reference.value, x.count());
      if (absl::Status status = ReadValues(s.device, right, begin, n, row); !status.ok()) {
        return status;
      }
      // exp(x − m), as a softmax sums it.
      const double largest = *std::max_element(row.begin(), row.end());
      for (double& v : row) v /= largest;
      plain.Add(row, ones);
      continue;
    }
    s.inputs.Read(0, begin, n, row.data());
    if (addends.elements) {
      plain.Add(row, ones);
      double mean = 0;
      for (const double v : row) mean += v / static_cast<double>(n);
      for (double& v : row) v -= mean;
    }
    squares.Add(row, row);
  }
  return std::max(plain.Factor(), squares.Factor());
}

}  // namespace assay::kernels
