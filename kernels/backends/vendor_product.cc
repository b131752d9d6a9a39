#include "kernels/backends/vendor_product.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "kernels/ops/case.h"
#include "kernels/ops/op.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

absl::StatusOr<TensorView> Allocate(const Operand& operand, Device& device) {
  TensorView view{nullptr, operand.dtype, operand.extents};
  const absl::StatusOr<Block> block = device.arena().Allocate(view.bytes(), /*guarded=*/false);
  if (!block.ok()) return block.status();
  view.data = block->data;
  return view;
}

}  // namespace

absl::StatusOr<LargeProduct> VendorProduct(std::span<const KernelEntry> entries, DType dtype,
                                           std::int64_t n, Device& device) {
  const auto entry = std::find_if(entries.begin(), entries.end(), [&](const KernelEntry& e) {
    return e.op == "gemm" && e.unavailable_reason.empty() &&
           std::find(e.dtypes.begin(), e.dtypes.end(), dtype) != e.dtypes.end();
  });
  if (entry == entries.end()) {
    return absl::NotFoundError(Cat("no vendor's gemm for ", Name(dtype)));
  }
  Case c;
  // The transposed form is the one that every format supports.
  c.problem = GemmProblem{.m = n, .n = n, .k = n, .trans_b = true};
  c.dtype = dtype;
  const absl::StatusOr<Plan> plan = FindOp("gemm")->MakePlan(c);
  if (!plan.ok()) return plan.status();
  // The kernel and the views that the launch keeps alive.
  struct Product {
    std::unique_ptr<Kernel> kernel;
    std::vector<TensorView> inputs;
    TensorView output;
  };
  const auto product = std::make_shared<Product>();
  absl::StatusOr<std::unique_ptr<Kernel>> kernel = entry->make(c, *plan, device);
  if (!kernel.ok()) return kernel.status();
  product->kernel = *std::move(kernel);
  for (std::size_t i = 0; i < plan->inputs.size(); ++i) {
    const absl::StatusOr<TensorView> view = Allocate(plan->inputs[i], device);
    if (!view.ok()) return view.status();
    const FillSpec fill{plan->inputs[i].pattern, /*seed=*/1, static_cast<std::uint32_t>(i), 0};
    if (absl::Status s = device.Fill(fill, *view); !s.ok()) return s;
    product->inputs.push_back(*view);
  }
  const absl::StatusOr<TensorView> output = Allocate(plan->output, device);
  if (!output.ok()) return output.status();
  product->output = *output;
  const auto edge = static_cast<double>(n);
  return LargeProduct{
      [product] { return product->kernel->Launch(product->inputs, product->output); },
      2.0 * edge * edge * edge};
}

}  // namespace assay::kernels
