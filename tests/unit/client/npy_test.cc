// Files that are read, and everything that must be refused: the corpus of malformed
// files, and what becomes of a good header when bytes of it are lost or changed.
#include "client/lib/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <numeric>
#include <random>

#include "client/lib/npy_header.h"
#include "tests/unit/client/npy_files.h"

namespace assay::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::NpyDict;
using testing::NpyFolder;
using testing::NpyPrefix;
using ::testing::StartsWith;

std::string Refusal(const std::string& path) {
  return std::string(NpyFile::Open(path).status().message());
}

// All of a file in row-major order, and the largest piece of it.
template <class T>
std::vector<T> ReadAll(const NpyFile& file, std::size_t most, std::size_t* largest = nullptr) {
  NpyFile::Reader reader(file, most);
  std::string all;
  for (;;) {
    const auto piece = reader.Next();
    EXPECT_TRUE(piece.ok()) << piece.status();
    if (!piece.ok() || piece->empty()) break;
    if (largest != nullptr) *largest = std::max(*largest, piece->size());
    all += std::string(*piece);
  }
  std::vector<T> values(all.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), all.data(), values.size() * sizeof(T));
  return values;
}

TEST(Npy, EveryVersionAndSpellingOfAHeader) {
  const auto shape_of = [](const std::string& bytes) {
    const auto header = ParseNpyHeader("x", bytes);
    EXPECT_TRUE(header.ok()) << header.status();
    return header.ok() ? header->shape : std::vector<std::int64_t>{-1};
  };
  for (const int version : {1, 2, 3}) {
    const std::string bytes = NpyPrefix(NpyDict("<f4", {2, 3}), version);
    EXPECT_THAT(shape_of(bytes), ElementsAre(2, 3));
    EXPECT_EQ(ParseNpyHeader("x", bytes)->data_begin, bytes.size());
  }
  EXPECT_THAT(shape_of(NpyPrefix(NpyDict("<f4", {}))), ElementsAre());
  EXPECT_THAT(shape_of(NpyPrefix(NpyDict("<f4", {7}))), ElementsAre(7));
  EXPECT_THAT(shape_of(NpyPrefix("{'shape':(2,3),\"descr\":\"<f4\",'fortran_order':True}")),
              ElementsAre(2, 3));
  EXPECT_THAT(shape_of(NpyPrefix("{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 3L,)}")),
              ElementsAre(2, 3));
  EXPECT_TRUE(ParseNpyHeader("x", NpyPrefix(NpyDict("<f4", {2, 3}, true)))->fortran_order);
}

TEST(Npy, WhatElementsSayTheyAre) {
  const auto dtype = [](const char* descr) {
    const auto element = ParseNpyDescr("x", descr);
    EXPECT_TRUE(element.ok()) << element.status();
    return element.ok() ? element->dtype : v1::DTYPE_UNSPECIFIED;
  };
  EXPECT_EQ(dtype("<f8"), v1::DTYPE_FP64);
  EXPECT_EQ(dtype("<f4"), v1::DTYPE_FP32);
  EXPECT_EQ(dtype("<f2"), v1::DTYPE_FP16);
  EXPECT_EQ(dtype("|i1"), v1::DTYPE_INT8);
  EXPECT_EQ(dtype("<i4"), v1::DTYPE_INT32);
  EXPECT_EQ(dtype("|b1"), v1::DTYPE_INT8);
  EXPECT_EQ(dtype("<f1"), v1::DTYPE_E5M2) << "of ml_dtypes";
  for (const char* raw : {"|u1", "<u2", "|V1", "|V2", "<V2"}) {
    EXPECT_EQ(dtype(raw), v1::DTYPE_UNSPECIFIED) << raw;
  }
  const auto can_hold = [](const char* descr, v1::DType type) {
    return CanHold(*ParseNpyDescr("x", descr), type);
  };
  EXPECT_TRUE(can_hold("|u1", v1::DTYPE_E5M2));
  EXPECT_TRUE(can_hold("|u1", v1::DTYPE_E2M1));
  EXPECT_FALSE(can_hold("|u1", v1::DTYPE_BF16));
  EXPECT_TRUE(can_hold("<u2", v1::DTYPE_BF16));
  EXPECT_TRUE(can_hold("<f4", v1::DTYPE_TF32));
  EXPECT_FALSE(can_hold("<f4", v1::DTYPE_FP64));
  EXPECT_FALSE(can_hold("<f2", v1::DTYPE_BF16));
  EXPECT_FALSE(can_hold("|u1", v1::DTYPE_UNSPECIFIED));
}

TEST(Npy, RefusalsNameTheFileWhatIsThereAndWhatWouldBeRight) {
  const NpyFolder folder;
  const auto refusal = [&](const std::string& descr) {
    const std::string path =
        folder.Write("a.npy", NpyPrefix(NpyDict(descr, {2})) + std::string(16, '\0'));
    const std::string text = Refusal(path);
    EXPECT_THAT(text, StartsWith(path + ": "));
    return text;
  };
  EXPECT_THAT(refusal(">f8"), HasSubstr("big-endian (\">f8\"); save it little-endian: "
                                        "a.astype('<f8')"));
  EXPECT_THAT(refusal("|O"), HasSubstr("Python objects"));
  EXPECT_THAT(refusal("<i8"), HasSubstr("int64 elements; float64, float32"));
  EXPECT_THAT(refusal("<c8"), HasSubstr("complex64"));
  EXPECT_THAT(refusal("<f4"), HasSubstr("has 16 bytes of data; its header, (2) of <f4, says 8"));
  EXPECT_THAT(Refusal("/nowhere/x.npy"), HasSubstr("/nowhere/x.npy: cannot be read: No such file"));
  EXPECT_THAT(Refusal("/tmp"), HasSubstr("folder"));
  EXPECT_THAT(Refusal("/dev/zero"), HasSubstr("must be a regular file"));
  const std::string pipe = folder.path("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(Refusal(pipe), HasSubstr("must be a regular file"))
      << "and does not wait for a writer";
}

TEST(Npy, TheCorpusIsRefusedAllOfIt) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(NPY_CORPUS)) {
    if (entry.path().extension() != ".npy") continue;
    ++files;
    const auto file = NpyFile::Open(entry.path().string());
    ASSERT_FALSE(file.ok()) << entry.path() << " was taken";
    EXPECT_TRUE(absl::IsInvalidArgument(file.status())) << entry.path();
    EXPECT_THAT(std::string(file.status().message()), StartsWith(entry.path().string() + ": "));
  }
  EXPECT_GE(files, 80);
}

// Whatever a byte of a header becomes: it is read as another header or refused, and
// nothing outside of the file is looked at (the bytes lie at the end of a heap block).
TEST(Npy, AChangedHeaderIsAnotherOrRefused) {
  const auto parse = [](const std::string& bytes) {
    const std::unique_ptr<char[]> exact(new char[bytes.size()]);
    std::memcpy(exact.get(), bytes.data(), bytes.size());
    const auto header = ParseNpyHeader("x", std::string_view(exact.get(), bytes.size()));
    if (!header.ok()) {
      EXPECT_TRUE(absl::IsInvalidArgument(header.status()));
      return false;
    }
    EXPECT_LE(header->data_begin, bytes.size());
    for (const std::int64_t extent : header->shape) EXPECT_GE(extent, 0);
    ParseNpyDescr("x", header->descr).IgnoreError();
    return true;
  };
  for (const int version : {1, 2, 3}) {
    const std::string good = NpyPrefix(NpyDict("<f4", {2, 3}), version);
    ASSERT_TRUE(parse(good));
    for (std::size_t size = 0; size < good.size(); ++size) {
      EXPECT_FALSE(parse(good.substr(0, size))) << "cut to " << size;
    }
    for (std::size_t at = 0; at < good.size(); ++at) {
      for (int value = 0; value < 256; ++value) {
        std::string changed = good;
        changed[at] = static_cast<char>(value);
        parse(changed);
      }
    }
  }
  // Words of the format in any order.
  const char* const words[] = {"{",    "}",       "(",
                               ")",    "'descr'", ":",
                               ",",    "'<f4'",   "'shape'",
                               "2",    "L",       "'fortran_order'",
                               "True", "-",       "[",
                               "'",    "\"",      "\\",
                               " ",    "\n",      "9999999999999999999"};
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i) {
    std::string dict = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
    for (int change = 0; change < 4; ++change) {
      const std::size_t at = random() % (dict.size() + 1);
      dict.replace(at, random() % 3, words[random() % std::size(words)]);
    }
    parse(NpyPrefix(dict));
  }
}

TEST(Npy, RowMajorDataComeAsTheyAre) {
  const NpyFolder folder;
  std::vector<std::uint16_t> values(1000);
  std::iota(values.begin(), values.end(), std::uint16_t{7});
  const auto file = NpyFile::Open(folder.Array("a.npy", "<u2", {10, 100}, values));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->bytes(), 2000);
  std::size_t largest = 0;
  EXPECT_EQ(ReadAll<std::uint16_t>(**file, 301, &largest), values);
  EXPECT_EQ(largest, 300u) << "whole elements only";
  EXPECT_EQ(ReadAll<std::uint16_t>(**file, 1 << 20), values);
}

// Element (i0, i1, …) of a column-major file lies at i0 + d0·(i1 + d1·(i2 + …)).
TEST(Npy, ColumnMajorDataAreTransposed) {
  const NpyFolder folder;
  const std::vector<std::vector<std::int64_t>> shapes = {{6},    {2, 3},       {3, 4, 5}, {1, 7},
                                                         {7, 1}, {5, 1, 3, 2}, {64, 130}};
  for (const auto& shape : shapes) {
    std::int64_t count = 1;
    for (const std::int64_t extent : shape) count *= extent;
    std::vector<std::int32_t> stored(static_cast<std::size_t>(count)), expected;
    std::iota(stored.begin(), stored.end(), 0);
    for (std::int64_t i = 0; i < count; ++i) {
      std::int64_t rest = i, index = 0, stride = 1;
      std::vector<std::int64_t> at(shape.size());
      for (std::size_t axis = shape.size(); axis-- > 0;) {
        at[axis] = rest % shape[axis];
        rest /= shape[axis];
      }
      for (std::size_t axis = 0; axis < shape.size(); ++axis) {
        index += at[axis] * stride;
        stride *= shape[axis];
      }
      expected.push_back(stored[static_cast<std::size_t>(index)]);
    }
    const auto file = NpyFile::Open(folder.Array("a.npy", "<i4", shape, stored, true));
    ASSERT_TRUE(file.ok()) << file.status();
    for (const std::size_t most : {std::size_t{4}, std::size_t{52}, std::size_t{1} << 20}) {
      EXPECT_EQ(ReadAll<std::int32_t>(**file, most), expected) << shape.size() << " axes";
    }
  }
}

// Rows longer than what is transposed at a time come in parts.
TEST(Npy, LongRowsOfColumnMajorData) {
  const NpyFolder folder;
  const std::int64_t columns = (std::int64_t{16} << 20) + 1234;
  std::vector<std::uint8_t> stored(static_cast<std::size_t>(3 * columns));
  for (std::size_t i = 0; i < stored.size(); ++i) stored[i] = static_cast<std::uint8_t>(i * 7 / 5);
  const auto file = NpyFile::Open(folder.Array("a.npy", "|u1", {3, columns}, stored, true));
  ASSERT_TRUE(file.ok()) << file.status();
  const auto values = ReadAll<std::uint8_t>(**file, 1 << 20);
  ASSERT_EQ(values.size(), stored.size());
  for (std::int64_t row = 0; row < 3; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      ASSERT_EQ(values[static_cast<std::size_t>(row * columns + column)],
                stored[static_cast<std::size_t>(column * 3 + row)])
          << row << ", " << column;
    }
  }
}

TEST(Npy, ScalarsAndNothing) {
  const NpyFolder folder;
  const auto scalar = NpyFile::Open(folder.Array<double>("s.npy", "<f8", {}, {2.5}));
  ASSERT_TRUE(scalar.ok()) << scalar.status();
  EXPECT_THAT(ReadAll<double>(**scalar, 1 << 20), ElementsAre(2.5));
  for (const bool fortran : {false, true}) {
    const auto none = NpyFile::Open(folder.Array<double>("n.npy", "<f8", {3, 0, 2}, {}, fortran));
    ASSERT_TRUE(none.ok()) << none.status();
    EXPECT_THAT(ReadAll<double>(**none, 1 << 20), ElementsAre());
  }
}

TEST(Npy, AFileThatShrinksIsFoundOut) {
  const NpyFolder folder;
  const std::string path =
      folder.Array("a.npy", "<f4", {100'000}, std::vector<float>(100'000, 1.0f));
  const auto file = NpyFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  NpyFile::Reader reader(**file, 4096);
  ASSERT_TRUE(reader.Next().ok());
  std::filesystem::resize_file(path, 1000);
  const auto next = reader.Next();
  EXPECT_TRUE(absl::IsDataLoss(next.status()));
  EXPECT_THAT(std::string(next.status().message()), HasSubstr("shorter"));
}

}  // namespace
}  // namespace assay::client
