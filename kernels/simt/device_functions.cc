// The functions that the CUDA headers of the emulator (kernels/simt/cuda) declare and do not
// define.
#include <cstdint>
#include <cstring>
#include <utility>

#include "kernels/numerics/convert.h"
#include "kernels/simt/cuda/assay_simt_types.h"
#include "kernels/simt/debug_info.h"
#include "kernels/simt/engine.h"
#include "kernels/simt/program.h"

namespace {

uint3 IndexOf(const assay::simt::Dim3& d) { return {d.x, d.y, d.z}; }
dim3 ExtentOf(const assay::simt::Dim3& d) { return {d.x, d.y, d.z}; }

// `place`: where the caller stands in the kernel's code.
void Follow(const void* at, std::size_t bytes, assay::simt::Access access, const void* place) {
  using assay::simt::followed;
  if (followed == nullptr || bytes == 0) return;
  followed->Make(at, bytes, access, assay::simt::OffsetInLibrary(place));
}

}  // namespace

extern "C" {
uint3 assay_simt_thread_idx() { return IndexOf(assay::simt::Here().thread); }
uint3 assay_simt_block_idx() { return IndexOf(assay::simt::Here().block); }
void assay_simt_atomic(const void* at, std::size_t bytes) {
  // The caller is a function of the header, of which no line would help.
  if (assay::simt::followed != nullptr) {
    assay::simt::followed->Make(at, bytes, assay::simt::Access::kAtomic);
  }
}
void assay_simt_fence() {
  if (assay::simt::followed != nullptr) assay::simt::followed->Fence();
}
void assay_simt_fence_block() {
  if (assay::simt::followed != nullptr) assay::simt::followed->FenceBlock();
}
int assay_simt_lane() { return assay::simt::Here().lane; }
void* assay_simt_memcpy(void* to, const void* from, std::size_t bytes) {
  Follow(from, bytes, assay::simt::Access::kRead, __builtin_return_address(0));
  Follow(to, bytes, assay::simt::Access::kWrite, __builtin_return_address(0));
  return std::memcpy(to, from, bytes);
}
void* assay_simt_memmove(void* to, const void* from, std::size_t bytes) {
  Follow(from, bytes, assay::simt::Access::kRead, __builtin_return_address(0));
  Follow(to, bytes, assay::simt::Access::kWrite, __builtin_return_address(0));
  return std::memmove(to, from, bytes);
}
int assay_simt_memcmp(const void* a, const void* b, std::size_t bytes) {
  Follow(a, bytes, assay::simt::Access::kRead, __builtin_return_address(0));
  Follow(b, bytes, assay::simt::Access::kRead, __builtin_return_address(0));
  return std::memcmp(a, b, bytes);
}
void* assay_simt_memset(void* to, int value, std::size_t bytes) {
  Follow(to, bytes, assay::simt::Access::kWrite, __builtin_return_address(0));
  return std::memset(to, value, bytes);
}
float assay_simt_half_to_float(unsigned short code) {
  return assay::ToFloat(assay::DType::kF16, code);
}
unsigned short assay_simt_to_half(double value) {
  return static_cast<unsigned short>(assay::RoundToFormat(value, assay::DType::kF16));
}
float assay_simt_bfloat_to_float(unsigned short code) {
  return assay::ToFloat(assay::DType::kBF16, code);
}
unsigned short assay_simt_to_bfloat(double value) {
  return static_cast<unsigned short>(assay::RoundToFormat(value, assay::DType::kBF16));
}
}

namespace assay::inline kernels::simt {

// The third barrier keeps the next count apart from this one.
int SyncCount(bool predicate, Where where) {
  static int holds = 0;
  static std::int64_t launch = 0;
  if (std::exchange(launch, Launches()) != Launches()) holds = 0;  // the last one may have failed
  holds += predicate ? 1 : 0;
  SyncBlock(where);
  const int count = holds;
  SyncBlock(where);
  holds = 0;
  SyncBlock(where);
  return count;
}

}  // namespace assay::kernels::simt

// They return what has constructors, so they have C++'s linkage.
dim3 assay_simt_block_dim() { return ExtentOf(assay::simt::Here().block_extent); }
dim3 assay_simt_grid_dim() { return ExtentOf(assay::simt::Here().grid_extent); }
