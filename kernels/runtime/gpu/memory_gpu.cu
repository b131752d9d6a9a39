// Sets a tensor to one code, and copies between any strides. A thread handles 16 bytes of the
// destination, with one store if they lie in one run and are aligned to 16 bytes. Sweep reads
// memory to fill the caches.
#include "kernels/numerics/convert.h"
#include "kernels/numerics/poison.h"
#include "kernels/runtime/gpu/primitives.h"
#include "kernels/runtime/gpu/runs.h"
#include "kernels/runtime/gpu/set_code.h"

namespace assay::inline kernels::gpu {
namespace {

ASSAY_GLOBAL void SetCode(Runs dst, std::int64_t chunks, std::uint64_t code, Bytes16 repeated) {
  const int shift = ShiftOf16Bytes(dst.dtype);
  for (std::int64_t id = FirstItem(); id < chunks; id += ItemStep()) {
    const Chunk chunk = ChunkOf(dst, id, shift);
    if (dst.aligned && chunk.n == 1 << shift) {
      reinterpret_cast<Bytes16*>(dst.data)[chunk.offset >> shift] = repeated;
      continue;
    }
    for (int i = 0; i < chunk.n; ++i) StoreBits(dst.dtype, dst.data, chunk.offset + i, code);
  }
}

// With a `slot`, the copy goes *slot strides behind `dst`, and if *slot is negative there is none.
ASSAY_GLOBAL void CopyChunks(Runs src, Runs dst, std::int64_t chunks, const std::int32_t* slot,
                             std::int64_t stride) {
  if (slot != nullptr) {
    if (*slot < 0) return;
    dst.data += *slot * stride;
  }
  const int shift = ShiftOf16Bytes(dst.dtype);
  const std::int64_t whole = std::int64_t{1} << shift;
  for (std::int64_t id = FirstItem(); id < chunks; id += ItemStep()) {
    const Chunk chunk = ChunkOf(dst, id, shift);
    if (chunk.n == 0) continue;
    const std::int64_t in_run = chunk.logical % src.length;
    const std::int64_t from = OffsetOf(src, chunk.logical);
    if (chunk.n == whole && in_run + whole <= src.length && dst.aligned && src.aligned &&
        from % whole == 0) {
      reinterpret_cast<Bytes16*>(dst.data)[chunk.offset >> shift] =
          reinterpret_cast<const Bytes16*>(src.data)[from >> shift];
      continue;
    }
    for (int i = 0; i < chunk.n; ++i) {
      const std::int64_t at = in_run + i < src.length ? from + i : OffsetOf(src, chunk.logical + i);
      StoreBits(dst.dtype, dst.data, chunk.offset + i, LoadBits(src.dtype, src.data, at));
    }
  }
}

ASSAY_GLOBAL void Sweep(const Bytes16* data, std::int64_t count, std::uint32_t* unused) {
  std::uint32_t all = 0;
  for (std::int64_t id = FirstItem(); id < count; id += ItemStep()) {
    const Bytes16 x = data[id];
    all |= x.v[0] ^ x.v[1] ^ x.v[2] ^ x.v[3];
  }
  if (all == 0x9e3779b9U) *unused = all;  // hardly ever; the compiler does not know that
}

}  // namespace

ErrorCode LaunchSweep(const void* data, std::int64_t bytes, void* unused, Stream stream) {
  const std::int64_t count = bytes / 16;
  if (count == 0) return kOk;
  return LaunchOver(count, 0, stream, Sweep, static_cast<const Bytes16*>(data), count,
                    static_cast<std::uint32_t*>(unused));
}

ErrorCode LaunchSetCode(std::uint64_t code, const TensorView& dst, Stream stream) {
  if (dst.count() == 0) return kOk;
  const Runs runs = RunsOf(dst);
  std::uint64_t word = code;
  for (int bits = StorageBits(dst.dtype); bits < 64; bits *= 2) word |= word << bits;
  const auto low = static_cast<std::uint32_t>(word);
  const auto high = static_cast<std::uint32_t>(word >> 32);
  const std::int64_t chunks = ChunksOf(runs, ShiftOf16Bytes(dst.dtype));
  return LaunchOver(chunks, runs.shared_bytes, stream, SetCode, runs, chunks, code,
                    Bytes16{{low, high, low, high}});
}

ErrorCode LaunchPoison(Poison poison, const TensorView& dst, Stream stream) {
  return LaunchSetCode(PoisonBits(dst.dtype, poison), dst, stream);
}

ErrorCode LaunchCopy(const TensorView& src, const TensorView& dst, Stream stream) {
  return LaunchCopyToSlot(src, dst, nullptr, 0, stream);
}

ErrorCode LaunchCopyToSlot(const TensorView& src, const TensorView& first, const std::int32_t* slot,
                           std::int64_t stride, Stream stream) {
  if (first.count() == 0) return kOk;
  const Runs to = RunsOf(first);
  const std::int64_t chunks = ChunksOf(to, ShiftOf16Bytes(first.dtype));
  return LaunchOver(chunks, to.shared_bytes, stream, CopyChunks, RunsOf(src), to, chunks, slot,
                    stride);
}

}  // namespace assay::kernels::gpu
