#include "kernels/ops/softmax/softmax_identities.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>

#include "kernels/numerics/bound.h"
#include "kernels/numerics/cat.h"
#include "kernels/ops/common/load.h"
#include "kernels/ops/common/planning.h"
#include "kernels/ops/common/probe_data.h"
#include "kernels/ops/softmax/problem.h"
#include "kernels/ops/softmax/softmax_bound.h"
#include "kernels/runtime/cpu/parallel.h"

namespace assay {
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
  return Cat("row ", row, " sums to ", Shortest(sum), ", not to 1 ± ", Shortest(bound));
}

std::string RangeMessage(std::int64_t row, std::int64_t col, double y) {
  return Cat("[", row, ",", col, "] is ", Shortest(y), ", not from 0 to 1");
}

std::vector<Identity> CheckSoftmaxRows(const Case& c, const Plan& plan,
                                       std::span<const TensorView> inputs, const TensorView& output,
                                       const ReferenceBuffers& reference) {
  const auto& p = std::get<SoftmaxProblem>(c.problem);
  const Arithmetic arithmetic = ArithmeticOf(c.dtype);
  const OutputRounding rounding = OutputRoundingOf(output.dtype, plan.flushes_subnormals);
  Identity range{.name = "range"}, sums{.name = "row-sums"};
  std::int64_t first_range = std::numeric_limits<std::int64_t>::max(), first_sum = first_range;
  std::mutex mutex;
  constexpr std::int64_t kGrain = 1 << 12;  // elements
  ParallelFor(
      p.rows, std::max<std::int64_t>(1, kGrain / p.cols),
      [&](std::int64_t begin, std::int64_t end) {
        const std::size_t cols = static_cast<std::size_t>(p.cols);
        std::vector<double> x(cols), y(cols);
        std::int64_t rows = 0;
        for (std::int64_t row = begin; row < end; ++row) {
          const double* r = reference.value + row * p.cols;
          const double* e = reference.allowance + row * p.cols;
          LoadDoubles(c.dtype, inputs[0].data, row * inputs[0].extents.ld, p.cols, x.data());
          LoadDoubles(output.dtype, output.data, row * output.extents.ld, p.cols, y.data());
          const double max = *std::max_element(x.begin(), x.end());
          double sum = 0, spread = 0, total = 0;
          for (std::size_t i = 0; i < cols; ++i) {
            sum += y[i];
            total += r[i];
            spread += SoftmaxSpread(r[i], x[i], max);
          }
          if (std::isnan(total)) continue;
          ++rows;
          const double bound =
              SoftmaxSumBound(arithmetic, rounding, plan.intermediate_roundoff, p.cols, spread);
          if (!(std::abs(sum - 1) <= bound)) {
            const std::lock_guard<std::mutex> lock(mutex);
            Note(sums, first_sum, row, RowSumMessage(row, sum, bound));
          }
          for (std::size_t i = 0; i < cols; ++i) {
            if (y[i] >= 0 && y[i] <= 1) continue;
            if (y[i] >= 0 && y[i] <= 1 + TBound(rounding, r[i], e[i])) continue;
            const std::lock_guard<std::mutex> lock(mutex);
            const std::int64_t at = row * p.cols + static_cast<std::int64_t>(i);
            Note(range, first_range, at, RangeMessage(row, static_cast<std::int64_t>(i), y[i]));
          }
        }
        const std::lock_guard<std::mutex> lock(mutex);
        sums.count += rows;
        range.count += rows * p.cols;
      });
  return {range, sums};
}

std::vector<KernelProbe> SoftmaxProbes(const Case& c) {
  constexpr double kSpread = 8;
  // The largest power of two below which every integer is one of the format's, at most
  // what exp overflows at with room to spare.
  const double integers = 2 / Info(c.dtype).machine_epsilon;
  const double shift = std::min(c.dtype == DType::kF64 ? 1000.0 : 120.0, integers - kSpread);
  const Pattern data = {PatternKind::kIntegers, shift - kSpread, shift + kSpread};
  return {{"shift", ProbeCase(c, c.problem, ToString(data), /*exact=*/false)}};
}

}  // namespace assay
