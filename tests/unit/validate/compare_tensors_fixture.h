// Tensors of a user's own that a test sends to a comparison on the CPU device, in pieces.
#ifndef ASSAY_TESTS_UNIT_VALIDATE_COMPARE_TENSORS_FIXTURE_H_
#define ASSAY_TESTS_UNIT_VALIDATE_COMPARE_TENSORS_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/numerics/convert.h"
#include "kernels/runtime/device.h"
#include "kernels/text/cat.h"
#include "kernels/validate/compare_tensors.h"

namespace assay::testing {

// The values as a tensor of this format has them in memory.
inline std::string Packed(DType dtype, const std::vector<double>& values) {
  std::string bytes(
      static_cast<std::size_t>(StorageBytes(dtype, static_cast<std::int64_t>(values.size()))),
      '\0');
  std::vector<double> aligned(bytes.size() / sizeof(double) + 1);
  for (std::size_t i = 0; i < values.size(); ++i) {
    StoreBits(dtype, aligned.data(), static_cast<std::int64_t>(i), RoundToFormat(values[i], dtype));
  }
  std::memcpy(bytes.data(), aligned.data(), bytes.size());
  return bytes;
}

class CompareTensors : public ::testing::Test {
 protected:
  CompareTensors() : device_(MakeCpuDevice(0, ArenaOptions{.max_bytes = 64 << 20})) {}

  // Two tensors of one shape.
  void Two(DType actual, const std::vector<double>& a, DType expected,
           const std::vector<double>& e) {
    const std::vector<std::int64_t> shape = {static_cast<std::int64_t>(a.size())};
    c_.actual = {actual, shape};
    c_.expected = TensorSpec{expected, shape};
    bytes_ = {Packed(actual, a), Packed(expected, e)};
  }

  absl::StatusOr<CaseOutcome> Run(std::size_t piece = 1000) {
    if (const auto errors = Check(c_); !errors.empty()) {
      return absl::InvalidArgumentError(Cat(errors[0].field, ": ", errors[0].message));
    }
    auto comparison = TensorComparison::Begin(c_, *device_, observer_);
    if (!comparison.ok()) return comparison.status();
    for (std::size_t t = 0; t < bytes_.size(); ++t) {
      for (std::size_t at = 0; at < bytes_[t].size(); at += piece) {
        absl::Status s =
            (*comparison)
                ->Add(static_cast<std::int64_t>(t), std::string_view(bytes_[t]).substr(at, piece));
        if (!s.ok()) return s;
      }
    }
    return (*comparison)->Finish();
  }

  CaseOutcome Done(std::size_t piece = 1000) {
    absl::StatusOr<CaseOutcome> outcome = Run(piece);
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    return outcome.ok() ? *std::move(outcome) : CaseOutcome{};
  }

  std::string Refusal() { return std::string(Run().status().message()); }

  Comparison c_;
  std::vector<std::string> bytes_;
  std::unique_ptr<Device> device_;
  PhaseObserver observer_;
};

// From -40 steps to 56, again and again.
inline std::vector<double> Ramp(std::size_t n, double step) {
  std::vector<double> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = (static_cast<double>(i % 97) - 40) * step;
  return values;
}

// A·B of 2×3 and 3×2, in fp32.
class CompareProduct : public CompareTensors {
 protected:
  CompareProduct() {
    c_.has_operation = true;
    GemmProblem gemm;
    gemm.m = 2;
    gemm.n = 2;
    gemm.k = 3;
    c_.rule.problem = gemm;
    c_.rule.dtype = DType::kF32;
    c_.rule.out_dtype = DType::kF32;
    c_.actual = {DType::kF32, {2, 2}};
    c_.inputs = {{DType::kF32, {2, 3}}, {DType::kF32, {3, 2}}};
    bytes_ = {Packed(DType::kF32, {58, 64, 139, 154}), "", Packed(DType::kF32, {1, 2, 3, 4, 5, 6}),
              Packed(DType::kF32, {7, 8, 9, 10, 11, 12})};
  }
};

}  // namespace assay::testing

#endif  // ASSAY_TESTS_UNIT_VALIDATE_COMPARE_TENSORS_FIXTURE_H_
