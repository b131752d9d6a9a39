// layer_norm with oneDNN's layer normalization. The primitive computes mean and variance of each
// row. If the case is affine, scale and shift are fp32. Input and output have the same format.
// There is no RMS form.
#include <memory>
#include <string>
#include <variant>

#include "kernels/providers/onednn/onednn.h"
#include "kernels/providers/onednn/primitives.h"

namespace assay::inline kernels {
namespace {

using onednn::Desc;

class LayerNormKernel : public Kernel {
 public:
  LayerNormKernel(onednn::Step norm, bool affine) : norm_(std::move(norm)), affine_(affine) {}

  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    return onednn::Guarded("layer normalization", [&] {
      norm_.Set(DNNL_ARG_SRC, inputs[0].data);
      norm_.Set(DNNL_ARG_DST, output.data);
      if (affine_) {
        norm_.Set(DNNL_ARG_SCALE, inputs[1].data);
        norm_.Set(DNNL_ARG_SHIFT, inputs[2].data);
      }
      norm_.Run();
      return absl::OkStatus();
    });
  }

  std::string implementation() const override { return norm_.compiled().implementation; }

 private:
  onednn::Step norm_;
  bool affine_;
};

absl::StatusOr<std::unique_ptr<Kernel>> Make(const Case& c, const Plan& plan, Device& device) {
  const auto& p = std::get<LayerNormProblem>(c.problem);
  if (p.compensated) {
    return absl::UnimplementedError("onednn layer norm has no compensated sums");
  }
  if (p.rms) {
    return absl::UnimplementedError(Cat("oneDNN ", onednn::Version(), " has no RMS normalization"));
  }
  const Operand& x = plan.inputs[0];
  const auto type = onednn::TypeOf(x.dtype);
  if (!type.ok()) return type.status();
  if (plan.output.dtype != x.dtype) {
    return absl::UnimplementedError(Cat("oneDNN ", onednn::Version(),
                                        "'s layer normalization writes the format it ", "reads, ",
                                        Name(x.dtype), "; got ", Name(plan.output.dtype)));
  }
  if (p.affine && plan.inputs[1].dtype != DType::kF32) {
    return absl::UnimplementedError(Cat(
        "oneDNN ", onednn::Version(), "'s layer normalization takes weight and bias in fp32; got ",
        Name(plan.inputs[1].dtype)));
  }
  const std::string what = Cat(Name(x.dtype), " layer normalization");
  return onednn::Guarded(what, [&]() -> absl::StatusOr<std::unique_ptr<Kernel>> {
    const Desc data({x.extents.rows, x.extents.cols}, *type, onednn::Dims{x.extents.ld, 1});
    const Desc row({x.extents.cols}, dnnl::memory::data_type::f32, onednn::Dims{1});
    onednn::Step norm(onednn::Compile(
        Cat(what, ";", x.extents.rows, ",", x.extents.cols, ",", x.extents.ld, ",",
            onednn::Bits(p.eps), ",", p.affine),
        [&] {
          const auto flags =
              p.affine ? dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift
                       : dnnl::normalization_flags::none;
          return onednn::Finish<dnnl::layer_normalization_forward>(
              dnnl::layer_normalization_forward::primitive_desc(
                  dnnl::layer_normalization_forward::desc(dnnl::prop_kind::forward_inference, data,
                                                          static_cast<float>(p.eps), flags),
                  onednn::UserScratchpad(), onednn::CpuEngine()));
        }));
    norm.Bind(DNNL_ARG_SRC, data);
    norm.Bind(DNNL_ARG_DST, data);
    if (p.affine) {
      norm.Bind(DNNL_ARG_SCALE, row);
      norm.Bind(DNNL_ARG_SHIFT, row);
    }
    const absl::Status scratch = onednn::AllocateScratchpad(device, {&norm});
    if (!scratch.ok()) return scratch;
    return std::make_unique<LayerNormKernel>(std::move(norm), p.affine);
  });
}

}  // namespace

KernelEntry OnednnLayerNorm() {
  return onednn::Entry("layer_norm", {DType::kF32, DType::kBF16}, &Make);
}

}  // namespace assay::kernels
