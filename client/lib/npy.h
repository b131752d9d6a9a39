// Npy: a tensor in a file of NumPy's .npy format, mapped into memory.
#ifndef ASSAY_CLIENT_LIB_NPY_H_
#define ASSAY_CLIENT_LIB_NPY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/lib/npy_header.h"

namespace assay::client {

// A file's tensor, mapped into memory. Movable through its pointer; const after Open,
// so that threads may share it. A file that shrinks while it is mapped is found out by
// Read where it can be; one that is overwritten gives what then stands there.
class NpyFile {
 public:
  // INVALID_ARGUMENT as above, and for what cannot be read, begins with `path`.
  static absl::StatusOr<std::unique_ptr<NpyFile>> Open(const std::string& path);
  ~NpyFile();
  NpyFile(const NpyFile&) = delete;
  NpyFile& operator=(const NpyFile&) = delete;

  const std::string& path() const { return path_; }
  const NpyElement& element() const { return element_; }
  // As the file has it, whatever its order.
  const std::vector<std::int64_t>& shape() const { return header_.shape; }
  bool fortran_order() const { return header_.fortran_order; }
  // [bytes] of all elements.
  std::int64_t bytes() const { return bytes_; }

  // A walk over the data in row-major order, in pieces of at most `most` bytes, of
  // whole elements. Column-major data are transposed some rows at a time.
  class Reader {
   public:
    Reader(const NpyFile& file, std::size_t most);
    // The next piece; empty at the end. Valid until the next call. DATA_LOSS where the
    // file has become shorter than it was.
    absl::StatusOr<std::string_view> Next();

   private:
    void Transpose();
    // Rows [first, first + rows) of the columns [begin, begin + columns).
    template <class Element>
    void Gather(std::int64_t first, std::int64_t rows, std::int64_t begin, std::int64_t columns);

    const NpyFile& file_;
    const std::size_t most_;
    std::int64_t at_ = 0;  // [bytes] of the row-major order that were given out
    // Column-major: what was transposed last, [bytes] of the row-major order.
    std::vector<char> held_;
    std::int64_t rows_begin_ = 0;
    std::int64_t rows_end_ = 0;
  };

 private:
  explicit NpyFile(std::string path) : path_(std::move(path)) {}

  const std::string path_;
  NpyHeader header_;
  NpyElement element_;
  std::int64_t bytes_ = 0;
  int fd_ = -1;
  void* mapping_ = nullptr;
  std::size_t mapped_ = 0;
  const char* data_ = nullptr;
};

}  // namespace assay::client

#endif  // ASSAY_CLIENT_LIB_NPY_H_
