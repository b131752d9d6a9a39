#include "kernels/providers/user/device_kernel.h"

#include <cstdint>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "kernels/numerics/convert.h"
#include "kernels/ops/slice.h"
#include "kernels/providers/user/amd_code_object.h"
#include "kernels/providers/user/describe_problem.h"
#include "kernels/providers/user/device_program.h"
#include "kernels/providers/user/kernel_signature.h"
#include "kernels/runner/problem_view.h"
#include "kernels/runtime/gpu/error_status.h"
#include "kernels/runtime/gpu/gpu_device.h"
#include "kernels/runtime/gpu/host.h"
#include "kernels/runtime/kernel_failure.h"
#include "kernels/simt/binding.h"
#include "kernels/simt/expression.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

using simt::Parameter;
using simt::ParameterKind;

absl::Status Unusable(std::string_view why) {
  return FailedKernel({.preparing = true}, Cat("the kernel could not be prepared: ", why));
}

absl::StatusOr<DeviceProgram> ReadProgram(const Case& c, const GpuDevice& device) {
  const std::string& architecture = device.properties().architecture;
  std::ifstream file(DeviceProgramFile(c.kernel_file, architecture), std::ios::binary);
  if (!file) {
    return absl::UnimplementedError(Cat("this kernel is not compiled for ", device.info().id,
                                        ", which is ", architecture,
                                        "; that takes CUDA source, PTX, cubins, or code objects "
                                        "for it. If it is one, send the file again (--kernel "
                                        "FILE)"));
  }
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return ReadDeviceProgram(bytes.str());
}

// The kernel of a loaded module, until the object goes.
class Loaded {
 public:
  // Takes the program's image.
  static absl::StatusOr<std::unique_ptr<Loaded>> Make(DeviceProgram& program,
                                                      const GpuDevice& device) {
    auto loaded = std::make_unique<Loaded>();
    loaded->image_ = std::move(program.image);
    gpu::ErrorCode code = gpu::LoadModule(loaded->image_.data(), &loaded->module_);
    if (code == gpu::kOk) {
      code = gpu::FindFunction(loaded->module_, program.symbol, &loaded->function_);
    }
    if (code == gpu::kOk) code = gpu::DescribeFunction(loaded->function_, &loaded->use_);
    if (code == gpu::kOk) {
      loaded->AddAmdParameters(program.symbol);
      return loaded;
    }
    const std::string said = Cat(program.name, " on ", device.info().id, ", which is ",
                                 device.properties().architecture, ": ", gpu::Describe(code));
    if (gpu::IsForAnother(code)) return absl::UnimplementedError(said);
    // A code object that is none, or has no such kernel. Memory and lost devices are not its fault.
    const absl::Status status = gpu::StatusOf(code, program.name);
    const bool own = absl::IsUnimplemented(status) || absl::IsInternal(status);
    return own && !gpu::IsSticky(code) ? Unusable(said) : status;
  }
  Loaded() = default;
  ~Loaded() {
    if (module_ != nullptr) (void)gpu::UnloadModule(module_);
  }
  Loaded(const Loaded&) = delete;
  Loaded& operator=(const Loaded&) = delete;

  gpu::Function function() const { return function_; }
  const gpu::FunctionUse& use() const { return use_; }

 private:
  // AMD's runtime does not tell the sizes of parameters, but the code object does.
  void AddAmdParameters(std::string_view symbol) {
    const absl::StatusOr<std::vector<AmdCodeObject>> codes = AmdCodeObjects(image_);
    if (!codes.ok()) return;  // it is another's code
    for (const AmdKernel& kernel : codes->front().kernels) {
      if (kernel.symbol == symbol) use_.parameter_bytes = kernel.parameter_bytes;
    }
  }

  std::string image_;
  gpu::Module module_ = nullptr;
  gpu::Function function_ = nullptr;
  gpu::FunctionUse use_;
};

// What the argument of a kernel whose parameters only have sizes is, by its text.
absl::StatusOr<Parameter> ByArgument(const assay_problem& problem, const std::string& argument,
                                     std::int64_t bytes) {
  constexpr std::int64_t kPointer = sizeof(void*);
  const auto named = [&](const assay_tensor& tensor) { return argument == tensor.name; };
  bool operand = argument == simt::kDebugName || named(*problem.output);
  for (std::uint32_t i = 0; i < problem.input_count; ++i) operand |= named(*problem.inputs[i]);
  bool real = !simt::CheckExpression(argument).empty();  // 0.5 is no whole number's expression
  for (std::uint32_t i = 0; i < problem.parameter_count; ++i) {
    const assay_parameter& p = *problem.parameters[i];
    if (argument != p.name) continue;
    operand = operand && bytes == kPointer;
    real = !operand && p.kind == ASSAY_REAL;
  }
  if (operand) return Parameter{ParameterKind::kPointer, 0};
  if (real && bytes == sizeof(double)) return Parameter{ParameterKind::kReal, ASSAY_F64};
  if (real && bytes == sizeof(float)) return Parameter{ParameterKind::kReal, ASSAY_F32};
  if (real || bytes > kPointer || (bytes & (bytes - 1)) != 0) {
    return absl::UnimplementedError(
        Cat("a parameter of ", bytes, " bytes gets ", argument,
            ", and nothing says what it is; give the kernel C++ linkage (no extern \"C\")"));
  }
  // Of either sign: the range is that of both.
  constexpr unsigned kBits = 8;
  return Parameter{ParameterKind::kInteger, 0, static_cast<unsigned>(bytes) * kBits, true};
}

absl::StatusOr<std::vector<Parameter>> Parameters(const DeviceProgram& program,
                                                  const gpu::FunctionUse& use,
                                                  const assay_problem& problem) {
  const absl::StatusOr<std::optional<std::vector<Parameter>>> said =
      ParametersOf(program.signature);
  if (!said.ok()) return said.status();
  const std::vector<std::int64_t>& bytes = use.parameter_bytes;
  std::vector<Parameter> parameters;
  if (!*said) {
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      // Too few arguments are told of when they are bound.
      const std::string argument = i < program.args.size() ? program.args[i] : "0";
      const absl::StatusOr<Parameter> one = ByArgument(problem, argument, bytes[i]);
      if (!one.ok()) return one.status();
      parameters.push_back(*one);
    }
    return parameters;
  }
  parameters = **said;
  bool fits = parameters.size() == bytes.size();
  for (std::size_t i = 0; fits && i < bytes.size(); ++i) {
    fits = static_cast<std::int64_t>(SizeOf(parameters[i])) == bytes[i];
  }
  if (fits) return parameters;
  return Unusable(Cat(program.name, " does not take what its name says"));
}

// The words of an argument, as the kernel takes it.
std::uint64_t WordsOf(const Parameter& parameter, const simt::Value& value) {
  if (parameter.kind == ParameterKind::kPointer) {
    return reinterpret_cast<std::uintptr_t>(value.pointer);
  }
  if (parameter.kind == ParameterKind::kInteger) return static_cast<std::uint64_t>(value.integer);
  return RoundToFormat(value.real, static_cast<DType>(parameter.dtype));
}

class DeviceKernel final : public Kernel {
 public:
  DeviceKernel(GpuDevice& device, DeviceProgram program, std::unique_ptr<Loaded> loaded,
               std::vector<Parameter> parameters, simt::BoundLaunch launch, const Block& debug)
      : device_(device),
        program_(std::move(program)),
        loaded_(std::move(loaded)),
        parameters_(std::move(parameters)),
        launch_(std::move(launch)),
        debug_(debug) {}

  absl::Status Bring(std::span<const TensorView>, const TensorView&) override {
    if (debug_.data == nullptr) return absl::OkStatus();
    const absl::StatusOr<gpu::Stream> stream = device_.stream();
    if (!stream.ok()) return stream.status();
    return gpu::StatusOf(gpu::Set(debug_.data, 0, debug_.bytes, *stream), "debug buffer");
  }

  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    const absl::StatusOr<gpu::Stream> stream = device_.stream();
    if (!stream.ok()) return stream.status();
    std::vector<std::uint64_t> words;
    words.reserve(parameters_.size());
    std::vector<void*> pointers;
    pointers.reserve(parameters_.size());
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      simt::Value value = launch_.arguments[i].value;
      const int operand = launch_.arguments[i].operand;
      if (operand == simt::kDebugBuffer) value.pointer = debug_.data;
      if (operand >= 0) {
        const auto at = static_cast<std::size_t>(operand);
        value.pointer = at < inputs.size() ? inputs[at].data : output.data;
      }
      words.push_back(WordsOf(parameters_[i], value));
    }
    for (std::uint64_t& word : words) pointers.push_back(&word);
    const gpu::ErrorCode code =
        gpu::LaunchFunction(loaded_->function(), launch_.grid, launch_.block, launch_.shared_bytes,
                            pointers.data(), *stream);
    if (code == gpu::kOk || gpu::IsSticky(code) || gpu::IsOutOfMemory(code)) {
      return gpu::StatusOf(code, program_.name);
    }
    return FailedKernel({}, Cat(program_.name, ": ", gpu::Describe(code)));
  }

  bool trusted() const override { return false; }
  bool reaches_device_memory() const override { return true; }
  std::string implementation() const override {
    return Cat(program_.name, " (", loaded_->use().registers, " registers)");
  }
  std::vector<std::uint8_t> debug_buffer() const override {
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(debug_.bytes));
    const TensorView view{debug_.data, DType::kI8, Extents::Dense(1, 1, debug_.bytes)};
    if (debug_.data == nullptr || !device_.ToHost(view, 0, debug_.bytes, bytes.data()).ok()) {
      return {};
    }
    return bytes;
  }

 private:
  GpuDevice& device_;
  const DeviceProgram program_;
  const std::unique_ptr<Loaded> loaded_;
  const std::vector<Parameter> parameters_;
  const simt::BoundLaunch launch_;
  const Block debug_;  // without data: nobody asked for it
};

// A launch that no card of this kind takes is refused here, with the figures.
absl::Status CheckResources(const DeviceProgram& program, const gpu::FunctionUse& use,
                            const simt::BoundLaunch& launch, const GpuDevice& device) {
  const std::int64_t threads = std::int64_t{launch.block[0]} * launch.block[1] * launch.block[2];
  if (threads > use.most_threads) {
    return Unusable(Cat("launch description: block has ", threads, " threads here, and with its ",
                        use.registers, " registers a thread ", program.name, " takes at most ",
                        use.most_threads, " on ", device.info().id));
  }
  const std::int64_t shared = use.shared_bytes + static_cast<std::int64_t>(launch.shared_bytes);
  const std::int64_t most = device.properties().shared_bytes_per_block;
  if (shared <= most) return absl::OkStatus();
  return Unusable(Cat("launch description: the __shared__ arrays and the memory of shared = \"",
                      program.shared, "\" have ", shared, " bytes together, and a block on ",
                      device.info().id, " has at most ", most));
}

absl::StatusOr<simt::BoundLaunch> BindLaunch(const DeviceProgram& program,
                                             const std::vector<Parameter>& parameters,
                                             const assay_problem& problem,
                                             const GpuDevice& device) {
  std::vector<const char*> arguments;
  arguments.reserve(program.args.size());
  for (const std::string& argument : program.args) arguments.push_back(argument.c_str());
  simt::ProgramText text{};
  text.name = program.name.c_str();
  for (std::size_t i = 0; i < program.grid.size(); ++i) {
    text.grid[i] = program.grid[i].c_str();
    text.block[i] = program.block[i].c_str();
  }
  text.shared = program.shared.c_str();
  text.arguments = arguments.data();
  text.argument_count = static_cast<unsigned>(arguments.size());
  text.parameters = parameters.data();
  text.parameter_count = static_cast<unsigned>(parameters.size());
  const simt::LaunchLimits limits{.shared_bytes = device.properties().shared_bytes_per_block,
                                  .who = device.info().id};
  simt::BoundLaunch launch;
  const simt::Refusal refusal = simt::Bind(problem, text, limits, &launch);
  if (refusal.status == ASSAY_OK) return launch;
  if (refusal.status == ASSAY_UNSUPPORTED) return absl::UnimplementedError(refusal.message);
  return Unusable(refusal.message);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakeDeviceKernel(const Case& c, const Plan& plan,
                                                         Device& device) {
  auto& gpu_device = static_cast<GpuDevice&>(device);
  absl::StatusOr<DeviceProgram> program = ReadProgram(c, gpu_device);
  if (!program.ok()) return program.status();
  const absl::StatusOr<std::unique_ptr<Description>> description = DescribeProblem(c, plan);
  if (!description.ok()) return description.status();
  const ProblemView view(**description);
  absl::StatusOr<std::unique_ptr<Loaded>> loaded = Loaded::Make(*program, gpu_device);
  if (!loaded.ok()) return loaded.status();
  const gpu::FunctionUse& use = (*loaded)->use();
  absl::StatusOr<std::vector<Parameter>> parameters = Parameters(*program, use, view.problem());
  if (!parameters.ok()) return parameters.status();
  absl::StatusOr<simt::BoundLaunch> launch =
      BindLaunch(*program, *parameters, view.problem(), gpu_device);
  if (!launch.ok()) return launch.status();
  if (absl::Status s = CheckResources(*program, use, *launch, gpu_device); !s.ok()) return s;
  const gpu::ErrorCode code =
      gpu::AllowShared((*loaded)->function(), static_cast<std::int64_t>(launch->shared_bytes));
  if (code != gpu::kOk) return gpu::StatusOf(code, program->name);
  Block debug;
  if (AsksForDebugBuffer(c)) {
    const absl::StatusOr<Block> block = device.arena().Allocate(kDebugBytes, /*guarded=*/true);
    if (!block.ok()) return block.status();
    debug = *block;
  }
  return std::make_unique<DeviceKernel>(gpu_device, *std::move(program), *std::move(loaded),
                                        *std::move(parameters), *std::move(launch), debug);
}

KernelEntry UserDeviceKernels(std::string_view backend) {
  return KernelEntry{.op = {},  // every one
                     .provider = kUserPrefix,
                     .backend = backend,
                     .dtypes = AllFormats(),
                     .make = &MakeDeviceKernel};
}

}  // namespace assay::kernels
