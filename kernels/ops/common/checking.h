// Checks of a case that several operators share (Op::CheckData).
#ifndef ASSAY_KERNELS_OPS_COMMON_CHECKING_H_
#define ASSAY_KERNELS_OPS_COMMON_CHECKING_H_

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "kernels/ops/case.h"

namespace assay::inline kernels {

// int8 products are at most 2^14; their sum must fit the 31 bits of an int32.
inline constexpr std::int64_t kMaxInt8Terms =
    (std::int64_t{1} << 31) / (std::int64_t{128} * 128) - 1;

// Appends an error to `field` if int32 cannot hold a sum of so many terms, or if no error
// bound exists for it.
void CheckTerms(const Case& c, std::string_view field, std::int64_t terms,
                std::vector<FieldError>& errors);

// Appends an error to `field` if the product of the factors is beyond fp32 or among its
// subnormal numbers. A kernel may multiply the factors before they meet the data, and then
// uses another factor than the one that was asked for.
void CheckFactor(const Case& c, std::string_view field, std::initializer_list<double> factors,
                 std::vector<FieldError>& errors);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_COMMON_CHECKING_H_
