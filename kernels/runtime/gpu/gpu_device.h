// Implements Device (kernels/runtime/device.h) for a GPU. Everything happens in the order of one
// stream. Small results come back through two pages of pinned memory; checksums and ToHost copy
// larger data. The device takes some memory at its start, beside the arena. Later only
// EvictFromCaches takes more.
//
// Fills are collected and launched together, before any other work is enqueued.
//
// Errors: the toolkit's codes, translated as error_status.h says. A fault of the device (an illegal
// address, for example) stays: the process must end, and a new one must start.
#ifndef ASSAY_KERNELS_RUNTIME_GPU_GPU_DEVICE_H_
#define ASSAY_KERNELS_RUNTIME_GPU_GPU_DEVICE_H_

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "kernels/runtime/device.h"
#include "kernels/runtime/gpu/arena_gpu.h"
#include "kernels/runtime/gpu/handles.h"
#include "kernels/runtime/gpu/host.h"
#include "kernels/runtime/gpu/primitives.h"
#include "kernels/runtime/gpu/watch_gpu.h"
#include "kernels/runtime/replay.h"

namespace assay::inline kernels {

class GpuDevice final : public Device, public LaunchRecorder {
 public:
  // Makes a device. UNAVAILABLE, with the toolkit's message, if the device does not exist, lets no
  // process in, or has an architecture that the kernels are not compiled for. Make changes the
  // calling thread's current device.
  static absl::StatusOr<std::unique_ptr<GpuDevice>> Make(int ordinal, const ArenaOptions& options);
  ~GpuDevice() override;

  const DeviceInfo& info() const override { return info_; }
  const DeviceReferences* references() const override { return references_.get(); }
  // Sets the references of operators, which run on this device's stream. The backend calls it,
  // because this class does not know operators.
  void set_references(std::shared_ptr<const DeviceReferences> references) {
    references_ = std::move(references);
  }
  Arena& arena() override { return *arena_; }
  absl::Status Forget() override;

  absl::Status Fill(const FillSpec& spec, const TensorView& dst) override;
  absl::Status PoisonTensor(Poison poison, const TensorView& dst) override;
  absl::Status GuardPadding(Poison poison, const TensorView& dst) override;
  absl::StatusOr<std::int64_t> CheckPadding(Poison poison, const TensorView& dst) override;
  absl::Status WriteGuards(Poison poison) override;
  absl::StatusOr<std::int64_t> CheckGuards(Poison poison) override;
  absl::StatusOr<std::int64_t> CountDamage(Poison poison,
                                           std::span<const TensorView> views) override;
  absl::StatusOr<CompareResult> Compare(const CompareRequest& request) override;
  // Small requests share launches of up to gpu::kComparesOfALaunch. Their sums may be rounded
  // differently from Compare's, but they do not depend on the other requests.
  absl::StatusOr<std::vector<CompareResult>> CompareAll(
      std::span<const CompareRequest> requests) override;
  absl::StatusOr<ResidualSums> Residuals(const ResidualRequest& request) override;
  bool tells_precision() const override { return true; }
  // Vectors, workspace and result take blocks of the arena, which stay until its next Reset.
  absl::StatusOr<ChecksumSums> Checksum(const ChecksumRequest& request) override;
  absl::StatusOr<TensorDigest> Digest(const TensorView& view) override;
  absl::StatusOr<Fingerprint> FingerprintOf(std::span<const TensorView> views) override;
  absl::StatusOr<std::vector<Fingerprint>> FingerprintsOf(
      std::span<const std::vector<TensorView>> groups) override;
  absl::StatusOr<RecheckFindings> Recheck(const RecheckRequest& request) override;
  // With more than kMostKept elements, the values are read and compared on the host.
  absl::StatusOr<KeptElements> KeepElements(const KeepRequest& request) override;
  absl::StatusOr<HeldFindings> HoldAgainst(const KeptElements& kept,
                                           const TensorView& output) override;
  static constexpr std::int64_t kMostKept = 1 << 19;
  absl::StatusOr<std::unique_ptr<OutputWatch>> WatchOutputs(
      const TensorView& output, const std::optional<TensorDigest>& known) override;
  absl::Status Copy(const TensorView& src, const TensorView& dst) override;
  absl::Status ToHost(const TensorView& src, std::int64_t begin, std::int64_t count,
                      void* dst) override;
  absl::Status FromHost(const void* src, std::int64_t bytes, void* dst) override;
  bool shares_launches() const override { return true; }
  Traffic traffic() const override;
  absl::Status health() const override { return fault_; }
  // Reads memory of twice the size of the last cache: part of the arena that no block holds. If
  // there is not enough, it reads a block of its own, which the first such call takes and keeps.
  absl::Status EvictFromCaches(std::span<const TensorView> views) override;
  absl::Status Synchronize() override;
  double Now() override;
  // The device is kept busy until the host has enqueued the launch, so that the time before its
  // first kernel contains no work of the host.
  absl::StatusOr<double> TimeLaunch(absl::FunctionRef<absl::Status()> launch) override;
  // UNIMPLEMENTED if the launch does something that a recording stream does not allow. If the
  // launch itself fails, its status.
  absl::StatusOr<std::unique_ptr<RecordedLaunch>> RecordLaunch(
      std::function<absl::Status()> launch) override;

  // The stream for kernels under test and references. All fills that wait are launched on it first.
  absl::StatusOr<gpu::Stream> stream();
  // kScratchBytes of device memory for the partial results of one launch.
  void* scratch() const { return scratch_; }
  const gpu::Properties& properties() const { return properties_; }

 private:
  // The most bytes that one primitive returns.
  static constexpr std::int64_t kPinnedBytes = 8192;
  static constexpr std::int64_t kKeptBytes = kMostKept * std::int64_t{sizeof(KeptElement)};

  explicit GpuDevice(const gpu::Properties& properties) : properties_(properties) {}
  absl::Status Start(int ordinal, const ArenaOptions& options);
  // Translates a toolkit's code to a status, and remembers the first sticky code.
  absl::Status Status(gpu::ErrorCode code);
  absl::Status Flush();  // launches the waiting fills
  absl::Status Spin();   // keeps the device busy for the host's enqueue time
  absl::Status CopyOff(const void* from, std::int64_t bytes, void* to);  // waits
  absl::Status CopyOn(const void* from, std::int64_t bytes, void* to);
  // Copies bytes of the scratch memory to the same place in the pinned memory, after all earlier
  // work is done.
  absl::Status ReadScratch(std::int64_t bytes, std::int64_t begin = 0);
  absl::StatusOr<std::int64_t> ReadCount();
  // `requests` are small and fit into one launch.
  absl::StatusOr<std::vector<CompareResult>> CompareTogether(
      std::span<const CompareRequest> requests);
  std::vector<gpu::ByteRange> GuardBands() const;
  // The memory of a watch. The kept elements before it take kKeptBytes.
  gpu::WatchMemory* watch_memory() const;
  // Copies host vectors of `count` doubles for each matrix to the device. Null vectors stay null.
  absl::StatusOr<ProbeVectors> Upload(const ProbeVectors& host, std::int64_t batch,
                                      std::int64_t count);

  const gpu::Properties properties_;
  DeviceInfo info_;
  std::shared_ptr<const DeviceReferences> references_;
  gpu::Stream stream_ = nullptr;
  gpu::Event begin_ = nullptr;
  gpu::Event end_ = nullptr;
  void* scratch_ = nullptr;  // device memory
  void* pinned_ = nullptr;   // host memory
  void* kept_ = nullptr;     // device memory, for kMostKept elements and a watch behind them
  void* sweep_ = nullptr;    // device memory, twice the last cache
  Traffic traffic_;          // without the arena's
  std::unique_ptr<GpuArena> arena_;
  std::vector<gpu::FillJob> fills_;
  absl::Status fault_;              // the first sticky error
  double enqueue_seconds_ = 50e-6;  // the host's time for the last timed launch
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_RUNTIME_GPU_GPU_DEVICE_H_
