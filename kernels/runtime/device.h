// Describes a device: its memory, its one stream of work, and the data-parallel operations that
// validation needs. Everything above (ops, providers, validate, bench) uses this interface; each
// backend implements it.
//
// Ownership: a Device owns its arena. Views and blocks are valid until Arena::Reset or Release.
// Threads: one thread drives a device.
//
// Errors: RESOURCE_EXHAUSTED if memory does not suffice, UNIMPLEMENTED if the backend does not have
// an operation for a format, INTERNAL for a fault of the device.
#ifndef ASSAY_KERNELS_RUNTIME_DEVICE_H_
#define ASSAY_KERNELS_RUNTIME_DEVICE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/numerics/pattern.h"
#include "kernels/numerics/poison.h"
#include "kernels/runtime/arena.h"
#include "kernels/runtime/checksum.h"
#include "kernels/runtime/compare.h"
#include "kernels/runtime/kept_elements.h"
#include "kernels/runtime/output_watch.h"
#include "kernels/runtime/recheck.h"
#include "kernels/runtime/residuals.h"
#include "kernels/runtime/tensor.h"

namespace assay::inline kernels {

struct DeviceInfo {
  std::string id;                                 // "cpu:0"
  std::string backend;                            // "cpu"
  std::string model;                              // "AMD EPYC 9755"
  std::int64_t memory_bytes = 0;                  // installed
  int compute_units = 0;                          // cores or multiprocessors this process may use
  std::map<std::string, std::string> properties;  // "simd" -> "avx512", "l3_bytes" -> "33554432"
};

// Describes the data of a fill.
struct FillSpec {
  Pattern pattern;
  std::uint64_t seed = 1;
  std::uint32_t tensor_id = 0;  // Philox counter word 2: operands differ
  std::uint32_t epoch = 0;      // Philox counter word 3
};

// The digests of a tensor, two 64-bit sums each; see kernels/numerics/digest.h.
struct TensorDigest {
  std::uint64_t raw[2] = {0, 0};
  std::uint64_t canonical[2] = {0, 0};

  friend bool operator==(const TensorDigest&, const TensorDigest&) = default;
};

// One fingerprint of several tensors. If a bit of any of them changes, the fingerprint changes,
// except with a chance of 1 in 2^128.
struct Fingerprint {
  std::uint64_t words[2] = {0, 0};

  friend bool operator==(const Fingerprint&, const Fingerprint&) = default;
};

// Counts the copies between host and device, and the allocations of device memory, since the device
// was made.
struct Traffic {
  std::int64_t copies_off = 0;
  std::int64_t bytes_off = 0;  // from the device to the host
  std::int64_t copies_on = 0;
  std::int64_t bytes_on = 0;  // from the host to the device
  std::int64_t allocations = 0;
};

// References of operators for devices whose memory is not this process's.
// kernels/ops/device_references.h defines it.
class DeviceReferences;

class Device {
 public:
  virtual ~Device() = default;

  virtual const DeviceInfo& info() const = 0;
  // nullptr if the device's memory is this process's. Then the CPU's references are used.
  virtual const DeviceReferences* references() const { return nullptr; }
  virtual Arena& arena() = 0;
  // Overwrites all that may have been written in the arena, blocks that are in use too, if kernels
  // of users can read it there.
  virtual absl::Status Forget() { return absl::OkStatus(); }

  // Fills the logical elements of `dst`, rounded to its format to nearest even. Subnormal results
  // become 0, but not with kDenormal and kEveryCode.
  virtual absl::Status Fill(const FillSpec& spec, const TensorView& dst) = 0;

  // Sets every logical element of `dst` to the poison of its format.
  virtual absl::Status PoisonTensor(Poison poison, const TensorView& dst) = 0;

  // GuardPadding sets padding elements (between cols and ld, and between batches) to the guard
  // byte of a poison. CheckPadding counts the bytes that are not that one.
  virtual absl::Status GuardPadding(Poison poison, const TensorView& dst) = 0;
  virtual absl::StatusOr<std::int64_t> CheckPadding(Poison poison, const TensorView& dst) = 0;

  // WriteGuards writes the guard bands of all blocks of the arena that are in use. CheckGuards
  // counts their bytes that are not those that the poison gives.
  virtual absl::Status WriteGuards(Poison poison) = 0;
  virtual absl::StatusOr<std::int64_t> CheckGuards(Poison poison) = 0;

  // Counts the damage to the bands of all blocks and to the padding of these views, together.
  virtual absl::StatusOr<std::int64_t> CountDamage(Poison poison,
                                                   std::span<const TensorView> views);

  // Computes every statistic in one pass over output, reference and error allowance.
  virtual absl::StatusOr<CompareResult> Compare(const CompareRequest& request) = 0;
  // Compares several outputs. The results are in the order of the requests. If the device supports
  // it, small requests share a launch.
  virtual absl::StatusOr<std::vector<CompareResult>> CompareAll(
      std::span<const CompareRequest> requests);

  // Sums up the errors of an output against the deviations that the reference says.
  virtual absl::StatusOr<ResidualSums> Residuals(const ResidualRequest& /*request*/) {
    return absl::UnimplementedError("this backend sums no residuals");
  }

  // Whether it has the residual pass. Otherwise nothing is told of the precision of a kernel. If
  // the device has references of its own, DeviceReferences says for which cases they fill
  // deviations.
  virtual bool tells_precision() const { return false; }

  // Computes checksums in one pass over a matrix: products with vectors from either side, sums of
  // magnitudes and squares, counts. Without it a backend has no verification by checksums.
  virtual absl::StatusOr<ChecksumSums> Checksum(const ChecksumRequest& /*request*/) {
    return absl::UnimplementedError("this backend has no checksums");
  }

  // The digest of the logical elements.
  virtual absl::StatusOr<TensorDigest> Digest(const TensorView& view) = 0;
  // One fingerprint of all views, to compare with a later one of the same views on the same device.
  virtual absl::StatusOr<Fingerprint> FingerprintOf(std::span<const TensorView> views);
  // The fingerprint of each group of views, in order. If the device can, it sends them to the host
  // together.
  virtual absl::StatusOr<std::vector<Fingerprint>> FingerprintsOf(
      std::span<const std::vector<TensorView>> groups);

  // Compares elements that the host has recomputed with the device's values.
  virtual absl::StatusOr<RecheckFindings> Recheck(const RecheckRequest& request);

  // KeepElements keeps elements of an output, which need not exist any longer when HoldAgainst
  // compares another output with them. A device keeps one set at a time.
  virtual absl::StatusOr<KeptElements> KeepElements(const KeepRequest& request);
  virtual absl::StatusOr<HeldFindings> HoldAgainst(const KeptElements& kept,
                                                   const TensorView& output);

  // Copies src to dst. Both have the same format and the same number of elements.
  virtual absl::Status Copy(const TensorView& src, const TensorView& dst) = 0;
  // Copies `count` elements in logical order, from `begin`, to host memory.
  virtual absl::Status ToHost(const TensorView& src, std::int64_t begin, std::int64_t count,
                              void* dst) = 0;
  // Copies bytes from host memory to the device's memory. It serves tensors that a user sends.
  virtual absl::Status FromHost(const void* src, std::int64_t bytes, void* dst) {
    (void)src, (void)bytes, (void)dst;
    return absl::UnimplementedError("this backend takes no tensors from the host");
  }

  // Whether small cases should run together. That pays if it takes longer to enqueue and await a
  // case than to run it.
  virtual bool shares_launches() const { return false; }

  // All counts are 0 if the device's memory is this process's.
  virtual Traffic traffic() const { return {}; }

  // An error if the device has lost its context, for example after an illegal address on a GPU.
  // Then no call succeeds any more, and the process must end.
  virtual absl::Status health() const { return absl::OkStatus(); }

  // Waits until all enqueued work is done, and returns its error.
  virtual absl::Status Synchronize() = 0;
  // Drops the tensors' bytes from every cache between them and the device's memory. A launch then
  // finds them as data that were put there long ago. UNIMPLEMENTED if the device cannot do that;
  // the caches stay as they are.
  virtual absl::Status EvictFromCaches(std::span<const TensorView> /*views*/) {
    return absl::UnimplementedError("this backend's caches cannot be emptied");
  }
  // A steady clock [seconds].
  virtual double Now() = 0;
  // Runs `launch`, waits for the work that it enqueued, and returns how long that took on the
  // device [seconds]. The time comes from the device's events if it has them, and otherwise from
  // Now.
  virtual absl::StatusOr<double> TimeLaunch(absl::FunctionRef<absl::Status()> launch) {
    const double begin = Now();
    absl::Status status = launch();
    if (status.ok()) status = Synchronize();
    if (!status.ok()) return status;
    return Now() - begin;
  }

  // Watches outputs of the format and extents of `output`. `known` is the digest of the one that
  // they should be like. A device has one watch at a time, which ends before the device does.
  virtual absl::StatusOr<std::unique_ptr<OutputWatch>> WatchOutputs(
      const TensorView& output, const std::optional<TensorDigest>& known);
};

// Makes the CPU device, with all cores that this process may use. It never fails.
std::unique_ptr<Device> MakeCpuDevice(int ordinal, const ArenaOptions& options);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_RUNTIME_DEVICE_H_
