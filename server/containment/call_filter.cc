#include "server/containment/call_filter.h"

#include <fcntl.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
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

#include "absl/cleanup/cleanup.h"
#include "kernels/text/cat.h"

namespace assay::server {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;  // the leak check traces its own process
#else
constexpr bool kSanitized = false;
#endif

// Names and not numbers: libseccomp knows each processor's numbers, and leaves out what a processor
// or the library itself does not have.
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
    "chmod", "fchmodat", "fchmodat2", "chown", "lchown", "fchownat", "setxattr", "lsetxattr",
    "removexattr", "lremovexattr",
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

class Builder {
 public:
  Builder(scmp_filter_ctx context, std::uint32_t refuse) : context_(context), refuse_(refuse) {}

  void Refuse(const char* name) { Add(refuse_, name, {}); }
  void Refuse(const char* name, std::initializer_list<scmp_arg_cmp> when) {
    Add(refuse_, name, when);
  }
  void Hide(const char* name) { Add(SCMP_ACT_ERRNO(ENOSYS), name, {}); }
  int error() const { return error_; }

 private:
  void Add(std::uint32_t action, const char* name, std::initializer_list<scmp_arg_cmp> when) {
    const int call = seccomp_syscall_resolve_name(name);
    if (call == __NR_SCMP_ERROR) return;
    const int done = seccomp_rule_add_array(context_, action, call,
                                            static_cast<unsigned>(when.size()), when.begin());
    // EDOM: this processor has no such call.
    if (done < 0 && done != -EDOM && error_ == 0) error_ = done;
  }

  scmp_filter_ctx context_;
  const std::uint32_t refuse_;
  int error_ = 0;
};

void AddRules(const CallFilterOptions& options, Builder& to) {
  for (const char* name : kRefused) to.Refuse(name);
  for (const char* name : kAbsent) to.Hide(name);
  if (!kSanitized) to.Refuse("ptrace");
  to.Refuse("clone", {SCMP_CMP(0, SCMP_CMP_MASKED_EQ, CLONE_NEWUSER, CLONE_NEWUSER)});
  for (int bit = 1; bit != 0; bit <<= 1) {
    if (bit != CLONE_NEWUSER && (kNamespaces & bit) != 0) {
      to.Refuse("clone", {SCMP_CMP(0, SCMP_CMP_MASKED_EQ, static_cast<scmp_datum_t>(bit),
                                   static_cast<scmp_datum_t>(bit))});
    }
  }
  if (options.unix_sockets) {
    to.Refuse("socket", {SCMP_A0_32(SCMP_CMP_NE, AF_UNIX)});
  } else {
    to.Refuse("socket");
  }
  // A datagram needs no connect: it goes to whichever address it has.
  const scmp_arg_cmp datagram = SCMP_CMP(1, SCMP_CMP_MASKED_EQ, 0xf, SOCK_DGRAM);
  if (options.unix_sockets) to.Refuse("socket", {SCMP_A0_32(SCMP_CMP_EQ, AF_UNIX), datagram});
  to.Refuse("socketpair", {datagram});
  // Linux makes a datagram socket of a raw one, too.
  const scmp_arg_cmp raw = SCMP_CMP(1, SCMP_CMP_MASKED_EQ, 0xf, SOCK_RAW);
  if (options.unix_sockets) to.Refuse("socket", {SCMP_A0_32(SCMP_CMP_EQ, AF_UNIX), raw});
  to.Refuse("socketpair", {raw});
  // A descriptor that sends a signal of the caller's choice to a process of the caller's choice.
  for (const int command : {F_SETOWN, F_SETSIG, F_SETOWN_EX}) {
    to.Refuse("fcntl",
              {SCMP_CMP(1, SCMP_CMP_MASKED_EQ, 0xffffffff, static_cast<scmp_datum_t>(command))});
  }
  // The priority of one process, and not of all of a group's or a user's.
  to.Refuse("setpriority", {SCMP_A0_32(SCMP_CMP_NE, PRIO_PROCESS)});
  // A process may change its own limits and move its own memory, and nobody else's.
  for (const char* name : {"prlimit64", "migrate_pages", "move_pages"}) {
    to.Refuse(name, {SCMP_A0_32(SCMP_CMP_NE, 0)});
  }
  if (options.protect > 0) {
    const auto pid = static_cast<std::uint32_t>(options.protect);
    const auto group = static_cast<std::uint32_t>(-getpgid(options.protect));
    // Linux reads the lower half of the argument alone, so the filter must, too.
    const auto is = [](std::uint32_t target) {
      return SCMP_CMP(0, SCMP_CMP_MASKED_EQ, 0xffffffff, target);
    };
    for (const std::uint32_t target : {pid, group, static_cast<std::uint32_t>(-1)}) {
      to.Refuse("kill", {is(target)});
    }
    for (const char* name : {"tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo"}) {
      to.Refuse(name, {is(pid)});
    }
  }
}

// Installs a filter that does `refuse`. Returns its error, as a negative errno, or 0.
int Load(const CallFilterOptions& options, std::uint32_t refuse, int* listener) {
  const scmp_filter_ctx context = seccomp_init(SCMP_ACT_ALLOW);
  if (context == nullptr) return -ENOMEM;
  const absl::Cleanup release = [context] { seccomp_release(context); };
  // Calls of a foreign kind (32 bit, x32) do not exist.
  seccomp_attr_set(context, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS));
  // A binary tree in place of a list: a call passes seven comparisons instead of eighty.
  seccomp_attr_set(context, SCMP_FLTATR_CTL_OPTIMIZE, 2);
  // Linux before 5.16 else makes every filtered process slower, against a leak between threads that
  // share one address space. A worker runs one case and has no such secrets.
  seccomp_attr_set(context, SCMP_FLTATR_CTL_SSB, 1);
  Builder builder(context, refuse);
  AddRules(options, builder);
  if (builder.error() != 0) return builder.error();
  if (const int done = seccomp_load(context); done != 0) return done;
  if (refuse == SCMP_ACT_NOTIFY) {
    *listener = fcntl(seccomp_notify_fd(context), F_DUPFD_CLOEXEC, 0);
    // The library keeps one listener for the process, and would give the next filter none. Each of
    // our threads has a filter of its own.
    seccomp_reset(nullptr, 0);
  }
  return 0;
}

std::string Describe(const seccomp_notif& call) {
  char* known = seccomp_syscall_resolve_num_arch(call.data.arch, call.data.nr);
  const std::string name = known == nullptr ? Cat("system call ", call.data.nr) : known;
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
