#include "kernels/runtime/cpu/cpu_device.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/numerics/poison.h"
#include "kernels/runtime/cpu/checksum_cpu.h"
#include "kernels/runtime/cpu/compare_cpu.h"
#include "kernels/runtime/cpu/cpu_info.h"
#include "kernels/runtime/cpu/digest_cpu.h"
#include "kernels/runtime/cpu/evict.h"
#include "kernels/runtime/cpu/fill_cpu.h"
#include "kernels/runtime/cpu/padding.h"
#include "kernels/runtime/cpu/parallel.h"
#include "kernels/runtime/cpu/residuals_cpu.h"
#include "kernels/runtime/cpu/strided.h"
#include "kernels/runtime/tensor_check.h"

namespace assay::inline kernels {
namespace {

// A copy of fewer elements is not worth a second thread.
constexpr std::int64_t kCopyGrain = 64 << 10;

}  // namespace

CpuDevice::CpuDevice(DeviceInfo info, const ArenaOptions& options)
    : info_(std::move(info)), arena_(options, info_.memory_bytes) {}

absl::Status CpuDevice::Fill(const FillSpec& spec, const TensorView& dst) {
  if (absl::Status s = CheckView(dst); !s.ok()) return s;
  FillCpu(spec, dst);
  return absl::OkStatus();
}

absl::Status CpuDevice::PoisonTensor(Poison poison, const TensorView& dst) {
  if (absl::Status s = CheckView(dst); !s.ok()) return s;
  FillCode(PoisonBits(dst.dtype, poison), dst);
  return absl::OkStatus();
}

absl::Status CpuDevice::GuardPadding(Poison poison, const TensorView& dst) {
  if (absl::Status s = CheckView(dst); !s.ok()) return s;
  WritePadding(GuardByte(poison), dst);
  return absl::OkStatus();
}

absl::StatusOr<std::int64_t> CpuDevice::CheckPadding(Poison poison, const TensorView& dst) {
  if (absl::Status s = CheckView(dst); !s.ok()) return s;
  return CountPaddingDamage(GuardByte(poison), dst);
}

absl::Status CpuDevice::WriteGuards(Poison poison) {
  WriteGuardBands(GuardByte(poison), arena_.blocks());
  return absl::OkStatus();
}

absl::StatusOr<std::int64_t> CpuDevice::CheckGuards(Poison poison) {
  return CountGuardDamage(GuardByte(poison), arena_.blocks());
}

absl::StatusOr<CompareResult> CpuDevice::Compare(const CompareRequest& request) {
  if (absl::Status s = CheckView(request.output); !s.ok()) return s;
  return CompareCpu(request);
}

absl::StatusOr<ResidualSums> CpuDevice::Residuals(const ResidualRequest& request) {
  return ResidualsCpu(request);
}

absl::StatusOr<ChecksumSums> CpuDevice::Checksum(const ChecksumRequest& request) {
  if (absl::Status s = CheckView(request.matrix); !s.ok()) return s;
  return ChecksumCpu(request);
}

absl::StatusOr<TensorDigest> CpuDevice::Digest(const TensorView& view) {
  if (absl::Status s = CheckView(view); !s.ok()) return s;
  return DigestCpu(view);
}

absl::Status CpuDevice::Copy(const TensorView& src, const TensorView& dst) {
  if (absl::Status s = CheckCopy(src, dst); !s.ok()) return s;
  // Ranges have an even number of elements, so that no two threads share a byte of dense e2m1 data.
  constexpr std::int64_t kUnit = 2;
  const std::int64_t count = src.count();
  ParallelFor((count + kUnit - 1) / kUnit, kCopyGrain / kUnit,
              [&](std::int64_t first, std::int64_t last) {
                ForEachRun(dst.extents, first * kUnit, std::min(last * kUnit, count),
                           [&](std::int64_t to, std::int64_t logical, std::int64_t n) {
                             ForEachRun(src.extents, logical, logical + n,
                                        [&](std::int64_t from, std::int64_t at, std::int64_t m) {
                                          CopyElements(src.dtype, src.data, from, dst.data,
                                                       to + (at - logical), m);
                                        });
                           });
              });
  return absl::OkStatus();
}

absl::Status CpuDevice::ToHost(const TensorView& src, std::int64_t begin, std::int64_t count,
                               void* dst) {
  if (absl::Status s = CheckRange(src, begin, count); !s.ok()) return s;
  PackElements(src, begin, count, dst);
  return absl::OkStatus();
}

absl::Status CpuDevice::FromHost(const void* src, std::int64_t bytes, void* dst) {
  if (bytes > 0) std::memcpy(dst, src, static_cast<std::size_t>(bytes));
  return absl::OkStatus();
}

absl::Status CpuDevice::EvictFromCaches(std::span<const TensorView> views) {
  if (!CanEvictLines()) return Device::EvictFromCaches(views);
  for (const TensorView& view : views) EvictLines(view.data, view.bytes());
  return absl::OkStatus();
}

absl::Status CpuDevice::Synchronize() { return absl::OkStatus(); }

double CpuDevice::Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::unique_ptr<Device> MakeCpuDevice(int ordinal, const ArenaOptions& options) {
  return std::make_unique<CpuDevice>(ReadCpuInfo(ordinal), options);
}

std::unique_ptr<Device> MakeEmulatedDevice(const ArenaOptions& options) {
  DeviceInfo info = ReadCpuInfo(0);
  info.id = "simt:0";
  info.backend = "simt";
  info.model = absl::StrCat("SIMT emulator on ", info.model);
  return std::make_unique<CpuDevice>(std::move(info), options);
}

}  // namespace assay::kernels
