// Converts a strip's values to doubles once, in the first-level cache, and computes every sum from
// them. Probes are taken in groups whose row sums fit into registers.
#include "kernels/runtime/cpu/checksum_simd.h"

#include <algorithm>
#include <array>

#include "kernels/numerics/convert.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/runtime/cpu/checksum_simd.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/runtime/cpu/compare_lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace assay::inline kernels::internal {
namespace HWY_NAMESPACE {
namespace {

constexpr std::int64_t kStrip = kChecksumStrip;
constexpr std::int64_t kTile = kChecksumTile;
// Rows whose sums with a group of probes stay in registers.
constexpr int kRowsAtOnce = HWY_TARGET <= HWY_AVX3 ? 4 : 2;
constexpr std::int64_t kMaxLanes = 8;

// The row sums of one group for a strip, lane by lane: [probe][row].
struct StripSums {
  HWY_ALIGN double products[kProbeGroup * kStrip * kMaxLanes];
};
struct StripMagnitudes {
  HWY_ALIGN double absolute[kStrip * kMaxLanes];
  HWY_ALIGN double squares[kStrip * kMaxLanes];
};

// Computes a panel on one thread.
class Walk {
 public:
  explicit Walk(const ChecksumPanel& panel) : p_(panel) {
    const int width = Info(p_.dtype).storage_bits;
    if (width <= 8 && p_.dtype != DType::kI8) {
      for (std::size_t code = 0; code < values_.size(); ++code) {
        values_[code] = ToDouble(p_.dtype, code & ((1u << width) - 1));
      }
    }
  }

  std::int64_t Run() {
    const std::int64_t strips = (p_.rows + kStrip - 1) / kStrip;
    const int groups = p_.probes / kProbeGroup;
    for (std::int64_t s = 0; s < strips; ++s) {
      std::fill_n(magnitudes_[s].absolute, kStrip * kMaxLanes, 0.0);
      std::fill_n(magnitudes_[s].squares, kStrip * kMaxLanes, 0.0);
    }
    // The later groups read the panel again, from the second-level cache.
    for (int g = 0; g < std::max(1, groups); ++g) {
      for (std::int64_t s = 0; s < strips; ++s) {
        std::fill_n(sums_[s].products, kProbeGroup * kStrip * kMaxLanes, 0.0);
      }
      for (std::int64_t col = 0; col < p_.cols; col += kTile) {
        const std::int64_t cols = std::min(kTile, p_.cols - col);
        for (std::int64_t s = 0; s < strips; ++s) {
          Load(s * kStrip, col, cols);
          if (g == 0) Magnitudes(s, col);
          if (p_.probes == 0) continue;
          if (p_.right != nullptr) RowProducts(g, s, col);
          if (p_.left != nullptr) ColProducts(g, s, col);
        }
      }
      if (p_.right != nullptr) StoreProducts(g);
    }
    StoreMagnitudes();
    return zeros_;
  }

 private:
  static HWY_INLINE std::int64_t Lanes() { return static_cast<std::int64_t>(hn::Lanes(D())); }

  // Loads rows [row, row + kStrip) and columns [col, col + cols) into the tile, with zeros around
  // them.
  void Load(std::int64_t row, std::int64_t col, std::int64_t cols) {
    width_ = (cols + Lanes() - 1) / Lanes() * Lanes();
    strip_rows_ = std::min(kStrip, p_.rows - row);
    for (std::int64_t r = 0; r < kStrip; ++r) {
      double* out = tile_ + r * kTile;
      if (r >= strip_rows_) {
        std::fill_n(out, width_, 0.0);
        continue;
      }
      const std::int64_t at = p_.offset + (row + r) * p_.ld + col;
      // The next strip: the one below, or the first of the next tile.
      if (row + r + kStrip < p_.rows) {
        PrefetchRow(at + kStrip * p_.ld, cols);
      } else if (col + cols < p_.cols) {
        PrefetchRow(p_.offset + r * p_.ld + col + cols, std::min(kTile, p_.cols - col - cols));
      }
      LoadRow(at, cols, out);
      std::fill(out + cols, out + width_, 0.0);
    }
    if (p_.counts) valid_ = strip_rows_ * cols;
  }

  // Prefetches into the second-level cache, because the first level cannot take more misses.
  void PrefetchRow(std::int64_t at, std::int64_t cols) const {
    const std::int64_t bits = Info(p_.dtype).storage_bits;
    const auto* first = static_cast<const unsigned char*>(p_.data) + at * bits / 8;
    for (std::int64_t b = 0; b < cols * bits / 8; b += 64) __builtin_prefetch(first + b, 0, 2);
  }

  void LoadRow(std::int64_t at, std::int64_t cols, double* out) const {
    switch (p_.dtype) {
      case DType::kF64:
        return LoadVectors<Storage::kF64>(at, cols, out);
      case DType::kF32:
      case DType::kTF32:
        return LoadVectors<Storage::kF32>(at, cols, out);
      case DType::kF16:
        // Only if the processor converts: Highway's own code treats Inf as a number.
        if constexpr (HWY_TARGET <= HWY_AVX2) return LoadVectors<Storage::kF16>(at, cols, out);
        for (std::int64_t i = 0; i < cols; ++i) out[i] = LoadDouble(p_.dtype, p_.data, at + i);
        return;
      case DType::kBF16:
        return LoadVectors<Storage::kBF16>(at, cols, out);
      case DType::kI8:
        return LoadVectors<Storage::kI8>(at, cols, out);
      case DType::kI32:
        return LoadVectors<Storage::kI32>(at, cols, out);
      default:
        for (std::int64_t i = 0; i < cols; ++i) {
          out[i] = values_[LoadBits(p_.dtype, p_.data, at + i)];
        }
    }
  }

  template <Storage kStorage>
  HWY_INLINE void LoadVectors(std::int64_t at, std::int64_t cols, double* out) const {
    const auto* data = static_cast<const Element<kStorage>*>(p_.data) + at;
    std::int64_t i = 0;
    for (; i + Lanes() <= cols; i += Lanes()) {
      hn::Store(LoadElements<kStorage>(data, i), D(), out + i);
    }
    for (; i < cols; ++i) out[i] = LoadDouble(p_.dtype, p_.data, at + i);
  }

  HWY_INLINE void RowProducts(int group, std::int64_t strip, std::int64_t col) {
    const D d;
    const double* x = p_.right + col * p_.probes + std::int64_t{group} * kProbeGroup * kTile;
    double* sums = sums_[strip].products;
    for (int r0 = 0; r0 < kStrip; r0 += kRowsAtOnce) {
      V acc[kProbeGroup][kRowsAtOnce];
#pragma GCC unroll 4
      for (int p = 0; p < kProbeGroup; ++p) {
#pragma GCC unroll 4
        for (int r = 0; r < kRowsAtOnce; ++r) {
          acc[p][r] = hn::Load(d, sums + (p * kStrip + r0 + r) * Lanes());
        }
      }
      for (std::int64_t j = 0; j < width_; j += Lanes()) {
        V v[kRowsAtOnce];
#pragma GCC unroll 4
        for (int r = 0; r < kRowsAtOnce; ++r) v[r] = hn::Load(d, tile_ + (r0 + r) * kTile + j);
#pragma GCC unroll 4
        for (int p = 0; p < kProbeGroup; ++p) {
          const V xp = hn::LoadU(d, x + p * kTile + j);
#pragma GCC unroll 4
          for (int r = 0; r < kRowsAtOnce; ++r) acc[p][r] = hn::MulAdd(v[r], xp, acc[p][r]);
        }
      }
#pragma GCC unroll 4
      for (int p = 0; p < kProbeGroup; ++p) {
#pragma GCC unroll 4
        for (int r = 0; r < kRowsAtOnce; ++r) {
          hn::Store(acc[p][r], d, sums + (p * kStrip + r0 + r) * Lanes());
        }
      }
    }
  }

  HWY_INLINE void ColProducts(int group, std::int64_t strip, std::int64_t col) {
    const D d;
    V w[kProbeGroup][kStrip];
#pragma GCC unroll 4
    for (int p = 0; p < kProbeGroup; ++p) {
      const double* left = p_.left + (group * kProbeGroup + p) * p_.left_stride + strip * kStrip;
#pragma GCC unroll 4
      for (int r = 0; r < kStrip; ++r) w[p][r] = hn::Set(d, r < strip_rows_ ? left[r] : 0.0);
    }
    double* out = p_.col_products + col * p_.probes + std::int64_t{group} * kProbeGroup * kTile;
    for (std::int64_t j = 0; j < width_; j += Lanes()) {
      V v[kStrip];
#pragma GCC unroll 4
      for (int r = 0; r < kStrip; ++r) v[r] = hn::Load(d, tile_ + r * kTile + j);
#pragma GCC unroll 4
      for (int p = 0; p < kProbeGroup; ++p) {
        double* at = out + p * kTile + j;
        V sum = hn::LoadU(d, at);
#pragma GCC unroll 4
        for (int r = 0; r < kStrip; ++r) sum = hn::MulAdd(v[r], w[p][r], sum);
        hn::StoreU(sum, d, at);
      }
    }
  }

  HWY_INLINE void Magnitudes(std::int64_t strip, std::int64_t col) {
    if (p_.row_weights != nullptr) RowAbsolute(strip, col);
    if (p_.col_weights != nullptr) ColAbsolute(strip, col);
    if (p_.squares) Squares(strip, col);
    if (p_.counts) CountZeros();
  }

  HWY_INLINE void RowAbsolute(std::int64_t strip, std::int64_t col) {
    const D d;
    double* sums = magnitudes_[strip].absolute;
    V acc[kStrip];
#pragma GCC unroll 4
    for (int r = 0; r < kStrip; ++r) acc[r] = hn::Load(d, sums + r * Lanes());
    for (std::int64_t j = 0; j < width_; j += Lanes()) {
      const V b = hn::LoadU(d, p_.row_weights + col + j);
#pragma GCC unroll 4
      for (int r = 0; r < kStrip; ++r) {
        acc[r] = hn::MulAdd(hn::Abs(hn::Load(d, tile_ + r * kTile + j)), b, acc[r]);
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < kStrip; ++r) hn::Store(acc[r], d, sums + r * Lanes());
  }

  HWY_INLINE void ColAbsolute(std::int64_t strip, std::int64_t col) {
    const D d;
    V a[kStrip];
#pragma GCC unroll 4
    for (int r = 0; r < kStrip; ++r) {
      a[r] = hn::Set(d, r < strip_rows_ ? p_.col_weights[strip * kStrip + r] : 0.0);
    }
    for (std::int64_t j = 0; j < width_; j += Lanes()) {
      double* at = p_.col_absolute + col + j;
      V sum = hn::LoadU(d, at);
#pragma GCC unroll 4
      for (int r = 0; r < kStrip; ++r) {
        sum = hn::MulAdd(hn::Abs(hn::Load(d, tile_ + r * kTile + j)), a[r], sum);
      }
      hn::StoreU(sum, d, at);
    }
  }

  HWY_INLINE void Squares(std::int64_t strip, std::int64_t col) {
    const D d;
    double* sums = magnitudes_[strip].squares;
    V acc[kStrip];
#pragma GCC unroll 4
    for (int r = 0; r < kStrip; ++r) acc[r] = hn::Load(d, sums + r * Lanes());
    for (std::int64_t j = 0; j < width_; j += Lanes()) {
      double* at = p_.col_squares + col + j;
      V sum = hn::LoadU(d, at);
#pragma GCC unroll 4
      for (int r = 0; r < kStrip; ++r) {
        const V v = hn::Load(d, tile_ + r * kTile + j);
        acc[r] = hn::MulAdd(v, v, acc[r]);
        sum = hn::MulAdd(v, v, sum);
      }
      hn::StoreU(sum, d, at);
    }
#pragma GCC unroll 4
    for (int r = 0; r < kStrip; ++r) hn::Store(acc[r], d, sums + r * Lanes());
  }

  HWY_INLINE void CountZeros() {
    const D d;
    std::int64_t zeros = 0;
#pragma GCC unroll 4
    for (int r = 0; r < kStrip; ++r) {
      for (std::int64_t j = 0; j < width_; j += Lanes()) {
        zeros += static_cast<std::int64_t>(
            hn::CountTrue(d, hn::Eq(hn::Load(d, tile_ + r * kTile + j), hn::Zero(d))));
      }
    }
    zeros_ += zeros - (kStrip * width_ - valid_);
  }

  void StoreProducts(int group) {
#pragma GCC unroll 4
    for (int p = 0; p < kProbeGroup; ++p) {
      double* out = p_.row_products + (group * kProbeGroup + p) * p_.row_stride;
      for (std::int64_t row = 0; row < p_.rows; ++row) {
        out[row] = Total(
            hn::Load(D(), sums_[row / kStrip].products + (p * kStrip + row % kStrip) * Lanes()));
      }
    }
  }

  void StoreMagnitudes() {
    for (std::int64_t row = 0; row < p_.rows; ++row) {
      const StripMagnitudes& m = magnitudes_[row / kStrip];
      const std::int64_t at = row % kStrip * Lanes();
      if (p_.row_absolute != nullptr) p_.row_absolute[row] = Total(hn::Load(D(), m.absolute + at));
      if (p_.row_squares != nullptr) p_.row_squares[row] = Total(hn::Load(D(), m.squares + at));
    }
  }

  const ChecksumPanel& p_;
  std::int64_t width_ = 0;  // columns of the tile, in whole vectors
  std::int64_t strip_rows_ = 0;
  std::int64_t valid_ = 0;  // elements of the tile that belong to the matrix
  std::int64_t zeros_ = 0;
  HWY_ALIGN double tile_[kStrip * kTile];
  StripSums sums_[kChecksumPanel / kStrip];
  StripMagnitudes magnitudes_[kChecksumPanel / kStrip];
  std::array<double, 256> values_;  // of every 8-bit code
};

std::int64_t AddPanel(const ChecksumPanel& panel) { return Walk(panel).Run(); }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace assay::kernels::internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay::inline kernels::internal {

HWY_EXPORT(AddPanel);

std::int64_t AddChecksumPanel(const ChecksumPanel& panel) {
  return HWY_DYNAMIC_DISPATCH(AddPanel)(panel);
}

}  // namespace assay::kernels::internal
#endif  // HWY_ONCE
