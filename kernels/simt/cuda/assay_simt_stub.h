// Makes a kernel of Assay's interface (assay/kernel.h) from a CUDA kernel and its launch
// description. The daemon writes a source that includes this file, then the author's, and ends with
// a description.
#ifndef ASSAY_SIMT_STUB_H_
#define ASSAY_SIMT_STUB_H_

#include <assay_simt_program.h>
#include <cuda_runtime.h>

#include <limits>
#include <type_traits>
#include <utility>

namespace assay::inline kernels::simt {

template <class T>
constexpr unsigned DTypeOf() {
  using Plain = std::remove_cv_t<T>;
  if (std::is_same_v<Plain, double>) return ASSAY_F64;
  if (std::is_same_v<Plain, float>) return ASSAY_F32;
  if (std::is_same_v<Plain, __half>) return ASSAY_F16;
  if (std::is_same_v<Plain, __nv_bfloat16>) return ASSAY_BF16;
  if (std::is_same_v<Plain, signed char>) return ASSAY_I8;
  if (std::is_same_v<Plain, int>) return ASSAY_I32;
  return 0;
}

template <class T>
constexpr Parameter ParameterOf() {
  using Plain = std::remove_cv_t<T>;
  constexpr bool kReal = std::is_floating_point_v<Plain> || std::is_same_v<Plain, __half> ||
                         std::is_same_v<Plain, __nv_bfloat16>;
  static_assert(std::is_pointer_v<Plain> || std::is_integral_v<Plain> || kReal,
                "the emulator passes pointers, whole numbers and real numbers to a kernel");
  if constexpr (std::is_pointer_v<Plain>) {
    return {ParameterKind::kPointer, DTypeOf<std::remove_pointer_t<Plain>>()};
  } else if constexpr (kReal) {
    return {ParameterKind::kReal, 0};
  } else {
    return {ParameterKind::kInteger, 0, std::numeric_limits<Plain>::digits,
            std::is_signed_v<Plain>};
  }
}

template <class T>
ASSAY_SIMT_UNCHECKED T ArgumentOf(const Value& value) {
  if constexpr (std::is_pointer_v<T>) {
    return static_cast<T>(value.pointer);
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(value.integer);
  } else {
    return T(static_cast<std::conditional_t<std::is_floating_point_v<T>, T, float>>(value.real));
  }
}

template <auto kKernel, class Type>
struct Calls;

template <auto kKernel, class... Arguments>
struct Calls<kKernel, void (*)(Arguments...)> {
  static constexpr unsigned kCount = sizeof...(Arguments);
  static constexpr Parameter kParameters[kCount + 1] = {ParameterOf<Arguments>()...,
                                                        Parameter{ParameterKind::kPointer, 0}};

  ASSAY_SIMT_UNCHECKED static void Call(const Value* values) {
    CallWith(values, std::make_index_sequence<kCount>());
  }

 private:
  template <std::size_t... kIndices>
  ASSAY_SIMT_UNCHECKED static void CallWith([[maybe_unused]] const Value* values,
                                            std::index_sequence<kIndices...>) {
    auto kernel = kKernel;
    asm("" : "+r"(kernel));  // not inlined here, where nothing is followed
    kernel(ArgumentOf<std::remove_cv_t<Arguments>>(values[kIndices])...);
  }
};

}  // namespace assay::kernels::simt

// The author's code is followed, whatever it asks of the compiler.
#undef ASSAY_SIMT_UNCHECKED
#pragma GCC poison no_sanitize no_sanitize_thread no_sanitize_undefined
#pragma GCC poison __no_sanitize__ __no_sanitize_thread__ __no_sanitize_undefined__

#endif  // ASSAY_SIMT_STUB_H_
