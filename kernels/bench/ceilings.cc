#include "kernels/bench/ceilings.h"

namespace assay::inline kernels {

std::optional<Ceiling> Ceilings::Compute(DType dtype) {
  const std::optional<Ceiling> vector = Find(CeilingKind::kFma, dtype);
  const std::optional<Ceiling> matrix = Find(CeilingKind::kMatrix, dtype);
  if (!vector || !matrix) return vector ? vector : matrix;
  return vector->per_second < matrix->per_second ? matrix : vector;
}

std::vector<Ceiling> Ceilings::All() {
  std::vector<Ceiling> all;
  const auto add = [&](CeilingKind kind, DType dtype) {
    if (const auto ceiling = Find(kind, dtype)) all.push_back(*ceiling);
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

}  // namespace assay::kernels
