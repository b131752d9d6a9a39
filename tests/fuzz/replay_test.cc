// Gives each fuzz target the files of its folder. A file that once broke a parser stays there.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "tests/fuzz/fuzz.h"

namespace assay::fuzz {
namespace {

class Replay : public ::testing::TestWithParam<Target> {};

TEST_P(Replay, EveryFileOfTheFolder) {
  int files = 0;
  const std::filesystem::path folder = std::filesystem::path(FUZZ_FILES) / GetParam().name;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    SCOPED_TRACE(entry.path().string());
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    // At the end of a block of memory, so that a sanitizer sees who reads on.
    const std::unique_ptr<char[]> exact(new char[bytes.size()]);
    std::memcpy(exact.get(), bytes.data(), bytes.size());
    GetParam().run({exact.get(), bytes.size()});
    ++files;
  }
  EXPECT_GT(files, 0) << "no file in " << folder;
}

TEST(Record, EachInputFindsTheSameStore) {
  FuzzRecord("");
  for (char column = 0; column < 7; ++column) FuzzRecord({&column, 1});
  FuzzRecord("");
}

INSTANTIATE_TEST_SUITE_P(Fuzz, Replay, ::testing::ValuesIn(Targets()),
                         [](const auto& name) { return std::string(name.param.name); });

}  // namespace
}  // namespace assay::fuzz
