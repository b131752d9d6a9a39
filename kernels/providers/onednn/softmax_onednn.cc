// softmax along the last axis with oneDNN's softmax v2, whose output may have another format than
// its input.
#include <memory>
#include <string>

#include "kernels/providers/onednn/onednn.h"
#include "kernels/providers/onednn/primitives.h"

namespace assay::inline kernels {
namespace {

using onednn::Desc;

class SoftmaxKernel : public Kernel {
 public:
  SoftmaxKernel(onednn::Step softmax, DType out) : softmax_(std::move(softmax)), out_(out) {}

  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    return onednn::Guarded("softmax", [&] {
      softmax_.Set(DNNL_ARG_SRC, inputs[0].data);
      softmax_.Set(DNNL_ARG_DST, output.data);
      softmax_.Run();
      return absl::OkStatus();
    });
  }

  // For a 16-bit output the library stores exp(x − m) in that format, reads it back and divides, so
  // each element is rounded twice. Measured: |error| is up to 1.8 times the bound of one rounding,
  // and within the bound of two. For fp32 it is within the bound of one.
  double intermediate_roundoff() const override {
    return out_ == DType::kF32 ? 0.0 : Info(out_).unit_roundoff;
  }

  std::string implementation() const override {
    return out_ == DType::kF32
               ? softmax_.compiled().implementation
               : Cat(softmax_.compiled().implementation, ", exponentials held in ", Name(out_));
  }

 private:
  onednn::Step softmax_;
  DType out_;
};

absl::StatusOr<std::unique_ptr<Kernel>> Make(const Case&, const Plan& plan, Device& device) {
  const Operand& x = plan.inputs[0];
  const Operand& y = plan.output;
  const auto in_type = onednn::TypeOf(x.dtype);
  const auto out_type = onednn::TypeOf(y.dtype);
  if (!in_type.ok()) return in_type.status();
  if (!out_type.ok()) return out_type.status();
  const std::string what = Cat(Name(x.dtype), " softmax to ", Name(y.dtype));
  return onednn::Guarded(what, [&]() -> absl::StatusOr<std::unique_ptr<Kernel>> {
    const Extents& e = x.extents;
    const Desc x_desc({e.rows, e.cols}, *in_type, onednn::Dims{e.ld, 1});
    const Desc y_desc({e.rows, e.cols}, *out_type, onednn::Dims{y.extents.ld, 1});
    onednn::Step softmax(
        onednn::Compile(Cat(what, ";", e.rows, ",", e.cols, ",", e.ld, ",", y.extents.ld), [&] {
          return onednn::Finish<dnnl::softmax_v2_forward>(dnnl::softmax_v2_forward::primitive_desc(
              dnnl::softmax_v2_forward::desc(dnnl::prop_kind::forward_inference,
                                             dnnl::algorithm::softmax_accurate, x_desc, y_desc,
                                             /*softmax_axis=*/1),
              onednn::UserScratchpad(), onednn::CpuEngine()));
        }));
    softmax.Bind(DNNL_ARG_SRC, x_desc);
    softmax.Bind(DNNL_ARG_DST, y_desc);
    const absl::Status scratch = onednn::AllocateScratchpad(device, {&softmax});
    if (!scratch.ok()) return scratch;
    return std::make_unique<SoftmaxKernel>(std::move(softmax), plan.output.dtype);
  });
}

}  // namespace

KernelEntry OnednnSoftmax() { return onednn::Entry("softmax", {DType::kF32, DType::kBF16}, &Make); }

}  // namespace assay::kernels
