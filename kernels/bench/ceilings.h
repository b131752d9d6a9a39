// Holds a device's ceilings: the best rates that its memory and its arithmetic reach. They are
// measured on the device, not read from a data sheet.
#ifndef ASSAY_KERNELS_BENCH_CEILINGS_H_
#define ASSAY_KERNELS_BENCH_CEILINGS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/numerics/dtype.h"

namespace assay::inline kernels {

class Device;

// The kind of work that measures a ceiling. The values are those of assay.v1.CeilingKind.
enum class CeilingKind : std::uint8_t {
  kUnspecified = 0,
  kCopy = 1,    // b[i] = a[i]; bytes read and bytes written count
  kTriad = 2,   // a[i] = b[i] + s·c[i]; the same
  kRead = 3,    // a sum over a[i]
  kFma = 4,     // multiply-adds on vector registers, two operations each
  kMatrix = 5,  // multiply-adds on matrix units
};

constexpr bool IsMemory(CeilingKind kind) {
  return kind == CeilingKind::kCopy || kind == CeilingKind::kTriad || kind == CeilingKind::kRead;
}

struct Ceiling {
  CeilingKind kind = CeilingKind::kUnspecified;
  DType dtype = DType::kUnspecified;  // kUnspecified for memory
  double per_second = 0;              // bytes or operations of the fastest run
  std::optional<double> noise{};      // of all runs: (p90 − p10)/2 over the median
  // A kernel was faster than the ceiling and its noise allow. Something else held the device while
  // the ceiling was measured, so the value is too low. It is measured again.
  bool suspect = false;

  friend bool operator==(const Ceiling&, const Ceiling&) = default;
};

// A ceiling with more noise than this is worth measuring again.
inline constexpr double kNoisyCeiling = 0.10;

constexpr bool IsNoisy(const Ceiling& ceiling) { return ceiling.noise.value_or(0) > kNoisyCeiling; }

// Whether an efficiency (a share of a ceiling) is above 1 by more than the ceiling's noise, and by
// more than 2 %.
constexpr bool IsBeyond(double efficiency, std::optional<double> noise) {
  const double margin = noise.value_or(0) > 0.02 ? *noise : 0.02;
  return efficiency > 1 + margin;
}

class Ceilings {
 public:
  virtual ~Ceilings() = default;

  // Returns one ceiling. `dtype` matters for arithmetic alone. Returns nothing if the device has no
  // such instruction, or if the measurement failed. The first call measures, and later calls return
  // the same value. A failed measurement is tried again at the next call. After the call the
  // device's arena has the same blocks as before.
  virtual std::optional<Ceiling> Find(CeilingKind kind, DType dtype) = 0;

  // Drops the value, so that the next Find measures it again.
  virtual void Forget(CeilingKind /*kind*/, DType /*dtype*/) {}
  // Marks the ceiling as suspect, because a kernel was faster than it and its noise allow
  // (IsBeyond).
  virtual void Doubt(CeilingKind /*kind*/, DType /*dtype*/) {}
  // Measures every suspect or noisy ceiling again, and keeps the faster of the old and the new
  // value.
  virtual void MeasureDoubtful() {}

  // The size of the last cache before memory [bytes]; 0: not known. Data that fit into it may move
  // faster than memory's ceiling.
  virtual std::int64_t CacheBytes() const { return 0; }

  // The higher ceiling of vector and matrix arithmetic [operations/s].
  std::optional<Ceiling> Compute(DType dtype);
  // The copy bandwidth [bytes/s].
  std::optional<Ceiling> Memory() { return Find(CeilingKind::kCopy, DType::kUnspecified); }
  std::optional<double> PerSecond(CeilingKind kind, DType dtype) {
    return ValueOf(Find(kind, dtype));
  }
  std::optional<double> FlopsPerSecond(DType dtype) { return ValueOf(Compute(dtype)); }
  std::optional<double> BytesPerSecond() { return ValueOf(Memory()); }
  // All ceilings that the device has: memory first, then arithmetic by format.
  std::vector<Ceiling> All();

 private:
  static std::optional<double> ValueOf(const std::optional<Ceiling>& ceiling) {
    return ceiling ? std::optional<double>(ceiling->per_second) : std::nullopt;
  }
};

// Measures the cores and the memory that this process may use, on the threads of ParallelFor.
// Arithmetic takes some 60 ms a format, and three times as long if other programs are busy. Memory
// takes a second or two if the last cache is large. `device` tells the cache's size. There is no
// arithmetic ceiling for formats that a core converts but does not compute in (fp16, fp8, fp4,
// tf32, and bf16 without AVX512-BF16), and none for matrix units. Call it from one thread.
std::unique_ptr<Ceilings> MakeCpuCeilings(Device& device);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_BENCH_CEILINGS_H_
