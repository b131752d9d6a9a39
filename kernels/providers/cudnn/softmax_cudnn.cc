// softmax along the last axis with cudnnSoftmaxForward, whose accurate form subtracts the row's
// maximum. Rows are images with as many channels as there are columns.
#include <limits>
#include <memory>
#include <string>

#include "kernels/providers/cudnn/api.h"
#include "kernels/providers/cudnn/cudnn.h"
#include "kernels/runtime/gpu/stream_of.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

using cudnn::StatusOf;

class SoftmaxKernel final : public Kernel {
 public:
  SoftmaxKernel(Device& device, cudnnHandle_t handle, DType format)
      : device_(device), handle_(handle), format_(format) {}
  ~SoftmaxKernel() override {
    for (cudnnTensorDescriptor_t t : {x_, y_}) {
      if (t != nullptr) (void)(*cudnn::Load())->tensor_destroy(t);
    }
  }

  absl::Status Describe(cudnnDataType_t type, const Extents& x, const Extents& y) {
    absl::Status s = Describe(type, x, &x_);
    return s.ok() ? Describe(type, y, &y_) : s;
  }

  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    const absl::StatusOr<gpu::Stream> stream = gpu::StreamOf(device_);
    if (!stream.ok()) return stream.status();
    const cudnn::Api& api = **cudnn::Load();
    absl::Status s =
        StatusOf(api.set_stream(handle_, static_cast<cudaStream_t>(*stream)), "the stream");
    if (!s.ok()) return s;
    const float one = 1, zero = 0;
    const double wide_one = 1, wide_zero = 0;
    const bool wide = format_ == DType::kF64;
    return StatusOf(
        api.softmax_forward(handle_, CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_CHANNEL,
                            wide ? static_cast<const void*>(&wide_one) : &one, x_, inputs[0].data,
                            wide ? static_cast<const void*>(&wide_zero) : &zero, y_, output.data),
        "the launch");
  }
  // In long rows the library stores exp(x − m) in the output's format, reads it back and divides by
  // the sum of what was not rounded. In rows of 2,048 and 4,096, 40,959 of 40,960 elements have
  // the bits of two roundings; in rows of 257 all have those of one (cuDNN 9.19 on an H100).
  // Where between these the library changes is not known, so short rows have the declaration, too.
  double intermediate_roundoff() const override {
    return Info(format_).storage_bits == 16 ? Info(format_).unit_roundoff : 0.0;
  }
  std::string implementation() const override {
    return Cat("cudnn ", (*cudnn::Load())->version, " cudnnSoftmaxForward accurate, deterministic",
               intermediate_roundoff() > 0 ? Cat(", exponentials held in ", Name(format_)) : "");
  }

 private:
  static absl::Status Describe(cudnnDataType_t type, const Extents& e, cudnnTensorDescriptor_t* t) {
    const cudnn::Api& api = **cudnn::Load();
    absl::Status s = StatusOf(api.tensor_create(t), "a tensor");
    if (!s.ok()) return s;
    const int ld = static_cast<int>(e.ld);
    return StatusOf(api.tensor_set(*t, type, static_cast<int>(e.rows), static_cast<int>(e.cols), 1,
                                   1, ld, 1, 1, 1),
                    "a tensor");
  }

  Device& device_;
  const cudnnHandle_t handle_;
  const DType format_;
  cudnnTensorDescriptor_t x_ = nullptr;
  cudnnTensorDescriptor_t y_ = nullptr;
};

absl::StatusOr<std::unique_ptr<Kernel>> Make(const Case& c, const Plan& plan, Device& device) {
  const Operand &x = plan.inputs[0], &y = plan.output;
  if (const auto& api = cudnn::Load(); !api.ok()) return api.status();
  const absl::StatusOr<cudnnDataType_t> type = cudnn::TypeOf(c.dtype);
  if (!type.ok()) return type.status();
  if (y.dtype != c.dtype) {
    return absl::UnimplementedError(Cat("cudnnSoftmaxForward writes the format it reads, ",
                                        Name(c.dtype), "; got ", Name(y.dtype)));
  }
  if (x.extents.span() > std::numeric_limits<int>::max() ||
      y.extents.span() > std::numeric_limits<int>::max()) {
    return absl::UnimplementedError(
        Cat("cudnnSoftmaxForward takes tensors below 2^31 elements; "
            "got softmax.rows ",
            x.extents.rows, ", softmax.cols ", x.extents.cols));
  }
  const absl::StatusOr<cudnnHandle_t> handle = cudnn::Handle();
  if (!handle.ok()) return handle.status();
  auto kernel = std::make_unique<SoftmaxKernel>(device, *handle, c.dtype);
  if (absl::Status s = kernel->Describe(*type, x.extents, y.extents); !s.ok()) return s;
  return kernel;
}

}  // namespace

KernelEntry CudnnSoftmax(std::string_view backend) {
  return cudnn::Entry("softmax", backend, {DType::kF64, DType::kF32, DType::kF16, DType::kBF16},
                      &Make);
}

}  // namespace assay::kernels
