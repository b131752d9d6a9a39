#include "client/lib/npy.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/lib/text.h"

namespace assay::client {
namespace {

// Rows of column-major data that are transposed together: reading a cache line of
// each column at a time, and of the file's pages no more than these span.
constexpr std::int64_t kTransposed = std::int64_t{16} << 20;  // [bytes]

// a·b, or nothing where it is beyond what a file can have.
std::optional<std::int64_t> Product(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

}  // namespace

absl::StatusOr<std::unique_ptr<NpyFile>> NpyFile::Open(const std::string& path) {
  std::unique_ptr<NpyFile> file(new NpyFile(path));
  // Without waiting: a pipe that nobody writes is refused below.
  file->fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat status = {};
  if (file->fd_ < 0 || fstat(file->fd_, &status) != 0) {
    return WrongFile(path,
                     absl::StrCat("cannot be read: ", std::generic_category().message(errno)));
  }
  if (!S_ISREG(status.st_mode)) {
    return WrongFile(path, S_ISDIR(status.st_mode)
                               ? "is a folder, not an .npy file"
                               : "is a pipe or a device; must be a regular file");
  }
  file->mapped_ = static_cast<std::size_t>(status.st_size);
  if (file->mapped_ > 0) {
    file->mapping_ = mmap(nullptr, file->mapped_, PROT_READ, MAP_PRIVATE, file->fd_, 0);
    if (file->mapping_ == MAP_FAILED) {
      file->mapping_ = nullptr;
      return WrongFile(path, absl::StrCat("cannot be mapped into memory: ",
                                          std::generic_category().message(errno)));
    }
    (void)madvise(file->mapping_, file->mapped_, MADV_SEQUENTIAL);
  }
  const std::string_view all(static_cast<const char*>(file->mapping_), file->mapped_);
  auto header = ParseNpyHeader(path, all);
  if (!header.ok()) return header.status();
  auto element = ParseNpyDescr(path, header->descr);
  if (!element.ok()) return element.status();
  std::optional<std::int64_t> bytes = element->bytes;
  for (const std::int64_t extent : header->shape) {
    if (bytes && extent != 0) bytes = Product(*bytes, extent);
  }
  const bool empty =
      std::find(header->shape.begin(), header->shape.end(), 0) != header->shape.end();
  const std::size_t there = all.size() - header->data_begin;
  if (!bytes || (empty ? 0 : static_cast<std::size_t>(*bytes)) != there) {
    return WrongFile(
        path, absl::StrCat("has ", there, " bytes of data; its header, (",
                           absl::StrJoin(header->shape, ", "), ") of ", header->descr, ", says ",
                           bytes ? absl::StrCat(empty ? 0 : *bytes) : "more than any file has"));
  }
  file->header_ = *std::move(header);
  file->element_ = *element;
  file->bytes_ = empty ? 0 : *bytes;
  file->data_ = all.data() + file->header_.data_begin;
  return file;
}

NpyFile::~NpyFile() {
  if (mapping_ != nullptr) munmap(mapping_, mapped_);
  if (fd_ >= 0) close(fd_);
}

NpyFile::Reader::Reader(const NpyFile& file, std::size_t most)
    : file_(file),
      most_(std::max<std::size_t>(1, most / static_cast<std::size_t>(file.element_.bytes)) *
            static_cast<std::size_t>(file.element_.bytes)) {}

absl::StatusOr<std::string_view> NpyFile::Reader::Next() {
  if (at_ == file_.bytes_) return std::string_view();
  // Reading behind the end of a file that has shrunk would end the process.
  struct stat status = {};
  if (fstat(file_.fd_, &status) != 0 || static_cast<std::size_t>(status.st_size) < file_.mapped_) {
    return absl::DataLossError(absl::StrCat(file_.path_, ": has become shorter while it was read"));
  }
  const std::int64_t begin = at_;
  std::int64_t end = file_.bytes_;
  const char* data = file_.data_ + begin;
  if (file_.header_.fortran_order && file_.header_.shape.size() > 1) {
    if (at_ == rows_end_) Transpose();
    end = rows_end_;
    data = held_.data() + (begin - rows_begin_);
  }
  at_ = std::min(end, begin + static_cast<std::int64_t>(most_));
  return std::string_view(data, static_cast<std::size_t>(at_ - begin));
}

// Rows are indices of the outermost axis, which lies innermost in the file: of each
// combination of the other axes the rows' elements are read, which lie together. Where
// one row alone is more than is held, a part of it.
void NpyFile::Reader::Transpose() {
  const std::int64_t size = file_.element_.bytes;
  const std::int64_t height = file_.header_.shape[0];
  const std::int64_t inner = file_.bytes_ / size / height;
  const std::int64_t row_bytes = inner * size;
  const std::int64_t first = rows_end_ / row_bytes;
  const std::int64_t begin = rows_end_ % row_bytes / size;
  const std::int64_t rows =
      begin > 0 ? 1 : std::clamp<std::int64_t>(kTransposed / row_bytes, 1, height - first);
  // All of them, unless it is a part of one row.
  const std::int64_t columns = rows > 1 ? inner : std::min(inner - begin, kTransposed / size);
  held_.resize(static_cast<std::size_t>(rows * columns * size));
  rows_begin_ = rows_end_;
  rows_end_ += rows * columns * size;
  switch (size) {
    case 1:
      return Gather<std::uint8_t>(first, rows, begin, columns);
    case 2:
      return Gather<std::uint16_t>(first, rows, begin, columns);
    case 4:
      return Gather<std::uint32_t>(first, rows, begin, columns);
    default:
      return Gather<std::uint64_t>(first, rows, begin, columns);
  }
}

template <class Element>
void NpyFile::Reader::Gather(std::int64_t first, std::int64_t rows, std::int64_t begin,
                             std::int64_t columns) {
  const std::vector<std::int64_t>& shape = file_.header_.shape;
  // Index and distance in the file [elements] of each axis but the outermost.
  std::vector<std::int64_t> index(shape.size(), 0), step(shape.size(), shape[0]);
  for (std::size_t axis = 2; axis < shape.size(); ++axis) {
    step[axis] = step[axis - 1] * shape[axis - 1];
  }
  std::int64_t at = first;  // [elements] in the file
  for (std::size_t axis = shape.size() - 1; axis > 0; --axis) {
    index[axis] = begin % shape[axis];
    begin /= shape[axis];
    at += index[axis] * step[axis];
  }
  constexpr std::size_t kSize = sizeof(Element);
  const std::size_t row_bytes = static_cast<std::size_t>(columns) * kSize;
  for (std::int64_t i = 0; i < columns; ++i) {
    const char* from = file_.data_ + static_cast<std::size_t>(at) * kSize;
    char* to = held_.data() + static_cast<std::size_t>(i) * kSize;
    for (std::int64_t row = 0; row < rows; ++row) {
      std::memcpy(to, from, kSize);
      from += kSize;
      to += row_bytes;
    }
    for (std::size_t axis = shape.size() - 1; axis > 0; --axis) {
      at += step[axis];
      if (++index[axis] < shape[axis]) break;
      at -= step[axis] * shape[axis];
      index[axis] = 0;
    }
  }
}

}  // namespace assay::client
