// gemm for GPUs: D = act(factor·s_j·op(A)·op(B) + beta·C + bias_j), batched, row-major.
//
// fp16 and bf16 multiply with matrix instructions: products are exact, and sums are FP32, in the
// hardware's order within 16 terms and ascending between. Every other format is widened to FP32
// (fp64 to FP64, int8 to int32, exactly) and summed with fma in ascending k. Error: γ_k·(|A||B|),
// with fewer roundings than k for matrix instructions. The epilogue (epilogue_gpu.h) adds its own
// error, and there is one rounding to the output's format. Deterministic: one thread group sums an
// element in one order.
//
// Matrix instructions: a block computes 128 x 128 of D, and each of eight groups of 32 lanes
// computes 64 x 32. Asynchronous copies of 16 bytes bring A and B into shared memory, 32 terms at a
// time, in three stages. A tile has the same layout there as its matrix in memory. Rows are padded
// by 16 bytes, which keeps the eight rows of a load in different banks. The transposing load serves
// tiles whose k runs across rows. If the rows of an operand are not aligned to 16 bytes, they are
// copied element by element. Blocks walk D in bands of eight tiles, so that blocks that run at the
// same time share what they read.
#include <type_traits>

#include "kernels/providers/builtin/epilogue_gpu.h"
#include "kernels/providers/builtin/fma_tile_gpu.h"
#include "kernels/providers/builtin/gemm_builtin_gpu.h"
#include "kernels/runtime/gpu/element.h"
#include "kernels/runtime/gpu/port.h"
#include "kernels/runtime/gpu/port_matrix.h"

namespace assay::inline kernels::gpu {
namespace {

struct Shape {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
  std::int64_t tiles_m;
  std::int64_t tiles_n;
};

Shape ShapeOf(const GemmJob& g, int tile) {
  return {g.m, g.n, g.k, (g.m + tile - 1) / tile, (g.n + tile - 1) / tile};
}

struct TileIndex {
  std::int64_t batch;
  std::int64_t row;     // counted in tiles
  std::int64_t column;  // counted in tiles
};

// The tile of a block: blocks walk bands of kBand rows of tiles, each column by column.
ASSAY_DEVICE TileIndex IndexOf(const Shape& s, std::int64_t block) {
  constexpr std::int64_t kBand = 8;
  const std::int64_t tiles = s.tiles_m * s.tiles_n;
  const std::int64_t tile = block % tiles;
  const std::int64_t band = tile / (kBand * s.tiles_n);
  const std::int64_t left = s.tiles_m - band * kBand;
  const std::int64_t height = left < kBand ? left : kBand;
  const std::int64_t at = tile - band * kBand * s.tiles_n;
  return {block / tiles, band * kBand + at % height, at / height};
}

// ---- matrix instructions ----

constexpr int kTile = 128;  // rows and columns of D for each block
constexpr int kDepth = 32;  // terms of a stage
constexpr int kStages = 3;
constexpr int kThreads = 256;
constexpr int kRowGroups = 2;     // groups of lanes along the rows of a tile
constexpr int kColumnGroups = 4;  // groups of lanes along its columns
constexpr int kRowTiles = kTile / kRowGroups / 16;
constexpr int kColumnTiles = kTile / kColumnGroups / 8;
constexpr int kPad = 8;  // elements of padding behind a row of shared memory
constexpr int kStageElements = kTile * (kDepth + kPad);
static_assert(kStageElements >= kDepth * (kTile + kPad));
constexpr std::size_t kSharedBytes = std::size_t{kStages} * 2 * kStageElements * 2;

// An operand's part of a tile: `extent` rows or columns from `first` on, and `depth` terms.
struct Side {
  const std::uint16_t* data;
  std::int64_t ld;
  std::int64_t first;
  std::int64_t extent;
  std::int64_t depth;
};

// Copies terms [k0, k0 + kDepth) into a stage; zeros outside the matrix.
template <bool kAlongK, bool kAligned>
ASSAY_DEVICE void FillStage(const Side& side, std::int64_t k0, std::uint16_t* stage,
                            AsyncCopies& copies) {
  constexpr int kInner = kAlongK ? kDepth : kTile;  // elements of a row in memory
  constexpr int kChunks = kInner / 8;
  const std::int64_t rows = kAlongK ? side.extent - side.first : side.depth - k0;
  const std::int64_t columns = kAlongK ? side.depth - k0 : side.extent - side.first;
  const std::uint16_t* origin =
      side.data + (kAlongK ? side.first * side.ld + k0 : k0 * side.ld + side.first);
  ASSAY_UNROLL
  for (int i = 0; i < kTile * kDepth / 8 / kThreads; ++i) {
    const int chunk = static_cast<int>(Thread().x) + i * kThreads;
    const int row = chunk / kChunks;
    const int column = chunk % kChunks * 8;
    std::uint16_t* to = stage + row * (kInner + kPad) + column;
    const std::int64_t rest = row < rows ? columns - column : 0;
    const int valid = rest < 0 ? 0 : rest < 8 ? static_cast<int>(rest) : 8;
    const std::uint16_t* from = valid == 0 ? side.data : origin + row * side.ld + column;
    if constexpr (kAligned) {
      copies.Start(to, from, valid * 2);
    } else {
      Pack<Half, 8> codes;
      ASSAY_UNROLL
      for (int e = 0; e < 8; ++e) codes.v[e] = e < valid ? from[e] : std::uint16_t{0};
      *reinterpret_cast<Pack<Half, 8>*>(to) = codes;
    }
  }
}

// Adds the products of one stage to the group's part of the tile.
template <class In, bool kAAlongK, bool kBAlongK>
ASSAY_DEVICE void MultiplyStage(const std::uint16_t* a, const std::uint16_t* b, int row0,
                                int column0, FragmentD (&sums)[kRowTiles][kColumnTiles]) {
  constexpr int kAPitch = (kAAlongK ? kDepth : kTile) + kPad;
  constexpr int kBPitch = (kBAlongK ? kDepth : kTile) + kPad;
  const int lane = MatrixLane();
  const int low = lane % 8;             // the row of an 8x8 tile whose address this lane gives
  const int second = lane / 8 % 2 * 8;  // 8 for the 2nd and 4th of the four tiles
  const int upper = lane / 16 * 8;      // 8 for the 3rd and 4th
  ASSAY_UNROLL
  for (int k = 0; k < kDepth; k += 16) {
    FragmentA left[kRowTiles];
    FragmentB right[kColumnTiles];
    ASSAY_UNROLL
    for (int i = 0; i < kRowTiles; ++i) {
      const int row = row0 + i * 16;
      if constexpr (kAAlongK) {
        LoadTiles(a + (row + low + second) * kAPitch + k + upper, left[i].word);
      } else {
        LoadTilesTransposed(a + (k + low + upper) * kAPitch + row + second, left[i].word);
      }
    }
    ASSAY_UNROLL
    for (int j = 0; j < kColumnTiles; j += 2) {
      const int column = column0 + j * 8;
      std::uint32_t words[4];
      if constexpr (kBAlongK) {
        LoadTiles(b + (column + low + upper) * kBPitch + k + second, words);
      } else {
        LoadTilesTransposed(b + (k + low + second) * kBPitch + column + upper, words);
      }
      right[j] = {{words[0], words[1]}};
      right[j + 1] = {{words[2], words[3]}};
    }
    ASSAY_UNROLL
    for (int i = 0; i < kRowTiles; ++i) {
      ASSAY_UNROLL
      for (int j = 0; j < kColumnTiles; ++j) Multiply<In>(sums[i][j], left[i], right[j]);
    }
  }
}

template <class In, bool kAAlongK, bool kBAlongK, bool kAligned>
ASSAY_GLOBAL void ASSAY_BOUNDS(kThreads, 2)
    MatrixGemm(Shape s, const std::uint16_t* a, std::int64_t lda, std::int64_t a_stride,
               const std::uint16_t* b, std::int64_t ldb, std::int64_t b_stride,
               Epilogue<float> epilogue) {
  auto* shared = static_cast<std::uint16_t*>(DynamicShared());
  const TileIndex tile = IndexOf(s, Block().x);
  const Side left = {a + tile.batch * a_stride, lda, tile.row * kTile, s.m, s.k};
  const Side right = {b + tile.batch * b_stride, ldb, tile.column * kTile, s.n, s.k};
  const int group = static_cast<int>(Thread().x) / kMatrixLanes;
  const int row0 = group / kColumnGroups * (kTile / kRowGroups);
  const int column0 = group % kColumnGroups * (kTile / kColumnGroups);

  AsyncCopies copies;
  const auto steps = (s.k + kDepth - 1) / kDepth;
  const auto fill = [&](std::int64_t step) {
    if (step < steps) {
      std::uint16_t* stage = shared + static_cast<int>(step % kStages) * (2 * kStageElements);
      FillStage<kAAlongK, kAligned>(left, step * kDepth, stage, copies);
      FillStage<kBAlongK, kAligned>(right, step * kDepth, stage + kStageElements, copies);
    }
    copies.Commit();  // empty ones too, so that groups count steps
  };
  FragmentD sums[kRowTiles][kColumnTiles] = {};
  for (int i = 0; i < kStages - 1; ++i) fill(i);
  for (std::int64_t step = 0; step < steps; ++step) {
    copies.Wait<kStages - 2>();
    // All threads see this stage, and none still reads the stage that is filled now.
    SyncBlock();
    fill(step + kStages - 1);
    const std::uint16_t* stage = shared + static_cast<int>(step % kStages) * (2 * kStageElements);
    MultiplyStage<In, kAAlongK, kBAlongK>(stage, stage + kStageElements, row0, column0, sums);
  }

  const int g = MatrixLane() / 4, t = MatrixLane() % 4;
  ASSAY_UNROLL
  for (int i = 0; i < kRowTiles; ++i) {
    ASSAY_UNROLL
    for (int j = 0; j < kColumnTiles; ++j) {
      ASSAY_UNROLL
      for (int v = 0; v < 4; ++v) {
        const std::int64_t row = left.first + row0 + i * 16 + g + v / 2 * 8;
        const std::int64_t column = right.first + column0 + j * 8 + 2 * t + (v & 1);
        if (row < s.m && column < s.n) {
          Finish(epilogue, tile.batch, row, column, sums[i][j].value[v]);
        }
      }
    }
  }
}

bool Aligned(const GemmMatrix& matrix) {
  return reinterpret_cast<std::uintptr_t>(matrix.data) % 16 == 0 && matrix.ld % 8 == 0 &&
         matrix.batch_stride % 8 == 0;
}

template <class In, bool kAAlongK, bool kBAlongK>
ErrorCode LaunchMatrix(const GemmJob& g, Stream stream) {
  const Shape s = ShapeOf(g, kTile);
  const Extent grid{static_cast<unsigned>(s.tiles_m * s.tiles_n * g.batch), 1, 1};
  const auto* a = static_cast<const std::uint16_t*>(g.a.data);
  const auto* b = static_cast<const std::uint16_t*>(g.b.data);
  const Epilogue<float> epilogue(g);
  const auto launch = [&](auto kernel) {
    return Launch(kernel, grid, Extent{kThreads, 1, 1}, kSharedBytes, stream, s, a, g.a.ld,
                  g.a.batch_stride, b, g.b.ld, g.b.batch_stride, epilogue);
  };
  return Aligned(g.a) && Aligned(g.b) ? launch(MatrixGemm<In, kAAlongK, kBAlongK, true>)
                                      : launch(MatrixGemm<In, kAAlongK, kBAlongK, false>);
}

template <class In>
ErrorCode LaunchMatrix(const GemmJob& g, Stream stream) {
  if (g.trans_a) {
    return g.trans_b ? LaunchMatrix<In, false, true>(g, stream)
                     : LaunchMatrix<In, false, false>(g, stream);
  }
  return g.trans_b ? LaunchMatrix<In, true, true>(g, stream)
                   : LaunchMatrix<In, true, false>(g, stream);
}

// ---- plain multiply-adds ----

template <class Format>
ASSAY_DEVICE Format FormatOf(DType in) {
  if constexpr (std::is_constructible_v<Format, DType>) {
    return Format(in);
  } else {
    return Format();
  }
}

template <class Format, class Acc, class F, int kMicro>
ASSAY_GLOBAL void ASSAY_BOUNDS(kTileThreads, 1)
    FmaGemm(Shape s, DType in, const typename Format::Store* a, std::int64_t lda,
            std::int64_t a_stride, bool trans_a, const typename Format::Store* b, std::int64_t ldb,
            std::int64_t b_stride, bool trans_b, Epilogue<F> epilogue) {
  constexpr int kExtent = kTileSide * kMicro;
  const Format format = FormatOf<Format>(in);
  const TileIndex tile = IndexOf(s, Block().x);
  const std::int64_t row0 = tile.row * kExtent;
  const std::int64_t column0 = tile.column * kExtent;
  const auto* left = a + tile.batch * a_stride;
  const auto* right = b + tile.batch * b_stride;
  MultiplyTile<Acc, kMicro>(
      s.k,
      [&](int i, std::int64_t k) {
        const std::int64_t row = row0 + i;
        if (row >= s.m) return Acc{};
        return Acc{format.Load(left[trans_a ? k * lda + row : row * lda + k])};
      },
      !trans_a,
      [&](int j, std::int64_t k) {
        const std::int64_t column = column0 + j;
        if (column >= s.n) return Acc{};
        return Acc{format.Load(right[trans_b ? column * ldb + k : k * ldb + column])};
      },
      trans_b,
      [&](int i, int j, Acc sum) {
        if (row0 + i < s.m && column0 + j < s.n) {
          Finish(epilogue, tile.batch, row0 + i, column0 + j, sum);
        }
      });
}

template <class Format, class Acc, class F, int kMicro>
ErrorCode LaunchFma(const GemmJob& g, Stream stream) {
  using Store = typename Format::Store;
  const Shape s = ShapeOf(g, kTileSide * kMicro);
  return Launch(FmaGemm<Format, Acc, F, kMicro>,
                Extent{static_cast<unsigned>(s.tiles_m * s.tiles_n * g.batch), 1, 1},
                Extent{kTileThreads, 1, 1}, 0, stream, s, g.in, static_cast<const Store*>(g.a.data),
                g.a.ld, g.a.batch_stride, g.trans_a, static_cast<const Store*>(g.b.data), g.b.ld,
                g.b.batch_stride, g.trans_b, Epilogue<F>(g));
}

}  // namespace

ErrorCode LaunchGemm(const GemmJob& g, Stream stream) {
  switch (g.in) {
    case DType::kF64:
      return LaunchFma<Float64, double, double, 4>(g, stream);
    case DType::kF32:
    case DType::kTF32:
      return LaunchFma<Float32, float, float, 8>(g, stream);
    case DType::kF16:
      return LaunchMatrix<Half>(g, stream);
    case DType::kBF16:
      return LaunchMatrix<BFloat>(g, stream);
    case DType::kI8:
      return g.out == DType::kI32 ? LaunchFma<Int8, std::int32_t, std::int32_t, 4>(g, stream)
                                  : LaunchFma<Int8, std::int32_t, float, 4>(g, stream);
    default:
      return LaunchFma<Code8, float, float, 4>(g, stream);
  }
}

}  // namespace assay::kernels::gpu
