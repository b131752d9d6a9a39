// A gemm for fp32: D = alpha·A·B, row-major, without transposes. my_gemm.toml is its launch.
//
//   assay run gemm --kernel ./my_gemm.hip --device hip:0 --dtype fp32 --m 33 --n 20 --k 47
//
// The node may also get compiled code:
//
//   hipcc --genco --offload-arch=gfx90a my_gemm.hip -o my_gemm.hsaco
//   assay lint my_gemm.hsaco
//   assay run gemm --kernel ./my_gemm.hsaco --device hip:0 --dtype fp32 --m 33 --n 20 --k 47
//
// Without a card, a copy of the file with the name my_gemm.cu runs on simt:0.
#ifndef ASSAY_SIMT  // the emulator has no such header
#include <hip/hip_runtime.h>
#endif

constexpr int kTile = 16;

__global__ void my_gemm(const float* a, const float* b, float* d, int m, int n, int k, int lda,
                        int ldb, int ldd, float alpha) {
  __shared__ float ta[kTile][kTile];
  __shared__ float tb[kTile][kTile];
  const int x = threadIdx.x, y = threadIdx.y;
  const int row = blockIdx.y * kTile + y;
  const int col = blockIdx.x * kTile + x;
  float sum = 0;
  for (int t = 0; t < k; t += kTile) {
    ta[y][x] = row < m && t + x < k ? a[row * lda + t + x] : 0.0f;
    tb[y][x] = t + y < k && col < n ? b[(t + y) * ldb + col] : 0.0f;
    __syncthreads();  // both tiles are loaded
    for (int q = 0; q < kTile; ++q) sum += ta[y][q] * tb[q][x];
    __syncthreads();  // both tiles are used
  }
  if (row < m && col < n) d[row * ldd + col] = alpha * sum;
}
