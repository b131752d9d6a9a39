// Defines the kernels under test and the table that finds them: one factory for each operator,
// provider and backend.
//
// A kernel takes its operands as views, in the plan's order, and writes the output view. It may
// take workspace from the arena when it is made, never when it is launched. If a provider cannot do
// a case, its factory returns UNIMPLEMENTED with the reason, which becomes the verdict UNSUPPORTED.
// A provider never runs another provider's kernel. Exceptions of third-party libraries end in the
// factory or in Launch.
#ifndef ASSAY_KERNELS_PROVIDERS_PROVIDER_H_
#define ASSAY_KERNELS_PROVIDERS_PROVIDER_H_

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/numerics/bound.h"
#include "kernels/ops/case.h"
#include "kernels/ops/op.h"
#include "kernels/runtime/device.h"

namespace assay::inline kernels {

// A kernel of one case. It may run in a process of its own, which does not see the device's memory.
// Bring and Fetch carry its operands there and back. No clock runs meanwhile.
class Kernel {
 public:
  virtual ~Kernel() = default;
  // Carries the inputs and the poisoned output, with their guard bands, to where the kernel runs.
  // The launches until the next Fetch find them there.
  virtual absl::Status Bring(std::span<const TensorView> /*inputs*/, const TensorView& /*output*/) {
    return absl::OkStatus();
  }
  // Carries the operands back, inputs too, with whatever the launches wrote in and around them.
  virtual absl::Status Fetch(std::span<const TensorView> /*inputs*/, const TensorView& /*output*/) {
    return absl::OkStatus();
  }
  // The same operands where the launches find them, the output last. Caches are emptied of these.
  virtual std::vector<TensorView> OperandsInPlace(std::span<const TensorView> inputs,
                                                  const TensorView& output) const {
    std::vector<TensorView> views(inputs.begin(), inputs.end());
    views.push_back(output);
    return views;
  }
  // Whether the code is Assay's or a vendor's. The timed launches of other code are judged one by
  // one, on data that it cannot foresee.
  virtual bool trusted() const { return true; }
  // Whether the kernel's code can read all of the device's memory, and is not trusted: code of a
  // user's on a GPU. Then nothing that it could use lies there when it runs.
  virtual bool reaches_device_memory() const { return false; }
  // Seconds that the launches since the last call took beyond the kernel itself, by measurement:
  // what it takes to tell another process and to hear from it.
  virtual double TakeOverheadSeconds() { return 0.0; }
  // What the last launch left in the debug buffer, if the case asks for one (kernels/ops/slice.h)
  // and the kernel can have one.
  virtual std::vector<std::uint8_t> debug_buffer() const { return {}; }
  // The shared libraries that the kernel's process has loaded, if it has one of its own.
  virtual std::vector<std::string> loaded_libraries() const { return {}; }
  // Enqueues one launch. The caller repeats it many times with the same views.
  virtual absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) = 0;
  // The unit roundoff of the format of intermediate results, if the library by design holds them in
  // a narrower format than the accumulator's. 0: it does not. The value widens the error bound, so
  // the evidence shows it, and implementation() names it. Of sums of integers: the format that a
  // sum passes through on its way to the output; exact cases have room for that rounding.
  virtual double intermediate_roundoff() const { return 0.0; }
  // Whether the kernel's instructions by definition take subnormal intermediate results as 0. This
  // widens the bound's allowance for underflow, so the evidence shows it.
  virtual bool flushes_subnormals() const { return false; }
  // The accumulator, if the kernel's instructions by definition hold less than fp32 does for
  // products of 8- and 4-bit floats (Hopper's tensor cores: 14 bits, blocks of 32), or if they cut
  // off instead of rounding. It widens the error bound, so the measurement shows it, and it stands
  // after implementation(). Ignored for formats that no hardware treats so: see AccumulatorOf.
  virtual Accumulator accumulator() const { return {}; }
  // How far 1 times an element may be from that element, relative to it, because the kernel by
  // design splits its operands into narrower parts (an emulation of fp32) or transforms them
  // (Winograd, FFT). 0: not at all. The significand probes allow this much and no more, up to
  // OpTraits::most_operand_roundoff. The error bound has room for twice as much of each product.
  // The evidence shows it, after implementation().
  virtual double operand_roundoff() const { return 0.0; }
  // The implementation that the library chose, such as "brgemm:avx512_core_bf16". May be empty.
  virtual std::string implementation() const { return {}; }
};

using KernelFactory = absl::StatusOr<std::unique_ptr<Kernel>> (*)(const Case& c, const Plan& plan,
                                                                  Device& device);

struct KernelEntry {
  std::string_view op;
  std::string_view provider;  // "onednn"; "planted/<defect>" for kernels that are wrong on purpose
  std::string_view backend;   // "cpu"
  std::vector<DType> dtypes;  // input formats that it takes
  KernelFactory make = nullptr;
  std::string version{};             // of the library
  std::string unavailable_reason{};  // empty: it can run here
};

// For kernels that take every format.
inline std::vector<DType> AllFormats() {
  std::vector<DType> all;
  for (const FormatInfo& f : kFormats) {
    if (f.dtype != DType::kUnspecified) all.push_back(f.dtype);
  }
  return all;
}

// The table of kernels. Not thread-safe while it is filled.
class Registry {
 public:
  // Adds a kernel. A duplicate (op, provider, backend) is an error of the program: Add aborts.
  void Add(KernelEntry entry);
  // Adds a kernel for all operators and all providers whose names begin with entry.provider. It is
  // found, and not listed among entries.
  void AddForPrefix(KernelEntry entry) { by_prefix_.push_back(std::move(entry)); }
  const KernelEntry* Find(std::string_view op, std::string_view provider,
                          std::string_view backend) const;
  std::span<const KernelEntry> entries() const { return entries_; }

 private:
  std::vector<KernelEntry> entries_;
  std::vector<KernelEntry> by_prefix_;
};

inline constexpr std::string_view kPlantedPrefix = "planted/";
// Kernels of users: "user/" and the first 12 hexadecimal digits of their library's SHA-256.
inline constexpr std::string_view kUserPrefix = "user/";
// The functions of callers, which run in their own processes.
inline constexpr std::string_view kExternalProvider = "external";

// Adds every kernel of the CPU, one line each. A GPU backend adds its own kernels
// (kernels/backends).
void RegisterAll(Registry& registry);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_PROVIDERS_PROVIDER_H_
