// A client names a file of the node: nothing leads out of the folders that the operator approved.
#include "server/kernels/node_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace assay::server {
namespace {

namespace fs = std::filesystem;

class NodeFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string path = (fs::temp_directory_path() / "assay-node-XXXXXX").string();
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    root_ = path;
    fs::create_directories(root_ / "approved/deep");
    Write(root_ / "secret.so");
    Write(root_ / "approved/lib.so");
    Write(root_ / "approved/deep/lib.so");
  }
  void TearDown() override { fs::remove_all(root_); }

  static void Write(const fs::path& path) { std::ofstream(path) << "x"; }
  absl::StatusCode CodeOf(const fs::path& path) {
    const absl::StatusOr<int> file = OpenNodeFile(path.string(), {(root_ / "approved").string()});
    if (file.ok()) close(*file);
    return file.status().code();
  }

  fs::path root_;
};

TEST_F(NodeFileTest, AFileBelowAnApprovedFolderIsOpened) {
  EXPECT_EQ(CodeOf(root_ / "approved/lib.so"), absl::StatusCode::kOk);
  EXPECT_EQ(CodeOf(root_ / "approved/deep/lib.so"), absl::StatusCode::kOk);
  fs::create_symlink("lib.so", root_ / "approved/link.so");
  EXPECT_EQ(CodeOf(root_ / "approved/link.so"), absl::StatusCode::kOk) << "it stays below";
}

TEST_F(NodeFileTest, NoPathLeadsOut) {
  fs::create_symlink(root_ / "secret.so", root_ / "approved/out.so");
  fs::create_symlink(root_, root_ / "approved/up");
  for (const char* path : {"secret.so", "approved/../secret.so", "approved/deep/../../secret.so",
                           "approved/out.so", "approved/up/secret.so", "approved-not/lib.so"}) {
    EXPECT_EQ(CodeOf(root_ / path), absl::StatusCode::kPermissionDenied) << path;
  }
  EXPECT_EQ(OpenNodeFile("/etc/passwd", {}).status().code(), absl::StatusCode::kPermissionDenied);
}

TEST_F(NodeFileTest, WhatIsNoPlainFileIsRefusedWithoutWaiting) {
  ASSERT_EQ(mkfifo((root_ / "approved/pipe.so").c_str(), 0600), 0);
  EXPECT_EQ(CodeOf(root_ / "approved/pipe.so"), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(root_ / "approved/deep"), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(root_ / "approved/absent.so"), absl::StatusCode::kNotFound);
  EXPECT_EQ(CodeOf("approved/lib.so"), absl::StatusCode::kInvalidArgument) << "relative";
}

}  // namespace
}  // namespace assay::server
