// A device: its memory, its one stream of work, and the data-parallel primitives
// that validation needs of it. Everything above (ops, providers, validate, bench)
// is written against this interface; a backend implements it.
//
// Ownership: a Device owns its arena; views and blocks are valid until
// Arena::Reset or Release. Thread-safety: none, one thread drives a device.
//
// Errors: RESOURCE_EXHAUSTED where memory does not suffice, UNIMPLEMENTED where
// the backend lacks a primitive for a format, INTERNAL for a fault of the device.
#ifndef ASSAY_KERNELS_RUNTIME_DEVICE_H_
#define ASSAY_KERNELS_RUNTIME_DEVICE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/numerics/pattern.h"
#include "kernels/runtime/arena.h"
#include "kernels/runtime/checksum.h"
#include "kernels/runtime/compare.h"
#include "kernels/runtime/kept_elements.h"
#include "kernels/runtime/recheck.h"
#include "kernels/runtime/tensor.h"

namespace assay {

struct DeviceInfo {
  std::string id;                                 // "cpu:0"
  std::string backend;                            // "cpu"
  std::string model;                              // "AMD EPYC 9755"
  std::int64_t memory_bytes = 0;                  // installed
  int compute_units = 0;                          // cores or multiprocessors this process may use
  std::map<std::string, std::string> properties;  // "simd" -> "avx512", "l3_bytes" -> "33554432"
};

// What to fill a tensor with.
struct FillSpec {
  Pattern pattern;
  std::uint64_t seed = 1;
  std::uint32_t tensor_id = 0;  // Philox counter word 2: operands differ
  std::uint32_t epoch = 0;      // Philox counter word 3: repeats differ
};

// Two 64-bit sums each; see kernels/numerics/digest.h.
struct TensorDigest {
  std::uint64_t raw[2] = {0, 0};
  std::uint64_t canonical[2] = {0, 0};

  friend bool operator==(const TensorDigest&, const TensorDigest&) = default;
};

// Of some tensors together: another where a bit of any of them is, but for one case in 2^128.
struct Fingerprint {
  std::uint64_t words[2] = {0, 0};

  friend bool operator==(const Fingerprint&, const Fingerprint&) = default;
};

// What has crossed between host and device, and been taken of the device's memory, since the
// device was made.
struct Traffic {
  std::int64_t copies_off = 0;
  std::int64_t bytes_off = 0;  // from the device to the host
  std::int64_t copies_on = 0;
  std::int64_t bytes_on = 0;  // from the host to the device
  std::int64_t allocations = 0;
};

// Which of two complementary poisons; formats without a NaN payload to spare
// (integers, fp8 without payload, fp4) are launched twice and unwritten is what
// still holds both.
enum class Poison : std::uint8_t { kFirst, kSecond };

// References of operators where the device's memory is not this process's; see
// kernels/ops/device_references.h, which is where it is defined.
class DeviceReferences;

class Device {
 public:
  virtual ~Device() = default;

  virtual const DeviceInfo& info() const = 0;
  // nullptr where the device's memory is this process's: the CPU's references serve.
  virtual const DeviceReferences* references() const { return nullptr; }
  virtual Arena& arena() = 0;

  // Fills the logical elements of `dst`, quantised to its format by
  // round-to-nearest-even; subnormal results become 0 except for kDenormal.
  virtual absl::Status Fill(const FillSpec& spec, const TensorView& dst) = 0;

  // Sets every logical element of `dst` to the poison of its format.
  virtual absl::Status PoisonTensor(Poison poison, const TensorView& dst) = 0;

  // Sets padding elements (between cols and ld, and between batches) to the
  // guard byte; CheckPadding counts the bytes that changed since.
  virtual absl::Status GuardPadding(const TensorView& dst) = 0;
  virtual absl::StatusOr<std::int64_t> CheckPadding(const TensorView& dst) = 0;

  // Writes the guard bands of all blocks of the arena that are in use, and
  // counts bytes of them that changed since.
  virtual absl::Status WriteGuards() = 0;
  virtual absl::StatusOr<std::int64_t> CheckGuards() = 0;

  // Both at once: the bands of all blocks, and the padding of these views.
  virtual absl::StatusOr<std::int64_t> CountDamage(std::span<const TensorView> views);

  // One pass over output, reference and error allowance: every statistic.
  virtual absl::StatusOr<CompareResult> Compare(const CompareRequest& request) = 0;
  // The result of each, in the order of the requests; small ones share a launch where the
  // device has such.
  virtual absl::StatusOr<std::vector<CompareResult>> CompareAll(
      std::span<const CompareRequest> requests);

  // One pass over a matrix: its products with vectors from either side, sums of
  // magnitudes and squares, counts. A backend that lacks it has no verification by
  // checksums.
  virtual absl::StatusOr<ChecksumSums> Checksum(const ChecksumRequest& /*request*/) {
    return absl::UnimplementedError("this backend has no checksums");
  }

  // Digest of the logical elements.
  virtual absl::StatusOr<TensorDigest> Digest(const TensorView& view) = 0;
  // One of all of them, to be held against another of the same views on the same device.
  virtual absl::StatusOr<Fingerprint> FingerprintOf(std::span<const TensorView> views);
  // That of each group of views, in their order; they come to the host together where the
  // device has them.
  virtual absl::StatusOr<std::vector<Fingerprint>> FingerprintsOf(
      std::span<const std::vector<TensorView>> groups);

  // Holds what the host has recomputed against what the device has of it.
  virtual absl::StatusOr<RecheckFindings> Recheck(const RecheckRequest& request);

  // Keeps elements of an output, which may be gone when another's are held against them.
  // One set at a time.
  virtual absl::StatusOr<KeptElements> KeepElements(const KeepRequest& request);
  virtual absl::StatusOr<HeldFindings> HoldAgainst(const KeptElements& kept,
                                                   const TensorView& output);

  // dst and src have the same extents' count and format.
  virtual absl::Status Copy(const TensorView& src, const TensorView& dst) = 0;
  // Moves `count` elements of the logical order, from `begin`, to host memory.
  virtual absl::Status ToHost(const TensorView& src, std::int64_t begin, std::int64_t count,
                              void* dst) = 0;
  // Moves bytes from host memory to the device's: tensors that a user sends.
  virtual absl::Status FromHost(const void* src, std::int64_t bytes, void* dst) {
    (void)src, (void)bytes, (void)dst;
    return absl::UnimplementedError("this backend takes no tensors from the host");
  }

  // Whether small cases are worth running beside one another: what is enqueued for one takes
  // longer to enqueue, and to wait for, than to run.
  virtual bool shares_launches() const { return false; }

  // All 0 where the device's memory is this process's.
  virtual Traffic traffic() const { return {}; }

  // An error once the device has lost its context, as after an illegal address on a GPU:
  // no call succeeds any more, and the process must end.
  virtual absl::Status health() const { return absl::OkStatus(); }

  // Waits until all work that was enqueued is done; returns its error.
  virtual absl::Status Synchronize() = 0;
  // Drops the tensors' bytes from every cache between them and the device's memory, so that
  // a launch finds them as data that others brought there long ago. UNIMPLEMENTED where
  // nothing can be done: they stay as warm as they are.
  virtual absl::Status EvictFromCaches(std::span<const TensorView> /*views*/) {
    return absl::UnimplementedError("this backend's caches cannot be emptied");
  }
  // A steady clock [seconds].
  virtual double Now() = 0;
  // Runs `launch`, waits for what it enqueued, and returns how long that took on the
  // device [seconds]: by its own events where it has such, else by Now.
  virtual absl::StatusOr<double> TimeLaunch(absl::FunctionRef<absl::Status()> launch) {
    const double begin = Now();
    absl::Status status = launch();
    if (status.ok()) status = Synchronize();
    if (!status.ok()) return status;
    return Now() - begin;
  }
};

// The CPU as a device: all cores this process may use. Never fails.
std::unique_ptr<Device> MakeCpuDevice(int ordinal, const ArenaOptions& options);

}  // namespace assay

#endif  // ASSAY_KERNELS_RUNTIME_DEVICE_H_
