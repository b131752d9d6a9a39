// Splits the storage of a strided tensor into runs and chunks for kernels. A run is a stretch of
// logical elements that lie together. Runs are cut into chunks that begin at multiples of a power
// of two of the storage. One thread takes a chunk, so no two threads write one byte of e2m1, which
// holds two elements. For kernels only.
#ifndef ASSAY_KERNELS_RUNTIME_GPU_RUNS_H_
#define ASSAY_KERNELS_RUNTIME_GPU_RUNS_H_

#include <algorithm>

#include "kernels/numerics/dtype.h"
#include "kernels/numerics/host_device.h"
#include "kernels/runtime/gpu/port.h"
#include "kernels/runtime/tensor.h"

namespace assay::inline kernels::gpu {

// The runs of a tensor. Offsets and lengths are in elements.
struct Runs {
  unsigned char* data = nullptr;
  DType dtype = DType::kUnspecified;
  bool aligned = false;       // data is aligned to 16 bytes
  bool shared_bytes = false;  // runs may meet in the middle of a byte
  std::int64_t length = 0;    // of each run
  std::int64_t per_batch = 1;
  std::int64_t stride = 0;  // between runs of a batch
  std::int64_t batch_stride = 0;
  std::int64_t count = 0;  // logical elements
};

// The runs of a view. Rows without padding between them are one run.
inline Runs RunsOf(const TensorView& view) {
  const Extents& e = view.extents;
  Runs runs;
  runs.data = static_cast<unsigned char*>(view.data);
  runs.dtype = view.dtype;
  runs.aligned = reinterpret_cast<std::uintptr_t>(view.data) % 16 == 0;
  runs.count = e.count();
  runs.batch_stride = e.batch_stride;
  if (e.dense()) {
    runs.length = runs.count;
  } else if (e.rows == 1 || e.ld == e.cols) {
    runs.length = e.rows * e.cols;
  } else {
    runs.length = e.cols;
    runs.per_batch = e.rows;
    runs.stride = e.ld;
    // The next batch may begin right behind the last row, and at an odd element.
    runs.shared_bytes =
        view.dtype == DType::kE2M1 && e.batch > 1 && e.batch_stride == (e.rows - 1) * e.ld + e.cols;
  }
  return runs;
}

// The offset of the first element of a run.
ASSAY_DEVICE std::int64_t StartOf(const Runs& runs, std::int64_t run) {
  return run / runs.per_batch * runs.batch_stride + run % runs.per_batch * runs.stride;
}

// The offset of a logical element.
ASSAY_DEVICE std::int64_t OffsetOf(const Runs& runs, std::int64_t index) {
  if (index < runs.length) return index;
  return StartOf(runs, index / runs.length) + index % runs.length;
}

struct Chunk {
  std::int64_t offset;   // of its first element in storage
  std::int64_t logical;  // logical index of its first element
  int n;                 // elements; 0 if the run has ended or not begun
};

// The most chunks of 2^shift elements that a run touches.
ASSAY_HOST_DEVICE inline std::int64_t ChunksOfRun(const Runs& runs, int shift) {
  return (runs.length + (std::int64_t{2} << shift) - 2) >> shift;
}
inline std::int64_t ChunksOf(const Runs& runs, int shift) {
  return runs.count == 0 ? 0 : runs.count / runs.length * ChunksOfRun(runs, shift);
}

ASSAY_DEVICE Chunk ChunkOf(const Runs& runs, std::int64_t id, int shift) {
  const std::int64_t of_run = ChunksOfRun(runs, shift);
  const std::int64_t run = id < of_run ? 0 : id / of_run;
  const std::int64_t start = run == 0 ? 0 : StartOf(runs, run);
  const std::int64_t end = start + runs.length;
  const std::int64_t at = ((start >> shift) + (id - run * of_run)) << shift;
  const std::int64_t begin = at > start ? at : start;
  const std::int64_t next = at + (std::int64_t{1} << shift);
  const std::int64_t last = next < end ? next : end;
  return {begin, run * runs.length + (begin - start),
          last > begin ? static_cast<int>(last - begin) : 0};
}

// The shift for which 2^shift elements are 16 bytes.
ASSAY_HOST_DEVICE inline int ShiftOf16Bytes(DType t) {
  switch (StorageBits(t)) {
    case 64:
      return 1;
    case 32:
      return 2;
    case 16:
      return 3;
    case 8:
      return 4;
    default:
      return 5;
  }
}

// The type of a 16-byte load or store.
struct alignas(16) Bytes16 {
  std::uint32_t v[4];
};

inline constexpr int kThreads = 256;
// Enough blocks for any device, and few enough that the fixed cost of a block does not matter.
inline constexpr std::int64_t kMostBlocks = 8192;

// The number of blocks for a kernel whose threads go through `items` in strides of the grid.
inline unsigned BlocksFor(std::int64_t items, std::int64_t most = kMostBlocks) {
  return static_cast<unsigned>(
      std::clamp<std::int64_t>((items + kThreads - 1) / kThreads, 1, most));
}

// Starts such a kernel. If threads would share bytes, it gets a single thread.
template <class Kernel, class... Arguments>
ErrorCode LaunchOver(std::int64_t items, bool one_thread, Stream stream, Kernel kernel,
                     Arguments... arguments) {
  const Extent grid{one_thread ? 1 : BlocksFor(items), 1, 1};
  const Extent block{one_thread ? 1 : static_cast<unsigned>(kThreads), 1, 1};
  return Launch(kernel, grid, block, 0, stream, arguments...);
}

// This thread's first item, and the step to its next.
ASSAY_DEVICE std::int64_t FirstItem() {
  return std::int64_t{Block().x} * BlockExtent().x + Thread().x;
}
ASSAY_DEVICE std::int64_t ItemStep() { return std::int64_t{GridExtent().x} * BlockExtent().x; }

}  // namespace assay::kernels::gpu

#endif  // ASSAY_KERNELS_RUNTIME_GPU_RUNS_H_
