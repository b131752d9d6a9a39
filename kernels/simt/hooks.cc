// What the compiler calls from a CUDA program: before every access to memory
// (-fsanitize=thread), and at an index outside an array (-fsanitize=bounds). The compiler's own
// runtime libraries are not linked.
#include <cstdint>
#include <string>

#include "kernels/simt/debug_info.h"
#include "kernels/simt/program.h"

namespace assay::inline kernels::simt {
namespace {

// Where the hook returns to: the place of the access.
#define ASSAY_SIMT_PLACE __builtin_return_address(0)

void Make(const void* at, std::size_t bytes, Access access, const void* place) {
  if (followed != nullptr) followed->Make(at, bytes, access, OffsetInLibrary(place));
}

// As the compiler lays it out.
struct SourceLocation {
  const char* file;
  std::uint32_t line;
  std::uint32_t column;
};
struct TypeDescriptor {
  std::uint16_t kind;  // 0: an integer
  std::uint16_t info;  // of an integer: log2 of its bits, times 2; odd if it is signed
  char name[1];
};
struct OutOfBoundsData {
  SourceLocation location;
  const TypeDescriptor* array;
  const TypeDescriptor* index;
};

std::string IndexText(const TypeDescriptor& type, std::uintptr_t value) {
  const unsigned bits = 1U << (type.info >> 1);
  if (type.kind != 0 || bits > 64) return "an index";
  const std::uint64_t low = bits == 64 ? value : value & ((std::uint64_t{1} << bits) - 1);
  if ((type.info & 1) == 0) return "index " + std::to_string(low);
  const unsigned unused = 64 - bits;
  return "index " + std::to_string(static_cast<std::int64_t>(low << unused) >> unused);
}

std::string Text(const OutOfBoundsData& data, std::uintptr_t index) {
  const std::string path = data.location.file == nullptr ? "?" : data.location.file;
  return "out of bounds: " + IndexText(*data.index, index) + " of an array " + data.array->name +
         " at " + path.substr(path.rfind('/') + 1) + ":" + std::to_string(data.location.line);
}

struct MismatchData {
  SourceLocation location;
  const TypeDescriptor* type;
  unsigned char log_alignment;
  unsigned char kind;
};

[[noreturn]] void Misaligned(const MismatchData& data, std::uintptr_t at) {
  index_fault = true;
  const std::string path = data.location.file == nullptr ? "?" : data.location.file;
  Fail("misaligned: an access to " + std::string(data.type->name) +
       " needs an address that is a "
       "multiple of " +
       std::to_string(1U << data.log_alignment) + " bytes, got one that is " +
       std::to_string(at % (std::uintptr_t{1} << data.log_alignment)) + " beyond, at " +
       path.substr(path.rfind('/') + 1) + ":" + std::to_string(data.location.line));
}

[[noreturn]] void OutOfBounds(const OutOfBoundsData& data, std::uintptr_t index) {
  index_fault = true;
  Fail(Text(data, index));
}

}  // namespace
}  // namespace assay::kernels::simt

using assay::simt::Access;

#define ASSAY_SIMT_HOOKS(bytes)                                     \
  void __tsan_read##bytes(void* at) {                               \
    assay::simt::Make(at, bytes, Access::kRead, ASSAY_SIMT_PLACE);  \
  }                                                                 \
  void __tsan_write##bytes(void* at) {                              \
    assay::simt::Make(at, bytes, Access::kWrite, ASSAY_SIMT_PLACE); \
  }                                                                 \
  void __tsan_unaligned_read##bytes(void* at) {                     \
    assay::simt::Make(at, bytes, Access::kRead, ASSAY_SIMT_PLACE);  \
  }                                                                 \
  void __tsan_unaligned_write##bytes(void* at) {                    \
    assay::simt::Make(at, bytes, Access::kWrite, ASSAY_SIMT_PLACE); \
  }

extern "C" {
ASSAY_SIMT_HOOKS(1)
ASSAY_SIMT_HOOKS(2)
ASSAY_SIMT_HOOKS(4)
ASSAY_SIMT_HOOKS(8)
ASSAY_SIMT_HOOKS(16)
void __tsan_read_range(void* at, std::size_t bytes) {
  assay::simt::Make(at, bytes, Access::kRead, ASSAY_SIMT_PLACE);
}
void __tsan_write_range(void* at, std::size_t bytes) {
  assay::simt::Make(at, bytes, Access::kWrite, ASSAY_SIMT_PLACE);
}
void __tsan_vptr_update(void** at, void*) {
  assay::simt::Make(at, sizeof(void*), Access::kWrite, ASSAY_SIMT_PLACE);
}
void __tsan_vptr_read(void** at) {
  assay::simt::Make(at, sizeof(void*), Access::kRead, ASSAY_SIMT_PLACE);
}
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __ubsan_handle_out_of_bounds(void* data, std::uintptr_t index) {
  assay::simt::OutOfBounds(*static_cast<assay::simt::OutOfBoundsData*>(data), index);
}
void __ubsan_handle_type_mismatch_v1(void* data, std::uintptr_t at) {
  assay::simt::Misaligned(*static_cast<assay::simt::MismatchData*>(data), at);
}
void __ubsan_handle_type_mismatch_v1_abort(void* data, std::uintptr_t at) {
  assay::simt::Misaligned(*static_cast<assay::simt::MismatchData*>(data), at);
}
void __ubsan_handle_out_of_bounds_abort(void* data, std::uintptr_t index) {
  assay::simt::OutOfBounds(*static_cast<assay::simt::OutOfBoundsData*>(data), index);
}
}
