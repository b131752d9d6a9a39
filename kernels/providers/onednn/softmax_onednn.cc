// softmax along the last axis by oneDNN's softmax v2, whose output format may differ
// from its input's.
#include <memory>
#include <string>

#include "kernels/providers/onednn/onednn.h"
#include "kernels/providers/onednn/primitives.h"

namespace assay {
namespace {

using onednn::Desc;

class SoftmaxKernel : public Kernel {
 public:
  explicit SoftmaxKernel(onednn::Step softmax) : softmax_(std::move(softmax)) {}

  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    return onednn::Guarded("softmax", [&] {
      softmax_.Set(DNNL_ARG_SRC, inputs[0].data);
      softmax_.Set(DNNL_ARG_DST, output.data);
      softmax_.Run();
      return absl::OkStatus();
    });
  }

  std::string implementation() const override { return softmax_.compiled().implementation; }

 private:
  onednn::Step softmax_;
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
    return std::make_unique<SoftmaxKernel>(std::move(softmax));
  });
}

}  // namespace

KernelEntry OnednnSoftmax() {
  return KernelEntry{.op = "softmax",
                     .provider = "onednn",
                     .backend = "cpu",
                     .dtypes = {DType::kF32, DType::kBF16},
                     .make = &Make,
                     .version = onednn::Version(),
                     .unavailable_reason = {}};
}

}  // namespace assay
