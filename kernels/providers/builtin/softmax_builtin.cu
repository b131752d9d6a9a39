// softmax along the rows of x [rows, cols], for GPUs.
//
//   m = max_j x_j        s = Σ_j exp(x_j − m)        y_j = exp(x_j − m) / s
//
// fp16, bf16 or fp32 in; maximum, exponentials and sum in FP32; one rounding to the
// output's format. Error of an element: exp's 2 ulp, the sum's h·u over a tree of depth
// h = cols/threads + log2(threads), and a division, all within the bound of the softmax
// operator. NaN and an all-inf row give NaN, for inf − inf is; a row of −inf likewise.
// The order of the sum is fixed: the same launch gives the same bits.
//
// One block a row. Rows that 256 threads can keep in registers, or 512 where they are
// aligned, are read once and written once, which is as little as memory allows; a thread
// asks for all of its elements before it looks at one. Longer rows are read twice: the
// first time with a running maximum, by which the sum is rescaled when it grows.
// Rows whose addresses are multiples of 16 bytes move 16 bytes at a time.
#include "kernels/providers/builtin/softmax_builtin_gpu.h"

#include "kernels/providers/builtin/divisor_gpu.h"
#include "kernels/runtime/gpu/element.h"
#include "kernels/runtime/gpu/port.h"
#include "kernels/runtime/gpu/reduce.h"

namespace assay::gpu {
namespace {

constexpr int kThreads = 256;
// Elements a thread keeps: with these, 64 registers a thread and 1024 threads a
// multiprocessor, which has more reads under way than memory needs.
constexpr int kKept = 32;
// Of a block that keeps an aligned row: of a short one as few as can, for threads that keep
// half as much would have half as many reads under way.
constexpr int kLeastThreads = 128;
constexpr int kMostThreads = 512;
constexpr std::int64_t KeptBy(int threads) { return std::int64_t{threads} * kKept; }

ASSAY_DEVICE float Infinity() { return FloatOf(0x7f800000U); }

// exp(x − m); what inf − inf makes stays NaN.
ASSAY_DEVICE float Weight(float x, float m) { return Exp(x - m); }

// A row in registers: kPack elements at a time, `kBlock` packs apart.
template <class In, class Out, int kPack, int kBlock>
ASSAY_GLOBAL void ASSAY_BOUNDS(kBlock, 1024 / kBlock)
    SoftmaxHeld(const typename In::Store* x, typename Out::Store* y, std::int64_t cols,
                std::int64_t x_ld, std::int64_t y_ld) {
  ASSAY_SHARED(float, partial, kMostWaves);
  constexpr int kPacks = kKept / kPack;
  // A pack of inputs is one of outputs, or two where these are wider.
  constexpr int kWrite = kPack * sizeof(typename Out::Store) <= 16 ? kPack : kPack / 2;
  const std::int64_t row = Block().x;
  const auto* in = reinterpret_cast<const Pack<In, kPack>*>(x + row * x_ld);
  auto* out = reinterpret_cast<Pack<Out, kWrite>*>(y + row * y_ld);
  const auto thread = static_cast<int>(Thread().x);
  const auto packs = static_cast<int>(cols / kPack);  // whole ones only: see LaunchFor

  // No branch, which would wait for what it reads; behind the row its first pack again, which
  // changes no maximum.
  Pack<In, kPack> read[kPacks];
  ASSAY_UNROLL
  for (int i = 0; i < kPacks; ++i) {
    const int at = thread + i * kBlock;
    read[i] = in[at < packs ? at : 0];
  }
  float kept[kKept];
  float m = -Infinity();
  ASSAY_UNROLL
  for (int i = 0; i < kKept; ++i) {
    kept[i] = In::Load(read[i / kPack].v[i % kPack]);
    m = Max(m, kept[i]);
  }
  m = BlockReduce<Largest>(m, partial, kBlock);
  float s = 0.0F;
  // Said by how much: a loop that may end early is not unrolled whole by all compilers.
  ASSAY_UNROLL_BY(kPacks)
  for (int i = 0, at = thread; i < kPacks && at < packs; ++i, at += kBlock) {
    ASSAY_UNROLL
    for (int e = 0; e < kPack; ++e) {
      kept[i * kPack + e] = Weight(kept[i * kPack + e], m);
      s += kept[i * kPack + e];
    }
  }
  const Divisor sum(BlockReduce<Sum>(s, partial, kBlock));
  ASSAY_UNROLL_BY(kPacks)
  for (int i = 0, at = thread; i < kPacks && at < packs; ++i, at += kBlock) {
    ASSAY_UNROLL
    for (int w = 0; w < kPack / kWrite; ++w) {
      Pack<Out, kWrite> pack;
      ASSAY_UNROLL
      for (int e = 0; e < kWrite; ++e) {
        pack.v[e] = Out::Round(sum.Divide(kept[i * kPack + w * kWrite + e]));
      }
      out[at * (kPack / kWrite) + w] = pack;
    }
  }
}

// A row of any length, read twice.
template <class In, class Out>
ASSAY_GLOBAL void SoftmaxOnline(const typename In::Store* x, typename Out::Store* y,
                                std::int64_t cols, std::int64_t x_ld, std::int64_t y_ld) {
  ASSAY_SHARED(float, partial, kMostWaves);
  const std::int64_t row = Block().x;
  const auto* in = x + row * x_ld;
  auto* out = y + row * y_ld;

  float m = -Infinity();
  float s = 0.0F;
  for (std::int64_t j = Thread().x; j < cols; j += kThreads) {
    const float v = In::Load(in[j]);
    const float larger = Max(m, v);
    // Nothing summed yet: no rescaling, which would be exp(−inf − −inf).
    if (!(larger == m)) s = m == -Infinity() ? 0.0F : s * Weight(m, larger);
    m = larger;
    s += Weight(v, m);
  }
  const float all = BlockReduce<Largest>(m, partial, kThreads);
  s = m == -Infinity() && !(all == -Infinity()) ? 0.0F : s * Weight(m, all);
  const Divisor sum(BlockReduce<Sum>(s, partial, kThreads));
  for (std::int64_t j = Thread().x; j < cols; j += kThreads) {
    out[j] = Out::Round(sum.Divide(Weight(In::Load(in[j]), all)));
  }
}

template <class In, class Out>
ErrorCode LaunchFor(const SoftmaxRows& r, Stream stream) {
  constexpr int kPack = 16 / static_cast<int>(sizeof(typename In::Store));
  const auto* x = static_cast<const typename In::Store*>(r.x);
  auto* y = static_cast<typename Out::Store*>(r.y);
  const Extent grid{static_cast<unsigned>(r.rows), 1, 1};
  const Extent block{kThreads, 1, 1};
  const bool aligned =
      (reinterpret_cast<std::uintptr_t>(x) | reinterpret_cast<std::uintptr_t>(y)) % 16 == 0 &&
      (r.x_ld | r.y_ld | r.cols) % kPack == 0;
  const auto held = [&](auto kernel, int threads) {
    return Launch(kernel, grid, Extent{static_cast<unsigned>(threads), 1, 1}, 0, stream, x, y,
                  r.cols, r.x_ld, r.y_ld);
  };
  if (aligned && r.cols <= KeptBy(kLeastThreads)) {
    return held(SoftmaxHeld<In, Out, kPack, kLeastThreads>, kLeastThreads);
  }
  if (aligned && r.cols <= KeptBy(kThreads)) {
    return held(SoftmaxHeld<In, Out, kPack, kThreads>, kThreads);
  }
  if (r.cols <= KeptBy(kThreads)) return held(SoftmaxHeld<In, Out, 1, kThreads>, kThreads);
  if (aligned && r.cols <= KeptBy(kMostThreads)) {
    return held(SoftmaxHeld<In, Out, kPack, kMostThreads>, kMostThreads);
  }
  return Launch(SoftmaxOnline<In, Out>, grid, block, 0, stream, x, y, r.cols, r.x_ld, r.y_ld);
}

}  // namespace

ErrorCode LaunchSoftmax(const SoftmaxRows& r, Stream stream) {
  switch (r.in) {
    case DType::kF16:
      return r.out == DType::kF16 ? LaunchFor<Half, Half>(r, stream)
                                  : LaunchFor<Half, Float32>(r, stream);
    case DType::kBF16:
      return r.out == DType::kBF16 ? LaunchFor<BFloat, BFloat>(r, stream)
                                   : LaunchFor<BFloat, Float32>(r, stream);
    default:
      return LaunchFor<Float32, Float32>(r, stream);
  }
}

}  // namespace assay::gpu
