// The newest audited calls: what is kept of them, and for how long.
#include "server/auth/audit_trail.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "server/auth/access.h"

namespace assay::server {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class AuditTrailTest : public ::testing::Test {
 protected:
  AuditTrailTest() {
    std::string path = (fs::temp_directory_path() / "assay-audit-XXXXXX").string();
    folder_ = mkdtemp(path.data());
  }
  ~AuditTrailTest() override { fs::remove_all(folder_); }

  static v1::AuditEvent Call(const std::string& target) {
    return Audit({.name = "uid:7", .role = Role::kAdmin, .peer = "unix:"}, "DeleteJob", target,
                 "OK");
  }
  static std::vector<std::string> Targets(AuditTrail& trail, std::size_t most = 1000) {
    std::vector<std::string> targets;
    for (const v1::AuditEvent& event : trail.Newest(most)) targets.push_back(event.target());
    return targets;
  }

  std::string folder_;
};

TEST_F(AuditTrailTest, TheNewestComeFirstAndOutliveTheDaemon) {
  {
    AuditTrail trail(folder_);
    EXPECT_THAT(Targets(trail), IsEmpty());
    for (const char* target : {"jobs/a", "jobs/b", "jobs/c"}) trail.Add(Call(target));
    EXPECT_THAT(Targets(trail, 2), ElementsAre("jobs/c", "jobs/b"));
  }
  AuditTrail trail(folder_);
  trail.Add(Call("jobs/d"));
  EXPECT_THAT(Targets(trail), ElementsAre("jobs/d", "jobs/c", "jobs/b", "jobs/a"));
  const v1::AuditEvent newest = trail.Newest(1).at(0);
  EXPECT_EQ(newest.who(), "uid:7");
  EXPECT_EQ(newest.role(), "admin");
  EXPECT_EQ(newest.call(), "DeleteJob");
  EXPECT_EQ(newest.result(), "OK");
  EXPECT_GT(newest.time().seconds(), 1'700'000'000);
  struct stat found {};
  ASSERT_EQ(stat((folder_ + "/audit.jsonl").c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0600u);
}

TEST_F(AuditTrailTest, WhatIsOldGoes) {
  AuditTrail trail(folder_, 2000);
  for (int i = 0; i < 100; ++i) trail.Add(Call("jobs/" + std::to_string(i)));
  const std::vector<std::string> targets = Targets(trail);
  EXPECT_EQ(targets.front(), "jobs/99");
  EXPECT_GT(targets.size(), 10u);
  EXPECT_LT(targets.size(), 40u);
  for (const char* name : {"/audit.jsonl", "/audit.1.jsonl"}) {
    EXPECT_LE(fs::file_size(folder_ + name), 2000u) << name;
  }
}

TEST_F(AuditTrailTest, WhoCallsWithoutEndPushesNobodyOut) {
  AuditTrail trail(folder_);
  const auto call = [](const char* who) {
    return Audit({.name = who, .role = Role::kOperator, .peer = "unix:"}, "CancelJob", "jobs/none",
                 "NOT_FOUND");
  };
  trail.Add(call("uid:7"));
  for (int i = 0; i < 40'000; ++i) trail.Add(call("uid:8"));
  trail.Add(call("uid:9"));
  const std::vector<v1::AuditEvent> all = trail.Newest(50'000);
  EXPECT_EQ(all.front().who(), "uid:9");
  EXPECT_EQ(all.back().who(), "uid:7");
  EXPECT_GE(all.size(), 1002u);
  EXPECT_LT(all.size(), 10'000u);  // five a second of a machine that is slow
}

// A daemon that was killed may have left a part of a line.
TEST_F(AuditTrailTest, ALineThatIsNoneIsPassedOver) {
  {
    AuditTrail trail(folder_);
    trail.Add(Call("jobs/a"));
  }
  std::ofstream(folder_ + "/audit.jsonl", std::ios::app) << R"({"time":"2026-)";
  AuditTrail trail(folder_);
  trail.Add(Call("jobs/b"));
  EXPECT_THAT(Targets(trail), ElementsAre("jobs/b", "jobs/a"));
}

TEST_F(AuditTrailTest, NamesAreTextWhateverACertificateHolds) {
  AuditTrail trail(folder_);
  trail.Add(Audit({.name = "certificate \xff\x1b[0m", .role = Role::kOperator, .peer = "ipv4:1"},
                  "CreateJob", "jobs/\xc3", "OK"));
  ASSERT_THAT(trail.Newest(5), SizeIs(1));
  EXPECT_EQ(trail.Newest(5)[0].who(), R"(certificate \xff\x1b[0m)");
  EXPECT_EQ(trail.Newest(5)[0].target(), R"(jobs/\xc3)");
}

TEST_F(AuditTrailTest, AFileThatCannotBeMadeIsTriedAgain) {
  AuditTrail trail(folder_ + "/none");
  trail.Add(Call("jobs/a"));
  EXPECT_THAT(Targets(trail), IsEmpty());
  fs::create_directory(folder_ + "/none");
  trail.Add(Call("jobs/b"));
  EXPECT_THAT(Targets(trail), ElementsAre("jobs/b"));
}

}  // namespace
}  // namespace assay::server
