// Softmax and norms of one row in FP32, as kernels compute them: in several orders of summation and
// several ways to the variance, and with defects. Tests hold bounds and deviations against them.
#ifndef ASSAY_TESTS_UNIT_OPS_ROW_KERNELS_H_
#define ASSAY_TESTS_UNIT_OPS_ROW_KERNELS_H_

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

namespace assay {

enum class SumOrder : std::uint8_t { kSequential, kPairwise, kLanes, kBlocks };

// The FP32 sum of addend(0) … addend(n − 1).
template <class Addend>
float SumOf(SumOrder order, std::size_t n, const Addend& addend) {
  constexpr std::size_t kLanes = 32, kBlock = 128, kLeaf = 8;
  const auto in_turn = [&](std::size_t begin, std::size_t end) {
    float sum = 0;
    for (std::size_t i = begin; i < end; ++i) sum += addend(i);
    return sum;
  };
  switch (order) {
    case SumOrder::kSequential:
      break;
    case SumOrder::kPairwise: {
      const auto tree = [&](const auto& self, std::size_t begin, std::size_t end) -> float {
        if (end - begin <= kLeaf) return in_turn(begin, end);
        const std::size_t middle = begin + (end - begin) / 2;
        return self(self, begin, middle) + self(self, middle, end);
      };
      return tree(tree, 0, n);
    }
    case SumOrder::kLanes: {
      float lanes[kLanes] = {};
      for (std::size_t i = 0; i < n; ++i) lanes[i % kLanes] += addend(i);
      for (std::size_t width = kLanes / 2; width > 0; width /= 2) {
        for (std::size_t i = 0; i < width; ++i) lanes[i] += lanes[i + width];
      }
      return lanes[0];
    }
    case SumOrder::kBlocks: {
      float sum = 0;
      for (std::size_t i = 0; i < n; i += kBlock) sum += in_turn(i, std::min(n, i + kBlock));
      return sum;
    }
  }
  return in_turn(0, n);
}

// x moved by whole units in its last place.
inline float MovedBy(float x, int ulps) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(
      static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(x)) + ulps));
}

struct SoftmaxKernel {
  std::string_view name;
  SumOrder order = SumOrder::kSequential;
  bool scales_first = false;   // exp2(x·log2(e) − m·log2(e))
  bool online = false;         // the sum is rescaled when the maximum grows
  bool by_reciprocal = false;  // p·(1/l)
  int exp_ulps = 0;            // its exp is off by up to so many, either way
  // Defects.
  double exp_error = 0;  // relative, the largest of a polynomial that is too short
  double scale = 1;      // of the exponent
  bool last_left_out = false;
};

inline std::vector<float> SoftmaxOf(const SoftmaxKernel& k, const std::vector<float>& x) {
  constexpr float kLog2E = 1.44269504F;
  const float max = *std::max_element(x.begin(), x.end());
  const auto exponential = [&](float v, float from) {
    const float argument =
        static_cast<float>(k.scale) * (k.scales_first ? v * kLog2E - from * kLog2E : v - from);
    float p = k.scales_first ? std::exp2(argument) : std::exp(argument);
    if (k.exp_error != 0) {
      p *= static_cast<float>(1 + k.exp_error * std::cos(9 * static_cast<double>(argument)));
    }
    // The argument's bits choose the error.
    if (k.exp_ulps > 0 && p > 0x1p-100F) {
      const std::uint32_t bits = std::bit_cast<std::uint32_t>(argument) * 2654435761U >> 8;
      p = MovedBy(p,
                  static_cast<int>(bits % static_cast<unsigned>(2 * k.exp_ulps + 1)) - k.exp_ulps);
    }
    return p;
  };
  const std::size_t n = x.size() - (k.last_left_out ? 1 : 0);
  float sum = 0;
  if (k.online) {
    float running = -std::numeric_limits<float>::infinity();
    for (std::size_t i = 0; i < n; ++i) {
      if (x[i] > running) {
        sum = running == -std::numeric_limits<float>::infinity() ? 0
                                                                 : sum * exponential(running, x[i]);
        running = x[i];
      }
      sum += exponential(x[i], running);
    }
  } else {
    sum = SumOf(k.order, n, [&](std::size_t i) { return exponential(x[i], max); });
  }
  std::vector<float> y(x.size());
  const float reciprocal = 1 / sum;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float p = exponential(x[i], max);
    y[i] = k.by_reciprocal ? p * reciprocal : p / sum;
  }
  return y;
}

inline constexpr SoftmaxKernel kRightSoftmaxes[] = {
    {.name = "sequential"},
    {.name = "pairwise", .order = SumOrder::kPairwise},
    {.name = "lanes", .order = SumOrder::kLanes, .scales_first = true},
    {.name = "blocks", .order = SumOrder::kBlocks, .by_reciprocal = true},
    {.name = "online", .online = true},
    {.name = "approximate exp", .order = SumOrder::kLanes, .exp_ulps = 2},
};

enum class Variance : std::uint8_t { kTwoPasses, kWelford, kMerged, kMoments };

struct NormKernel {
  std::string_view name;
  SumOrder order = SumOrder::kSequential;
  Variance variance = Variance::kTwoPasses;
  bool fma = false;   // y = fma(x, rstd, −mean·rstd)
  int rstd_ulps = 0;  // its reciprocal square root is off by so many
  // Defects.
  bool sample_variance = false;     // n − 1
  bool last_left_out = false;       // of the sum of squares
  bool merges_means_alone = false;  // Chan's merge without the term of the means
};

struct MeanAndSquares {
  float mean = 0;
  float squares = 0;  // Σ(x − mean)²
  float count = 0;
};

inline void WelfordStep(MeanAndSquares& m, float x) {
  m.count += 1;
  const float delta = x - m.mean;
  m.mean += delta / m.count;
  m.squares += delta * (x - m.mean);
}

// y before weight and bias.
inline std::vector<float> NormOf(const NormKernel& k, const std::vector<float>& x, float eps,
                                 bool rms) {
  const std::size_t n = x.size();
  const float length = static_cast<float>(n);
  const auto squares_about = [&](float center) {
    return SumOf(k.order, n - (k.last_left_out ? 1 : 0), [&](std::size_t i) {
      const float d = x[i] - center;
      return d * d;
    });
  };
  MeanAndSquares m;
  if (rms) {
    m.squares = squares_about(0);
  } else if (k.variance == Variance::kWelford) {
    for (const float v : x) WelfordStep(m, v);
  } else if (k.variance == Variance::kMerged) {
    constexpr std::size_t kParts = 16;
    std::vector<MeanAndSquares> parts(std::min(kParts, n));
    for (std::size_t i = 0; i < n; ++i) WelfordStep(parts[i % parts.size()], x[i]);
    m = parts[0];
    for (std::size_t i = 1; i < parts.size(); ++i) {
      const MeanAndSquares& b = parts[i];
      const float count = m.count + b.count, delta = b.mean - m.mean;
      m.squares += b.squares;
      if (!k.merges_means_alone) m.squares += delta * delta * m.count * b.count / count;
      m.mean += delta * b.count / count;
      m.count = count;
    }
  } else {
    m.mean = SumOf(k.order, n, [&](std::size_t i) { return x[i]; }) / length;
    m.squares = k.variance == Variance::kMoments ? squares_about(0) - length * m.mean * m.mean
                                                 : squares_about(m.mean);
  }
  const float variance = m.squares / (k.sample_variance ? length - 1 : length);
  float rstd = 1 / std::sqrt(variance + eps);
  if (k.rstd_ulps != 0) rstd = MovedBy(rstd, k.rstd_ulps);
  std::vector<float> y(n);
  const float offset = -m.mean * rstd;
  for (std::size_t i = 0; i < n; ++i) {
    y[i] = k.fma ? std::fma(x[i], rstd, offset) : (x[i] - m.mean) * rstd;
  }
  return y;
}

inline constexpr NormKernel kRightNorms[] = {
    {.name = "two passes"},
    {.name = "two passes, pairwise", .order = SumOrder::kPairwise},
    {.name = "two passes, lanes", .order = SumOrder::kLanes, .rstd_ulps = 2},
    {.name = "two passes, blocks", .order = SumOrder::kBlocks, .rstd_ulps = -2},
    {.name = "Welford", .variance = Variance::kWelford},
    {.name = "Welford, merged", .variance = Variance::kMerged},
};

}  // namespace assay

#endif  // ASSAY_TESTS_UNIT_OPS_ROW_KERNELS_H_
