// The reference of layer and RMS norm on a GPU; the formulas are in
// layer_norm_reference.h. Held to LayerNormReferenceAt by tests.
#ifndef ASSAY_KERNELS_OPS_LAYER_NORM_LAYER_NORM_REFERENCE_GPU_H_
#define ASSAY_KERNELS_OPS_LAYER_NORM_LAYER_NORM_REFERENCE_GPU_H_

#include <cstdint>

#include "kernels/numerics/dtype.h"
#include "kernels/ops/common/row_fit.h"
#include "kernels/ops/layer_norm/layer_norm_bound.h"
#include "kernels/ops/layer_norm/layer_norm_deviation.h"
#include "kernels/runtime/gpu/handles.h"

namespace assay::inline kernels::gpu {

// Pointers are in device memory.
struct LayerNormReference {
  const void* x = nullptr;
  DType input = DType::kUnspecified;
  const void* weight = nullptr;  // [cols] or nullptr
  const void* bias = nullptr;    // [cols] or nullptr
  DType columns = DType::kF32;   // of weight and bias
  std::int64_t rows = 0, cols = 0;
  std::int64_t x_ld = 0;  // [elements]
  LayerNormTerms terms;
  double* value = nullptr;      // [rows, cols]
  double* allowance = nullptr;  // the same
  LayerNormDeviation model;
  RowDeviations deviations;  // of the first row; no deviation: nobody asks for them
};

// Enqueues one launch.
ErrorCode LaunchLayerNormReference(const LayerNormReference& reference, Stream stream);

}  // namespace assay::kernels::gpu

#endif  // ASSAY_KERNELS_OPS_LAYER_NORM_LAYER_NORM_REFERENCE_GPU_H_
