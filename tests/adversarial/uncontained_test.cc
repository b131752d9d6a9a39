// Kernels that try to get out are no duds. Launched in a process that nothing contains, each gets
// what it tries to get. So its refusal in adversarial_test.cc is due to the containment.
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/ipc.h>
#include <sys/sem.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/cheats/cheats.h"
#include "kernels/sdk/assay/kernel.h"
#include "kernels/text/cat.h"

namespace assay {
namespace {

// Launches the library's kernel once, in this process. Returns the first element of its output, NaN
// if it wrote none.
float FirstOutput(const std::string& library) {
  constexpr int kExtent = 8;
  void* const handle = dlopen(library.c_str(), RTLD_NOW);
  if (handle == nullptr) return std::nanf("");
  const auto describe =
      reinterpret_cast<const assay_kernel* (*)()>(dlsym(handle, "assay_kernel_v1"));
  std::array<assay_parameter, 3> extents{};
  std::array<const assay_parameter*, 3> parameters{};
  for (std::size_t i = 0; i < extents.size(); ++i) {
    constexpr std::array kNames = {"m", "n", "k"};
    extents[i].name = kNames[i];
    extents[i].integer = kExtent;
    parameters[i] = &extents[i];
  }
  std::vector<float> a(kExtent * kExtent, 1.5F), d(a.size(), std::nanf(""));
  assay_tensor matrix{};
  matrix.bytes = static_cast<std::int64_t>(a.size() * sizeof(float));
  const std::array<const assay_tensor*, 2> inputs = {&matrix, &matrix};
  const std::array<const void*, 2> data = {a.data(), a.data()};
  assay_problem problem{};
  problem.parameters = parameters.data();
  problem.parameter_count = parameters.size();
  problem.inputs = inputs.data();
  problem.input_count = inputs.size();
  problem.output = &matrix;
  assay_launch launch{};
  launch.inputs = data.data();
  launch.output = d.data();
  void* state = nullptr;
  std::uint64_t workspace = 0;
  describe()->prepare(&problem, &state, &workspace, nullptr, 0);
  describe()->launch(state, &launch);
  return d.front();
}

struct Uncontained {
  std::optional<float> output;  // its first element; nothing if the kernel's process ended before
  int judge = 0;                // how its parent ended, as waitpid says
};

// Launches the kernel once in a process that nothing contains, below another that stands for the
// judge: the kernel may kill it.
Uncontained LaunchUncontained(const std::string& library) {
  constexpr unsigned kPatienceSeconds = 60;  // the alarm then ends them
  Uncontained outcome;
  int answer[2];
  if (pipe(answer) != 0) return outcome;
  const pid_t judge = fork();
  if (judge == 0) {
    setpgid(0, 0);
    alarm(kPatienceSeconds);
    const pid_t kid = fork();
    if (kid != 0) {
      close(answer[1]);
      waitpid(kid, nullptr, 0);
      _exit(0);
    }
    alarm(kPatienceSeconds);
    const float first = FirstOutput(library);
    _exit(write(answer[1], &first, sizeof first) == sizeof first ? 0 : 1);
  }
  close(answer[1]);
  float first = 0;
  if (read(answer[0], &first, sizeof first) == sizeof first) {
    outcome.output = first;
    kill(judge, SIGKILL);  // the cheat may have stopped it
  }
  close(answer[0]);
  waitpid(judge, &outcome.judge, WUNTRACED);
  if (WIFSTOPPED(outcome.judge)) {
    kill(judge, SIGKILL);
    waitpid(judge, &outcome.judge, 0);
  }
  return outcome;
}

// A cheat that has a barrier is no dud: where nothing contains it, it gets what it needs. These are
// the cheats that need no right which a test may lack.
TEST(CheatUncontained, GetsWhatItNeeds) {
  for (const char* cheat : {"writes-file", "lists-files", "memory-file", "socket", "unix-socket",
                            "forks", "runs-shell", "stops-judge", "kills-judge", "undoes-stop",
                            "timer-undoes-stop", "hides", "own-descriptors"}) {
    const std::optional<CheatKernel> kernel = FindCheat(Cat(kCheatPrefix, cheat));
    ASSERT_TRUE(kernel.has_value()) << cheat;
    EXPECT_NE(kernel->cheat->barrier, Barrier::kNone) << cheat;
    const Uncontained outcome = LaunchUncontained(Cat(CHEATS_DIR "/", LibraryOf(*kernel)));
    EXPECT_TRUE(outcome.output && !std::isnan(*outcome.output)) << cheat;
  }
  std::filesystem::remove("/tmp/assay-cheat");
}

// Attempts that would harm the machine that runs the tests.
const std::map<std::string, std::string_view>& LeftOut() {
  static const auto* const reasons = new std::map<std::string, std::string_view>{
      {"try_abort_all", "ends every process of its user"},
      {"try_kill_all", "ends every process of its user"},
      {"try_fork_bomb", "its processes fill the machine; the cheat \"forks\" shows that it may"},
  };
  return *reasons;
}

std::set<std::string> AllAttempts() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(ADVERSARIAL_SOURCES)) {
    const std::string name = entry.path().stem();
    if (name.starts_with("try_")) names.insert(name);
  }
  return names;
}

std::set<std::string> HarmlessAttempts() {
  std::set<std::string> names = AllAttempts();
  for (const auto& [name, reason] : LeftOut()) names.erase(name);
  return names;
}

TEST(AttemptTable, LeavesOutNoneThatIsGone) {
  for (const auto& [name, reason] : LeftOut()) {
    EXPECT_TRUE(AllAttempts().contains(name)) << name << " " << reason;
  }
}

// The first number behind "Name:" in /proc/self/status, whose base is 10 or 16.
std::uint64_t OfStatus(const std::string& name, int base) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name + ":")) {
      return std::strtoull(line.c_str() + name.size() + 1, nullptr, base);
    }
  }
  return 0;
}

bool Opens(const char* path, int flags) {
  const int file = open(path, flags, 0600);
  if (file >= 0) close(file);
  return file >= 0;
}

// Why the system itself refuses the attempt to this process; empty if it does not.
std::string WhyRefused(const std::string& attempt) {
  const auto any_of = [&](std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), attempt) != names.end();
  };
  if (any_of({"try_bpf", "try_hostname"}) && (OfStatus("CapEff", 16) >> CAP_SYS_ADMIN & 1) == 0) {
    return "the test has no CAP_SYS_ADMIN";
  }
  if (any_of({"try_bpf", "try_hostname", "try_io_uring", "try_mount", "try_unshare"}) &&
      OfStatus("Seccomp", 10) != 0) {
    return "a container filters the test's system calls";
  }
  if (attempt == "try_io_uring") {
    int disabled = 0;
    std::ifstream("/proc/sys/kernel/io_uring_disabled") >> disabled;
    if (disabled != 0) return "kernel.io_uring_disabled";
  }
  if (attempt == "try_shadow" && !Opens("/etc/shadow", O_RDONLY)) {
    return "/etc/shadow is not the test's to read";
  }
  if (attempt == "try_raw_disk" && !Opens("/dev/vda", O_RDONLY) && !Opens("/dev/sda", O_RDONLY)) {
    return "there is no disk that the test may read";
  }
  if (attempt == "try_nameless_file" && !Opens("/tmp", O_TMPFILE | O_RDWR)) {
    return "the file system of /tmp has no nameless files";
  }
  return "";
}

// What an attempt leaves if nothing contains it.
void RemoveTraces() {
  for (const char* name : {"file", "folder", "link", "moved"}) {
    std::filesystem::remove(Cat("/tmp/assay-adversarial-", name));
  }
  const int semaphore = semget(0x6173, 1, 0);
  if (semaphore >= 0) semctl(semaphore, 0, IPC_RMID);
}

class AttemptUncontained : public ::testing::TestWithParam<std::string> {};

// An attempt is no dud: where nothing contains it, it succeeds, and writes zeros. So its pass under
// the judge shows that it was refused.
TEST_P(AttemptUncontained, Succeeds) {
  const std::string& name = GetParam();
  const std::string why = WhyRefused(name);
  if (!why.empty()) GTEST_SKIP() << why;
  RemoveTraces();
  const Uncontained outcome = LaunchUncontained(Cat(ADVERSARIAL_DIR "/", name, ".so"));
  RemoveTraces();
  if (name == "try_kill_group") {  // it is of the group, and so ends, too
    EXPECT_FALSE(outcome.output.has_value());
    EXPECT_TRUE(WIFSIGNALED(outcome.judge));
    EXPECT_EQ(WTERMSIG(outcome.judge), SIGKILL);
    return;
  }
  ASSERT_TRUE(outcome.output.has_value()) << "its process ended";
  EXPECT_EQ(*outcome.output, 0) << "it was refused, and computed";
}

std::string AttemptName(const ::testing::TestParamInfo<std::string>& info) { return info.param; }

INSTANTIATE_TEST_SUITE_P(All, AttemptUncontained, ::testing::ValuesIn(HarmlessAttempts()),
                         AttemptName);

}  // namespace
}  // namespace assay
