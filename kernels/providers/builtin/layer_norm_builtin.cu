// Layer norm and RMS norm along the rows of x [rows, cols], for GPUs.
//
//   layer  y = (x − μ) / sqrt(var + eps) · w + b      μ, var: of the row, var over cols
//   rms    y = x / sqrt(mean(x²) + eps) · w
//
// fp16, bf16 or fp32 in; everything between in FP32; one rounding to the output's
// format. Mean and variance come from Welford's update, a thread's elements first, then
// threads pairwise by Chan's merge, so that the variance is never a difference of two
// large means and never negative. Error: the mean's h·u·mean|x| and the variance's, with
// h = cols/threads + log2(threads), as the layer norm operator's bound has it;
// `compensated` takes the first term of h away (Kahan). Deterministic: the order of
// every sum is fixed by the launch.
//
// One block a row, read twice, the second time from cache where the row fits it.
// Sources: B. P. Welford, Technometrics 4 (1962); T. F. Chan, G. H. Golub, R. J. LeVeque,
// Stanford CS-79-773 (1979); W. Kahan, CACM 8 (1965).
#include "kernels/providers/builtin/layer_norm_builtin_gpu.h"
#include "kernels/runtime/gpu/element.h"
#include "kernels/runtime/gpu/port.h"
#include "kernels/runtime/gpu/reduce.h"

namespace assay::gpu {
namespace {

constexpr int kThreads = 256;

// A sum that may carry what its additions lose.
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

// Of two sets together.
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
    // The same order for both partners, so that all lanes agree to the bit.
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

// What every element of a row shares: y = (x − mean) · scale.
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

template <class In, class Out, bool kRms, bool kCompensated>
ASSAY_GLOBAL void NormRow(const typename In::Store* x, const float* weight, const float* bias,
                          typename Out::Store* y, std::int64_t cols, std::int64_t x_ld,
                          std::int64_t y_ld, float eps) {
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
    if (weight != nullptr) v *= weight[j];
    if (bias != nullptr) v += bias[j];
    out[j] = Out::Round(v);
  }
}

template <class In, class Out, bool kRms, bool kCompensated>
ErrorCode LaunchFor(const NormRows& r, Stream stream) {
  using Store = typename In::Store;
  return Launch(NormRow<In, Out, kRms, kCompensated>, Extent{static_cast<unsigned>(r.rows), 1, 1},
                Extent{kThreads, 1, 1}, 0, stream, static_cast<const Store*>(r.x), r.weight, r.bias,
                static_cast<typename Out::Store*>(r.y), r.cols, r.x_ld, r.y_ld, r.eps);
}

template <class In, class Out>
ErrorCode LaunchFor(const NormRows& r, Stream stream) {
  if (r.rms) {
    return r.compensated ? LaunchFor<In, Out, true, true>(r, stream)
                         : LaunchFor<In, Out, true, false>(r, stream);
  }
  return r.compensated ? LaunchFor<In, Out, false, true>(r, stream)
                       : LaunchFor<In, Out, false, false>(r, stream);
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

}  // namespace assay::gpu
