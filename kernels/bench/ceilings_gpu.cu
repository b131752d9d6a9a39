// Kernels whose time shows a GPU's ceilings.
//
// Memory: an access has 16 bytes, and neighbouring threads access neighbouring words. A thread
// starts kAhead accesses before it uses the first. Copies, triads and writes have one thread for
// every kAhead accesses. The read kernel has few blocks that stay, so that its additions cost
// nothing.
// Arithmetic: each thread computes kChains chains of dependent multiply-adds. With the eight waves
// of a block, that more than covers the latency of a multiply-add. The results are written, so that
// no compiler removes the work.
#include "kernels/bench/ceilings_gpu.h"
#include "kernels/runtime/gpu/element.h"
#include "kernels/runtime/gpu/port.h"
#include "kernels/runtime/gpu/port_matrix.h"

namespace assay::inline kernels::gpu {
namespace {

constexpr int kThreads = 256;
constexpr int kAhead = 4;

struct alignas(16) Words {
  std::uint32_t v[4];
};

Extent StreamGrid(std::int64_t bytes) {
  const std::int64_t each = std::int64_t{kThreads} * kAhead * 16;
  return {static_cast<unsigned>((bytes + each - 1) / each), 1, 1};
}

// The index of a thread's access number `i`.
ASSAY_DEVICE std::int64_t AccessOf(int i) {
  return (std::int64_t{Block().x} * kAhead + i) * kThreads + Thread().x;
}

ASSAY_GLOBAL void StreamCopy(const Words* from, Words* to, std::int64_t count) {
  Words held[kAhead];
  ASSAY_UNROLL
  for (int i = 0; i < kAhead; ++i) {
    if (AccessOf(i) < count) held[i] = from[AccessOf(i)];
  }
  ASSAY_UNROLL
  for (int i = 0; i < kAhead; ++i) {
    if (AccessOf(i) < count) to[AccessOf(i)] = held[i];
  }
}

ASSAY_GLOBAL void StreamTriad(const Pack<Float32, 4>* a, const Pack<Float32, 4>* b, float factor,
                              Pack<Float32, 4>* to, std::int64_t count) {
  Pack<Float32, 4> left[kAhead];
  Pack<Float32, 4> right[kAhead];
  ASSAY_UNROLL
  for (int i = 0; i < kAhead; ++i) {
    if (AccessOf(i) < count) {
      left[i] = a[AccessOf(i)];
      right[i] = b[AccessOf(i)];
    }
  }
  ASSAY_UNROLL
  for (int i = 0; i < kAhead; ++i) {
    if (AccessOf(i) < count) {
      ASSAY_UNROLL
      for (int e = 0; e < 4; ++e) left[i].v[e] = Fma(factor, right[i].v[e], left[i].v[e]);
      to[AccessOf(i)] = left[i];
    }
  }
}

ASSAY_GLOBAL void StreamRead(const Words* from, std::int64_t count, unsigned long long* sum) {
  const std::int64_t step = std::int64_t{GridExtent().x} * kThreads * kAhead;
  unsigned long long mine = 0;
  for (std::int64_t at = AccessOf(0); at < count; at += step) {
    Words held[kAhead] = {};
    ASSAY_UNROLL
    for (int i = 0; i < kAhead; ++i) {
      const std::int64_t access = at + std::int64_t{i} * kThreads;
      if (access < count) held[i] = from[access];
    }
    ASSAY_UNROLL
    for (int i = 0; i < kAhead; ++i) {
      ASSAY_UNROLL
      for (int w = 0; w < 4; ++w) mine += held[i].v[w];
    }
  }
  for (int by = WaveWidth() / 2; by > 0; by /= 2) mine += ShuffleXor(mine, by);
  if (Lane() == 0) AtomicAdd(sum, mine);
}

ASSAY_DEVICE std::int64_t GlobalThread() {
  return std::int64_t{Block().x} * kChainThreads + Thread().x;
}

template <class T>
ASSAY_GLOBAL void MultiplyAddChains(int rounds, T multiplier, T addend, T* sums) {
  T x[kChains];
  ASSAY_UNROLL
  for (int c = 0; c < kChains; ++c) x[c] = T{1} / static_cast<T>(1 + c);
  ASSAY_UNROLL_BY_4
  for (int r = 0; r < rounds; ++r) {
    ASSAY_UNROLL
    for (int c = 0; c < kChains; ++c) x[c] = Fma(x[c], multiplier, addend);
  }
  T sum = 0;
  ASSAY_UNROLL
  for (int c = 0; c < kChains; ++c) sum += x[c];
  sums[GlobalThread()] = sum;
}

ASSAY_DEVICE std::uint32_t Twice(float v) { return TwoCodes(ToHalf(v), ToHalf(v)); }

ASSAY_GLOBAL void HalfChains(int rounds, float multiplier, float addend, float* sums) {
  const std::uint32_t by = Twice(multiplier);
  const std::uint32_t more = Twice(addend);
  std::uint32_t x[kChains];
  ASSAY_UNROLL
  for (int c = 0; c < kChains; ++c) x[c] = Twice(1.0F / static_cast<float>(1 + c));
  ASSAY_UNROLL_BY_4
  for (int r = 0; r < rounds; ++r) {
    ASSAY_UNROLL
    for (int c = 0; c < kChains; ++c) x[c] = FmaTwoHalves(x[c], by, more);
  }
  float sum = 0;
  ASSAY_UNROLL
  for (int c = 0; c < kChains; ++c) sum += FromHalf(CodeOf(x[c], 0)) + FromHalf(CodeOf(x[c], 1));
  sums[GlobalThread()] = sum;
}

template <class Format>
ASSAY_GLOBAL void MatrixProducts(int rounds, float* sums) {
  constexpr DType kFormat = Format::kBrain ? DType::kBF16 : DType::kF16;
  const auto lane = static_cast<std::uint32_t>(MatrixLane());
  FragmentA a;
  FragmentB b;
  ASSAY_UNROLL
  for (int w = 0; w < 4; ++w) a.word[w] = MatrixOperand(kFormat, lane, static_cast<unsigned>(w));
  ASSAY_UNROLL
  for (int w = 0; w < 2; ++w) {
    b.word[w] = MatrixOperand(kFormat, lane, static_cast<unsigned>(w + 4));
  }
  // The chains begin with different numbers, so that no compiler merges them.
  FragmentD d[kChains];
  ASSAY_UNROLL
  for (int c = 0; c < kChains; ++c) {
    const auto start = static_cast<float>(c);
    d[c] = {{start, start, start, start}};
  }
  for (int r = 0; r < rounds; ++r) {
    ASSAY_UNROLL
    for (int c = 0; c < kChains; ++c) Multiply<Format>(d[c], a, b);
  }
  float sum = 0;
  ASSAY_UNROLL
  for (int c = 0; c < kChains; ++c) {
    ASSAY_UNROLL
    for (int v = 0; v < 4; ++v) sum += d[c].value[v];
  }
  sums[GlobalThread()] = sum;
}

const Extent kBlock{kThreads, 1, 1};

Extent Blocks(int blocks) { return {static_cast<unsigned>(blocks), 1, 1}; }

}  // namespace

ErrorCode LaunchStreamCopy(const void* from, void* to, std::int64_t bytes, Stream stream) {
  return Launch(StreamCopy, StreamGrid(bytes), kBlock, 0, stream, static_cast<const Words*>(from),
                static_cast<Words*>(to), bytes / 16);
}

ErrorCode LaunchStreamTriad(const float* a, const float* b, float factor, float* to,
                            std::int64_t bytes, Stream stream) {
  using Floats = Pack<Float32, 4>;
  return Launch(StreamTriad, StreamGrid(bytes), kBlock, 0, stream,
                reinterpret_cast<const Floats*>(a), reinterpret_cast<const Floats*>(b), factor,
                reinterpret_cast<Floats*>(to), bytes / 16);
}

ErrorCode LaunchStreamRead(const void* from, std::int64_t bytes, int blocks,
                           unsigned long long* sum, Stream stream) {
  return Launch(StreamRead, Blocks(blocks), kBlock, 0, stream, static_cast<const Words*>(from),
                bytes / 16, sum);
}

ErrorCode LaunchMultiplyAdds(DType dtype, int blocks, int rounds, double multiplier, double addend,
                             void* sums, Stream stream) {
  const Extent block{kChainThreads, 1, 1};
  if (dtype == DType::kF64) {
    return Launch(MultiplyAddChains<double>, Blocks(blocks), block, 0, stream, rounds, multiplier,
                  addend, static_cast<double*>(sums));
  }
  const auto by = static_cast<float>(multiplier);
  const auto more = static_cast<float>(addend);
  auto* const out = static_cast<float*>(sums);
  return dtype == DType::kF16
             ? Launch(HalfChains, Blocks(blocks), block, 0, stream, rounds, by, more, out)
             : Launch(MultiplyAddChains<float>, Blocks(blocks), block, 0, stream, rounds, by, more,
                      out);
}

ErrorCode LaunchMatrixProducts(DType dtype, int blocks, int rounds, float* sums, Stream stream) {
  const Extent block{kChainThreads, 1, 1};
  return dtype == DType::kBF16
             ? Launch(MatrixProducts<BFloat>, Blocks(blocks), block, 0, stream, rounds, sums)
             : Launch(MatrixProducts<Half>, Blocks(blocks), block, 0, stream, rounds, sums);
}

}  // namespace assay::kernels::gpu
