// Measured ceilings of a device: what its memory and its arithmetic reach at
// best, measured here and not read from a data sheet.
#ifndef ASSAY_KERNELS_BENCH_CEILINGS_H_
#define ASSAY_KERNELS_BENCH_CEILINGS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/numerics/dtype.h"

namespace assay {

class Device;

// What a ceiling is measured with. Values equal assay.v1.CeilingKind's.
enum class CeilingKind : std::uint8_t {
  kUnspecified = 0,
  kCopy = 1,    // b[i] = a[i]; bytes read and bytes written
  kTriad = 2,   // a[i] = b[i] + s·c[i]; likewise
  kRead = 3,    // a sum over a[i]
  kFma = 4,     // multiply-adds on vector registers, two operations each
  kMatrix = 5,  // the same on matrix units
};

constexpr bool IsMemory(CeilingKind kind) {
  return kind == CeilingKind::kCopy || kind == CeilingKind::kTriad || kind == CeilingKind::kRead;
}

struct Ceiling {
  CeilingKind kind = CeilingKind::kUnspecified;
  DType dtype = DType::kUnspecified;  // of arithmetic alone
  double per_second = 0;              // bytes or operations; of the fastest run
  std::optional<double> noise{};      // of its runs: (p90 − p10)/2 over the median
  // A kernel was faster than the ceiling and its noise allow: whatever else held the device
  // while it was measured has made it too low, and it is measured once more.
  bool suspect = false;

  friend bool operator==(const Ceiling&, const Ceiling&) = default;
};

// Runs that deviate by more make a ceiling that is worth measuring again.
inline constexpr double kNoisyCeiling = 0.10;

constexpr bool IsNoisy(const Ceiling& ceiling) { return ceiling.noise.value_or(0) > kNoisyCeiling; }

// Whether an efficiency, a share of a ceiling, is beyond what its noise explains.
constexpr bool IsBeyond(double efficiency, std::optional<double> noise) {
  const double margin = noise.value_or(0) > 0.02 ? *noise : 0.02;
  return efficiency > 1 + margin;
}

class Ceilings {
 public:
  virtual ~Ceilings() = default;

  // One ceiling; `dtype` counts for arithmetic alone. Nothing where the device has no such
  // instruction or where measuring failed. Measured at the first call, then kept; one that
  // could not be measured is tried again. The device's arena has the blocks that it had before.
  virtual std::optional<Ceiling> Find(CeilingKind kind, DType dtype) = 0;

  // It is measured anew at the next Find.
  virtual void Forget(CeilingKind /*kind*/, DType /*dtype*/) {}
  // A kernel was faster than it and its noise allow (IsBeyond).
  virtual void Doubt(CeilingKind /*kind*/, DType /*dtype*/) {}
  // Measures what is suspect or noisy anew; the faster of both counts.
  virtual void MeasureDoubtful() {}

  // The last cache before that memory [bytes]; 0: not known. What fits may be faster.
  virtual std::int64_t CacheBytes() const { return 0; }

  // Of arithmetic the faster way, vector or matrix [operations/s].
  std::optional<Ceiling> Compute(DType dtype);
  // Copy bandwidth [bytes/s].
  std::optional<Ceiling> Memory() { return Find(CeilingKind::kCopy, DType::kUnspecified); }
  std::optional<double> PerSecond(CeilingKind kind, DType dtype) {
    return ValueOf(Find(kind, dtype));
  }
  std::optional<double> FlopsPerSecond(DType dtype) { return ValueOf(Compute(dtype)); }
  std::optional<double> BytesPerSecond() { return ValueOf(Memory()); }
  // Every one there is: memory first, then by format.
  std::vector<Ceiling> All();

 private:
  static std::optional<double> ValueOf(const std::optional<Ceiling>& ceiling) {
    return ceiling ? std::optional<double>(ceiling->per_second) : std::nullopt;
  }
};

// The ceilings of the cores and the memory this process may use, measured on the
// threads of ParallelFor: arithmetic in some 60 ms a format, thrice that where others are busy,
// memory in a second or two where the last cache is large; `device` gives that cache's size. No
// arithmetic for formats that a core converts but does not compute in (fp16, fp8, fp4, tf32, bf16
// without AVX512-BF16), and no matrix units. One thread.
std::unique_ptr<Ceilings> MakeCpuCeilings(Device& device);

}  // namespace assay

#endif  // ASSAY_KERNELS_BENCH_CEILINGS_H_
