// layer_norm of rows, correct except for one defect; see the table.
#include <cmath>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "kernels/providers/planted/defect.h"
#include "kernels/providers/planted/factories.h"

namespace assay::inline kernels::planted {
namespace {

constexpr std::string_view kNames[] = {
    "one-pass-variance", "negative-variance", "sum-in-16-bits",
    "sample-variance",   "missing-eps",       "dropped-last",
    "dropped-bias",      "wrong-eps",         "merge-without-means-8192",
    "zero-output"};
using Defect = NamedDefect<kNames>;
constexpr Alias<Defect> kAliases[] = {
    {"long-wrong-eps", "wrong-eps"},
    {"sample-variance-8192", "sample-variance"},
    {"one-pass-variance-8192", "one-pass-variance"},
    {"dropped-last-1024", "dropped-last"},
    {"dropped-last-16384", "dropped-last"},
};

constexpr double kOtherEps = 1e-3;  // in place of the usual 1e-5
constexpr std::size_t kParts = 2;   // of a row, for the merge of variances

class LayerNormKernel : public Kernel {
 public:
  LayerNormKernel(const LayerNormProblem& p, DType dtype, Defect defect)
      : p_(p), defect_(defect), width_(dtype == DType::kBF16 ? DType::kBF16 : DType::kF16) {}

  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    const TensorView& x = inputs[0];
    std::vector<float> row(static_cast<std::size_t>(x.extents.cols));
    for (std::int64_t r = 0; r < x.extents.rows; ++r) {
      for (std::size_t c = 0; c < row.size(); ++c) {
        row[c] = static_cast<float>(Get(x, 0, r, static_cast<std::int64_t>(c)));
      }
      const Moments of = MomentsOf(row);
      const float eps = static_cast<float>(Eps());
      const float scale = 1.0F / std::sqrt(of.variance + eps);
      for (std::int64_t c = 0; c < x.extents.cols; ++c) {
        float y = (row[static_cast<std::size_t>(c)] - of.mean) * scale;
        if (p_.affine) {
          y *= static_cast<float>(Get(inputs[1], c));
          if (!p_.rms && !Is("dropped-bias")) y += static_cast<float>(Get(inputs[2], c));
        }
        Put(output, 0, r, c, Is("zero-output") ? 0.0 : static_cast<double>(y));
      }
    }
    return absl::OkStatus();
  }

 private:
  struct Moments {
    float mean = 0;  // 0 in the RMS form
    float variance = 0;
  };

  bool Is(Defect defect) const { return defect_ == defect; }

  double Eps() const {
    if (Is("missing-eps")) return 0.0;
    return Is("wrong-eps") ? kOtherEps : p_.eps;
  }

  // The sum of squared distances from the mean of the terms from `begin` up to `end`.
  float Spread(const std::vector<float>& row, std::size_t begin, std::size_t end,
               float mean) const {
    float spread = 0;
    for (std::size_t c = begin; c < end; ++c) {
      const float d = row[c] - mean;
      spread = Sum(spread, d * d);
    }
    return spread;
  }

  // The same, each part from its own mean.
  static float SpreadOfParts(const std::vector<float>& row) {
    float spread = 0;
    for (std::size_t part = 0; part < kParts; ++part) {
      const std::size_t begin = part * row.size() / kParts;
      const std::size_t end = (part + 1) * row.size() / kParts;
      double sum = 0;
      for (std::size_t c = begin; c < end; ++c) sum += static_cast<double>(row[c]);
      const double mean = sum / static_cast<double>(end - begin);
      double of_part = 0;
      for (std::size_t c = begin; c < end; ++c) {
        const double d = static_cast<double>(row[c]) - mean;
        of_part += d * d;
      }
      spread += static_cast<float>(of_part);
    }
    return spread;
  }

  Moments MomentsOf(const std::vector<float>& row) const {
    const std::size_t terms = Is("dropped-last") ? row.size() - 1 : row.size();
    const auto n = static_cast<float>(terms);
    float sum = 0;
    float squares = 0;
    for (std::size_t c = 0; c < terms; ++c) {
      sum = Sum(sum, row[c]);
      squares = Sum(squares, row[c] * row[c]);
    }
    Moments of;
    of.mean = p_.rms ? 0.0F : sum / n;
    if (Is("one-pass-variance")) {
      // If the mean is large, both terms are large, and their difference is not.
      of.variance = squares / n - of.mean * of.mean;
      return of;
    }
    if (Is("negative-variance")) {
      // The same, with each term rounded to 16 bits.
      of.mean = Short(of.mean);
      of.variance = Short(Short(squares / n) - Short(of.mean * of.mean));
      return of;
    }
    const float spread =
        Is("merge-without-means-8192") ? SpreadOfParts(row) : Spread(row, 0, terms, of.mean);
    of.variance = spread / (Is("sample-variance") ? n - 1.0F : n);
    return of;
  }

  float Sum(float sum, float term) const {
    return Is("sum-in-16-bits") ? Short(sum + term) : sum + term;
  }

  // Rounds as a 16-bit register does.
  float Short(float v) const {
    return static_cast<float>(Quantise(static_cast<double>(v), width_));
  }

  LayerNormProblem p_;
  Defect defect_;
  DType width_;
};

}  // namespace

Made MakeLayerNorm(const Case& c, const Plan& plan, Device&) {
  const std::optional<Defect> defect = Defect::Find(DefectOf(c), kAliases);
  if (!defect) return NoSuchDefect(c);
  return std::make_unique<LayerNormKernel>(std::get<LayerNormProblem>(c.problem),
                                           plan.inputs[0].dtype, *defect);
}

}  // namespace assay::kernels::planted
