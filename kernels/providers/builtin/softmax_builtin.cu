// softmax along the rows of x [rows, cols], for GPUs.
//
//   m = max_j x_j        s = Σ_j exp(x_j − m)        y_j = exp(x_j − m) / s
//
// Inputs are fp16, bf16 or fp32. Maximum, exponentials and sum are FP32, with one rounding to the
// output's format. Error of an element: exp's 2 ulp, the sum's h·u over a tree of depth h =
// cols/threads + log2(threads), and a division, all within the bound of the softmax operator. A row
// with NaN or +inf, and a row of −inf only, gives NaN, because inf − inf is NaN. The order of the
// sum is fixed, so the same launch gives the same bits.
//
// Each row has one block. Rows that 256 threads can keep in registers (512 if rows are aligned) are
// read once and written once, the least that memory allows. A thread requests all of its elements
// before it uses one. Longer rows are read twice: the first time with a running maximum, and the
// sum is rescaled when the maximum grows. If row addresses are multiples of 16 bytes, 16 bytes are
// moved at a time.
#include "kernels/providers/builtin/softmax_builtin_gpu.h"

#include "kernels/providers/builtin/divisor_gpu.h"
#include "kernels/runtime/gpu/element.h"
#include "kernels/runtime/gpu/port.h"
#include "kernels/runtime/gpu/reduce.h"

namespace assay::inline kernels::gpu {
namespace {

constexpr int kThreads = 256;
// The elements that a thread keeps. With this number a thread has 64 registers and a multiprocessor
// 1024 threads, which have more reads under way than the memory needs.
constexpr int kKept = 32;
// The threads of a block that keeps an aligned row. A short row gets as few threads as possible:
// threads that keep half as much would have half as many reads under way.
constexpr int kLeastThreads = 128;
constexpr int kMostThreads = 512;
constexpr std::int64_t KeptBy(int threads) { return std::int64_t{threads} * kKept; }

ASSAY_DEVICE float Infinity() { return FloatOf(0x7f800000U); }

// exp(x − m). If inf − inf made a NaN, it stays NaN.
ASSAY_DEVICE float Weight(float x, float m) { return Exp(x - m); }

// Computes a row in registers, kPack elements at a time, `kBlock` packs apart.
template <class In, class Out, int kPack, int kBlock>
ASSAY_GLOBAL void ASSAY_BOUNDS(kBlock, 1024 / kBlock)
    SoftmaxHeld(const typename In::Store* x, typename Out::Store* y, std::int64_t cols,
                std::int64_t x_ld, std::int64_t y_ld) {
  ASSAY_SHARED(float, partial, kMostWaves);
  constexpr int kPacks = kKept / kPack;
  // A pack of inputs becomes one pack of outputs, or two if outputs are wider.
  constexpr int kWrite = kPack * sizeof(typename Out::Store) <= 16 ? kPack : kPack / 2;
  const std::int64_t row = Block().x;
  const auto* in = reinterpret_cast<const Pack<In, kPack>*>(x + row * x_ld);
  auto* out = reinterpret_cast<Pack<Out, kWrite>*>(y + row * y_ld);
  const auto thread = static_cast<int>(Thread().x);
  const auto packs = static_cast<int>(cols / kPack);  // whole packs only: see LaunchFor

  // There is no branch, because it would wait for what it reads. Behind the row the first pack is
  // read again, which changes no maximum.
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
  // The factor is named, because not all compilers fully unroll a loop that may end early.
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

// Computes a row of any length, which is read twice.
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
    // If nothing is summed yet, there is no rescaling; it would be exp(−inf − −inf).
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

}  // namespace assay::kernels::gpu
