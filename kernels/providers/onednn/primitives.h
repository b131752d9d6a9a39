// Shared code of the oneDNN kernels: the engine, registry entries, names of formats, errors, and a
// cache of compiled primitives.
//
// oneDNN reports errors as exceptions; none leaves this folder. Any thread may call Compile; only
// the device's thread may call the rest.
#ifndef ASSAY_KERNELS_PROVIDERS_ONEDNN_PRIMITIVES_H_
#define ASSAY_KERNELS_PROVIDERS_ONEDNN_PRIMITIVES_H_

#include <bit>
#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/providers/provider.h"
#include "kernels/runtime/tensor.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels::onednn {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;

const dnnl::engine& CpuEngine();
dnnl::stream& CpuStream();

// "2.6.3".
const std::string& Version();

// The registry's entry of a kernel.
KernelEntry Entry(std::string_view op, std::vector<DType> dtypes, KernelFactory make);

// The library's type of a format. UNIMPLEMENTED if it has none.
absl::StatusOr<dnnl::memory::data_type> TypeOf(DType format);

// Whether products of int8 are summed exactly. Without VNNI the library halves weights or saturates
// 16-bit partial sums.
bool HasExactInt8();

// Whether products of a format use instructions that take subnormal numbers as 0, whatever the
// control register says: VDPBF16PS and TDPBF16PS (Intel's Software Developer's Manual, vol. 2,
// describes both as denormals-are-zeros and flush-to-zero). Seen on Zen 4: a bf16 gemm of 64 terms
// of about 1e-40 gives 0 everywhere, while the same gemm in fp32 is exact to a subnormal or two.
bool FlushesSubnormals(DType input);

// Translates an error to UNIMPLEMENTED, RESOURCE_EXHAUSTED or INTERNAL. `what` is the purpose of
// the primitive: "fp16 matmul to fp16".
absl::Status StatusOf(const dnnl::error& error, std::string_view what);

// A primitive that was made for one problem.
struct Compiled {
  dnnl::primitive primitive;
  std::string implementation;  // impl_info_str()
  Desc scratchpad;
  std::vector<Desc> layouts;  // the layouts that the primitive chose, if it was asked to
};

// A number in a key, with all its bits.
inline std::uint64_t Bits(double v) { return std::bit_cast<std::uint64_t>(v); }

// Makes scratchpads come from the arena and not from the library's own allocations.
dnnl::primitive_attr UserScratchpad();

template <class Primitive>
Compiled Finish(const typename Primitive::primitive_desc& pd) {
  return Compiled{Primitive(pd), pd.impl_info_str(), pd.scratchpad_desc(), {}};
}

// Returns the primitive of `key`. If it is not in the cache, `make` makes it. The cache holds the
// 256 that were used last. `key` must contain everything that `make` depends on.
std::shared_ptr<const Compiled> Compile(const std::string& key, absl::FunctionRef<Compiled()> make);

// A primitive and its bound arguments.
class Step {
 public:
  explicit Step(std::shared_ptr<const Compiled> compiled) : compiled_(std::move(compiled)) {}

  // Declares argument `arg` (DNNL_ARG_…) with layout `desc`. Its data are set later.
  void Bind(int arg, const Desc& desc);
  void Bind(int arg, const Desc& desc, void* data);
  void Set(int arg, void* data);
  // The bytes of scratchpad, and its place.
  std::int64_t scratchpad_bytes() const;
  void SetScratchpad(void* data);
  // Runs the primitive and waits until it is done. May throw dnnl::error.
  void Run();

  const Compiled& compiled() const { return *compiled_; }

 private:
  std::shared_ptr<const Compiled> compiled_;
  std::unordered_map<int, dnnl::memory> args_;
};

// Gives all steps the same scratchpad, which comes from the arena.
absl::Status AllocateScratchpad(Device& device, const std::vector<Step*>& steps);

// Calls body(), which returns a Status or StatusOr, and turns exceptions into statuses.
template <class F>
auto Guarded(std::string_view what, F body) -> decltype(body()) {
  try {
    return body();
  } catch (const dnnl::error& e) {
    return StatusOf(e, what);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(Cat("no memory for a primitive: ", what));
  } catch (const std::exception& e) {
    return absl::InternalError(Cat("oneDNN, ", what, ": ", e.what()));
  }
}

}  // namespace assay::kernels::onednn

#endif  // ASSAY_KERNELS_PROVIDERS_ONEDNN_PRIMITIVES_H_
