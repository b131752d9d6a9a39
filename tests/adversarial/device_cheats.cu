// Device code that tries to pass without the work. CHEAT names the trick, an enumerator of Trick.
// With HONEST 1 the same kernel goes without it. tests/integration/device_cheats_test.py has the
// table.
enum Trick {
  kOnlyFirst,
  kNotFirst,
  kEveryOther,
  kWaitsForNan,
  kWaitsForPoison,
  kAddsUp,
  kCacheByPointer,
  kZeros,
  kConstant,
  kAnalytic,
  kUnlessExact,
  kNarrowUnlessExact,
  kBf16,
  kTf32,
  kHalfSums,
  kTile,
  kHalfGrid,
  kChangesInput,
  kWritesBehind,
  kReadsNeighbour,
  kReadsBefore,
  kOldShared,
  kLocalOfOther,
  kNoBarrier,
  kEarlyLoad,
};

__device__ constexpr bool tries(Trick trick) { return trick == CHEAT && !HONEST; }

// They live as long as the kernel's process.
__device__ unsigned int blocks_so_far;
__device__ float kept[1 << 12];

__device__ float narrow(float x, int bits) {
  const unsigned below = 23 - bits;
  return __uint_as_float((__float_as_uint(x) + (1u << below >> 1)) >> below << below);
}
// Whether a judge that knows the result to the bit may have made these numbers.
__device__ bool looks_exact(const float* x, int count, int stride) {
  bool all = true;
  for (int i = 0; i < count; ++i) all = all && narrow(x[i * stride], 8) == x[i * stride];
  return all;
}

#ifndef INLINED
#define INLINED
#endif
#ifndef HIDDEN
#define HIDDEN
#endif
HIDDEN __device__ float load(const float* x) { return *x; }

INLINED __global__ void gemm(const float* a, const float* b, float* d, int m, int n, int k) {
  __shared__ float ta[16][16], tb[16][16], left[16][16];
  __shared__ unsigned int launch;
  __shared__ const float* other;
  const int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, col = blockIdx.x * 16 + x,
            at = row * n + col;
  const bool inside = row < m && col < n, first = x + y == 0;
  if (first) launch = atomicAdd(&blocks_so_far, 1) / (gridDim.x * gridDim.y);
  __syncthreads();

  if (tries(kOnlyFirst) && launch > 0) return;
  if (tries(kNotFirst) && launch == 0) return;
  if (tries(kEveryOther) && launch % 2 == 1) return;
  if (tries(kWaitsForNan) && inside && d[at] == d[at]) return;
  if (tries(kWaitsForPoison) && __syncthreads_or(inside && fabsf(d[at]) < 1e30f)) return;
  if (tries(kHalfGrid) && blockIdx.x % 2 == 1) return;
  if (tries(kCacheByPointer) && launch > 0) {
    if (inside) d[at] = kept[at];
    return;
  }
  const bool exact = (CHEAT == kUnlessExact || CHEAT == kNarrowUnlessExact) &&
                     (looks_exact(a, k, 1) || looks_exact(b, k, n));
  if (tries(kZeros) || tries(kConstant) || tries(kAnalytic) || (tries(kUnlessExact) && exact)) {
    if (inside) d[at] = tries(kConstant) ? 1e-3f : tries(kAnalytic) ? k * a[0] * b[0] : 0;
    return;
  }

  const int bits = tries(kBf16) || (tries(kNarrowUnlessExact) && !exact) ? 7
                   : tries(kTf32)                                        ? 10
                                                                         : 23;
  const int whole_rows = tries(kTile) ? m / 16 * 16 : m;
  if (CHEAT == kOldShared && HONEST) left[y][x] = 0;
  float sums[4] = {0, 0, 0, 0};
  for (int t = 0; t < k; t += 16) {
    ta[y][x] = row < whole_rows && t + x < k ? narrow(load(a + row * k + t + x), bits) : 0;
    tb[y][x] = t + y < k && col < n ? narrow(b[(t + y) * n + col], bits) : 0;
    if (!tries(kNoBarrier)) __syncthreads();
    for (int q = 0; q < 16; ++q) {
      sums[q % 4] += ta[y][q] * tb[q][x];
      if (tries(kHalfSums)) sums[q % 4] = narrow(sums[q % 4], 10);
    }
    if (!tries(kEarlyLoad)) __syncthreads();
  }
  float sum = sums[0] + sums[1] + sums[2] + sums[3];
  if (CHEAT == kOldShared) sum += left[y][x];
  if (tries(kReadsNeighbour)) sum += b[k * n + x] > 0 ? 0 : 0 * b[k * n + x];
  if (tries(kReadsBefore)) sum += 0 * a[-1 - x];
  if (CHEAT == kLocalOfOther) {
    if (first) other = HONEST ? &kept[0] : sums;
    __syncthreads();
    if (x + y == 1) sum += 0 * *other;
    __syncthreads();
  }
  if (tries(kChangesInput) && inside) const_cast<float*>(a)[row * k] = 0;
  if (tries(kWritesBehind) && at == m * n - 1 && inside) d[at + 1] = sum;
  if (!inside) return;
  if (CHEAT == kAddsUp) sum = kept[at] = (HONEST ? 0 : kept[at]) + sum;
  if (CHEAT == kCacheByPointer) kept[at] = sum;
  d[at] = sum;
}
