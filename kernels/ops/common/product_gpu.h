// A tile of the FP64 matrix product that the GPU references of gemm and conv share:
// sum = A·Bᵀ and, in the same pass over memory, absolute = |A|·|B|ᵀ. For kernels only.
//
// A block of 256 threads has a tile of 64 × 64 elements, each thread 4 × 4 of them, 16
// apart, so that shared memory is read without conflicts. 16 terms at a time are
// converted to double and laid into shared memory; those to come are in registers
// meanwhile. Sums are in FP64 with fused multiply-add, from the first term to the last:
// the same launch gives the same bits.
//
// A source is a matrix [row, term]:
//   along_terms        neighbouring threads take neighbouring terms, not rows
//   Row RowOf(row)     what its elements of a row have in common; called once a tile
//   Term TermOf(term)
//   Load(row, term, &there)   *there = false: no element, where kGaps
#ifndef ASSAY_KERNELS_OPS_COMMON_PRODUCT_GPU_H_
#define ASSAY_KERNELS_OPS_COMMON_PRODUCT_GPU_H_

#include <cmath>

#include "kernels/runtime/gpu/port.h"

namespace assay::inline kernels::gpu {

inline constexpr int kProductTile = 64;      // rows of A and of B
inline constexpr int kProductDepth = 16;     // terms in shared memory
inline constexpr int kProductThreads = 256;  // 16 × 16
inline constexpr int kProductEach = 4;       // rows of A, and of B, a thread has
// One more than the tile: neighbouring terms then lie in different banks.
inline constexpr int kProductPitch = kProductTile + 1;
inline constexpr int kProductShared = kProductDepth * kProductPitch;  // doubles, of A or B
inline constexpr int kProductMarks = kProductDepth * kProductTile;    // of gaps in B

// A stored matrix: element (row, term) is `origin` + row·row_stride + term·term_stride.
template <class Element>
struct StridedRows {
  static constexpr bool kGaps = false;
  using Row = std::int64_t;
  using Term = std::int64_t;

  const void* base;
  DType dtype;
  std::int64_t origin, row_stride, term_stride;
  bool along_terms;

  ASSAY_DEVICE_MEMBER Row RowOf(std::int64_t row) const { return origin + row * row_stride; }
  ASSAY_DEVICE_MEMBER Term TermOf(std::int64_t term) const { return term * term_stride; }
  ASSAY_DEVICE_MEMBER double Load(Row row, Term term, bool*) const {
    return Element::At(base, dtype, row + term);
  }
};

// A thread's share of one source: which elements it moves, and their values.
template <class Source>
struct TileShare {
  typename Source::Row row[kProductEach];
  double value[kProductEach];
  bool there[kProductEach];

  static ASSAY_DEVICE_MEMBER int RowAt(const Source& s, int i) {
    const int t = static_cast<int>(Thread().x);
    return s.along_terms ? t / kProductDepth + i * (kProductThreads / kProductDepth)
                         : t % kProductTile;
  }
  static ASSAY_DEVICE_MEMBER int TermAt(const Source& s, int i) {
    const int t = static_cast<int>(Thread().x);
    return s.along_terms ? t % kProductDepth
                         : t / kProductTile + i * (kProductThreads / kProductTile);
  }

  ASSAY_DEVICE_MEMBER void SetRows(const Source& s, std::int64_t row0, std::int64_t rows) {
    ASSAY_UNROLL
    for (int i = 0; i < kProductEach; ++i) {
      const std::int64_t at = row0 + RowAt(s, i);
      row[i] = s.RowOf(at < rows ? at : 0);
      value[i] = 0.0;
      there[i] = true;
    }
  }
  // Zeros where there is no such row or term.
  ASSAY_DEVICE_MEMBER void Fetch(const Source& s, std::int64_t row0, std::int64_t rows,
                                 std::int64_t term0, std::int64_t terms) {
    ASSAY_UNROLL
    for (int i = 0; i < kProductEach; ++i) {
      const std::int64_t term = term0 + TermAt(s, i);
      value[i] = 0.0;
      there[i] = true;
      if (row0 + RowAt(s, i) < rows && term < terms) {
        value[i] = s.Load(row[i], s.TermOf(term), &there[i]);
      }
    }
  }
  template <class Shared>
  ASSAY_DEVICE_MEMBER void Put(const Source& s, Shared tile) const {
    ASSAY_UNROLL
    for (int i = 0; i < kProductEach; ++i) {
      tile[TermAt(s, i) * kProductPitch + RowAt(s, i)] = value[i];
    }
  }
};

// A thread's elements of a tile: row Row(i) by column Col(j).
template <bool kAbsolute>
struct ProductSums {
  double sum[kProductEach][kProductEach];
  double absolute[kAbsolute ? kProductEach : 1][kProductEach];

  static ASSAY_DEVICE_MEMBER int Row(int i) { return static_cast<int>(Thread().x) / 16 + 16 * i; }
  static ASSAY_DEVICE_MEMBER int Col(int j) { return static_cast<int>(Thread().x) % 16 + 16 * j; }

  ASSAY_DEVICE_MEMBER void Clear() {
    ASSAY_UNROLL
    for (int i = 0; i < kProductEach; ++i) {
      ASSAY_UNROLL
      for (int j = 0; j < kProductEach; ++j) {
        sum[i][j] = 0.0;
        if constexpr (kAbsolute) absolute[i][j] = 0.0;
      }
    }
  }
  ASSAY_DEVICE_MEMBER void Add(int i, int j, double a, double b) {
    sum[i][j] = Fma(a, b, sum[i][j]);
    if constexpr (kAbsolute) absolute[i][j] = Fma(std::abs(a), std::abs(b), absolute[i][j]);
  }
  // Of all terms in shared memory.
  template <class Shared>
  ASSAY_DEVICE_MEMBER void AddAll(Shared a_tile, Shared b_tile) {
    ASSAY_UNROLL_BY(4)
    for (int k = 0; k < kProductDepth; ++k) {
      double a[kProductEach], b[kProductEach];
      ASSAY_UNROLL
      for (int i = 0; i < kProductEach; ++i) a[i] = a_tile[k * kProductPitch + Row(i)];
      ASSAY_UNROLL
      for (int j = 0; j < kProductEach; ++j) b[j] = b_tile[k * kProductPitch + Col(j)];
      ASSAY_UNROLL
      for (int i = 0; i < kProductEach; ++i) {
        ASSAY_UNROLL
        for (int j = 0; j < kProductEach; ++j) Add(i, j, a[i], b[j]);
      }
    }
  }
};

// Where a source of B has gaps, a term that is not there adds nothing, not even where A is
// infinite: `gaps` says which of the tile's are not, and a step with a non-finite element of
// A looks there.
template <class Gaps, class Steps>
struct GapMarks {
  Gaps gaps;              // unsigned char [depth][tile]
  Steps careful;          // the last step that must look
  std::int64_t step = 0;  // of this block, never repeated
};

template <class Gaps, class Steps>
ASSAY_DEVICE GapMarks<Gaps, Steps> MarkGaps(Gaps gaps, Steps careful) {
  return {gaps, careful};
}

// The sums of the tile at (row0, col0). All threads of the block take part; `marks` is
// used only where B has gaps.
template <class A, class B, bool kAbsolute, class Shared, class Marks>
ASSAY_DEVICE void ProductOfTile(const A& a, std::int64_t row0, std::int64_t rows, const B& b,
                                std::int64_t col0, std::int64_t cols, std::int64_t terms,
                                Shared a_tile, Shared b_tile, Marks& marks,
                                ProductSums<kAbsolute>& sums) {
  static_assert(!A::kGaps);
  TileShare<A> from_a;
  TileShare<B> from_b;
  sums.Clear();
  from_a.SetRows(a, row0, rows);
  from_b.SetRows(b, col0, cols);
  from_a.Fetch(a, row0, rows, 0, terms);
  from_b.Fetch(b, col0, cols, 0, terms);
  for (std::int64_t term0 = 0; term0 < terms; term0 += kProductDepth) {
    SyncBlock();  // the terms before are read
    from_a.Put(a, a_tile);
    from_b.Put(b, b_tile);
    if constexpr (B::kGaps) {
      ++marks.step;
      ASSAY_UNROLL
      for (int i = 0; i < kProductEach; ++i) {
        marks.gaps[from_b.TermAt(b, i) * kProductTile + from_b.RowAt(b, i)] =
            static_cast<unsigned char>(!from_b.there[i]);
        if (!std::isfinite(from_a.value[i])) marks.careful[0] = marks.step;
      }
    }
    SyncBlock();  // all of these are there
    if (term0 + kProductDepth < terms) {
      from_a.Fetch(a, row0, rows, term0 + kProductDepth, terms);
      from_b.Fetch(b, col0, cols, term0 + kProductDepth, terms);
    }
    if constexpr (B::kGaps) {
      if (marks.careful[0] == marks.step) {
        for (int k = 0; k < kProductDepth; ++k) {
          ASSAY_UNROLL
          for (int j = 0; j < kProductEach; ++j) {
            if (marks.gaps[k * kProductTile + sums.Col(j)] != 0) continue;
            ASSAY_UNROLL
            for (int i = 0; i < kProductEach; ++i) {
              sums.Add(i, j, a_tile[k * kProductPitch + sums.Row(i)],
                       b_tile[k * kProductPitch + sums.Col(j)]);
            }
          }
        }
        continue;
      }
    }
    sums.AddAll(a_tile, b_tile);
  }
  SyncBlock();  // the tile to come writes shared memory again
}

// √Σx⁴ of each row of a source's tile at row0, over all terms. All threads of the block take part;
// `tile` has kProductShared values and `roots` kProductTile, and every thread may read the roots
// afterwards. The order of the sums is fixed.
template <class Source, class Shared, class Roots>
ASSAY_DEVICE void FourthPowerRoots(const Source& s, std::int64_t row0, std::int64_t rows,
                                   std::int64_t terms, Shared tile, Roots roots) {
  TileShare<Source> share;
  double sums[kProductEach] = {};
  share.SetRows(s, row0, rows);
  for (std::int64_t term0 = 0; term0 < terms; term0 += kProductDepth) {
    share.Fetch(s, row0, rows, term0, terms);
    ASSAY_UNROLL
    for (int i = 0; i < kProductEach; ++i) {
      const double square = share.value[i] * share.value[i];
      sums[i] += square * square;
    }
  }
  SyncBlock();  // the tile before is read
  ASSAY_UNROLL
  for (int i = 0; i < kProductEach; ++i) share.value[i] = sums[i];
  share.Put(s, tile);
  SyncBlock();
  const int row = static_cast<int>(Thread().x);
  if (row < kProductTile) {
    double sum = 0;
    for (int k = 0; k < kProductDepth; ++k) sum += tile[k * kProductPitch + row];
    roots[row] = std::sqrt(sum);
  }
  SyncBlock();
}

}  // namespace assay::kernels::gpu

#endif  // ASSAY_KERNELS_OPS_COMMON_PRODUCT_GPU_H_
