// Describes a row-major gemm with cuBLASLt's column-major objects; cublaslt.h explains the swap of
// operands.
//
// After the first error nothing more is set, and `status` keeps the error. For one thread.
#ifndef ASSAY_KERNELS_PROVIDERS_CUBLASLT_DESCRIPTION_H_
#define ASSAY_KERNELS_PROVIDERS_CUBLASLT_DESCRIPTION_H_

#include <cublasLt.h>

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "kernels/ops/gemm/problem.h"
#include "kernels/ops/plan.h"
#include "kernels/providers/cublaslt/api.h"
#include "kernels/providers/cublaslt/forms.h"

namespace assay::inline kernels::cublaslt {

// A stand-in for a pointer that does not exist yet. The routines that get it only look at its
// alignment.
// NOLINTNEXTLINE(performance-no-int-to-ptr): nothing is read through it
inline const void* const kAligned = reinterpret_cast<const void*>(std::uintptr_t{256});

// The library's objects for one problem.
struct Descriptors {
  explicit Descriptors(const Api& of) : api(of) {}
  ~Descriptors() {
    if (desc != nullptr) (void)api.desc_destroy(desc);
    for (cublasLtMatrixLayout_t layout : {a, b, c, d}) {
      if (layout != nullptr) (void)api.layout_destroy(layout);
    }
    if (preference != nullptr) (void)api.preference_destroy(preference);
  }
  Descriptors(const Descriptors&) = delete;
  Descriptors& operator=(const Descriptors&) = delete;

  // These functions do nothing if `status` is not OK.
  void Make(const Formats& f) {
    Check(api.desc_create(&desc, f.compute, f.scale), "an operation");
    Check(api.preference_create(&preference), "a preference");
  }
  // Describes a row-major matrix. Its columns are the rows of the column-major one.
  void Layout(cublasLtMatrixLayout_t* layout, cudaDataType_t type, const Extents& e) {
    if (!status.ok()) return;
    Check(api.layout_create(layout, type, static_cast<std::uint64_t>(e.cols),
                            static_cast<std::uint64_t>(e.rows), e.ld),
          "a layout");
    if (e.batch == 1 || !status.ok()) return;
    const auto count = static_cast<std::int32_t>(e.batch);
    Check(api.layout_set(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count),
          "batches");
    Check(api.layout_set(*layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &e.batch_stride,
                         sizeof e.batch_stride),
          "the stride of batches");
  }
  template <class T>
  void Set(cublasLtMatmulDescAttributes_t attribute, const T& value, std::string_view what) {
    if (status.ok()) Check(api.desc_set(desc, attribute, &value, sizeof value), what);
  }
  template <class T>
  void Prefer(cublasLtMatmulPreferenceAttributes_t attribute, const T& value) {
    if (status.ok()) {
      Check(api.preference_set(preference, attribute, &value, sizeof value), "a preference");
    }
  }
  void Check(cublasStatus_t code, std::string_view what) {
    if (status.ok()) status = StatusOf(code, what);
  }

  const Api& api;
  absl::Status status;
  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr, d = nullptr;  // the library's A, B…
  cublasLtMatmulPreference_t preference = nullptr;
};

// Sets the operation and the layouts. The pointers of bias and scales are set later, when they are
// known.
void Describe(const GemmProblem& p, const Plan& plan, const Formats& f, Descriptors& d);

// Tells the heuristic what it may use: this much workspace [bytes], and no sums in the output's
// format.
void Prefer(std::uint64_t workspace, Descriptors& d);

}  // namespace assay::kernels::cublaslt

#endif  // ASSAY_KERNELS_PROVIDERS_CUBLASLT_DESCRIPTION_H_
