// Makes defects on the device before or after the launch of a correct kernel: it changes single
// elements, tiles or whole tensors, writes outside a kernel's own memory, or never ends. It works
// the same way for every operator and every format of at least a byte. The kernels are in
// tamper.cu.
#ifndef ASSAY_KERNELS_PROVIDERS_PLANTED_TAMPER_H_
#define ASSAY_KERNELS_PROVIDERS_PLANTED_TAMPER_H_

#include <cstdint>

#include "kernels/runtime/gpu/handles.h"
#include "kernels/runtime/tensor.h"

namespace assay::inline kernels::gpu {

// The same part of several matrices of a view: where it begins, and its extents.
struct Tile {
  std::int64_t batch = 0;
  std::int64_t row = 0;
  std::int64_t col = 0;
  std::int64_t batches = 1;
  std::int64_t rows = 1;
  std::int64_t cols = 1;

  std::int64_t count() const { return batches * rows * cols; }
};

// The change of each element of the tile.
enum class Change : std::uint8_t {
  kKeep,       // no change; its code is saved in `kept`
  kPutBack,    // it becomes the code in `kept`
  kExchange,   // its code and that in `kept` are exchanged
  kSet,        // it becomes `code`
  kFlip,       // the bits of `code` are flipped
  kSpread,     // it becomes the code of the tile's first element
  kTake,       // it becomes the same element of the tile at `other`; no overlap
  kSwap,       // it and the same element of the tile at `other` are exchanged
  kTranspose,  // it and its mirror image in a square tile are exchanged
  kScale,      // its value is multiplied by `factor` and rounded
  kPass,       // its value becomes the sum of `parts` numbers of the format `through`
  kClear,      // the bits of `code` become 0 if all of them are 1
  kCut,        // the value in the fp32 tensor `wide`, cut towards zero
};

struct Tamper {
  Change change = Change::kKeep;
  TensorView view = {};  // in device memory
  Tile tile = {};
  Tile other = {};  // its beginning; as large as `tile`
  std::uint64_t code = 0;
  double factor = 1.0;
  DType through = DType::kUnspecified;
  int parts = 1;
  // Of the tile's elements in their order, only every so many are changed, from `phase` on.
  std::int64_t period = 1;
  std::int64_t phase = 0;         // below `period`
  std::uint64_t* kept = nullptr;  // device memory, tile.count() words
  const float* wide = nullptr;    // device memory, with the view's strides
};
// Enqueues one launch. The tile must lie in the view's storage, which includes the padding.
ErrorCode LaunchTamper(const Tamper& tamper, Stream stream);

// Writes 0 to `bytes` addresses from `at` on, whatever lies there.
ErrorCode LaunchOverwrite(void* at, std::int64_t bytes, Stream stream);

// Enqueues one thread that ends only if *never is not 0. `never` is device memory that holds 0.
ErrorCode LaunchHang(const unsigned long long* never, Stream stream);

}  // namespace assay::kernels::gpu

#endif  // ASSAY_KERNELS_PROVIDERS_PLANTED_TAMPER_H_
