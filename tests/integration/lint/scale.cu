// Two kernels: one uses a block's shared memory and an array that is indexed by a variable.
extern "C" __global__ void __launch_bounds__(256) scale(const float* x, float* y, int n) {
  __shared__ float part[1024];
  float kept[64];
  for (int i = 0; i < 64; ++i) kept[i] = x[(i * n) % 7 + threadIdx.x];
  part[threadIdx.x] = x[blockIdx.x * 256 + threadIdx.x];
  __syncthreads();
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) y[i] = 2 * part[255 - threadIdx.x] + kept[n % 64];
}
extern "C" __global__ void increment(double* p) { p[threadIdx.x] += 1; }
