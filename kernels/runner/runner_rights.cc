#include "kernels/runner/runner_rights.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <system_error>
#include <vector>

#include "kernels/confine/call_rules.h"
#include "kernels/confine/file_rights.h"
#include "kernels/confine/sanitized.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

// What a library that computes needs of the system: memory, threads, clocks, its own signals, and
// to read files. Everything else is refused. Names of other processors' calls are left out.
constexpr std::array kAllowed = {
    // Memory.
    "brk", "munmap", "mprotect", "mremap", "mlock", "mlock2", "munlock", "msync", "membarrier",
    "get_mempolicy", "set_mempolicy", "mbind",
    // Threads.
    "futex", "futex_waitv", "futex_wait", "futex_wake", "futex_requeue", "set_robust_list",
    "set_tid_address", "rseq", "gettid", "getpid", "getppid", "exit", "exit_group", "sched_yield",
    "sched_getaffinity", "sched_getparam", "sched_getscheduler", "sched_get_priority_max",
    "sched_get_priority_min", "getcpu", "arch_prctl", "restart_syscall",
    // Its own signals.
    "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "rt_sigpending", "rt_sigtimedwait",
    "rt_sigsuspend", "sigaltstack", "pause",
    // Clocks.
    "clock_gettime", "clock_getres", "gettimeofday", "time", "nanosleep", "clock_nanosleep",
    // Files, to read them. The descriptors that it has are /dev/null.
    "read", "readv", "pread64", "preadv", "close", "close_range", "lseek", "fstat", "stat", "lstat",
    "newfstatat", "statx", "fstatfs", "statfs", "access", "faccessat", "faccessat2", "readlink",
    "readlinkat", "getdents64", "getcwd", "write", "writev", "poll", "ppoll", "eventfd2", "dup",
    // Questions.
    "uname", "sysinfo", "getrusage", "times", "getuid", "geteuid", "getgid", "getegid", "getrandom",
    "getrlimit", "getpgrp", "getpgid", "getsid", "capget"};

// A program takes an older call when this does not exist: the filter sees the flags of clone.
constexpr std::array kAbsent = {"clone3", "io_uring_setup"};

scmp_arg_cmp Low(unsigned argument, std::uint32_t value) {
  return scmp_arg_cmp{argument, SCMP_CMP_MASKED_EQ, 0xffffffff, value};
}

std::string FilterCalls() {
  CallRules rules(SCMP_ACT_ERRNO(EPERM));
  const auto allow = [&](const char* name, std::initializer_list<scmp_arg_cmp> when = {}) {
    rules.Add(SCMP_ACT_ALLOW, name, when);
  };
  for (const char* name : kAllowed) allow(name);
  for (const char* name : kAbsent) rules.Add(SCMP_ACT_ERRNO(ENOSYS), name);
  // Threads, and no processes.
  allow("clone", {SCMP_CMP(0, SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD)});
  // Which pages of a library are in memory is a place for a message to the next kernel. So nothing
  // that asks for it is here (mincore, the flags of preadv2), and nothing that changes it
  // (fadvise64, readahead, MADV_COLD, MADV_PAGEOUT).
  allow("preadv2", {Low(5, 0)});
  allow("madvise", {SCMP_CMP(2, SCMP_CMP_LT, MADV_COLD)});
  // To read alone.
  constexpr std::uint32_t kWriting = O_ACCMODE | O_CREAT | O_TRUNC | O_APPEND;
  allow("open", {SCMP_CMP(1, SCMP_CMP_MASKED_EQ, kWriting, 0)});
  allow("openat", {SCMP_CMP(2, SCMP_CMP_MASKED_EQ, kWriting, 0)});
  for (const int command : {F_GETFD, F_SETFD, F_GETFL, F_DUPFD, F_DUPFD_CLOEXEC}) {
    allow("fcntl", {Low(1, static_cast<std::uint32_t>(command))});
  }
  // Memory that is shared and of no file is charged to no limit of this process.
  allow("mmap", {SCMP_CMP(3, SCMP_CMP_MASKED_EQ, MAP_ANONYMOUS, 0)});
  allow("mmap", {SCMP_CMP(3, SCMP_CMP_MASKED_EQ, MAP_SHARED | MAP_ANONYMOUS, MAP_ANONYMOUS)});
  // abort() ends the process by a signal to itself. It may send none to others: not to its judge,
  // and not to all (kill of 0, -1 or a group). SIGSTOP is the judge's, and SIGCONT must not undo
  // it.
  const auto self = static_cast<std::uint32_t>(getpid());
  allow("kill", {Low(0, self), Low(1, SIGABRT)});
  allow("tgkill", {Low(0, self), Low(2, SIGABRT)});
  for (const char* name : {"sched_setaffinity", "prlimit64"}) allow(name, {Low(0, 0)});
  for (const int option : {PR_SET_NAME, PR_GET_NAME, PR_GET_DUMPABLE, PR_SET_VMA,
                           PR_GET_NO_NEW_PRIVS, PR_SET_THP_DISABLE, PR_GET_THP_DISABLE}) {
    allow("prctl", {Low(0, static_cast<std::uint32_t>(option))});
  }
  const int error = rules.Load();
  return error == 0 ? "" : Cat("seccomp: ", std::generic_category().message(-error));
}

// Returns why it has capabilities left, or an empty text.
std::string DropCapabilities() {
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  for (int capability = 0; capability < 64; ++capability) {
    prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
  }
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> none{};
  if (syscall(SYS_capset, &header, none.data()) == 0) return "";
  const int error = errno;
  // Where the call is refused, there may be none to drop.
  if (syscall(SYS_capget, &header, none.data()) == 0 &&
      std::all_of(none.begin(), none.end(), [](const __user_cap_data_struct& set) {
        return (set.effective | set.permitted | set.inheritable) == 0;
      })) {
    return "";
  }
  return Cat("capset: ", std::generic_category().message(error));
}

// Lowers limits. One that is lower already stays.
class Limits {
 public:
  void Lower(__rlimit_resource resource, const char* name, std::uint64_t most) {
    rlimit limit{};
    if (getrlimit(resource, &limit) == 0) {
      if (limit.rlim_max <= most && limit.rlim_cur <= most) return;
      limit.rlim_max = std::min<rlim_t>(limit.rlim_max, most);
      limit.rlim_cur = std::min<rlim_t>(limit.rlim_cur, limit.rlim_max);
      if (setrlimit(resource, &limit) == 0) return;
    }
    if (missing_.empty()) missing_ = Cat(name, ": ", std::generic_category().message(errno));
  }
  // The first that could not be lowered, and why; or an empty text.
  const std::string& missing() const { return missing_; }

 private:
  std::string missing_;
};

// The threads of the whole machine, so at least those of this user; 0: unknown.
std::uint64_t ThreadsOfTheMachine() {
  std::FILE* const load = std::fopen("/proc/loadavg", "re");
  if (load == nullptr) return 0;
  char line[128];  // "0.20 0.18 0.12 1/80 11206": behind the '/' are the threads
  const char* const text = std::fgets(line, sizeof line, load);
  std::fclose(load);
  const char* const running = text == nullptr ? nullptr : std::strchr(text, '/');
  return running == nullptr ? 0 : std::strtoull(running + 1, nullptr, 10);
}

std::string LimitResources(const RunnerRights& rights) {
  Limits limits;
  limits.Lower(RLIMIT_CORE, "RLIMIT_CORE", 1);  // 1 also stops a core_pattern that pipes
  limits.Lower(RLIMIT_FSIZE, "RLIMIT_FSIZE", 0);
  limits.Lower(RLIMIT_NOFILE, "RLIMIT_NOFILE", 64);
  limits.Lower(RLIMIT_MEMLOCK, "RLIMIT_MEMLOCK", std::uint64_t{64} << 20);
  // The limit counts all threads of the user, so it leaves room for those that others begin later.
  // Linux does not hold root to it.
  if (const std::uint64_t threads = ThreadsOfTheMachine(); threads > 0) {
    constexpr std::uint64_t kOfOthers = 1024;
    limits.Lower(RLIMIT_NPROC, "RLIMIT_NPROC",
                 threads + kOfOthers + std::uint64_t{4} * rights.thread_count);
  }
  if (kSanitized) return limits.missing();
  limits.Lower(RLIMIT_DATA, "RLIMIT_DATA", rights.memory_bytes);
  // Each thread reserves address space for its stack and its heap that it does not use.
  constexpr std::uint64_t kOfThread = std::uint64_t{256} << 20;
  constexpr std::uint64_t kOfLibraries = std::uint64_t{4} << 30;
  limits.Lower(RLIMIT_AS, "RLIMIT_AS",
               rights.operand_bytes + 2 * rights.memory_bytes + kOfLibraries +
                   (rights.thread_count + 16) * kOfThread);
  return limits.missing();
}

FileRules Readable(const std::string& library) {
  namespace fs = std::filesystem;
  FileRules rules;
  rules.readable = {"/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib32", "/usr/lib64",
                    "/usr/local/lib", "/usr/local/lib64", "/nix/store", "/gnu/store",
                    "/etc/ld.so.cache", "/etc/localtime",
                    // How many processors there are, and what they can do.
                    "/sys/devices/system/cpu", "/sys/devices/system/node", "/proc/cpuinfo",
                    "/proc/meminfo", "/proc/self", library};
  // An installed tree brings libraries along.
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (!error) rules.readable.push_back(self.parent_path() / "../../lib/assay");
  rules.devices = {"/dev/null"};
  return rules;
}

}  // namespace

std::string GiveUpRights(const RunnerRights& rights) {
  std::vector<std::string> missing;
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    return Cat("PR_SET_NO_NEW_PRIVS: ", std::generic_category().message(errno));
  }
  const auto add = [&missing](std::string why) {
    if (!why.empty()) missing.push_back(std::move(why));
  };
  add(LimitResources(rights));
  add(DropCapabilities());
  add(RestrictFiles(Readable(rights.library)));
  add(FilterCalls());
  return Join(missing, "; ");
}

}  // namespace assay::kernels
