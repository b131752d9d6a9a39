// A stand-in for libcublasLt, on host memory: it holds what it is told, answers the
// heuristic with algorithms of which the first few must not be taken, and computes the
// product from its descriptors alone. It refuses what the library's documentation says it
// has not.
#include "fake_cublaslt.h"

#include <cublasLt.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>

#include "fake_column_major.h"
#include "kernels/ops/common/activation.h"

namespace {

using assay::Activation;
using assay::DType;
using assay::fake::CublasltSeen;
using assay::fake::Matrix;

CublasltSeen seen;

constexpr std::size_t kWorkspace = 1 << 20;
// Answers of the heuristic, in order: not runnable, sums in fp16, splits k into parts in the
// output's format, and one to take.
constexpr std::uint64_t kRefused = 1, kFp16Sums = 2, kRoundedParts = 3, kGood = 66;

struct Desc {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  std::map<int, std::int64_t> numbers;
  std::map<int, const void*> pointers;
  std::int64_t Number(int attribute, std::int64_t fallback = 0) const {
    const auto it = numbers.find(attribute);
    return it == numbers.end() ? fallback : it->second;
  }
  const void* Pointer(int attribute) const {
    const auto it = pointers.find(attribute);
    return it == pointers.end() ? nullptr : it->second;
  }
};
struct Layout {
  cudaDataType_t type;
  std::int64_t rows, cols, ld, batch = 1, stride = 0;
};
struct Preference {
  std::uint64_t workspace = 0;
  std::uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_MASK;
};

template <class To, class From>
To* As(From* opaque) {
  return reinterpret_cast<To*>(opaque);
}

DType FormatOf(cudaDataType_t t) {
  switch (t) {
    case CUDA_R_64F:
      return DType::kF64;
    case CUDA_R_32F:
      return DType::kF32;
    case CUDA_R_16F:
      return DType::kF16;
    case CUDA_R_16BF:
      return DType::kBF16;
    case CUDA_R_8F_E4M3:
      return DType::kE4M3FN;
    case CUDA_R_8I:
      return DType::kI8;
    case CUDA_R_32I:
      return DType::kI32;
    default:
      return DType::kUnspecified;
  }
}

bool Has(const Desc& d, const Layout& a, const Layout& b, const Layout& c, const Layout& out) {
  if (a.type != b.type || c.rows != out.rows || c.cols != out.cols) return false;
  if (out.type != CUDA_R_8F_E4M3 && c.type != out.type) return false;
  const bool tn = d.Number(CUBLASLT_MATMUL_DESC_TRANSA) == CUBLAS_OP_T &&
                  d.Number(CUBLASLT_MATMUL_DESC_TRANSB) == CUBLAS_OP_N;
  const auto epilogue = d.Number(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_DEFAULT);
  if ((epilogue & CUBLASLT_EPILOGUE_BIAS) != 0 &&
      d.Pointer(CUBLASLT_MATMUL_DESC_BIAS_POINTER) == nullptr) {
    return false;
  }
  switch (a.type) {
    case CUDA_R_64F:
      return d.compute == CUBLAS_COMPUTE_64F && d.scale == CUDA_R_64F && out.type == CUDA_R_64F;
    case CUDA_R_8I:
      if (!tn || a.rows % 4 != 0 || out.rows % 4 != 0 || a.ld % 4 != 0 || b.ld % 4 != 0) {
        return false;
      }
      if (epilogue != CUBLASLT_EPILOGUE_DEFAULT) return false;
      return d.compute == CUBLAS_COMPUTE_32I
                 ? d.scale == CUDA_R_32I && out.type == CUDA_R_32I
                 : d.compute == CUBLAS_COMPUTE_32F && out.type == CUDA_R_32F;
    case CUDA_R_8F_E4M3:
      for (const std::int64_t e : {a.rows, out.rows, out.cols, a.ld, b.ld, out.ld}) {
        if (e % 16 != 0) return false;
      }
      return tn && d.compute == CUBLAS_COMPUTE_32F && c.type != CUDA_R_8F_E4M3;
    case CUDA_R_32F:
      return (d.compute == CUBLAS_COMPUTE_32F || d.compute == CUBLAS_COMPUTE_32F_FAST_TF32) &&
             out.type == CUDA_R_32F;
    case CUDA_R_16F:
    case CUDA_R_16BF:
      // No vector of scales, so that there is one more thing to refuse.
      if (d.Number(CUBLASLT_MATMUL_DESC_POINTER_MODE) != CUBLASLT_POINTER_MODE_HOST) return false;
      return d.compute == CUBLAS_COMPUTE_32F && (out.type == CUDA_R_32F || out.type == a.type);
    default:
      return false;
  }
}

double ScalarOf(cudaDataType_t type, const void* p, std::int64_t i) {
  if (type == CUDA_R_64F) return static_cast<const double*>(p)[i];
  if (type == CUDA_R_32I) return static_cast<const std::int32_t*>(p)[i];
  return static_cast<double>(static_cast<const float*>(p)[i]);
}

double ScaleOf(const Desc& d, cublasLtMatmulDescAttributes_t pointer,
               cublasLtMatmulDescAttributes_t mode, std::int64_t i) {
  const auto* scale = static_cast<const float*>(d.Pointer(pointer));
  if (scale == nullptr) return 1.0;
  const bool vector = d.Number(mode) == CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
  return static_cast<double>(scale[vector ? i : 0]);
}

Matrix MatrixOf(const Layout& l, const void* data) {
  return {const_cast<void*>(data), FormatOf(l.type), l.rows, l.cols, l.ld, l.stride};
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) const CublasltSeen* fake_cublaslt_seen() { return &seen; }

size_t cublasLtGetVersion() { return 130002; }
const char* cublasLtGetStatusName(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED   ? "CUBLAS_STATUS_NOT_SUPPORTED"
         : status == CUBLAS_STATUS_INVALID_VALUE ? "CUBLAS_STATUS_INVALID_VALUE"
                                                 : "CUBLAS_STATUS_INTERNAL_ERROR";
}
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  ++seen.handles;
  *handle = reinterpret_cast<cublasLtHandle_t>(&seen);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  ++seen.live_objects;
  *desc = As<cublasLtMatmulDescOpaque_t>(new Desc{compute, scale, {}, {}});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  --seen.live_objects;
  delete As<Desc>(desc);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
  Desc& d = *As<Desc>(desc);
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
    case CUBLASLT_MATMUL_DESC_A_SCALE_POINTER:
    case CUBLASLT_MATMUL_DESC_B_SCALE_POINTER:
      if (bytes != sizeof(void*)) return CUBLAS_STATUS_INVALID_VALUE;
      std::memcpy(&d.pointers[attribute], value, bytes);
      return CUBLAS_STATUS_SUCCESS;
    case CUBLASLT_MATMUL_DESC_FAST_ACCUM:
      if (bytes != 1) return CUBLAS_STATUS_INVALID_VALUE;
      d.numbers[attribute] = *static_cast<const std::int8_t*>(value);
      return CUBLAS_STATUS_SUCCESS;
    case CUBLASLT_MATMUL_DESC_TRANSA:
    case CUBLASLT_MATMUL_DESC_TRANSB:
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
    case CUBLASLT_MATMUL_DESC_POINTER_MODE:
    case CUBLASLT_MATMUL_DESC_A_SCALE_MODE:
    case CUBLASLT_MATMUL_DESC_B_SCALE_MODE:
      if (bytes != 4) return CUBLAS_STATUS_INVALID_VALUE;
      d.numbers[attribute] = *static_cast<const std::int32_t*>(value);
      return CUBLAS_STATUS_SUCCESS;
    default:
      return CUBLAS_STATUS_INVALID_VALUE;
  }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          std::uint64_t rows, std::uint64_t cols, std::int64_t ld) {
  if (ld < static_cast<std::int64_t>(rows)) return CUBLAS_STATUS_INVALID_VALUE;
  ++seen.live_objects;
  *layout = As<cublasLtMatrixLayoutOpaque_t>(
      new Layout{type, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(cols), ld});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  --seen.live_objects;
  delete As<Layout>(layout);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* value, size_t bytes) {
  Layout& l = *As<Layout>(layout);
  if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT && bytes == 4) {
    l.batch = *static_cast<const std::int32_t*>(value);
  } else if (attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET && bytes == 8) {
    l.stride = *static_cast<const std::int64_t*>(value);
  } else {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  ++seen.live_objects;
  *preference = As<cublasLtMatmulPreferenceOpaque_t>(new Preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  --seen.live_objects;
  delete As<Preference>(preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t bytes) {
  Preference& p = *As<Preference>(preference);
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES && bytes == 8) {
    p.workspace = *static_cast<const std::uint64_t*>(value);
  } else if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK && bytes == 4) {
    p.schemes = *static_cast<const std::uint32_t*>(value);
  } else {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* found) {
  const Preference& p = *As<Preference>(preference);
  seen.reduction_schemes = p.schemes;
  seen.workspace_limit = p.workspace;
  *found = 0;
  if (!Has(*As<Desc>(desc), *As<Layout>(a), *As<Layout>(b), *As<Layout>(c), *As<Layout>(d))) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  for (const std::uint64_t id : {kRefused, kFp16Sums, kRoundedParts, kGood}) {
    if (*found == requested || p.workspace < kWorkspace) break;
    cublasLtMatmulHeuristicResult_t& r = results[(*found)++];
    r = {};
    r.algo.data[0] = id;
    const auto compute = As<Desc>(desc)->compute;
    r.algo.data[1] = compute == CUBLAS_COMPUTE_32F_FAST_TF32 ? 1 : 0;
    r.workspaceSize = kWorkspace;
    r.state = id == kRefused ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
  }
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    void* value, size_t bytes, size_t* written) {
  const std::uint64_t id = algo->data[0];
  std::uint32_t number = 0;
  switch (attribute) {
    case CUBLASLT_ALGO_CONFIG_ID:
      number = static_cast<std::uint32_t>(id);
      break;
    case CUBLASLT_ALGO_CONFIG_TILE_ID:
      number = 20;
      break;
    case CUBLASLT_ALGO_CONFIG_STAGES_ID:
      number = 35;
      break;
    case CUBLASLT_ALGO_CONFIG_SPLITK_NUM:
      number = 3;
      break;
    case CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME:
      number = id == kRoundedParts ? CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE
                                   : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
      break;
    default:
      return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (bytes != 4) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(value, &number, bytes);
  *written = bytes;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoCapGetAttribute(const cublasLtMatmulAlgo_t* algo,
                                                 cublasLtMatmulAlgoCapAttributes_t attribute,
                                                 void* value, size_t bytes, size_t* written) {
  if (attribute != CUBLASLT_ALGO_CAP_NUMERICAL_IMPL_FLAGS || bytes != 8) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  // cuBLASLt 13.1 says of some TF32 algorithms what it says of plain ones.
  const std::uint64_t flags =
      (algo->data[1] != 0 ? CUBLASLT_NUMERICAL_IMPL_FLAGS_FMA
                          : CUBLASLT_NUMERICAL_IMPL_FLAGS_HMMA) |
      (algo->data[0] == kFp16Sums ? CUBLASLT_NUMERICAL_IMPL_FLAGS_ACCUMULATOR_16F
                                  : CUBLASLT_NUMERICAL_IMPL_FLAGS_ACCUMULATOR_32F);
  std::memcpy(value, &flags, bytes);
  *written = bytes;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void* alpha,
                              const void* a_data, cublasLtMatrixLayout_t a_layout,
                              const void* b_data, cublasLtMatrixLayout_t b_layout, const void* beta,
                              const void* c_data, cublasLtMatrixLayout_t c_layout, void* d_data,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algo,
                              void* workspace, size_t workspace_bytes, cudaStream_t stream) {
  const Desc& d = *As<Desc>(desc);
  const Layout &la = *As<Layout>(a_layout), &lb = *As<Layout>(b_layout),
               &lc = *As<Layout>(c_layout), &ld = *As<Layout>(d_layout);
  if (!Has(d, la, lb, lc, ld) || algo->data[0] != kGood || workspace == nullptr ||
      workspace_bytes < kWorkspace) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  std::memset(workspace, 0x5a, kWorkspace);
  ++seen.launches;
  seen.compute_type = d.compute;
  seen.scale_type = d.scale;
  seen.fast_accum = static_cast<int>(d.Number(CUBLASLT_MATMUL_DESC_FAST_ACCUM, -1));
  seen.pointer_mode = static_cast<int>(d.Number(CUBLASLT_MATMUL_DESC_POINTER_MODE));
  seen.scales_behind_pointers = d.Pointer(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER) != nullptr &&
                                d.Pointer(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER) != nullptr;
  seen.stream = stream;

  const Matrix a = MatrixOf(la, a_data), b = MatrixOf(lb, b_data), c = MatrixOf(lc, c_data),
               out = MatrixOf(ld, d_data);
  const bool trans_a = d.Number(CUBLASLT_MATMUL_DESC_TRANSA) == CUBLAS_OP_T;
  const bool trans_b = d.Number(CUBLASLT_MATMUL_DESC_TRANSB) == CUBLAS_OP_T;
  const std::int64_t k = trans_a ? a.rows : a.cols;
  if ((trans_a ? a.cols : a.rows) != out.rows || (trans_b ? b.rows : b.cols) != out.cols ||
      (trans_b ? b.cols : b.rows) != k || la.batch != ld.batch || lb.batch != ld.batch) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const auto epilogue = d.Number(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_DEFAULT);
  const Activation activation = (epilogue & CUBLASLT_EPILOGUE_RELU) != 0   ? Activation::kRelu
                                : (epilogue & CUBLASLT_EPILOGUE_GELU) != 0 ? Activation::kGeluTanh
                                                                           : Activation::kNone;
  const bool vector_alpha = seen.pointer_mode != CUBLASLT_POINTER_MODE_HOST;
  const double beta_value = seen.pointer_mode == CUBLASLT_POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_ZERO
                                ? 0.0
                                : ScalarOf(d.scale, beta, 0);
  for (std::int64_t batch = 0; batch < ld.batch; ++batch) {
    for (std::int64_t col = 0; col < out.cols; ++col) {
      for (std::int64_t row = 0; row < out.rows; ++row) {
        double x = Dot(a, trans_a, b, trans_b, batch, row, col) *
                   ScalarOf(d.scale, alpha, vector_alpha ? row : 0) *
                   ScaleOf(d, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER,
                           CUBLASLT_MATMUL_DESC_A_SCALE_MODE, row) *
                   ScaleOf(d, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER,
                           CUBLASLT_MATMUL_DESC_B_SCALE_MODE, col);
        if (beta_value != 0.0) x += beta_value * c.Get(batch, row, col);
        if ((epilogue & CUBLASLT_EPILOGUE_BIAS) != 0) {
          x += ScalarOf(ld.type, d.Pointer(CUBLASLT_MATMUL_DESC_BIAS_POINTER), row);
        }
        out.Set(batch, row, col, Activate(activation, x));
      }
    }
  }
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
