#include "kernels/runtime/gpu/gpu_device.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/runtime/cpu/strided.h"
#include "kernels/runtime/gpu/checksum_gpu.h"
#include "kernels/runtime/gpu/error_status.h"
#include "kernels/runtime/gpu/spin.h"
#include "kernels/runtime/tensor_check.h"

namespace assay::inline kernels {
namespace {

// How long the device is kept busy before a timed launch: a multiple of the host's time for the
// last one, with limits in seconds.
constexpr double kSpinMargin = 2;
constexpr double kLeastSpin = 20e-6;
constexpr double kMostSpin = 500e-6;

}  // namespace

absl::StatusOr<std::unique_ptr<GpuDevice>> GpuDevice::Make(int ordinal,
                                                           const ArenaOptions& options) {
  int count = 0;
  gpu::ErrorCode code = gpu::DeviceCount(&count);
  if (code != gpu::kOk) return absl::UnavailableError(gpu::Describe(code));
  if (ordinal < 0 || ordinal >= count) {
    return absl::UnavailableError(absl::StrCat("there is no ", gpu::BackendName(), ":", ordinal,
                                               "; this node has ", count, " such device",
                                               count == 1 ? "" : "s"));
  }
  gpu::Properties properties;
  code = gpu::GetProperties(ordinal, &properties);
  if (code != gpu::kOk) return absl::UnavailableError(gpu::Describe(code));
  if (properties.prohibited) {
    return absl::UnavailableError(
        "the device's compute mode is prohibited, so no process may use it");
  }
  std::unique_ptr<GpuDevice> device(new GpuDevice(properties));
  if (absl::Status s = device->Start(ordinal, options); !s.ok()) return s;
  return device;
}

absl::Status GpuDevice::Start(int ordinal, const ArenaOptions& options) {
  const auto unavailable = [](gpu::ErrorCode code) {
    return absl::UnavailableError(gpu::StatusOf(code, "").message());
  };
  gpu::ErrorCode code = gpu::UseDevice(ordinal);
  if (code == gpu::kOk) code = gpu::CreateStream(&stream_);
  if (code == gpu::kOk) code = gpu::CreateEvent(&begin_);
  if (code == gpu::kOk) code = gpu::CreateEvent(&end_);
  if (code == gpu::kOk) code = gpu::Allocate(gpu::kScratchBytes, &scratch_);
  if (code == gpu::kOk)
    code = gpu::Allocate(kKeptBytes + std::int64_t{sizeof(gpu::WatchMemory)}, &kept_);
  if (code == gpu::kOk) code = gpu::AllocateHost(kPinnedBytes, &pinned_);
  // Only the launch of a kernel tells whether there is code for this device.
  if (code == gpu::kOk) code = gpu::LaunchSpin(1, static_cast<float*>(scratch_), stream_);
  if (code == gpu::kOk) code = gpu::Wait(stream_);
  if (code != gpu::kOk) return unavailable(code);
  traffic_.allocations = 2;
  arena_ = std::make_unique<GpuArena>(options);
  info_.id = absl::StrCat(gpu::BackendName(), ":", ordinal);
  info_.backend = gpu::BackendName();
  info_.model = properties_.model;
  info_.memory_bytes = properties_.memory_bytes;
  info_.compute_units = properties_.multiprocessors;
  auto& p = info_.properties;
  p["architecture"] = properties_.architecture;
  p["compiled_for"] = std::string(gpu::Architectures());
  p["wave_width"] = absl::StrCat(properties_.wave_width);
  p["l2_bytes"] = absl::StrCat(properties_.l2_bytes);
  if (!properties_.uuid.empty()) p["uuid"] = properties_.uuid;
  if (!properties_.pci_id.empty()) p["pci_id"] = properties_.pci_id;
  if (properties_.driver_version > 0) {
    p["driver"] = absl::StrCat(properties_.driver_version / 1000, ".",
                               properties_.driver_version % 1000 / 10);
  }
  if (properties_.exclusive) p["compute_mode"] = "exclusive";
  return absl::OkStatus();
}

GpuDevice::~GpuDevice() {
  arena_.reset();
  if (pinned_ != nullptr) (void)gpu::FreeHost(pinned_);
  if (scratch_ != nullptr) (void)gpu::Free(scratch_);
  if (kept_ != nullptr) (void)gpu::Free(kept_);
  if (sweep_ != nullptr) (void)gpu::Free(sweep_);
  if (begin_ != nullptr) (void)gpu::DestroyEvent(begin_);
  if (end_ != nullptr) (void)gpu::DestroyEvent(end_);
  if (stream_ != nullptr) (void)gpu::DestroyStream(stream_);
}

absl::Status GpuDevice::Status(gpu::ErrorCode code) {
  if (!fault_.ok()) return fault_;
  absl::Status status = gpu::StatusOf(code, gpu::IsSticky(code) ? "device fault" : "");
  if (gpu::IsSticky(code)) fault_ = status;
  return status;
}

absl::Status GpuDevice::Flush() {
  if (fills_.empty()) return Status(gpu::kOk);
  const std::vector<gpu::FillJob> jobs = std::move(fills_);
  fills_.clear();
  return Status(gpu::LaunchFills(jobs, stream_));
}

absl::StatusOr<gpu::Stream> GpuDevice::stream() {
  if (absl::Status s = Flush(); !s.ok()) return s;
  return stream_;
}

absl::Status GpuDevice::CopyOff(const void* from, std::int64_t bytes, void* to) {
  absl::Status s = Status(gpu::CopyToHost(to, from, bytes, stream_));
  if (s.ok()) s = Status(gpu::Wait(stream_));
  ++traffic_.copies_off;
  traffic_.bytes_off += bytes;
  return s;
}

absl::Status GpuDevice::CopyOn(const void* from, std::int64_t bytes, void* to) {
  ++traffic_.copies_on;
  traffic_.bytes_on += bytes;
  return Status(gpu::CopyToDevice(to, from, bytes, stream_));
}

Traffic GpuDevice::traffic() const {
  Traffic traffic = traffic_;
  traffic.allocations += arena_->leases();
  return traffic;
}

absl::Status GpuDevice::ReadScratch(std::int64_t bytes, std::int64_t begin) {
  return CopyOff(static_cast<const unsigned char*>(scratch_) + begin, bytes,
                 static_cast<unsigned char*>(pinned_) + begin);
}

absl::StatusOr<std::int64_t> GpuDevice::ReadCount() {
  if (absl::Status s = ReadScratch(sizeof(std::int64_t)); !s.ok()) return s;
  std::int64_t count = 0;
  std::memcpy(&count, pinned_, sizeof(count));
  return count;
}

absl::Status GpuDevice::Fill(const FillSpec& spec, const TensorView& dst) {
  if (absl::Status s = CheckView(dst); !s.ok()) return s;
  if (dst.count() == 0) return Status(gpu::kOk);
  fills_.push_back({spec.pattern, spec.seed, spec.tensor_id, spec.epoch, dst});
  return fills_.size() < gpu::kFillsOfALaunch ? Status(gpu::kOk) : Flush();
}

absl::Status GpuDevice::PoisonTensor(Poison poison, const TensorView& dst) {
  if (absl::Status s = CheckView(dst); !s.ok()) return s;
  if (absl::Status s = Flush(); !s.ok() || dst.count() == 0) return s;
  return Status(gpu::LaunchPoison(poison, dst, stream_));
}

absl::Status GpuDevice::GuardPadding(Poison poison, const TensorView& dst) {
  if (absl::Status s = CheckView(dst); !s.ok()) return s;
  if (dst.count() == 0 || dst.extents.dense()) return Status(gpu::kOk);
  if (absl::Status s = Flush(); !s.ok()) return s;
  return Status(gpu::LaunchGuardPadding(dst, GuardByte(poison), stream_));
}

absl::StatusOr<std::int64_t> GpuDevice::CheckPadding(Poison poison, const TensorView& dst) {
  if (absl::Status s = CheckView(dst); !s.ok()) return s;
  if (dst.count() == 0 || dst.extents.dense()) return 0;
  if (absl::Status s = Flush(); !s.ok()) return s;
  gpu::ErrorCode code = gpu::Set(scratch_, 0, sizeof(std::int64_t), stream_);
  if (code == gpu::kOk) {
    code = gpu::LaunchCountPadding(dst, GuardByte(poison),
                                   static_cast<unsigned long long*>(scratch_), stream_);
  }
  if (absl::Status s = Status(code); !s.ok()) return s;
  return ReadCount();
}

std::vector<gpu::ByteRange> GpuDevice::GuardBands() const {
  std::vector<gpu::ByteRange> bands;
  for (const Block& b : arena_->blocks()) {
    if (!b.guarded) continue;
    auto* data = static_cast<unsigned char*>(b.data);
    bands.push_back({data - kGuardBytes, kGuardBytes});
    bands.push_back({data + b.bytes, kGuardBytes});
  }
  return bands;
}

absl::Status GpuDevice::WriteGuards(Poison poison) {
  if (absl::Status s = Flush(); !s.ok()) return s;
  return Status(gpu::LaunchSetRanges(GuardBands(), GuardByte(poison), stream_));
}

absl::StatusOr<std::int64_t> GpuDevice::CheckGuards(Poison poison) {
  if (absl::Status s = Flush(); !s.ok()) return s;
  gpu::ErrorCode code = gpu::Set(scratch_, 0, sizeof(std::int64_t), stream_);
  if (code == gpu::kOk) {
    code = gpu::LaunchCountRanges(GuardBands(), GuardByte(poison),
                                  static_cast<unsigned long long*>(scratch_), stream_);
  }
  if (absl::Status s = Status(code); !s.ok()) return s;
  return ReadCount();
}

absl::StatusOr<ProbeVectors> GpuDevice::Upload(const ProbeVectors& host, std::int64_t batch,
                                               std::int64_t count) {
  if (host.data == nullptr) return host;
  const std::int64_t bytes =
      ((batch - 1) * host.batch_stride + count) * static_cast<std::int64_t>(sizeof(double));
  const absl::StatusOr<Block> block = arena_->Allocate(bytes, /*guarded=*/false);
  if (!block.ok()) return block.status();
  if (absl::Status s = FromHost(host.data, bytes, block->data); !s.ok()) return s;
  return ProbeVectors{static_cast<const double*>(block->data), host.batch_stride};
}

absl::StatusOr<ChecksumSums> GpuDevice::Checksum(const ChecksumRequest& request) {
  if (absl::Status s = CheckView(request.matrix); !s.ok()) return s;
  const Extents& e = request.matrix.extents;
  if (e.count() == 0)
    return absl::InvalidArgumentError("checksum: the matrix has no elements; at least 1 is needed");
  ChecksumRequest on_device = request;
  const std::int64_t probes = request.probes;
  const struct {
    ProbeVectors* vectors;
    std::int64_t count;
  } all[] = {{&on_device.right, probes * e.cols},
             {&on_device.left, probes * e.rows},
             {&on_device.row_weights, e.cols},
             {&on_device.col_weights, e.rows}};
  for (const auto& [vectors, count] : all) {
    absl::StatusOr<ProbeVectors> there = Upload(*vectors, e.batch, count);
    if (!there.ok()) return there.status();
    *vectors = *there;
  }
  const std::int64_t bytes = gpu::ChecksumResultBytes(on_device);
  const absl::StatusOr<Block> workspace =
      arena_->Allocate(gpu::ChecksumWorkspaceBytes(on_device), /*guarded=*/false);
  if (!workspace.ok()) return workspace.status();
  const absl::StatusOr<Block> result = arena_->Allocate(bytes, /*guarded=*/false);
  if (!result.ok()) return result.status();
  if (absl::Status s = Flush(); !s.ok()) return s;
  std::vector<unsigned char> host(static_cast<std::size_t>(bytes));
  gpu::ErrorCode code = gpu::LaunchChecksum(on_device, workspace->data, result->data, stream_);
  absl::Status s = Status(code);
  if (s.ok()) s = CopyOff(result->data, bytes, host.data());
  if (!s.ok()) return s;
  return gpu::UnpackChecksum(host.data(), on_device);
}

absl::Status GpuDevice::Copy(const TensorView& src, const TensorView& dst) {
  if (absl::Status s = CheckCopy(src, dst); !s.ok()) return s;
  if (absl::Status s = Flush(); !s.ok() || src.count() == 0) return s;
  return Status(gpu::LaunchCopy(src, dst, stream_));
}

// One copy brings the storage from the first element to the last, with the padding between, and the
// host packs it. The caller asks for few elements, or for dense ones.
absl::Status GpuDevice::ToHost(const TensorView& src, std::int64_t begin, std::int64_t count,
                               void* dst) {
  if (absl::Status s = CheckRange(src, begin, count); !s.ok()) return s;
  if (absl::Status s = Flush(); !s.ok() || count == 0) return s;
  const std::int64_t first = OffsetOf(src.extents, begin);
  const std::int64_t last = OffsetOf(src.extents, begin + count - 1);
  // The copy begins at a whole byte: e2m1 packs two elements into one.
  const std::int64_t from = first / 2 * 2;
  const std::int64_t bytes = StorageBytes(src.dtype, last - from + 1);
  const auto* data = static_cast<const unsigned char*>(src.data) + StorageBytes(src.dtype, from);
  const bool direct = from == first && last - first + 1 == count;
  std::vector<unsigned char> storage(direct ? 0 : static_cast<std::size_t>(bytes));
  void* to = direct ? dst : storage.data();
  absl::Status s = CopyOff(data, bytes, to);
  if (!s.ok() || direct) return s;
  std::int64_t done = 0;
  ForEachRun(src.extents, begin, begin + count,
             [&](std::int64_t at, std::int64_t /*logical*/, std::int64_t n) {
               CopyElements(src.dtype, storage.data(), at - from, dst, done, n);
               done += n;
             });
  return absl::OkStatus();
}

absl::Status GpuDevice::FromHost(const void* src, std::int64_t bytes, void* dst) {
  if (absl::Status s = Flush(); !s.ok() || bytes == 0) return s;
  absl::Status s = CopyOn(src, bytes, dst);
  // The caller may change `src` after this call.
  return s.ok() ? Status(gpu::Wait(stream_)) : s;
}

absl::Status GpuDevice::Forget() {
  const std::span<char> memory = arena_->TakeUsed();
  if (memory.empty()) return absl::OkStatus();
  if (absl::Status s = Flush(); !s.ok()) return s;
  return Status(gpu::Set(memory.data(), GuardByte(Poison::kFirst),
                         static_cast<std::int64_t>(memory.size()), stream_));
}

absl::Status GpuDevice::EvictFromCaches(std::span<const TensorView> views) {
  const std::int64_t bytes = 2 * properties_.last_cache_bytes;
  if (bytes <= 0) return Device::EvictFromCaches(views);
  if (absl::Status s = Flush(); !s.ok()) return s;
  const void* swept = arena_->Unused(bytes);
  if (swept == nullptr) {
    if (sweep_ == nullptr) {
      if (absl::Status s = Status(gpu::Allocate(bytes, &sweep_)); !s.ok()) return s;
      ++traffic_.allocations;
    }
    swept = sweep_;
  }
  // The sweep only reads: lines that were written would go to memory during the next launch and
  // change its time.
  return Status(gpu::LaunchSweep(swept, bytes, scratch_, stream_));
}

absl::Status GpuDevice::Synchronize() {
  if (absl::Status s = Flush(); !s.ok()) return s;
  return Status(gpu::Wait(stream_));
}

double GpuDevice::Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

absl::Status GpuDevice::Spin() {
  const double seconds = std::clamp(kSpinMargin * enqueue_seconds_, kLeastSpin, kMostSpin);
  const int rounds = static_cast<int>(seconds / gpu::kSpinRoundSeconds);
  return Status(gpu::LaunchSpin(rounds, static_cast<float*>(scratch_), stream_));
}

absl::StatusOr<double> GpuDevice::TimeLaunch(absl::FunctionRef<absl::Status()> launch) {
  if (absl::Status s = Flush(); !s.ok()) return s;
  if (absl::Status s = Spin(); !s.ok()) return s;
  const double start = Now();
  if (absl::Status s = Status(gpu::Record(begin_, stream_)); !s.ok()) return s;
  if (absl::Status s = launch(); !s.ok()) return s;
  double seconds = 0;
  gpu::ErrorCode code = gpu::Record(end_, stream_);
  enqueue_seconds_ = Now() - start;
  if (code == gpu::kOk) code = gpu::Wait(stream_);
  if (code == gpu::kOk) code = gpu::Elapsed(begin_, end_, &seconds);
  if (absl::Status s = Status(code); !s.ok()) return s;
  return seconds;
}

absl::StatusOr<std::unique_ptr<RecordedLaunch>> GpuDevice::RecordLaunch(
    std::function<absl::Status()> launch) {
  class Graph final : public RecordedLaunch {
   public:
    Graph(GpuDevice& device, gpu::Recording recording, std::shared_ptr<const absl::Status> launched)
        : device_(device), recording_(recording), launched_(std::move(launched)) {}
    ~Graph() override { (void)gpu::DestroyRecording(recording_); }
    absl::Status Launch() override {
      const gpu::ErrorCode code = gpu::Replay(recording_, device_.stream_);
      return launched_->ok() ? device_.Status(code) : *launched_;
    }

   private:
    GpuDevice& device_;
    const gpu::Recording recording_;
    const std::shared_ptr<const absl::Status> launched_;
  };
  if (absl::Status s = Synchronize(); !s.ok()) return s;
  gpu::Recording recording = nullptr;
  const auto launched = std::make_shared<absl::Status>();
  const gpu::ErrorCode code = gpu::RecordWork(
      stream_,
      [launch = std::move(launch), launched] {
        *launched = launch();
        return launched->ok();
      },
      &recording);
  if (code == gpu::kOk) return std::make_unique<Graph>(*this, recording, launched);
  if (gpu::IsSticky(code)) return Status(code);
  // If the work cannot be recorded, that error counts, whatever the kernel's library made of it.
  // Otherwise the launch's own error counts.
  if (!gpu::IsUnrecordable(code) && !launched->ok()) return *launched;
  return gpu::StatusOf(code, "the launch cannot be recorded");
}

}  // namespace assay::kernels
