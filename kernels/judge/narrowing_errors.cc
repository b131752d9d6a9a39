#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/judge/narrowing_errors.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "hwy/aligned_allocator.h"
#include "hwy/highway.h"
#include "kernels/judge/narrowing_errors.h"
#include "kernels/runtime/cpu/parallel.h"

#ifndef ASSAY_JUDGE_NARROWING_CHUNK_
#define ASSAY_JUDGE_NARROWING_CHUNK_
namespace assay::inline kernels {

// Terms of one part. The planes of a vector are 9 KiB then: those of one element stay in the
// first-level cache, those of a tile's columns in the second.
constexpr std::int64_t kPart = 256;
// Planes of a vector's part, kPart floats each: the values, the low parts, and the differences
// that each narrowing makes.
constexpr int kValues = 0;
constexpr int kLow = 1;
constexpr int kDifferences = 2;
constexpr int kMostPlanes = kDifferences + static_cast<int>(std::size(kNarrowings));

// Elements are taken in tiles of so many vectors a side, terms in segments.
constexpr std::int64_t kTileSide = 64;
constexpr std::int64_t kLeastSegment = 4 * kPart;
constexpr std::int64_t kMostSegments = 8;

struct NarrowingTask {
  struct Element {
    std::int64_t left, right;  // numbers in the tile
  };
  std::span<const NarrowingInfo> narrowings;
  std::span<const Element> elements;
  std::int64_t terms = 0;
  std::int64_t begin = 0, end = 0;               // terms of the segment
  const double* values[2] = {nullptr, nullptr};  // of the tile's vectors
  std::int64_t vectors[2] = {0, 0};              // how many
  const double* scales[2] = {nullptr, nullptr};  // powers of two, one a vector
};

struct NarrowingSums {
  std::vector<double> left, right;  // [narrowings, elements of the tile]
  std::vector<double> low;          // [elements of the tile]
};

}  // namespace assay::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace assay::inline kernels {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <int kDropped>
float Nearest(float v) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(v);
  constexpr std::uint32_t kBelowHalf = (1u << (kDropped - 1)) - 1;
  const std::uint32_t odd = (bits >> kDropped) & 1;
  return std::bit_cast<float>((bits + kBelowHalf + odd) & ~((1u << kDropped) - 1));
}

template <int kDropped>
float Truncated(float v) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(v) & ~((1u << kDropped) - 1));
}

float NearestHalf(float v) {
  constexpr float kAligns = 0.75f;  // its last place is fp16's smallest subnormal
  const float subnormal = (v + kAligns) - kAligns;
  const float normal = Nearest<13>(v);
  const float infinite = std::copysign(std::numeric_limits<float>::infinity(), v);
  const float finite = std::abs(v) < 0x1p-14f ? subnormal : normal;
  return std::abs(normal) > 65504.0f ? infinite : finite;
}

// Writes the difference that one narrowing makes: round(v)·scale − rest for each value.
template <class Round>
void Difference(const float* HWY_RESTRICT v, const float* HWY_RESTRICT rest, float scale,
                const Round& round, float* HWY_RESTRICT plane) {
  for (std::int64_t k = 0; k < kPart; ++k) plane[k] = (round(v[k]) - v[k]) * scale - rest[k];
}

// Writes the planes of kPart values. A scale is a power of two.
void MakePlanes(const double* HWY_RESTRICT values, double scale, const NarrowingInfo* narrowings,
                std::size_t count, float* HWY_RESTRICT planes) {
  HWY_ALIGN float v[kPart];
  HWY_ALIGN float rest[kPart];  // what fp32 does not hold of an fp64 value
  const float narrow_scale = static_cast<float>(scale);
  for (std::int64_t k = 0; k < kPart; ++k) {
    v[k] = static_cast<float>(values[k]);
    planes[kValues * kPart + k] = static_cast<float>(values[k] * scale);
    rest[k] = static_cast<float>((values[k] - static_cast<double>(v[k])) * scale);
  }
  float* low = planes + kLow * kPart;
  for (std::int64_t k = 0; k < kPart; ++k) {
    low[k] = Nearest<16>(v[k] - Nearest<16>(v[k])) * narrow_scale;
  }
  float* plane = planes + kDifferences * kPart;
  for (std::size_t i = 0; i < count; ++i, plane += kPart) {
    const auto write = [&](const auto& round) { Difference(v, rest, narrow_scale, round, plane); };
    switch (narrowings[i].narrower) {
      case Narrower::kF32:
        write([](float x) { return x; });
        break;
      case Narrower::kTF32:
        write([](float x) { return Nearest<13>(x); });
        break;
      case Narrower::kTF32Truncated:
        write([](float x) { return Truncated<13>(x); });
        break;
      case Narrower::kF16:
        write([](float x) { return NearestHalf(x); });
        break;
      case Narrower::kBF16:
        write([](float x) { return Nearest<16>(x); });
        break;
      case Narrower::kBF16Truncated:
        write([](float x) { return Truncated<16>(x); });
        break;
      case Narrower::kBF16x2:
        for (std::int64_t k = 0; k < kPart; ++k) {
          const float left = v[k] - Nearest<16>(v[k]);  // exact
          plane[k] = (Nearest<16>(left) - left) * narrow_scale - rest[k];
        }
        break;
    }
  }
}

// sums[p·stride] += Σ x·plane p, for kCount planes behind one another.
template <int kCount>
void Dots(const float* HWY_RESTRICT x, const float* HWY_RESTRICT planes, double* sums,
          std::int64_t stride) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  V sum[kCount];
#pragma GCC unroll 8
  for (int p = 0; p < kCount; ++p) sum[p] = hn::Zero(d);
  for (std::int64_t k = 0; k < kPart; k += lanes) {
    const V xk = hn::Load(d, x + k);
#pragma GCC unroll 8
    for (int p = 0; p < kCount; ++p) {
      sum[p] = hn::MulAdd(xk, hn::Load(d, planes + p * kPart + k), sum[p]);
    }
  }
#pragma GCC unroll 8
  for (int p = 0; p < kCount; ++p) {
    sums[p * stride] += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sum[p])));
  }
}

void DotsOf(std::size_t count, const float* x, const float* planes, double* sums,
            std::int64_t stride) {
  for (; count >= 4; count -= 4, planes += 4 * kPart, sums += 4 * stride) {
    Dots<4>(x, planes, sums, stride);
  }
  switch (count) {
    case 3:
      return Dots<3>(x, planes, sums, stride);
    case 2:
      return Dots<2>(x, planes, sums, stride);
    case 1:
      return Dots<1>(x, planes, sums, stride);
    default:
      return;
  }
}

// Adds the sums of one segment of the terms to those of a tile's elements.
void AddSegment(const NarrowingTask& task, NarrowingSums* sums) {
  const std::size_t count = task.narrowings.size();
  const std::int64_t stride = static_cast<std::int64_t>(task.elements.size());
  constexpr std::int64_t kVector = kMostPlanes * kPart;
  const auto planes = hwy::AllocateAligned<float>(2 * kTileSide * kVector);
  float* sides[2] = {planes.get(), planes.get() + kTileSide * kVector};
  for (std::int64_t begin = task.begin; begin < task.end; begin += kPart) {
    const std::int64_t here = std::min(kPart, task.end - begin);
    for (int side = 0; side < 2; ++side) {
      for (std::int64_t i = 0; i < task.vectors[side]; ++i) {
        double values[kPart] = {};
        std::copy_n(task.values[side] + i * task.terms + begin, here, values);
        MakePlanes(values, task.scales[side][i], task.narrowings.data(), count,
                   sides[side] + i * kVector);
      }
    }
    for (std::size_t i = 0; i < task.elements.size(); ++i) {
      const float* left = sides[0] + task.elements[i].left * kVector;
      const float* right = sides[1] + task.elements[i].right * kVector;
      DotsOf(count, right + kValues * kPart, left + kDifferences * kPart, &sums->left[i], stride);
      DotsOf(count, left + kValues * kPart, right + kDifferences * kPart, &sums->right[i], stride);
      if (sums->low.empty()) continue;
      DotsOf(1, left + kLow * kPart, right + kLow * kPart, &sums->low[i], stride);
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace assay::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay::inline kernels {

HWY_EXPORT(AddSegment);

namespace {

// What is known of the vectors of one side.
struct Measures {
  std::vector<double> scale;   // power of two: the largest magnitude becomes 1 to 2
  std::vector<double> square;  // Σv², scaled; not finite if a value is not
};

Measures MeasureVectors(const SampledProducts& products, const SampledProducts::Side& side) {
  Measures measures;
  for (std::int64_t i = 0; i < products.vectors(side); ++i) {
    const double* v = side.vector(i, products.terms);
    double largest = 0;
    for (std::int64_t k = 0; k < products.terms; ++k) largest = std::max(largest, std::abs(v[k]));
    // Powers beyond these would make a float of 0 or infinity.
    const bool usual = largest > 0 && std::isfinite(largest);
    const double scale = usual ? std::ldexp(1.0, -std::clamp(std::ilogb(largest), -120, 120)) : 1.0;
    double square = 0;
    for (std::int64_t k = 0; k < products.terms; ++k) square += v[k] * scale * (v[k] * scale);
    measures.scale.push_back(scale);
    measures.square.push_back(square);
  }
  return measures;
}

// The elements whose vectors lie in one tile.
struct Tile {
  std::vector<std::size_t> at;  // numbers in the sample
  std::vector<NarrowingTask::Element> elements;
};

using Tiles = std::map<std::pair<std::int64_t, std::int64_t>, Tile>;

Tiles TilesOf(const SampledProducts& products) {
  Tiles tiles;
  for (std::size_t i = 0; i < products.elements.size(); ++i) {
    const SampledProducts::Element& e = products.elements[i];
    Tile& tile = tiles[{e.left / kTileSide, e.right / kTileSide}];
    tile.at.push_back(i);
    tile.elements.push_back({e.left % kTileSide, e.right % kTileSide});
  }
  return tiles;
}

// The work: each tile of elements, in segments of the terms, with the sums of each piece.
struct Pieces {
  std::vector<NarrowingTask> tasks;
  std::vector<const Tile*> tile_of;
  std::vector<NarrowingSums> sums;
};

Pieces CutInPieces(const SampledProducts& products, const Tiles& tiles, const Measures& left,
                   const Measures& right, const NarrowingErrors& errors) {
  // Their number does not depend on the cores, and so the sums do not.
  const std::int64_t segments =
      std::clamp<std::int64_t>(products.terms / kLeastSegment, 1, kMostSegments);
  Pieces pieces;
  for (const auto& [place, tile] : tiles) {
    NarrowingTask task;
    task.narrowings = errors.narrowings;
    task.elements = tile.elements;
    task.terms = products.terms;
    const std::int64_t first[2] = {place.first * kTileSide, place.second * kTileSide};
    const SampledProducts::Side* sides[2] = {&products.left, &products.right};
    const Measures* measures[2] = {&left, &right};
    for (int side = 0; side < 2; ++side) {
      task.values[side] = sides[side]->vector(first[side], products.terms);
      task.vectors[side] = std::min(kTileSide, products.vectors(*sides[side]) - first[side]);
      task.scales[side] = measures[side]->scale.data() + first[side];
    }
    for (std::int64_t s = 0; s < segments; ++s) {
      task.begin = products.terms * s / segments;
      task.end = products.terms * (s + 1) / segments;
      pieces.tasks.push_back(task);
      pieces.tile_of.push_back(&tile);
      const std::vector<double> zeros(errors.narrowings.size() * tile.at.size(), 0.0);
      pieces.sums.push_back({zeros, zeros, {}});
      if (!errors.low.empty()) pieces.sums.back().low.assign(tile.at.size(), 0.0);
    }
  }
  return pieces;
}

// Adds the sums of every piece, in their order.
void AddPieces(const Pieces& pieces, std::size_t size, NarrowingErrors& errors) {
  for (std::size_t t = 0; t < pieces.tasks.size(); ++t) {
    const std::vector<std::size_t>& at = pieces.tile_of[t]->at;
    const NarrowingSums& sums = pieces.sums[t];
    for (std::size_t i = 0; i < at.size(); ++i) {
      for (std::size_t n = 0; n < errors.narrowings.size(); ++n) {
        errors.left[n * size + at[i]] += sums.left[n * at.size() + i];
        errors.right[n * size + at[i]] += sums.right[n * at.size() + i];
      }
      if (!errors.low.empty()) errors.low[at[i]] += sums.low[i];
    }
  }
}

}  // namespace

std::vector<NarrowingInfo> NarrowingsOf(DType format) {
  std::vector<NarrowingInfo> narrowings;
  const FormatInfo& f = Info(format);
  for (const NarrowingInfo& n : kNarrowings) {
    if (n.significand_bits < f.mantissa_bits + 1) narrowings.push_back(n);
  }
  return narrowings;
}

NarrowingErrors ComputeNarrowingErrors(const SampledProducts& products) {
  NarrowingErrors errors;
  errors.narrowings = NarrowingsOf(products.format);
  const std::int64_t count = products.count();
  const std::size_t narrowings = errors.narrowings.size();
  if (narrowings == 0 || count == 0 || products.terms == 0) return errors;
  const std::size_t size = static_cast<std::size_t>(count);
  errors.left.assign(narrowings * size, 0.0);
  errors.right = errors.left;
  if (errors.narrowings.back().narrower == Narrower::kBF16x2) errors.low.assign(size, 0.0);
  errors.scale.assign(size, 0.0);

  const Measures left = MeasureVectors(products, products.left);
  const Measures right = MeasureVectors(products, products.right);
  const Tiles tiles = TilesOf(products);
  Pieces pieces = CutInPieces(products, tiles, left, right, errors);
  ParallelForDynamic(static_cast<std::int64_t>(pieces.tasks.size()), [&](std::int64_t t) {
    const std::size_t i = static_cast<std::size_t>(t);
    HWY_DYNAMIC_DISPATCH(AddSegment)(pieces.tasks[i], &pieces.sums[i]);
  });
  AddPieces(pieces, size, errors);
  for (std::size_t i = 0; i < size; ++i) {
    const SampledProducts::Element& e = products.elements[i];
    const std::size_t a = static_cast<std::size_t>(e.left), b = static_cast<std::size_t>(e.right);
    const double unscaled = e.factor / left.scale[a] / right.scale[b];
    errors.scale[i] = std::abs(unscaled) * std::sqrt(left.square[a] * right.square[b]);
    const double factor = std::isfinite(errors.scale[i]) ? unscaled : std::nan("");
    for (std::size_t n = 0; n < narrowings; ++n) {
      errors.left[n * size + i] *= factor;
      errors.right[n * size + i] *= factor;
    }
    if (!errors.low.empty()) errors.low[i] *= factor;
  }
  return errors;
}

}  // namespace assay::kernels
#endif
