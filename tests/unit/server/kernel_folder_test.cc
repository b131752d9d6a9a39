// The folder of users' kernels: whole kernels or none, bounded, and the oldest unused goes first.
#include "server/kernels/kernel_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "google/rpc/error_details.pb.h"
#include "kernels/text/cat.h"

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
    options_.fresh = absl::ZeroDuration();
    options_.named = [this] { return absl::StatusOr<std::set<std::string>>(named_); };
  }
  void TearDown() override { fs::remove_all(root_); }

  std::unique_ptr<KernelFolder> Open() {
    absl::StatusOr<std::unique_ptr<KernelFolder>> folder = KernelFolder::Open(options_);
    EXPECT_TRUE(folder.ok()) << folder.status();
    return *std::move(folder);
  }
  static v1::UserKernel Kernel(char digit, v1::KernelForm form = v1::KERNEL_FORM_LIBRARY) {
    v1::UserKernel kernel;
    kernel.set_form(form);
    kernel.set_sha256(std::string(64, digit));
    kernel.set_provider("user/" + std::string(12, digit));
    return kernel;
  }
  static absl::Status Put(KernelFolder& folder, char digit, std::size_t bytes = 10) {
    return Put(folder, Kernel(digit), "", std::string(bytes, 'x'));
  }
  static absl::Status Put(KernelFolder& folder, const v1::UserKernel& kernel,
                          const std::string& toolchain, const std::string& library) {
    const absl::StatusOr<std::string> path = folder.NewFolder();
    if (!path.ok()) return path.status();
    std::ofstream(*path + "/kernel.so") << library;
    absl::Status status = folder.Put(*path, kernel, toolchain);
    if (!status.ok()) folder.Discard(*path);
    return status;
  }
  std::string LibraryOf(char digit) const {
    std::ifstream file(fs::path(options_.path) / std::string(12, digit) / "kernel.so");
    return {std::istreambuf_iterator<char>(file), {}};
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

  // What an error tells a program of the limit that is reached.
  static std::string LimitIn(const absl::Status& status) {
    google::rpc::ErrorInfo info;
    google::rpc::RetryInfo retry;
    if (!Read(status, info) || info.reason() != "LIMIT_REACHED") return "";
    const std::string again =
        Read(status, retry) ? Cat("again in ", retry.retry_delay().seconds(), " s") : "never again";
    return Cat(info.metadata().at("limit"), " ", info.metadata().at("value"), ", ", again);
  }
  static bool Read(const absl::Status& status, google::protobuf::Message& detail) {
    const auto payload =
        status.GetPayload("type.googleapis.com/" + detail.GetDescriptor()->full_name());
    return payload && detail.ParseFromString(std::string(*payload));
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
  const absl::Status refused = Put(*folder, 'e');
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("a limit is reached: all clients together may have 2 users' kernels "
                        "(user-kernels-keep); there is no room for another kernel: kept jobs name "
                        "the other 2, or"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("; try again in 1m"));
  EXPECT_EQ(LimitIn(refused), "user-kernels-keep 2, again in 60 s");
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
  const absl::Status never = Put(*folder, 'c', 4000);
  EXPECT_TRUE(absl::IsResourceExhausted(never));
  EXPECT_THAT(std::string(never.message()), HasSubstr("; send a smaller one"));
  EXPECT_EQ(LimitIn(never), "user-kernels-keep-bytes 3000, never again");
  EXPECT_THAT(Names(), UnorderedElementsAre(std::string(12, 'b'))) << "none goes for nothing";
  named_ = {"user/" + std::string(12, 'b')};
  EXPECT_EQ(LimitIn(Put(*folder, 'd', 2000)), "user-kernels-keep-bytes 3000, again in 60 s");
}

TEST_F(KernelFolderTest, TheSameKernelStaysAndIsNotWrittenAgain) {
  std::unique_ptr<KernelFolder> folder = Open();
  ASSERT_TRUE(Put(*folder, Kernel('a'), "gcc 12", "first").ok());
  ASSERT_TRUE(Put(*folder, Kernel('a'), "gcc 12", "second").ok());
  EXPECT_EQ(LibraryOf('a'), "first") << "a job may have it open, and the two are the same kernel";
  EXPECT_THAT(Names(), UnorderedElementsAre(std::string(12, 'a')));
}

TEST_F(KernelFolderTest, AnotherToolchainsLibraryTakesThePlace) {
  std::unique_ptr<KernelFolder> folder = Open();
  named_ = {"user/" + std::string(12, 'a')};
  ASSERT_TRUE(Put(*folder, Kernel('a'), "gcc 12", "first").ok());
  ASSERT_TRUE(Put(*folder, Kernel('a'), "gcc 13", "second").ok());
  EXPECT_EQ(LibraryOf('a'), "second");
  EXPECT_EQ(Open()->Find(std::string(12, 'a'))->toolchain, "gcc 13");
  EXPECT_THAT(Names(), UnorderedElementsAre(std::string(12, 'a')));
}

TEST_F(KernelFolderTest, ADamagedKernelIsReplaced) {
  std::unique_ptr<KernelFolder> folder = Open();
  const fs::path kept = fs::path(options_.path) / std::string(12, 'a');
  ASSERT_TRUE(Put(*folder, Kernel('a'), "", "first").ok());
  fs::remove(kept / "kernel.so");
  ASSERT_TRUE(Put(*folder, Kernel('a'), "", "second").ok());
  EXPECT_EQ(LibraryOf('a'), "second");
  fs::remove_all(kept);
  ASSERT_TRUE(Put(*folder, Kernel('a'), "", "third").ok());
  EXPECT_EQ(LibraryOf('a'), "third");
  EXPECT_THAT(Names(), UnorderedElementsAre(std::string(12, 'a')));
}

TEST_F(KernelFolderTest, AKernelWhoseJobMayBeOnItsWayStays) {
  options_.most_count = 1;
  options_.fresh = absl::Hours(1000);
  ASSERT_TRUE(Put(*Open(), 'a').ok());
  EXPECT_TRUE(absl::IsResourceExhausted(Put(*Open(), 'b')));
  EXPECT_THAT(Names(), UnorderedElementsAre(std::string(12, 'a')));
  options_.fresh = absl::Minutes(2);
  Age('a');
  ASSERT_TRUE(Put(*Open(), 'b').ok());
  EXPECT_THAT(Names(), UnorderedElementsAre(std::string(12, 'b')));
}

TEST_F(KernelFolderTest, TheSameBytesInAnotherFormTakeThePlaceOfWhatNoJobNames) {
  const v1::UserKernel c = Kernel('a', v1::KERNEL_FORM_C);
  const v1::UserKernel cxx = Kernel('a', v1::KERNEL_FORM_CXX);
  std::unique_ptr<KernelFolder> folder = Open();
  ASSERT_TRUE(Put(*folder, c, "", "of C").ok());
  EXPECT_TRUE((*folder->FindSame(c)).has_value());
  EXPECT_FALSE((*folder->FindSame(cxx)).has_value());
  named_ = {"user/" + std::string(12, 'a')};
  EXPECT_TRUE(absl::IsAlreadyExists(Put(*folder, cxx, "", "of C++")));
  const absl::Status named = folder->FindSame(cxx).status();
  EXPECT_TRUE(absl::IsAlreadyExists(named));
  EXPECT_THAT(std::string(named.message()), HasSubstr("kept jobs name that one; change a byte"));
  EXPECT_THAT(std::string(named.message()), HasSubstr("the same bytes are here as C, not as CXX"));
  EXPECT_EQ(LibraryOf('a'), "of C");
  named_.clear();
  ASSERT_TRUE(Put(*folder, cxx, "", "of C++").ok());
  EXPECT_EQ(LibraryOf('a'), "of C++");
  options_.fresh = absl::Hours(1000);
  const absl::Status fresh = Open()->FindSame(c).status();
  EXPECT_TRUE(absl::IsAlreadyExists(fresh));
  EXPECT_THAT(std::string(fresh.message()), HasSubstr("the same bytes are here as CXX, not as C:"));
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
