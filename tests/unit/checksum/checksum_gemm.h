// A gemm in memory, whose operands and output a test sets element by element.
#ifndef ASSAY_TESTS_UNIT_CHECKSUM_CHECKSUM_GEMM_H_
#define ASSAY_TESTS_UNIT_CHECKSUM_CHECKSUM_GEMM_H_

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "kernels/numerics/convert.h"
#include "kernels/ops/gemm/gemm_reference.h"
#include "kernels/ops/op.h"

namespace assay::testing {

class TestGemm : public HostInputs {
 public:
  TestGemm(const GemmProblem& problem, DType dtype, std::string pattern = "",
           DType out = DType::kUnspecified)
      : p(problem) {
    c.problem = problem;
    c.dtype = dtype;
    c.out_dtype = out == DType::kUnspecified ? DefaultOutput(dtype) : out;
    c.pattern = std::move(pattern);
    c.provider = "builtin";
    c.seed = 5;
    c.verify = Verification::kChecksum;
    for (const FieldError& e : Check(c)) ADD_FAILURE() << e.field << ": " << e.message;
    plan = GemmOp().MakePlan(c).value();
    memory_.resize(plan.inputs.size() + 1);
    for (std::size_t i = 0; i < plan.inputs.size(); ++i) {
      inputs.push_back(View(plan.inputs[i], memory_[i]));
    }
    output = View(plan.output, memory_.back());
  }
  TestGemm(const TestGemm&) = delete;

  // Every operand, with numbers of magnitude `scale`.
  void Fill(double scale) {
    std::int64_t n = 0;
    for (const TensorView& v : inputs) {
      const Extents& e = v.extents;
      for (std::int64_t i = 0; i < e.count(); ++i, ++n) {
        const double value = std::sin(static_cast<double>(n * n % 10007)) + 0.125;
        Set(v, i / (e.rows * e.cols), i / e.cols % e.rows, i % e.cols,
            scale * (Info(v.dtype).is_integer ? std::nearbyint(value * 9) : value));
      }
    }
  }

  static std::int64_t At(const TensorView& v, std::int64_t b, std::int64_t r, std::int64_t col) {
    return b * v.extents.batch_stride + r * v.extents.ld + col;
  }
  static double Get(const TensorView& v, std::int64_t b, std::int64_t r, std::int64_t col) {
    return LoadDouble(v.dtype, v.data, At(v, b, r, col));
  }
  static void Set(const TensorView& v, std::int64_t b, std::int64_t r, std::int64_t col,
                  double value) {
    StoreBits(v.dtype, v.data, At(v, b, r, col), RoundToFormat(value, v.dtype));
  }

  double A(std::int64_t b, std::int64_t i, std::int64_t k) const {
    return p.trans_a ? Get(inputs[0], b, k, i) : Get(inputs[0], b, i, k);
  }
  double B(std::int64_t b, std::int64_t k, std::int64_t j) const {
    return p.trans_b ? Get(inputs[1], b, j, k) : Get(inputs[1], b, k, j);
  }
  double C(std::int64_t b, std::int64_t i, std::int64_t j) const {
    return p.beta != 0 ? Get(inputs[2], b, i, j) : 0.0;
  }
  double D(std::int64_t b, std::int64_t i, std::int64_t j) const { return Get(output, b, i, j); }
  double Scale(std::int64_t j) const {
    return p.channel_scale
               ? Get(inputs[static_cast<std::size_t>(p.channel_scale_operand())], 0, 0, j)
               : 1.0;
  }
  double Bias(std::int64_t j) const {
    return p.bias ? Get(inputs[static_cast<std::size_t>(p.bias_operand())], 0, 0, j) : 0.0;
  }
  // The right value of an element of D.
  double Right(std::int64_t b, std::int64_t i, std::int64_t j) const {
    double sum = 0;
    for (std::int64_t k = 0; k < p.k; ++k) sum += A(b, i, k) * B(b, k, j);
    return p.alpha * p.scale_a * p.scale_b * Scale(j) * sum + p.beta * C(b, i, j) + Bias(j);
  }
  void Compute() {
    for (std::int64_t b = 0; b < p.batch; ++b) {
      for (std::int64_t i = 0; i < p.m; ++i) {
        for (std::int64_t j = 0; j < p.n; ++j) Set(output, b, i, j, Right(b, i, j));
      }
    }
  }
  // Adds to an element of D.
  void Add(std::int64_t b, std::int64_t i, std::int64_t j, double error) {
    Set(output, b, i, j, D(b, i, j) + error);
  }

  void Read(int operand, std::int64_t begin, std::int64_t count, double* out) const override {
    const TensorView& v = inputs[static_cast<std::size_t>(operand)];
    const Extents& e = v.extents;
    for (std::int64_t i = begin; i < begin + count; ++i) {
      *out++ = Get(v, i / (e.rows * e.cols), i / e.cols % e.rows, i % e.cols);
    }
  }

  const GemmProblem p;
  Case c;
  Plan plan;
  std::vector<TensorView> inputs;
  TensorView output;

 private:
  static TensorView View(const Operand& o, std::vector<unsigned char>& memory) {
    // Room for one more element, for a last half byte.
    memory.resize(static_cast<std::size_t>(StorageBytes(o.dtype, o.extents.span()) + 8));
    return {memory.data(), o.dtype, o.extents};
  }

  std::vector<std::vector<unsigned char>> memory_;
};

}  // namespace assay::testing

#endif  // ASSAY_TESTS_UNIT_CHECKSUM_CHECKSUM_GEMM_H_
