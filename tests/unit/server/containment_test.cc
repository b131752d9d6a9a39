// What keeps a worker from the rest of the node: an environment by name, files by rule, calls by
// filter, and an end for what it leaves behind. Processes that are started here try what a kernel
// could try. What this platform does not have is skipped, with the reason.
#include "server/containment/containment.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/sockios.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "server/containment/environment.h"
#include "server/containment/file_rules.h"
#include "server/containment/orphans.h"
#include "server/containment/work_folder.h"

namespace assay::server {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

TEST(EnvironmentTest, OnlyNamesOfTheTableReachAWorker) {
  const char* const from[] = {"PATH=/bin",        "HOME=/root",        "AWS_SECRET_ACCESS_KEY=x",
                              "ASSAY_TOKEN=y",    "LC_ALL=C",          "CUDA_VISIBLE_DEVICES=1",
                              "ASSAY_WEBHOOK=z",  "OMP_NUM_THREADS=2", "PATHS=no",
                              "ASSAY_NVML=/a.so", "SSH_AUTH_SOCK=s",   nullptr};
  EXPECT_THAT(ChosenEnvironment(from, {"HOME=/tmp/w", "FAKE_TOKEN=chosen"}),
              ElementsAre("PATH=/bin", "LC_ALL=C", "CUDA_VISIBLE_DEVICES=1", "OMP_NUM_THREADS=2",
                          "ASSAY_NVML=/a.so", "HOME=/tmp/w", "FAKE_TOKEN=chosen"));
}

TEST(EnvironmentTest, PathsThatVariablesNameAreFound) {
  const NamedPaths paths =
      PathsNamedBy({"LD_LIBRARY_PATH=/a:/b", "ASSAY_CUDNN=/c/d.so", "ASSAY_ROCBLAS=librocblas.so",
                    "ASSAY_HOST_ROOT=/", "CUDA_CACHE_PATH=/cache", "PATH=/bin",
                    "TSAN_OPTIONS=halt_on_error=1 suppressions=/t.supp"});
  EXPECT_THAT(paths.readable, ElementsAre("/a", "/b", "/c/d.so", "/t.supp"));
  EXPECT_THAT(paths.writable, ElementsAre("/cache"));
}

class ContainmentTest : public ::testing::Test {
 protected:
  ContainmentTest() {
    std::string path = (fs::path(::testing::TempDir()) / "containment-XXXXXX").string();
    folder_ = mkdtemp(path.data());
    std::ofstream(File("secret")) << "key";
    std::ofstream(File("library")) << "code";
  }
  ~ContainmentTest() override { fs::remove_all(folder_); }

  std::string File(const std::string& name) const { return folder_ / name; }

  ContainmentOptions Options() const {
    ContainmentOptions options;
    options.worker = "/usr/libexec/assay/assay-worker";
    return options;
  }

  // The errno of each attempt that a contained process makes, or 0.
  template <class Attempt>
  static int Try(Containment& containment, Attempt attempt) {
    int status = 0;
    pid_t child = -1;
    containment.Start([&]() -> pid_t {
      child = fork();
      if (child == 0) _exit(attempt() ? 0 : errno);
      return child;
    });
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
    return WEXITSTATUS(status);
  }

  static bool Reads(const std::string& path) { return open(path.c_str(), O_RDONLY) >= 0; }
  static bool Writes(const std::string& path) {
    return open(path.c_str(), O_WRONLY | O_CREAT, 0600) >= 0;
  }

  fs::path folder_;
};

const Measure& Find(const Containment& containment, std::string_view name) {
  return *std::find_if(containment.measures().begin(), containment.measures().end(),
                       [&](const Measure& m) { return m.name == name; });
}

#define SKIP_WITHOUT(containment, measure)                       \
  if (const Measure& m = Find(containment, measure); !m.applied) \
  GTEST_SKIP() << m.name << ": " << m.detail

TEST_F(ContainmentTest, EveryMeasureIsToldInOrder) {
  const std::unique_ptr<Containment> containment = Containment::Make(Options());
  std::vector<std::string> names;
  for (const Measure& measure : containment->measures()) {
    names.push_back(measure.name);
    EXPECT_NE(measure.detail, "") << measure.name;
  }
  EXPECT_EQ(names, std::vector<std::string>(kMeasures.begin(), kMeasures.end()));
}

TEST_F(ContainmentTest, OnlyTheCgroupIsNotRequired) {
  for (const std::string_view name : kMeasures) EXPECT_EQ(IsRequired(name), name != kCgroup);
}

TEST_F(ContainmentTest, FilesThatNoRuleAllowsCannotBeRead) {
  ContainmentOptions options = Options();
  options.readable = {File("library")};
  const std::unique_ptr<Containment> containment = Containment::Make(options);
  SKIP_WITHOUT(*containment, kLandlock);
  const auto reads = [&](const std::string& path) {
    return Try(*containment, [&] { return Reads(path); });
  };
  EXPECT_EQ(reads(File("secret")), EACCES);
  EXPECT_EQ(reads("/etc/shadow"), EACCES);
  EXPECT_EQ(reads(File("library")), 0);
  EXPECT_EQ(reads("/proc/self/statm"), 0);
  EXPECT_EQ(reads("/usr/bin"), 0);
  EXPECT_EQ(Try(*containment, [&] { return Writes(File("library")); }), EACCES);
  EXPECT_EQ(Try(*containment, [&] { return Writes(File("new")); }), EACCES);
  EXPECT_EQ(Try(*containment, [] { return Writes("/dev/null"); }), 0);
  EXPECT_TRUE(Reads(File("secret"))) << "the daemon still can";
}

TEST_F(ContainmentTest, ASecretInAReadableFolderIsLeftOut) {
  fs::create_directories(folder_ / "a/b");
  std::ofstream(folder_ / "a/b/key") << "k";
  std::ofstream(folder_ / "a/b/other") << "o";
  EXPECT_THAT(Without(File("a"), {File("secret")}), ElementsAre(File("a")));
  EXPECT_THAT(Without(folder_, {File("a/b/key"), File("secret")}),
              UnorderedElementsAre(File("library"), File("a/b/other")));
  EXPECT_THAT(Without(File("a/b"), {folder_}), ElementsAre());

  ContainmentOptions options = Options();
  options.readable = {folder_};
  options.forbidden = {File("a/b/key")};
  const std::unique_ptr<Containment> containment = Containment::Make(options);
  SKIP_WITHOUT(*containment, kLandlock);
  EXPECT_EQ(Try(*containment, [&] { return Reads(File("a/b/key")); }), EACCES);
  EXPECT_EQ(Try(*containment, [&] { return Reads(File("a/b/other")); }), 0);
}

TEST_F(ContainmentTest, TheMemoryOfTheDaemonCannotBeRead) {
  const std::unique_ptr<Containment> containment = Containment::Make(Options());
  SKIP_WITHOUT(*containment, kLandlock);
  const std::string memory = "/proc/" + std::to_string(getpid()) + "/mem";
  EXPECT_EQ(Try(*containment, [&] { return Reads(memory); }), EACCES);
}

TEST_F(ContainmentTest, CallsThatReachOthersAreRefusedAndTold) {
  const std::unique_ptr<Containment> containment = Containment::Make(Options());
  SKIP_WITHOUT(*containment, kSeccomp);
  std::mutex mutex;
  std::set<std::string> told;
  containment->TellOfRefused([&](const std::string& call) {
    const std::lock_guard lock(mutex);
    told.insert(call);
  });
  const pid_t daemon = getpid();
  const auto sends = [&](pid_t target, int signal) {
    return Try(*containment, [=] { return kill(target, signal) == 0; });
  };
  for (const int family : {AF_INET, AF_INET6, AF_UNIX, AF_NETLINK}) {
    EXPECT_EQ(Try(*containment, [=] { return socket(family, SOCK_DGRAM, 0) >= 0; }), EPERM);
  }
  EXPECT_EQ(sends(daemon, 0), EPERM);
  EXPECT_EQ(sends(-1, 0), EPERM);
  // Linux reads the lower half of the argument alone.
  EXPECT_EQ(Try(*containment,
                [=] { return syscall(SYS_kill, (std::int64_t{1} << 32) | daemon, 0) == 0; }),
            EPERM);
  EXPECT_EQ(Try(*containment, [] { return fcntl(0, F_SETOWN, getpid()) == 0; }), EPERM);
  EXPECT_EQ(Try(*containment, [] { return fcntl(0, F_SETSIG, SIGKILL) == 0; }), EPERM);
  EXPECT_EQ(Try(*containment, [] { return fcntl(0, F_GETFL) >= 0; }), 0);
  for (const int command : {FIOSETOWN, SIOCSPGRP}) {
    EXPECT_EQ(Try(*containment,
                  [=] {
                    int pair[2];
                    return socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 &&
                           ioctl(pair[0], static_cast<unsigned long>(command), &daemon) == 0;
                  }),
              EPERM);
  }
  EXPECT_EQ(Try(*containment, [] { return setpriority(PRIO_USER, 0, 19) == 0; }), EPERM);
  EXPECT_EQ(Try(*containment, [] { return setpriority(PRIO_PROCESS, 0, 19) == 0; }), 0);
  EXPECT_EQ(Try(*containment, [&] { return truncate(File("secret").c_str(), 0) == 0; }), EPERM);
  EXPECT_EQ(Try(*containment, [&] { return chmod(File("secret").c_str(), 0777) == 0; }), EPERM);
  // Who may read a file may not say who else may.
  const int secret = open(File("secret").c_str(), O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(Try(*containment, [=] { return fchmod(secret, 0777) == 0; }), EPERM);
  EXPECT_EQ(Try(*containment, [=] { return fchmod(secret, 04755) == 0; }), EPERM);
  EXPECT_EQ(Try(*containment, [=] { return fchmod(secret, 0600) == 0; }), 0) << "as linkers do";
  EXPECT_EQ(Try(*containment, [=] { return fchown(secret, getuid(), getgid()) == 0; }), EPERM);
  EXPECT_EQ(Try(*containment, [=] { return fsetxattr(secret, "user.x", "1", 1, 0) == 0; }), EPERM);
  EXPECT_EQ(Try(*containment, [=] { return fremovexattr(secret, "user.x") == 0; }), EPERM);
  close(secret);
  EXPECT_EQ(Try(*containment, [] { return unshare(CLONE_NEWUSER) == 0; }), EPERM);
  EXPECT_EQ(Try(*containment,
                [=] {
                  const rlimit none{1, 1};
                  return prlimit(daemon, RLIMIT_CPU, &none, nullptr) == 0;
                }),
            EPERM);
  // What a worker needs still works.
  EXPECT_EQ(Try(*containment, [] { return kill(getpid(), 0) == 0; }), 0);
  EXPECT_EQ(Try(*containment,
                [] {
                  int pair[2];
                  return socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0;
                }),
            0);
  EXPECT_EQ(Try(*containment,
                [] {
                  rlimit limit{};
                  return getrlimit(RLIMIT_DATA, &limit) == 0 && setrlimit(RLIMIT_DATA, &limit) == 0;
                }),
            0);
  if (Find(*containment, kSeccomp).detail.find("told") == std::string::npos) return;
  containment->TellOfRefused(nullptr);  // nobody adds any more
  EXPECT_THAT(told, IsSupersetOf({"socket(AF_INET)", "socket(AF_UNIX)", "kill", "chmod", "unshare",
                                  "prlimit64"}));
}

// CUDA makes Unix sockets that nobody connects to.
TEST_F(ContainmentTest, WorkersOfCardsMakeUnixSocketsThatConnectToNothing) {
  ContainmentOptions options = Options();
  options.accelerators = true;
  const std::unique_ptr<Containment> containment = Containment::Make(options);
  SKIP_WITHOUT(*containment, kSeccomp);
  EXPECT_EQ(Try(*containment, [] { return socket(AF_UNIX, SOCK_STREAM, 0) >= 0; }), 0);
  EXPECT_EQ(Try(*containment, [] { return socket(AF_INET, SOCK_STREAM, 0) >= 0; }), EPERM);
  // A datagram needs no connect.
  EXPECT_EQ(Try(*containment, [] { return socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0) >= 0; }),
            EPERM);
  EXPECT_EQ(Try(*containment,
                [] {
                  int pair[2];
                  return socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0;
                }),
            EPERM);
  EXPECT_EQ(Try(*containment, [] { return socket(AF_UNIX, SOCK_RAW, 0) >= 0; }), EPERM)
      << "Linux makes a datagram socket of it";
  EXPECT_EQ(Try(*containment,
                [] {
                  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
                  const sockaddr address{AF_UNIX, "x"};
                  return connect(fd, &address, sizeof address) == 0;
                }),
            EPERM);
}

// CUDA does not begin if it cannot name its threads there. Driver 580 empties the file first.
TEST_F(ContainmentTest, WorkersOfCardsNameTheirThreads) {
  ContainmentOptions options = Options();
  const auto names = [&] {
    const std::unique_ptr<Containment> containment = Containment::Make(options);
    return Try(*containment, [] { return open("/proc/self/comm", O_WRONLY | O_TRUNC) >= 0; });
  };
  const bool restricted = [&] {
    const std::unique_ptr<Containment> containment = Containment::Make(options);
    return Find(*containment, kLandlock).applied;
  }();
  EXPECT_EQ(names(), restricted ? EACCES : 0);
  options.accelerators = true;
  EXPECT_EQ(names(), 0);
}

// The library that installs filters keeps one listener for a process. Each containment has its own.
TEST_F(ContainmentTest, TwoContainmentsAreToldEachOfItsOwn) {
  const std::unique_ptr<Containment> first = Containment::Make(Options());
  const std::unique_ptr<Containment> second = Containment::Make(Options());
  SKIP_WITHOUT(*second, kSeccomp);
  for (Containment* one : {first.get(), second.get()}) {
    EXPECT_EQ(Try(*one, [] { return socket(AF_INET, SOCK_STREAM, 0) >= 0; }), EPERM);
  }
}

TEST_F(ContainmentTest, AWorkerHasLimitsThatItCannotRaise) {
  const std::unique_ptr<Containment> containment = Containment::Make(Options());
  pid_t child = -1;
  containment->Start([&]() -> pid_t {
    child = fork();
    if (child == 0) {
      for (;;) pause();
    }
    return child;
  });
  rlimit files{}, size{}, tasks{};
  ASSERT_EQ(prlimit(child, RLIMIT_NOFILE, nullptr, &files), 0);
  ASSERT_EQ(prlimit(child, RLIMIT_FSIZE, nullptr, &size), 0);
  ASSERT_EQ(prlimit(child, RLIMIT_NPROC, nullptr, &tasks), 0);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_LE(files.rlim_max, 8192u);
  EXPECT_EQ(size.rlim_max, rlim_t{4} << 30);
  EXPECT_NE(tasks.rlim_max, RLIM_INFINITY);
}

TEST_F(ContainmentTest, SwitchedOffItSaysSoAndAllowsAll) {
  ContainmentOptions options = Options();
  options.off = true;
  const std::unique_ptr<Containment> containment = Containment::Make(options);
  for (const std::string_view name : {kNoNewPrivs, kSeccomp, kLandlock, kNetwork}) {
    EXPECT_FALSE(Find(*containment, name).applied) << name;
    EXPECT_THAT(Find(*containment, name).detail, HasSubstr("--no-containment"));
  }
  EXPECT_EQ(Try(*containment, [&] { return Reads(File("secret")); }), 0);
}

TEST_F(ContainmentTest, TheWorkFolderIsPrivateAndWritableAndGoesAway) {
  std::string home;
  {
    const std::unique_ptr<Containment> containment = Containment::Make(Options());
    for (const std::string& variable : containment->environment()) {
      if (variable.starts_with("HOME=")) home = variable.substr(5);
    }
    struct stat found {};
    ASSERT_EQ(stat(home.c_str(), &found), 0) << home;
    EXPECT_EQ(found.st_mode & 0777, 0700u);
    EXPECT_EQ(Try(*containment, [&] { return Writes(home + "/file"); }), 0);
  }
  EXPECT_FALSE(fs::exists(home));
}

TEST(WorkFolderTest, AFolderThatADeadDaemonLeftIsRemovedAndALivingOnesIsNot) {
  std::string left = (fs::temp_directory_path() / "assay-work-XXXXXX").string();
  ASSERT_NE(mkdtemp(left.data()), nullptr);
  std::ofstream(left + "/file") << "rest";
  const auto first = WorkFolder::Make();
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_FALSE(fs::exists(left));
  const auto second = WorkFolder::Make();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_TRUE(fs::exists((*first)->path()));
}

TEST(OrphansTest, WhatAChildLeavesBehindEndsAndOwnProcessesStay) {
  ASSERT_EQ(BecomeSubreaper(), "");
  int told[2];
  ASSERT_EQ(pipe(told), 0);
  pid_t own = -1, child = -1, orphan = -1;
  StartOwn([&]() -> pid_t {
    own = fork();
    while (own == 0) pause();
    return own;
  });
  StartOwn([&]() -> pid_t {
    child = fork();
    if (child != 0) return child;
    const pid_t left = fork();
    if (left == 0) {
      setsid();
      for (;;) pause();
    }
    if (write(told[1], &left, sizeof left) != sizeof left) _exit(1);
    _exit(0);
  });
  ASSERT_EQ(read(told[0], &orphan, sizeof orphan), static_cast<ssize_t>(sizeof orphan));
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  ForgetOwn(child);
  EXPECT_EQ(kill(orphan, 0), 0) << "it outlives its parent";
  EXPECT_EQ(KillOrphans(), 1);
  EXPECT_EQ(kill(orphan, 0), -1);
  EXPECT_EQ(kill(own, 0), 0);
  kill(own, SIGKILL);
  waitpid(own, nullptr, 0);
  ForgetOwn(own);
  close(told[0]);
  close(told[1]);
}

}  // namespace
}  // namespace assay::server
