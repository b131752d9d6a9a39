// dequant_softmax, correct except for one defect; see the table.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "kernels/providers/planted/defect.h"
#include "kernels/providers/planted/factories.h"
#include "kernels/runtime/cpu/parallel.h"

namespace assay::inline kernels::planted {
namespace {

constexpr std::string_view kNames[] = {"no-max",           "wrong-scale",        "dropped-scale",
                                       "sum-in-16-bits",   "row-sum-in-bf16",    "stale-row",
                                       "unsigned-weights", "transposed-weights", "dropped-last",
                                       "short-sum",        "nan-in-tail"};
using Defect = NamedDefect<kNames>;

constexpr std::int64_t kLanes = 16;  // elements of a row that are computed together

float Held(float v, DType format) {
  return static_cast<float>(Quantise(static_cast<double>(v), format));
}

class DequantSoftmaxKernel : public Kernel {
 public:
  DequantSoftmaxKernel(const DequantSoftmaxProblem& p, Defect defect) : p_(p), defect_(defect) {}

  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    const std::vector<float> w = Weights(inputs[1]);
    const std::vector<float> s = Scales(inputs[2]);
    ParallelFor(p_.m, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) Row(inputs[0], w, s, r, output);
    });
    return absl::OkStatus();
  }

 private:
  bool Is(Defect defect) const { return defect_ == defect; }

  // [n, k], so that the terms of a column lie together.
  std::vector<float> Weights(const TensorView& w) const {
    const bool transposed = p_.transpose_w != Is("transposed-weights");
    std::vector<float> values(static_cast<std::size_t>(p_.n * p_.k));
    for (std::int64_t j = 0; j < p_.n; ++j) {
      for (std::int64_t k = 0; k < p_.k; ++k) {
        // The index uses the length of the stored rows, so that a wrong layout stays inside the
        // tensor.
        const double v = Get(w, transposed ? j * p_.k + k : k * p_.n + j);
        const bool wraps = Is("unsigned-weights") && v < 0;
        values[static_cast<std::size_t>(j * p_.k + k)] = static_cast<float>(wraps ? v + 256 : v);
      }
    }
    return values;
  }

  std::vector<float> Scales(const TensorView& scale) const {
    std::vector<float> s(static_cast<std::size_t>(p_.n), 1.0F);
    if (Is("dropped-scale")) return s;
    const std::int64_t shift = Is("wrong-scale") ? 1 : 0;
    for (std::int64_t j = 0; j < p_.n; ++j) {
      s[static_cast<std::size_t>(j)] = static_cast<float>(Get(scale, (j + shift) % p_.n));
    }
    return s;
  }

  std::vector<float> Logits(const TensorView& a, const std::vector<float>& w,
                            const std::vector<float>& s, std::int64_t r) const {
    const std::int64_t terms = Is("short-sum") ? p_.k - 1 : p_.k;
    std::vector<float> x(s.size()), row(static_cast<std::size_t>(p_.k));
    for (std::size_t k = 0; k < row.size(); ++k) {
      row[k] = static_cast<float>(Get(a, 0, r, static_cast<std::int64_t>(k)));
    }
    // Several columns side by side, each in the order of its terms. Behind the last column it is
    // taken again.
    constexpr std::int64_t kTogether = 8;
    for (std::int64_t first = 0; first < p_.n; first += kTogether) {
      const float* columns[kTogether];
      float sums[kTogether] = {};
      for (std::int64_t i = 0; i < kTogether; ++i) {
        columns[i] = w.data() + std::min(first + i, p_.n - 1) * p_.k;
      }
      for (std::int64_t k = 0; k < terms; ++k) {
        const float here = row[static_cast<std::size_t>(k)];
        for (std::int64_t i = 0; i < kTogether; ++i) sums[i] += here * columns[i][k];
        if (!Is("sum-in-16-bits")) continue;
        for (float& sum : sums) sum = ToHalf(sum);
      }
      for (std::int64_t j = first; j < std::min(p_.n, first + kTogether); ++j) {
        x[static_cast<std::size_t>(j)] = sums[j - first] * s[static_cast<std::size_t>(j)];
      }
    }
    return x;
  }

  void Row(const TensorView& a, const std::vector<float>& w, const std::vector<float>& s,
           std::int64_t r, const TensorView& y) const {
    const bool stale = Is("stale-row") && r % 8 == 7;
    std::vector<float> e = Logits(a, w, s, stale ? r - 1 : r);
    const float max = Is("no-max") ? 0.0F : *std::max_element(e.begin(), e.end());
    float sum = 0;
    for (std::size_t j = 0; j < e.size(); ++j) {
      e[j] = std::exp(e[j] - max);
      if (Is("dropped-last") && j + 1 == e.size()) continue;
      sum += e[j];
      if (Is("row-sum-in-bf16")) sum = Held(sum, DType::kBF16);
    }
    for (std::int64_t j = 0; j < p_.n; ++j) {
      float value = e[static_cast<std::size_t>(j)] / sum;
      // The lanes of a last, partial vector hold the data behind the row.
      if (Is("nan-in-tail") && j >= p_.n / kLanes * kLanes) {
        value = std::numeric_limits<float>::quiet_NaN();
      }
      Put(y, 0, r, j, static_cast<double>(value));
    }
  }

  const DequantSoftmaxProblem p_;
  const Defect defect_;
};

}  // namespace

Made MakeDequantSoftmax(const Case& c, const Plan&, Device&) {
  const std::optional<Defect> defect = Defect::Find(DefectOf(c));
  if (!defect) return NoSuchDefect(c);
  return std::make_unique<DequantSoftmaxKernel>(std::get<DequantSoftmaxProblem>(c.problem),
                                                *defect);
}

}  // namespace assay::kernels::planted
