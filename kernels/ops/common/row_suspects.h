// Suspects of operators that compute each row from the row of the same number in the input.
#ifndef ASSAY_KERNELS_OPS_COMMON_ROW_SUSPECTS_H_
#define ASSAY_KERNELS_OPS_COMMON_ROW_SUSPECTS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/ops/suspect.h"

namespace assay::inline kernels {

// What a faulty kernel makes of a row at one of its columns.
using Simulate = std::function<double(const std::vector<double>& row, std::size_t at)>;

// The input row of an output element.
std::vector<double> InputRow(const Scene& scene, std::int64_t index);

// The suspect that every element is what `simulate` gives, rounded to the output's format.
Suspect Simulated(const Scene& scene, Simulate simulate, std::string reads_as,
                  std::string next_step);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_COMMON_ROW_SUSPECTS_H_
