// The folder of users' kernels: whole kernels or none, bounded, and the oldest unused goes first.
#include "server/kernels/kernel_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace assay::server {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

class KernelFolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string path = (fs::temp_directory_path() / "assay-kernels-XXXXXX").string();
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    root_ = path;
    options_.path = (root_ / "kernels").string();
    options_.named = [this] { return absl::StatusOr<std::set<std::string>>(named_); };
  }
  void TearDown() override { fs::remove_all(root_); }

  std::unique_ptr<KernelFolder> Open() {
    absl::StatusOr<std::unique_ptr<KernelFolder>> folder = KernelFolder::Open(options_);
    EXPECT_TRUE(folder.ok()) << folder.status();
    return *std::move(folder);
  }
  static v1::UserKernel Kernel(char digit) {
    v1::UserKernel kernel;
    kernel.set_sha256(std::string(64, digit));
    kernel.set_provider("user/" + std::string(12, digit));
    return kernel;
  }
  static absl::Status Put(KernelFolder& folder, char digit, std::size_t bytes = 10) {
    const absl::StatusOr<std::string> path = folder.NewFolder();
    if (!path.ok()) return path.status();
    std::ofstream(*path + "/kernel.so") << std::string(bytes, 'x');
    absl::Status status = folder.Put(*path, Kernel(digit), "");
    if (!status.ok()) folder.Discard(*path);
    return status;
  }
  // Makes the kernel's last use older than that of the others.
  void Age(char digit) const {
    const fs::path about = fs::path(options_.path) / std::string(12, digit) / "about.json";
    fs::last_write_time(about, fs::file_time_type::clock::now() - std::chrono::hours(1));
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(options_.path)) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }

  fs::path root_;
  KernelFolderOptions options_;
  std::set<std::string> named_;
};

TEST_F(KernelFolderTest, AKernelSurvivesTheDaemon) {
  ASSERT_TRUE(Put(*Open(), 'a').ok());
  const std::optional<KernelFolder::Kept> kept = Open()->Find(std::string(12, 'a'));
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->kernel.sha256(), std::string(64, 'a'));
  EXPECT_TRUE(fs::exists(kept->library));
  struct stat found {};
  ASSERT_EQ(stat(options_.path.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0700u);
}

TEST_F(KernelFolderTest, WhatIsHalfWrittenIsRemoved) {
  ASSERT_TRUE(Put(*Open(), 'a').ok());
  const fs::path path(options_.path);
  fs::create_directory(path / "new-abc123");
  fs::create_directory(path / std::string(12, 'b'));  // nothing in it
  fs::create_directory(path / std::string(12, 'c'));  // the wrong kernel in it
  fs::copy(path / std::string(12, 'a'), path / std::string(12, 'c'));
  Open();
  EXPECT_THAT(Names(), UnorderedElementsAre(std::string(12, 'a')));
}

TEST_F(KernelFolderTest, TheOldestThatNoJobNamesGoesFirst) {
  options_.most_count = 2;
  std::unique_ptr<KernelFolder> folder = Open();
  ASSERT_TRUE(Put(*folder, 'a').ok());
  ASSERT_TRUE(Put(*folder, 'b').ok());
  folder->Find(std::string(12, 'a'));  // used after b
  ASSERT_TRUE(Put(*folder, 'c').ok());
  EXPECT_THAT(Names(), UnorderedElementsAre(std::string(12, 'a'), std::string(12, 'c')));
  named_ = {"user/" + std::string(12, 'a')};
  ASSERT_TRUE(Put(*folder, 'd').ok());
  EXPECT_THAT(Names(), UnorderedElementsAre(std::string(12, 'a'), std::string(12, 'd')));
  named_.insert("user/" + std::string(12, 'd'));
  EXPECT_TRUE(absl::IsResourceExhausted(Put(*folder, 'e')));
  EXPECT_THAT(Names(), UnorderedElementsAre(std::string(12, 'a'), std::string(12, 'd')));
}

TEST_F(KernelFolderTest, TheLastUseSurvivesTheDaemon) {
  ASSERT_TRUE(Put(*Open(), 'a').ok());
  ASSERT_TRUE(Put(*Open(), 'b').ok());
  Age('b');
  options_.most_count = 2;
  ASSERT_TRUE(Put(*Open(), 'c').ok());
  EXPECT_THAT(Names(), UnorderedElementsAre(std::string(12, 'a'), std::string(12, 'c')));
}

TEST_F(KernelFolderTest, BytesAreLimited) {
  options_.most_bytes = 3000;
  std::unique_ptr<KernelFolder> folder = Open();
  ASSERT_TRUE(Put(*folder, 'a', 2000).ok());
  ASSERT_TRUE(Put(*folder, 'b', 2000).ok());
  EXPECT_THAT(Names(), UnorderedElementsAre(std::string(12, 'b')));
  EXPECT_TRUE(absl::IsResourceExhausted(Put(*folder, 'c', 4000)));
}

TEST(KernelIdTest, OnlyTwelveHexadecimalDigitsAreAnId) {
  EXPECT_EQ(KernelIdOf("user/0123456789ab"), "0123456789ab");
  for (const char* wrong : {"user/", "user/0123456789a", "user/0123456789abc", "user/0123456789AB",
                            "user/../../../etc", "builtin", "0123456789ab"}) {
    EXPECT_FALSE(KernelIdOf(wrong)) << wrong;
  }
}

}  // namespace
}  // namespace assay::server
