// Declares the few functions of rocBLAS that gemm needs, after its reference documentation (rocBLAS
// 4, "Level-3 extension functions"; the numbers are those of BLAS and of its rocblas_datatype). The
// library's own headers come only with ROCm. The library is opened when it is first needed. The
// environment variable ASSAY_ROCBLAS names another file.
//
// Any thread may call these functions, but only one thread may use the handle.
#ifndef ASSAY_KERNELS_PROVIDERS_ROCBLAS_API_H_
#define ASSAY_KERNELS_PROVIDERS_ROCBLAS_API_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace assay::inline kernels::rocblas {

// Enumerations of a C interface are ints. These are the values that matter here.
using Handle = void*;
enum class Status : int {
  kSuccess = 0,
  kNotImplemented = 2,
  kInvalidSize = 4,
  kMemoryError = 5,
  kPerfDegraded = 7,  // it ran, with less memory than it wanted
  kInvalidValue = 11,
};
enum class Operation : int { kNone = 111, kTranspose = 112 };
enum class DataType : int {
  kF16 = 150,
  kF32 = 151,
  kF64 = 152,
  kI8 = 160,
  kI32 = 162,
  kBF16 = 168,
};
enum class Algorithm : int { kStandard = 0 };
enum class Atomics : int { kNotAllowed = 0 };

extern "C" {
using CreateHandle = Status(Handle* handle);
using SetStream = Status(Handle handle, void* stream);
using SetAtomicsMode = Status(Handle handle, Atomics mode);
using SetWorkspace = Status(Handle handle, void* data, std::size_t bytes);
using GetVersion = Status(char* text, std::size_t bytes);
using StatusToString = const char*(Status status);
// D = alpha·op(A)·op(B) + beta·C, column-major. alpha and beta are in host memory and have the
// compute type.
using GemmEx = Status(Handle handle, Operation op_a, Operation op_b, std::int32_t m, std::int32_t n,
                      std::int32_t k, const void* alpha, const void* a, DataType a_type,
                      std::int32_t lda, const void* b, DataType b_type, std::int32_t ldb,
                      const void* beta, const void* c, DataType c_type, std::int32_t ldc, void* d,
                      DataType d_type, std::int32_t ldd, DataType compute_type, Algorithm algorithm,
                      std::int32_t solution_index, std::uint32_t flags);
using GemmStridedBatchedEx = Status(
    Handle handle, Operation op_a, Operation op_b, std::int32_t m, std::int32_t n, std::int32_t k,
    const void* alpha, const void* a, DataType a_type, std::int32_t lda, std::int64_t stride_a,
    const void* b, DataType b_type, std::int32_t ldb, std::int64_t stride_b, const void* beta,
    const void* c, DataType c_type, std::int32_t ldc, std::int64_t stride_c, void* d,
    DataType d_type, std::int32_t ldd, std::int64_t stride_d, std::int32_t batch_count,
    DataType compute_type, Algorithm algorithm, std::int32_t solution_index, std::uint32_t flags);
}

struct Api {
  CreateHandle* create_handle = nullptr;
  SetStream* set_stream = nullptr;
  SetAtomicsMode* set_atomics_mode = nullptr;
  SetWorkspace* set_workspace = nullptr;
  GetVersion* get_version = nullptr;
  StatusToString* status_to_string = nullptr;
  GemmEx* gemm_ex = nullptr;
  GemmStridedBatchedEx* gemm_strided_batched_ex = nullptr;
  std::string version;  // "4.4.0.…"
};

// Loads the library at the first call; later calls return the same answer. UNAVAILABLE with the
// loader's reason.
const absl::StatusOr<const Api*>& Load();

// The library's handle for the device that the process uses, with atomics off. The first call makes
// it.
absl::StatusOr<Handle> SharedHandle();

// Sets the memory that the handle works in. Does nothing if it is already set.
absl::Status UseWorkspace(Handle handle, void* data, std::size_t bytes);

// Translates a status of the library. UNIMPLEMENTED if the library has no such kernel,
// RESOURCE_EXHAUSTED if it has no memory, INTERNAL for anything else.
absl::Status StatusOf(Status status, std::string_view what);

}  // namespace assay::kernels::rocblas

#endif  // ASSAY_KERNELS_PROVIDERS_ROCBLAS_API_H_
