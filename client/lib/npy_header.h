// Reads the header of a file in NumPy's .npy format, versions 1 to 3.
//
//   "\x93NUMPY" major minor length header data
//
// The length has 2 bytes in version 1 and 4 bytes in later versions, little-endian. The header is a
// Python dict with exactly the keys descr, fortran_order and shape. The elements follow. The reader
// is strict: it refuses any other header, and the error names the file, what stands there and what
// would be right. All functions are pure.
//
// Source of the format: NumPy Enhancement Proposal 1; numpy.lib.format.
#ifndef ASSAY_CLIENT_LIB_NPY_HEADER_H_
#define ASSAY_CLIENT_LIB_NPY_HEADER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "assay/v1/types.pb.h"

namespace assay::client {

// What a header says.
struct NpyHeader {
  std::string descr;  // "<f4"
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
  std::size_t data_begin = 0;  // [bytes] from the file's first
};

// INVALID_ARGUMENT with the file's name before what is wrong with it.
absl::Status WrongFile(std::string_view file, std::string_view message);

// The header of a file's first bytes, `file` naming it in errors. INVALID_ARGUMENT;
// formats other than those below are not refused here.
absl::StatusOr<NpyHeader> ParseNpyHeader(std::string_view file, std::string_view bytes);

// What an array's elements are: bits wide, and the format of ours they say to be.
struct NpyElement {
  int bytes = 0;
  v1::DType dtype = v1::DTYPE_UNSPECIFIED;  // unspecified: raw words, of a format to be named
};

// float64, float32, float16, int8, bool (as int8), int32, little-endian, and uint8,
// uint16 and 1- and 2-byte void as raw words. INVALID_ARGUMENT says what else stands
// there and what would be right.
absl::StatusOr<NpyElement> ParseNpyDescr(std::string_view file, std::string_view descr);

// Whether elements of a file can be taken for the format: raw words for a format of
// their width, float32 for tf32 too, others for themselves.
bool CanHold(const NpyElement& element, v1::DType dtype);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_LIB_NPY_HEADER_H_
