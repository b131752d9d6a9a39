#include "kernels/ops/rope/problem.h"

#include <limits>

#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

// Kernels hold positions in int32.
constexpr std::int64_t kMostPositions = std::numeric_limits<std::int32_t>::max();
// θ as fp32 numbers hold it, and large enough that frequencies do not grow.
constexpr double kMostTheta = 0x1p100;

constexpr Field<RopeProblem> kFields[] = {
    {"batch", &RopeProblem::batch},
    {"seq", &RopeProblem::seq},
    {"heads", &RopeProblem::heads},
    {"dim", &RopeProblem::dim},
    {"interleaved", &RopeProblem::interleaved},
    {"start", &RopeProblem::start},
    {"theta", &RopeProblem::theta},
};

}  // namespace

std::span<const Field<RopeProblem>> RopeProblem::Fields() { return kFields; }

std::vector<FieldError> RopeProblem::Check() const {
  std::vector<FieldError> errors;
  CheckRange("batch", batch, 1, kMaxExtent, errors);
  CheckRange("seq", seq, 1, kMostPositions, errors);
  CheckRange("heads", heads, 1, kMaxExtent, errors);
  CheckRange("dim", dim, 2, kMaxExtent, errors);
  if (dim > 0 && dim % 2 != 0) errors.push_back({"dim", Cat("must be even, got ", dim)});
  if (errors.empty()) {
    CheckRange("start", start, 0, kMostPositions - seq, errors);
    CheckCount("seq", "x", {batch, seq, heads, dim}, errors);
  }
  if (!(theta >= 1.0 && theta <= kMostTheta)) {
    errors.push_back({"theta", Cat("must be from 1 to ", kMostTheta, ", got ", theta)});
  }
  return errors;
}

std::string RopeProblem::Describe() const {
  std::string text = Cat(batch, "x", seq, "x", heads, "x", dim);
  if (interleaved) Append(&text, " interleaved");
  if (start != 0) Append(&text, " start ", start);
  if (theta != 10000.0) Append(&text, " theta ", theta);
  return text;
}

}  // namespace assay::kernels
