#include "kernels/providers/planted/escape.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "kernels/text/cat.h"

namespace assay::inline kernels::planted {
namespace {

constexpr unsigned kChildSeconds = 120;

// "read FILE: refused (Permission denied)". `error` is 0 if the attempt succeeded.
void Note(std::string_view what, int error, std::string& to) {
  const bool missing = error == ENOENT || error == ENOTDIR;
  Append(&to, to.empty() ? "" : "; ", what, ": ",
         error == 0 ? std::string("allowed")
         : missing  ? std::string("not there")
                    : Cat("refused (", std::generic_category().message(error), ")"));
}

std::vector<std::string> CommandLine(pid_t pid) {
  std::string text;
  if (const int fd = open(Cat("/proc/", pid, "/cmdline").c_str(), O_RDONLY | O_CLOEXEC); fd >= 0) {
    std::array<char, 4096> part;
    for (ssize_t n = 0; (n = read(fd, part.data(), part.size())) > 0;) {
      text.append(part.data(), static_cast<std::size_t>(n));
    }
    close(fd);
  }
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\0', begin);
    words.push_back(text.substr(begin, end - begin));
    begin = end == text.npos ? end : end + 1;
  }
  return words;
}

// The value of `--name value` or `--name=value`, or `otherwise`.
std::string ValueOf(const std::vector<std::string>& words, std::string_view name,
                    std::string_view otherwise) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == name && i + 1 < words.size()) return words[i + 1];
    if (words[i].starts_with(name) && words[i].substr(name.size()).starts_with('=')) {
      return words[i].substr(name.size() + 1);
    }
  }
  return std::string(otherwise);
}

int TryToRead(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno;
  close(fd);
  return 0;
}

// Whether the address is mapped there is not the question: EFAULT says that one may ask.
int TryMemory(pid_t pid) {
  char byte = 0;
  iovec here{&byte, 1}, there{&byte, 1};
  if (process_vm_readv(pid, &here, 1, &there, 1, 0) >= 0) return 0;
  return errno == EFAULT ? 0 : errno;
}

int TrySocket(int family) {
  const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  close(fd);
  return 0;
}

// Returns the child's id, or 0 and sets errno.
pid_t StartChild() {
  const pid_t child = fork();
  if (child != 0) return child > 0 ? child : 0;
  setsid();
  // Whoever waits for the end of the worker's output does not wait for this child.
  syscall(SYS_close_range, 0, ~0U, 0);
  alarm(kChildSeconds);
  for (;;) pause();
}

class EscapeKernel : public Kernel {
 public:
  absl::Status Launch(std::span<const TensorView>, const TensorView&) override {
    const pid_t daemon = getppid();
    const std::vector<std::string> words = CommandLine(daemon);
    const std::string store = Cat(ValueOf(words, "--state-dir", "/var/lib/assay"), "/assay.db");
    std::string said;
    const std::array<std::pair<std::string_view, std::string>, 5> files = {
        {{"the TLS key", ValueOf(words, "--tls-key", "/etc/assay/tls/tls.key")},
         {"the roles", ValueOf(words, "--roles-file", "/etc/assay/roles.toml")},
         {"the configuration", ValueOf(words, "--config", "/etc/assay/assayd.toml")},
         {"the store", store},
         {"the daemon's memory file", Cat("/proc/", daemon, "/mem")}}};
    for (const auto& [what, path] : files) {
      Note(Cat("read ", what, " ", path), TryToRead(path), said);
    }
    Note("read the daemon's memory", TryMemory(daemon), said);
    Note("signal the daemon", kill(daemon, 0) == 0 ? 0 : errno, said);
    Note("change who may read the store", chmod(store.c_str(), 0600) == 0 ? 0 : errno, said);
    Note("open an internet socket", TrySocket(AF_INET), said);
    Note("open a Unix socket", TrySocket(AF_UNIX), said);
    if (child_ == 0) child_ = StartChild();
    Note(Cat("start a child that leaves its group, process ", child_), child_ > 0 ? 0 : errno,
         said);
    return absl::PermissionDeniedError(Cat("tried to get out: ", said));
  }

 private:
  pid_t child_ = 0;  // one for all launches
};

}  // namespace

std::unique_ptr<Kernel> MakeEscape() { return std::make_unique<EscapeKernel>(); }

}  // namespace assay::kernels::planted
