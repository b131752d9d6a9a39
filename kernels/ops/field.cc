#include "kernels/ops/field.h"

#include "kernels/text/cat.h"

namespace assay::inline kernels {

void CheckRange(std::string_view field, std::int64_t value, std::int64_t low, std::int64_t high,
                std::vector<FieldError>& errors) {
  if (value < low) {
    errors.push_back({std::string(field), Cat("must be at least ", low, ", got ", value)});
  } else if (value > high) {
    errors.push_back({std::string(field), Cat("must be at most ", high, ", got ", value)});
  }
}

void CheckCount(std::string_view field, std::string_view operand,
                std::initializer_list<std::int64_t> extents, std::vector<FieldError>& errors) {
  std::int64_t count = 1;
  for (std::int64_t extent : extents) {
    if (extent < 1) return;  // named on its own
    count = SaturatingMul(count, extent);
  }
  if (count > kMaxElements) {
    errors.push_back(
        {std::string(field), Cat("makes ", operand, " larger than ", kMaxElements, " elements")});
  }
}

}  // namespace assay::kernels
