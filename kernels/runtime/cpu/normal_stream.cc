// Fills large fp32 normal data in one fused loop: words, deviates, and stores that bypass the
// caches, without scratch memory.
//
// On AVX-512 the arithmetic limits the loop, about 53 vector instructions for 64 bytes, if enough
// of them are independent. Ten Philox rounds in a row are one chain of latencies, and so are six
// multiply-adds. So the rounds of one step are interleaved with the polynomials of the step before.
#include <cstdint>

#include "kernels/runtime/cpu/fill_simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/runtime/cpu/normal_stream.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/runtime/cpu/draw_words-inl.h"
#include "kernels/runtime/cpu/fill_codes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace assay::inline kernels {
namespace HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3

// Scales deviates: a·n + b, with subnormals as zero. The standard normal needs no scaling.
struct Scaling {
  explicit Scaling(const Pattern& p)
      : a(hn::Set(DF32(), static_cast<float>(p.a))),
        b(hn::Set(DF32(), static_cast<float>(p.b))),
        plain(p.a == 1.0 && p.b == 0.0) {}

  HWY_INLINE VF32 operator()(VF32 n) const {
    if (HWY_LIKELY(plain)) return n;
    return hn::BitCast(DF32(), KeepWord(f32, false, hn::MulAdd(a, n, b)));
  }

  VF32 a;
  VF32 b;
  bool plain;
  Narrowing f32{DType::kF32};
};

// Two Philox steps that run side by side, from consecutive block numbers.
struct TwoSteps {
  PhiloxState s;
  PhiloxState t;

  HWY_INLINE void Start(VU64& at, VU64 step, const FillSpec& spec) {
    s = StartBlocks(at, spec.tensor_id, spec.epoch);
    at = hn::Add(at, step);
    t = StartBlocks(at, spec.tensor_id, spec.epoch);
    at = hn::Add(at, step);
  }
  HWY_INLINE void Advance(const PhiloxKeys& keys, int round) {
    const DU32 d32;
    const VU32 k0 = hn::Set(d32, keys.k0[round]);
    const VU32 k1 = hn::Set(d32, keys.k1[round]);
    Round(s, k0, k1);
    Round(t, k0, k1);
  }
  HWY_INLINE void Join(VU32& w0, VU32& w1, VU32& w2, VU32& w3) const {
    JoinWords(s, w0, w1);
    JoinWords(t, w2, w3);
  }
};

#endif

#if HWY_TARGET == HWY_AVX3

// Computes the normal deviates of two vectors, one power at a time.
struct NormalPair {
  NormalDraw first;
  NormalDraw second;

  HWY_INLINE void Start(const Normals& t, VU32 x, VU32 y) {
    first.Start(t, x);
    second.Start(t, y);
  }
  template <int kPower>
  HWY_INLINE void Step(const Normals& t) {
    first.Step<kPower>(t);
    second.Step<kPower>(t);
  }
  HWY_INLINE void Store(const Scaling& scaling, float* first_out, float* second_out) const {
    hn::Stream(scaling(first.Finish()), DF32(), first_out);
    hn::Stream(scaling(second.Finish()), DF32(), second_out);
  }
};

std::int64_t StreamWhole(const FillSpec& spec, std::int64_t begin, std::int64_t n, float* out) {
  constexpr std::int64_t kStep = 64;  // elements
  const PhiloxKeys keys(spec.seed);
  const Scaling scaling(spec.pattern);
  const Normals normal;
  VU64 at = LaneBlocks(static_cast<std::uint64_t>(begin) >> 2);
  const VU64 step = hn::Set(DU64(), 8);
  const std::int64_t steps = n / kStep;
  if (steps == 0) return 0;
  TwoSteps next;
  next.Start(at, step, spec);
  for (int r = 0; r < kPhiloxRounds; ++r) next.Advance(keys, r);
  VU32 w0, w1, w2, w3;
  next.Join(w0, w1, w2, w3);
  // Computes the deviates of one step and the words of the next together. The words after the last
  // step are dropped.
  for (std::int64_t i = 0; i < steps; ++i, out += kStep) {
    NormalPair p;
    next.Start(at, step, spec);
    p.Start(normal, w0, w1);
    next.Advance(keys, 0);
    p.Step<5>(normal);
    next.Advance(keys, 1);
    p.Step<4>(normal);
    next.Advance(keys, 2);
    p.Step<3>(normal);
    p.Step<2>(normal);
    next.Advance(keys, 3);
    p.Step<1>(normal);
    next.Advance(keys, 4);
    p.Step<0>(normal);
    p.Store(scaling, out, out + 16);
    p.Start(normal, w2, w3);
    next.Advance(keys, 5);
    p.Step<5>(normal);
    next.Advance(keys, 6);
    p.Step<4>(normal);
    next.Advance(keys, 7);
    p.Step<3>(normal);
    p.Step<2>(normal);
    next.Advance(keys, 8);
    p.Step<1>(normal);
    next.Advance(keys, 9);
    p.Step<0>(normal);
    p.Store(scaling, out + 32, out + 48);
    next.Join(w0, w1, w2, w3);
  }
  return steps * kStep;
}

#elif HWY_TARGET == HWY_AVX2

std::int64_t StreamWhole(const FillSpec& spec, std::int64_t begin, std::int64_t n, float* out) {
  constexpr std::int64_t kStep = 32;  // elements
  const DF32 df;
  const PhiloxKeys keys(spec.seed);
  const Scaling scaling(spec.pattern);
  const Normals normal;
  VU64 at = LaneBlocks(static_cast<std::uint64_t>(begin) >> 2);
  const VU64 step = hn::Set(DU64(), 4);
  std::int64_t i = 0;
  for (; i + kStep <= n; i += kStep) {
    TwoSteps now;
    now.Start(at, step, spec);
    for (int r = 0; r < kPhiloxRounds; ++r) now.Advance(keys, r);
    VU32 w0, w1, w2, w3;
    now.Join(w0, w1, w2, w3);
    hn::Stream(scaling(normal(w0)), df, out + i);
    hn::Stream(scaling(normal(w1)), df, out + i + 8);
    hn::Stream(scaling(normal(w2)), df, out + i + 16);
    hn::Stream(scaling(normal(w3)), df, out + i + 24);
  }
  return i;
}

#else

std::int64_t StreamWhole(const FillSpec&, std::int64_t, std::int64_t, float*) { return -1; }

#endif

// Returns the number of elements written from `begin` on; -1 if this target has no such loop.
std::int64_t StreamTarget(const FillSpec& spec, std::int64_t begin, std::int64_t n, float* out) {
  const std::int64_t done = StreamWhole(spec, begin, n, out);
  hwy::FlushStream();
  return done;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace assay::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay::inline kernels {
HWY_EXPORT(StreamTarget);

bool StreamNormalF32(const FillSpec& spec, std::int64_t begin, std::int64_t n, float* out) {
  const std::int64_t done = HWY_DYNAMIC_DISPATCH(StreamTarget)(spec, begin, n, out);
  if (done < 0) return false;
  if (done < n) DrawCodes(spec, DType::kF32, n, begin + done, n - done, out + done);
  return true;
}

}  // namespace assay::kernels
#endif  // HWY_ONCE
