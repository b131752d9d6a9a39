// Computes one tile of a matrix product: packing, the micro-kernel, and the loop over k. Compiled
// once for each SIMD target.
//
// The operands come from sources. A source has a stored layout and delivers runs of converted
// elements. So a plain matrix, its transpose, and the implicit im2col matrix of a convolution share
// everything else. A source has
//   bool along_k()                     whether its runs go along k
//   Fill(outer, begin, count, Raw*)    elements [begin, begin + count) of run `outer`: a row of A
//   or
//                                      column of B if along_k, otherwise a k
//
// Packed A has rows of kPitchA units. Packed B has panels of kPanel columns, k-major. The
// accumulator tile is padded with zero columns to whole panels. So the micro-kernel has no special
// cases except few rows.
#if defined(ASSAY_BUILTIN_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ASSAY_BUILTIN_TILE_INL_H_
#undef ASSAY_BUILTIN_TILE_INL_H_
#else
#define ASSAY_BUILTIN_TILE_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "kernels/providers/builtin/blocking.h"
#include "kernels/providers/builtin/codes-inl.h"
#include "kernels/providers/builtin/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace assay::inline kernels {
namespace HWY_NAMESPACE {

// The arithmetic of a product. Raw is the type of a converted element, Unit the operand of one
// multiply-add of a lane, Acc the accumulator.
template <class T>
struct FloatArithmetic {
  using Raw = T;
  using Unit = T;
  using Acc = T;
  static constexpr std::int64_t kPerUnit = 1;

  template <class D>
  static HWY_INLINE VOf<D> MulAdd(D /*d*/, VOf<D> a, VOf<D> b, VOf<D> c) {
    return hn::MulAdd(a, b, c);
  }
};

// int8 widened to int16 and taken in pairs along k. The sum of two products of int8 is exact in
// int32, and so is the whole sum up to k = 2^17.
struct IntegerArithmetic {
  using Raw = std::int16_t;
  using Unit = std::int32_t;
  using Acc = std::int32_t;
  static constexpr std::int64_t kPerUnit = 2;

  template <class D>
  static HWY_INLINE VOf<D> MulAdd(D /*d*/, VOf<D> a, VOf<D> b, VOf<D> c) {
#if HWY_TARGET == HWY_AVX3
    return hn::Add(c, VOf<D>{_mm512_madd_epi16(a.raw, b.raw)});
#elif HWY_TARGET == HWY_AVX2
    return hn::Add(c, VOf<D>{_mm256_madd_epi16(a.raw, b.raw)});
#else
    return hn::Add(c, VOf<D>{_mm_madd_epi16(a.raw, b.raw)});
#endif
  }
};

template <class T>
struct ArithmeticOf {
  using type = FloatArithmetic<float>;
};
template <>
struct ArithmeticOf<double> {
  using type = FloatArithmetic<double>;
};
template <>
struct ArithmeticOf<std::int8_t> {
  using type = IntegerArithmetic;
};

// The rows of the micro-kernel. With two vectors of columns the accumulators take 24 of 32
// registers in AVX-512 and 12 of 16 in AVX2. Without fma they take 8 of 16, because the product
// needs a register, too.
inline constexpr std::int64_t kMicroRows = HWY_TARGET == HWY_AVX3   ? 12
                                           : HWY_TARGET == HWY_AVX2 ? 6
                                                                    : 4;

template <class Arithmetic>
HWY_INLINE std::int64_t PanelCols() {
  return 2 * static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<typename Arithmetic::Unit>()));
}

template <class Unit>
HWY_INLINE Unit LoadUnit(const Unit* p) {
  Unit u;
  std::memcpy(&u, p, sizeof(u));  // it may be a pair of int16
  return u;
}

template <class Arithmetic, class D, class Unit>
HWY_INLINE void Step(D d, const Unit* a, VOf<D> b0, VOf<D> b1, VOf<D>& c0, VOf<D>& c1) {
  const auto v = hn::Set(d, LoadUnit(a));
  c0 = Arithmetic::MulAdd(d, v, b0, c0);
  c1 = Arithmetic::MulAdd(d, v, b1, c1);
}

// c[r][0, kPanel) += Σ_k a[r][k]·b[k][0, kPanel) for sizeof...(r) rows.
template <class Arithmetic, std::size_t... r>
HWY_INLINE void MicroKernel(std::index_sequence<r...>,
                            const typename Arithmetic::Unit* HWY_RESTRICT a,
                            const typename Arithmetic::Unit* HWY_RESTRICT b, std::int64_t units,
                            typename Arithmetic::Acc* HWY_RESTRICT c, std::int64_t ldc) {
  const hn::ScalableTag<typename Arithmetic::Unit> d;
  const std::size_t lanes = hn::Lanes(d);
  VOf<decltype(d)> c0[sizeof...(r)];
  VOf<decltype(d)> c1[sizeof...(r)];
  ((c0[r] = hn::LoadU(d, c + static_cast<std::int64_t>(r) * ldc)), ...);
  ((c1[r] = hn::LoadU(d, c + static_cast<std::int64_t>(r) * ldc + lanes)), ...);
  for (std::int64_t k = 0; k < units; ++k) {
    const auto b0 = hn::Load(d, b);
    const auto b1 = hn::Load(d, b + lanes);
    b += 2 * lanes;
    (Step<Arithmetic>(d, a + static_cast<std::int64_t>(r) * internal::kPitchA + k, b0, b1, c0[r],
                      c1[r]),
     ...);
  }
  (hn::StoreU(c0[r], d, c + static_cast<std::int64_t>(r) * ldc), ...);
  (hn::StoreU(c1[r], d, c + static_cast<std::int64_t>(r) * ldc + lanes), ...);
}

// acc[rows][cols] += A·B over `units` of k. cols is a multiple of the panel's width.
template <class Arithmetic>
void MultiplyBlock(const typename Arithmetic::Unit* a, const typename Arithmetic::Unit* b,
                   std::int64_t rows, std::int64_t cols, std::int64_t units,
                   typename Arithmetic::Acc* acc, std::int64_t ldc) {
  const std::int64_t panel = PanelCols<Arithmetic>();
  for (std::int64_t j = 0; j < cols; j += panel) {
    const auto* pb = b + j * units;
    std::int64_t i = 0;
    for (; i + kMicroRows <= rows; i += kMicroRows) {
      MicroKernel<Arithmetic>(std::make_index_sequence<kMicroRows>(), a + i * internal::kPitchA, pb,
                              units, acc + i * ldc + j, ldc);
    }
    for (; i + 4 <= rows; i += 4) {
      MicroKernel<Arithmetic>(std::make_index_sequence<4>(), a + i * internal::kPitchA, pb, units,
                              acc + i * ldc + j, ldc);
    }
    for (; i < rows; ++i) {
      MicroKernel<Arithmetic>(std::make_index_sequence<1>(), a + i * internal::kPitchA, pb, units,
                              acc + i * ldc + j, ldc);
    }
  }
}

// The parts of a worker's memory.
template <class Arithmetic>
struct Workspace {
  using Unit = typename Arithmetic::Unit;
  Unit* a;
  Unit* b;
  typename Arithmetic::Acc* acc;
  typename Arithmetic::Raw* row;  // 2·kBlockK units: two rows of any tile

  Workspace(std::byte* memory, const internal::Blocking& blocking) {
    b = reinterpret_cast<Unit*>(memory);
    acc = b + internal::kBlockK * blocking.tile_cols;
    a = acc + blocking.tile_rows * blocking.tile_cols;
    row = reinterpret_cast<typename Arithmetic::Raw*>(a + blocking.tile_rows * internal::kPitchA);
  }
};

// Packs rows [i0, i0 + rows), k in [k0, k0 + count), of A.
template <class Arithmetic, class Source>
void PackA(const Source& source, std::int64_t i0, std::int64_t rows, std::int64_t k0,
           std::int64_t count, typename Arithmetic::Raw* HWY_RESTRICT row,
           typename Arithmetic::Unit* packed) {
  using Raw = typename Arithmetic::Raw;
  constexpr std::int64_t kPitch = internal::kPitchA * Arithmetic::kPerUnit;
  Raw* a = reinterpret_cast<Raw*>(packed);
  const std::int64_t padded = internal::RoundUp(count, Arithmetic::kPerUnit);
  if (source.along_k()) {
    for (std::int64_t i = 0; i < rows; ++i) {
      source.Fill(i0 + i, k0, count, a + i * kPitch);
      for (std::int64_t k = count; k < padded; ++k) std::memset(a + i * kPitch + k, 0, sizeof(Raw));
    }
    return;
  }
  for (std::int64_t k = 0; k < padded; ++k) {
    if (k < count) {
      source.Fill(k0 + k, i0, rows, row);
    } else {
      std::memset(row, 0, static_cast<std::size_t>(rows) * sizeof(Raw));
    }
    for (std::int64_t i = 0; i < rows; ++i) std::memcpy(a + i * kPitch + k, row + i, sizeof(Raw));
  }
}

// Packs one unit of k, columns [0, padded), from the rows of its elements.
template <class Arithmetic>
HWY_INLINE void PutUnits(const typename Arithmetic::Raw* row, std::int64_t padded,
                         std::int64_t unit, std::int64_t units, std::int64_t panel,
                         typename Arithmetic::Unit* packed) {
  const hn::ScalableTag<typename Arithmetic::Unit> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t j = 0; j < padded; j += lanes) {
    auto* to = packed + (j / panel * units + unit) * panel + j % panel;
    if constexpr (Arithmetic::kPerUnit == 1) {
      hn::Store(hn::LoadU(d, row + j), d, to);
    } else {
      const hn::Rebind<std::int16_t, decltype(d)> d16;
      const auto even = hn::PromoteTo(d, hn::LoadU(d16, row + j));
      const auto odd = hn::PromoteTo(d, hn::LoadU(d16, row + internal::kMaxTileCols + j));
      hn::Store(hn::Or(hn::And(even, hn::Set(d, 0xffff)), hn::ShiftLeft<16>(odd)), d, to);
    }
  }
}

// Packs columns [j0, j0 + cols), k in [k0, k0 + count), of B.
template <class Arithmetic, class Source>
void PackB(const Source& source, std::int64_t j0, std::int64_t cols, std::int64_t k0,
           std::int64_t count, typename Arithmetic::Raw* HWY_RESTRICT row,
           typename Arithmetic::Unit* packed) {
  using Raw = typename Arithmetic::Raw;
  using Unit = typename Arithmetic::Unit;
  constexpr std::int64_t kPer = Arithmetic::kPerUnit;
  const std::int64_t panel = PanelCols<Arithmetic>();
  const std::int64_t units = internal::CeilDiv(count, kPer);
  const std::int64_t padded = internal::RoundUp(cols, panel);
  if (source.along_k()) {
    std::memset(row, 0, static_cast<std::size_t>(units) * sizeof(Unit));
    for (std::int64_t j = 0; j < padded; ++j) {
      if (j < cols) {
        source.Fill(j0 + j, k0, count, row);
      } else {
        std::memset(row, 0, static_cast<std::size_t>(units) * sizeof(Unit));
      }
      Unit* to = packed + j / panel * units * panel + j % panel;
      for (std::int64_t u = 0; u < units; ++u)
        std::memcpy(to + u * panel, row + u * kPer, sizeof(Unit));
    }
    return;
  }
  const auto row_bytes = static_cast<std::size_t>(kPer * internal::kMaxTileCols) * sizeof(Raw);
  for (std::int64_t u = 0; u < units; ++u) {
    std::memset(row, 0, row_bytes);
    for (std::int64_t h = 0; h < kPer && u * kPer + h < count; ++h) {
      source.Fill(k0 + u * kPer + h, j0, cols, row + h * internal::kMaxTileCols);
    }
    PutUnits<Arithmetic>(row, padded, u, units, panel, packed);
  }
}

// Computes the tile at (i0, j0), rows x cols of A·B. Then it calls `store(i, n, acc)` for each row
// i of the tile.
template <class Arithmetic, class SourceA, class SourceB, class Store>
void RunTile(const SourceA& source_a, const SourceB& source_b, std::int64_t i0, std::int64_t rows,
             std::int64_t j0, std::int64_t cols, std::int64_t k, const Workspace<Arithmetic>& ws,
             const Store& store) {
  using Acc = typename Arithmetic::Acc;
  const std::int64_t step = internal::kBlockK * Arithmetic::kPerUnit;
  const std::int64_t ldc = internal::RoundUp(cols, PanelCols<Arithmetic>());
  std::memset(ws.acc, 0, static_cast<std::size_t>(rows * ldc) * sizeof(Acc));
  for (std::int64_t k0 = 0; k0 < k; k0 += step) {
    const std::int64_t count = std::min(step, k - k0);
    PackA<Arithmetic>(source_a, i0, rows, k0, count, ws.row, ws.a);
    PackB<Arithmetic>(source_b, j0, cols, k0, count, ws.row, ws.b);
    MultiplyBlock<Arithmetic>(ws.a, ws.b, rows, ldc, internal::CeilDiv(count, Arithmetic::kPerUnit),
                              ws.acc, ldc);
  }
  for (std::int64_t i = 0; i < rows; ++i) store(i, cols, ws.acc + i * ldc);
}

// A stored matrix. Run `outer` starts at data + outer·ld.
template <class T>
struct MatrixSource {
  typename Elements<T>::Cursor data;
  std::int64_t ld;
  bool runs_along_k;

  bool along_k() const { return runs_along_k; }
  template <class Raw>
  HWY_INLINE void Fill(std::int64_t outer, std::int64_t begin, std::int64_t count,
                       Raw* HWY_RESTRICT to) const {
    ConvertRow(data + outer * ld + begin, count, to);
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace assay::kernels
HWY_AFTER_NAMESPACE();

#endif  // ASSAY_BUILTIN_TILE_INL_H_
