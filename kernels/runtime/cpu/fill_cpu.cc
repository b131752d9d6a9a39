#include "kernels/runtime/cpu/fill_cpu.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/numerics/generate.h"
#include "kernels/runtime/cpu/fill_key_groups.h"
#include "kernels/runtime/cpu/fill_simd.h"
#include "kernels/runtime/cpu/parallel.h"
#include "kernels/runtime/cpu/strided.h"

namespace assay::inline kernels {
namespace {

// With fewer chunks a second thread costs more than it saves (32 Ki elements).
constexpr std::int64_t kGrainChunks = 32;
// Fills of this size or more bypass the caches, which could not hold them.
constexpr std::int64_t kStreamBytes = std::int64_t{32} << 20;

// The codes of a kind that does not draw. They are computed once for each fill.
class Placed {
 public:
  Placed(const Pattern& p, DType dtype, const Extents& e)
      : pattern_(p), kind_(p.kind), dtype_(dtype), rows_(e.rows), cols_(e.cols) {
    const auto code = [&](std::int64_t index, std::int64_t row, std::int64_t col) {
      return PlacedBits(p, PlacedValue(p, index, row, col, std::max<std::int64_t>(1, cols_)),
                        dtype);
    };
    // In every kind with a special place but kOneLarge, (0, 0) is that place and (0, 1) is not.
    here_ = code(0, 0, 0);
    elsewhere_ = code(0, 0, 1);
    if (IsUnits(kind_)) {
      here_ = RoundForFill(UnitValue(p, dtype), dtype);
      elsewhere_ = RoundForFill(UnitRest(p), dtype);
    }
    if (kind_ == PatternKind::kOneLarge) {
      large_column_ = LargeColumn(p, cols_);
      here_ = RoundForFill(p.a, dtype);
      elsewhere_ = RoundForFill(0.0, dtype);
    }
    if (kind_ == PatternKind::kSequential) {
      const auto period = static_cast<std::int64_t>(p.b);
      if (period > kLongestTable) return;
      for (std::int64_t i = 0; i < period; ++i) table_.push_back(code(i, 0, 0));
    } else if (kind_ == PatternKind::kRowVary) {
      for (std::int64_t i = 0; i < kVaryPeriod; ++i) table_.push_back(code(0, i, 0));
    } else if (kind_ == PatternKind::kColVary) {
      for (std::int64_t i = 0; i < kVaryPeriod; ++i) table_.push_back(code(0, 0, i));
    }
  }

  // Writes the codes of elements [begin, begin + n), one in each T.
  template <class T>
  void Write(std::int64_t begin, std::int64_t n, T* out) const {
    if (kind_ == PatternKind::kSequential) {
      if (table_.empty()) {
        for (std::int64_t i = 0; i < n; ++i) {
          out[i] = static_cast<T>(RoundForFill(PlacedValue(pattern_, begin + i, 0, 0, 1), dtype_));
        }
        return;
      }
      const auto period = static_cast<std::int64_t>(table_.size());
      for (std::int64_t i = 0; i < n; ++i) {
        out[i] = static_cast<T>(table_[At((begin + i) % period)]);
      }
      return;
    }
    for (std::int64_t i = 0; i < n;) {
      const std::int64_t col = (begin + i) % cols_;
      const std::int64_t row = (begin + i) / cols_;  // counted over all batches
      const std::int64_t m = std::min(cols_ - col, n - i);
      if (IsUnits(kind_)) {
        WriteUnits(row, col, m, out + i);
      } else {
        WriteRow(row % rows_, col, m, out + i);
      }
      i += m;
    }
  }

 private:
  static std::size_t At(std::int64_t i) { return static_cast<std::size_t>(i); }

  template <class T>
  void WriteRow(std::int64_t row, std::int64_t col, std::int64_t n, T* out) const {
    std::int64_t place = 0;  // the column of the special place
    switch (kind_) {
      case PatternKind::kDiagonal:
        place = row;
        break;
      case PatternKind::kOneHot:
        place = row % cols_;
        break;
      case PatternKind::kOneLarge:
        place = large_column_;
        break;
      case PatternKind::kCheckerboard:
        for (std::int64_t i = 0; i < n; ++i) {
          out[i] = static_cast<T>(((row + col + i) & 1) != 0 ? elsewhere_ : here_);
        }
        return;
      case PatternKind::kRowVary:
        std::fill_n(out, n, static_cast<T>(table_[At(row % kVaryPeriod)]));
        return;
      case PatternKind::kColVary:
        for (std::int64_t i = 0; i < n; ++i) {
          out[i] = static_cast<T>(table_[At((col + i) % kVaryPeriod)]);
        }
        return;
      default:  // the same everywhere
        std::fill_n(out, n, static_cast<T>(here_));
        return;
    }
    std::fill_n(out, n, static_cast<T>(elsewhere_));
    if (place >= col && place < col + n) out[place - col] = static_cast<T>(here_);
  }

  template <class T>
  void WriteUnits(std::int64_t row, std::int64_t col, std::int64_t n, T* out) const {
    const UnitPlaces units(pattern_, rows_, cols_);
    const auto rest = static_cast<T>(elsewhere_), one = static_cast<T>(here_);
    if (kind_ == PatternKind::kUnitColumns) {
      const std::int64_t batch = row / rows_, in_batch = row % rows_;
      for (std::int64_t i = 0; i < n; ++i) {
        out[i] = units.PlaceInColumn(batch, col + i) == in_batch ? one : rest;
      }
      return;
    }
    std::fill_n(out, n, rest);
    if (kind_ == PatternKind::kUnitRows) {
      const std::int64_t place = units.PlaceInRow(row);
      if (place >= col && place < col + n) out[place - col] = one;
      return;
    }
    units.ForEachPixel(row, col, col + n, [&](std::int64_t at) { out[at - col] = one; });
  }

  // Codes of longer periods of `sequential` are computed each time.
  static constexpr std::int64_t kLongestTable = 4096;

  Pattern pattern_;
  PatternKind kind_;
  DType dtype_;
  std::int64_t rows_;
  std::int64_t cols_;
  std::uint64_t here_ = 0;
  std::uint64_t elsewhere_ = 0;
  std::int64_t large_column_ = 0;  // of kOneLarge
  std::vector<std::uint64_t> table_;
};

// Bytes of a code in scratch memory. An e2m1 code takes a whole byte there.
std::int64_t CodeBytes(DType t) { return std::max(1, Info(t).storage_bits / 8); }

// Calls make(begin, n, codes) for each chunk, on all cores, and puts the codes in place. If the
// data are dense, make writes them directly.
template <class Make>
void ForEachChunk(const TensorView& dst, Make&& make) {
  const std::int64_t count = dst.count();
  const std::int64_t width = CodeBytes(dst.dtype);
  const bool in_place = dst.extents.dense() && dst.dtype != DType::kE2M1;
  const std::int64_t chunks = (count + kFillChunk - 1) / kFillChunk;
  ParallelFor(chunks, kGrainChunks, [&](std::int64_t first, std::int64_t last) {
    alignas(64) unsigned char scratch[kFillChunk * 8];
    for (std::int64_t c = first; c < last; ++c) {
      const std::int64_t begin = c * kFillChunk;
      const std::int64_t n = std::min(kFillChunk, count - begin);
      if (in_place) {
        make(begin, n, dst.as<unsigned char>() + begin * width);
        continue;
      }
      make(begin, n, scratch);
      ForEachRun(dst.extents, begin, begin + n,
                 [&](std::int64_t offset, std::int64_t logical, std::int64_t m) {
                   const unsigned char* codes = scratch + (logical - begin) * width;
                   if (dst.dtype == DType::kE2M1) {
                     StoreNibbles(codes, dst.data, offset, m);
                   } else {
                     std::memcpy(dst.as<unsigned char>() + offset * width, codes,
                                 static_cast<std::size_t>(m * width));
                   }
                 });
    }
  });
}

// Calls f with a null pointer to the unsigned type of `bytes` bytes.
template <class F>
void WithCodeType(std::int64_t bytes, F&& f) {
  switch (bytes) {
    case 8:
      return f(static_cast<std::uint64_t*>(nullptr));
    case 4:
      return f(static_cast<std::uint32_t*>(nullptr));
    case 2:
      return f(static_cast<std::uint16_t*>(nullptr));
    default:
      return f(static_cast<std::uint8_t*>(nullptr));
  }
}

void FillPlaced(const Placed& placed, const TensorView& dst) {
  WithCodeType(CodeBytes(dst.dtype), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    ForEachChunk(dst, [&](std::int64_t begin, std::int64_t n, unsigned char* out) {
      placed.Write(begin, n, reinterpret_cast<T*>(out));
    });
  });
}

// Fills dense fp32 normal data that no cache would hold, with one fused loop in each thread. False
// if this fill is of another kind or the machine has no such loop.
bool FillStreamed(const FillSpec& spec, const TensorView& dst) {
  if (dst.dtype != DType::kF32 || spec.pattern.kind != PatternKind::kNormal ||
      !dst.extents.dense() || dst.bytes() < kStreamBytes ||
      reinterpret_cast<std::uintptr_t>(dst.data) % 64 != 0) {
    return false;
  }
  if (!StreamNormalF32(spec, 0, 0, dst.as<float>())) return false;  // no such path here
  const std::int64_t count = dst.count();
  ParallelFor((count + kFillChunk - 1) / kFillChunk, kGrainChunks,
              [&](std::int64_t first, std::int64_t last) {
                const std::int64_t begin = first * kFillChunk;
                const std::int64_t end = std::min(last * kFillChunk, count);
                StreamNormalF32(spec, begin, end - begin, dst.as<float>() + begin);
              });
  return true;
}

}  // namespace

void FillCpu(const FillSpec& spec, const TensorView& dst) {
  if (dst.count() == 0) return;
  if (IsKeyGroups(spec.pattern.kind)) {
    FillKeyGroups(spec.pattern, dst);
    return;
  }
  if (!DrawsFirst(spec.pattern.kind)) {
    FillPlaced(Placed(spec.pattern, dst.dtype, dst.extents), dst);
    return;
  }
  if (FillStreamed(spec, dst)) return;
  ForEachChunk(dst, [&](std::int64_t begin, std::int64_t n, unsigned char* out) {
    DrawCodes(spec, dst.dtype, dst.extents.cols, begin, n, out);
  });
}

void FillCode(std::uint64_t code, const TensorView& dst) {
  if (dst.count() == 0) return;
  WithCodeType(CodeBytes(dst.dtype), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    ForEachChunk(dst, [&](std::int64_t, std::int64_t n, unsigned char* out) {
      std::fill_n(reinterpret_cast<T*>(out), n, static_cast<T>(code));
    });
  });
}

}  // namespace assay::kernels
