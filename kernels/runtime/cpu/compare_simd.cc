// Compares blocks of elements. Main reads each block once. If an error reaches a threshold, Records
// computes the exact ratios. If an error exceeds a bound, Counts counts the mismatches. If an
// element is not finite or beyond the format's range, the scalar code takes the whole block.
#include "kernels/runtime/cpu/compare_simd.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "kernels/numerics/convert.h"
#include "kernels/numerics/digest.h"
#include "kernels/runtime/cpu/compare_canonical.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/runtime/cpu/compare_simd.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/runtime/cpu/compare_lanes-inl.h"
#include "kernels/runtime/cpu/compare_main-inl.h"
#include "kernels/runtime/cpu/compare_records-inl.h"

HWY_BEFORE_NAMESPACE();
namespace assay::inline kernels::internal {
namespace HWY_NAMESPACE {
namespace {

// After this many false records the thresholds are as high as possible.
constexpr int kFalseRecords = 16;

// Compares the chunks of one thread.
template <Storage kStorage>
class Walk {
 public:
  Walk(const CompareRequest& request, const CompareRule& rule, CompareResult* result)
      : request_(request), rule_(rule), c_(*result), canonical_(rule.dtype) {
    width_ = Info(rule.dtype).storage_bits;
    staged_ = width_ < 8 || (width_ == 8 && !rule.is_integer);
    if (staged_) {
      std::size_t code = 0;
      for (float& value : values_) value = ToFloat(rule.dtype, code++);
    }
    zeros_.fill(0.0);
  }

  void Chunk(std::int64_t chunk, ChunkSums* sums) {
    const std::int64_t begin = chunk * kCompareChunk;
    const std::int64_t end = std::min(begin + kCompareChunk, request_.output.count());
    lanes_.Clear();
    for (std::int64_t at = begin; at < end; at += kCompareBlock) {
      Block(at, std::min(kCompareBlock, end - at));
    }
    // The sums are those of the scalar code and those of the lanes.
    sums->abs_error = c_.sum_abs_error + Total(lanes_.abs_error);
    sums->squared_error = c_.sum_squared_error + Total(lanes_.squared_error);
    sums->dot = c_.dot + Total(lanes_.dot);
    sums->squared_actual = c_.sum_squared_actual + Total(lanes_.squared_actual);
    sums->squared_expected = c_.sum_squared_expected + Total(lanes_.squared_expected);
    sums->bias = c_.bias_sum + Total(lanes_.bias);
    sums->bias_squared = c_.bias_sum_squared + Total(lanes_.bias_squared);
    c_.sum_abs_error = c_.sum_squared_error = c_.dot = c_.sum_squared_actual =
        c_.sum_squared_expected = c_.bias_sum = c_.bias_sum_squared = 0.0;
  }

  // Call this after the last chunk.
  void Finish() {
    c_.max_abs_error = std::max(c_.max_abs_error, Largest(max_abs_error_));
    c_.max_abs_expected = std::max(c_.max_abs_expected, Largest(max_abs_expected_));
    for (int k = 0; k < 2; ++k) {
      const std::uint64_t digest = Total(digest_[k]);
      c_.digest_raw[k] += digest;
      c_.digest_canonical[k] += digest;
    }
  }

 private:
  void Block(std::int64_t at, std::int64_t n) {
    const unsigned char* raw = Raw(at, n);
    const void* elements = raw;
    if (staged_) {
      float least = 1.0f;
      for (std::int64_t i = 0; i < n; ++i) {
        floats_[i] = values_[raw_code(raw, i)];
        least = std::min(least, std::abs(floats_[i]));
      }
      staged_zeros_ = least == 0.0f;
      elements = floats_.data();
    }
    const double* reference = request_.reference + at;
    const double* allowance =
        rule_.exact || request_.allowance == nullptr ? zeros_.data() : request_.allowance + at;
    const std::int64_t whole = n - n % static_cast<std::int64_t>(hn::Lanes(D()));

    const std::int64_t nan_before = c_.nan_count;
    const std::int64_t zeros_before = c_.zero_count;
    MainOut main;
    main.digest[0] = main.digest[1] = hn::Zero(DU());
    main.digested = 0;
    bool clean = whole > 0;
    if (clean) {
      // Staged elements are not the words of the digest.
      const unsigned char* digested = request_.digests && !staged_ ? raw : nullptr;
      Main<kStorage>(rule_, thresholds_, elements, reference, allowance, whole, digested,
                     at * width_ / 64, &main);
      clean = main.finite;
    }
    if (clean) {
      Take(main, at, raw, elements, reference, allowance, whole);
      Scalar(at, raw, whole, n);
    } else {
      Scalar(at, raw, 0, n);
    }
    if (!clean || whole < n) thresholds_ = ThresholdsFor(rule_, c_, loose_);
    // The scalar code counts zeros, but does not tell their sign.
    if (c_.nan_count != nan_before || (!clean && c_.zero_count != zeros_before)) special_ = true;
    if (whole < n && c_.zero_count != zeros_before) special_ = true;
    if (request_.digests) Digest(at, n, raw, main);
    special_ = false;
  }

  // Adds the statistics of the clean part of a block, [at, at + n).
  void Take(MainOut& main, std::int64_t at, const unsigned char* raw, const void* elements,
            const double* reference, const double* allowance, std::int64_t n) {
    if (main.direct_dot) main.sums.dot = Dot<kStorage>(rule_, elements, reference, n);
    if (main.bias) {
      c_.bias_count += Bias<kStorage>(rule_, elements, reference, allowance, n, &main.sums);
    }
    lanes_.Add(main.sums);
    c_.count += n;
    c_.finite_pairs += n;
    max_abs_error_ = hn::Max(max_abs_error_, main.max_abs_error);
    max_abs_expected_ = hn::Max(max_abs_expected_, main.max_abs_expected);
    // If an output is zero, its error reaches a threshold, or its reference rounds to zero.
    const bool zeros = (staged_ ? staged_zeros_ : main.record) || main.tiny;
    if (zeros) special_ |= CountZeros<kStorage>(rule_, elements, reference, n, &c_);
    if (c_.worst.index < 0) c_.worst = Sample(at, raw, 0);
    // Main has no thresholds for some gates. The gates of ulps have theirs among the records. The
    // sign of a zero is a difference in bits and no error.
    const bool by_ulps = rule_.gate == Gate::kUlp || rule_.gate == Gate::kBitwise;
    const bool exceeded =
        main.exceeded || (by_ulps && main.record) || (zeros && rule_.gate == Gate::kBitwise);
    if (exceeded) {
      CountsOut x;
      Counts<kStorage>(rule_, elements, reference, allowance, n, &x);
      if (x.mismatches > 0 && c_.mismatches < kMismatchSamples) TakeSamples(at, raw, n);
      c_.mismatches += x.mismatches;
      c_.beyond_probable += x.beyond_probable;
      c_.beyond_proven += x.beyond_proven;
    }
    if (main.record) {
      RecordsOut x;
      Records<kStorage>(rule_, elements, reference, allowance, n, &x);
      if (x.rho > c_.rho && c_.class_mismatches == 0) {
        const std::int64_t worst =
            FindRatio<kStorage>(rule_, elements, reference, allowance, n, x.rho);
        c_.worst = Sample(at, raw, worst);
      }
      const bool none = x.rho <= c_.rho && x.rho_proven <= c_.rho_proven &&
                        x.rel <= c_.max_rel_error && x.ulps <= c_.max_ulp;
      if (none && ++false_records_ > kFalseRecords) loose_ = false;
      c_.rho = std::max(c_.rho, x.rho);
      c_.rho_proven = std::max(c_.rho_proven, x.rho_proven);
      c_.max_rel_error = std::max(c_.max_rel_error, x.rel);
      c_.max_ulp = std::max(c_.max_ulp, x.ulps);
      thresholds_ = ThresholdsFor(rule_, c_, loose_);
    }
  }

  void Scalar(std::int64_t at, const unsigned char* raw, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      AddElement(rule_, at + i, LoadBits(rule_.dtype, raw, i), request_.reference[at + i],
                 Allowance(at + i), &c_);
    }
  }

  double Allowance(std::int64_t i) const {
    return request_.allowance == nullptr ? 0.0 : request_.allowance[i];
  }

  Judgement Judge(std::int64_t at, const unsigned char* raw, std::int64_t i) const {
    return JudgeElement(rule_, LoadBits(rule_.dtype, raw, i), request_.reference[at + i],
                        Allowance(at + i));
  }

  ElementSample Sample(std::int64_t at, const unsigned char* raw, std::int64_t i) const {
    const Judgement j = Judge(at, raw, i);
    return ElementSample{
        at + i, j.actual, j.expected, j.gate_bound, LoadBits(rule_.dtype, raw, i), j.expected_bits};
  }

  void TakeSamples(std::int64_t at, const unsigned char* raw, std::int64_t n) {
    for (std::int64_t i = 0; i < n && c_.samples.size() < kMismatchSamples; ++i) {
      if (Judge(at, raw, i).mismatch) c_.samples.push_back(Sample(at, raw, i));
    }
  }

  // Adds the digests of elements [at, at + n). Main has computed some of them.
  void Digest(std::int64_t at, std::int64_t n, const unsigned char* raw, const MainOut& main) {
    if (main.digested == n && !special_) {
      digest_[0] = hn::Add(digest_[0], main.digest[0]);
      digest_[1] = hn::Add(digest_[1], main.digest[1]);
      return;
    }
    const std::int64_t first = at * width_ / 64;
    const std::int64_t words = n * width_ / 64;
    const std::int64_t rest_bits = n * width_ % 64;
    std::uint64_t rest = 0;
    for (std::int64_t i = 0; i * width_ < rest_bits; ++i) {
      rest |= LoadBits(rule_.dtype, raw, words * 64 / width_ + i) << (i * width_);
    }
    std::uint64_t digest[2] = {Total(main.digest[0]), Total(main.digest[1])};
    AddWords(raw, first, main.digested * width_ / 64, words, digest);
    for (int k = 0; k < 2; ++k) {
      if (rest_bits > 0) {
        digest[k] += DigestTerm(rest, static_cast<std::uint64_t>(first + words), kDigestSeeds[k]);
      }
      c_.digest_raw[k] += digest[k];
    }
    if (special_ && !rule_.is_integer) {
      digest[0] = digest[1] = 0;
      canonical_.Copy(raw, words, canonical_words_.data());
      AddWords(canonical_words_.data(), first, 0, words, digest);
      for (int k = 0; rest_bits > 0 && k < 2; ++k) {
        digest[k] += DigestTerm(CanonicalWord(rule_.dtype, rest),
                                static_cast<std::uint64_t>(first + words), kDigestSeeds[k]);
      }
    }
    for (int k = 0; k < 2; ++k) c_.digest_canonical[k] += digest[k];
  }

  // Adds words [begin, end) of a block, whose first word is word `first` of the tensor.
  static void AddWords(const unsigned char* data, std::int64_t first, std::int64_t begin,
                       std::int64_t end, std::uint64_t* digest) {
    LaneDigest lanes(first + begin);
    const auto step = static_cast<std::int64_t>(hn::Lanes(DU()));
    std::int64_t i = begin;
    for (; i + step <= end; i += step) lanes.Add(data + 8 * i);
    digest[0] += Total(lanes.sum0);
    digest[1] += Total(lanes.sum1);
    for (; i < end; ++i) {
      std::uint64_t w;
      std::memcpy(&w, data + 8 * i, 8);
      for (int k = 0; k < 2; ++k) {
        digest[k] += DigestTerm(w, static_cast<std::uint64_t>(first + i), kDigestSeeds[k]);
      }
    }
  }

  std::size_t raw_code(const unsigned char* raw, std::int64_t i) const {
    if (width_ == 8) return raw[i];
    return (raw[i >> 1] >> ((i & 1) * 4)) & 0xfu;
  }

  // Returns elements [at, at + n) packed. If the tensor is dense, they are not copied.
  const unsigned char* Raw(std::int64_t at, std::int64_t n) {
    const auto* data = static_cast<const unsigned char*>(request_.output.data);
    const Extents& x = request_.output.extents;
    if (x.dense()) return data + at * width_ / 8;
    if (width_ == 4) packed_.fill(0);
    for (std::int64_t i = 0; i < n;) {
      const std::int64_t column = (at + i) % x.cols;
      const std::int64_t run = std::min(n - i, x.cols - column);
      const std::int64_t source = StorageIndex(x, at + i);
      if (width_ == 4) {
        for (std::int64_t k = 0; k < run; ++k) {
          StoreBits(rule_.dtype, packed_.data(), i + k, LoadBits(rule_.dtype, data, source + k));
        }
      } else {
        const std::int64_t size = width_ / 8;
        std::memcpy(packed_.data() + i * size, data + source * size,
                    static_cast<std::size_t>(run * size));
      }
      i += run;
    }
    return packed_.data();
  }

  const CompareRequest& request_;
  const CompareRule& rule_;
  CompareResult& c_;
  int width_;
  bool staged_;
  bool staged_zeros_ = false;
  bool loose_ = true;
  int false_records_ = 0;  // blocks that reached a threshold and set no record
  bool special_ = false;   // NaNs or negative zeros: the canonical form differs
  Thresholds thresholds_ = ThresholdsFor(rule_, c_, loose_);
  LaneSums lanes_;
  // Lane by lane, from clean blocks. Finish adds them to the result.
  V max_abs_error_ = hn::Zero(D());
  V max_abs_expected_ = hn::Zero(D());
  // The digests of blocks whose raw words are canonical.
  std::array<VU, 2> digest_ = {hn::Zero(DU()), hn::Zero(DU())};
  alignas(64) std::array<unsigned char, kCompareBlock * 8> packed_;
  alignas(64) std::array<double, kCompareBlock> zeros_;
  alignas(64) std::array<float, kCompareBlock> floats_;
  alignas(64) std::array<unsigned char, kCompareBlock * 8> canonical_words_;
  Canonical canonical_;
  std::array<float, 256> values_;  // of every 8-bit code
};

template <Storage kStorage>
void WalkChunks(const CompareRequest& request, const CompareRule& rule, std::int64_t begin,
                std::int64_t end, ChunkSums* sums, CompareResult* result) {
  Walk<kStorage> walk(request, rule, result);
  for (std::int64_t chunk = begin; chunk < end; ++chunk) walk.Chunk(chunk, sums + chunk);
  walk.Finish();
}

void CompareChunks(const CompareRequest& request, const CompareRule& rule, std::int64_t begin,
                   std::int64_t end, ChunkSums* sums, CompareResult* result) {
  switch (rule.dtype) {
    case DType::kF64:
      return WalkChunks<Storage::kF64>(request, rule, begin, end, sums, result);
    case DType::kF16:
      return WalkChunks<Storage::kF16>(request, rule, begin, end, sums, result);
    case DType::kBF16:
      return WalkChunks<Storage::kBF16>(request, rule, begin, end, sums, result);
    case DType::kI8:
      return WalkChunks<Storage::kI8>(request, rule, begin, end, sums, result);
    case DType::kI32:
      return WalkChunks<Storage::kI32>(request, rule, begin, end, sums, result);
    default:  // fp32, tf32, and the formats that are staged as floats
      return WalkChunks<Storage::kF32>(request, rule, begin, end, sums, result);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace assay::kernels::internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay::inline kernels::internal {

HWY_EXPORT(CompareChunks);

void CompareChunks(const CompareRequest& request, const CompareRule& rule, std::int64_t begin,
                   std::int64_t end, ChunkSums* sums, CompareResult* result) {
  HWY_DYNAMIC_DISPATCH(CompareChunks)(request, rule, begin, end, sums, result);
}

}  // namespace assay::kernels::internal
#endif  // HWY_ONCE
