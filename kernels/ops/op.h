// An operator: from a checked case it makes the plan (operands, work, bounds),
// and knows what the right output is.
//
// One stateless object an operator, found by name. Ops never include one another.
#ifndef ASSAY_KERNELS_OPS_OP_H_
#define ASSAY_KERNELS_OPS_OP_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "kernels/numerics/bound.h"
#include "kernels/ops/case.h"
#include "kernels/runtime/device.h"
#include "kernels/runtime/tensor.h"

namespace assay {

struct Operand {
  std::string_view name;  // "a", "q", "weight"
  DType dtype = DType::kUnspecified;
  Extents extents;                       // flattened to batch, rows, cols
  std::vector<std::int64_t> dims;        // the op's own axes, outermost first, for coordinates
  Pattern pattern;                       // what an input is filled with
  std::optional<double> magnitude = {};  // its largest, where no pattern made it
};

struct Plan {
  std::vector<Operand> inputs;  // in the kernel's order
  Operand output;
  double flops = 0;                 // useful operations of one launch
  double bytes = 0;                 // each operand moved once [bytes]
  std::int64_t accumulations = 1;   // length of the longest sum behind an element
  double accumulator_roundoff = 0;  // u_a: 2^-24, 2^-53 for fp64, 0 for integers
  // What sums are held in: of u_a, or as the kernel under test declares
  // (Kernel::accumulator); see Op::HoldTo.
  Accumulator accumulator = {};
  // Unit roundoff of a format narrower than the accumulator's that the kernel under
  // test declares it holds intermediates in (Kernel::intermediate_roundoff); 0: none.
  double intermediate_roundoff = 0;
  // The kernel under test declares that it takes subnormal intermediate results for 0
  // (Kernel::flushes_subnormals): each operation may lose a smallest normal number.
  bool flushes_subnormals = false;
  double proven_factor = 1;       // κ: proven allowance over the probabilistic one, >= 1
  bool exact = false;             // no allowance at all: integers, copies
  bool elementwise = false;       // one output a "row" element: max_ulp means something
  bool zero_mean_random = false;  // the probabilistic bound gates
  // Sums so long that the bound every pass is held to is above kVacuousFactor of their
  // terms: being within it proves nothing.
  bool vacuous = false;
  // No product or sum inside a right kernel is larger, nor an input; 0 where that is not
  // known. Above the accumulator's range a right kernel may overflow on its way to a
  // result that is finite.
  double largest_intermediate = 0;
  // An element with a smaller allowance E has no product or sum beyond the accumulator's
  // range, whatever the inputs hold elsewhere; 0 where E does not tell.
  double overflow_allowance = 0;
};

// Reference value and error allowance of every output element, logical order.
struct ReferenceBuffers {
  double* value = nullptr;      // r, [output.count()]
  double* allowance = nullptr;  // E, [output.count()]; untouched where plan.exact
  double max_abs_score = 0;     // attention: largest |score|, set by the reference
};

// Inputs on the host, regenerated from seed and pattern by code that shares
// nothing with the device's fill but the specification.
class HostInputs {
 public:
  virtual ~HostInputs() = default;
  // Quantised values of `count` elements of input `operand`, logical order from `begin`.
  virtual void Read(int operand, std::int64_t begin, std::int64_t count, double* out) const = 0;
};

// The kernel under test once more, on data of its own whose result says more than an
// error bound does. Its seed is fixed: it has one right output for each problem and
// format, whatever the case's data.
struct KernelProbe {
  std::string_view name;  // "exact-sparse"
  Case data;              // the same provider and formats
  // Where data.exact: how far from the exact result, relative to it, a right kernel may be
  // before it rounds to the output; 0: not at all, or too little to show.
  double deviation = 0;
  // Not empty: logical elements of the output that must be those of the case's own
  // output, within both bounds; there is no other judgement then.
  std::vector<std::int64_t> same_elements = {};
  std::string skipped = {};  // not empty: why the case has no such probe
};

// A relation that the output of a right kernel keeps, checked on the case's own output.
struct Identity {
  std::string_view name;   // "row-sums"
  bool bitwise = false;    // no bound is in it
  std::int64_t count = 0;  // relations checked
  std::int64_t broken = 0;
  std::string message = {};  // of the first that is broken
};

class Op {
 public:
  virtual ~Op() = default;
  virtual std::string_view name() const = 0;

  // The plan of a case for which Check found nothing. The problem alternative is
  // this op's. INVALID_ARGUMENT where pattern and operands do not fit.
  virtual absl::StatusOr<Plan> MakePlan(const Case& c) const = 0;

  // Sets the plan's accumulator and the factors that follow from it. Nothing for operators
  // that sum no products.
  virtual void HoldTo(const Case&, const Accumulator&, Plan&) const {}

  // FP64 reference on the device from the same quantised inputs.
  // inputs in plan order. UNIMPLEMENTED where this backend has none.
  virtual absl::Status Reference(const Case& c, const Plan& plan, Device& device,
                                 std::span<const TensorView> inputs,
                                 ReferenceBuffers& out) const = 0;

  // Logical output indices, sorted, to recompute on the host: at least `at_least`
  // (all, where there are fewer), placed so that regenerating their inputs is cheap.
  virtual std::vector<std::int64_t> Samples(const Case& c, const Plan& plan, std::uint64_t seed,
                                            std::int64_t at_least) const = 0;

  // The plain-loop reference at some indices: r and E of each.
  virtual void ReferenceAt(const Case& c, const Plan& plan, const HostInputs& inputs,
                           std::span<const std::int64_t> indices, double* value,
                           double* allowance) const = 0;

  // The probes of a case that has run; none where its own data say all.
  virtual std::vector<KernelProbe> Probes(const Case&, const Plan&) const { return {}; }

  // The relations of a judged output to its inputs, given the reference that judged it.
  // UNIMPLEMENTED where this backend cannot look.
  virtual absl::StatusOr<std::vector<Identity>> CheckIdentities(
      const Case&, const Plan&, Device&, std::span<const TensorView> /*inputs*/,
      const TensorView& /*output*/, const ReferenceBuffers&) const {
    return std::vector<Identity>();
  }
};

// The op of a name, or nullptr. All of them, in the order of the proto's oneof.
const Op* FindOp(std::string_view name);
std::span<const Op* const> AllOps();

// Each op's object; its definition is in ops/<op>/.
const Op& GemmOp();
const Op& ConvOp();
const Op& AttentionOp();
const Op& SoftmaxOp();
const Op& LayerNormOp();
const Op& CopyOp();
const Op& DequantSoftmaxOp();

}  // namespace assay

#endif  // ASSAY_KERNELS_OPS_OP_H_
