"""CUDA kernels for the emulator's tests: right ones, and each with one defect that it must be caught by."""

GEMM = """#include <cuda_runtime.h>

#define TILE 16

__global__ void gemm(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ d,
                     int m, int n, int k, float alpha) {
  __shared__ float ta[TILE][TILE];
  __shared__ float tb[TILE][TILE];
  const int tx = threadIdx.x, ty = threadIdx.y;
  const int row = blockIdx.y * TILE + ty;
  const int col = blockIdx.x * TILE + tx;
  float sum = 0;
  for (int t = 0; t < k; t += TILE) {
    ta[ty][tx] = row < m && t + tx < k ? a[row * k + t + tx] : 0.0f;
    tb[ty][tx] = t + ty < k && col < n ? b[(t + ty) * n + col] : 0.0f;
    __syncthreads();  // loaded
#pragma unroll
    for (int q = 0; q < TILE; ++q) sum += ta[ty][q] * tb[q][tx];
    __syncthreads();  // used
  }
  if (row < m && col < n) d[row * n + col] = alpha * sum;
}
"""

GEMM_LAUNCH = """grid = ["(n + 15) / 16", "ceil_div(m, 16)"]
block = [16, 16]
args = ["a", "b", "d", "m", "n", "k", "alpha"]
"""

# What is wrong, the text that is replaced, its replacement, and what the finding says.
GEMM_DEFECTS = (
    ("no barrier after loading", "    __syncthreads();  // loaded\n", "", "nondeterministic", "race: thread"),
    ("no barrier before loading again", "    __syncthreads();  // used\n", "", "nondeterministic", "race: thread"),
    ("a mask of the output too wide", "if (row < m && col < n) d", "if (row < m && col <= n) d",
     "nondeterministic", "of d"),
    ("no mask of the rows", "if (row < m && col < n) d", "if (col < n) d", "guard", "of d, which has 1760 elements"),
    ("no mask of the inputs", "t + ty < k && col < n ?", "col < n ?", "guard", "reads element"),
    ("an index outside an array", "q < TILE; ++q)", "q <= TILE; ++q)", "guard", "index 16 of an array"),
    ("two barriers for one", "    __syncthreads();  // used\n",
     "    if (ty % 2) __syncthreads();\n    else __syncthreads();\n", "nondeterministic", "divergent barrier"),
)

SOFTMAX = """#include <cuda_fp16.h>

__device__ float warp_max(float v) {
  for (int by = 16; by > 0; by /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffff, v, by));
  return v;
}
__device__ float warp_sum(float v) {
  for (int by = 16; by > 0; by /= 2) v += __shfl_down_sync(0xffffffff, v, by);
  return __shfl_sync(0xffffffff, v, 0);
}

template <class T>
__global__ void softmax(const T* x, T* y, int cols) {
  extern __shared__ float partial[];
  const int row = blockIdx.x, thread = threadIdx.x, warp = thread / warpSize, warps = blockDim.x / warpSize;
  const T* in = x + (size_t)row * cols;
  float most = -INFINITY;
  for (int c = thread; c < cols; c += blockDim.x) most = max(most, float(in[c]));
  most = warp_max(most);
  if (thread % warpSize == 0) partial[warp] = most;
  __syncthreads();
  for (int w = 0; w < warps; ++w) most = max(most, partial[w]);
  __syncthreads();  // read
  float sum = 0;
  for (int c = thread; c < cols; c += blockDim.x) sum += expf(float(in[c]) - most);
  sum = warp_sum(sum);
  if (thread % warpSize == 0) partial[warp] = sum;
  __syncthreads();
  sum = 0;
  for (int w = 0; w < warps; ++w) sum += partial[w];
  for (int c = thread; c < cols; c += blockDim.x) y[(size_t)row * cols + c] = T(expf(float(in[c]) - most) / sum);
}
"""

SOFTMAX_LAUNCH = """grid = "rows"
block = 128
shared = "4 * 128 / 32"
args = ["x", "y", "cols"]
"""

ADD = """__global__ void add(const float* a, const float* b, float* y, long long count) {
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < count; i += (long long)blockDim.x * gridDim.x)
    y[i] = a[i] + b[i];
}
__global__ void not_this_one(float* y) { y[0] = 1; }
"""

ADD_LAUNCH = """grid = "min(ceil_div(rows * cols, 64), 8)"
block = 64
args = ["a", "b", "y", "rows * cols"]
"""

# A sum that blocks share: the last block to come adds up what all have written.
LAST_BLOCK = """__device__ unsigned int arrived;
__device__ float partial[64];

__global__ void sum(const float* x, float* y, int count) {
  __shared__ float of_thread[64];
  __shared__ bool last;
  float part = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += blockDim.x * gridDim.x) part += x[i];
  of_thread[threadIdx.x] = part;
  __syncthreads();
  if (threadIdx.x == 0) {
    float of_block = 0;
    for (int t = 0; t < blockDim.x; ++t) of_block += of_thread[t];
    partial[blockIdx.x] = of_block;
    __threadfence();
    last = atomicInc(&arrived, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last || threadIdx.x != 0) return;
  float all = 0;
  for (int b = 0; b < gridDim.x; ++b) all += partial[b];
  *y = all;
}
"""

LAST_BLOCK_LAUNCH = """grid = 4
block = 64
args = ["x", "y", "extents_0"]
"""

# An addition in many ways. Each kernel is right; with the text replaced it is wrong, or there is none.
HEAD = "#include <cuda_fp16.h>\n#include <algorithm>\n"
OF_THREAD = "  const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;\n"
ADDITIONS = (
    ("vectors", "fp32", """__global__ void add(const float4* a, const float4* b, float4* y, int n) {
""" + OF_THREAD + """  if (i < n / 4) y[i] = make_float4(a[i].x + b[i].x, a[i].y + b[i].y, a[i].z + b[i].z, a[i].w + b[i].w);
}""", "i < n / 4", "i <= n / 4", "guard"),
    ("neighbours in one word", "fp16", """__global__ void add(const half* a, const half* b, half* y, int n) {
  __shared__ half sums[256];
""" + OF_THREAD + """  if (i < n) sums[t] = __hadd(a[i], b[i]);
  __syncthreads();
  const int other = i - t + 255 - t;
  if (other < n) y[other] = sums[255 - t];
}""", "sums[t] = ", "sums[t / 2 * 2] = ", "nondeterministic"),
    ("lanes of a warp", "fp32", """__global__ void add(const float* a, const float* b, float* y, int n) {
  __shared__ float sums[256];
""" + OF_THREAD + """  sums[t] = i < n ? a[i] + b[i] : 0.0f;
  __syncwarp();
  const int other = t ^ 31;
  if (i - t + other < n) y[i - t + other] = sums[other];
}""", "t ^ 31", "t ^ 32", "nondeterministic"),
    ("threads that leave early", "fp32", """__global__ void add(const float* a, const float* b, float* y, int n) {
""" + OF_THREAD + """  if (i >= n) return;
  __shared__ float sums[256];
  sums[t] = a[i] + b[i];
  __syncthreads();
  y[i] = sums[t];
}""", "sums[t];\n}", "sums[t ^ 1 + 256];\n}", "guard"),
    ("votes of the block", "fp32", """__global__ void add(const float* a, const float* b, float* y, int n) {
""" + OF_THREAD + """  const int count = __syncthreads_count(i < n);
  const bool right = count == min(256, n - (i - t)) && __syncthreads_or(t == 9) && !__syncthreads_and(t != 9);
  if (i < n) y[i] = right ? a[i] + b[i] : 0.0f;
}""", "t == 9", "t == 256", "bound"),
    ("tiles of a warp", "fp32", """#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void add(const float* a, const float* b, float* y, int n) {
""" + OF_THREAD + """  const cg::thread_block block = cg::this_thread_block();
  const cg::thread_block_tile<8> tile = cg::tiled_partition<8>(block);
  __shared__ float sums[256];
  sums[block.thread_rank()] = i < n ? a[i] + b[i] : 0.0f;
  tile.sync();
  const int first = tile.meta_group_rank() * tile.size(), last = first + tile.size() - 1;
  const float mine = tile.shfl_xor(sums[last - tile.thread_rank()], 7);
  if (i < n && tile.all(last >= t)) y[i] = mine;
}""", "  tile.sync();\n", "", "nondeterministic"),
    ("copies that the compiler makes", "fp32", """struct Row { float of[64]; };
__global__ void add(const float* a, const float* b, float* y, int n) {
  __shared__ Row x;
  for (int i = blockIdx.x * 64; i < n; i += gridDim.x * 64) {
    if (threadIdx.x == 0) std::copy(a + i, a + min(i + 64, n), x.of);
    __syncthreads();
    if (threadIdx.x < 64 && i + threadIdx.x < n) y[i + threadIdx.x] = x.of[threadIdx.x] + b[i + threadIdx.x];
    __syncthreads();  // read
  }
}""", "    __syncthreads();  // read\n", "", "nondeterministic"),
    ("functions of the device", "fp16", """__device__ half sum(half p, half q) { return __hadd(p, q); }
__global__ void add(const half* a, const half* b, half* y, int n) {
""" + OF_THREAD + """  if (i < n) y[i] = sum(a[i], b[i]);
}""", "sum(a[i]", "sum(a[i + 9]", "guard"),
    ("atomics of each block's own", "fp32", """__global__ void add(const float* a, const float* b, float* y, int n) {
  __shared__ int count;
""" + OF_THREAD + """  if (t == 0) count = 0;
  __syncthreads();
  atomicAdd(&count, 1);
  const int next = i + 256;
  if (i < n) y[i] = a[i] + b[i];
  __threadfence();
  atomicAdd(&count, 1);
}""", "if (i < n) y[i]", "if (next < n) y[next] = a[i];\n  if (i < n) y[i]", "nondeterministic"),
    ("parts of a warp", "fp32", """__global__ void add(const float* a, const float* b, float* y, int n) {
""" + OF_THREAD + """  const int lane = t % 32;
  float v = i < n ? a[i] + b[i] : 0, w = v;
  if (lane >= 16) w += __shfl_xor_sync(0xffff0000u, w, 8);
  w = __shfl_xor_sync(0xffffffffu, w, 16);
  if (i < n) y[i] = w == 1e-30f ? 0 : v;  // which it never is
}""", "0xffff0000u", "0xffffff00u", "nondeterministic"),
    ("a counter that the last block resets", "fp32", """__device__ unsigned int count = 0;
__shared__ bool last;
__global__ void add(const float* a, const float* b, float* y, int n) {
""" + OF_THREAD + """  if (i < n) y[i] = a[i] + b[i];
  if (t == 0) {
    __threadfence();
    last = atomicInc(&count, gridDim.x) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && t == 0) count = 0;
}""", "if (last && t == 0)", "if (t == 0)", "nondeterministic"),
    ("a fence of all threads", "fp32", """__device__ unsigned int done;
__device__ float part[4096];
__global__ void add(const float* a, const float* b, float* y, int n) {
  __shared__ bool last;
""" + OF_THREAD + """  if (i < n) part[i] = a[i] + b[i];
  __threadfence();
  __syncthreads();
  if (t == 0) last = atomicInc(&done, gridDim.x - 1) == gridDim.x - 1;
  __syncthreads();
  if (last) for (int k = t; k < n; k += blockDim.x) y[k] = part[k];
}""", "__threadfence()", "__threadfence_block()", "nondeterministic"),
    ("a copy of known size", "fp32", """__global__ void add(const float* a, const float* b, float* y, int n) {
  const int i = (blockIdx.x * blockDim.x + threadIdx.x) * 16;
  float p[16];
  if (i + 16 <= n) {
    memcpy(p, a + i, sizeof p);
    for (int k = 0; k < 16 && i + k < n; ++k) y[i + k] = p[k] + b[i + k];
  } else {
    for (int k = i; k < n; ++k) y[k] = a[k] + b[k];
  }
}""", "i + 16 <= n", "i < n", "guard"),
    ("aligned vectors", "fp32", """__global__ void add(const float* a, const float* b, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, j = 4 * i;
  if (j + 4 <= n) {
    const float4 p = *(const float4*)(a + j), q = *(const float4*)(b + j);
    *(float4*)(y + j) = make_float4(p.x + q.x, p.y + q.y, p.z + q.z, p.w + q.w);
  } else {
    for (int k = j; k < n; ++k) y[k] = a[k] + b[k];
  }
}""", "(a + j)", "(a + j + 1 - 2 * (i % 2))", "guard"),
    ("shared memory that is filled", "fp32", """__global__ void add(const float* a, const float* b, float* y, int n) {
  __shared__ float bias[256], tile[256];
""" + OF_THREAD + """  tile[t] = i < n ? a[i] : 0;
  bias[t] = 0;
  __syncthreads();
  if (i < n) y[i] = tile[t] + b[i] + bias[t];
}""", "  bias[t] = 0;\n", "", "class"),
    ("a shuffle among those that take part", "fp32", """__global__ void add(const float* a, const float* b, float* y, int n) {
""" + OF_THREAD + """  const int lane = t % 32;
  float v = i < n ? a[i] + b[i] : 0;
  if (lane < 20) v = __shfl_sync(0x000fffffu, v, lane);
  if (i < n) y[i] = v;
}""", "v, lane)", "v, 20 + lane % 12)", "class"),
)
ADDITION_LAUNCH = """grid = "ceil_div(rows * cols, 256)"
block = 256
args = ["a", "b", "y", "rows * cols"]
"""
