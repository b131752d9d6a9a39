// copy with cblas_scopy and cblas_dcopy, in pieces whose counts fit into 32 bits. BLAS has a copy
// of its own, so it is judged and timed as one.
#include <algorithm>
#include <memory>
#include <string>

#include "kernels/providers/openblas/blas.h"
#include "kernels/providers/openblas/openblas.h"

namespace assay::inline kernels {
namespace {

constexpr std::int64_t kPiece = std::int64_t{1} << 30;  // [elements]

template <class T>
class CopyKernel : public Kernel {
 public:
  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    const std::int64_t count = output.count();
    for (std::int64_t i = 0; i < count; i += kPiece) {
      blas::Copy(std::min(kPiece, count - i), inputs[0].as<const T>() + i, output.as<T>() + i);
    }
    return absl::OkStatus();
  }

  std::string implementation() const override { return blas::Implementation(); }
};

absl::StatusOr<std::unique_ptr<Kernel>> Make(const Case&, const Plan& plan, Device&) {
  const DType format = plan.inputs[0].dtype;
  const absl::Status ok = blas::CheckFormats(format, plan.output.dtype);
  if (!ok.ok()) return ok;
  if (format == DType::kF32) return std::make_unique<CopyKernel<float>>();
  return std::make_unique<CopyKernel<double>>();
}

}  // namespace

KernelEntry OpenblasCopy() { return blas::Entry("copy", &Make); }

}  // namespace assay::kernels
