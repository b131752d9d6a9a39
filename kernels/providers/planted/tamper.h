// What planted kernels for GPUs do on the device before or after the launch of a right
// kernel: changes of single elements, tiles or whole tensors, writes to where a kernel has
// no business, and a kernel that never ends. The same for every operator and format of at
// least a byte. The kernels are in tamper.cu.
#ifndef ASSAY_KERNELS_PROVIDERS_PLANTED_TAMPER_H_
#define ASSAY_KERNELS_PROVIDERS_PLANTED_TAMPER_H_

#include <cstdint>

#include "kernels/runtime/gpu/handles.h"
#include "kernels/runtime/tensor.h"

namespace assay::gpu {

// A part of every one of some matrices of a view; the first of each, and how many.
struct Tile {
  std::int64_t batch = 0;
  std::int64_t row = 0;
  std::int64_t col = 0;
  std::int64_t batches = 1;
  std::int64_t rows = 1;
  std::int64_t cols = 1;

  std::int64_t count() const { return batches * rows * cols; }
};

// What becomes of each element of the tile.
enum class Change : std::uint8_t {
  kKeep,       // nothing; its code goes to `kept`
  kPutBack,    // the code in `kept`
  kExchange,   // its code and that in `kept` change places
  kSet,        // `code`
  kFlip,       // the bits of `code` are flipped
  kSpread,     // the code of the tile's first element
  kTake,       // the code of its like in the tile at `other`; the two do not overlap
  kSwap,       // it and its like in the tile at `other` change places
  kTranspose,  // it and its mirror image in a square tile change places
  kScale,      // its value times `factor`, rounded
  kPass,       // its value rounded to `through` on the way
  kCut,        // the value of its like in the fp32 tensor `wide`, cut towards zero
};

struct Tamper {
  Change change = Change::kKeep;
  TensorView view = {};  // in device memory
  Tile tile = {};
  Tile other = {};  // where it begins; as large as `tile`
  std::uint64_t code = 0;
  double factor = 1.0;
  DType through = DType::kUnspecified;
  std::uint64_t* kept = nullptr;  // device memory, tile.count() of them
  const float* wide = nullptr;    // device memory, of the view's strides
};
// Enqueues one launch; the tile lies in the view's storage, padding included.
ErrorCode LaunchTamper(const Tamper& tamper, Stream stream);

// Writes `bytes` times `byte`, wherever that is.
ErrorCode LaunchOverwrite(void* at, std::int64_t bytes, unsigned char byte, Stream stream);

// One thread that ends when *never, device memory that holds 0, is something else.
ErrorCode LaunchHang(const unsigned long long* never, Stream stream);

}  // namespace assay::gpu

#endif  // ASSAY_KERNELS_PROVIDERS_PLANTED_TAMPER_H_
