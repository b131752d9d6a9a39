// copy for GPUs: y[i] = x[i], byte for byte, whatever the format.
//
// Work: a thread copies kAhead pieces, a block's width apart, and reads all before it writes the
// first. A piece is 16 bytes if both ends are aligned to 16 bytes, otherwise one byte. The bytes
// behind the last whole piece are copied singly.
#include "kernels/providers/builtin/copy_builtin_gpu.h"
#include "kernels/runtime/gpu/port.h"

namespace assay::inline kernels::gpu {
namespace {

constexpr int kThreads = 256;
constexpr int kAhead = 4;

template <int kBytes>
struct alignas(kBytes) Piece {
  unsigned char v[kBytes];
};

template <int kBytes>
ASSAY_GLOBAL void CopyPieces(const unsigned char* from, unsigned char* to, std::int64_t bytes) {
  const std::int64_t pieces = bytes / kBytes;
  const auto* in = reinterpret_cast<const Piece<kBytes>*>(from);
  auto* out = reinterpret_cast<Piece<kBytes>*>(to);
  const std::int64_t first = std::int64_t{Block().x} * kThreads * kAhead + Thread().x;
  Piece<kBytes> held[kAhead];
  ASSAY_UNROLL
  for (int i = 0; i < kAhead; ++i) {
    if (first + i * kThreads < pieces) held[i] = in[first + i * kThreads];
  }
  ASSAY_UNROLL
  for (int i = 0; i < kAhead; ++i) {
    if (first + i * kThreads < pieces) out[first + i * kThreads] = held[i];
  }
  const std::int64_t rest = pieces * kBytes + first;
  if (first < kBytes && rest < bytes) to[rest] = from[rest];
}

template <int kBytes>
ErrorCode LaunchPieces(const void* from, void* to, std::int64_t bytes, Stream stream) {
  constexpr std::int64_t kBlock = std::int64_t{kThreads} * kAhead * kBytes;
  return Launch(CopyPieces<kBytes>,
                Extent{static_cast<unsigned>((bytes + kBlock - 1) / kBlock), 1, 1},
                Extent{kThreads, 1, 1}, 0, stream, static_cast<const unsigned char*>(from),
                static_cast<unsigned char*>(to), bytes);
}

}  // namespace

ErrorCode LaunchCopyBytes(const void* from, void* to, std::int64_t bytes, Stream stream) {
  const bool aligned =
      (reinterpret_cast<std::uintptr_t>(from) | reinterpret_cast<std::uintptr_t>(to)) % 16 == 0;
  return aligned ? LaunchPieces<16>(from, to, bytes, stream)
                 : LaunchPieces<1>(from, to, bytes, stream);
}

}  // namespace assay::kernels::gpu
