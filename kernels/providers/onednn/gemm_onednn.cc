// gemm with oneDNN's matmul. Strides carry transposes, leading dimensions and batches. alpha,
// scale_a and scale_b are one output scale. The rest are post-ops in the formula's order:
// channel_scale is a binary product, beta is the sum with a copy of C in D, bias is a binary sum
// (the matmul's own bias would come before the scale), and activations are element-wise. All is
// computed in fp32, with one rounding at the end.
//
// relu is refused: the library's relu is max(x, 0), which gives 0 for NaN. relu of NaN is NaN
// everywhere else.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "kernels/providers/onednn/onednn.h"
#include "kernels/providers/onednn/primitives.h"
#include "kernels/providers/refusals.h"

namespace assay::inline kernels {
namespace {

using onednn::Compiled;
using onednn::Desc;
using onednn::Dims;

// op(X) as the library sees it: two axes, or three if there is a batch.
Desc MatrixDesc(dnnl::memory::data_type type, const Extents& e, bool transposed) {
  const std::int64_t rows = transposed ? e.cols : e.rows;
  const std::int64_t cols = transposed ? e.rows : e.cols;
  const std::int64_t row_stride = transposed ? 1 : e.ld;
  const std::int64_t col_stride = transposed ? e.ld : 1;
  if (e.batch == 1) return Desc({rows, cols}, type, Dims{row_stride, col_stride});
  return Desc({e.batch, rows, cols}, type, Dims{e.batch_stride, row_stride, col_stride});
}

std::string ExtentsKey(const Extents& e) {
  return Cat(e.batch, ",", e.rows, ",", e.cols, ",", e.ld, ",", e.batch_stride, ";");
}

// The arguments of post-ops, and the positions of their data among the plan's inputs.
using Columns = std::vector<std::pair<int, int>>;

class GemmKernel : public Kernel {
 public:
  GemmKernel(DType input, onednn::Step matmul, std::optional<onednn::Step> copy_c, Columns columns)
      : flushes_subnormals_(onednn::FlushesSubnormals(input)),
        of_integers_(input == DType::kI8),
        matmul_(std::move(matmul)),
        copy_c_(std::move(copy_c)),
        columns_(std::move(columns)) {}

  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    return onednn::Guarded("matmul", [&] {
      if (copy_c_.has_value()) {
        copy_c_->Set(DNNL_ARG_FROM, inputs[2].data);
        copy_c_->Set(DNNL_ARG_TO, output.data);
        copy_c_->Run();
      }
      matmul_.Set(DNNL_ARG_SRC, inputs[0].data);
      matmul_.Set(DNNL_ARG_WEIGHTS, inputs[1].data);
      matmul_.Set(DNNL_ARG_DST, output.data);
      for (const auto& [arg, operand] : columns_) {
        matmul_.Set(arg, inputs[static_cast<std::size_t>(operand)].data);
      }
      matmul_.Run();
      return absl::OkStatus();
    });
  }

  bool flushes_subnormals() const override { return flushes_subnormals_; }
  // Sums of int8 go through fp32 on their way to int32. Measured: beyond 2^24 half of them are off
  // by one.
  double intermediate_roundoff() const override {
    return of_integers_ ? Info(DType::kF32).unit_roundoff : 0.0;
  }

  std::string implementation() const override {
    return Cat(matmul_.compiled().implementation, of_integers_ ? ", sums pass through fp32" : "");
  }

 private:
  bool flushes_subnormals_;
  bool of_integers_;
  onednn::Step matmul_;
  std::optional<onednn::Step> copy_c_;
  Columns columns_;
};

// The post-ops of a problem. The operands that they read are added to `columns`.
dnnl::post_ops PostOps(const GemmProblem& p, const Desc& row, Columns& columns) {
  dnnl::post_ops ops;
  const auto binary = [&](dnnl::algorithm algorithm, int operand) {
    columns.emplace_back(DNNL_ARG_ATTR_MULTIPLE_POST_OP(ops.len()) | DNNL_ARG_SRC_1, operand);
    ops.append_binary(algorithm, row);
  };
  if (p.channel_scale) binary(dnnl::algorithm::binary_mul, p.channel_scale_operand());
  if (p.beta != 0.0) ops.append_sum(static_cast<float>(p.beta));
  if (p.bias) binary(dnnl::algorithm::binary_add, p.bias_operand());
  if (p.activation == "gelu") ops.append_eltwise(1, dnnl::algorithm::eltwise_gelu_erf, 0, 0);
  if (p.activation == "gelu_tanh") {
    ops.append_eltwise(1, dnnl::algorithm::eltwise_gelu_tanh, 0, 0);
  }
  return ops;
}

// UNIMPLEMENTED where oneDNN would compute something else than the case asks for.
absl::Status RefuseOther(const GemmProblem& p, const Plan& plan) {
  if (p.activation == "relu") {
    return absl::UnimplementedError(
        "oneDNN's relu gives 0 for NaN, not NaN (gemm.activation relu)");
  }
  if (absl::Status s = RefuseInfiniteBf16(plan, "oneDNN gemm"); !s.ok()) return s;
  if (plan.inputs[0].dtype != DType::kI8) return absl::OkStatus();
  if (!onednn::HasExactInt8()) {
    return absl::UnimplementedError("oneDNN sums int8 products exactly only with VNNI");
  }
  if (plan.output.dtype == DType::kI32 && (p.alpha != 1.0 || p.beta != 0.0)) {
    return absl::UnimplementedError(
        Cat("oneDNN applies alpha and beta to int8 products in fp32, which is not "
            "exact; got alpha ",
            p.alpha, ", beta ", p.beta));
  }
  return absl::OkStatus();
}

// Copies C to where D will be, because beta·C is a sum with what stands there.
absl::StatusOr<onednn::Step> CopyOfC(const Operand& c, const Operand& d, const Desc& d_desc) {
  const auto type = onednn::TypeOf(c.dtype);
  if (!type.ok()) return type.status();
  const Desc c_desc = MatrixDesc(*type, c.extents, false);
  onednn::Step copy(onednn::Compile(
      Cat("c;", Name(c.dtype), Name(d.dtype), ExtentsKey(c.extents), ExtentsKey(d.extents)), [&] {
        return onednn::Finish<dnnl::reorder>(dnnl::reorder::primitive_desc(
            onednn::CpuEngine(), c_desc, onednn::CpuEngine(), d_desc, onednn::UserScratchpad()));
      }));
  copy.Bind(DNNL_ARG_FROM, c_desc);
  copy.Bind(DNNL_ARG_TO, d_desc);
  return copy;
}

absl::StatusOr<std::unique_ptr<Kernel>> Make(const Case& c, const Plan& plan, Device& device) {
  const auto& p = std::get<GemmProblem>(c.problem);
  if (absl::Status s = RefuseOther(p, plan); !s.ok()) return s;
  const Operand& a = plan.inputs[0];
  const Operand& b = plan.inputs[1];
  const Operand& d = plan.output;
  const auto in_type = onednn::TypeOf(a.dtype);
  const auto out_type = onednn::TypeOf(d.dtype);
  if (!in_type.ok()) return in_type.status();
  if (!out_type.ok()) return out_type.status();
  const std::string what = Cat(Name(a.dtype), " matmul to ", Name(d.dtype));
  return onednn::Guarded(what, [&]() -> absl::StatusOr<std::unique_ptr<Kernel>> {
    const Desc a_desc = MatrixDesc(*in_type, a.extents, p.trans_a);
    const Desc b_desc = MatrixDesc(*in_type, b.extents, p.trans_b);
    const Desc d_desc = MatrixDesc(*out_type, d.extents, false);
    const float scale =
        static_cast<float>(p.alpha) * static_cast<float>(p.scale_a) * static_cast<float>(p.scale_b);
    const std::string key =
        Cat(what, ";", ExtentsKey(a.extents), ExtentsKey(b.extents), ExtentsKey(d.extents),
            p.trans_a, p.trans_b, ";", onednn::Bits(static_cast<double>(scale)), ";",
            onednn::Bits(p.beta), ";", p.channel_scale, p.bias, p.activation);
    Columns columns;
    const Desc row(p.batch == 1 ? Dims{1, p.n} : Dims{1, 1, p.n}, dnnl::memory::data_type::f32,
                   p.batch == 1 ? Dims{p.n, 1} : Dims{p.n, p.n, 1});
    const dnnl::post_ops ops = PostOps(p, row, columns);
    onednn::Step matmul(onednn::Compile(key, [&] {
      dnnl::primitive_attr attr = onednn::UserScratchpad();
      if (scale != 1.0F) attr.set_output_scales(0, {scale});
      if (ops.len() > 0) attr.set_post_ops(ops);
      return onednn::Finish<dnnl::matmul>(dnnl::matmul::primitive_desc(
          dnnl::matmul::desc(a_desc, b_desc, d_desc), attr, onednn::CpuEngine()));
    }));
    matmul.Bind(DNNL_ARG_SRC, a_desc);
    matmul.Bind(DNNL_ARG_WEIGHTS, b_desc);
    matmul.Bind(DNNL_ARG_DST, d_desc);
    for (const auto& [arg, operand] : columns) matmul.Bind(arg, row);

    std::optional<onednn::Step> copy_c;
    if (p.beta != 0.0) {
      absl::StatusOr<onednn::Step> copy = CopyOfC(plan.inputs[2], d, d_desc);
      if (!copy.ok()) return copy.status();
      copy_c = *std::move(copy);
    }
    const absl::Status scratch =
        onednn::AllocateScratchpad(device, {&matmul, copy_c.has_value() ? &*copy_c : nullptr});
    if (!scratch.ok()) return scratch;
    return std::make_unique<GemmKernel>(a.dtype, std::move(matmul), std::move(copy_c),
                                        std::move(columns));
  });
}

}  // namespace

KernelEntry OnednnGemm() {
  return onednn::Entry("gemm", {DType::kF32, DType::kBF16, DType::kI8}, &Make);
}

}  // namespace assay::kernels
