// Layer norm and RMS norm along the rows of x [rows, cols], for GPUs.
//
//   layer  y = (x − μ) / sqrt(var + eps) · w + b      μ, var: of the row, var over cols
//   rms    y = x / sqrt(mean(x²) + eps) · w
//
// Inputs are fp16, bf16 or fp32. Everything between is FP32, with one rounding to the output's
// format. Error: the mean's h·u·mean|x| and the variance's, with h = cols/threads + log2(threads),
// as in the layer norm operator's bound. Deterministic: the launch fixes the order of every sum.
// Each row has one block.
//
// Rows of whole 16 bytes, up to 16384 elements, are read once, kept in registers and written once,
// 16 bytes at a time. A thread requests all of its elements before it uses one. The mean is
// computed first, and then, with d = x − mean,
//   μ = mean + Σd/cols,  var = (Σd² − (Σd)²/cols)/cols
// which corrects the rounding of the first sum (the corrected two-pass algorithm). Other rows are
// read twice, the second time from the cache if the row fits. Their mean and variance come from
// Welford's update over a thread's elements, and then from Chan's merge of pairs of threads. Either
// way the variance is never a difference of two large numbers and never negative. On the second
// way, `compensated` removes the first term of h (Kahan).
// Sources: B. P. Welford, Technometrics 4 (1962); T. F. Chan, G. H. Golub, R. J. LeVeque, Stanford
// CS-79-773 (1979), also for the corrected two-pass; W. Kahan, CACM 8 (1965).
#include "kernels/providers/builtin/layer_norm_builtin_gpu.h"
#include "kernels/runtime/gpu/element.h"
#include "kernels/runtime/gpu/port.h"
#include "kernels/runtime/gpu/reduce.h"

namespace assay::inline kernels::gpu {
namespace {

constexpr int kThreads = 256;
// The elements that a thread keeps. With this number a thread has 64 registers and a multiprocessor
// 1024 threads, which have more reads under way than the memory needs.
constexpr int kKept = 32;
// The threads of a block that keeps a row. A short row gets as few threads as possible: threads
// that keep half as much would have half as many reads under way.
constexpr int kLeastThreads = 128;
constexpr int kMostThreads = 512;

// A sum that can also keep the rounding errors of its additions.
template <bool kCompensated>
struct RunningSum {
  float value = 0.0F;
  float lost = 0.0F;

  ASSAY_DEVICE_MEMBER void Add(float x) {
    if constexpr (kCompensated) {
      const float next = x - lost;
      const float sum = value + next;
      lost = (sum - value) - next;
      value = sum;
    } else {
      value += x;
    }
  }
};

struct Moments {
  float count;
  float mean;
  float m2;  // Σ (x − mean)²
};

// The moments of two sets together.
ASSAY_DEVICE Moments Merge(const Moments& a, const Moments& b) {
  const float count = a.count + b.count;
  if (count == 0.0F) return a;
  const float delta = b.mean - a.mean;
  const float share = b.count / count;
  return {count, Fma(delta, share, a.mean), a.m2 + b.m2 + delta * delta * a.count * share};
}

ASSAY_DEVICE Moments WaveMerge(Moments m) {
  for (int by = WaveWidth() / 2; by > 0; by /= 2) {
    const Moments other = {ShuffleXor(m.count, by), ShuffleXor(m.mean, by), ShuffleXor(m.m2, by)};
    // Both partners use the same order, so that all lanes agree to the bit.
    m = (Lane() & by) == 0 ? Merge(m, other) : Merge(other, m);
  }
  return m;
}

template <class In, bool kCompensated>
ASSAY_DEVICE Moments ThreadMoments(const typename In::Store* in, std::int64_t cols) {
  Moments m = {0.0F, 0.0F, 0.0F};
  RunningSum<kCompensated> mean;
  RunningSum<kCompensated> m2;
  for (std::int64_t j = Thread().x; j < cols; j += kThreads) {
    const float x = In::Load(in[j]);
    m.count += 1.0F;
    const float delta = x - mean.value;
    mean.Add(delta / m.count);
    m2.Add(delta * (x - mean.value));
  }
  m.mean = mean.value;
  m.m2 = m2.value;
  return m;
}

// The values that all elements of a row share: y = (x − mean) · scale.
struct Normaliser {
  float mean;
  float scale;
};

template <class In, bool kCompensated, class Shared>
ASSAY_DEVICE Normaliser LayerOf(const typename In::Store* in, std::int64_t cols, float eps,
                                Shared counts, Shared means, Shared m2s) {
  Moments m = WaveMerge(ThreadMoments<In, kCompensated>(in, cols));
  const int wave = static_cast<int>(Thread().x) / WaveWidth();
  if (Lane() == 0) {
    counts[wave] = m.count;
    means[wave] = m.mean;
    m2s[wave] = m.m2;
  }
  SyncBlock();
  m = {counts[0], means[0], m2s[0]};
  for (int w = 1; w < kThreads / WaveWidth(); ++w) m = Merge(m, {counts[w], means[w], m2s[w]});
  return {m.mean, 1.0F / Sqrt(m.m2 / static_cast<float>(cols) + eps)};
}

template <class In, bool kCompensated, class Shared>
ASSAY_DEVICE Normaliser RmsOf(const typename In::Store* in, std::int64_t cols, float eps,
                              Shared partial) {
  RunningSum<kCompensated> squares;
  for (std::int64_t j = Thread().x; j < cols; j += kThreads) {
    const float x = In::Load(in[j]);
    squares.Add(x * x);
  }
  const float sum = BlockReduce<Sum>(squares.value, partial, kThreads);
  return {0.0F, 1.0F / Sqrt(sum / static_cast<float>(cols) + eps)};
}

template <class In, class Out, class Column, bool kRms, bool kCompensated>
ASSAY_GLOBAL void NormRow(const typename In::Store* x, const typename Column::Store* weight,
                          const typename Column::Store* bias, typename Out::Store* y,
                          std::int64_t cols, std::int64_t x_ld, std::int64_t y_ld, float eps) {
  ASSAY_SHARED(float, first, kMostWaves);
  ASSAY_SHARED(float, second, kMostWaves);
  ASSAY_SHARED(float, third, kMostWaves);
  const std::int64_t row = Block().x;
  const auto* in = x + row * x_ld;
  auto* out = y + row * y_ld;
  Normaliser n;
  if constexpr (kRms) {
    n = RmsOf<In, kCompensated>(in, cols, eps, first);
  } else {
    n = LayerOf<In, kCompensated>(in, cols, eps, first, second, third);
  }
  for (std::int64_t j = Thread().x; j < cols; j += kThreads) {
    float v = (In::Load(in[j]) - n.mean) * n.scale;
    if (weight != nullptr) v *= Column::Load(weight[j]);
    if (bias != nullptr) v += Column::Load(bias[j]);
    out[j] = Out::Round(v);
  }
}

// Four weights, or four biases.
template <class Column>
ASSAY_DEVICE Pack<Column, 4> LoadFour(const typename Column::Store* from) {
  return *reinterpret_cast<const Pack<Column, 4>*>(from);
}

// Normalises a row in registers, kPack elements at a time, `kBlock` packs apart.
template <class In, class Out, class Column, int kBlock>
ASSAY_GLOBAL void ASSAY_BOUNDS(kBlock, 1024 / kBlock)
    NormHeld(const typename In::Store* x, const typename Column::Store* weight,
             const typename Column::Store* bias, typename Out::Store* y, std::int64_t cols,
             std::int64_t x_ld, std::int64_t y_ld, float eps, bool rms) {
  ASSAY_SHARED(float, partial, kMostWaves);
  constexpr int kPack = 16 / static_cast<int>(sizeof(typename In::Store));
  constexpr int kPacks = kKept / kPack;
  // A pack of inputs becomes one pack of outputs, or two if outputs are wider.
  constexpr int kWrite = kPack * sizeof(typename Out::Store) <= 16 ? kPack : kPack / 2;
  const std::int64_t row = Block().x;
  const auto* in = reinterpret_cast<const Pack<In, kPack>*>(x + row * x_ld);
  auto* out = reinterpret_cast<Pack<Out, kWrite>*>(y + row * y_ld);
  const auto thread = static_cast<int>(Thread().x);
  const auto packs = static_cast<int>(cols / kPack);  // whole packs only: see LaunchFor
  const auto n = static_cast<float>(packs * kPack);

  // There is no branch, because it would wait for what it reads. Behind the row the first pack is
  // read again; no sum uses it.
  Pack<In, kPack> read[kPacks];
  ASSAY_UNROLL
  for (int i = 0; i < kPacks; ++i) {
    const int at = thread + i * kBlock;
    read[i] = in[at < packs ? at : 0];
  }
  float kept[kKept];
  ASSAY_UNROLL
  for (int i = 0; i < kKept; ++i) kept[i] = In::Load(read[i / kPack].v[i % kPack]);
  float sum = 0.0F;
  // The factor is named, because not all compilers fully unroll a loop that may end early.
  ASSAY_UNROLL_BY(kPacks)
  for (int i = 0, at = thread; i < kPacks && at < packs; ++i, at += kBlock) {
    ASSAY_UNROLL
    for (int e = 0; e < kPack; ++e) sum += kept[i * kPack + e];
  }
  float mean = rms ? 0.0F : BlockReduce<Sum>(sum, partial, kBlock) / n;
  float first = 0.0F;
  float second = 0.0F;
  ASSAY_UNROLL_BY(kPacks)
  for (int i = 0, at = thread; i < kPacks && at < packs; ++i, at += kBlock) {
    ASSAY_UNROLL
    for (int e = 0; e < kPack; ++e) {
      const float d = kept[i * kPack + e] - mean;
      first += d;
      second = Fma(d, d, second);
    }
  }
  second = BlockReduce<Sum>(second, partial, kBlock);
  if (!rms) {
    first = BlockReduce<Sum>(first, partial, kBlock) / n;
    mean += first;
    second = Max(second - first * first * n, 0.0F);
  }
  const float scale = 1.0F / Sqrt(second / n + eps);
  ASSAY_UNROLL_BY(kPacks)
  for (int i = 0, at = thread; i < kPacks && at < packs; ++i, at += kBlock) {
    float v[kPack];
    ASSAY_UNROLL
    for (int e = 0; e < kPack; ++e) v[e] = (kept[i * kPack + e] - mean) * scale;
    if (weight != nullptr) {
      ASSAY_UNROLL
      for (int e = 0; e < kPack; e += 4) {
        const auto factor = LoadFour<Column>(weight + at * kPack + e);
        ASSAY_UNROLL
        for (int f = 0; f < 4; ++f) v[e + f] *= Column::Load(factor.v[f]);
      }
    }
    if (bias != nullptr) {
      ASSAY_UNROLL
      for (int e = 0; e < kPack; e += 4) {
        const auto term = LoadFour<Column>(bias + at * kPack + e);
        ASSAY_UNROLL
        for (int f = 0; f < 4; ++f) v[e + f] += Column::Load(term.v[f]);
      }
    }
    ASSAY_UNROLL
    for (int w = 0; w < kPack / kWrite; ++w) {
      Pack<Out, kWrite> pack;
      ASSAY_UNROLL
      for (int e = 0; e < kWrite; ++e) pack.v[e] = Out::Round(v[w * kWrite + e]);
      out[at * (kPack / kWrite) + w] = pack;
    }
  }
}

template <class In, class Out, class Column, bool kRms, bool kCompensated>
ErrorCode LaunchFor(const NormRows& r, Stream stream) {
  using Weights = const typename Column::Store*;
  return Launch(NormRow<In, Out, Column, kRms, kCompensated>,
                Extent{static_cast<unsigned>(r.rows), 1, 1}, Extent{kThreads, 1, 1}, 0, stream,
                static_cast<const typename In::Store*>(r.x), static_cast<Weights>(r.weight),
                static_cast<Weights>(r.bias), static_cast<typename Out::Store*>(r.y), r.cols,
                r.x_ld, r.y_ld, r.eps);
}

template <class In, class Out, class Column, int kBlock>
ErrorCode LaunchHeld(const NormRows& r, Stream stream) {
  using Weights = const typename Column::Store*;
  return Launch(NormHeld<In, Out, Column, kBlock>, Extent{static_cast<unsigned>(r.rows), 1, 1},
                Extent{kBlock, 1, 1}, 0, stream, static_cast<const typename In::Store*>(r.x),
                static_cast<Weights>(r.weight), static_cast<Weights>(r.bias),
                static_cast<typename Out::Store*>(r.y), r.cols, r.x_ld, r.y_ld, r.eps, r.rms);
}

template <class In, class Out, class Column>
ErrorCode LaunchWith(const NormRows& r, Stream stream) {
  constexpr std::int64_t kPack = 16 / static_cast<int>(sizeof(typename In::Store));
  const auto multiple = [](auto... of) {
    return (reinterpret_cast<std::uintptr_t>(of) | ...) % 16 == 0;
  };
  const bool aligned =
      multiple(r.x, r.weight, r.bias, r.y) && (r.x_ld | r.y_ld | r.cols) % kPack == 0;
  if (aligned && !r.compensated && r.cols <= kMostThreads * kKept) {
    return r.cols <= kLeastThreads * kKept ? LaunchHeld<In, Out, Column, kLeastThreads>(r, stream)
           : r.cols <= kThreads * kKept    ? LaunchHeld<In, Out, Column, kThreads>(r, stream)
                                           : LaunchHeld<In, Out, Column, kMostThreads>(r, stream);
  }
  if (r.rms) {
    return r.compensated ? LaunchFor<In, Out, Column, true, true>(r, stream)
                         : LaunchFor<In, Out, Column, true, false>(r, stream);
  }
  return r.compensated ? LaunchFor<In, Out, Column, false, true>(r, stream)
                       : LaunchFor<In, Out, Column, false, false>(r, stream);
}

template <class In, class Out>
ErrorCode LaunchFor(const NormRows& r, Stream stream) {
  return r.columns == DType::kF32 ? LaunchWith<In, Out, Float32>(r, stream)
                                  : LaunchWith<In, Out, In>(r, stream);
}

}  // namespace

ErrorCode LaunchNorm(const NormRows& r, Stream stream) {
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
