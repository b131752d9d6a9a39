// The plan of a case: its operands, its work, and what its error bounds are made of.
//
// An operator makes the plan from a checked case (Op::MakePlan). Plain values.
#ifndef ASSAY_KERNELS_OPS_PLAN_H_
#define ASSAY_KERNELS_OPS_PLAN_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "kernels/numerics/bound.h"
#include "kernels/numerics/dtype.h"
#include "kernels/numerics/pattern.h"
#include "kernels/runtime/tensor.h"

namespace assay::inline kernels {

struct Operand {
  std::string_view name;  // "a", "q", "weight"; may lie in the case's problem
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
  bool work_known = true;           // false: a launch may do more or less, so it has no roof
  std::int64_t accumulations = 1;   // length of the longest sum behind an element
  double accumulator_roundoff = 0;  // u_a: 2^-24, 2^-53 for fp64, 0 for integers
  // What sums are held in: of u_a, or as the kernel under test declares
  // (Kernel::accumulator); see Op::HoldTo.
  Accumulator accumulator = {};
  // Unit roundoff of a format narrower than the accumulator's that the kernel under
  // test declares it holds intermediates in (Kernel::intermediate_roundoff); 0: none.
  double intermediate_roundoff = 0;
  // The smallest number of a format that a case declares (Case::intermediate_dtype); 0: none.
  // Results near 0 are rounded to multiples of it.
  double intermediate_step = 0;
  // Relative error that the kernel under test declares in 1 times an element
  // (Kernel::operand_roundoff); 0: none.
  double operand_roundoff = 0;
  // The kernel under test declares that it takes subnormal intermediate results for 0
  // (Kernel::flushes_subnormals): each operation may lose a smallest normal number.
  bool flushes_subnormals = false;
  double proven_factor = 1;  // κ: proven allowance over the probabilistic one, >= 1
  // h: roundings that E counts for the sum over a row of a softmax or a norm; 0 for operators that
  // have none. See ops/common/row_depth.h.
  double sum_depth = 0;
  bool exact = false;             // no allowance at all: integers, copies
  bool elementwise = false;       // one output a "row" element: max_ulp means something
  bool zero_mean_random = false;  // the probabilistic bound gates
  // Sums so long (kVacuousFactor), or angles so large, that the bound is nearly as large as what it
  // bounds: being within it proves nothing.
  bool vacuous = false;
  bool indices = false;  // elements are indices: 0 says as much as any other number
  // No product or sum inside a right kernel is larger, and no input; 0: not known. If it
  // is above the accumulator's range, a right kernel may overflow on its way to a result
  // that is finite.
  double largest_intermediate = 0;
  // An element with a smaller allowance E has no product or sum beyond the accumulator's
  // range, whatever the inputs hold elsewhere; 0 where E does not tell.
  double overflow_allowance = 0;
};

// Inputs on the host, regenerated from seed and pattern by code that shares
// nothing with the device's fill but the specification.
class HostInputs {
 public:
  virtual ~HostInputs() = default;
  // Quantised values of `count` elements of input `operand`, logical order from `begin`.
  virtual void Read(int operand, std::int64_t begin, std::int64_t count, double* out) const = 0;
  // The element of the output that is judged, where it is known; see Op::SeveralRight.
  virtual std::optional<double> Output(std::int64_t /*index*/) const { return std::nullopt; }
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_PLAN_H_
