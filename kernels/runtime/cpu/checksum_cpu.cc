#include "kernels/runtime/cpu/checksum_cpu.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/numerics/convert.h"
#include "kernels/numerics/poison.h"
#include "kernels/runtime/cpu/checksum_simd.h"
#include "kernels/runtime/cpu/parallel.h"

namespace assay::inline kernels {
namespace {

using internal::ChecksumPanel;
using internal::kChecksumPanel;
using internal::kChecksumTile;
using internal::kProbeGroup;

// A pass over fewer elements is not worth a second thread.
constexpr std::int64_t kGrain = 64 << 10;

std::size_t Size(std::int64_t n) { return static_cast<std::size_t>(n); }

// One thread's sums along the columns of one matrix, padded to whole tiles.
struct ColumnSums {
  std::int64_t batch = 0;
  std::vector<double> products, absolute, squares;
};

// Counts of the non-finite elements of one row.
struct RowCounts {
  std::int64_t nan = 0, inf = 0, unwritten = 0;
  std::int64_t first_nan = -1, first_inf = -1, first_unwritten = -1;  // columns
};

class Pass {
 public:
  explicit Pass(const ChecksumRequest& request)
      : r_(request),
        x_(request.matrix.extents),
        probes_(std::int64_t{request.probes + kProbeGroup - 1} / kProbeGroup * kProbeGroup),
        padded_((x_.cols + kChecksumTile - 1) / kChecksumTile * kChecksumTile) {}

  ChecksumSums Run() {
    Reserve();
    const std::int64_t panels = (x_.rows + kChecksumPanel - 1) / kChecksumPanel;
    const std::int64_t panel = std::min(kChecksumPanel, x_.rows) * x_.cols;
    if (r_.right.batch_stride == 0) right_ = Tiled(r_.right, 0, r_.probes, probes_);
    if (r_.row_weights.batch_stride == 0) row_weights_ = Tiled(r_.row_weights, 0, 1, 1);
    ParallelFor(x_.batch * panels,
                std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(1, panel)),
                [&](std::int64_t begin, std::int64_t end) {
                  while (begin < end) {
                    const std::int64_t batch = begin / panels;
                    const std::int64_t last = std::min(end, (batch + 1) * panels);
                    Panels(batch, begin - batch * panels, last - batch * panels);
                    begin = last;
                  }
                });
    Reduce();
    if (r_.counts) Classes();
    return std::move(out_);
  }

 private:
  void Reserve() {
    const auto rows = x_.batch * x_.rows, cols = x_.batch * x_.cols;
    if (r_.right.data != nullptr) out_.row_products.resize(Size(rows * r_.probes));
    if (r_.left.data != nullptr) out_.col_products.resize(Size(cols * r_.probes));
    if (r_.row_weights.data != nullptr) out_.row_absolute.resize(Size(rows));
    if (r_.col_weights.data != nullptr) out_.col_absolute.resize(Size(cols));
    if (r_.squares) {
      out_.row_squares.resize(Size(rows));
      out_.col_squares.resize(Size(cols));
    }
  }

  // Copies a matrix's vectors along columns into tiles, as ChecksumPanel needs them.
  std::vector<double> Tiled(const ProbeVectors& v, std::int64_t batch, std::int64_t count,
                            std::int64_t room) const {
    if (v.data == nullptr) return {};
    std::vector<double> out(Size(room * padded_));
    const double* from = v.data + batch * v.batch_stride;
    for (std::int64_t p = 0; p < count; ++p) {
      for (std::int64_t col = 0; col < x_.cols; col += kChecksumTile) {
        std::copy_n(from + p * x_.cols + col, std::min(kChecksumTile, x_.cols - col),
                    out.data() + col * room + p * kChecksumTile);
      }
    }
    return out;
  }

  // Computes panels [begin, end) of one matrix on one thread.
  void Panels(std::int64_t batch, std::int64_t begin, std::int64_t end) {
    const auto or_null = [](std::vector<double>& v) { return v.empty() ? nullptr : v.data(); };
    std::vector<double> right = r_.right.batch_stride == 0
                                    ? std::vector<double>{}
                                    : Tiled(r_.right, batch, r_.probes, probes_);
    std::vector<double> weights = r_.row_weights.batch_stride == 0
                                      ? std::vector<double>{}
                                      : Tiled(r_.row_weights, batch, 1, 1);
    ColumnSums sums;
    sums.batch = batch;
    if (r_.left.data != nullptr) sums.products.resize(Size(probes_ * padded_));
    if (r_.col_weights.data != nullptr) sums.absolute.resize(Size(padded_));
    if (r_.squares) sums.squares.resize(Size(padded_));
    // There is room for the probes that fill up the last group.
    std::vector<double> left, products;
    if (r_.left.data != nullptr) left.resize(Size(probes_ * kChecksumPanel));
    if (r_.right.data != nullptr) products.resize(Size(probes_ * kChecksumPanel));

    ChecksumPanel p;
    p.dtype = r_.matrix.dtype;
    p.data = r_.matrix.data;
    p.ld = x_.ld;
    p.cols = x_.cols;
    p.probes = r_.right.data == nullptr && r_.left.data == nullptr ? 0 : static_cast<int>(probes_);
    p.right = right.empty() ? or_null(right_) : right.data();
    p.row_weights = weights.empty() ? or_null(row_weights_) : weights.data();
    p.left = or_null(left);
    p.left_stride = kChecksumPanel;
    p.squares = r_.squares;
    p.counts = r_.counts;
    p.row_products = or_null(products);
    p.row_stride = kChecksumPanel;
    p.col_products = or_null(sums.products);
    p.col_absolute = or_null(sums.absolute);
    p.col_squares = or_null(sums.squares);
    std::int64_t zeros = 0;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t row = i * kChecksumPanel;
      const std::int64_t at = batch * x_.rows + row;  // of all matrices' rows
      p.offset = batch * x_.batch_stride + row * x_.ld;
      p.rows = std::min(kChecksumPanel, x_.rows - row);
      for (std::int64_t k = 0; r_.left.data != nullptr && k < r_.probes; ++k) {
        std::copy_n(r_.left.data + batch * r_.left.batch_stride + k * x_.rows + row, p.rows,
                    left.data() + k * kChecksumPanel);
      }
      if (r_.col_weights.data != nullptr) {
        p.col_weights = r_.col_weights.data + batch * r_.col_weights.batch_stride + row;
      }
      if (r_.row_weights.data != nullptr) p.row_absolute = out_.row_absolute.data() + at;
      if (r_.squares) p.row_squares = out_.row_squares.data() + at;
      zeros += internal::AddChecksumPanel(p);
      for (std::int64_t k = 0; r_.right.data != nullptr && k < r_.probes; ++k) {
        std::copy_n(products.data() + k * kChecksumPanel, p.rows,
                    out_.row_products.data() + (batch * r_.probes + k) * x_.rows + row);
      }
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    out_.zero_count += zeros;
    parts_.emplace_back(batch * x_.rows + begin, std::move(sums));
  }

  // Adds the threads' column sums in the order of their rows.
  void Reduce() {
    std::sort(parts_.begin(), parts_.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& place_and_sums : parts_) {
      const auto& part = place_and_sums.second;
      const auto add = [&](const std::vector<double>& from, std::int64_t count, std::int64_t room,
                           std::vector<double>& to) {
        for (std::int64_t p = 0; !from.empty() && p < count; ++p) {
          double* sum = to.data() + (part.batch * count + p) * x_.cols;
          for (std::int64_t col = 0; col < x_.cols; col += kChecksumTile) {
            const double* tile = from.data() + col * room + p * kChecksumTile;
            const std::int64_t n = std::min(kChecksumTile, x_.cols - col);
            for (std::int64_t j = 0; j < n; ++j) sum[col + j] += tile[j];
          }
        }
      };
      add(part.products, r_.probes, probes_, out_.col_products);
      add(part.absolute, 1, 1, out_.col_absolute);
      add(part.squares, 1, 1, out_.col_squares);
    }
  }

  // Counts the elements of rows whose sum of squares is not finite, one by one.
  void Classes() {
    std::vector<std::int64_t> rows;
    for (std::int64_t i = 0; i < x_.batch * x_.rows; ++i) {
      if (!std::isfinite(out_.row_squares[Size(i)])) rows.push_back(i);
    }
    std::vector<RowCounts> counts(rows.size());
    ParallelFor(static_cast<std::int64_t>(rows.size()), 1,
                [&](std::int64_t begin, std::int64_t end) {
                  for (std::int64_t i = begin; i < end; ++i)
                    counts[Size(i)] = CountRow(rows[Size(i)]);
                });
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const RowCounts& c = counts[i];
      const auto first = [&](std::int64_t column, std::int64_t& to) {
        if (column >= 0 && to < 0) to = rows[i] * x_.cols + column;
      };
      out_.nan_count += c.nan;
      out_.inf_count += c.inf;
      out_.unwritten += c.unwritten;
      first(c.first_nan, out_.first_nan);
      first(c.first_inf, out_.first_inf);
      first(c.first_unwritten, out_.first_unwritten);
    }
  }

  RowCounts CountRow(std::int64_t row) const {
    const DType t = r_.matrix.dtype;
    const std::int64_t at = row / x_.rows * x_.batch_stride + row % x_.rows * x_.ld;
    RowCounts c;
    for (std::int64_t j = 0; j < x_.cols; ++j) {
      const std::uint64_t bits = LoadBits(t, r_.matrix.data, at + j);
      const double value = ToDouble(t, bits);
      if (std::isfinite(value)) continue;
      const bool poison = HasPoisonPayload(t) && bits == PoisonBits(t, Poison::kFirst);
      if (std::isnan(value)) ++c.nan;
      if (std::isinf(value)) ++c.inf;
      if (poison) ++c.unwritten;
      std::int64_t& first = poison              ? c.first_unwritten
                            : std::isnan(value) ? c.first_nan
                                                : c.first_inf;
      if (first < 0) first = j;
    }
    return c;
  }

  const ChecksumRequest& r_;
  const Extents& x_;
  const std::int64_t probes_;  // rounded up to whole groups
  const std::int64_t padded_;
  std::vector<double> right_, row_weights_;  // shared by all matrices
  ChecksumSums out_;
  std::mutex mutex_;
  std::vector<std::pair<std::int64_t, ColumnSums>> parts_;
};

}  // namespace

absl::StatusOr<ChecksumSums> ChecksumCpu(const ChecksumRequest& request) {
  if (request.probes < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("checksum: probes is ", request.probes, "; it must be at least 0"));
  }
  if (request.counts && !request.squares) {
    return absl::InvalidArgumentError("checksum: counts is set without squares; set squares, too");
  }
  if (request.matrix.count() == 0) {
    return absl::InvalidArgumentError("checksum: the matrix has no elements; at least 1 is needed");
  }
  return Pass(request).Run();
}

}  // namespace assay::kernels
