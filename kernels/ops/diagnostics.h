// Diagnostics: the knowledge of an operator about wrong results of its kernels.
//
// kernels/diagnose/diagnose.h asks it. Every function has a default, so that an operator
// with nothing to say about a thing says nothing. An operator says something only if the
// figures bear it out: a wrong cause costs the reader more than none.
//
// Stateless; any thread.
#ifndef ASSAY_KERNELS_OPS_DIAGNOSTICS_H_
#define ASSAY_KERNELS_OPS_DIAGNOSTICS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/ops/operand_stats.h"
#include "kernels/ops/plan.h"
#include "kernels/ops/suspect.h"
#include "kernels/runtime/compare.h"

namespace assay::inline kernels {

// Which indices of one axis of the output have a wrong element.
struct AxisErrors {
  enum class Kind : std::uint8_t {
    kAll,       // every index
    kSingle,    // `first` alone
    kRange,     // first to last, nearly all of them
    kPeriodic,  // `run` indices in each `period`, from `first`
    kAllBut,    // every index but the few of `missing`
    kSome,      // none of these
  };

  std::string_view name;  // "row"
  std::int64_t extent = 0;
  std::int64_t hit = 0;  // indices with a wrong element
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::int64_t period = 0;
  std::int64_t run = 0;
  std::vector<std::int64_t> missing;
  Kind kind = Kind::kAll;

  bool selective() const { return kind != Kind::kAll; }
  bool at_the_end() const { return kind == Kind::kRange && first > 0 && last == extent - 1; }
};

// What a result reads as, and what to do next.
struct Reading {
  std::string reads_as;
  std::string next_step;
  std::string_view rule = {};  // the rule's name; empty: the name in the caller's table
};

// What was seen of an output in which something is wrong. All of it outlives the call.
struct Signs {
  const Case& c;
  const Plan& plan;
  const CompareResult& compare;
  std::span<const OperandStats> inputs;  // in the plan's order; empty if not measured
  std::optional<double> max_abs_score;   // as the reference set it
  std::span<const AxisErrors> axes;      // outermost first; empty if no element is wrong
  // NaN or infinities came of finite inputs.
  bool made_by_kernel = false;
};

class Diagnostics {
 public:
  virtual ~Diagnostics() = default;

  // The cause of NaN or infinities that were not expected. The reading names its rule.
  virtual std::optional<Reading> NonFinite(const Signs&) const { return std::nullopt; }
  // Whether nothing on the way to a right result can overflow, or become 0 and be divided
  // by. If so, NaN and infinities came from outside the operands.
  virtual bool StaysFinite(const Signs&) const { return false; }
  // Where to look if a kernel reads outside its operands; empty: nowhere in particular.
  virtual std::string_view OutsideLoads() const { return ""; }

  // What the place of the errors tells. The reading names its rule.
  virtual std::optional<Reading> Place(const Signs&) const { return std::nullopt; }
  // Where to look if errors lie along the edges of tiles of that axis; empty: as usual.
  virtual std::string_view TileEdges(const Case&, std::string_view /*axis*/) const { return ""; }

  // Numbers of the case by which a whole result may be off: {"alpha", 0.5}.
  virtual std::vector<std::pair<std::string, double>> Factors(const Case&) const { return {}; }
  // What a factor of its own for each row tells: the part of the sentence behind
  // "each row is its own factor off (0.9 to 1.1)".
  virtual Reading RowFactor(const Case&) const {
    return {": a scale of rows is wrong", "look at what is loaded once a row"};
  }
  // Whether small elements that come out as 0 are exponentials that underflow.
  virtual bool Exponentials() const { return false; }

  // What it tells that the probe of that name failed. `first` is its first wrong element,
  // or nullptr.
  virtual std::optional<Reading> FailedProbe(std::string_view /*name*/,
                                             const ElementSample* /*first*/) const {
    return std::nullopt;
  }

  // The operator's suspects, the most specific first.
  virtual std::vector<Suspect> Suspects(const Scene&) const { return {}; }
  // About how many elements of the inputs the reference reads for so many outputs.
  virtual std::int64_t ReadFor(const Case&, const Plan& plan, std::int64_t elements) const {
    return 2 * plan.accumulations * elements;
  }
};

// The object of each operator that has one; its definition is in ops/<op>/<op>_diagnostics.cc.
const Diagnostics& GemmDiagnostics();
const Diagnostics& ConvDiagnostics();
const Diagnostics& AttentionDiagnostics();
const Diagnostics& SoftmaxDiagnostics();
const Diagnostics& LayerNormDiagnostics();
const Diagnostics& DequantSoftmaxDiagnostics();
const Diagnostics& ReduceDiagnostics();
const Diagnostics& ElementwiseDiagnostics();
const Diagnostics& RopeDiagnostics();

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_DIAGNOSTICS_H_
