// A device, an operator and a case whose precision a test asks to be told.
#ifndef ASSAY_TESTS_UNIT_JUDGE_READING_FIXTURE_H_
#define ASSAY_TESTS_UNIT_JUDGE_READING_FIXTURE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/judge/precision_evidence.h"
#include "kernels/numerics/convert.h"
#include "kernels/ops/device_references.h"
#include "tests/unit/judge/forwarding_device.h"
#include "tests/unit/judge/products.h"

namespace assay::testing {

// A device with a residual pass that gives `sums`. It notes what is asked and what is read.
class TellingDevice : public ForwardingDevice, private DeviceReferences {
 public:
  bool tells = true, own_references = false, fills = true, directs = true;
  ResidualSums sums;
  std::optional<ResidualSums> of_right;  // of the right output; without, the device makes none
  int passes = 0;
  absl::Status fault;
  ResidualRequest asked;
  std::vector<std::pair<std::int64_t, std::int64_t>> reads;  // (begin, count)
  int left = 1 << 30;                                        // reads before one that is refused

  bool tells_precision() const override { return tells; }
  const DeviceReferences* references() const override { return own_references ? this : nullptr; }
  absl::StatusOr<ResidualSums> Residuals(const ResidualRequest& request) override {
    asked = request;
    if (!fault.ok()) return fault;
    return ++passes > 1 && of_right ? *of_right : sums;
  }
  absl::Status FromHost(const void* from, std::int64_t bytes, void* to) override {
    return of_right ? cpu_->FromHost(from, bytes, to) : ForwardingDevice::FromHost(from, bytes, to);
  }
  absl::Status ToHost(const TensorView& t, std::int64_t b, std::int64_t n, void* d) override {
    if (left-- == 0) return absl::DataLossError("the device is gone");
    reads.emplace_back(b, n);
    return ForwardingDevice::ToHost(t, b, n, d);
  }

 private:
  bool FillsDeviations(const Case&) const override { return fills; }
  bool FillsDirection(const Case&) const override { return directs; }
  absl::Status Reference(const Case&, const Plan&, Device&, std::span<const TensorView>,
                         ReferenceBuffers&) const override {
    return absl::UnimplementedError("not looked at");
  }
  absl::StatusOr<std::vector<Identity>> CheckIdentities(const Case&, const Plan&, Device&,
                                                        std::span<const TensorView>,
                                                        const TensorView&,
                                                        const ReferenceBuffers&) const override {
    return absl::UnimplementedError("not looked at");
  }
};

// A product whose model and samples a test sets. It counts what it is asked.
class SampledOp : public Op {
 public:
  ResidualModel model;
  OpTraits op_traits;
  std::optional<SampledProducts> products;
  std::vector<std::int64_t> at;
  // Overrides `products`.
  std::function<std::optional<SampledProducts>(std::span<const std::int64_t>)> products_of;
  mutable int asked = 0;
  mutable std::uint64_t seed = 0;
  mutable std::int64_t at_least = 0;

  std::string_view name() const override { return "gemm"; }
  absl::StatusOr<Plan> MakePlan(const Case&) const override { return Plan(); }
  absl::Status ReferenceHere(const Case&, const Plan&, std::span<const TensorView>,
                             ReferenceBuffers&) const override {
    return absl::OkStatus();
  }
  ResidualModel Residuals(const Case&, const Plan&) const override { return model; }
  OpTraits traits() const override { return op_traits; }
  std::vector<std::int64_t> Samples(const Case&, const Plan&, std::uint64_t drawn,
                                    std::int64_t least) const override {
    seed = drawn;
    at_least = least;
    return at;
  }
  void ReferenceAt(const Case&, const Plan&, const HostInputs&, std::span<const std::int64_t>,
                   double*, double*) const override {}
  std::optional<SampledProducts> Products(const Case&, const Plan&, const HostInputs&,
                                          std::span<const std::int64_t> indices) const override {
    ++asked;
    if (products_of) return products_of(indices);
    EXPECT_EQ(indices.size(), at.size());
    return products;
  }
};

class NoInputs : public HostInputs {
  void Read(int, std::int64_t, std::int64_t, double*) const override {}
};

inline constexpr std::int64_t kElements = 100'000;

// An output of 100,000 elements, of which 64 are sampled. R is 3, and its limit 2.
class Reading : public ::testing::Test {
 protected:
  Reading() : output_(kElements), reference_(kElements) {
    std::mt19937_64 random(1);
    for (std::size_t i = 0; i < output_.size(); ++i) {
      reference_[i] = Normal(random);
      output_[i] = static_cast<float>(reference_[i]);
    }
    case_.dtype = DType::kF32;
    plan_.output.dtype = DType::kF32;
    plan_.output.extents = Extents::Dense(1, 100, 1000);
    plan_.output.dims = {1, 100, 1000};
    plan_.accumulations = 4096;
    plan_.zero_mean_random = true;
    op_.model.known = op_.model.gates = true;
    op_.model.roundoff = 0x1p-24;
    for (std::int64_t i = 0; i < 64; ++i) op_.at.push_back(i);
    buffers_.value = reference_.data();
    buffers_.deviation = &deviation_;
    SetRms(3);
  }
  void SetRms(double rms) {
    device_.sums.count = kElements;
    device_.sums.sum_squared = rms * rms * static_cast<double>(kElements);
  }
  // Rows and columns of 8 elements, so that each of 64 elements is another pair.
  void SetProducts(const Data& left, const Data& right, std::int64_t terms) {
    SampledProducts p;
    p.format = DType::kF32;
    p.terms = terms;
    p.left.name = "a";
    p.right.name = "b";
    std::mt19937_64 random(3);
    for (const auto& [side, data] : {std::pair{&p.left, &left}, {&p.right, &right}}) {
      for (std::int64_t v = 0; v < 8; ++v) {
        std::vector<double> values;
        for (std::int64_t k = 0; k < terms; ++k) {
          values.push_back(static_cast<double>(static_cast<float>(data->fill(k, terms, random))));
        }
        if (data->sorted) std::sort(values.begin(), values.end());
        side->values.insert(side->values.end(), values.begin(), values.end());
      }
    }
    for (std::int64_t i = 0; i < 64; ++i) p.elements.push_back({i / 8, i % 8, 1});
    op_.products = std::move(p);
  }
  // The products' sums, of inputs that `round` changes, as output; as they are, as reference.
  template <class Round>
  void FillSums(Round round) {
    const SampledProducts& p = *op_.products;
    for (std::int64_t i = 0; i < p.count(); ++i) {
      double exact = 0, rounded = 0;
      for (std::int64_t k = 0; k < p.terms; ++k) {
        exact += p.left_of(i)[k] * p.right_of(i)[k];
        rounded += round(p.left_of(i)[k]) * round(p.right_of(i)[k]);
      }
      const auto at = static_cast<std::size_t>(op_.at[static_cast<std::size_t>(i)]);
      reference_[at] = exact;
      output_[at] = static_cast<float>(rounded);
    }
  }

  absl::StatusOr<PrecisionReading> Told() {
    op_.asked = 0;
    device_.reads.clear();
    device_.passes = 0;
    const TensorView output{output_.data(), DType::kF32, Extents::Dense(1, 100, 1000)};
    return TellPrecision({.c = case_,
                          .op = op_,
                          .plan = plan_,
                          .device = device_,
                          .output = output,
                          .reference = buffers_,
                          .inputs = inputs_,
                          .received = received_});
  }
  Verdict Said() {
    const absl::StatusOr<PrecisionReading> told = Told();
    if (!told.ok()) return Verdict::kError;
    return told->findings.empty() ? Verdict::kPassed : told->findings[0].verdict;
  }
  std::string LooksLike() {
    const absl::StatusOr<PrecisionReading> told = Told();
    return told.ok() && told->precision ? told->precision->looks_like : "nothing was told";
  }

  std::vector<float> output_;
  std::vector<double> reference_;
  float deviation_ = 1, direction_ = 1, row_offset_ = 1, row_gain_ = 1;
  Case case_;
  Plan plan_;
  SampledOp op_;
  TellingDevice device_;
  ReferenceBuffers buffers_;
  NoInputs inputs_;
  bool received_ = false;
};

}  // namespace assay::testing

#endif  // ASSAY_TESTS_UNIT_JUDGE_READING_FIXTURE_H_
