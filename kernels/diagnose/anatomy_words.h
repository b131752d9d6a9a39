// An anatomy in words.
#ifndef ASSAY_KERNELS_DIAGNOSE_ANATOMY_WORDS_H_
#define ASSAY_KERNELS_DIAGNOSE_ANATOMY_WORDS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/diagnose/anatomy.h"

namespace assay::inline kernels {

// "all in rows 63, 127, 191 … (period 64)": to be read behind a count of elements.
std::string DescribeErrors(const Anatomy& a);

// One axis: "row 63", "rows 16 to 31", "the last 8 columns", "rows 63, 127 … (period 64)",
// "every row but 63", "37 of 64 rows". Empty where every index is hit.
std::string DescribeAxis(const AxisErrors& axis);

// An axis may have a number for its name. Then its places are indices of it: "index 63 of axis 1",
// "the last 8 indices of axis 1".
inline constexpr std::string_view kNumberedAxes[] = {"axis 0", "axis 1", "axis 2", "axis 3",
                                                     "axis 4", "axis 5", "axis 6", "axis 7"};

// "row", and "index" of a numbered axis.
std::string_view Singular(std::string_view name);
// "rows", "batches", and "indices".
std::string Plural(std::string_view name);
// "", and " of axis 1".
std::string OfAxis(std::string_view name);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_DIAGNOSE_ANATOMY_WORDS_H_
