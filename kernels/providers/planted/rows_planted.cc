// softmax and layer_norm of rows, each with one defect, and copy with a hole.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <variant>

#include "kernels/providers/planted/factories.h"
#include "kernels/runtime/cpu/parallel.h"

namespace assay::planted {
namespace {

class SoftmaxKernel : public Kernel {
 public:
  explicit SoftmaxKernel(bool no_max) : no_max_(no_max) {}

  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    const TensorView& x = inputs[0];
    ParallelFor(x.extents.rows, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) Row(x, r, output);
    });
    return absl::OkStatus();
  }

 private:
  void Row(const TensorView& x, std::int64_t r, const TensorView& y) const {
    const auto value = [&](std::int64_t c) { return static_cast<float>(Get(x, 0, r, c)); };
    float max = no_max_ ? 0.0F : -std::numeric_limits<float>::infinity();
    if (!no_max_) {
      for (std::int64_t c = 0; c < x.extents.cols; ++c) max = std::max(max, value(c));
    }
    float sum = 0;
    double fp16_sum = 0;
    for (std::int64_t c = 0; c < x.extents.cols; ++c) {
      const float e = std::exp(value(c) - max);
      sum += e;
      fp16_sum = Quantise(fp16_sum + static_cast<double>(e), DType::kF16);
    }
    const float total = no_max_ ? sum : static_cast<float>(fp16_sum);
    for (std::int64_t c = 0; c < x.extents.cols; ++c) {
      Put(y, 0, r, c, static_cast<double>(std::exp(value(c) - max) / total));
    }
  }

  bool no_max_;  // else the sum is in 16 bits
};

class LayerNormKernel : public Kernel {
 public:
  explicit LayerNormKernel(const LayerNormProblem& p) : p_(p) {}

  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    const TensorView& x = inputs[0];
    const auto n = static_cast<float>(x.extents.cols);
    for (std::int64_t r = 0; r < x.extents.rows; ++r) {
      float sum = 0;
      float squares = 0;
      for (std::int64_t c = 0; c < x.extents.cols; ++c) {
        const auto v = static_cast<float>(Get(x, 0, r, c));
        sum += v;
        squares += v * v;
      }
      const float mean = p_.rms ? 0.0F : sum / n;
      // The defect: both terms are large where the mean is, and their difference is not.
      const float variance = squares / n - mean * mean;
      const float scale = 1.0F / std::sqrt(variance + static_cast<float>(p_.eps));
      for (std::int64_t c = 0; c < x.extents.cols; ++c) {
        float y = (static_cast<float>(Get(x, 0, r, c)) - mean) * scale;
        if (p_.affine) {
          y *= static_cast<float>(Get(inputs[1], c));
          if (!p_.rms) y += static_cast<float>(Get(inputs[2], c));
        }
        Put(output, 0, r, c, static_cast<double>(y));
      }
    }
    return absl::OkStatus();
  }

 private:
  LayerNormProblem p_;
};

class CopyKernel : public Kernel {
 public:
  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    constexpr std::int64_t kLine = 64;  // [bytes] left out, in the middle
    const std::int64_t bytes = output.bytes();
    const std::int64_t hole = bytes / 2 / kLine * kLine;
    const std::int64_t behind = std::min(hole + kLine, bytes);
    auto* to = output.as<unsigned char>();
    const auto* from = inputs[0].as<const unsigned char>();
    std::memcpy(to, from, static_cast<std::size_t>(hole));
    std::memcpy(to + behind, from + behind, static_cast<std::size_t>(bytes - behind));
    return absl::OkStatus();
  }
};

}  // namespace

Made MakeSoftmax(const Case& c, const Plan&, Device&) {
  const std::string_view name = DefectOf(c);
  if (name != "no-max" && name != "sum-in-16-bits") return NoSuchDefect(c);
  return std::make_unique<SoftmaxKernel>(name == "no-max");
}

Made MakeLayerNorm(const Case& c, const Plan&, Device&) {
  if (DefectOf(c) != "one-pass-variance") return NoSuchDefect(c);
  return std::make_unique<LayerNormKernel>(std::get<LayerNormProblem>(c.problem));
}

Made MakeCopy(const Case& c, const Plan&, Device&) {
  if (DefectOf(c) != "stale") return NoSuchDefect(c);
  return std::make_unique<CopyKernel>();
}

}  // namespace assay::planted
