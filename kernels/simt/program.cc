// A CUDA kernel under the emulator, as a kernel of Assay's interface: binds the operands of the
// problem to the kernel's parameters, checks the launch, runs it, and says what came of it.
#include <array>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "kernels/simt/accesses.h"
#include "kernels/simt/binding.h"
#include "kernels/simt/cuda/assay_simt_program.h"
#include "kernels/simt/engine.h"
#include "kernels/simt/limits.h"
#include "kernels/simt/module_memory.h"
#include "kernels/simt/program.h"

namespace assay::inline kernels::simt {
namespace {

constexpr LaunchLimits kLimits{.launch_threads = std::int64_t{1} << 28,
                               .operand_bytes = std::int64_t{8} << 20,
                               .shared_bytes = kMostDynamicShared,
                               .who = "the emulator"};

// The launch of one problem.
struct Program {
  const ProgramText* text = nullptr;
  BoundLaunch launch;
  std::vector<Memory> operands;  // of the inputs, then the output
  std::vector<Value> values;
  Accesses accesses;
  bool ready = false;
};

Program& The() {
  static Program program;
  return program;
}

std::int64_t ElementBytes(std::uint32_t dtype) {
  switch (dtype) {
    case ASSAY_F64:
      return 8;
    case ASSAY_F32:
    case ASSAY_TF32:
    case ASSAY_I32:
      return 4;
    case ASSAY_F16:
    case ASSAY_BF16:
      return 2;
    default:
      return 1;
  }
}

Dim3 ToDim3(const std::array<unsigned, 3>& extents) { return {extents[0], extents[1], extents[2]}; }

void Say(const std::string& text, char* message, std::size_t bytes) {
  if (message != nullptr && bytes > 0) std::snprintf(message, bytes, "%s", text.c_str());
}

int Prepare(const assay_problem* problem, void** state, std::uint64_t*, char* message,
            std::size_t message_bytes) {
  Program& program = The();
  const Refusal refusal = Bind(*problem, *program.text, kLimits, &program.launch);
  for (std::uint32_t i = 0; i <= problem->input_count; ++i) {
    const assay_tensor& tensor = i < problem->input_count ? *problem->inputs[i] : *problem->output;
    Memory& memory = program.operands.emplace_back();
    memory.name = tensor.name;
    memory.bytes = static_cast<std::size_t>(tensor.bytes);
    memory.element_bytes = static_cast<std::size_t>(ElementBytes(tensor.dtype));
  }
  Say(refusal.message, message, message_bytes);
  *state = &program;
  return refusal.status;
}

// A block of a GPU has no more shared memory than this.
std::string SharedMemoryFault(const std::vector<Memory>& memory, std::size_t dynamic_bytes) {
  std::size_t arrays = 0;
  for (const Memory& one : memory) {
    if (one.of_block && one.is_library) arrays += one.bytes;
  }
  if (arrays > kMostStaticShared) {
    return "the __shared__ arrays of the file have " + std::to_string(arrays) +
           " bytes together, and a block has at most " + std::to_string(kMostStaticShared) +
           "; take more as extern __shared__ memory (shared = \"…\")";
  }
  if (arrays + dynamic_bytes <= kMostDynamicShared) return "";
  return "the __shared__ arrays and the memory of shared = \"…\" have " +
         std::to_string(arrays + dynamic_bytes) + " bytes together, and a block has at most " +
         std::to_string(kMostDynamicShared);
}

// The memory of the operands is known from the first launch on, and stays where it is.
Refusal MakeReady(Program& program, const assay_launch& launch) {
  const std::size_t inputs = program.operands.size() - 1;
  for (std::size_t i = 0; i <= inputs; ++i) {
    void* const at = i < inputs ? const_cast<void*>(launch.inputs[i]) : launch.output;
    program.operands[i].begin = static_cast<char*>(at);
  }
  program.values.clear();
  for (const Bound& bound : program.launch.arguments) {
    Value value = bound.value;
    if (bound.operand == kDebugBuffer) {
      value.pointer = launch.debug;
    } else if (bound.operand >= 0) {
      value.pointer = program.operands[static_cast<std::size_t>(bound.operand)].begin;
    }
    program.values.push_back(value);
  }
  std::vector<Memory> memory = program.operands;
  if (launch.debug != nullptr) {
    Memory& debug = memory.emplace_back();
    debug.name = kDebugName;
    debug.begin = static_cast<char*>(launch.debug);
    debug.bytes = static_cast<std::size_t>(launch.debug_bytes);
  }
  AddOwnMemory(program.launch.shared_bytes, memory, program.accesses);
  if (std::string fault = SharedMemoryFault(memory, program.launch.shared_bytes); !fault.empty()) {
    return {ASSAY_FAILED, std::move(fault)};
  }
  program.ready = program.accesses.SetMemory(std::move(memory));
  if (program.ready) return {};
  return {ASSAY_NO_MEMORY, "the emulator has no memory to follow the accesses"};
}

int Run(void*, const assay_launch* launch) {
  Program& program = The();
  const auto end = [&](int status, const std::string& text) {
    Say(text, launch->message, launch->message_bytes);
    return status;
  };
  if (!program.ready) {
    const Refusal refusal = MakeReady(program, *launch);
    if (refusal.status != ASSAY_OK) return end(refusal.status, refusal.message);
  }
  Config& config = CurrentConfig();
  config.shared_bytes = 0;
  config.ended_threads_leave = true;
  config.observer = &program.accesses;
  const Dim3 grid = ToDim3(program.launch.grid), block = ToDim3(program.launch.block);
  program.accesses.BeginLaunch(block);
  const ProgramText& text = *program.text;
  const Value* const values = program.values.data();
  index_fault = false;
  followed = &program.accesses;
  const bool ended = Launch(grid, block, 0, [&text, values] { text.call(values); });
  followed = nullptr;
  if (ended) return ASSAY_OK;
  const std::vector<Fault> faults = TakeFaults();
  const std::string why = faults.empty() ? "the launch failed" : faults.front().message;
  const bool outside = program.accesses.fault() == AccessFault::kOutside || index_fault;
  return end(outside ? ASSAY_OUT_OF_BOUNDS : ASSAY_RACE, std::string(text.name) + ": " + why);
}

}  // namespace

Accesses* followed = nullptr;
bool index_fault = false;

const assay_kernel* Describe(const ProgramText& text) {
  The().text = &text;
  static assay_kernel kernel = {
      sizeof(assay_kernel), ASSAY_KERNEL_ABI_VERSION, text.name, nullptr, Prepare, Run, nullptr};
  return &kernel;
}

}  // namespace assay::kernels::simt
