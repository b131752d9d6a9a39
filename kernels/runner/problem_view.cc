#include "kernels/runner/problem_view.h"

#include <algorithm>
#include <cstdint>

namespace assay::inline kernels {
namespace {

assay_tensor TensorOf(const SharedTensor& shared) {
  assay_tensor tensor{};
  tensor.struct_size = sizeof tensor;
  tensor.dtype = shared.dtype;
  tensor.name = shared.name;
  tensor.rank = shared.rank;
  std::copy_n(shared.shape, kMaxRank, tensor.shape);
  std::copy_n(shared.strides, kMaxRank, tensor.strides);
  tensor.bytes = shared.bytes;
  return tensor;
}

}  // namespace

ProblemView::ProblemView(const Description& description) {
  for (std::uint32_t i = 0; i < description.parameter_count; ++i) {
    const SharedParameter& shared = description.parameters[i];
    parameters_[i] = {sizeof(assay_parameter), shared.kind,          shared.name,
                      shared.integer,          shared.real,          shared.text,
                      shared.integers,         shared.integer_count, 0};
    parameter_list_[i] = &parameters_[i];
  }
  for (std::uint32_t i = 0; i < description.input_count; ++i) {
    inputs_[i] = TensorOf(description.inputs[i]);
    input_list_[i] = &inputs_[i];
  }
  output_ = TensorOf(description.output);
  problem_.struct_size = sizeof problem_;
  problem_.abi_version = ASSAY_KERNEL_ABI_VERSION;
  problem_.op = description.op;
  problem_.parameter_count = description.parameter_count;
  problem_.input_count = description.input_count;
  problem_.parameters = parameter_list_.data();
  problem_.inputs = input_list_.data();
  problem_.output = &output_;
  problem_.thread_count = description.thread_count;
}

}  // namespace assay::kernels
