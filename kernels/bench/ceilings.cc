#include "kernels/bench/ceilings.h"

#include <algorithm>

namespace assay {

std::optional<double> Ceilings::FlopsPerSecond(DType dtype) {
  const std::optional<double> vector = PerSecond(CeilingKind::kFma, dtype);
  const std::optional<double> matrix = PerSecond(CeilingKind::kMatrix, dtype);
  if (!vector || !matrix) return vector ? vector : matrix;
  return std::max(*vector, *matrix);
}

std::vector<Ceiling> Ceilings::All() {
  std::vector<Ceiling> all;
  const auto add = [&](CeilingKind kind, DType dtype) {
    if (const auto value = PerSecond(kind, dtype)) all.push_back({kind, dtype, *value});
  };
  for (const CeilingKind kind : {CeilingKind::kCopy, CeilingKind::kTriad, CeilingKind::kRead}) {
    add(kind, DType::kUnspecified);
  }
  for (int d = 1; d < kDTypeCount; ++d) {
    add(CeilingKind::kFma, static_cast<DType>(d));
    add(CeilingKind::kMatrix, static_cast<DType>(d));
  }
  return all;
}

}  // namespace assay
