// Who may make which call: the table, the file of roles, and what callers show.
#include "server/auth/access.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>

#include "absl/strings/escaping.h"
#include "assay/v1/service.pb.h"
#include "kernels/text/cat.h"
#include "server/auth/http_caller.h"

namespace assay::server {
namespace {

using ::testing::HasSubstr;

std::string HashText(std::string_view token) {
  const Sha256 hash = Sha256Of(token);
  return absl::BytesToHexString({reinterpret_cast<const char*>(hash.data()), hash.size()});
}

// ---- the table

const google::protobuf::ServiceDescriptor& Service() {
  return *v1::CreateJobRequest::descriptor()->file()->FindServiceByName("ValidationService");
}

TEST(Roles, EveryCallHasItsRowAndEveryRowItsCall) {
  std::set<std::string, std::less<>> rows;
  for (const Needed& needed : NeededRoles()) {
    EXPECT_TRUE(rows.emplace(needed.call).second) << needed.call << " stands twice";
    EXPECT_NE(needed.role, Role::kNone) << needed.call;
    const std::string call(needed.call);
    if (call.starts_with("GET /")) continue;  // of the metrics port
    const std::size_t dot = call.find('.');
    const auto* method = Service().FindMethodByName(call.substr(0, dot));
    ASSERT_NE(method, nullptr) << call;
    if (dot == std::string::npos) continue;
    EXPECT_NE(method->input_type()->FindFieldByName(call.substr(dot + 1)), nullptr) << call;
  }
  for (int i = 0; i < Service().method_count(); ++i) {
    EXPECT_TRUE(rows.contains(Service().method(i)->name())) << Service().method(i)->name();
  }
}

TEST(Roles, WhatChangesSomethingNeedsMoreThanToLookAndIsInTheLog) {
  for (const Needed& needed : NeededRoles()) {
    EXPECT_EQ(needed.audited, needed.role > Role::kViewer) << needed.call;
  }
  for (const char* call : {"DeleteJob", "DeleteBaseline"}) {
    EXPECT_EQ(FindNeeded(call)->role, Role::kAdmin) << call;
  }
  EXPECT_EQ(FindNeeded("CompareTensors")->role, Role::kOperator) << "it uses the device";
  EXPECT_EQ(FindNeeded("ListDevices.measure_ceilings")->role, Role::kOperator);
  EXPECT_EQ(FindNeeded("ListDevices")->role, Role::kViewer);
  EXPECT_EQ(FindNeeded("DropTables"), nullptr);
}

TEST(Roles, ACallerOfTheMetricsPortShowsAddressAndToken) {
  const Shown plain = ShownOverHttp(nullptr, "127.0.0.1", 4, "");
  EXPECT_EQ(plain.peer, "ipv4:127.0.0.1:4");
  EXPECT_TRUE(plain.loopback);
  EXPECT_FALSE(plain.encrypted);
  EXPECT_EQ(plain.token, std::nullopt);
  const Shown other = ShownOverHttp(nullptr, "fe80::1", 4, "bearer s3cret");
  EXPECT_EQ(other.peer, "ipv6:[fe80::1]:4");
  EXPECT_FALSE(other.loopback);
  EXPECT_EQ(other.token, "s3cret");
  EXPECT_EQ(ShownOverHttp(nullptr, "::1", 4, "Basic YTpi").token, "");
  EXPECT_EQ(FindNeeded("GET /metrics")->role, Role::kViewer);
}

// ---- the file

TEST(RolesFile, IsRead) {
  const std::string text =
      "[[client]]\nname = \"ops.example\"\nrole = \"operator\"\n"
      "[[client]]\nname = \"uid:1000\"\nrole = \"viewer\"\n"
      "[[token]]\nname = \"nightly\"\nsha256 = \"" +
      HashText("s3cret") + "\"\nrole = \"admin\"\n";
  const absl::StatusOr<assay::server::Roles> roles = ParseRoles(text, "roles.toml");
  ASSERT_TRUE(roles.ok()) << roles.status();
  EXPECT_EQ(roles->clients.at("ops.example"), Role::kOperator);
  EXPECT_EQ(roles->clients.at("uid:1000"), Role::kViewer);
  ASSERT_EQ(roles->tokens.size(), 1u);
  EXPECT_EQ(roles->tokens[0].name, "nightly");
  EXPECT_EQ(roles->tokens[0].sha256, Sha256Of("s3cret"));
  EXPECT_EQ(roles->tokens[0].role, Role::kAdmin);
  EXPECT_TRUE(ParseRoles("", "roles.toml").ok()) << "nobody has a role";
}

TEST(RolesFile, WhatIsWrongIsSaidWithItsPlace) {
  const auto message = [](std::string_view text) {
    return std::string(ParseRoles(text, "r.toml").status().message());
  };
  EXPECT_THAT(message("[[client]]\nname = \"a\"\nrole = \"root\""),
              HasSubstr("r.toml:3:8: role must be viewer, operator or admin, got \"root\""));
  EXPECT_THAT(message("[[client]]\nname = \"a\""), HasSubstr("r.toml:1:1: role is missing"));
  EXPECT_THAT(message("[[client]]\nrole = \"admin\""), HasSubstr("name is missing"));
  EXPECT_THAT(message("[[client]]\nname = 7\nrole = \"admin\""), HasSubstr("must be a text"));
  EXPECT_THAT(message("[[client]]\nnane = \"a\"\nrole = \"admin\""),
              HasSubstr("r.toml:2:1: unknown key \"nane\"; did you mean \"name\"?"));
  EXPECT_THAT(message("[[client]]\nname = \"uid:root\"\nrole = \"admin\""),
              HasSubstr("a user's number after uid:"));
  EXPECT_THAT(message("[[client]]\nname = \"a\"\nrole = \"admin\"\n"
                      "[[client]]\nname = \"a\"\nrole = \"viewer\""),
              HasSubstr("r.toml:5:8: name \"a\" stands twice"));
  EXPECT_THAT(message("[[token]]\nsha256 = \"s3cret\"\nrole = \"admin\""),
              HasSubstr("64 hexadecimal digits"));
  EXPECT_THAT(message("[[token]]\nsha256 = \"" + HashText("") + "\"\nrole = \"admin\""),
              HasSubstr("an empty token"));
  for (const char* uid : {"uid:0100", "uid:+5", "uid: 5", "uid:", "uid:-1", "uid:4294967296"}) {
    EXPECT_THAT(message(std::string("[[client]]\nname = \"") + uid + "\"\nrole = \"admin\""),
                HasSubstr("a user's number after uid:"))
        << uid;
  }
  EXPECT_THAT(message("[[tokens]]\nsha256 = \"a\""), HasSubstr("[[client]] and [[token]]"));
  EXPECT_THAT(message("client = \"a\""), HasSubstr("[[client]] and [[token]]"));
  EXPECT_THAT(message("[[client]\n"), HasSubstr("r.toml:1:"));
}

class AccessTest : public ::testing::Test {
 protected:
  void SetUp() override {
    SetLogLevel("error");
    const std::string name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    path_ = ::testing::TempDir() + "access_test_" + name + ".toml";
  }
  void TearDown() override { std::filesystem::remove(path_); }

  void Write(const std::string& text, mode_t mode = 0600) const {
    std::ofstream(path_, std::ios::trunc) << text;
    chmod(path_.c_str(), mode);
  }

  static std::string Client(const std::string& name, const std::string& role) {
    return "[[client]]\nname = \"" + name + "\"\nrole = \"" + role + "\"\n";
  }
  static std::string Token(const std::string& token, const std::string& role) {
    return "[[token]]\nsha256 = \"" + HashText(token) + "\"\nrole = \"" + role + "\"\n";
  }

  static std::unique_ptr<Access> Opened(const std::string& path) {
    absl::StatusOr<std::unique_ptr<Access>> access = Access::Open(path);
    EXPECT_TRUE(access.ok()) << access.status();
    return *std::move(access);
  }

  // The highest role that the caller turns out to have.
  static Role RoleOf(Access& access, const Shown& shown) {
    Role role = Role::kNone;
    for (const auto& [call, needed] : {std::pair{"GetJob", Role::kViewer},
                                       {"CreateJob", Role::kOperator},
                                       {"DeleteJob", Role::kAdmin}}) {
      const absl::StatusOr<Caller> caller = access.Admit(shown, call);
      if (caller.ok()) {
        EXPECT_GE(caller->role, needed);
        role = caller->role;
      }
    }
    return role;
  }

  std::string path_;
};

Shown FromThisNode() { return {.loopback = true, .peer = "ipv4:127.0.0.1:4"}; }
Shown WithCertificate(std::vector<std::string> names) {
  return {.encrypted = true, .names = std::move(names), .peer = "ipv4:10.0.0.1:4"};
}
Shown WithToken(std::string token) {
  return {.encrypted = true, .token = std::move(token), .peer = "ipv4:10.0.0.1:4"};
}

TEST_F(AccessTest, WithoutAFileThisNodeIsAdminAndOthersAreOperators) {
  const auto access = Opened("");
  EXPECT_EQ(RoleOf(*access, FromThisNode()), Role::kAdmin);
  EXPECT_EQ(RoleOf(*access, {.user = geteuid()}), Role::kAdmin);
  EXPECT_EQ(RoleOf(*access, WithCertificate({"ops.example"})), Role::kOperator);
  EXPECT_EQ(RoleOf(*access, {.encrypted = true, .loopback = true}), Role::kOperator)
      << "whoever shows a certificate is judged by it, wherever it comes from";
  EXPECT_EQ(RoleOf(*access, {.peer = "ipv4:10.0.0.1:4"}), Role::kOperator) << "--insecure";
  EXPECT_EQ(RoleOf(*access, {.peer = "fd:12"}), Role::kNone) << "a socket that nobody knows of";
}

TEST_F(AccessTest, WithAFileOnlyThoseItNamesHaveARole) {
  Write(Client("ops.example", "operator") + Client("eyes.example", "viewer") +
        Token("s3cret", "admin"));
  const auto access = Opened(path_);
  EXPECT_EQ(RoleOf(*access, WithCertificate({"ops.example"})), Role::kOperator);
  EXPECT_EQ(RoleOf(*access, WithCertificate({"node", "eyes.example"})), Role::kViewer)
      << "an alternative name counts";
  EXPECT_EQ(RoleOf(*access, WithCertificate({"eyes.example", "ops.example"})), Role::kOperator)
      << "the highest of its names";
  EXPECT_EQ(RoleOf(*access, WithCertificate({"Ops.example", "ops.example.evil"})), Role::kNone);
  EXPECT_EQ(RoleOf(*access, FromThisNode()), Role::kNone);
  EXPECT_EQ(RoleOf(*access, {.user = geteuid()}), Role::kAdmin) << "the daemon's own user";
  EXPECT_EQ(RoleOf(*access, WithToken("s3cret")), Role::kAdmin);
}

TEST_F(AccessTest, AUserOfAUnixSocketHasTheRoleOfTheFile) {
  const uid_t other = geteuid() + 1;
  const auto closed = Opened("");
  EXPECT_TRUE(closed->TakeConnection(7, geteuid()));
  EXPECT_TRUE(closed->TakeConnection(7, 0)) << "root";
  EXPECT_FALSE(closed->TakeConnection(8, other));
  Write(Client(Cat("uid:", other), "operator"));
  const auto access = Opened(path_);
  EXPECT_TRUE(access->TakeConnection(9, other));
  EXPECT_FALSE(access->TakeConnection(10, other + 1));
  EXPECT_EQ(RoleOf(*access, {.user = other}), Role::kOperator);
  EXPECT_EQ(RoleOf(*access, {.user = other + 1}), Role::kNone);
  EXPECT_EQ(RoleOf(*access, WithCertificate({Cat("uid:", other)})), Role::kNone)
      << "no certificate makes a user";
}

TEST_F(AccessTest, RefusalsSayWhoLacksWhat) {
  Write(Client("eyes.example", "viewer") + Token("s3cret", "viewer"));
  const auto access = Opened(path_);
  const auto refusal = [&](const Shown& shown, std::string_view call) {
    return access->Admit(shown, call).status();
  };
  const absl::Status low = refusal(WithCertificate({"eyes.example"}), "DeleteJob");
  EXPECT_TRUE(absl::IsPermissionDenied(low));
  EXPECT_EQ(low.message(), "DeleteJob needs the role admin; certificate eyes.example has viewer");
  const absl::Status none = refusal(FromThisNode(), "GetJob");
  EXPECT_TRUE(absl::IsPermissionDenied(none));
  EXPECT_EQ(none.message(), "GetJob needs the role viewer; address ipv4:127.0.0.1:4 has no role");
  EXPECT_TRUE(absl::IsPermissionDenied(refusal({.user = geteuid()}, "DropTables")))
      << "what the table does not name is nobody's";
  for (const char* token : {"", "s3cre", "s3cret ", "S3CRET"}) {
    EXPECT_TRUE(absl::IsUnauthenticated(refusal(WithToken(token), "GetJob"))) << token;
  }
  Shown both = WithCertificate({"eyes.example"});
  both.token = "wrong";
  EXPECT_TRUE(absl::IsUnauthenticated(refusal(both, "GetJob"))) << "a wrong token is never ignored";
}

TEST_F(AccessTest, TheFileIsReadAgainAndABadOneIsNotTaken) {
  Write(Client("ops.example", "viewer"));
  std::chrono::steady_clock::time_point now{};
  const auto opened = Access::Open(path_, [&now] { return now; });
  ASSERT_TRUE(opened.ok()) << opened.status();
  Access& access = **opened;
  const Shown ops = WithCertificate({"ops.example"});
  EXPECT_EQ(RoleOf(access, ops), Role::kViewer);
  const auto later = [&] {
    now += std::chrono::seconds(1);
    return RoleOf(access, ops);
  };
  Write(Client("ops.example", "admin") + "# changed\n");
  EXPECT_EQ(RoleOf(access, ops), Role::kViewer) << "it is looked at once a second";
  EXPECT_EQ(later(), Role::kAdmin);
  Write(Client("ops.example", "viewer"), 0644);
  EXPECT_EQ(later(), Role::kAdmin) << "others read it";
  chmod(path_.c_str(), 0600);
  EXPECT_EQ(later(), Role::kViewer) << "it does what the refusal says";
  Write(Client("ops.example", "admin") + "# again\n");
  EXPECT_EQ(later(), Role::kAdmin);
  Write("nonsense of another length");
  EXPECT_EQ(later(), Role::kAdmin);
  Write(Client("someone.else", "admin") + "# and whole again\n");
  EXPECT_EQ(later(), Role::kNone);
  // What kept the file from being read passes, and the file is as it was.
  const std::string last = Client("ops.example", "viewer") + "# the last one\n";
  Write(last);
  const auto written = std::filesystem::last_write_time(path_);
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit none{0, before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &none);
  now += std::chrono::seconds(1);
  access.LookNow();
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(std::filesystem::last_write_time(path_), written);
  EXPECT_EQ(later(), Role::kViewer);
}

TEST_F(AccessTest, AFileThatOthersReadOrChangeIsRefused) {
  for (const mode_t mode : {0644, 0602, 0660}) {
    Write("", mode);
    const absl::Status refused = Access::Open(path_).status();
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << std::oct << mode;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("chmod 0640 " + path_));
  }
  for (const mode_t mode : {0600, 0640, 0400}) {
    Write("", mode);
    EXPECT_TRUE(Access::Open(path_).ok()) << std::oct << mode;
    chmod(path_.c_str(), 0600);
  }
  EXPECT_TRUE(absl::IsNotFound(Access::Open(path_ + ".none").status()));
}

}  // namespace
}  // namespace assay::server
