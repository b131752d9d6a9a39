// Helpers for writing the tables of planted defects: formats that rows share, and a Row type to
// which the unusual fields are added.
#ifndef ASSAY_KERNELS_PROVIDERS_PLANTED_ROW_H_
#define ASSAY_KERNELS_PROVIDERS_PLANTED_ROW_H_

#include <string_view>
#include <vector>

#include "kernels/providers/planted/planted.h"

namespace assay::inline kernels::planted {

using Rows = std::vector<PlantedDefect>;
using Types = std::vector<DType>;

inline const Types kAll = {DType::kF64,    DType::kF32,  DType::kF16, DType::kBF16,
                           DType::kE4M3FN, DType::kE5M2, DType::kI8};
inline const Types kFloats = {DType::kF64,  DType::kF32,    DType::kF16,
                              DType::kBF16, DType::kE4M3FN, DType::kE5M2};
inline const Types kAllFloats = {DType::kF64,    DType::kF32,      DType::kF16,  DType::kBF16,
                                 DType::kE4M3FN, DType::kE4M3FNUZ, DType::kE5M2, DType::kE5M2FNUZ};
inline const Types kNarrow = {DType::kF32, DType::kF16, DType::kBF16};
inline const Types k16Bit = {DType::kF16, DType::kBF16};
inline const Types kWide = {DType::kF64, DType::kF32};
inline const Types kF32Only = {DType::kF32};

// A row of a table. The functions change single fields from their usual values.
struct Row : PlantedDefect {
  Row(std::string_view op_in, std::string_view name_in, const Types& dtypes_in,
      std::string_view check_in, const Problem& problem_in, std::string_view magnitude_in) {
    op = op_in;
    name = name_in;
    dtypes = dtypes_in;
    check = check_in;
    problem = problem_in;
    magnitude = magnitude_in;
  }
  Row& OnData(std::string_view text) {
    pattern = text;
    return *this;
  }
  Row& Launches(int n) {
    repeats = n;
    return *this;
  }
  Row& Output(DType format) {
    out_dtype = format;
    return *this;
  }
  Row& Rate(double rate) {
    required_rate = rate;
    return *this;
  }
  Row& Rate(DType format, double rate) {
    rates.emplace_back(format, rate);
    return *this;
  }
  Row& EndsProcess() {
    ends_process = true;
    return *this;
  }
  Row& Slow() {
    slow = true;
    return *this;
  }
};

}  // namespace assay::kernels::planted

#endif  // ASSAY_KERNELS_PROVIDERS_PLANTED_ROW_H_
