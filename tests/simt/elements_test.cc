// The built-in GPU kernels of reduce, elementwise and rope under the emulator, held to their
// operators' bounds at awkward sizes, and nothing outside their outputs written.
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "kernels/numerics/bound.h"
#include "kernels/providers/builtin/elementwise_builtin_gpu.h"
#include "kernels/providers/builtin/reduce_builtin_gpu.h"
#include "kernels/providers/builtin/rope_builtin_gpu.h"
#include "simt/testing.h"
#include "tests/unit/ops/tensors.h"

namespace assay::inline kernels::gpu {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

using Values = std::function<double(int, std::int64_t)>;
using Start = std::function<ErrorCode(const Plan& plan, const std::vector<const void*>& inputs,
                                      void* output, std::int64_t output_ld)>;

// The parameter of the tests is a form, but an argmax's output is int32.
class SimtElements : public SimtTest {
 protected:
  // Launches with rows of inputs and output padded by `pad`, and holds the output to the plain
  // reference. Every buffer is of exactly its size, so that the address sanitizer sees its ends.
  void Run(const Problem& problem, std::int64_t pad, const Values& values, const Start& start) {
    Case c = MakeCase(problem, GetParam().in);
    SCOPED_TRACE(DefaultName(c));
    c.out_dtype = GetParam().out;
    if (!Check(c).empty()) c.out_dtype = DType::kUnspecified;  // argmax
    Plan plan = PlanOf(c);
    for (Operand& o : plan.inputs) {
      o.extents.ld = o.extents.cols + pad;
      o.extents.batch_stride = o.extents.rows * o.extents.ld + pad;
    }
    const Tensors tensors(plan, values ? values : RandomValues(plan));
    const Op& op = *FindOp(OpName(problem));
    const PlainResult right = PlainReference(op, c, plan, tensors);
    std::vector<std::vector<unsigned char>> exact;
    std::vector<const void*> inputs;
    for (const TensorView& v : tensors.views()) {
      const auto* from = static_cast<const unsigned char*>(v.data);
      exact.emplace_back(from, from + v.bytes());
      inputs.push_back(exact.back().data());
    }
    // A dense output of a reduction is one row.
    const Extents& e = plan.output.extents;
    const bool dense = op.name() == "reduce";
    const std::int64_t ld = dense ? e.cols : e.cols + pad;
    HostTensor y(plan.output.dtype, dense ? e.count() : e.rows * ld);
    ASSERT_EQ(start(plan, inputs, y.data(), ld), kOk);
    for (const simt::Fault& fault : simt::TakeFaults()) ADD_FAILURE() << fault.message;
    for (std::int64_t i = 0; i < e.count(); ++i) {
      const double got = y[dense ? i : i / e.cols * ld + i % e.cols];
      const double want = Quantise(right.value[static_cast<std::size_t>(i)], plan.output.dtype);
      const double allowance = plan.proven_factor * right.allowance[static_cast<std::size_t>(i)];
      const double bound = plan.exact ? 0
                                      : TBound(OutputRoundingOf(plan.output.dtype),
                                               right.value[static_cast<std::size_t>(i)], allowance);
      if (!std::isfinite(want)) {
        ASSERT_TRUE(std::isnan(want) ? std::isnan(got) : got == want) << i << ": " << got;
        continue;
      }
      const double from = plan.exact ? want : right.value[static_cast<std::size_t>(i)];
      ASSERT_LE(std::abs(got - from), bound) << "element " << i << ": " << got << ", not " << want;
    }
    for (std::int64_t row = 0; !dense && row < e.rows; ++row) {
      for (std::int64_t col = e.cols; col < ld; ++col) ASSERT_TRUE(y.Untouched(row * ld + col));
    }
  }

  void Reduce(const ReduceProblem& p, std::int64_t pad = 0, const Values& values = {}) {
    Run(p, pad, values,
        [&](const Plan& plan, const std::vector<const void*>& in, void* y, std::int64_t) {
          ReduceJob job;
          job.x = in[0];
          job.y = y;
          job.in = plan.inputs[0].dtype;
          job.out = plan.output.dtype;
          job.shape = p.Split();
          job.kind = p.kind_of();
          job.ld = plan.inputs[0].extents.ld;
          job.batch_stride = plan.inputs[0].extents.batch_stride;
          return LaunchReduce(job, nullptr);
        });
  }

  void Elementwise(const ElementwiseProblem& p, std::int64_t pad = 0, const Values& values = {}) {
    Run(p, pad, values,
        [&](const Plan& plan, const std::vector<const void*>& in, void* y, std::int64_t y_ld) {
          ElementwiseJob job;
          job.a = in[0];
          job.a_ld = plan.inputs[0].extents.ld;
          if (p.has_b()) {
            job.b = in[1];
            job.b_ld = p.broadcast ? 0 : plan.inputs[1].extents.ld;
          }
          job.y = y;
          job.y_ld = y_ld;
          job.in = plan.inputs[0].dtype;
          job.out = plan.output.dtype;
          job.kind = p.kind_of();
          job.rows = p.rows;
          job.cols = p.cols;
          return LaunchElementwise(job, nullptr);
        });
  }

  void Rope(const RopeProblem& p, std::int64_t pad = 0) {
    Run(p, pad, {},
        [&](const Plan& plan, const std::vector<const void*>& in, void* y, std::int64_t y_ld) {
          RopeJob job;
          job.x = in[0];
          job.x_ld = plan.inputs[0].extents.ld;
          job.y = y;
          job.y_ld = y_ld;
          job.in = plan.inputs[0].dtype;
          job.out = plan.output.dtype;
          job.rows = p.rows();
          job.seq = p.seq;
          job.heads = p.heads;
          job.dim = p.dim;
          job.start = p.start;
          job.interleaved = p.interleaved;
          job.log2_theta = static_cast<float>(std::log2(p.theta));
          return LaunchRope(job, nullptr);
        });
  }
};
INSTANTIATE_TEST_SUITE_P(Forms, SimtElements, kForms);

TEST_P(SimtElements, ReductionsAtAwkwardSizes) {
  for (const char* kind : {"sum", "max", "argmax"}) {
    for (const std::int64_t n : {1, 2, 31, 33, 255, 256, 257, 1000}) {
      Reduce({.extents = {3, n}, .kind = kind});
      Reduce({.extents = {3, n}, .axis = 0, .kind = kind});
      Reduce({.extents = {2, 5, n}, .axis = 1, .kind = kind});
    }
    Reduce({.extents = {7, 130}, .kind = kind}, 5);
    Reduce({.extents = {2, 7, 130}, .axis = 1, .kind = kind}, 3);
  }
}

// Few values with many ties, everything negative, NaN and infinities.
TEST_P(SimtElements, MaximaOfHardSlices) {
  const auto of = [](std::int64_t i) -> double {
    switch (i / 300) {
      case 0:
        return static_cast<double>(i % 3);
      case 1:
        return -1 - static_cast<double>(i % 5);
      case 2:
        return i % 300 == 77 || i % 300 == 290 ? std::nan("") : kInf;
      case 3:
        return -kInf;
      default:
        return i % 300 == 299 ? 7 : -0.0;
    }
  };
  for (const char* kind : {"sum", "max", "argmax"}) {
    Reduce({.extents = {5, 300}, .kind = kind}, 0, [&](int, std::int64_t i) { return of(i); });
    Reduce({.extents = {300, 5}, .axis = 0, .kind = kind}, 0,
           [&](int, std::int64_t i) { return of(i % 5 * 300 + i / 5); });
  }
}

TEST_P(SimtElements, ElementsAtAwkwardSizes) {
  for (const char* kind : {"add", "silu_mul", "gelu", "gelu_tanh"}) {
    for (const bool broadcast : {false, true}) {
      for (const std::int64_t cols : {1, 31, 256, 257, 1000}) {
        const ElementwiseProblem p = {
            .rows = 3, .cols = cols, .kind = kind, .broadcast = broadcast};
        if (broadcast && !p.has_b()) continue;
        Elementwise(p);
        Elementwise(p, 7);
      }
    }
    // exp overflows on the way to a result of 0.
    Elementwise({.rows = 2, .cols = 300, .kind = kind}, 0, [](int operand, std::int64_t i) {
      return operand == 0 ? 0.7 * static_cast<double>(i % 300 - 150) : 1.5;
    });
  }
}

TEST_P(SimtElements, RotationsAtAwkwardSizes) {
  for (const bool interleaved : {false, true}) {
    for (const std::int64_t dim : {2, 6, 126, 128, 130}) {
      const RopeProblem p = {
          .batch = 2, .seq = 3, .heads = 2, .dim = dim, .interleaved = interleaved, .start = 500};
      Rope(p);
      Rope(p, 5);
    }
  }
}

}  // namespace
}  // namespace assay::kernels::gpu
