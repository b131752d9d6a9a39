// Fills tensors of a GPU, with the bits of kernels/numerics/generate.h.
//
// FillDense makes normal and uniform data of floating-point formats up to 32 bits, if the tensor is
// dense and aligned to 16 bytes. A thread makes 16 bytes at a time, 4 elements from each Philox
// block, and stores them at once. If normal elements have 16 bits or fewer, the instructions take
// longer than the writes. There are 27 for a normal deviate and 13 for a uniform one; 9 of them are
// for the Philox rounds. The code and the loop add a few more.
//
// FillKeyGroups makes the data of attention's exact case. FillAny makes every other pattern,
// format and stride: 4 elements of storage for each thread, with the scalar code of
// kernels/numerics itself. LaunchSetCode serves patterns of one value. Small tensors of different
// formats and patterns share one launch of FillAny, because they are done before another launch
// would begin.
//
// All operations are exactly rounded or on integers, so every device has the same bits.
#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>
#include <vector>

#include "kernels/numerics/convert.h"
#include "kernels/numerics/generate.h"
#include "kernels/numerics/key_groups.h"
#include "kernels/numerics/normal.h"
#include "kernels/numerics/philox.h"
#include "kernels/runtime/gpu/fill_codes.h"
#include "kernels/runtime/gpu/primitives.h"
#include "kernels/runtime/gpu/runs.h"
#include "kernels/runtime/gpu/set_code.h"

namespace assay::inline kernels::gpu {
namespace {

// The table of coefficients as an argument of a kernel, because device code cannot read an array of
// the host.
struct NormalTable {
  float rows[kNormalOctaves][kNormalDegree + 1];
};
NormalTable CopyNormalTable() {
  NormalTable table;
  for (int lz = 0; lz < kNormalOctaves; ++lz) {
    for (int k = 0; k <= kNormalDegree; ++k) table.rows[lz][k] = kNormalCoefficients[lz][k];
  }
  return table;
}

// The stream of random words for a tensor.
struct WordStream {
  std::uint64_t seed;
  std::uint32_t tensor_id;
  std::uint32_t epoch;
};

template <class Job>
struct Batch {
  Job jobs[kFillsOfALaunch];
};
template <class Job>
inline constexpr bool kFitsALaunch =
    sizeof(Batch<Job>) + sizeof(NormalTable) <= kMostParameterBytes;

// ---- Dense data of the common kinds

// The polynomials of the normal deviates, in shared memory. Each octave has an entry in three rows:
// coefficients 6 to 3; 2 and 1; 0. The entries of an octave lie at one address and at fixed
// distances from it. Seven words are read and not eight, because these reads (32 words a clock)
// take about as long as the instructions. Nearly every word belongs to one of eight octaves, which
// lie in different banks.
struct alignas(16) Coefficients {
  float c[4];
};
constexpr unsigned kTableEntries = 3 * kNormalOctaves;
static_assert(kNormalDegree == 6);

// The place of an octave in its row, from the exponent field of a float in [1, 2^32).
ASSAY_DEVICE std::uint32_t SlotOf(std::uint32_t exponent) { return exponent - 127; }

// The exponent field, v >> 23, in one instruction. If this were a shift, the compiler would merge
// it with the scaling of the slot, and then need a shift and a mask.
ASSAY_DEVICE std::uint32_t ExponentOf(std::uint32_t v) { return MultiplyWide(v, 1U << 9).high; }

// A Philox block of the stream (kernels/numerics/philox.h), with 32-bit products. c0 and c1 are the
// words of its index. If c1 is the same for all threads, so is half of the first two rounds.
ASSAY_DEVICE PhiloxBlock BlockOf(const WordStream& words, std::uint32_t c0, std::uint32_t c1) {
  std::uint32_t c2 = words.tensor_id;
  std::uint32_t c3 = words.epoch;
  std::uint32_t key0 = static_cast<std::uint32_t>(words.seed);
  std::uint32_t key1 = static_cast<std::uint32_t>(words.seed >> 32);
  ASSAY_UNROLL
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const WideProduct p0 = MultiplyWide(kPhiloxM0, c0);
    const WideProduct p1 = MultiplyWide(kPhiloxM1, c2);
    c0 = p1.high ^ c1 ^ key0;
    c1 = p1.low;
    c2 = p0.high ^ c3 ^ key1;
    c3 = p0.low;
    key0 += kPhiloxW0;
    key1 += kPhiloxW1;
  }
  return {c0, c1, c2, c3};
}

struct Normal {
  static constexpr bool kFromTable = true;
  float sigma;
  float mean;

  // NormalFromWord. A conversion to float that drops the excess bits replaces the shifts by the
  // number of leading zeros. The mantissa alone, read as a subnormal, is f; the product is exact.
  template <class Table>
  ASSAY_DEVICE_MEMBER float Value(std::uint32_t x, const Table& table) const {
    const std::uint32_t v = TruncatedToFloatBits((x << 1) | 1U);
    const float f = FloatOf(v & 0x7fffffU) * 0x1p126F;
    const std::uint32_t slot = SlotOf(ExponentOf(v));
    const Coefficients& upper = table[slot];
    const Coefficients& middle = table[kNormalOctaves + slot];
    float r = Fma(upper.c[0], f, upper.c[1]);
    r = Fma(r, f, upper.c[2]);
    r = Fma(r, f, upper.c[3]);
    r = Fma(r, f, middle.c[0]);
    r = Fma(r, f, middle.c[1]);
    r = Fma(r, f, table[2 * kNormalOctaves + slot].c[0]);
    return Fma(sigma, FloatOf(BitsOf(r) ^ (x & 0x80000000U)), mean);
  }
};

struct Uniform {
  static constexpr bool kFromTable = false;
  float lo;
  float step;      // 2^-24 of the width, exactly
  float below_hi;  // the largest value

  template <class Table>
  ASSAY_DEVICE_MEMBER float Value(std::uint32_t x, const Table&) const {
    const float v = Fma(static_cast<float>(x >> 8), step, lo);
    return -MaxNumber(-v, -below_hi);  // the smaller of the two
  }
};

template <class Draw>
struct DenseFill {
  Draw draw;
  WordStream words;
  unsigned char* data;
  std::int64_t count;
};

static_assert(kFitsALaunch<DenseFill<Normal>> && kFitsALaunch<DenseFill<Uniform>>);

// Philox blocks that a thread covers with 32-bit indices. c1 is then the same for all threads.
constexpr std::uint32_t kBlocksOfPart = std::uint32_t{1} << 31;

template <DType T, class Draw>
ASSAY_GLOBAL void FillDense(Batch<DenseFill<Draw>> batch, NormalTable table) {
  ASSAY_SHARED(Coefficients, coefficients, kTableEntries);
  ASSAY_SHARED(float, mean, 1);
  const DenseFill<Draw> job = batch.jobs[Block().y];
  Draw draw = job.draw;
  if constexpr (Draw::kFromTable) {
    for (unsigned lz = Thread().x; lz < kNormalOctaves; lz += BlockExtent().x) {
      const std::uint32_t slot = SlotOf(158 - lz);  // of 2^(31 − lz): bias 127
      const float* c = table.rows[lz];
      coefficients[slot] = {{c[6], c[5], c[4], c[3]}};
      coefficients[kNormalOctaves + slot] = {{c[2], c[1], 0, 0}};
      coefficients[2 * kNormalOctaves + slot] = {{c[0], 0, 0, 0}};
    }
    if (Thread().x == 0) mean[0] = job.draw.mean;
    SyncBlock();
    // As a kernel parameter, the mean would be loaded again for every element, because an
    // instruction takes only one parameter.
    draw.mean = mean[0];
  }
  constexpr unsigned kBits = StorageBits(T);
  constexpr unsigned kElements = 128 / kBits;
  constexpr unsigned kBlocks = kElements / 4;
  constexpr std::int64_t kUnitsOfPart = kBlocksOfPart / kBlocks;
  constexpr std::int64_t kElementsOfPart = kUnitsOfPart * kElements;
  Bytes16* data = reinterpret_cast<Bytes16*>(job.data);
  std::uint64_t block = 0;
  for (std::int64_t left = job.count; left > 0; left -= kElementsOfPart) {
    const std::int64_t count = left < kElementsOfPart ? left : kElementsOfPart;
    const auto units = static_cast<std::uint32_t>((count + kElements - 1) / kElements);
    const auto whole = static_cast<std::uint32_t>(count / kElements);
    const auto c0 = static_cast<std::uint32_t>(block);
    const auto c1 = static_cast<std::uint32_t>(block >> 32);
    for (auto unit = static_cast<std::uint32_t>(FirstItem()); unit < units;
         unit += static_cast<std::uint32_t>(ItemStep())) {
      float v[kElements];
      ASSAY_UNROLL
      for (unsigned b = 0; b < kBlocks; ++b) {
        const PhiloxBlock x = BlockOf(job.words, c0 + unit * kBlocks + b, c1);
        ASSAY_UNROLL
        for (unsigned i = 0; i < 4; ++i) v[b * 4 + i] = draw.Value(x[i], coefficients);
      }
      Bytes16 out;
      ASSAY_UNROLL
      for (unsigned w = 0; w < 4; ++w) out.v[w] = FillWord<T>(v + w * (32 / kBits));
      if (unit < whole) {
        data[unit] = out;
        continue;
      }
      const std::int64_t begin = job.count / kElements * kElements;
      ASSAY_UNROLL
      for (unsigned e = 0; e < kElements; ++e) {
        if (begin + e < job.count) {
          StoreBits(T, job.data, begin + e, out.v[e * kBits / 32] >> (e * kBits % 32));
        }
      }
      return;  // the last unit is done
    }
    data += kUnitsOfPart;
    block += kBlocksOfPart;
  }
}

// ---- All other data

struct AnyFill {
  Pattern pattern;
  WordStream words;
  Runs to;
  std::int64_t rows;
  std::int64_t cols;
};

static_assert(kFitsALaunch<AnyFill>);

constexpr int kAnyShift = 2;  // a chunk of 4 elements has at most two Philox blocks

// If runs share bytes, a single thread takes all chunks of a job.
ASSAY_GLOBAL void FillAny(Batch<AnyFill> batch, NormalTable table) {
  const AnyFill& job = batch.jobs[Block().y];
  const Pattern pattern = job.pattern;
  const DType dtype = job.to.dtype;
  const bool draws = DrawsFirst(pattern.kind);
  const bool draws_second = draws && (DrawsSecond(pattern.kind) || dtype == DType::kF64);
  const bool alone = job.to.shared_bytes;
  if (alone && FirstItem() != 0) return;
  const std::int64_t step = alone ? 1 : ItemStep();
  const std::int64_t chunks = job.to.count / job.to.length * ChunksOfRun(job.to, kAnyShift);
  for (std::int64_t id = FirstItem(); id < chunks; id += step) {
    const Chunk chunk = ChunkOf(job.to, id, kAnyShift);
    std::int64_t block = -1;
    PhiloxBlock x = {};
    PhiloxBlock y = {};
    for (int i = 0; i < chunk.n; ++i) {
      const std::int64_t index = chunk.logical + i;
      const std::int64_t col = index % job.cols;
      std::uint64_t code = 0;
      if (draws) {
        if (index >> 2 != block) {
          block = index >> 2;
          const auto counter = static_cast<std::uint64_t>(block);
          x = PhiloxAt(job.words.seed, job.words.tensor_id, job.words.epoch, counter);
          if (draws_second) {
            y = PhiloxAt(job.words.seed, job.words.tensor_id ^ kSecondStream, job.words.epoch,
                         counter);
          }
        }
        const auto word = static_cast<unsigned>(index & 3);
        code = DrawnBits(pattern, dtype, x[word], y[word], col, table.rows);
      } else if (IsUnits(pattern.kind)) {
        const UnitPlaces units(pattern, job.rows, job.cols);
        const bool one = units.IsOne(index / job.cols, col);
        code = RoundForFill(one ? UnitValue(pattern, dtype) : UnitRest(pattern), dtype);
      } else {
        const std::int64_t row = index / job.cols % job.rows;
        code = PlacedBits(pattern, PlacedValue(pattern, index, row, col, job.cols), dtype);
      }
      StoreBits(dtype, job.to.data, chunk.offset + i, code);
    }
  }
}

// Makes operands of attention's exact case. A thread makes 4 elements, of one row or more.
ASSAY_GLOBAL void FillKeyGroups(Runs to, std::int64_t rows, std::int64_t cols, bool mask,
                                CodedRows coded, KeyGroups groups, std::uint64_t plus,
                                std::uint64_t minus, std::uint64_t first) {
  const std::int64_t chunks = to.count / to.length * ChunksOfRun(to, kAnyShift);
  for (std::int64_t id = FirstItem(); id < chunks; id += ItemStep()) {
    const Chunk chunk = ChunkOf(to, id, kAnyShift);
    std::int64_t coded_row = -1;
    GroupCode group;
    for (int i = 0; i < chunk.n; ++i) {
      const std::int64_t col = (chunk.logical + i) % cols;
      const std::int64_t row = (chunk.logical + i) / cols;  // counted over all batches
      std::uint64_t code = 0;
      if (mask) {
        if (groups.Keeps(row % rows, col)) code = plus;
      } else {
        if (row != coded_row) {
          coded_row = row;
          group = coded.Code(row / rows, row % rows);
        }
        for (int e = 0; e < group.weight; ++e) {
          if (group.at[e] == col) code = group.negative[e] ? minus : plus;
        }
        if (col == 0 && first != 0) code = first;
      }
      StoreBits(to.dtype, to.data, chunk.offset + i, code);
    }
  }
}

// ---- Launches

WordStream WordsOf(const FillJob& job) { return {job.seed, job.tensor_id, job.epoch}; }

// Whether the pattern has the same value everywhere.
bool IsOneValue(PatternKind kind) {
  switch (kind) {
    case PatternKind::kConstant:
    case PatternKind::kZeros:
    case PatternKind::kOnes:
    case PatternKind::kAllInf:
    case PatternKind::kAllNegInf:
      return true;
    default:
      return false;
  }
}

// 6.4 times this value plus the value itself is finite.
constexpr double kLargestParameter = 1e37;
// FillCode needs values that are +0 or normal floats. Normal deviates are multiples of 2^-44 and
// never 0; uniform ones are multiples of 2^-24. Times a float of kLeastScale or more, they are
// multiples of 2^-117. Floats of kLeastOffset or more are multiples of 2^-123. So the sum is such a
// multiple, too: it is 0 or a normal number. A 0 is +0 unless the offset is -0.
constexpr float kLeastScale = 0x1p-50F;
constexpr float kLeastOffset = 0x1p-100F;

bool StaysNormal(float scale, float offset) {
  const bool positive_zero = offset == 0 && !std::signbit(offset);
  return scale >= kLeastScale && (positive_zero || std::fabs(offset) >= kLeastOffset);
}

void DrawOf(const Pattern& p, Normal* draw) {
  *draw = {static_cast<float>(p.a), static_cast<float>(p.b)};
}
void DrawOf(const Pattern& p, Uniform* draw) {
  const auto lo = static_cast<float>(p.a);
  const auto hi = static_cast<float>(p.b);
  const float below_hi = std::nextafter(hi, lo);
  *draw = {lo, (hi - lo) * 0x1p-24F, std::isnormal(below_hi) ? below_hi : 0.0F};
}

bool TakesDense(const FillJob& job) {
  const DType t = job.dst.dtype;
  // These parameters give finite values for every draw. NaN fails the test.
  if (!(std::fabs(job.pattern.a) < kLargestParameter &&
        std::fabs(job.pattern.b) < kLargestParameter)) {
    return false;
  }
  const auto a = static_cast<float>(job.pattern.a);
  const auto b = static_cast<float>(job.pattern.b);
  const bool normal = job.pattern.kind == PatternKind::kNormal && StaysNormal(std::fabs(a), b);
  const bool uniform = job.pattern.kind == PatternKind::kUniform && StaysNormal(b - a, a);
  return (normal || uniform) && t != DType::kF64 && !internal::IsInteger(t) &&
         job.dst.extents.dense() && reinterpret_cast<std::uintptr_t>(job.dst.data) % 16 == 0;
}

// Launches jobs of one kind of data and one format.
template <DType T, class Draw>
ErrorCode LaunchDense(std::span<const FillJob> jobs, Stream stream) {
  Batch<DenseFill<Draw>> batch = {};
  std::int64_t units = 0;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const FillJob& job = jobs[i];
    DenseFill<Draw>& fill = batch.jobs[i];
    DrawOf(job.pattern, &fill.draw);
    fill.words = WordsOf(job);
    fill.data = job.dst.as<unsigned char>();
    fill.count = job.dst.count();
    units = std::max(units, (fill.count * StorageBits(T) + 127) / 128);
  }
  return Launch(FillDense<T, Draw>, Extent{BlocksFor(units), static_cast<unsigned>(jobs.size()), 1},
                Extent{kThreads, 1, 1}, 0, stream, batch, CopyNormalTable());
}

template <class Draw>
ErrorCode LaunchDenseOf(DType t, std::span<const FillJob> jobs, Stream stream) {
  switch (t) {
    case DType::kTF32:
      return LaunchDense<DType::kTF32, Draw>(jobs, stream);
    case DType::kF16:
      return LaunchDense<DType::kF16, Draw>(jobs, stream);
    case DType::kBF16:
      return LaunchDense<DType::kBF16, Draw>(jobs, stream);
    case DType::kE4M3FN:
      return LaunchDense<DType::kE4M3FN, Draw>(jobs, stream);
    case DType::kE4M3FNUZ:
      return LaunchDense<DType::kE4M3FNUZ, Draw>(jobs, stream);
    case DType::kE5M2:
      return LaunchDense<DType::kE5M2, Draw>(jobs, stream);
    case DType::kE5M2FNUZ:
      return LaunchDense<DType::kE5M2FNUZ, Draw>(jobs, stream);
    case DType::kE2M1:
      return LaunchDense<DType::kE2M1, Draw>(jobs, stream);
    default:
      return LaunchDense<DType::kF32, Draw>(jobs, stream);
  }
}

ErrorCode LaunchAny(std::span<const FillJob> jobs, Stream stream) {
  Batch<AnyFill> batch = {};
  std::int64_t chunks = 1;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const FillJob& job = jobs[i];
    const Extents& e = job.dst.extents;
    batch.jobs[i] = {job.pattern, WordsOf(job), RunsOf(job.dst), e.rows, e.cols};
    const Runs& to = batch.jobs[i].to;
    if (!to.shared_bytes) chunks = std::max(chunks, ChunksOf(to, kAnyShift));
  }
  return Launch(FillAny, Extent{BlocksFor(chunks), static_cast<unsigned>(jobs.size()), 1},
                Extent{kThreads, 1, 1}, 0, stream, batch, CopyNormalTable());
}

ErrorCode LaunchKeyGroups(const FillJob& job, Stream stream) {
  const Extents& e = job.dst.extents;
  const bool mask = job.pattern.kind == PatternKind::kKeyMask;
  const Runs to = RunsOf(job.dst);
  const CodedRows coded(job.pattern, e.rows, e.cols);
  const auto code = [&](double value) { return RoundForFill(value, job.dst.dtype); };
  return LaunchOver(ChunksOf(to, kAnyShift), to.shared_bytes, stream, FillKeyGroups, to, e.rows,
                    e.cols, mask, coded, KeyGroups(e.rows, e.cols, job.pattern.a != 0),
                    code(mask ? 1.0 : job.pattern.a), code(-job.pattern.a),
                    code(mask ? 0.0 : coded.First() * job.pattern.a));
}

// Decides which launch a job goes into.
enum class Path : std::uint8_t { kOneValue, kKeyGroups, kDenseNormal, kDenseUniform, kAny };

Path PathOf(const FillJob& job) {
  const PatternKind kind = job.pattern.kind;
  if (IsOneValue(kind)) return Path::kOneValue;
  if (IsKeyGroups(kind)) return Path::kKeyGroups;
  if (!TakesDense(job)) return Path::kAny;
  return kind == PatternKind::kNormal ? Path::kDenseNormal : Path::kDenseUniform;
}

// A tensor of at most this many elements may use FillAny to share a launch: 8192 threads of 4
// elements. That is an eighth of what the smallest data centre device holds at once.
constexpr std::int64_t kSmallFill = 1 << 15;

bool IsSmall(const FillJob& job) {
  return job.dst.count() <= kSmallFill && !IsKeyGroups(job.pattern.kind);
}

// Whether two jobs take the same path and can share its launch. On the dense paths they need the
// same format, too.
bool GoAlike(const FillJob& a, const FillJob& b) {
  const Path path = PathOf(a);
  if (path != PathOf(b) || path == Path::kOneValue || path == Path::kKeyGroups) return false;
  return path == Path::kAny || a.dst.dtype == b.dst.dtype;
}

bool Overlap(const TensorView& a, const TensorView& b) {
  const auto* at = a.as<unsigned char>();
  const auto* other = b.as<unsigned char>();
  return at < other + b.bytes() && other < at + a.bytes();
}

ErrorCode LaunchOne(const FillJob& job, Path path, Stream stream) {
  if (path == Path::kKeyGroups) return LaunchKeyGroups(job, stream);
  const double value = PlacedValue(job.pattern, 0, 0, 0, 1);
  return LaunchSetCode(RoundForFill(value, job.dst.dtype), job.dst, stream);
}

// Launches jobs that either all take the same path or are all small.
ErrorCode LaunchTogether(std::span<const FillJob> jobs, Stream stream) {
  const FillJob& first = jobs.front();
  const Path path = PathOf(first);
  if (jobs.size() == 1 && (path == Path::kOneValue || path == Path::kKeyGroups)) {
    return LaunchOne(first, path, stream);
  }
  for (const FillJob& job : jobs.subspan(1)) {
    if (!GoAlike(first, job)) return LaunchAny(jobs, stream);
  }
  switch (path) {
    case Path::kDenseNormal:
      return LaunchDenseOf<Normal>(first.dst.dtype, jobs, stream);
    case Path::kDenseUniform:
      return LaunchDenseOf<Uniform>(first.dst.dtype, jobs, stream);
    default:
      return LaunchAny(jobs, stream);
  }
}

// Takes the jobs of one launch out of `waiting`: the first, and those that can share its launch.
std::vector<FillJob> TakeTogether(std::vector<FillJob>& waiting) {
  std::vector<FillJob> jobs, left;
  for (const FillJob& job : waiting) {
    const auto overlaps = [&job](const FillJob& before) { return Overlap(before.dst, job.dst); };
    // If two jobs write the same memory, their order is kept.
    const bool free = std::none_of(jobs.begin(), jobs.end(), overlaps) &&
                      std::none_of(left.begin(), left.end(), overlaps);
    const bool joins =
        jobs.empty() || (IsSmall(jobs.front()) ? IsSmall(job) : GoAlike(jobs.front(), job));
    const bool goes = joins && free && jobs.size() < kFillsOfALaunch;
    (goes ? jobs : left).push_back(job);
  }
  waiting = std::move(left);
  return jobs;
}

}  // namespace

ErrorCode LaunchFills(std::span<const FillJob> jobs, Stream stream) {
  std::vector<FillJob> waiting;
  for (const FillJob& job : jobs) {
    if (job.dst.count() > 0) waiting.push_back(job);
  }
  while (!waiting.empty()) {
    const ErrorCode code = LaunchTogether(TakeTogether(waiting), stream);
    if (code != kOk) return code;
  }
  return kOk;
}

}  // namespace assay::kernels::gpu
