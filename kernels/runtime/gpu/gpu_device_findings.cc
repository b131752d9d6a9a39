// What a GPU device finds of tensors that stay on it, a few words each.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "absl/status/status.h"
#include "kernels/runtime/gpu/compare_gpu.h"
#include "kernels/runtime/gpu/gpu_device.h"
#include "kernels/runtime/gpu/kept_gpu.h"
#include "kernels/runtime/gpu/recheck_gpu.h"
#include "kernels/runtime/tensor_check.h"

namespace assay {
namespace {

// What a primitive takes or gives beside its result lies behind it in the scratch memory.
constexpr std::int64_t kBehindResult = 256;
constexpr std::int64_t kRoomBehindResult = gpu::kScratchBytes - kBehindResult;

unsigned char* BehindResult(void* scratch) {
  return static_cast<unsigned char*>(scratch) + kBehindResult;
}

}  // namespace

absl::StatusOr<std::int64_t> GpuDevice::CountDamage(std::span<const TensorView> views) {
  if (absl::Status s = Flush(); !s.ok()) return s;
  auto* count = static_cast<unsigned long long*>(scratch_);
  gpu::ErrorCode code = gpu::Set(scratch_, 0, sizeof(std::int64_t), stream_);
  if (code == gpu::kOk) {
    code = gpu::LaunchCountRanges(GuardBands(), kGuardByte, count, stream_);
  }
  for (const TensorView& view : views) {
    if (absl::Status s = CheckView(view); !s.ok()) return s;
    if (code != gpu::kOk || view.count() == 0 || view.extents.dense()) continue;
    code = gpu::LaunchCountPadding(view, kGuardByte, count, stream_);
  }
  if (absl::Status s = Status(code); !s.ok()) return s;
  return ReadCount();
}

absl::StatusOr<CompareResult> GpuDevice::Compare(const CompareRequest& request) {
  if (absl::Status s = CheckView(request.output); !s.ok()) return s;
  if (request.reference == nullptr && request.output.count() > 0) {
    return absl::InvalidArgumentError("compare has no reference");
  }
  if (absl::Status s = Flush(); !s.ok()) return s;
  if (absl::Status s = Status(gpu::LaunchCompare(request, scratch_, stream_)); !s.ok()) return s;
  const std::int64_t clean = gpu::ComparedBytesOfClean(request);
  if (absl::Status s = ReadScratch(clean); !s.ok()) return s;
  const std::int64_t more = gpu::ComparedBytes(pinned_) - clean;
  if (more > 0) {
    if (absl::Status s = ReadScratch(more, clean); !s.ok()) return s;
  }
  return gpu::UnpackCompared(pinned_, request);
}

absl::StatusOr<TensorDigest> GpuDevice::Digest(const TensorView& view) {
  if (absl::Status s = CheckView(view); !s.ok()) return s;
  if (absl::Status s = Flush(); !s.ok()) return s;
  constexpr std::int64_t kBytes = 4 * sizeof(std::uint64_t);
  gpu::ErrorCode code = gpu::Set(scratch_, 0, kBytes, stream_);
  if (code == gpu::kOk && view.count() > 0) {
    code = gpu::LaunchDigest(view, static_cast<unsigned long long*>(scratch_), stream_);
  }
  if (absl::Status s = Status(code); !s.ok()) return s;
  if (absl::Status s = ReadScratch(kBytes); !s.ok()) return s;
  std::uint64_t sums[4];
  std::memcpy(sums, pinned_, sizeof(sums));
  return TensorDigest{{sums[0], sums[1]}, {sums[2], sums[3]}};
}

// The digest of their digests.
absl::StatusOr<Fingerprint> GpuDevice::FingerprintOf(std::span<const TensorView> views) {
  if (absl::Status s = Flush(); !s.ok()) return s;
  constexpr std::int64_t kWords = 4;
  constexpr std::int64_t kBytes = kWords * sizeof(std::uint64_t);
  const auto n = static_cast<std::int64_t>(views.size());
  if (n * kBytes > kRoomBehindResult) return Device::FingerprintOf(views);
  auto* digests = reinterpret_cast<unsigned long long*>(BehindResult(scratch_));
  gpu::ErrorCode code = gpu::Set(scratch_, 0, kBehindResult + n * kBytes, stream_);
  for (std::size_t i = 0; i < views.size(); ++i) {
    if (absl::Status s = CheckView(views[i]); !s.ok()) return s;
    if (code != gpu::kOk || views[i].count() == 0) continue;
    code = gpu::LaunchDigest(views[i], digests + kWords * i, stream_);
  }
  if (code == gpu::kOk && n > 0) {
    const TensorView all{digests, DType::kF64, Extents::Dense(1, 1, kWords * n)};
    code = gpu::LaunchDigest(all, static_cast<unsigned long long*>(scratch_), stream_);
  }
  if (absl::Status s = Status(code); !s.ok()) return s;
  Fingerprint fingerprint;
  if (absl::Status s = ReadScratch(sizeof fingerprint.words); !s.ok()) return s;
  std::memcpy(fingerprint.words, pinned_, sizeof fingerprint.words);
  return fingerprint;
}

absl::StatusOr<RecheckFindings> GpuDevice::Recheck(const RecheckRequest& request) {
  if (absl::Status s = Flush(); !s.ok()) return s;
  constexpr auto kMost = static_cast<std::size_t>(kRoomBehindResult) / sizeof(HostElement);
  auto* there = reinterpret_cast<HostElement*>(BehindResult(scratch_));
  RecheckFindings all;
  for (std::size_t begin = 0; begin < request.elements.size(); begin += kMost) {
    const auto piece =
        request.elements.subspan(begin, std::min(kMost, request.elements.size() - begin));
    absl::Status s = CopyOn(piece.data(), static_cast<std::int64_t>(piece.size_bytes()), there);
    if (!s.ok()) return s;
    s = Status(gpu::LaunchRecheck(request, there, static_cast<std::int64_t>(piece.size()),
                                  static_cast<RecheckFindings*>(scratch_), stream_));
    if (s.ok()) s = ReadScratch(sizeof(RecheckFindings));
    if (!s.ok()) return s;
    RecheckFindings found;
    std::memcpy(&found, pinned_, sizeof found);
    found.disagreements += all.disagreements;
    found.first += static_cast<std::int64_t>(begin);
    if (all.disagreements == 0) {
      all = found;
    } else {
      all.disagreements = found.disagreements;
    }
  }
  return all;
}

absl::StatusOr<KeptElements> GpuDevice::KeepElements(const KeepRequest& request) {
  const auto n = static_cast<std::int64_t>(request.at.size());
  constexpr auto kIndexBytes = static_cast<std::int64_t>(sizeof(std::int64_t));
  if (n > kMostKept || n * kIndexBytes > kRoomBehindResult) return Device::KeepElements(request);
  if (absl::Status s = CheckView(request.output); !s.ok()) return s;
  if (absl::Status s = Flush(); !s.ok()) return s;
  auto* at = reinterpret_cast<std::int64_t*>(BehindResult(scratch_));
  absl::Status s = CopyOn(request.at.data(), n * kIndexBytes, at);
  if (s.ok()) {
    s = Status(gpu::LaunchKeep(request, at, n, static_cast<KeptElement*>(kept_), stream_));
  }
  if (!s.ok()) return s;
  return KeptElements{n, {}};
}

absl::StatusOr<HeldFindings> GpuDevice::HoldAgainst(const KeptElements& kept,
                                                    const TensorView& output) {
  if (!kept.here.empty()) return Device::HoldAgainst(kept, output);
  if (absl::Status s = CheckView(output); !s.ok()) return s;
  if (absl::Status s = Flush(); !s.ok()) return s;
  absl::Status s =
      Status(gpu::LaunchHold(output, static_cast<const KeptElement*>(kept_), kept.count,
                             static_cast<gpu::HeldCounts*>(scratch_), stream_));
  if (s.ok()) s = ReadScratch(sizeof(gpu::HeldCounts));
  if (!s.ok()) return s;
  gpu::HeldCounts counts;
  std::memcpy(&counts, pinned_, sizeof counts);
  return HeldFindings{static_cast<std::int64_t>(counts.compared),
                      static_cast<std::int64_t>(counts.mismatches),
                      static_cast<std::int64_t>(counts.first), counts.actual, counts.kept};
}

}  // namespace assay
