#include "kernels/runtime/cpu/cpu_device.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/numerics/poison.h"
#include "kernels/runtime/cpu/checksum_cpu.h"
#include "kernels/runtime/cpu/compare_cpu.h"
#include "kernels/runtime/cpu/cpu_info.h"
#include "kernels/runtime/cpu/digest_cpu.h"
#include "kernels/runtime/cpu/fill_cpu.h"
#include "kernels/runtime/cpu/padding.h"
#include "kernels/runtime/cpu/parallel.h"
#include "kernels/runtime/cpu/strided.h"

namespace assay {
namespace {

// Elements below which a copy is not worth a second thread.
constexpr std::int64_t kCopyGrain = 64 << 10;

}  // namespace

absl::Status CheckView(const TensorView& view) {
  const Extents& e = view.extents;
  if (Info(view.dtype).storage_bits == 0) {
    return absl::InvalidArgumentError("tensor's dtype is unspecified; it must be a format");
  }
  if (e.batch < 0 || e.rows < 0 || e.cols < 0) {
    return absl::InvalidArgumentError(absl::StrCat("extents ", e.batch, "x", e.rows, "x", e.cols,
                                                   " are negative; each must be >= 0"));
  }
  if (e.count() == 0) return absl::OkStatus();
  if (e.rows > 1 && e.ld < e.cols) {
    return absl::InvalidArgumentError(absl::StrCat("ld = ", e.ld, " is less than cols = ", e.cols));
  }
  if (e.batch > 1 && e.batch_stride < (e.rows - 1) * e.ld + e.cols) {
    return absl::InvalidArgumentError(absl::StrCat("batch_stride = ", e.batch_stride,
                                                   " is less than a matrix's ",
                                                   (e.rows - 1) * e.ld + e.cols, " elements"));
  }
  if (view.data == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor of ", e.count(), " elements has no data"));
  }
  return absl::OkStatus();
}

CpuDevice::CpuDevice(int ordinal, const ArenaOptions& options)
    : info_(ReadCpuInfo(ordinal)), arena_(options, info_.memory_bytes) {}

absl::Status CpuDevice::Fill(const FillSpec& spec, const TensorView& dst) {
  if (absl::Status s = CheckView(dst); !s.ok()) return s;
  FillCpu(spec, dst);
  return absl::OkStatus();
}

absl::Status CpuDevice::PoisonTensor(Poison poison, const TensorView& dst) {
  if (absl::Status s = CheckView(dst); !s.ok()) return s;
  FillCode(PoisonBits(dst.dtype, poison == Poison::kSecond), dst);
  return absl::OkStatus();
}

absl::Status CpuDevice::GuardPadding(const TensorView& dst) {
  if (absl::Status s = CheckView(dst); !s.ok()) return s;
  WritePadding(dst);
  return absl::OkStatus();
}

absl::StatusOr<std::int64_t> CpuDevice::CheckPadding(const TensorView& dst) {
  if (absl::Status s = CheckView(dst); !s.ok()) return s;
  return CountPaddingDamage(dst);
}

absl::Status CpuDevice::WriteGuards() {
  WriteGuardBands(arena_.blocks());
  return absl::OkStatus();
}

absl::StatusOr<std::int64_t> CpuDevice::CheckGuards() { return CountGuardDamage(arena_.blocks()); }

absl::StatusOr<CompareResult> CpuDevice::Compare(const CompareRequest& request) {
  if (absl::Status s = CheckView(request.output); !s.ok()) return s;
  return CompareCpu(request);
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
  if (absl::Status s = CheckView(src); !s.ok()) return s;
  if (absl::Status s = CheckView(dst); !s.ok()) return s;
  if (src.dtype != dst.dtype || src.count() != dst.count()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "copy of ", src.count(), " ", std::string(Name(src.dtype)), " elements to ", dst.count(),
        " ", std::string(Name(dst.dtype)), " ones; counts and formats must be the same"));
  }
  // Ranges of an even number of elements, so that no two threads share a byte of
  // dense e2m1 data.
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
  if (absl::Status s = CheckView(src); !s.ok()) return s;
  if (begin < 0 || count < 0 || begin > src.count() - count) {
    return absl::InvalidArgumentError(absl::StrCat("elements [", begin, ", ", begin + count,
                                                   ") are not within the tensor's ", src.count()));
  }
  PackElements(src, begin, count, dst);
  return absl::OkStatus();
}

absl::Status CpuDevice::FromHost(const void* src, std::int64_t bytes, void* dst) {
  if (bytes > 0) std::memcpy(dst, src, static_cast<std::size_t>(bytes));
  return absl::OkStatus();
}

absl::Status CpuDevice::Synchronize() { return absl::OkStatus(); }

double CpuDevice::Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::unique_ptr<Device> MakeCpuDevice(int ordinal, const ArenaOptions& options) {
  return std::make_unique<CpuDevice>(ordinal, options);
}

}  // namespace assay
