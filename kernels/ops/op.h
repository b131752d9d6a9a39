// An operator, and everything that is known of it: what a case may ask for, the plan of a
// case, the right output, and how to prove or explain a result.
//
// There is one stateless object an operator; any thread may use it. The functions without
// a default are what every operator must supply. A new operator overrides the others only
// if it has something to say. Ops never include one another, and kernels/validate,
// kernels/bench and kernels/suites name none.
#ifndef ASSAY_KERNELS_OPS_OP_H_
#define ASSAY_KERNELS_OPS_OP_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/ops/case.h"
#include "kernels/ops/operand_stats.h"
#include "kernels/ops/plan.h"
#include "kernels/ops/products.h"

namespace assay::inline kernels {

class Device;
class Diagnostics;

// Reference value and error allowance of every output element, logical order.
struct ReferenceBuffers {
  double* value = nullptr;      // r, [output.count()]
  double* allowance = nullptr;  // E, [output.count()]; untouched where plan.exact
  double max_abs_score = 0;     // attention: largest |score|, set by the reference
  // The output that is judged, in the plan's extents; see Op::SeveralRight. Without data: none.
  TensorView output = {};
  // What ResidualModel says that the reference fills. nullptr: nobody asks for it. A value of 0
  // or NaN says that the model does not hold for the element or the row.
  float* deviation = nullptr;   // σ, [output.count()]
  float* direction = nullptr;   // D, [output.count()]
  float* row_offset = nullptr;  // σ_α, [batch·rows of the output's extents]
  float* row_gain = nullptr;    // σ_β, the same
};

// What an operator knows of the errors of right kernels beyond the bound of each element: how far
// rounding usually moves an element (the deviation σ). kernels/runtime/residuals.h says how errors
// are held against it.
struct ResidualModel {
  bool known = false;  // the reference fills `deviation`; otherwise nothing below means anything
  bool rows = false;   // it fills `row_offset` and `row_gain`, too
  bool direction = false;                // it fills `direction`, too
  double direction_floor = 0;            // a right kernel may have so much of it
  std::string_view direction_name = "";  // the factor whose error the direction shows
  // Whether a verdict may follow: the data are drawn at random and in full precision, so that the
  // model holds for every usual order of the sums.
  bool gates = false;
  double roundoff = 0;     // u of the arithmetic that σ is made of
  double largest_rms = 2;  // no right kernel's R is larger, in a group of many elements
  double largest_z = 30;   // no right kernel's |e|/σ is larger
  double gain_floor = 0;   // g0: a right kernel may have so much of a common relative error
  // And so much more, divided by the root of the number of rows: elements of a row share errors.
  double gain_of_row = 0;
  double largest_rest =
      2;  // with rows: the limit of R after each row's offset and gain are removed
};

// The kernel under test once more, on data of its own whose result says more than an
// error bound does. Its seed is fixed: it has one right output for each problem and
// format, whatever the case's data.
struct KernelProbe {
  std::string_view name;  // "exact-sparse"
  Case data;              // the same provider and formats
  // How far from the result, relative to it, a right kernel may be before it rounds to the output.
  // 0: if data.exact, not at all, or too little to show, and else as far as the bound allows.
  double deviation = 0;
  // Not empty: logical elements of the output that must be those of the case's own
  // output, within both bounds; there is no other judgement then.
  std::vector<std::int64_t> same_elements = {};
  std::string skipped = {};  // not empty: why the case has no such probe
  // A right kernel may refuse such data, or raise an error about them. Its case still rests on all
  // other probes.
  bool may_refuse = false;
};

// A relation that the output of a right kernel keeps, checked on the case's own output.
struct Identity {
  std::string_view name;   // "row-sums"
  bool bitwise = false;    // no bound is in it
  std::int64_t count = 0;  // relations checked
  std::int64_t broken = 0;
  // Of the first that is broken. If nothing was checked: why.
  std::string message = {};
};

// The relative error of operands that are split into narrower parts, in units of u.
inline constexpr double kSplitRoundoff = 4;

// Whether the kernel declares a transform.
inline bool Transforms(const Plan& plan) {
  return plan.operand_roundoff > kSplitRoundoff * plan.accumulator_roundoff;
}

// A transform that divides may leave so much of the largest result where 0 is right, if it computes
// in double: Winograd's F(6x6, 3x3) leaves 2^-45. A format of 32 bits or fewer rounds it off
// beside any other result. No mistake is so small: it moves a whole number by 1.
inline constexpr double kOfDouble = 0x1p-40;

// What holds for every case of an operator.
struct OpTraits {
  // An output element is a sum of products: exact in FP64 if the inputs are whole numbers.
  bool sums_of_products = false;
  // Most of a right output may be 0, as it is of a softmax.
  bool sparse_output = false;
  // A kernel reads its data more than once unless it keeps a row: see kSlowPassesEfficiency.
  bool several_passes = false;
  // The largest Kernel::operand_roundoff, in units of the accumulator's u: 2^-22 in fp32. Above
  // kSplitRoundoff it is a transform's, whose errors are relative to its neighbours, too. 0: its
  // kernels have none to declare.
  double most_operand_roundoff = 0;
  // E has room for Kernel::intermediate_roundoff.
  bool intermediates = false;
  // Random checksums can verify the output (kernels/checksum/checksum.h).
  bool checksums = false;
  // What is right only the caller knows: a kernel of the caller's is the reference, and only
  // kernels of users compute the operator (kernels/ops/own_reference.h).
  bool own_reference = false;
  // A transform of the operands divides, as Winograd's and Fourier's do, so that it rounds whole
  // numbers as well. Strassen's adds and subtracts.
  bool transforms_divide = false;
};

class Op {
 public:
  virtual ~Op() = default;
  virtual std::string_view name() const = 0;
  virtual OpTraits traits() const { return {}; }

  // Formats of the inputs that the operator takes; empty: any.
  virtual std::span<const DType> InputFormats() const;
  // Formats of the output that it gives for inputs of c.dtype, which InputFormats holds.
  virtual std::vector<DType> OutputFormats(const Case& c) const;
  // What an error about the output's format adds; empty: nothing.
  virtual std::string_view OutputFormatHint(const Case&) const { return ""; }
  // The output's format if the case names none.
  virtual DType DefaultOutput(const Case& c) const { return assay::DefaultOutput(c.dtype); }
  // Inputs that --pattern fills.
  virtual int DataOperands(const Problem&) const { return 1; }
  // Appends what is wrong with the shape for these formats and data. The shape alone holds.
  virtual void CheckData(const Case&, std::vector<FieldError>&) const {}
  // Appends what is wrong with the patterns; the shape and the patterns may be wrong, too.
  virtual void CheckPatterns(const Case&, std::vector<FieldError>&) const {}

  // The problem as a kernel gets it: no field is 0 or empty because its value follows from others.
  virtual Problem Resolved(const Case& c) const { return c.problem; }

  // Sets what the problem says of its operands' formats from those of tensors that were sent, in
  // the plan's order; there may be fewer or more than the problem has.
  virtual void TakeFormats(std::span<const DType> /*inputs*/, Case&) const {}

  // Names of the output's axes, outermost first: "batch", "head", "row", "column".
  virtual std::vector<std::string_view> OutputAxes(const Case& c, const Plan& plan) const;

  // The plan of a case for which Check found nothing. The problem alternative is
  // this op's. INVALID_ARGUMENT where pattern and operands do not fit.
  virtual absl::StatusOr<Plan> MakePlan(const Case& c) const = 0;

  // Sets the plan's accumulator and the factors that follow from it. Nothing for operators
  // that sum no products.
  virtual void HoldTo(const Case&, const Accumulator&, Plan&) const {}

  // FP64 reference on the device from the same quantised inputs.
  // inputs in plan order. UNIMPLEMENTED where this backend has none.
  // If the device has references of its own (device_references.h), they compute it.
  absl::Status Reference(const Case& c, const Plan& plan, Device& device,
                         std::span<const TensorView> inputs, ReferenceBuffers& out) const;
  // The same if inputs and buffers are in this process's memory.
  virtual absl::Status ReferenceHere(const Case& c, const Plan& plan,
                                     std::span<const TensorView> inputs,
                                     ReferenceBuffers& out) const = 0;

  // Whether the reference can judge this output, whose classes are not the reference's everywhere.
  // A reference that is wrong itself is an error that says so.
  virtual absl::Status CheckReference(const Case&, const Plan&, Device&,
                                      const TensorView& /*output*/, const ReferenceBuffers&) const {
    return absl::OkStatus();
  }
  // What the bound of this case rests on, to end a sentence about elements beyond it: "; …". Empty
  // if the bound is proven.
  virtual std::string BoundRestsOn(const Case&) const { return ""; }
  // Why it proves little that all elements are within their bounds. Empty: it proves enough.
  virtual std::string ProvesLittle(const Case&, const Plan&) const { return ""; }

  // Numbers that a user's kernel gets as parameters beside the fields of the problem.
  virtual std::vector<std::pair<std::string, double>> Scalars(const Case&) const { return {}; }

  // What is known of the errors of right kernels of a case: see ResidualModel.
  virtual ResidualModel Residuals(const Case&, const Plan&) const { return {}; }

  // Whether an element may have several right values, as an argmax of equal elements has. The
  // reference of an element is then the output's own value, if it is one of them, and else any
  // of them. Reference takes the output from its buffers, ReferenceAt from HostInputs::Output.
  virtual bool SeveralRight(const Case&) const { return false; }

  // Logical output indices, sorted, to recompute on the host: at least `at_least`
  // (all, where there are fewer), placed so that regenerating their inputs is cheap. By default
  // spread in runs of 16, which suits outputs whose elements share no inputs.
  virtual std::vector<std::int64_t> Samples(const Case& c, const Plan& plan, std::uint64_t seed,
                                            std::int64_t at_least) const;

  // The plain-loop reference at some indices: r and E of each.
  virtual void ReferenceAt(const Case& c, const Plan& plan, const HostInputs& inputs,
                           std::span<const std::int64_t> indices, double* value,
                           double* allowance) const = 0;

  // The products behind the output elements at some indices, in their order; see SampledProducts.
  // Nothing if the operator sums no products of two operands, or if more than a factor, an addend
  // and an activation that is linear for large numbers follows the sum.
  virtual std::optional<SampledProducts> Products(const Case&, const Plan&, const HostInputs&,
                                                  std::span<const std::int64_t> /*indices*/) const {
    return std::nullopt;
  }

  // What inputs that hold infinities or NaN leave undecided, of which no reference can
  // tell the right result; empty: nothing. `stats` are in the plan's order.
  virtual std::string Undecided(const Case&, std::span<const OperandStats> /*stats*/) const {
    return "";
  }
  // Whether a sum that overflowed inside may leave a finite element: a norm that divides by
  // an infinite deviation, a rectified -Inf. A plain sum of products stays infinite or NaN.
  virtual bool OverflowMayVanish(const Case&) const { return true; }
  // Whether squares of a right kernel may underflow, with little beside them: then results may be
  // far off, and their allowance is infinite.
  virtual bool SquaresMayVanish(const Case&) const { return false; }

  // The probes of a case that has run; none where its own data say all.
  virtual std::vector<KernelProbe> Probes(const Case&, const Plan&) const { return {}; }

  // The relations of a judged output to its inputs, given the reference that judged it.
  // UNIMPLEMENTED where this backend cannot look. A device with references of its own looks itself.
  absl::StatusOr<std::vector<Identity>> CheckIdentities(const Case& c, const Plan& plan,
                                                        Device& device,
                                                        std::span<const TensorView> inputs,
                                                        const TensorView& output,
                                                        const ReferenceBuffers& reference) const;
  // The same if all of them are in this process's memory.
  virtual absl::StatusOr<std::vector<Identity>> CheckIdentitiesHere(
      const Case&, const Plan&, std::span<const TensorView> /*inputs*/,
      const TensorView& /*output*/, const ReferenceBuffers&) const {
    return std::vector<Identity>();
  }

  // What it knows of wrong results.
  virtual const Diagnostics& diagnostics() const;
};

// The op of a name, or nullptr. All of them, in the order of Problem's alternatives and of
// the proto's oneof.
const Op* FindOp(std::string_view name);
std::span<const Op* const> AllOps();
const Op& OpOf(const Problem& problem);
inline const Op& OpOf(const Case& c) { return OpOf(c.problem); }

// Each op's object; its definition is in ops/<op>/.
const Op& GemmOp();
const Op& ConvOp();
const Op& AttentionOp();
const Op& SoftmaxOp();
const Op& LayerNormOp();
const Op& CopyOp();
const Op& DequantSoftmaxOp();
const Op& ReduceOp();
const Op& ElementwiseOp();
const Op& RopeOp();
const Op& CustomOp();

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_OP_H_
