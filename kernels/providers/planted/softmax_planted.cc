// softmax of rows, correct except for one defect; see the table.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/providers/planted/defect.h"
#include "kernels/providers/planted/factories.h"
#include "kernels/runtime/cpu/parallel.h"

namespace assay::inline kernels::planted {
namespace {

constexpr std::string_view kNames[] = {
    "no-max",         "max-of-all-rows", "short-max",  "sum-in-16-bits",  "sum-in-bf16",
    "underflow-tail", "dropped-last",    "stale-sum",  "constant-output", "rough-exp",
    "exp-scale-1e-4", "exp-scale-1e-6",  "nan-in-tail"};
using Defect = NamedDefect<kNames>;
constexpr Alias<Defect> kAliases[] = {
    {"long-rough-exp", "rough-exp"},       {"long-exp-scale-1e-6", "exp-scale-1e-6"},
    {"dropped-last-4096", "dropped-last"}, {"dropped-last-8192", "dropped-last"},
    {"long-sum-in-bf16", "sum-in-bf16"},
};

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
    const float sum = Sum(Is("stale-sum") ? Exponentials(x, std::max<std::int64_t>(r - 1, 0)) : e);
    for (std::int64_t c = 0; c < cols; ++c) {
      float value = e[static_cast<std::size_t>(c)] / sum;
      if (Is("constant-output")) value = 1.0F / static_cast<float>(cols);
      // The lanes of a last, partial vector hold the data behind the row.
      const bool tail = c >= cols / kLanes * kLanes;
      if (Is("nan-in-tail") && tail) value = std::numeric_limits<float>::quiet_NaN();
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
      if (Is("underflow-tail")) v = Fp16Flushed(v);
    }
    return e;
  }

  // What is subtracted from a row.
  float Largest(const TensorView& x, const std::vector<float>& row) const {
    if (Is("no-max")) return 0.0F;
    if (Is("max-of-all-rows")) {
      double largest = Get(x, 0);
      for (std::int64_t i = 1; i < x.count(); ++i) largest = std::max(largest, Get(x, i));
      return static_cast<float>(largest);
    }
    const bool without_last = Is("short-max") && row.size() > 1;
    return *std::max_element(row.begin(), row.end() - (without_last ? 1 : 0));
  }

  float Exp(float v) const {
    const auto x = static_cast<double>(v);
    if (Is("exp-scale-1e-4")) return static_cast<float>(std::exp(x * kScaled));
    if (Is("exp-scale-1e-6")) return static_cast<float>(std::exp(x * kScaledLittle));
    if (!Is("rough-exp")) return std::exp(v);
    // As of a polynomial that approximates it on short ranges.
    constexpr double kTurn = 6.283185307179586;
    return static_cast<float>(std::exp(x) * (1 + kExpError * std::sin(kTurn / kExpPeriod * x)));
  }

  float Sum(const std::vector<float>& e) const {
    const DType held = Is("sum-in-16-bits") ? DType::kF16
                       : Is("sum-in-bf16")  ? DType::kBF16
                                            : DType::kF32;
    const std::size_t terms = Is("dropped-last") ? e.size() - 1 : e.size();
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
  const std::optional<Defect> defect = Defect::Find(DefectOf(c), kAliases);
  if (!defect) return NoSuchDefect(c);
  return std::make_unique<SoftmaxKernel>(*defect);
}

}  // namespace assay::kernels::planted
