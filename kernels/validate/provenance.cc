#include "kernels/validate/provenance.h"

#include <algorithm>
#include <cmath>
#include <string_view>

namespace assay {
namespace {

struct Kinds {
  bool nan = false;
  bool inf = false;
};

// Reads inputs in pieces until both kinds are found or all is read.
Kinds KindsInInputs(const Plan& plan, const HostInputs& inputs) {
  constexpr std::int64_t kPiece = 4096;
  std::vector<double> piece(kPiece);
  Kinds kinds;
  for (std::size_t operand = 0; operand < plan.inputs.size(); ++operand) {
    const std::int64_t count = plan.inputs[operand].extents.count();
    for (std::int64_t begin = 0; begin < count && !(kinds.nan && kinds.inf); begin += kPiece) {
      const std::int64_t n = std::min(kPiece, count - begin);
      inputs.Read(static_cast<int>(operand), begin, n, piece.data());
      for (std::int64_t i = 0; i < n; ++i) {
        kinds.nan |= std::isnan(piece[static_cast<std::size_t>(i)]);
        kinds.inf |= std::isinf(piece[static_cast<std::size_t>(i)]);
      }
    }
  }
  return kinds;
}

}  // namespace

std::vector<Provenance> TraceNonFinite(const Plan& plan, const HostInputs& inputs,
                                       const CompareResult& compare, std::int64_t unwritten) {
  std::vector<Provenance> found;
  const auto add = [&](std::string_view kind, std::string_view origin, bool expected,
                       std::int64_t count, std::int64_t first) {
    if (count > 0) found.push_back(Provenance{kind, origin, expected, count, first});
  };
  const std::int64_t poisoned = std::min(unwritten, compare.unwritten);
  add("nan", "unwritten", false, poisoned, compare.first_unwritten);
  const std::int64_t nan = compare.nan_count - poisoned;
  if (nan == 0 && compare.inf_count == 0) return found;

  const Kinds kinds = KindsInInputs(plan, inputs);
  const std::string_view nan_origin = kinds.nan ? "input" : "kernel";
  const std::string_view inf_origin = kinds.inf ? "input" : "kernel";
  const std::int64_t expected_nan = nan - compare.unexpected_nan;
  const std::int64_t expected_inf = compare.inf_count - compare.unexpected_inf;
  add("nan", nan_origin, true, expected_nan, compare.first_nan);
  add("nan", nan_origin, false, compare.unexpected_nan, compare.first_unexpected_nan);
  add("inf", inf_origin, true, expected_inf, compare.first_inf);
  add("inf", inf_origin, false, compare.unexpected_inf, compare.first_unexpected_inf);
  return found;
}

}  // namespace assay
