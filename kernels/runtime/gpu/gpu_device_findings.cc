// The comparisons and digests of a GPU device: the tensors stay on it, and only a few words come
// back.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "kernels/runtime/gpu/compare_gpu.h"
#include "kernels/runtime/gpu/gpu_device.h"
#include "kernels/runtime/gpu/kept_gpu.h"
#include "kernels/runtime/gpu/recheck_gpu.h"
#include "kernels/runtime/gpu/residuals_gpu.h"
#include "kernels/runtime/tensor_check.h"

namespace assay::inline kernels {
namespace {

// Other inputs and outputs of a primitive lie behind its result in the scratch memory.
constexpr std::int64_t kBehindResult = 256;
constexpr std::int64_t kRoomBehindResult = gpu::kScratchBytes - kBehindResult;

// The digests of tensors, raw and canonical, lie in the scratch memory behind the digests of their
// groups.
constexpr std::int64_t kDigestWords = 4;
constexpr std::int64_t kDigestBytes = kDigestWords * sizeof(std::uint64_t);
constexpr std::int64_t kMostGroups = 64;
constexpr std::int64_t kMostDigests = gpu::kScratchBytes / kDigestBytes - kMostGroups;

unsigned char* BehindResult(void* scratch) {
  return static_cast<unsigned char*>(scratch) + kBehindResult;
}

absl::Status CheckCompare(const CompareRequest& request) {
  if (absl::Status s = CheckView(request.output); !s.ok()) return s;
  if (request.reference == nullptr && request.output.count() > 0) {
    return absl::InvalidArgumentError(
        "compare: reference is null; it must hold the expected values");
  }
  return absl::OkStatus();
}

absl::Status CheckResiduals(const ResidualRequest& request) {
  if (absl::Status s = CheckView(request.output); !s.ok()) return s;
  if (request.reference == nullptr || request.deviation == nullptr) {
    return absl::InvalidArgumentError("residuals need the reference and the deviations");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::int64_t> GpuDevice::CountDamage(Poison poison,
                                                    std::span<const TensorView> views) {
  if (absl::Status s = Flush(); !s.ok()) return s;
  auto* count = static_cast<unsigned long long*>(scratch_);
  gpu::ErrorCode code = gpu::Set(scratch_, 0, sizeof(std::int64_t), stream_);
  if (code == gpu::kOk) {
    code = gpu::LaunchCountRanges(GuardBands(), GuardByte(poison), count, stream_);
  }
  for (const TensorView& view : views) {
    if (absl::Status s = CheckView(view); !s.ok()) return s;
    if (code != gpu::kOk || view.count() == 0 || view.extents.dense()) continue;
    code = gpu::LaunchCountPadding(view, GuardByte(poison), count, stream_);
  }
  if (absl::Status s = Status(code); !s.ok()) return s;
  return ReadCount();
}

absl::StatusOr<CompareResult> GpuDevice::Compare(const CompareRequest& request) {
  if (absl::Status s = CheckCompare(request); !s.ok()) return s;
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

absl::StatusOr<std::vector<CompareResult>> GpuDevice::CompareTogether(
    std::span<const CompareRequest> requests) {
  static_assert(gpu::kSmallBytes <= kPinnedBytes);
  if (absl::Status s = Flush(); !s.ok()) return s;
  absl::Status s = Status(gpu::LaunchSmallCompares(requests, scratch_, stream_));
  const auto n = static_cast<int>(requests.size());
  if (s.ok()) s = ReadScratch(gpu::SmallHeadAt(n));
  std::vector<CompareResult> results;
  for (int i = 0; s.ok() && i < n; ++i) {
    auto* pinned = static_cast<unsigned char*>(pinned_);
    const unsigned char* head = pinned + gpu::SmallHeadAt(i);
    unsigned char* packed = pinned + gpu::SmallResultAt(i);
    std::memcpy(packed, head, gpu::kSmallHeadBytes);
    const std::int64_t more = gpu::ComparedBytes(head) - gpu::kSmallHeadBytes;
    if (more > 0) s = ReadScratch(more, gpu::SmallResultAt(i) + gpu::kSmallHeadBytes);
    results.push_back(gpu::UnpackCompared(packed, requests[static_cast<std::size_t>(i)]));
  }
  if (!s.ok()) return s;
  return results;
}

absl::StatusOr<std::vector<CompareResult>> GpuDevice::CompareAll(
    std::span<const CompareRequest> requests) {
  std::vector<CompareResult> results(requests.size());
  std::vector<CompareRequest> together;
  std::vector<std::size_t> places;  // where their results go
  const auto compare = [&]() -> absl::Status {
    if (together.empty()) return absl::OkStatus();
    absl::StatusOr<std::vector<CompareResult>> found = CompareTogether(together);
    if (!found.ok()) return found.status();
    for (std::size_t i = 0; i < places.size(); ++i) results[places[i]] = std::move((*found)[i]);
    together.clear();
    places.clear();
    return absl::OkStatus();
  };
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (absl::Status s = CheckCompare(requests[i]); !s.ok()) return s;
    if (requests[i].output.count() > gpu::kSmallCompare) {
      absl::StatusOr<CompareResult> one = Compare(requests[i]);
      if (!one.ok()) return one.status();
      results[i] = *std::move(one);
      continue;
    }
    together.push_back(requests[i]);
    places.push_back(i);
    if (together.size() < gpu::kComparesOfALaunch) continue;
    if (absl::Status s = compare(); !s.ok()) return s;
  }
  if (absl::Status s = compare(); !s.ok()) return s;
  return results;
}

absl::StatusOr<ResidualSums> GpuDevice::Residuals(const ResidualRequest& request) {
  if (absl::Status s = CheckResiduals(request); !s.ok()) return s;
  ResidualSums sums;
  if (request.output.count() == 0) return sums;
  if (absl::Status s = Flush(); !s.ok()) return s;
  if (absl::Status s = Status(gpu::LaunchResiduals(request, scratch_, stream_)); !s.ok()) return s;
  if (absl::Status s = ReadScratch(sizeof sums); !s.ok()) return s;
  std::memcpy(static_cast<void*>(&sums), pinned_, sizeof sums);
  return sums;
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

absl::StatusOr<Fingerprint> GpuDevice::FingerprintOf(std::span<const TensorView> views) {
  if (static_cast<std::int64_t>(views.size()) > kMostDigests) return Device::FingerprintOf(views);
  const std::vector<TensorView> group(views.begin(), views.end());
  const absl::StatusOr<std::vector<Fingerprint>> one = FingerprintsOf({&group, 1});
  if (!one.ok()) return one.status();
  return one->front();
}

// The fingerprint of a group is the digest of its tensors' digests. These lie behind the results.
absl::StatusOr<std::vector<Fingerprint>> GpuDevice::FingerprintsOf(
    std::span<const std::vector<TensorView>> groups) {
  std::size_t views = 0;
  for (const std::vector<TensorView>& group : groups) views += group.size();
  const auto n = static_cast<std::int64_t>(groups.size());
  static_assert(kMostGroups * kDigestBytes <= kPinnedBytes);
  if (n == 0 || n > kMostGroups || static_cast<std::int64_t>(views) > kMostDigests) {
    return Device::FingerprintsOf(groups);
  }
  if (absl::Status s = Flush(); !s.ok()) return s;
  auto* result = static_cast<unsigned long long*>(scratch_);
  auto* digest = result + kMostGroups * kDigestWords;
  gpu::ErrorCode code = gpu::Set(
      scratch_, 0, (kMostGroups + static_cast<std::int64_t>(views)) * kDigestBytes, stream_);
  for (const std::vector<TensorView>& group : groups) {
    const TensorView all{
        digest, DType::kF64,
        Extents::Dense(1, 1, kDigestWords * static_cast<std::int64_t>(group.size()))};
    for (const TensorView& view : group) {
      if (absl::Status s = CheckView(view); !s.ok()) return s;
      if (code == gpu::kOk) code = gpu::LaunchDigest(view, digest, stream_);
      digest += kDigestWords;
    }
    if (code == gpu::kOk) code = gpu::LaunchDigest(all, result, stream_);
    result += kDigestWords;
  }
  if (absl::Status s = Status(code); !s.ok()) return s;
  // The last group needs only its raw digest.
  if (absl::Status s = ReadScratch(n * kDigestBytes - kDigestBytes / 2); !s.ok()) return s;
  std::vector<Fingerprint> fingerprints(groups.size());
  for (std::size_t i = 0; i < groups.size(); ++i) {
    auto& words = fingerprints[i].words;
    std::memcpy(words, static_cast<const unsigned char*>(pinned_) + i * kDigestBytes, sizeof words);
  }
  return fingerprints;
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
  // The caller may change `request.at` after this call.
  if (s.ok()) s = Status(gpu::Wait(stream_));
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

gpu::WatchMemory* GpuDevice::watch_memory() const {
  return reinterpret_cast<gpu::WatchMemory*>(static_cast<unsigned char*>(kept_) + kKeptBytes);
}

absl::StatusOr<std::unique_ptr<OutputWatch>> GpuDevice::WatchOutputs(
    const TensorView& output, const std::optional<TensorDigest>& known) {
  class Watch final : public OutputWatch {
   public:
    Watch(GpuDevice& device, const internal::WatchSlots& slots) : device_(device), slots_(slots) {}
    absl::Status Look(const TensorView& seen) override {
      if (absl::Status s = CheckView(seen); !s.ok()) return s;
      if (absl::Status s = device_.Flush(); !s.ok()) return s;
      return device_.Status(gpu::LaunchLook(seen, slots_, device_.watch_memory(), device_.stream_));
    }
    absl::StatusOr<WatchFindings> Findings() override {
      internal::WatchState state;
      absl::Status s =
          device_.CopyOff(&device_.watch_memory()->state, sizeof state, device_.pinned_);
      if (!s.ok()) return s;
      std::memcpy(&state, device_.pinned_, sizeof state);
      return internal::FindingsOf(state, slots_);
    }

   private:
    GpuDevice& device_;
    const internal::WatchSlots slots_;
  };
  if (absl::Status s = CheckView(output); !s.ok()) return s;
  const internal::WatchSlots slots = internal::AllocateSlots(*arena_, output);
  if (absl::Status s = Flush(); !s.ok()) return s;
  const gpu::ErrorCode code =
      gpu::LaunchBeginWatch(known ? known->raw : nullptr, watch_memory(), stream_);
  if (absl::Status s = Status(code); !s.ok()) return s;
  return std::make_unique<Watch>(*this, slots);
}

}  // namespace assay::kernels
