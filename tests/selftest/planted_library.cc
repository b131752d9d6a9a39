// The CPU's planted kernels as a library of a user's: each behind the public interface
// (kernels/sdk/assay/kernel.h), which tells the problem and lends the operands. The library's own
// file name says which kernel it is, and where the defect lies: "wrong-tile.7.so" has the site of
// seed 7.
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "kernels/ops/case.h"
#include "kernels/ops/field.h"
#include "kernels/ops/op.h"
#include "kernels/providers/planted/planted.h"
#include "kernels/runtime/device.h"
#include "kernels/sdk/assay/kernel.h"
#include "kernels/text/cat.h"

namespace assay {
namespace {

// What prepare makes, and each launch uses.
struct State {
  Case c;
  Plan plan;
  std::unique_ptr<Device> device =
      MakeCpuDevice(0, ArenaOptions{.max_bytes = std::int64_t{64} << 20});
  std::unique_ptr<Kernel> kernel;
};

int Say(const std::string& why, int code, char* message, std::size_t bytes) {
  std::snprintf(message, bytes, "%s", why.c_str());
  return code;
}

// Gives the fields of the problem their values.
void Fill(const assay_problem& from, Problem& to) {
  std::visit(
      [&](auto& problem) {
        using P = std::remove_reference_t<decltype(problem)>;
        VisitFields(problem, [&](std::string_view name, auto& value) {
          const auto* const end = from.parameters + from.parameter_count;
          const auto* const found = std::find_if(
              from.parameters, end, [&](const assay_parameter* p) { return p->name == name; });
          if (found == end) return;
          const assay_parameter& p = **found;
          using Value = std::remove_reference_t<decltype(value)>;
          static_assert(!std::is_const_v<P>);
          if constexpr (std::is_same_v<Value, bool>) {
            value = p.integer != 0;
          } else if constexpr (std::is_same_v<Value, double>) {
            value = p.real;
          } else if constexpr (std::is_integral_v<Value>) {
            value = static_cast<Value>(p.integer);
          } else if constexpr (std::is_same_v<Value, std::string>) {
            value = p.text;
          } else if constexpr (std::is_same_v<Value, IntList>) {
            value.assign(p.integers, p.integers + p.integer_count);
          }
        });
      },
      to);
}

int Prepare(const assay_problem* problem, void** state, std::uint64_t* /*workspace_bytes*/,
            char* message, std::size_t message_bytes) {
  const auto say = [&](const std::string& why, int code) {
    return Say(why, code, message, message_bytes);
  };
  Dl_info own;
  if (dladdr(reinterpret_cast<const void*>(&Prepare), &own) == 0) {
    return say("the library does not know its file", ASSAY_FAILED);
  }
  const std::filesystem::path name = std::filesystem::path(own.dli_fname).stem();
  auto s = std::make_unique<State>();
  std::optional<Problem> empty = DefaultProblem(problem->op);
  if (!empty) return say(Cat("no operator ", problem->op), ASSAY_UNSUPPORTED);
  s->c.problem = *std::move(empty);
  Fill(*problem, s->c.problem);
  s->c.provider = Cat(kPlantedPrefix, name.stem().string());
  s->c.seed = std::strtoull(name.extension().c_str() + 1, nullptr, 10);
  // The names are the same numbers.
  s->c.dtype = static_cast<DType>(problem->inputs[0]->dtype);
  s->c.out_dtype = static_cast<DType>(problem->output->dtype);
  absl::StatusOr<Plan> plan = OpOf(s->c).MakePlan(s->c);
  if (!plan.ok()) return say(std::string(plan.status().message()), ASSAY_FAILED);
  s->plan = *std::move(plan);
  for (const KernelEntry& entry : PlantedKernels()) {
    if (entry.op != problem->op || entry.provider != s->c.provider) continue;
    auto made = entry.make(s->c, s->plan, *s->device);
    if (!made.ok()) {
      return say(std::string(made.status().message()),
                 absl::IsUnimplemented(made.status()) ? ASSAY_UNSUPPORTED : ASSAY_FAILED);
    }
    s->kernel = *std::move(made);
    *state = s.release();
    return ASSAY_OK;
  }
  return say(Cat("no kernel ", s->c.provider, " of ", problem->op), ASSAY_FAILED);
}

int Launch(void* state, const assay_launch* launch) {
  auto& s = *static_cast<State*>(state);
  const auto view = [](const Operand& operand, const void* data) {
    return TensorView{const_cast<void*>(data), operand.dtype, operand.extents};
  };
  std::vector<TensorView> inputs;
  inputs.reserve(s.plan.inputs.size());
  for (std::size_t i = 0; i < s.plan.inputs.size(); ++i) {
    inputs.push_back(view(s.plan.inputs[i], launch->inputs[i]));
  }
  const absl::Status status = s.kernel->Launch(inputs, view(s.plan.output, launch->output));
  if (status.ok()) return ASSAY_OK;
  return Say(std::string(status.message()), ASSAY_FAILED, launch->message, launch->message_bytes);
}

void Destroy(void* state) { delete static_cast<State*>(state); }

}  // namespace
}  // namespace assay

extern "C" const assay_kernel* assay_kernel_v1(void) {
  static const assay_kernel kernel = {
      sizeof(assay_kernel), ASSAY_KERNEL_ABI_VERSION, "planted",      nullptr,
      &assay::Prepare,      &assay::Launch,           &assay::Destroy};
  return &kernel;
}
