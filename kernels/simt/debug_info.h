// Reads what the library of a CUDA program says of its own source, for messages: lines, and the
// names of the shared arrays. It reads the library's file only when a launch has failed.
//
// The lines are read as DWARF 4 has them (-gdwarf-4). Of anything else nothing is said.
#ifndef ASSAY_KERNELS_SIMT_DEBUG_INFO_H_
#define ASSAY_KERNELS_SIMT_DEBUG_INFO_H_

#include <cstdint>
#include <string>

namespace assay::inline kernels::simt {

// Addresses in the library count from where it is loaded.
std::uint32_t OffsetInLibrary(const void* address);

// " at my_gemm.cu:18" of a call that returns to the place. Empty if nobody knows.
std::string SourceLineOf(std::uint32_t return_offset);

// The array of the thread-local memory that holds the byte `offset`: its name, and the byte in it.
struct ArrayByte {
  std::string name;  // empty: nobody knows
  std::uint64_t byte = 0;
  std::uint64_t bytes = 0;  // of the array
};
ArrayByte SharedArrayAt(std::uint64_t offset);

}  // namespace assay::kernels::simt

#endif  // ASSAY_KERNELS_SIMT_DEBUG_INFO_H_
