"""A kernel of CUDA, compiled by nvcc, called from Python and judged.

Needs a daemon (`assayd &`), numpy and nvcc. Without a card the host runs the same code, block by block.
"""

# %% The kernel: RMS norm, one block of 256 threads for each row. `rms_norm` takes arrays of the host.
import ctypes
import os
import shutil
import subprocess
import tempfile

import numpy as np

import assay

SOURCE = r"""
#include <cuda_runtime.h>
constexpr int kThreads = 256;

// One thread's share of a row's sum, and of its outputs.
__host__ __device__ float Sum(const float* x, int cols, int thread) {
  float sum = 0;
  for (int c = thread; c < cols; c += kThreads) sum += x[c] * x[c];
  return sum;
}
__host__ __device__ void Store(float* out, const float* x, const float* weight, int cols, float scale, int thread) {
  for (int c = thread; c < cols; c += kThreads) out[c] = x[c] * scale * weight[c];
}
__host__ __device__ void Fold(float* sums, int thread, int half) {
  if (thread < half) sums[thread] += sums[thread + half];
}

__global__ void Kernel(float* out, const float* x, const float* weight, int cols, float eps, int summed) {
  __shared__ float sums[kThreads];
  const long long at = (long long)blockIdx.x * cols;
  sums[threadIdx.x] = Sum(x + at, summed, threadIdx.x);
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    Fold(sums, threadIdx.x, half);
  }
  __syncthreads();
  Store(out + at, x + at, weight, cols, 1 / sqrtf(sums[0] / cols + eps), threadIdx.x);
}

static void OnHost(float* out, const float* x, const float* weight, int rows, int cols, float eps, int summed) {
  for (long long at = 0; at < (long long)rows * cols; at += cols) {
    float sums[kThreads];
    for (int t = 0; t < kThreads; ++t) sums[t] = Sum(x + at, summed, t);
    for (int half = kThreads / 2; half > 0; half /= 2) {
      for (int t = 0; t < kThreads; ++t) Fold(sums, t, half);
    }
    for (int t = 0; t < kThreads; ++t) Store(out + at, x + at, weight, cols, 1 / sqrtf(sums[0] / cols + eps), t);
  }
}

extern "C" int cards() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

// Returns cudaSuccess, 0, or the first error.
extern "C" int rms_norm(float* out, const float* x, const float* weight, int rows, int cols, float eps, int summed) {
  if (cards() == 0) {
    OnHost(out, x, weight, rows, cols, eps, summed);
    return cudaSuccess;
  }
  const size_t row = cols * sizeof(float), all = rows * row;
  float* device = nullptr;  // out, x, weight
  cudaError_t error = cudaMalloc(&device, 2 * all + row);
  float* const in = device + (size_t)rows * cols;
  float* const scales = in + (size_t)rows * cols;
  if (error == cudaSuccess) error = cudaMemcpy(in, x, all, cudaMemcpyHostToDevice);
  if (error == cudaSuccess) error = cudaMemcpy(scales, weight, row, cudaMemcpyHostToDevice);
  if (error == cudaSuccess) {
    Kernel<<<rows, kThreads>>>(device, in, scales, cols, eps, summed);
    error = cudaGetLastError();
  }
  if (error == cudaSuccess) error = cudaMemcpy(out, device, all, cudaMemcpyDeviceToHost);
  cudaFree(device);
  return error;
}
"""

folder = tempfile.TemporaryDirectory()
source, library = os.path.join(folder.name, "norm.cu"), os.path.join(folder.name, "norm.so")
with open(source, "w", encoding="utf-8") as file:
    file.write(SOURCE)
nvcc = os.environ.get("NVCC") or shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
subprocess.run([nvcc, "-O2", "-shared", "-Xcompiler", "-fPIC", "-o", library, source], check=True)
extension = ctypes.CDLL(library)
print("runs on a card" if extension.cards() else "no card: the host runs the kernel's code")


def rms_norm(x, weight, eps=1e-5, summed=None):
    out = np.full_like(x, np.nan)
    pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in (out, x, weight)]
    rows, cols = x.shape
    error = extension.rms_norm(*pointers, rows, cols, ctypes.c_float(eps), cols if summed is None else summed)
    if error:
        raise RuntimeError(f"CUDA error {error}")
    return out


# %% The verdict: the default set of shapes and values. The daemon draws the inputs.
assay.validate(rms_norm, op="layer_norm", dtype="fp32", rms=True, affine=True).raise_on_failure()
rng = np.random.default_rng(1)
x, weight = rng.standard_normal((32, 777), dtype="f4"), rng.standard_normal(777, dtype="f4")
print(assay.assert_close(rms_norm(x, weight), op="layer_norm", inputs=(x, weight), rms=True))

# %% A mistake: the sum leaves out the remainder of a division by the block's 256 threads.
try:
    assay.assert_close(rms_norm(x, weight, summed=768), op="layer_norm", inputs=(x, weight), rms=True)
except assay.Mismatch as mismatch:
    print(mismatch)
