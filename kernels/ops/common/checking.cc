#include "kernels/ops/common/checking.h"

#include <algorithm>
#include <cmath>

#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

// Where k·u reaches 1/2 the proven bound of an fp32 sum is as large as its terms.
constexpr std::int64_t kMaxTerms = std::int64_t{1} << 23;

}  // namespace

void CheckTerms(const Case& c, std::string_view field, std::int64_t terms,
                std::vector<FieldError>& errors) {
  const std::int64_t most = c.dtype == DType::kI8 ? kMaxInt8Terms : kMaxTerms;
  if (c.dtype != DType::kF64 && terms > most) {
    errors.push_back(
        {std::string(field),
         Cat("makes sums of ", terms, " terms; ",
             c.dtype == DType::kI8 ? "int32 holds at most " : "an error bound exists up to ",
             most)});
  }
}

void CheckFactor(const Case& c, std::string_view field, std::initializer_list<double> factors,
                 std::vector<FieldError>& errors) {
  if (c.dtype == DType::kF64 || (!errors.empty() && errors.back().field == field)) return;
  double product = 1.0;
  for (double f : factors) product *= static_cast<double>(static_cast<float>(f));
  const FormatInfo& f = Info(DType::kF32);
  if (product == 0.0 && std::find(factors.begin(), factors.end(), 0.0) != factors.end()) return;
  if (std::abs(product) >= f.min_normal && std::abs(product) <= f.max_finite) return;
  errors.push_back({std::string(field), Cat("makes a factor of ", product,
                                            " with the other scales, which fp32 cannot hold")});
}

}  // namespace assay::kernels
