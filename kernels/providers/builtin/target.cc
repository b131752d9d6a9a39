// The SIMD target that the built-in CPU kernels run on. Their sources are compiled for the same
// targets as this one, so that all choose the same.
#include <string>

#include "kernels/providers/builtin/common.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/providers/builtin/target.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace assay::inline kernels {
namespace HWY_NAMESPACE {

const char* NameOfTarget() { return hwy::TargetName(HWY_TARGET); }

}  // namespace HWY_NAMESPACE
}  // namespace assay::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay::inline kernels::internal {

HWY_EXPORT(NameOfTarget);

std::string BuiltinTarget() { return HWY_DYNAMIC_DISPATCH(NameOfTarget)(); }

}  // namespace assay::kernels::internal
#endif  // HWY_ONCE
