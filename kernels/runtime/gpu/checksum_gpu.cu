// Computes checksums of a matrix on GPUs; kernels/runtime/checksum.h has the formulas.
//
// A block takes 64 rows by up to 1024 columns and four probes, in tiles of 64 by 64. It reads a
// tile once into shared memory as FP64 and processes it twice. One thread adds a quarter of a
// column; these sums leave the block after every tile. One thread adds a quarter of a row; these
// sums stay in registers to the end. Further blocks take further probes. At 12 operations of FP64
// for each stored element, arithmetic limits 16-bit formats, not memory.
//
// Sums are deterministic: they are added in the order of rows or columns within a quarter, then of
// quarters, then of blocks. Elements beyond the end of the matrix are 0.
#include "kernels/runtime/gpu/checksum_gpu.h"

#include <cstring>

#include "kernels/numerics/convert.h"
#include "kernels/numerics/poison.h"
#include "kernels/runtime/gpu/element.h"
#include "kernels/runtime/gpu/port.h"
#include "kernels/runtime/gpu/reduce.h"

namespace assay::inline kernels::gpu {
namespace {

using Word = unsigned long long;

constexpr int kThreads = 256;
constexpr int kTile = 64;                    // rows and columns
constexpr int kTileStride = kTile + 1;       // so that a column's elements lie in different banks
constexpr int kQuarters = kThreads / kTile;  // of a tile's column or row; one thread each
constexpr int kQuarter = kTile / kQuarters;
constexpr std::int64_t kSegment = 16 * kTile;  // columns of a block
constexpr int kProbes = 4;                     // of a block
constexpr int kSums = kProbes + 2;             // with the sums of magnitudes and squares

// The counts, which precede the sums in the result. A missing index is kNone.
struct Counts {
  Word zeros, nans, infs, unwritten;
  Word first_nan, first_inf, first_unwritten;
};
constexpr Word kNone = ~Word{0};

std::int64_t Ceil(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// The request in the form that the kernels take.
struct Pass {
  TensorView matrix;
  ProbeVectors right, left, row_weights, col_weights;
  int probes;
  int groups;  // of kProbes
  std::int64_t panels, segments;
  bool counts, payload;
  std::uint64_t poison;
  double* row_partials;  // [batch, segments, groups · kSums, rows]
  double* col_partials;  // [batch, panels, groups · kSums, cols]
  Counts* counted;
};

std::int64_t Groups(const ChecksumRequest& r) {
  const bool products = r.right.data != nullptr || r.left.data != nullptr;
  return products && r.probes > 0 ? Ceil(r.probes, kProbes) : 1;
}
std::int64_t RowPartials(const ChecksumRequest& r) {
  const Extents& x = r.matrix.extents;
  return x.batch * Ceil(x.cols, kSegment) * Groups(r) * kSums * x.rows;
}
std::int64_t ColPartials(const ChecksumRequest& r) {
  const Extents& x = r.matrix.extents;
  return x.batch * Ceil(x.rows, kTile) * Groups(r) * kSums * x.cols;
}

// The six sums, in the order of ChecksumSums: the lengths of the result's parts.
struct Part {
  std::int64_t count;  // 0: not asked for
  bool rows;
  int first, vectors;  // sums of a partial result: probes, or one of the last two of kSums
};
constexpr int kParts = 6;
void PartsOf(const ChecksumRequest& r, Part* parts) {
  const Extents& x = r.matrix.extents;
  const std::int64_t rows = x.batch * x.rows, cols = x.batch * x.cols;
  const auto if_asked = [](bool asked, std::int64_t n) { return asked ? n : 0; };
  parts[0] = {if_asked(r.right.data != nullptr, rows * r.probes), true, 0, r.probes};
  parts[1] = {if_asked(r.left.data != nullptr, cols * r.probes), false, 0, r.probes};
  parts[2] = {if_asked(r.row_weights.data != nullptr, rows), true, kProbes, 1};
  parts[3] = {if_asked(r.col_weights.data != nullptr, cols), false, kProbes, 1};
  parts[4] = {if_asked(r.squares, rows), true, kProbes + 1, 1};
  parts[5] = {if_asked(r.squares, cols), false, kProbes + 1, 1};
}

// ---- a stored element as a double ----

template <class Format>
struct LoadAs {
  static ASSAY_DEVICE_MEMBER double At(const TensorView& m, std::int64_t i) {
    return Format::Load(static_cast<const typename Format::Store*>(m.data)[i]);
  }
};
struct LoadAny {
  static ASSAY_DEVICE_MEMBER double At(const TensorView& m, std::int64_t i) {
    return LoadDouble(m.dtype, m.data, i);
  }
};

// ---- kernels ----

ASSAY_GLOBAL void ClearCounts(Counts* counted) {
  *counted = Counts{0, 0, 0, 0, kNone, kNone, kNone};
}

// Counts an element that is not finite. Such elements are rare.
ASSAY_OUTLINE void CountOther(const Pass& pass, std::int64_t at, double v, std::int64_t index) {
  Counts& c = *pass.counted;
  const bool nan = v != v;
  AtomicAdd(nan ? &c.nans : &c.infs, 1);
  const bool poison =
      pass.payload && LoadBits(pass.matrix.dtype, pass.matrix.data, at) == pass.poison;
  if (poison) AtomicAdd(&c.unwritten, 1);
  AtomicMin(poison ? &c.first_unwritten : (nan ? &c.first_nan : &c.first_inf),
            static_cast<Word>(index));
}

// Element i of vector k of matrix `batch`; 0 beyond the end.
ASSAY_DEVICE double VectorAt(const ProbeVectors& v, std::int64_t batch, int k, int vectors,
                             std::int64_t i, std::int64_t length) {
  if (v.data == nullptr || k >= vectors || i >= length) return 0.0;
  return v.data[batch * v.batch_stride + k * length + i];
}

// The probes' values and the weight of kTile rows or columns from `first` on, to shared memory.
template <class Shared>
ASSAY_DEVICE void ReadVectors(const ProbeVectors& probes, const ProbeVectors& weights,
                              std::int64_t batch, int group, int vectors, std::int64_t first,
                              std::int64_t length, Shared to) {
  for (int i = static_cast<int>(Thread().x); i < (kProbes + 1) * kTile; i += kThreads) {
    const int k = i / kTile;
    const std::int64_t at = first + i % kTile;
    to[i] = k < kProbes ? VectorAt(probes, batch, group * kProbes + k, vectors, at, length)
                        : VectorAt(weights, batch, 0, 1, at, length);
  }
}

// The tile of a matrix from a row and a column on, to shared memory; 0 beyond the end. If `counts`,
// elements that are not finite are counted, and the thread's zeros are returned.
template <class Load, class Shared>
ASSAY_DEVICE Word ReadTile(const Pass& pass, bool counts, std::int64_t batch, std::int64_t row0,
                           std::int64_t col0, Shared tile) {
  const Extents& x = pass.matrix.extents;
  const int line = static_cast<int>(Thread().x) % kTile;
  const int quarter = static_cast<int>(Thread().x) / kTile;
  const std::int64_t col = col0 + line;
  Word zeros = 0;
  ASSAY_UNROLL
  for (int i = 0; i < kQuarter; ++i) {
    const int tile_row = quarter + i * kQuarters;
    const std::int64_t row = row0 + tile_row;
    double v = 0.0;
    if (row < x.rows && col < x.cols) {
      const std::int64_t at = batch * x.batch_stride + row * x.ld + col;
      v = Load::At(pass.matrix, at);
      if (counts) {
        if (v == 0.0) ++zeros;
        if (!(v - v == 0.0)) CountOther(pass, at, v, (batch * x.rows + row) * x.cols + col);
      }
    }
    tile[tile_row * kTileStride + line] = v;
  }
  return zeros;
}

// Adds an element to a thread's six sums. `vectors` holds the probes' values and the weight, kTile
// apart.
template <class Shared>
ASSAY_DEVICE void Add(double v, Shared vectors, int at, double* sums) {
  ASSAY_UNROLL
  for (int k = 0; k < kProbes; ++k) sums[k] = Fma(v, vectors[k * kTile + at], sums[k]);
  const double magnitude = v < 0.0 ? -v : v;
  sums[kProbes] = Fma(magnitude, vectors[kProbes * kTile + at], sums[kProbes]);
  sums[kProbes + 1] = Fma(v, v, sums[kProbes + 1]);
}

// Adds the quarters' sums in shared memory and writes them, `stride` apart, for the first `count`
// rows or columns of the tile. It has its own barriers.
template <class Shared>
ASSAY_DEVICE void Leave(const double* sums, Shared room, std::int64_t count, double* out,
                        std::int64_t stride) {
  const int thread = static_cast<int>(Thread().x);
  SyncBlock();  // `room` has been read
  ASSAY_UNROLL
  for (int s = 0; s < kSums; ++s) room[s * kThreads + thread] = sums[s];
  SyncBlock();
  for (int i = thread; i < kSums * kTile; i += kThreads) {
    const int s = i / kTile, line = i % kTile;
    double sum = 0.0;
    for (int q = 0; q < kQuarters; ++q) sum += room[s * kThreads + q * kTile + line];
    if (line < count) out[s * stride + line] = sum;
  }
}

// The grid is [batch, groups, panels, segments].
template <class Load>
ASSAY_GLOBAL void ASSAY_BOUNDS(kThreads, 2) ChecksumTiles(ASSAY_GRID_CONSTANT const Pass pass) {
  ASSAY_SHARED(double, tile, kTile* kTileStride);
  ASSAY_SHARED(double, along_rows, (kProbes + 1) * kTile);  // right and row_weights
  ASSAY_SHARED(double, along_cols, (kProbes + 1) * kTile);  // left and col_weights
  static_assert(kSums * kThreads <= kTile * kTileStride);
  const Extents& x = pass.matrix.extents;
  const int line = static_cast<int>(Thread().x) % kTile;
  const int quarter = static_cast<int>(Thread().x) / kTile;
  std::int64_t block = Block().x;
  const std::int64_t segment = block % pass.segments;
  block /= pass.segments;
  const std::int64_t panel = block % pass.panels;
  block /= pass.panels;
  const int group = static_cast<int>(block % pass.groups);
  const std::int64_t batch = block / pass.groups;
  const std::int64_t row0 = panel * kTile;
  const std::int64_t begin = segment * kSegment;
  const std::int64_t end = begin + kSegment < x.cols ? begin + kSegment : x.cols;
  const std::int64_t sums_before = std::int64_t{group} * kSums;
  const std::int64_t all_sums = std::int64_t{pass.groups} * kSums;
  const bool counts = pass.counts && group == 0;
  ReadVectors(pass.left, pass.col_weights, batch, group, pass.probes, row0, x.rows, along_cols);

  double row_sums[kSums] = {};
  Word zeros = 0;
  for (std::int64_t col0 = begin; col0 < end; col0 += kTile) {
    SyncBlock();  // the tile before has been read
    ReadVectors(pass.right, pass.row_weights, batch, group, pass.probes, col0, x.cols, along_rows);
    zeros += ReadTile<Load>(pass, counts, batch, row0, col0, tile);
    SyncBlock();
    double col_sums[kSums] = {};
    for (int i = 0; i < kQuarter; ++i) {
      const int other = quarter * kQuarter + i;
      Add(tile[other * kTileStride + line], along_cols, other, col_sums);
      Add(tile[line * kTileStride + other], along_rows, other, row_sums);
    }
    Leave(col_sums, tile, end - col0,
          pass.col_partials + ((batch * pass.panels + panel) * all_sums + sums_before) * x.cols +
              col0,
          x.cols);
  }
  Leave(row_sums, tile, x.rows - row0,
        pass.row_partials + ((batch * pass.segments + segment) * all_sums + sums_before) * x.rows +
            row0,
        x.rows);
  if (counts) {
    zeros = WaveSum(zeros);
    if (Lane() == 0 && zeros != 0) AtomicAdd(&pass.counted->zeros, zeros);
  }
}

// out[batch, vector, i] = Σ partials[batch, part, sum of the vector, i] over the parts.
ASSAY_GLOBAL void ChecksumParts(const double* partials, std::int64_t parts, std::int64_t all_sums,
                                std::int64_t length, int first, int vectors, std::int64_t count,
                                double* out) {
  const std::int64_t at = std::int64_t{Block().x} * kThreads + Thread().x;
  if (at >= count) return;
  const std::int64_t i = at % length;
  const int vector = static_cast<int>(at / length % vectors);
  const std::int64_t batch = at / length / vectors;
  const int sum = first < kProbes ? vector / kProbes * kSums + vector % kProbes : first;
  double total = 0.0;
  for (std::int64_t p = 0; p < parts; ++p) {
    total += partials[((batch * parts + p) * all_sums + sum) * length + i];
  }
  out[at] = total;
}

template <class Load>
ErrorCode LaunchTiles(const Pass& pass, Stream stream) {
  const std::int64_t blocks = pass.segments * pass.panels * pass.groups * pass.matrix.extents.batch;
  return Launch(ChecksumTiles<Load>, Extent{static_cast<unsigned>(blocks), 1, 1},
                Extent{kThreads, 1, 1}, 0, stream, pass);
}

ErrorCode LaunchTilesOf(const Pass& pass, Stream stream) {
  switch (pass.matrix.dtype) {
    case DType::kF64:
      return LaunchTiles<LoadAs<Float64>>(pass, stream);
    case DType::kF32:
    case DType::kTF32:
      return LaunchTiles<LoadAs<Float32>>(pass, stream);
    case DType::kF16:
      return LaunchTiles<LoadAs<Half>>(pass, stream);
    case DType::kBF16:
      return LaunchTiles<LoadAs<BFloat>>(pass, stream);
    default:
      return LaunchTiles<LoadAny>(pass, stream);
  }
}

}  // namespace

std::int64_t ChecksumWorkspaceBytes(const ChecksumRequest& request) {
  return 8 * (RowPartials(request) + ColPartials(request));
}

std::int64_t ChecksumResultBytes(const ChecksumRequest& request) {
  Part parts[kParts];
  PartsOf(request, parts);
  std::int64_t bytes = sizeof(Counts);
  for (const Part& part : parts) bytes += 8 * part.count;
  return bytes;
}

ErrorCode LaunchChecksum(const ChecksumRequest& request, void* workspace, void* result,
                         Stream stream) {
  const Extents& x = request.matrix.extents;
  Pass pass{};
  pass.matrix = request.matrix;
  pass.right = request.right;
  pass.left = request.left;
  pass.row_weights = request.row_weights;
  pass.col_weights = request.col_weights;
  pass.probes = request.probes;
  pass.groups = static_cast<int>(Groups(request));
  pass.panels = Ceil(x.rows, kTile);
  pass.segments = Ceil(x.cols, kSegment);
  pass.counts = request.counts;
  pass.payload = HasPoisonPayload(request.matrix.dtype);
  pass.poison = PoisonBits(request.matrix.dtype, Poison::kFirst);
  pass.row_partials = static_cast<double*>(workspace);
  pass.col_partials = pass.row_partials + RowPartials(request);
  pass.counted = static_cast<Counts*>(result);
  ErrorCode error = Launch(ClearCounts, Extent{1, 1, 1}, Extent{1, 1, 1}, 0, stream, pass.counted);
  if (error == kOk) error = LaunchTilesOf(pass, stream);

  Part parts[kParts];
  PartsOf(request, parts);
  double* out = reinterpret_cast<double*>(static_cast<unsigned char*>(result) + sizeof(Counts));
  for (const Part& part : parts) {
    if (error != kOk) return error;
    if (part.count == 0) continue;
    error = Launch(ChecksumParts, Extent{static_cast<unsigned>(Ceil(part.count, kThreads)), 1, 1},
                   Extent{kThreads, 1, 1}, 0, stream,
                   static_cast<const double*>(part.rows ? pass.row_partials : pass.col_partials),
                   part.rows ? pass.segments : pass.panels, std::int64_t{pass.groups} * kSums,
                   part.rows ? x.rows : x.cols, part.first, part.vectors, part.count, out);
    out += part.count;
  }
  return error;
}

ChecksumSums UnpackChecksum(const void* result, const ChecksumRequest& request) {
  Counts c;
  std::memcpy(&c, result, sizeof c);
  ChecksumSums sums;
  if (request.counts) {
    sums.zero_count = static_cast<std::int64_t>(c.zeros);
    sums.nan_count = static_cast<std::int64_t>(c.nans);
    sums.inf_count = static_cast<std::int64_t>(c.infs);
    sums.unwritten = static_cast<std::int64_t>(c.unwritten);
    sums.first_nan = static_cast<std::int64_t>(c.first_nan);  // kNone is -1
    sums.first_inf = static_cast<std::int64_t>(c.first_inf);
    sums.first_unwritten = static_cast<std::int64_t>(c.first_unwritten);
  }
  Part parts[kParts];
  PartsOf(request, parts);
  std::vector<double>* const all[kParts] = {&sums.row_products, &sums.col_products,
                                            &sums.row_absolute, &sums.col_absolute,
                                            &sums.row_squares,  &sums.col_squares};
  const auto* from =
      reinterpret_cast<const double*>(static_cast<const unsigned char*>(result) + sizeof(Counts));
  for (int i = 0; i < kParts; ++i) {
    all[i]->assign(from, from + parts[i].count);
    from += parts[i].count;
  }
  return sums;
}

}  // namespace assay::kernels::gpu
