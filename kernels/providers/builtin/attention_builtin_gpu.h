// Launches the built-in attention for GPUs; attention_builtin.cu has the kernels and their error.
#ifndef ASSAY_KERNELS_PROVIDERS_BUILTIN_ATTENTION_BUILTIN_GPU_H_
#define ASSAY_KERNELS_PROVIDERS_BUILTIN_ATTENTION_BUILTIN_GPU_H_

#include <cstdint>

#include "kernels/numerics/dtype.h"
#include "kernels/runtime/gpu/handles.h"

namespace assay::inline kernels::gpu {

inline constexpr std::int64_t kMaxAttentionDim = 256;

// A problem: o = value_scale·softmax(scale·q·kᵀ + mask)·v. Device memory, row-major, dense.
struct AttentionJob {
  const void* q = nullptr;            // [heads, seq, dim]
  const void* k = nullptr;            // [heads / group, kv_seq, dim]
  const void* v = nullptr;            // [heads / group, kv_seq, dim]
  const std::int8_t* mask = nullptr;  // [seq, kv_seq], 1 keeps a key; null: all keys
  void* o = nullptr;                  // [heads, seq, dim]
  DType in = DType::kUnspecified;     // fp64, fp32, tf32, fp16, bf16 or an 8-bit float
  DType out = DType::kUnspecified;    // fp64 for fp64, otherwise fp32, fp16 or bf16
  std::int64_t heads = 0;             // batch · heads
  std::int64_t group = 1;             // heads that share one head of k and v
  std::int64_t seq = 0;
  std::int64_t kv_seq = 0;
  std::int64_t dim = 0;          // 1 to kMaxAttentionDim
  bool causal = false;           // query i sees keys j <= i + kv_seq − seq
  bool masked_rows_nan = false;  // the output of a query without a visible key: NaN, or 0
  double scale = 1.0;
  double value_scale = 1.0;
  std::int64_t shared_bytes = 99 << 10;  // the most that a block of the device may have
};

// The least shared memory that the blocks of a job need [bytes].
std::int64_t LeastAttentionSharedBytes(const AttentionJob& job);

// Enqueues one launch.
ErrorCode LaunchAttention(const AttentionJob& job, Stream stream);

}  // namespace assay::kernels::gpu

#endif  // ASSAY_KERNELS_PROVIDERS_BUILTIN_ATTENTION_BUILTIN_GPU_H_
