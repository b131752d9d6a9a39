#include "kernels/checksum/checksum_probes.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/numerics/philox.h"

namespace assay::inline kernels {
namespace {

using Vector = std::vector<double>;

Vector Roots(Vector v) {
  for (double& x : v) x = std::sqrt(x);
  return v;
}

ProbeVectors Vectors(const Vector* v, std::int64_t one) {
  if (v == nullptr) return {};
  return {v->data(), static_cast<std::int64_t>(v->size()) > one ? one : 0};
}

}  // namespace

Vector RandomSigns(std::uint64_t seed, std::uint32_t stream, int probes, std::int64_t n) {
  Vector v;
  v.reserve(static_cast<std::size_t>(probes * n));
  for (int p = 0; p < probes; ++p) {
    std::uint32_t bits = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      if (i % 32 == 0) {
        bits = PhiloxWord(seed, stream + static_cast<std::uint32_t>(p), /*epoch=*/0, i / 32);
      }
      v.push_back((bits >> (i % 32) & 1) != 0 ? 1.0 : -1.0);
    }
  }
  return v;
}

absl::StatusOr<ChecksumSums> ProbedMatrices::Pass(const ChecksumAsked& asked) const {
  ChecksumRequest r;
  r.matrix = view_;
  r.probes = asked.right == nullptr && asked.left == nullptr ? 0 : probes_;
  const std::int64_t rows = view_.extents.rows, cols = view_.extents.cols;
  r.right = Vectors(transposed_ ? asked.left : asked.right, probes_ * cols);
  r.left = Vectors(transposed_ ? asked.right : asked.left, probes_ * rows);
  r.row_weights = Vectors(transposed_ ? asked.col_weights : asked.row_weights, cols);
  r.col_weights = Vectors(transposed_ ? asked.row_weights : asked.col_weights, rows);
  r.squares = asked.squares;
  r.counts = asked.counts;
  absl::StatusOr<ChecksumSums> sums = device_.Checksum(r);
  if (sums.ok() && transposed_) {
    std::swap(sums->row_products, sums->col_products);
    std::swap(sums->row_absolute, sums->col_absolute);
    std::swap(sums->row_squares, sums->col_squares);
  }
  return sums;
}

absl::StatusOr<ProbedProduct> ProbeProduct(const ProbedMatrices& a, const ProbedMatrices& b,
                                           const Vector& x, const Vector& w) {
  ChecksumSums from_a, from_b, last;
  absl::Status status;
  const auto pass = [&](const ProbedMatrices& m, const ChecksumAsked& asked, ChecksumSums& sums) {
    if (!status.ok()) return;
    absl::StatusOr<ChecksumSums> got = m.Pass(asked);
    if (!got.ok()) {
      status = got.status();
    } else {
      sums = *std::move(got);
    }
  };
  ProbedProduct out;
  if (a.bytes() >= b.bytes()) {
    pass(b, {.right = &x, .squares = true}, from_b);
    const Vector norms_b = Roots(from_b.row_squares);
    pass(a, {.right = &from_b.row_products, .left = &w, .row_weights = &norms_b, .squares = true},
         from_a);
    const Vector norms_a = Roots(from_a.col_squares);
    pass(b, {.left = &from_a.col_products, .col_weights = &norms_a}, last);
    out.rows = std::move(from_a.row_products);
    out.row_norm = std::move(from_a.row_absolute);
    out.columns = std::move(last.col_products);
    out.col_norm = std::move(last.col_absolute);
  } else {
    pass(a, {.left = &w, .squares = true}, from_a);
    const Vector norms_a = Roots(from_a.col_squares);
    pass(b, {.right = &x, .left = &from_a.col_products, .col_weights = &norms_a, .squares = true},
         from_b);
    const Vector norms_b = Roots(from_b.row_squares);
    pass(a, {.right = &from_b.row_products, .row_weights = &norms_b}, last);
    out.columns = std::move(from_b.col_products);
    out.col_norm = std::move(from_b.col_absolute);
    out.rows = std::move(last.row_products);
    out.row_norm = std::move(last.row_absolute);
  }
  if (!status.ok()) return status;
  out.finite = AllFinite(from_a.row_squares) && AllFinite(from_b.row_squares);
  out.largest = std::sqrt(Largest(from_a.row_squares)) * std::sqrt(Largest(from_b.col_squares));
  return out;
}

bool AllFinite(const Vector& v) {
  return std::all_of(v.begin(), v.end(), [](double x) { return std::isfinite(x); });
}

double Largest(const Vector& v) { return v.empty() ? 0.0 : *std::max_element(v.begin(), v.end()); }

}  // namespace assay::kernels
