// copy with oneDNN's reorder between equal layouts. The elements are copied as bits: the operand is
// described as words or bytes.
#include <memory>
#include <string>

#include "kernels/providers/onednn/onednn.h"
#include "kernels/providers/onednn/primitives.h"

namespace assay::inline kernels {
namespace {

using dnnl::memory;

class CopyKernel : public Kernel {
 public:
  explicit CopyKernel(onednn::Step move) : move_(std::move(move)) {}

  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    return onednn::Guarded("reorder", [&] {
      move_.Set(DNNL_ARG_FROM, inputs[0].data);
      move_.Set(DNNL_ARG_TO, output.data);
      move_.Run();
      return absl::OkStatus();
    });
  }

  std::string implementation() const override { return move_.compiled().implementation; }

 private:
  onednn::Step move_;
};

absl::StatusOr<std::unique_ptr<Kernel>> Make(const Case&, const Plan& plan, Device& device) {
  const Operand& x = plan.inputs[0];
  if (plan.output.dtype != x.dtype) {
    return absl::UnimplementedError(
        Cat("copy keeps the format, ", Name(x.dtype), "; got ", Name(plan.output.dtype)));
  }
  return onednn::Guarded("reorder", [&]() -> absl::StatusOr<std::unique_ptr<Kernel>> {
    // A reorder of s32 and s8 changes no bit pattern; one of f32 and bf16 could.
    const std::int64_t bytes = StorageBytes(x.dtype, x.extents.span());
    const bool words = bytes % 4 == 0;
    const onednn::Desc desc({words ? bytes / 4 : bytes},
                            words ? memory::data_type::s32 : memory::data_type::s8,
                            onednn::Dims{1});
    onednn::Step move(onednn::Compile(Cat("copy;", bytes), [&] {
      return onednn::Finish<dnnl::reorder>(dnnl::reorder::primitive_desc(
          onednn::CpuEngine(), desc, onednn::CpuEngine(), desc, onednn::UserScratchpad()));
    }));
    move.Bind(DNNL_ARG_FROM, desc);
    move.Bind(DNNL_ARG_TO, desc);
    const absl::Status scratch = onednn::AllocateScratchpad(device, {&move});
    if (!scratch.ok()) return scratch;
    return std::make_unique<CopyKernel>(std::move(move));
  });
}

}  // namespace

KernelEntry OnednnCopy() { return onednn::Entry("copy", AllFormats(), &Make); }

}  // namespace assay::kernels
