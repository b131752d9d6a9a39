// softmax of rows, correct except for one defect; see the table.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/providers/planted/factories.h"
#include "kernels/runtime/cpu/parallel.h"

namespace assay::planted {
namespace {

enum class Defect : std::uint8_t {
  kNoMax,
  kMaxOfAllRows,
  kShortMax,
  kSumInFp16,
  kSumInBf16,
  kUnderflowTail,
  kDroppedLast,
  kRoughExp,
  kExpScale,
  kSmallExpScale,
  kStaleSum,
  kConstantOutput,
  kNanInTail,
};

constexpr std::array<std::pair<std::string_view, Defect>, 18> kDefects = {{
    {"no-max", Defect::kNoMax},
    {"max-of-all-rows", Defect::kMaxOfAllRows},
    {"short-max", Defect::kShortMax},
    {"sum-in-16-bits", Defect::kSumInFp16},
    {"sum-in-bf16", Defect::kSumInBf16},
    {"underflow-tail", Defect::kUnderflowTail},
    {"dropped-last", Defect::kDroppedLast},
    {"stale-sum", Defect::kStaleSum},
    {"constant-output", Defect::kConstantOutput},
    {"rough-exp", Defect::kRoughExp},
    {"long-rough-exp", Defect::kRoughExp},
    {"exp-scale-1e-4", Defect::kExpScale},
    {"exp-scale-1e-6", Defect::kSmallExpScale},
    {"long-exp-scale-1e-6", Defect::kSmallExpScale},
    {"dropped-last-4096", Defect::kDroppedLast},
    {"dropped-last-8192", Defect::kDroppedLast},
    {"long-sum-in-bf16", Defect::kSumInBf16},
    {"nan-in-tail", Defect::kNanInTail},
}};

constexpr double kExpError = 3e-6;    // relative, at most
constexpr double kExpPeriod = 0.7;    // of the argument, after which the error repeats
constexpr double kScaled = 1 + 1e-4;  // factors of the argument
constexpr double kScaledLittle = 1 + 1e-6;
constexpr std::int64_t kLanes = 16;  // elements of a row that are computed together

class SoftmaxKernel : public Kernel {
 public:
  explicit SoftmaxKernel(Defect defect) : defect_(defect) {}

  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    const TensorView& x = inputs[0];
    ParallelFor(x.extents.rows, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) Row(x, r, output);
    });
    return absl::OkStatus();
  }

 private:
  bool Is(Defect defect) const { return defect_ == defect; }

  void Row(const TensorView& x, std::int64_t r, const TensorView& y) const {
    const std::int64_t cols = x.extents.cols;
    const std::vector<float> e = Exponentials(x, r);
    const float sum =
        Sum(Is(Defect::kStaleSum) ? Exponentials(x, std::max<std::int64_t>(r - 1, 0)) : e);
    for (std::int64_t c = 0; c < cols; ++c) {
      float value = e[static_cast<std::size_t>(c)] / sum;
      if (Is(Defect::kConstantOutput)) value = 1.0F / static_cast<float>(cols);
      // The lanes of a last, partial vector hold the data behind the row.
      const bool tail = c >= cols / kLanes * kLanes;
      if (Is(Defect::kNanInTail) && tail) value = std::numeric_limits<float>::quiet_NaN();
      Put(y, 0, r, c, static_cast<double>(value));
    }
  }

  // Computes exp(x − max x) for a row.
  std::vector<float> Exponentials(const TensorView& x, std::int64_t r) const {
    std::vector<float> e(static_cast<std::size_t>(x.extents.cols));
    for (std::size_t c = 0; c < e.size(); ++c) {
      e[c] = static_cast<float>(Get(x, 0, r, static_cast<std::int64_t>(c)));
    }
    const float max = Largest(x, e);
    for (float& v : e) {
      v = Exp(v - max);
      if (Is(Defect::kUnderflowTail)) v = Fp16Flushed(v);
    }
    return e;
  }

  // What is subtracted from a row.
  float Largest(const TensorView& x, const std::vector<float>& row) const {
    if (Is(Defect::kNoMax)) return 0.0F;
    if (Is(Defect::kMaxOfAllRows)) {
      double largest = Get(x, 0);
      for (std::int64_t i = 1; i < x.count(); ++i) largest = std::max(largest, Get(x, i));
      return static_cast<float>(largest);
    }
    const bool without_last = Is(Defect::kShortMax) && row.size() > 1;
    return *std::max_element(row.begin(), row.end() - (without_last ? 1 : 0));
  }

  float Exp(float v) const {
    const auto x = static_cast<double>(v);
    if (Is(Defect::kExpScale)) return static_cast<float>(std::exp(x * kScaled));
    if (Is(Defect::kSmallExpScale)) return static_cast<float>(std::exp(x * kScaledLittle));
    if (!Is(Defect::kRoughExp)) return std::exp(v);
    // As of a polynomial that approximates it on short ranges.
    constexpr double kTurn = 6.283185307179586;
    return static_cast<float>(std::exp(x) * (1 + kExpError * std::sin(kTurn / kExpPeriod * x)));
  }

  float Sum(const std::vector<float>& e) const {
    const DType held = Is(Defect::kSumInFp16)   ? DType::kF16
                       : Is(Defect::kSumInBf16) ? DType::kBF16
                                                : DType::kF32;
    const std::size_t terms = Is(Defect::kDroppedLast) ? e.size() - 1 : e.size();
    float sum = 0;
    for (std::size_t c = 0; c < terms; ++c) {
      sum += e[c];
      if (held != DType::kF32) {
        sum = static_cast<float>(Quantise(static_cast<double>(sum), held));
      }
    }
    return sum;
  }

  // Rounds as fp16 arithmetic does that flushes subnormal results.
  static float Fp16Flushed(float v) {
    const double held = Quantise(static_cast<double>(v), DType::kF16);
    return held < Info(DType::kF16).min_normal ? 0.0F : static_cast<float>(held);
  }

  Defect defect_;
};

}  // namespace

Made MakeSoftmax(const Case& c, const Plan&, Device&) {
  const std::string_view wanted = DefectOf(c);
  for (const auto& [name, defect] : kDefects) {
    if (name == wanted) return std::make_unique<SoftmaxKernel>(defect);
  }
  return NoSuchDefect(c);
}

}  // namespace assay::planted
