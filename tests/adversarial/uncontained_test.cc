// Kernels that try to get out are no duds. Launched in a process that nothing contains, each gets
// what it tries to get. So its refusal in adversarial_test.cc is due to the containment.
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
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

constexpr unsigned kPatienceSeconds = 60;  // an alarm then ends what is launched

// The names in /tmp, and the semaphore, are the same in each checkout and for each user: one test
// at a time uses them. The lock is free when its holder has ended.
class TurnInTmp {
 public:
  TurnInTmp() {
    constexpr const char* kPath = "/tmp/assay-adversarial-lock";
    // Whose file it is does not matter. But the system may refuse O_CREAT for a file of another.
    file_ = open(kPath, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (file_ < 0) file_ = open(kPath, O_RDONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (file_ < 0) file_ = open(kPath, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);  // just made by another
    // A holder that does not end must not stop this test.
    const auto last = std::chrono::steady_clock::now() + std::chrono::seconds(kPatienceSeconds);
    while (file_ >= 0 && flock(file_, LOCK_EX | LOCK_NB) != 0) {
      if (std::chrono::steady_clock::now() > last) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  ~TurnInTmp() { Close(); }
  TurnInTmp(const TurnInTmp&) = delete;
  TurnInTmp& operator=(const TurnInTmp&) = delete;

  // In a child: what outlives the test must not keep the lock.
  void Close() {
    if (file_ >= 0) close(file_);
    file_ = -1;
  }

 private:
  int file_ = -1;
};

struct Uncontained {
  std::optional<float> output;  // its first element; nothing if the kernel's process ended before
  int judge = 0;                // how its parent ended, as waitpid says
};

// Launches the kernel once in a process that nothing contains, below another that stands for the
// judge: the kernel may kill it.
Uncontained LaunchUncontained(const std::string& library, TurnInTmp& turn) {
  Uncontained outcome;
  int answer[2];
  if (pipe(answer) != 0) return outcome;
  const pid_t judge = fork();
  if (judge == 0) {
    turn.Close();
    // A kernel may end its whole group, which must not be the test's.
    if (setpgid(0, 0) != 0) _exit(1);
    constexpr rlimit kNoCore = {0, 0};
    setrlimit(RLIMIT_CORE, &kNoCore);
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
    TurnInTmp turn;
    const Uncontained outcome = LaunchUncontained(Cat(CHEATS_DIR "/", LibraryOf(*kernel)), turn);
    std::error_code none;
    std::filesystem::remove("/tmp/assay-cheat", none);
    EXPECT_TRUE(outcome.output && !std::isnan(*outcome.output)) << cheat;
  }
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

// Attempts that may succeed on the machine that runs the tests. A new one belongs here, or to those
// that are left out.
constexpr std::array kHarmlessAttempts = {"try_abort_parent",
                                          "try_abort_thread",
                                          "try_append_file",
                                          "try_bpf",
                                          "try_capability",
                                          "try_chmod",
                                          "try_chroot",
                                          "try_environment",
                                          "try_group",
                                          "try_home",
                                          "try_hostname",
                                          "try_inotify",
                                          "try_io_uring",
                                          "try_kill_group",
                                          "try_mkdir",
                                          "try_mount",
                                          "try_nameless_file",
                                          "try_netlink",
                                          "try_outlive",
                                          "try_own_memory_file",
                                          "try_parent_environ",
                                          "try_parent_limit",
                                          "try_parent_maps",
                                          "try_pidfd",
                                          "try_privileges",
                                          "try_queue_signal",
                                          "try_random_device",
                                          "try_raw_disk",
                                          "try_rename",
                                          "try_scheduler",
                                          "try_self_root",
                                          "try_semaphore",
                                          "try_session",
                                          "try_shadow",
                                          "try_shared_anonymous",
                                          "try_socketpair",
                                          "try_splice",
                                          "try_symlink",
                                          "try_unlink",
                                          "try_unshare",
                                          "try_xattr"};

TEST(AttemptTable, KnowsOfEachWhetherItIsHarmless) {
  std::set<std::string> known;
  for (const auto& [name, reason] : LeftOut()) known.insert(name);
  for (const char* name : kHarmlessAttempts) {
    EXPECT_TRUE(known.insert(name).second) << name << " stands twice";
  }
  EXPECT_EQ(known, AllAttempts());
}

bool Opens(const char* path, int flags) {
  const int file = open(path, flags, 0600);
  if (file >= 0) close(file);
  return file >= 0;
}

// The attempt's call, here, wrong in the same way, so that it does nothing. Below 0, with errno, if
// it is refused. 0 for an attempt of another kind.
long CallHere(const std::string& attempt) {
  constexpr const char* kNoFile = "/tmp/assay-adversarial-victim";
  std::array<char, 128> zeros{};
  if (attempt == "try_bpf") return syscall(SYS_bpf, 0, zeros.data(), zeros.size());
  if (attempt == "try_hostname") return syscall(SYS_sethostname, "assay", 1 << 20);
  if (attempt == "try_chroot") return chroot(kNoFile);
  if (attempt == "try_mount") return mount("none", kNoFile, "tmpfs", 0, nullptr);
  if (attempt == "try_unshare") return unshare(0);
  long file = 0;
  if (attempt == "try_pidfd") file = syscall(SYS_pidfd_open, getpid(), 0);
  if (attempt == "try_io_uring") file = syscall(SYS_io_uring_setup, 4, zeros.data());
  if (file > 0) close(static_cast<int>(file));
  return file;
}

// Why the system itself refuses the attempt to this process; empty if it does not.
std::string WhyRefused(const std::string& attempt) {
  if (CallHere(attempt) < 0 && (errno == EPERM || errno == ENOSYS)) {
    return Cat("the system refuses the call to the test, too: ",
               std::system_category().message(errno));
  }
  const auto any_of = [&](std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), attempt) != names.end();
  };
  if (any_of({"try_own_memory_file", "try_parent_environ", "try_parent_maps", "try_self_root"}) &&
      access("/proc/self", F_OK) != 0) {
    return "there is no /proc";
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
void RemoveTraces(const std::string& attempt) {
  std::error_code none;
  for (const char* name : {"file", "folder", "link", "moved"}) {
    std::filesystem::remove(Cat("/tmp/assay-adversarial-", name), none);
  }
  if (attempt != "try_semaphore") return;
  const int semaphore = semget(0x6173, 1, 0);
  if (semaphore >= 0) semctl(semaphore, 0, IPC_RMID);
}

class AttemptUncontained : public ::testing::TestWithParam<const char*> {};

// An attempt is no dud: where nothing contains it, it succeeds, and writes zeros. So its pass under
// the judge shows that it was refused.
TEST_P(AttemptUncontained, Succeeds) {
  const std::string name = GetParam();
  const std::string why = WhyRefused(name);
  if (!why.empty()) GTEST_SKIP() << why;
  TurnInTmp turn;
  RemoveTraces(name);
  const Uncontained outcome = LaunchUncontained(Cat(ADVERSARIAL_DIR "/", name, ".so"), turn);
  RemoveTraces(name);
  if (name == "try_kill_group") {  // it is of the group, and so ends, too
    EXPECT_FALSE(outcome.output.has_value());
    EXPECT_TRUE(WIFSIGNALED(outcome.judge));
    EXPECT_EQ(WTERMSIG(outcome.judge), SIGKILL);
    return;
  }
  ASSERT_TRUE(outcome.output.has_value()) << "its process ended";
  EXPECT_EQ(*outcome.output, 0) << "it was refused, and computed";
}

std::string AttemptName(const ::testing::TestParamInfo<const char*>& info) { return info.param; }

INSTANTIATE_TEST_SUITE_P(All, AttemptUncontained, ::testing::ValuesIn(kHarmlessAttempts),
                         AttemptName);

}  // namespace
}  // namespace assay
