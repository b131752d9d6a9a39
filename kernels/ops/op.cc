#include "kernels/ops/op.h"

#include "kernels/ops/common/sampling.h"
#include "kernels/ops/device_references.h"
#include "kernels/ops/diagnostics.h"
#include "kernels/runtime/device.h"

namespace assay::inline kernels {

std::span<const Op* const> AllOps() {
  static const Op* const kOps[] = {&GemmOp(),        &ConvOp(), &AttentionOp(),      &SoftmaxOp(),
                                   &LayerNormOp(),   &CopyOp(), &DequantSoftmaxOp(), &ReduceOp(),
                                   &ElementwiseOp(), &RopeOp(), &CustomOp()};
  static_assert(std::size(kOps) == std::variant_size_v<Problem>);
  return kOps;
}

const Op& OpOf(const Problem& problem) { return *AllOps()[problem.index()]; }

const Op* FindOp(std::string_view name) {
  for (const Op* op : AllOps()) {
    if (op->name() == name) return op;
  }
  return nullptr;
}

std::span<const DType> Op::InputFormats() const {
  static constexpr DType kFloating[] = {DType::kF64,      DType::kF32,  DType::kTF32,
                                        DType::kF16,      DType::kBF16, DType::kE4M3FN,
                                        DType::kE4M3FNUZ, DType::kE5M2, DType::kE5M2FNUZ};
  return kFloating;
}

std::vector<DType> Op::OutputFormats(const Case& c) const {
  if (c.dtype == DType::kI8) return {DType::kI32};
  if (c.dtype == DType::kF16 || c.dtype == DType::kBF16) return {c.dtype, DType::kF32};
  if (assay::DefaultOutput(c.dtype) == c.dtype) return {c.dtype};
  if (c.dtype == DType::kTF32) return {DType::kF32};
  return {DType::kF32, DType::kF16, DType::kBF16};
}

std::vector<std::string_view> Op::OutputAxes(const Case&, const Plan& plan) const {
  switch (plan.output.dims.size()) {
    case 1:
      return {"element"};
    case 3:
      return {"batch", "row", "column"};
    case 4:
      return {"batch", "head", "row", "column"};
    default:
      return {"row", "column"};
  }
}

absl::Status Op::Reference(const Case& c, const Plan& plan, Device& device,
                           std::span<const TensorView> inputs, ReferenceBuffers& out) const {
  const DeviceReferences* const own = device.references();
  return own != nullptr ? own->Reference(c, plan, device, inputs, out)
                        : ReferenceHere(c, plan, inputs, out);
}

std::vector<std::int64_t> Op::Samples(const Case&, const Plan& plan, std::uint64_t seed,
                                      std::int64_t at_least) const {
  constexpr std::int64_t kRun = 16;
  return SpreadIndices(plan.output.extents.count(), at_least, kRun, seed);
}

absl::StatusOr<std::vector<Identity>> Op::CheckIdentities(const Case& c, const Plan& plan,
                                                          Device& device,
                                                          std::span<const TensorView> inputs,
                                                          const TensorView& output,
                                                          const ReferenceBuffers& reference) const {
  const DeviceReferences* const own = device.references();
  return own != nullptr ? own->CheckIdentities(c, plan, device, inputs, output, reference)
                        : CheckIdentitiesHere(c, plan, inputs, output, reference);
}

const Diagnostics& Op::diagnostics() const {
  static const Diagnostics nothing_to_say;
  return nothing_to_say;
}

}  // namespace assay::kernels
