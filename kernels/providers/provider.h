// Kernels under test: a factory a (op, provider), found in one table.
//
// A kernel takes its operands as views in the plan's order and writes the output
// view; it may take workspace from the arena when it is made, never when it is
// launched. What a provider cannot do it refuses with UNIMPLEMENTED and the
// reason, which becomes the verdict UNSUPPORTED; it never runs another's kernel.
// Third-party exceptions end in the factory or in Launch.
#ifndef ASSAY_KERNELS_PROVIDERS_PROVIDER_H_
#define ASSAY_KERNELS_PROVIDERS_PROVIDER_H_

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/numerics/bound.h"
#include "kernels/ops/case.h"
#include "kernels/ops/op.h"
#include "kernels/runtime/device.h"

namespace assay {

class Kernel {
 public:
  virtual ~Kernel() = default;
  // Enqueues one launch. Called many times with the same views.
  virtual absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) = 0;
  // Unit roundoff of a format narrower than the accumulator's that the kernel holds
  // intermediate results in, where its library does so by design; 0: none. It widens
  // the error bound, so it is declared with the evidence, and shown in implementation().
  virtual double intermediate_roundoff() const { return 0.0; }
  // Whether the kernel takes subnormal intermediate results for 0, where its
  // instructions do so by definition. It widens the bound's allowance for underflow, so
  // it is declared with the evidence.
  virtual bool flushes_subnormals() const { return false; }
  // What the kernel sums products of 8- and 4-bit floats in, where its instructions hold
  // less than fp32 does by definition (Hopper's tensor cores: 14 bits, blocks of 32). It
  // widens the error bound, so it is declared with the measurement; it is shown behind
  // implementation(). Ignored for other formats.
  virtual Accumulator accumulator() const { return {}; }
  // What the library chose, "brgemm:avx512_core_bf16"; may be empty.
  virtual std::string implementation() const { return {}; }
};

using KernelFactory = absl::StatusOr<std::unique_ptr<Kernel>> (*)(const Case& c, const Plan& plan,
                                                                  Device& device);

struct KernelEntry {
  std::string_view op;
  std::string_view provider;  // "onednn"; "planted/<defect>" for kernels wrong on purpose
  std::string_view backend;   // "cpu"
  std::vector<DType> dtypes;  // input formats it takes, if the machine has them
  KernelFactory make = nullptr;
  std::string version;             // of the library
  std::string unavailable_reason;  // not empty: cannot run here
};

// One table of kernels. Not thread-safe while it is filled.
class Registry {
 public:
  // A duplicate (op, provider, backend) is an error of the program: aborts.
  void Add(KernelEntry entry);
  const KernelEntry* Find(std::string_view op, std::string_view provider,
                          std::string_view backend) const;
  std::span<const KernelEntry> entries() const { return entries_; }

 private:
  std::vector<KernelEntry> entries_;
};

inline constexpr std::string_view kPlantedPrefix = "planted/";

// Every kernel of the CPU, a line each; a GPU backend adds its own (kernels/backends).
void RegisterAll(Registry& registry);

}  // namespace assay

#endif  // ASSAY_KERNELS_PROVIDERS_PROVIDER_H_
