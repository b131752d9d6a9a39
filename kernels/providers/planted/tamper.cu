// Makes defects on the device; see tamper.h. Each thread handles elements of the tile, in strides
// of the grid. No two threads touch the same element, except to read elements that nobody writes.
// So every launch gives the same result.
#include "kernels/providers/planted/tamper.h"

#include "kernels/numerics/convert.h"
#include "kernels/runtime/gpu/port.h"
#include "kernels/runtime/gpu/runs.h"

namespace assay::inline kernels::gpu {
namespace {

ASSAY_DEVICE std::int64_t OffsetIn(const Extents& e, const Tile& at, std::int64_t batch,
                                   std::int64_t row, std::int64_t col) {
  return (at.batch + batch) * e.batch_stride + (at.row + row) * e.ld + at.col + col;
}

// `v` rounded to a code towards zero.
ASSAY_DEVICE std::uint64_t CutCode(float v, DType format) {
  const std::uint64_t bits = RoundToFormat(v, format);
  const double wide = static_cast<double>(v);
  const double rounded = ToDouble(format, bits);
  const bool beyond = wide < 0 ? rounded < wide : rounded > wide;
  return beyond ? bits - 1 : bits;
}

// The sum of `parts` numbers of a format, each the nearest to what the ones before left of `v`.
ASSAY_DEVICE double InParts(double v, DType format, int parts) {
  double sum = Quantise(v, format);
  for (int i = 1; i < parts; ++i) sum += Quantise(v - sum, format);
  return sum;
}

ASSAY_DEVICE void SwapCodes(const TensorView& v, std::int64_t a, std::int64_t b) {
  const std::uint64_t code = LoadBits(v.dtype, v.data, a);
  StoreBits(v.dtype, v.data, a, LoadBits(v.dtype, v.data, b));
  StoreBits(v.dtype, v.data, b, code);
}

ASSAY_GLOBAL void ApplyTamper(Tamper t, std::int64_t count) {
  const TensorView& v = t.view;
  for (std::int64_t i = FirstItem(); i < count; i += ItemStep()) {
    if (i % t.period != t.phase) continue;
    const std::int64_t col = i % t.tile.cols;
    const std::int64_t row = i / t.tile.cols % t.tile.rows;
    const std::int64_t batch = i / t.tile.cols / t.tile.rows;
    const std::int64_t at = OffsetIn(v.extents, t.tile, batch, row, col);
    const auto put = [&](std::uint64_t code) { StoreBits(v.dtype, v.data, at, code); };
    const auto like = [&] { return OffsetIn(v.extents, t.other, batch, row, col); };
    const auto code = [&] { return LoadBits(v.dtype, v.data, at); };
    std::uint64_t held = 0;
    switch (t.change) {
      case Change::kKeep:
        t.kept[i] = code();
        break;
      case Change::kPutBack:
        put(t.kept[i]);
        break;
      case Change::kExchange:
        held = code();
        put(t.kept[i]);
        t.kept[i] = held;
        break;
      case Change::kSet:
        put(t.code);
        break;
      case Change::kFlip:
        put(code() ^ t.code);
        break;
      case Change::kSpread:
        if (i > 0) put(LoadBits(v.dtype, v.data, OffsetIn(v.extents, t.tile, 0, 0, 0)));
        break;
      case Change::kTake:
        put(LoadBits(v.dtype, v.data, like()));
        break;
      case Change::kSwap:
        SwapCodes(v, at, like());
        break;
      case Change::kTranspose:
        if (row < col) SwapCodes(v, at, OffsetIn(v.extents, t.tile, batch, col, row));
        break;
      case Change::kScale:
        put(RoundToFormat(ToDouble(v.dtype, code()) * t.factor, v.dtype));
        break;
      case Change::kPass:
        put(RoundToFormat(InParts(ToDouble(v.dtype, code()), t.through, t.parts), v.dtype));
        break;
      case Change::kClear:
        if ((code() & t.code) == t.code) put(code() & ~t.code);
        break;
      case Change::kCut:
        put(CutCode(t.wide[at], v.dtype));
        break;
    }
  }
}

ASSAY_GLOBAL void Overwrite(unsigned char* at, std::int64_t bytes) {
  for (std::int64_t i = FirstItem(); i < bytes; i += ItemStep()) at[i] = 0;
}

ASSAY_GLOBAL void Hang(const unsigned long long* never) {
  while (LoadRelaxed(never) == 0) {
  }
}

}  // namespace

ErrorCode LaunchTamper(const Tamper& tamper, Stream stream) {
  const std::int64_t count = tamper.tile.count();
  if (count == 0) return kOk;
  return LaunchOver(count, /*one_thread=*/false, stream, ApplyTamper, tamper, count);
}

ErrorCode LaunchOverwrite(void* at, std::int64_t bytes, Stream stream) {
  return LaunchOver(bytes, /*one_thread=*/false, stream, Overwrite, static_cast<unsigned char*>(at),
                    bytes);
}

ErrorCode LaunchHang(const unsigned long long* never, Stream stream) {
  return Launch(Hang, Extent{1, 1, 1}, Extent{1, 1, 1}, 0, stream, never);
}

}  // namespace assay::kernels::gpu
