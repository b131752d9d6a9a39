// One element of an elementwise operator and its allowance, on host and device; the formulas are in
// elementwise_reference.h. std-only.
#ifndef ASSAY_KERNELS_OPS_ELEMENTWISE_ELEMENTWISE_BOUND_H_
#define ASSAY_KERNELS_OPS_ELEMENTWISE_ELEMENTWISE_BOUND_H_

#include <cmath>

#include "kernels/numerics/host_device.h"
#include "kernels/ops/common/activation.h"
#include "kernels/ops/common/arithmetic.h"
#include "kernels/ops/elementwise/elementwise_kind.h"

namespace assay::inline kernels {

// What all elements of a problem share.
struct ElementwiseTerms {
  ElementwiseKind kind = ElementwiseKind::kAdd;
  double u = 0;             // roundoff of the accumulator, twice it for fp64
  double tiny = 0;          // the smallest normal number of the accumulator
  double lost = 0;          // what one operation may lose to underflow
  double flushed_sum = 0;   // what an addition may lose: 0, or `tiny` if the kernel flushes
  double intermediate = 0;  // u_i
};

struct ElementwiseElement {
  double value;
  double allowance;
};

// b is not read where the kind has none.
ASSAY_HOST_DEVICE inline double ElementwiseValue(ElementwiseKind kind, double a, double b) {
  switch (kind) {
    case ElementwiseKind::kAdd:
      return a + b;
    case ElementwiseKind::kSiluMul:
      return a / (1.0 + std::exp(-a)) * b;
    case ElementwiseKind::kGelu:
      return Activate(Activation::kGelu, a);
    case ElementwiseKind::kGeluTanh:
      return Activate(Activation::kGeluTanh, a);
  }
  return a;
}

ASSAY_HOST_DEVICE inline ElementwiseElement MakeElementwiseElement(const ElementwiseTerms& t,
                                                                   double a, double b) {
  const double r = ElementwiseValue(t.kind, a, b);
  if (!std::isfinite(r) || !std::isfinite(a)) return {r, 0.0};
  const double size = std::abs(a), result = std::abs(r);
  switch (t.kind) {
    case ElementwiseKind::kAdd:
      return {r, t.flushed_sum};
    case ElementwiseKind::kSiluMul: {
      if (!std::isfinite(b)) return {r, 0.0};
      const double product = std::abs(a * b);
      // What an error of the exponential's argument does to the quotient. It has no effect where
      // exp(-a) is far below 1.
      const double share = 1 / (1 + std::exp(a));
      // A product beyond fp64 makes it infinite: no term is infinity times 0.
      return {r, (4 * t.u * size * share + 12 * t.u) * result +
                     product * (8 * t.u + 2 * t.tiny + t.intermediate) +
                     (std::abs(b) + 1) * t.lost};
    }
    case ElementwiseKind::kGelu:
    case ElementwiseKind::kGeluTanh:
      break;
  }
  return {r, 16 * t.u * size + 4 * t.u * result + 2 * t.lost + size * t.intermediate};
}

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_ELEMENTWISE_ELEMENTWISE_BOUND_H_
