// The daemon keeps the ceilings that a worker sent: for the next worker, and in a file.
#include "server/worker/ceilings_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace assay::server {
namespace {

namespace fs = std::filesystem;

class CeilingsFileTest : public ::testing::Test {
 protected:
  CeilingsFileTest() : folder_(fs::path(::testing::TempDir()) / "ceilings-file") {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~CeilingsFileTest() override { fs::remove_all(folder_); }

  std::string path() const { return folder_ / "ceilings-cpu:0"; }

  const fs::path folder_;
};

TEST_F(CeilingsFileTest, TheNextDaemonHasTheNewestText) {
  {
    CeilingsFile file(path());
    EXPECT_EQ(file.text(), "");
    file.Keep("one");
    file.Keep("two");
    file.Keep("");  // a case that changed none
    EXPECT_EQ(file.text(), "two");
  }
  EXPECT_EQ(CeilingsFile(path()).text(), "two");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1) << "nothing left behind";
}

TEST_F(CeilingsFileTest, ATextThatNoWorkerSendsIsNotKept) {
  CeilingsFile file(path());
  file.Keep(std::string(1 << 20, 'x'));
  EXPECT_EQ(file.text(), "");
  EXPECT_FALSE(fs::exists(path()));
  std::ofstream(path()) << std::string(1 << 20, 'x');
  EXPECT_EQ(CeilingsFile(path()).text(), "");
}

TEST_F(CeilingsFileTest, WithoutAFileTheNextWorkerStillHasIt) {
  for (const char* nowhere : {"", "/nowhere/at/all"}) {
    CeilingsFile file(nowhere);
    file.Keep("one");
    EXPECT_EQ(file.text(), "one");
  }
}

}  // namespace
}  // namespace assay::server
