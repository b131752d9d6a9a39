#include "server/containment/call_filter.h"

#include <fcntl.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <mutex>
#include <string_view>
#include <system_error>
#include <utility>

#include "kernels/confine/call_rules.h"
#include "kernels/confine/sanitized.h"
#include "kernels/text/cat.h"

namespace assay::server {
namespace {

constexpr std::array kRefused = {
    // Other processes.
    "process_vm_readv", "process_vm_writev", "process_madvise", "process_mrelease", "pidfd_getfd",
    "pidfd_send_signal", "tkill",
    // What looks into the system's kernel or changes it.
    "bpf", "perf_event_open", "userfaultfd", "lookup_dcookie", "syslog", "kexec_load",
    "kexec_file_load", "init_module", "finit_module", "delete_module", "reboot", "swapon",
    "swapoff", "acct", "quotactl", "quotactl_fd", "sethostname", "setdomainname", "settimeofday",
    "clock_settime", "iopl", "ioperm", "vhangup", "nfsservctl", "fanotify_init",
    // Keys.
    "keyctl", "add_key", "request_key",
    // Another view of files.
    "mount", "umount", "umount2", "pivot_root", "chroot", "move_mount", "open_tree", "fsopen",
    "fsconfig", "fsmount", "fspick", "mount_setattr", "setns", "unshare", "open_by_handle_at",
    // Landlock restricts this since its third version only.
    "truncate",
    // Who may use a file. Landlock does not restrict these.
    "chmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat", "setxattr",
    "lsetxattr", "fsetxattr", "setxattrat", "removexattr", "lremovexattr", "fremovexattr",
    "removexattrat",
    // The network, and servers on this node.
    "connect"};

// Calls whose arguments a filter cannot see. A program takes an older call when these do not exist:
// glibc then starts threads by clone, whose flags the filter sees.
constexpr std::array kAbsent = {"clone3", "io_uring_setup", "io_uring_enter", "io_uring_register"};

constexpr int kNamespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                            CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;

constexpr std::array<std::pair<int, std::string_view>, 7> kFamilies = {{{AF_UNIX, "AF_UNIX"},
                                                                        {AF_INET, "AF_INET"},
                                                                        {AF_INET6, "AF_INET6"},
                                                                        {AF_NETLINK, "AF_NETLINK"},
                                                                        {AF_PACKET, "AF_PACKET"},
                                                                        {AF_ALG, "AF_ALG"},
                                                                        {AF_VSOCK, "AF_VSOCK"}}};

void AddSocketRules(const CallFilterOptions& options, std::uint32_t action, CallRules& rules) {
  const auto refuse = [&](const char* name, std::initializer_list<scmp_arg_cmp> when = {}) {
    rules.Add(action, name, when);
  };
  if (options.unix_sockets) {
    refuse("socket", {SCMP_A0_32(SCMP_CMP_NE, AF_UNIX)});
  } else {
    refuse("socket");
  }
  // A datagram needs no connect: it goes to whichever address it has.
  const scmp_arg_cmp datagram = SCMP_CMP(1, SCMP_CMP_MASKED_EQ, 0xf, SOCK_DGRAM);
  if (options.unix_sockets) refuse("socket", {SCMP_A0_32(SCMP_CMP_EQ, AF_UNIX), datagram});
  refuse("socketpair", {datagram});
  // Linux makes a datagram socket of a raw one, too.
  const scmp_arg_cmp raw = SCMP_CMP(1, SCMP_CMP_MASKED_EQ, 0xf, SOCK_RAW);
  if (options.unix_sockets) refuse("socket", {SCMP_A0_32(SCMP_CMP_EQ, AF_UNIX), raw});
  refuse("socketpair", {raw});
}

// What is refused is answered by `action`.
void AddRules(const CallFilterOptions& options, std::uint32_t action, CallRules& rules) {
  const auto refuse = [&](const char* name, std::initializer_list<scmp_arg_cmp> when = {}) {
    rules.Add(action, name, when);
  };
  for (const char* name : kRefused) refuse(name);
  for (const char* name : kAbsent) rules.Add(SCMP_ACT_ERRNO(ENOSYS), name);
  if (!kSanitized) refuse("ptrace");
  refuse("clone", {SCMP_CMP(0, SCMP_CMP_MASKED_EQ, CLONE_NEWUSER, CLONE_NEWUSER)});
  for (int bit = 1; bit != 0; bit <<= 1) {
    if (bit != CLONE_NEWUSER && (kNamespaces & bit) != 0) {
      refuse("clone", {SCMP_CMP(0, SCMP_CMP_MASKED_EQ, static_cast<scmp_datum_t>(bit),
                                static_cast<scmp_datum_t>(bit))});
    }
  }
  AddSocketRules(options, action, rules);
  // A descriptor that sends a signal of the caller's choice to a process of the caller's choice.
  for (const int command : {F_SETOWN, F_SETSIG, F_SETOWN_EX}) {
    refuse("fcntl",
           {SCMP_CMP(1, SCMP_CMP_MASKED_EQ, 0xffffffff, static_cast<scmp_datum_t>(command))});
  }
  for (const int command : {FIOSETOWN, SIOCSPGRP}) {  // the same, of a socket
    refuse("ioctl",
           {SCMP_CMP(1, SCMP_CMP_MASKED_EQ, 0xffffffff, static_cast<scmp_datum_t>(command))});
  }
  // A linker says that its output is a program. Nobody makes one that runs with another's rights,
  // or that everybody may change.
  for (const int bit : {S_ISUID, S_ISGID, S_IWOTH}) {
    refuse("fchmod", {SCMP_CMP(1, SCMP_CMP_MASKED_EQ, static_cast<scmp_datum_t>(bit),
                               static_cast<scmp_datum_t>(bit))});
  }
  // The priority of one process, and not of all of a group's or a user's.
  refuse("setpriority", {SCMP_A0_32(SCMP_CMP_NE, PRIO_PROCESS)});
  // A process may change its own limits and move its own memory, and nobody else's.
  for (const char* name : {"prlimit64", "migrate_pages", "move_pages"}) {
    refuse(name, {SCMP_A0_32(SCMP_CMP_NE, 0)});
  }
  if (options.protect > 0) {
    const auto pid = static_cast<std::uint32_t>(options.protect);
    const auto group = static_cast<std::uint32_t>(-getpgid(options.protect));
    // Linux reads the lower half of the argument alone, so the filter must, too.
    const auto is = [](std::uint32_t target) {
      return SCMP_CMP(0, SCMP_CMP_MASKED_EQ, 0xffffffff, target);
    };
    for (const std::uint32_t target : {pid, group, static_cast<std::uint32_t>(-1)}) {
      refuse("kill", {is(target)});
    }
    for (const char* name : {"tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo"}) {
      refuse(name, {is(pid)});
    }
  }
}

// Installs a filter that does `action` with what is refused. Returns its error, as a negative
// errno, or 0.
int Load(const CallFilterOptions& options, std::uint32_t action, int* listener) {
  CallRules rules(SCMP_ACT_ALLOW);
  AddRules(options, action, rules);
  if (const int error = rules.Load(); error != 0) return error;
  if (action == SCMP_ACT_NOTIFY) {
    *listener = fcntl(rules.listener(), F_DUPFD_CLOEXEC, 0);
    // The library keeps one listener for the process, and would give the next filter none. Each of
    // our threads has a filter of its own.
    seccomp_reset(nullptr, 0);
  }
  return 0;
}

std::string Describe(const seccomp_notif& call) {
  char* known = seccomp_syscall_resolve_num_arch(call.data.arch, call.data.nr);
  std::string name = known == nullptr ? Cat("system call ", call.data.nr) : known;
  std::free(known);
  if (name != "socket") return name;
  const int family = static_cast<int>(call.data.args[0]);
  for (const auto& [number, word] : kFamilies) {
    if (number == family) return Cat(name, "(", word, ")");
  }
  return Cat(name, "(family ", family, ")");
}

}  // namespace

CallFilter FilterCalls(const CallFilterOptions& options) {
  static std::mutex one_at_a_time;  // the library has a state of its own
  const std::lock_guard lock(one_at_a_time);
  CallFilter filter;
  int error = -EOPNOTSUPP;
  if (seccomp_api_get() >= 5) error = Load(options, SCMP_ACT_NOTIFY, &filter.listener);
  // Only one filter of a process may have a listener. Another program may have taken it.
  if (error != 0) error = Load(options, SCMP_ACT_ERRNO(EPERM), &filter.listener);
  if (error != 0) filter.error = Cat("seccomp: ", std::generic_category().message(-error));
  return filter;
}

void RefuseNext(int listener, const std::function<void(const std::string&)>& tell) {
  // The library's functions for this share a state with the ones that install filters. A newer
  // kernel may have longer messages than these structs.
  alignas(8) std::array<char, 1024> call_bytes{}, answer_bytes{};
  auto* const call = reinterpret_cast<seccomp_notif*>(call_bytes.data());
  auto* const answer = reinterpret_cast<seccomp_notif_resp*>(answer_bytes.data());
  if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, call) != 0) return;
  answer->id = call->id;
  answer->error = -EPERM;
  tell(Describe(*call));
  ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, answer);
}

}  // namespace assay::server
