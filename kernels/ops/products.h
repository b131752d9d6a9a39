// Holds the products whose sum is an output element, for sampled elements of one output.
//
// Element i of the sample is
//   factor·Σ_k left[k]·right[k] + (terms that hold no product of the two operands)
// `left` and `right` are rows and columns of the operator's first two inputs: the values after they
// were rounded to their format, and before any arithmetic. Elements share vectors, and each vector
// is held once. Plain values; see Op::Products.
#ifndef ASSAY_KERNELS_OPS_PRODUCTS_H_
#define ASSAY_KERNELS_OPS_PRODUCTS_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "kernels/numerics/dtype.h"

namespace assay::inline kernels {

struct SampledProducts {
  // The vectors of one operand.
  struct Side {
    std::string_view name;       // of the operand: "a"
    std::vector<double> values;  // [vectors, terms]

    const double* vector(std::int64_t number, std::int64_t length) const {
      return values.data() + number * length;
    }
  };
  struct Element {
    std::int64_t left = 0;   // number of its vector
    std::int64_t right = 0;  // the same
    double factor = 1;       // scales, as the kernel gets them
  };

  DType format = DType::kUnspecified;  // of both operands
  std::int64_t terms = 0;              // K
  // An output at or below it says nothing of its sum: 0 of max(0, x), and 6 of GELU, which is
  // linear beyond.
  double told_above = -std::numeric_limits<double>::infinity();
  Side left, right;
  std::vector<Element> elements;  // in the order of the indices that were asked for

  std::int64_t count() const { return static_cast<std::int64_t>(elements.size()); }
  std::int64_t vectors(const Side& side) const {
    return terms == 0 ? 0 : static_cast<std::int64_t>(side.values.size()) / terms;
  }
  const double* left_of(std::int64_t i) const {
    return left.vector(elements[static_cast<std::size_t>(i)].left, terms);
  }
  const double* right_of(std::int64_t i) const {
    return right.vector(elements[static_cast<std::size_t>(i)].right, terms);
  }
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_PRODUCTS_H_
