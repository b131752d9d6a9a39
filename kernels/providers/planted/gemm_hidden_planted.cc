// gemm in fp32 whose defects hide below the bound of each element; see hidden_table.cc.
//
// A row of the product is summed for a group of columns at once, so that sums of 65,536 terms take
// little time. Each kernel has a way to add one product, and a way to change finished elements.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "kernels/providers/planted/defect.h"
#include "kernels/providers/planted/factories.h"
#include "kernels/providers/planted/site.h"
#include "kernels/runtime/cpu/parallel.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels::planted {
namespace {

constexpr std::string_view kNames[] = {
    "fp16-block-sums", "bf16-block-sums", "truncating-sums", "tf32-on-positive", "two-bf16-inputs",
    "fp16-results",    "gain-1e-4",       "gain-1e-5",       "wrong-lanes",      "every-4th",
    "every-128th",     "bit-flips",       "bit-pattern",     "rare-launch"};
using Defect = NamedDefect<kNames>;

// A name may have "long-" before it: the same defect with more terms.
constexpr std::string_view kLongPrefix = "long-";

constexpr std::int64_t kGroup = 8;          // columns that are summed side by side
constexpr std::int64_t kBeside = 4;         // rows that are summed side by side
constexpr std::int64_t kBlock = 16;         // terms in a block of narrow sums
constexpr std::int64_t kLanes = 32;         // lanes in a group
constexpr float kGained = 1 + 1e-4F;        // factors
constexpr float kGainedLittle = 1 + 1e-5F;  // factors
constexpr float kWrong = 1 + 0x1p-16F;      // the factor of wrong lanes and elements
constexpr std::int64_t kLaunchOdds = 100;   // one launch of this many is wrong
constexpr std::int64_t kFlipped = 3;        // flipped bits
constexpr std::int64_t kLowBits = 12;       // lowest bits of a mantissa that may be flipped
constexpr std::uint32_t kLastBits = 0x1f;   // if all these bits are set, they are lost

enum SiteDraw : std::uint32_t {
  kGroupDraw,
  kElementDraw,
  kPhaseDraw,
  kBitDraw = 100,      // and up: one for each bit
  kLaunchDraw = 1000,  // and up: one for each launch
};

std::size_t Size(std::int64_t n) { return static_cast<std::size_t>(n); }

float Narrowed(float v, DType format) {
  return static_cast<float>(Quantise(static_cast<double>(v), format));
}

// Of a group. They are passed by reference: without AVX there is no register for one.
using Columns [[gnu::vector_size(kGroup * sizeof(float))]] = float;
using WideColumns [[gnu::vector_size(kGroup * sizeof(double))]] = double;
using WideBits [[gnu::vector_size(kGroup * sizeof(std::uint64_t))]] = std::uint64_t;

// Gives each a significand of `kBits` bits, rounded to nearest; no format's range applies.
template <int kBits>
void Shorten(Columns& v) {
  const Columns spread = v * static_cast<float>((1 << (24 - kBits)) + 1);
  v = spread - (spread - v);
}

// Adds in double, and rounds to fp32 towards zero.
void AddTowardsZero(Columns& sum, float a, const Columns& b) {
  constexpr std::uint64_t kBeyondFp32 = (std::uint64_t{1} << 29) - 1;
  const WideColumns wide = __builtin_convertvector(sum, WideColumns) +
                           static_cast<double>(a) * __builtin_convertvector(b, WideColumns);
  const WideBits cut = reinterpret_cast<WideBits>(wide) & ~kBeyondFp32;
  sum = __builtin_convertvector(reinterpret_cast<WideColumns>(cut), Columns);
}

class HiddenGemm : public Kernel {
 public:
  HiddenGemm(const GemmProblem& p, Defect defect, const Site& site)
      : p_(p), defect_(defect), site_(site) {}

  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    ++launches_;
    for (std::int64_t b = 0; b < p_.batch; ++b) {
      const std::vector<float> left = Operand(inputs[0], b, true);
      const std::vector<float> right = InGroups(Operand(inputs[1], b, false));
      ParallelFor(p_.m, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t top = begin; top < end; top += kBeside) {
          const std::int64_t count = std::min(kBeside, end - top);
          for (std::int64_t first = 0; first < p_.n; first += kGroup) {
            float sums[kBeside * kGroup];
            Sum(&left[Size(top * p_.k)], count, &right[Size(first * p_.k)], sums);
            for (std::int64_t i = 0; i < count; ++i) {
              for (std::int64_t j = first; j < std::min(p_.n, first + kGroup); ++j) {
                const std::int64_t index = (b * p_.m + top + i) * p_.n + j;
                const float sum = sums[i * kGroup + j - first];
                Put(output, b, top + i, j, static_cast<double>(Result(index, sum)));
              }
            }
          }
        }
      });
    }
    return absl::OkStatus();
  }

 private:
  bool Is(Defect defect) const { return defect_ == defect; }

  // One operand of the product, dense, as the kernel sees it.
  std::vector<float> Operand(const TensorView& view, std::int64_t b, bool left) const {
    const Extents& x = view.extents;
    const bool changed =
        Is("tf32-on-positive") || Is("two-bf16-inputs") || (Is("bit-pattern") && left);
    std::vector<float> values(Size(x.rows * x.cols));
    for (std::int64_t r = 0; r < x.rows; ++r) {
      const float* row = view.as<float>() + b * x.batch_stride + r * x.ld;
      std::transform(row, row + x.cols, &values[Size(r * x.cols)],
                     [&](float v) { return changed ? Input(v, left) : v; });
    }
    return values;
  }

  // B, [groups, k, kGroup], from [k, n].
  std::vector<float> InGroups(const std::vector<float>& dense) const {
    std::vector<float> columns(Size((p_.n + kGroup - 1) / kGroup * kGroup * p_.k));
    for (std::int64_t first = 0; first < p_.n; first += kGroup) {
      for (std::int64_t t = 0; t < p_.k; ++t) {
        std::copy_n(&dense[Size(t * p_.n + first)], std::min(kGroup, p_.n - first),
                    &columns[Size((first * p_.k) + t * kGroup)]);
      }
    }
    return columns;
  }

  float Input(float v, bool left) const {
    if (Is("tf32-on-positive")) return Narrowed(v, DType::kTF32);
    if (Is("two-bf16-inputs")) {
      const float high = Narrowed(v, DType::kBF16);
      return high + Narrowed(v - high, DType::kBF16);
    }
    if (Is("bit-pattern") && left) {
      const auto bits = std::bit_cast<std::uint32_t>(v);
      return (bits & kLastBits) == kLastBits ? std::bit_cast<float>(bits & ~kLastBits) : v;
    }
    return v;
  }

  // sums[i·kGroup + j] = row i · column j of a group of B's, for kBeside rows at most.
  void Sum(const float* rows, std::int64_t count, const float* group, float* sums) const {
    if (Is("truncating-sums")) return Add(rows, count, group, sums, p_.k, AddTowardsZero);
    if (Is("fp16-block-sums")) {
      return Add(rows, count, group, sums, kBlock, [](Columns& sum, float a, const Columns& b) {
        sum += a * b;
        Shorten<11>(sum);
      });
    }
    if (Is("bf16-block-sums")) {
      return Add(rows, count, group, sums, kBlock, [](Columns& sum, float a, const Columns& b) {
        sum += a * b;
        Shorten<8>(sum);
      });
    }
    Add(rows, count, group, sums, kBlock,
        [](Columns& sum, float a, const Columns& b) { sum += a * b; });
  }

  template <class Step>
  void Add(const float* rows, std::int64_t count, const float* group, float* sums,
           std::int64_t block, Step step) const {
    if (count == kBeside) return AddBeside<kBeside>(rows, group, sums, block, step);
    for (std::int64_t i = 0; i < count; ++i) {
      AddBeside<1>(rows + i * p_.k, group, sums + i * kGroup, block, step);
    }
  }

  // Adds blocks of `block` terms by `step`, and their sums in fp32.
  template <std::int64_t kRows, class Step>
  void AddBeside(const float* rows, const float* group, float* sums, std::int64_t block,
                 Step step) const {
    Columns all[kRows] = {};
    for (std::int64_t first = 0; first < p_.k; first += block) {
      Columns part[kRows] = {};
      for (std::int64_t t = first; t < std::min(first + block, p_.k); ++t) {
        Columns terms;
        std::memcpy(&terms, group + t * kGroup, sizeof terms);
#pragma GCC unroll 4
        for (std::int64_t r = 0; r < kRows; ++r) step(part[r], rows[r * p_.k + t], terms);
      }
#pragma GCC unroll 4
      for (std::int64_t r = 0; r < kRows; ++r) all[r] += part[r];
    }
    std::memcpy(sums, all, sizeof all);
  }

  // Element `index` of the output, whose right value is `v`.
  float Result(std::int64_t index, float v) const {
    const std::int64_t count = p_.batch * p_.m * p_.n;
    if (Is("fp16-results")) return Narrowed(v, DType::kF16);
    if (Is("gain-1e-4")) return v * kGained;
    if (Is("gain-1e-5")) return v * kGainedLittle;
    if (Is("wrong-lanes")) {
      return index / kLanes == site_.Draw(kGroupDraw, (count + kLanes - 1) / kLanes) ? v * kWrong
                                                                                     : v;
    }
    if (Is("every-4th")) return InPeriod(index, 4) ? v * kWrong : v;
    if (Is("every-128th")) return InPeriod(index, 128) ? v * kWrong : v;
    if (Is("bit-flips")) return index == site_.Draw(kElementDraw, count) ? Flipped(v) : v;
    if (Is("rare-launch")) {
      const auto draw = kLaunchDraw + static_cast<std::uint32_t>(launches_);
      const bool wrong = site_.Draw(draw, kLaunchOdds) == 0;
      return wrong && index == site_.Draw(kElementDraw, count) ? v * kWrong : v;
    }
    return v;
  }

  bool InPeriod(std::int64_t index, std::int64_t period) const {
    return index % period == site_.Draw(kPhaseDraw, period);
  }

  float Flipped(float v) const {
    std::uint32_t mask = 0;
    for (std::uint32_t draw = kBitDraw; std::popcount(mask) < kFlipped; ++draw) {
      mask |= std::uint32_t{1} << site_.Draw(draw, kLowBits);
    }
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(v) ^ mask);
  }

  GemmProblem p_;
  Defect defect_;
  Site site_;
  int launches_ = 0;
};

bool IsPlain(const GemmProblem& p, const Plan& plan) {
  const bool scaled = p.alpha != 1.0 || p.scale_a != 1.0 || p.scale_b != 1.0;
  const bool activated = !p.activation.empty() && p.activation != "none";
  return plan.inputs.size() == 2 && plan.inputs[0].dtype == DType::kF32 && !p.trans_a &&
         !p.trans_b && !scaled && !activated;
}

}  // namespace

Made MakeHiddenGemm(const Case& c, const Plan& plan) {
  std::string_view wanted = DefectOf(c);
  if (wanted.starts_with(kLongPrefix)) wanted.remove_prefix(kLongPrefix.size());
  const std::optional<Defect> defect = Defect::Find(wanted);
  if (!defect) return NoSuchDefect(c);
  const auto& p = std::get<GemmProblem>(c.problem);
  if (!IsPlain(p, plan)) {
    return absl::UnimplementedError(
        Cat(c.provider, " gemm takes fp32 products A·B without transposition, scale and epilogue"));
  }
  return std::make_unique<HiddenGemm>(p, *defect, Site(c));
}

}  // namespace assay::kernels::planted
