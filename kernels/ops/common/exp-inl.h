// exp for vectors of doubles, as the fast references of softmax and attention
// take it. Included once for each target of foreach_target, after highway.h.
#if defined(ASSAY_KERNELS_OPS_COMMON_EXP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ASSAY_KERNELS_OPS_COMMON_EXP_INL_H_
#undef ASSAY_KERNELS_OPS_COMMON_EXP_INL_H_
#else
#define ASSAY_KERNELS_OPS_COMMON_EXP_INL_H_
#endif

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace assay::inline kernels {
namespace HWY_NAMESPACE {

// exp(x) for x <= 0: 1 ulp by Highway's measurements, and the references' tests
// hold it to 1e-12. NaN for NaN, 0 for -inf.
template <class D>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<D> ExpOf(D d, hwy::HWY_NAMESPACE::Vec<D> x) {
  namespace hn = hwy::HWY_NAMESPACE;
  // Highway's gives 0 for NaN.
  return hn::IfThenElse(hn::Eq(x, x), hn::Exp(d, x), x);
}

}  // namespace HWY_NAMESPACE
}  // namespace assay::kernels
HWY_AFTER_NAMESPACE();

#endif
