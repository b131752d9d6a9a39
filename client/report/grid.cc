#include "client/report/grid.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/report/units.h"

namespace assay::client {
namespace {

constexpr std::size_t kNumberGap = 2;  // [columns] between two numbers
constexpr std::size_t kLeastColumns = 4;

// The extents of the slice as rows and columns, and how many such tables there are.
struct Shape {
  std::int64_t tables = 1;
  std::int64_t rows = 1;
  std::int64_t cols = 1;
};

Shape Extents(const v1::Slice& slice) {
  Shape shape;
  const int axes = slice.shape_size();
  if (axes > 0) shape.cols = slice.shape(axes - 1);
  if (axes > 1) shape.rows = slice.shape(axes - 2);
  for (int d = 0; d + 2 < axes; ++d) shape.tables *= slice.shape(d);
  return shape;
}

std::int64_t Begin(const v1::Slice& slice, int axis) {
  return axis >= 0 && axis < slice.begin_size() ? slice.begin(axis) : 0;
}

// "[0,3,:,:]": which table this is.
std::string TableName(const v1::Slice& slice, std::int64_t table) {
  std::vector<std::string> at(static_cast<std::size_t>(slice.shape_size()), ":");
  for (int d = slice.shape_size() - 3; d >= 0; --d) {
    at[static_cast<std::size_t>(d)] = absl::StrCat(Begin(slice, d) + table % slice.shape(d));
    table /= slice.shape(d);
  }
  return absl::StrCat("[", absl::StrJoin(at, ","), "]");
}

std::string ElementText(const v1::Slice& slice, bool bits, std::int64_t at) {
  const int i = static_cast<int>(at);
  if (bits && i < slice.bits_size()) return slice.bits(i);
  if (i >= slice.values_size()) return "–";
  // What no tensor stores, the reference and its bound, is FP64.
  if (bits) return absl::StrFormat("0x%016x", std::bit_cast<std::uint64_t>(slice.values(i)));
  return ValueText(slice.values(i));
}

}  // namespace

std::string SliceGrid(const v1::Slice& slice, bool bits, std::size_t width) {
  const Shape shape = Extents(slice);
  std::string text = absl::StrCat(slice.name(), "\n");
  const std::int64_t first_row = Begin(slice, slice.shape_size() - 2);
  const std::int64_t first_col = Begin(slice, slice.shape_size() - 1);
  const bool has_rows = slice.shape_size() > 1;
  std::size_t cell = absl::StrCat(first_col + shape.cols - 1).size();
  const std::int64_t count = shape.tables * shape.rows * shape.cols;
  for (std::int64_t i = 0; i < count; ++i)
    cell = std::max(cell, DisplayWidth(ElementText(slice, bits, i)));
  const std::size_t label = has_rows ? absl::StrCat(first_row + shape.rows - 1).size() : 0;
  std::int64_t fit = shape.cols;
  if (width > 0) {
    const std::size_t room = width > label + kNumberGap ? width - label - kNumberGap : 0;
    fit = static_cast<std::int64_t>(std::max(kLeastColumns, room / (cell + kNumberGap)));
  }
  for (std::int64_t table = 0; table < shape.tables; ++table) {
    if (slice.shape_size() > 2) absl::StrAppend(&text, "  ", TableName(slice, table), "\n");
    for (std::int64_t from = 0; from < shape.cols; from += fit) {
      const std::int64_t to = std::min(shape.cols, from + fit);
      absl::StrAppend(&text, "  ", std::string(label, ' '));
      for (std::int64_t c = from; c < to; ++c) {
        absl::StrAppend(&text, std::string(kNumberGap, ' '),
                        PadLeft(absl::StrCat(first_col + c), cell));
      }
      text += '\n';
      for (std::int64_t r = 0; r < shape.rows; ++r) {
        absl::StrAppend(&text, "  ", has_rows ? PadLeft(absl::StrCat(first_row + r), label) : "");
        for (std::int64_t c = from; c < to; ++c) {
          absl::StrAppend(
              &text, std::string(kNumberGap, ' '),
              PadLeft(ElementText(slice, bits, (table * shape.rows + r) * shape.cols + c), cell));
        }
        text += '\n';
      }
    }
  }
  return text;
}

}  // namespace assay::client
