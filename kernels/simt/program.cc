// A CUDA kernel under the emulator, as a kernel of Assay's interface: binds the operands of the
// problem to the kernel's parameters, checks the launch, runs it, and says what came of it.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/simt/accesses.h"
#include "kernels/simt/cuda/assay_simt_program.h"
#include "kernels/simt/engine.h"
#include "kernels/simt/expression.h"
#include "kernels/simt/module_memory.h"
#include "kernels/simt/program.h"

namespace assay::simt {
namespace {

constexpr std::int64_t kMostThreads = 1024;               // of a block
constexpr std::int64_t kMostBlock[3] = {1024, 1024, 64};  // in x, y, z
constexpr std::int64_t kMostGrid[3] = {2147483647, 65535, 65535};
constexpr std::int64_t kMostOfAllThreads = std::int64_t{1} << 28;
constexpr std::int64_t kMostOperandBytes = std::int64_t{8} << 20;
constexpr char kAxes[] = "xyz";

std::string Quoted(std::string_view text) { return "\"" + std::string(text) + "\""; }

const char* Word(std::uint32_t dtype) {
  constexpr const char* kWords[] = {"?",    "fp64",   "fp32",     "tf32", "fp16",
                                    "bf16", "e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz",
                                    "e2m1", "int8",   "int32"};
  return dtype < std::size(kWords) ? kWords[dtype] : "?";
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

// One argument of the kernel: an operand, by its place among inputs and output, or a number.
// The debug buffer as an argument, and in place of an operand's number.
constexpr std::string_view kDebug = "debug";
constexpr int kDebugBuffer = -2;

struct Bound {
  int operand = -1;  // the number of inputs: the output
  Value value = {};
};

// The launch of one problem.
struct Program {
  const ProgramText* text = nullptr;
  Dim3 grid, block;
  std::size_t shared_bytes = 0;
  std::vector<Bound> bound;
  std::vector<Memory> operands;  // of the inputs, then the output
  std::vector<Value> values;
  Accesses accesses;
  bool ready = false;
};

Program& The() {
  static Program program;
  return program;
}

// Why a problem is refused.
struct Refusal {
  int status = ASSAY_OK;
  std::string message;
};

class Preparer {
 public:
  Preparer(const assay_problem& problem, Program& program) : problem_(problem), program_(program) {}

  Refusal Prepare() {
    Extents("grid", program_.text->grid, kMostGrid, program_.grid);
    Extents("block", program_.text->block, kMostBlock, program_.block);
    CheckThreads();
    if (std::int64_t shared = 0; Number("shared", program_.text->shared, &shared)) {
      if (shared < 0 || shared > static_cast<std::int64_t>(kMostDynamicShared)) {
        Refuse(ASSAY_FAILED, Key("shared", program_.text->shared) + " is " +
                                 std::to_string(shared) + " bytes here, and a block has 0 to " +
                                 std::to_string(kMostDynamicShared));
      }
      program_.shared_bytes = static_cast<std::size_t>(shared);
    }
    Operands();
    Arguments();
    return refusal_;
  }

 private:
  void Refuse(int status, std::string message) {
    if (refusal_.status == ASSAY_OK) refusal_ = {status, std::move(message)};
  }
  static std::string Key(std::string_view key, std::string_view text) {
    return "launch description: " + std::string(key) + " = " + Quoted(text);
  }

  const assay_parameter* ParameterNamed(std::string_view name) const {
    for (std::uint32_t i = 0; i < problem_.parameter_count; ++i) {
      if (name == problem_.parameters[i]->name) return problem_.parameters[i];
    }
    return nullptr;
  }
  const assay_tensor* Tensor(std::uint32_t i) const {
    return i < problem_.input_count ? problem_.inputs[i] : problem_.output;
  }
  int OperandNamed(std::string_view name) const {
    for (std::uint32_t i = 0; i <= problem_.input_count; ++i) {
      if (name == Tensor(i)->name) return static_cast<int>(i);
    }
    return -1;
  }

  // "m": a parameter. "a_dim0", "a_stride1": of the tensor a. "stride_0": of a list.
  std::optional<std::int64_t> Find(std::string_view name) const {
    if (const assay_parameter* p = ParameterNamed(name)) {
      const bool whole = p->kind == ASSAY_INTEGER || p->kind == ASSAY_BOOLEAN;
      return whole ? std::optional(p->integer) : std::nullopt;
    }
    const std::size_t digits = name.find_last_not_of("0123456789") + 1;
    if (digits == 0 || digits == name.size() || name.size() - digits > 2) return std::nullopt;
    const auto at = static_cast<std::uint32_t>(std::atoi(std::string(name.substr(digits)).c_str()));
    const std::string_view stem = name.substr(0, digits);
    for (std::uint32_t i = 0; i <= problem_.input_count; ++i) {
      const assay_tensor& tensor = *Tensor(i);
      if (at >= tensor.rank) continue;
      if (stem == std::string(tensor.name) + "_dim") return tensor.shape[at];
      if (stem == std::string(tensor.name) + "_stride") return tensor.strides[at];
    }
    if (stem.back() != '_') return std::nullopt;
    const assay_parameter* const list = ParameterNamed(stem.substr(0, stem.size() - 1));
    if (list == nullptr || list->kind != ASSAY_INTEGERS || at >= list->integer_count) {
      return std::nullopt;
    }
    return list->integers[at];
  }

  std::string Known() const {
    std::string known;
    for (std::uint32_t i = 0; i < problem_.parameter_count; ++i) {
      const assay_parameter& p = *problem_.parameters[i];
      if (p.kind == ASSAY_TEXT || p.kind == ASSAY_INTEGERS) continue;
      known += std::string(known.empty() ? "" : ", ") + p.name;
    }
    for (std::uint32_t i = 0; i <= problem_.input_count; ++i) {
      known += std::string(known.empty() ? "" : ", ") + Tensor(i)->name;
    }
    return "; known here: " + known + ", " + std::string(kDebug);
  }

  bool Number(std::string_view key, const char* text, std::int64_t* value) {
    const Evaluated result = Evaluate(text, [this](std::string_view n) { return Find(n); });
    *value = result.value;
    if (result.error.empty()) return true;
    Refuse(ASSAY_FAILED,
           Key(key, text) + ": " + result.error + (result.unknown_name ? Known() : ""));
    return false;
  }

  void Extents(const char* key, const char* const (&texts)[3], const std::int64_t (&most)[3],
               Dim3& extents) {
    unsigned* const axes[] = {&extents.x, &extents.y, &extents.z};
    for (int i = 0; i < 3; ++i) {
      std::int64_t value = 0;
      if (!Number(std::string(key) + "[" + std::to_string(i) + "]", texts[i], &value)) return;
      if (value < 1 || value > most[i]) {
        return Refuse(ASSAY_FAILED,
                      Key(std::string(key) + "[" + std::to_string(i) + "]", texts[i]) + " is " +
                          std::to_string(value) + " here, and must be 1 to " +
                          std::to_string(most[i]) + " in " + kAxes[i]);
      }
      *axes[i] = static_cast<unsigned>(value);
    }
  }

  void CheckThreads() {
    if (refusal_.status != ASSAY_OK) return;
    const auto threads = static_cast<std::int64_t>(program_.block.count());
    if (threads > kMostThreads) {
      return Refuse(ASSAY_FAILED, "launch description: block has " + std::to_string(threads) +
                                      " threads here, and must have at most " +
                                      std::to_string(kMostThreads));
    }
    if (program_.grid.count() > static_cast<std::uint64_t>(kMostOfAllThreads / threads)) {
      Refuse(ASSAY_UNSUPPORTED, "the emulator takes launches of at most " +
                                    std::to_string(kMostOfAllThreads) +
                                    " threads; take a smaller problem");
    }
  }

  void Operands() {
    std::int64_t bytes = 0;
    for (std::uint32_t i = 0; i <= problem_.input_count; ++i) {
      const assay_tensor& tensor = *Tensor(i);
      Memory memory;
      memory.name = tensor.name;
      memory.bytes = static_cast<std::size_t>(tensor.bytes);
      memory.element_bytes = static_cast<std::size_t>(ElementBytes(tensor.dtype));
      bytes += tensor.bytes;
      program_.operands.push_back(std::move(memory));
    }
    if (bytes <= kMostOperandBytes) return;
    Refuse(ASSAY_UNSUPPORTED, "the emulator takes operands of at most " +
                                  std::to_string(kMostOperandBytes) + " bytes, and these have " +
                                  std::to_string(bytes) + "; take a smaller problem");
  }

  void Arguments() {
    const ProgramText& text = *program_.text;
    if (text.argument_count != text.parameter_count) {
      return Refuse(ASSAY_FAILED, "launch description: args has " +
                                      std::to_string(text.argument_count) + " arguments, and " +
                                      text.name + " takes " + std::to_string(text.parameter_count));
    }
    for (unsigned i = 0; i < text.parameter_count; ++i) {
      program_.bound.push_back(
          Argument("args[" + std::to_string(i) + "]", text.arguments[i], text.parameters[i]));
    }
  }

  Bound Argument(const std::string& key, const char* text, const Parameter& parameter) {
    Bound bound;
    bound.operand = OperandNamed(text);
    if (parameter.kind == ParameterKind::kPointer) {
      if (bound.operand < 0 && text == kDebug) {
        bound.operand = kDebugBuffer;
      } else if (bound.operand < 0) {
        Refuse(ASSAY_FAILED, Key(key, text) + ": the kernel takes a pointer here, and no operand " +
                                 "is called so" + Known());
      } else {
        CheckFormat(*Tensor(static_cast<std::uint32_t>(bound.operand)), parameter.dtype);
      }
      return bound;
    }
    const bool real = parameter.kind == ParameterKind::kReal;
    if (bound.operand >= 0 && ParameterNamed(text) == nullptr) {
      Refuse(ASSAY_FAILED, Key(key, text) + ": is an operand, and the kernel takes a number here");
      return bound;
    }
    bound.operand = -1;
    if (const assay_parameter* p = ParameterNamed(text); p != nullptr && p->kind == ASSAY_REAL) {
      if (!real) {
        Refuse(ASSAY_FAILED,
               Key(key, text) + ": is a real number, and the kernel takes a whole number here");
      }
      bound.value.real = p->real;
      return bound;
    }
    char* end = nullptr;
    const double literal = std::strtod(text, &end);
    if (real && end != text && *end == 0) {
      bound.value.real = literal;
      return bound;
    }
    std::int64_t whole = 0;
    if (Number(key, text, &whole) && !real) CheckRange(key, text, parameter, whole);
    if (real) {
      bound.value.real = static_cast<double>(whole);
    } else {
      bound.value.integer = whole;
    }
    return bound;
  }

  void CheckRange(const std::string& key, const char* text, const Parameter& parameter,
                  std::int64_t value) {
    const std::int64_t most = parameter.bits >= 63 ? std::numeric_limits<std::int64_t>::max()
                                                   : (std::int64_t{1} << parameter.bits) - 1;
    const std::int64_t least = parameter.has_sign ? -most - 1 : 0;
    if (value >= least && value <= most) return;
    Refuse(ASSAY_FAILED, Key(key, text) + " is " + std::to_string(value) +
                             " here, and the kernel's parameter holds " + std::to_string(least) +
                             " to " + std::to_string(most));
  }

  // A kernel for one format does not do cases of another.
  void CheckFormat(const assay_tensor& tensor, unsigned wanted) {
    const bool fits = wanted == 0 || wanted == tensor.dtype ||
                      (wanted == ASSAY_F32 && tensor.dtype == ASSAY_TF32);
    if (fits) return;
    Refuse(ASSAY_UNSUPPORTED, std::string(program_.text->name) + " takes " + tensor.name + " in " +
                                  Word(wanted) + ", and the case has it in " + Word(tensor.dtype));
  }

  const assay_problem& problem_;
  Program& program_;
  Refusal refusal_;
};

void Say(const std::string& text, char* message, std::size_t bytes) {
  if (message != nullptr && bytes > 0) std::snprintf(message, bytes, "%s", text.c_str());
}

int Prepare(const assay_problem* problem, void** state, std::uint64_t*, char* message,
            std::size_t message_bytes) {
  Program& program = The();
  const Refusal refusal = Preparer(*problem, program).Prepare();
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
  for (const Bound& bound : program.bound) {
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
    debug.name = kDebug;
    debug.begin = static_cast<char*>(launch.debug);
    debug.bytes = static_cast<std::size_t>(launch.debug_bytes);
  }
  AddOwnMemory(program.shared_bytes, memory, program.accesses);
  if (std::string fault = SharedMemoryFault(memory, program.shared_bytes); !fault.empty()) {
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
  program.accesses.BeginLaunch(program.block);
  const ProgramText& text = *program.text;
  const Value* const values = program.values.data();
  index_fault = false;
  followed = &program.accesses;
  const bool ended = Launch(program.grid, program.block, 0, [&text, values] { text.call(values); });
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

}  // namespace assay::simt
