// Runs one kernel on one case as the harness does, without its verdict: guarded
// operands, poisoned output, one launch, the operator's own reference and bound.
#ifndef ASSAY_TESTS_UNIT_PROVIDERS_PROVIDER_TESTING_H_
#define ASSAY_TESTS_UNIT_PROVIDERS_PROVIDER_TESTING_H_

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kernels/ops/op.h"
#include "kernels/providers/provider.h"
#include "kernels/runtime/device.h"
#include "kernels/text/cat.h"

namespace assay::testing {

inline const Registry& AllKernels() {
  static const Registry* const registry = [] {
    auto* r = new Registry;
    RegisterAll(*r);
    return r;
  }();
  return *registry;
}

// One device for a program; a case takes its arena from the start.
inline Device& TestDevice() {
  static Device* const device =
      MakeCpuDevice(0, ArenaOptions{.max_bytes = std::int64_t{512} << 20}).release();
  return *device;
}

struct Ran {
  absl::Status status;  // of the first step that failed
  CompareResult compare;
  std::int64_t guard_hits = 0;
  std::string implementation;
  bool zero_mean_random = false;

  // Every element written, of the right class and within the proven bound.
  bool right() const {
    return status.ok() && compare.class_mismatches == 0 && compare.beyond_proven == 0 &&
           compare.unwritten == 0 && guard_hits == 0;
  }
  std::string Describe() const {
    if (!status.ok()) return status.ToString();
    return Cat(implementation, ": rho ", compare.rho_proven, ", beyond ", compare.beyond_proven,
               " of ", compare.count, ", class ", compare.class_mismatches, ", unwritten ",
               compare.unwritten, ", guard bytes ", guard_hits, "; worst at ", compare.worst.index,
               ": ", compare.worst.actual, " instead of ", compare.worst.expected);
  }
};

class CaseRun {
 public:
  // `believe`: what the kernel declares of its intermediates widens the bound. `make`
  // instead of the registry's factory, where a test brings its own kernel.
  CaseRun(Case c, bool believe, KernelFactory make = nullptr)
      : case_(std::move(c)), believe_(believe), make_(make) {
    ran_.status = Steps();
  }
  const Ran& ran() const { return ran_; }

 private:
  absl::StatusOr<TensorView> Allocate(const Operand& operand) {
    TensorView view{nullptr, operand.dtype, operand.extents};
    const auto block = TestDevice().arena().Allocate(view.bytes(), /*guarded=*/true);
    if (!block.ok()) return block.status();
    view.data = block->data;
    return view;
  }

  absl::Status Steps() {
    Device& device = TestDevice();
    if (case_.out_dtype == DType::kUnspecified) case_.out_dtype = OutputType(case_);
    for (const FieldError& e : Check(case_)) {
      return absl::InvalidArgumentError(Cat(e.field, ": ", e.message));
    }
    const Op& op = *FindOp(OpName(case_.problem));
    auto plan = op.MakePlan(case_);
    if (!plan.ok()) return plan.status();
    if (make_ == nullptr) {
      const KernelEntry* entry = AllKernels().Find(op.name(), case_.provider, "cpu");
      if (entry == nullptr) return absl::NotFoundError(case_.provider);
      make_ = entry->make;
    }
    ran_.zero_mean_random = plan->zero_mean_random;

    device.arena().Reset();
    auto kernel = make_(case_, *plan, device);
    if (!kernel.ok()) return kernel.status();
    ran_.implementation = (*kernel)->implementation();
    if (believe_) {
      plan->intermediate_roundoff = (*kernel)->intermediate_roundoff();
      plan->flushes_subnormals = (*kernel)->flushes_subnormals();
    }
    std::vector<TensorView> inputs;
    for (const Operand& o : plan->inputs) {
      const auto view = Allocate(o);
      if (!view.ok()) return view.status();
      const FillSpec fill{o.pattern, case_.seed.value_or(1),
                          static_cast<std::uint32_t>(inputs.size()), 0};
      absl::Status status = device.Fill(fill, *view);
      if (status.ok()) status = device.GuardPadding(Poison::kFirst, *view);
      if (!status.ok()) return status;
      inputs.push_back(*view);
    }
    const auto output = Allocate(plan->output);
    if (!output.ok()) return output.status();
    const std::int64_t count = output->count();
    std::vector<double> value(static_cast<std::size_t>(count));
    std::vector<double> allowance(static_cast<std::size_t>(count));

    // Twice: a kernel must not live on what the first launch left behind.
    for (int launch = 0; launch < 2; ++launch) {
      absl::Status status = device.PoisonTensor(Poison::kFirst, *output);
      if (status.ok()) status = device.GuardPadding(Poison::kFirst, *output);
      if (status.ok()) status = device.WriteGuards(Poison::kFirst);
      if (status.ok()) status = (*kernel)->Launch(inputs, *output);
      if (status.ok()) status = device.Synchronize();
      if (!status.ok()) return status;
    }
    ran_.guard_hits +=
        *device.CheckGuards(Poison::kFirst) + *device.CheckPadding(Poison::kFirst, *output);
    for (const TensorView& in : inputs) ran_.guard_hits += *device.CheckPadding(Poison::kFirst, in);

    ReferenceBuffers reference{value.data(), allowance.data()};
    reference.output = *output;
    absl::Status status = op.Reference(case_, *plan, device, inputs, reference);
    if (!status.ok()) return status;
    CompareRequest request;
    request.output = *output;
    request.reference = value.data();
    request.allowance = plan->exact ? nullptr : allowance.data();
    request.proven_factor = plan->proven_factor;
    request.exact = plan->exact;
    request.gate = Gate::kBound;
    auto compare = device.Compare(request);
    if (!compare.ok()) return compare.status();
    ran_.compare = *std::move(compare);
    return absl::OkStatus();
  }

  Case case_;
  bool believe_;
  KernelFactory make_;
  Ran ran_;
};

inline Ran RunCase(Problem problem, std::string provider, DType in, DType out = DType::kUnspecified,
                   std::string pattern = {}, bool believe = true) {
  Case c;
  c.problem = std::move(problem);
  c.provider = std::move(provider);
  c.dtype = in;
  c.out_dtype = out;
  c.pattern = std::move(pattern);
  return CaseRun(std::move(c), believe).ran();
}

}  // namespace assay::testing

#endif  // ASSAY_TESTS_UNIT_PROVIDERS_PROVIDER_TESTING_H_
