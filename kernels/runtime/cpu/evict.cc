#include "kernels/runtime/cpu/evict.h"

#include "kernels/runtime/cpu/parallel.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace assay::inline kernels {
namespace {

constexpr std::int64_t kLine = 64;         // [bytes] of x86-64, and of most Arm cores
constexpr std::int64_t kGrain = 16 << 10;  // lines; fewer are not worth a second thread

#if defined(__x86_64__)

__attribute__((target("clflushopt"))) void EvictFast(const char* at, const char* end) {
  for (; at < end; at += kLine) _mm_clflushopt(const_cast<char*>(at));
  _mm_mfence();
}

// These flushes are ordered among themselves and so slower. Every x86-64 processor has them.
void EvictPlain(const char* at, const char* end) {
  for (; at < end; at += kLine) _mm_clflush(at);
  _mm_mfence();
}

// __builtin_cpu_supports does not know this word in every compiler.
bool HasFastFlush() {
  unsigned int a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & bit_CLFLUSHOPT) != 0;
}

void EvictRange(const char* at, const char* end) {
  static const bool fast = HasFastFlush();
  if (fast) {
    EvictFast(at, end);
  } else {
    EvictPlain(at, end);
  }
}

#elif defined(__aarch64__)

void EvictRange(const char* at, const char* end) {
  for (; at < end; at += kLine) asm volatile("dc civac, %0" : : "r"(at) : "memory");
  asm volatile("dsb sy" : : : "memory");
}

#else

void EvictRange(const char*, const char*) {}

#endif

}  // namespace

bool CanEvictLines() {
#if defined(__x86_64__) || defined(__aarch64__)
  return true;
#else
  return false;
#endif
}

void EvictLines(const void* data, std::int64_t bytes) {
  if (bytes <= 0) return;
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  const auto offset = static_cast<std::int64_t>(address % static_cast<std::uintptr_t>(kLine));
  const char* const first = static_cast<const char*>(data) - offset;
  const char* const end = static_cast<const char*>(data) + bytes;
  const std::int64_t lines = (bytes + offset + kLine - 1) / kLine;
  ParallelFor(lines, kGrain, [&](std::int64_t begin, std::int64_t last) {
    const char* const stop = first + last * kLine;
    EvictRange(first + begin * kLine, stop < end ? stop : end);
  });
}

}  // namespace assay::kernels
