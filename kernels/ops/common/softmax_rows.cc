#include "kernels/ops/common/softmax_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>

#include "kernels/numerics/bound.h"
#include "kernels/ops/common/load.h"
#include "kernels/runtime/cpu/parallel.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

// A relation that is broken, the first in the order of the output.
void Note(Identity& identity, std::int64_t& first, std::int64_t at, std::string message) {
  ++identity.broken;
  if (at >= first) return;
  first = at;
  identity.message = std::move(message);
}

}  // namespace

std::string RowSumMessage(std::int64_t row, double sum, double bound) {
  return Cat("row ", row, " sums to ", ToldApart(sum, 1).first, ", not to 1 ± ", Digits(bound, 3));
}

std::string RangeMessage(std::int64_t row, std::int64_t col, double y) {
  return Cat("[", row, ",", col, "] is ", Shortest(y), ", not from 0 to 1");
}

std::vector<Identity> CheckRowsOfSoftmax(const TensorView& output, const OutputRounding& rounding,
                                         const ReferenceBuffers& reference,
                                         absl::FunctionRef<double(std::int64_t row)> sum_bound) {
  const std::int64_t rows = output.extents.rows, cols = output.extents.cols;
  Identity range{.name = "range"}, sums{.name = "row-sums"};
  std::int64_t first_range = std::numeric_limits<std::int64_t>::max(), first_sum = first_range;
  std::mutex mutex;
  constexpr std::int64_t kGrain = 1 << 12;  // elements
  ParallelFor(rows, std::max<std::int64_t>(1, kGrain / cols),
              [&](std::int64_t begin, std::int64_t end) {
                const std::size_t width = static_cast<std::size_t>(cols);
                std::vector<double> y(width);
                std::int64_t finite = 0;
                for (std::int64_t row = begin; row < end; ++row) {
                  const double* r = reference.value + row * cols;
                  const double* e = reference.allowance + row * cols;
                  LoadDoubles(output.dtype, output.data, row * output.extents.ld, cols, y.data());
                  double sum = 0, total = 0;
                  for (std::size_t i = 0; i < width; ++i) {
                    sum += y[i];
                    total += r[i];
                  }
                  if (std::isnan(total)) continue;
                  ++finite;
                  const double bound = sum_bound(row);
                  if (!(std::abs(sum - 1) <= bound)) {
                    const std::lock_guard<std::mutex> lock(mutex);
                    Note(sums, first_sum, row, RowSumMessage(row, sum, bound));
                  }
                  for (std::size_t i = 0; i < width; ++i) {
                    if (y[i] >= 0 && y[i] <= 1) continue;
                    if (y[i] >= 0 && y[i] <= 1 + TBound(rounding, r[i], e[i])) continue;
                    const std::int64_t col = static_cast<std::int64_t>(i);
                    const std::lock_guard<std::mutex> lock(mutex);
                    Note(range, first_range, row * cols + col, RangeMessage(row, col, y[i]));
                  }
                }
                const std::lock_guard<std::mutex> lock(mutex);
                sums.count += finite;
                range.count += finite * cols;
              });
  return {range, sums};
}

}  // namespace assay::kernels
