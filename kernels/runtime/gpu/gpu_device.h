// A GPU as a device: see kernels/runtime/device.h for the interface. One stream, in
// whose order everything happens; results come back through two pages of pinned memory,
// and nothing else leaves the device but what ToHost is asked for. Some device memory is
// taken at its start, beside the arena; none later but what EvictFromCaches says.
//
// Fills are gathered and launched together, before whatever else is enqueued next.
//
// Errors: the toolkit's codes as error_status.h has them. A fault of the device (an illegal
// address, say) stays: the process must end, and a new one start.
#ifndef ASSAY_KERNELS_RUNTIME_GPU_GPU_DEVICE_H_
#define ASSAY_KERNELS_RUNTIME_GPU_GPU_DEVICE_H_

#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "kernels/runtime/device.h"
#include "kernels/runtime/gpu/arena_gpu.h"
#include "kernels/runtime/gpu/handles.h"
#include "kernels/runtime/gpu/host.h"
#include "kernels/runtime/gpu/primitives.h"
#include "kernels/runtime/replay.h"

namespace assay {

class GpuDevice final : public Device, public LaunchRecorder {
 public:
  // UNAVAILABLE where the device is not there, lets no process in or is none that the
  // kernels are compiled for; the message is the toolkit's. Takes the calling thread's
  // current device.
  static absl::StatusOr<std::unique_ptr<GpuDevice>> Make(int ordinal, const ArenaOptions& options);
  ~GpuDevice() override;

  const DeviceInfo& info() const override { return info_; }
  const DeviceReferences* references() const override { return references_.get(); }
  // Given by whoever knows operators, which run on this device's stream.
  void set_references(std::shared_ptr<const DeviceReferences> references) {
    references_ = std::move(references);
  }
  Arena& arena() override { return *arena_; }

  absl::Status Fill(const FillSpec& spec, const TensorView& dst) override;
  absl::Status PoisonTensor(Poison poison, const TensorView& dst) override;
  absl::Status GuardPadding(const TensorView& dst) override;
  absl::StatusOr<std::int64_t> CheckPadding(const TensorView& dst) override;
  absl::Status WriteGuards() override;
  absl::StatusOr<std::int64_t> CheckGuards() override;
  absl::StatusOr<std::int64_t> CountDamage(std::span<const TensorView> views) override;
  absl::StatusOr<CompareResult> Compare(const CompareRequest& request) override;
  // Small ones in launches of up to gpu::kComparesOfALaunch; their sums may be rounded otherwise
  // than Compare's, but whatever others they are compared with they are the same.
  absl::StatusOr<std::vector<CompareResult>> CompareAll(
      std::span<const CompareRequest> requests) override;
  // Vectors, workspace and result take blocks of the arena until its next Reset.
  absl::StatusOr<ChecksumSums> Checksum(const ChecksumRequest& request) override;
  absl::StatusOr<TensorDigest> Digest(const TensorView& view) override;
  absl::StatusOr<Fingerprint> FingerprintOf(std::span<const TensorView> views) override;
  absl::StatusOr<std::vector<Fingerprint>> FingerprintsOf(
      std::span<const std::vector<TensorView>> groups) override;
  absl::StatusOr<RecheckFindings> Recheck(const RecheckRequest& request) override;
  // Beyond kMostKept elements all of them are read, and held against others here.
  absl::StatusOr<KeptElements> KeepElements(const KeepRequest& request) override;
  absl::StatusOr<HeldFindings> HoldAgainst(const KeptElements& kept,
                                           const TensorView& output) override;
  static constexpr std::int64_t kMostKept = 1 << 19;
  absl::Status Copy(const TensorView& src, const TensorView& dst) override;
  absl::Status ToHost(const TensorView& src, std::int64_t begin, std::int64_t count,
                      void* dst) override;
  absl::Status FromHost(const void* src, std::int64_t bytes, void* dst) override;
  bool shares_launches() const override { return true; }
  Traffic traffic() const override;
  absl::Status health() const override { return fault_; }
  // Reads twice the last cache of the arena that no block holds; where there is not so much,
  // of a block of its own, which is taken at the first such call and kept.
  absl::Status EvictFromCaches(std::span<const TensorView> views) override;
  absl::Status Synchronize() override;
  double Now() override;
  // The device is kept busy until the host has enqueued the launch, so that the time before
  // its first kernel is none of the host's.
  absl::StatusOr<double> TimeLaunch(absl::FunctionRef<absl::Status()> launch) override;
  // UNIMPLEMENTED for what a stream that records does not allow; where the launch itself
  // fails, its status.
  absl::StatusOr<std::unique_ptr<RecordedLaunch>> RecordLaunch(
      std::function<absl::Status()> launch) override;

  // The stream that kernels under test and references are enqueued on, with all fills
  // before them on it already.
  absl::StatusOr<gpu::Stream> stream();
  // kScratchBytes of device memory for one launch's partial results.
  void* scratch() const { return scratch_; }
  const gpu::Properties& properties() const { return properties_; }

 private:
  // What comes back of one primitive at most [bytes].
  static constexpr std::int64_t kPinnedBytes = 8192;

  explicit GpuDevice(const gpu::Properties& properties) : properties_(properties) {}
  absl::Status Start(int ordinal, const ArenaOptions& options);
  // The status of a toolkit's code; remembers one that is sticky.
  absl::Status Status(gpu::ErrorCode code);
  absl::Status Flush();  // launches the fills that wait
  absl::Status Spin();   // for as long as the host takes to enqueue what it enqueued last
  absl::Status CopyOff(const void* from, std::int64_t bytes, void* to);  // waits
  absl::Status CopyOn(const void* from, std::int64_t bytes, void* to);
  // Bytes of the scratch memory, to the same place of the pinned, once all before is done.
  absl::Status ReadScratch(std::int64_t bytes, std::int64_t begin = 0);
  absl::StatusOr<std::int64_t> ReadCount();
  // `requests` are small, and as many as one launch takes at most.
  absl::StatusOr<std::vector<CompareResult>> CompareTogether(
      std::span<const CompareRequest> requests);
  std::vector<gpu::ByteRange> GuardBands() const;
  // Host vectors of `count` doubles a matrix as device vectors; none stays none.
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
  void* kept_ = nullptr;     // device memory, for kMostKept elements
  void* sweep_ = nullptr;    // device memory, twice the last cache
  Traffic traffic_;          // but for the arena's
  std::unique_ptr<GpuArena> arena_;
  std::vector<gpu::FillJob> fills_;
  absl::Status fault_;              // the first sticky one
  double enqueue_seconds_ = 50e-6;  // the host's time for the launch that was timed last
};

}  // namespace assay

#endif  // ASSAY_KERNELS_RUNTIME_GPU_GPU_DEVICE_H_
