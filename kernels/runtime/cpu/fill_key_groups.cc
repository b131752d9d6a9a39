#include "kernels/runtime/cpu/fill_key_groups.h"

#include <algorithm>
#include <cstring>

#include "kernels/numerics/convert.h"
#include "kernels/numerics/generate.h"
#include "kernels/numerics/key_groups.h"
#include "kernels/runtime/cpu/parallel.h"

namespace assay::inline kernels {
namespace {

// Whether every row begins on a byte, so that memset can clear it: every format but e2m1.
bool ClearsByBytes(DType t) { return t != DType::kE2M1; }

void ClearRow(const TensorView& dst, std::int64_t at) {
  if (ClearsByBytes(dst.dtype)) {
    std::memset(dst.as<unsigned char>() + StorageBytes(dst.dtype, at), 0,
                static_cast<std::size_t>(StorageBytes(dst.dtype, dst.extents.cols)));
    return;
  }
  for (std::int64_t col = 0; col < dst.extents.cols; ++col)
    StoreBits(dst.dtype, dst.data, at + col, 0);
}

}  // namespace

void FillKeyGroups(const Pattern& pattern, const TensorView& dst) {
  const Extents& e = dst.extents;
  const bool mask = pattern.kind == PatternKind::kKeyMask;
  const std::uint64_t plus = RoundForFill(mask ? 1.0 : pattern.a, dst.dtype);
  const std::uint64_t minus = RoundForFill(-pattern.a, dst.dtype);
  const CodedRows coded(pattern, e.rows, e.cols);
  const double first = mask ? 0 : coded.First() * pattern.a;
  const std::uint64_t first_code = RoundForFill(first, dst.dtype);
  const KeyGroups groups(e.rows, e.cols, pattern.a != 0);
  constexpr std::int64_t kGrain = 1 << 14;  // elements
  // Two rows of e2m1 may share a byte, so one thread fills them all.
  const std::int64_t grain =
      ClearsByBytes(dst.dtype) ? std::max<std::int64_t>(1, kGrain / e.cols) : e.batch * e.rows;
  ParallelFor(e.batch * e.rows, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t head = i / e.rows, row = i % e.rows;
      const std::int64_t at = head * e.batch_stride + row * e.ld;
      if (mask) {
        for (std::int64_t key = 0; key < e.cols; ++key) {
          StoreBits(dst.dtype, dst.data, at + key, groups.Keeps(row, key) ? plus : 0);
        }
        continue;
      }
      ClearRow(dst, at);
      const GroupCode code = coded.Code(head, row);
      if (first != 0) StoreBits(dst.dtype, dst.data, at, first_code);
      for (int n = 0; n < code.weight; ++n) {
        StoreBits(dst.dtype, dst.data, at + code.at[n], code.negative[n] ? minus : plus);
      }
    }
  });
}

}  // namespace assay::kernels
