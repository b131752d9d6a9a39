#include "kernels/confine/file_rights.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <system_error>

#include "absl/cleanup/cleanup.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

namespace fs = std::filesystem;

// Names and numbers are of <linux/landlock.h>. Debian's header is older than the kernels that
// Debian's programs run on, so the numbers are written out.
constexpr std::uint64_t kExecute = 1 << 0;
constexpr std::uint64_t kWriteFile = 1 << 1;
constexpr std::uint64_t kReadFile = 1 << 2;
constexpr std::uint64_t kReadDir = 1 << 3;
constexpr std::uint64_t kRemoveDir = 1 << 4;
constexpr std::uint64_t kRemoveFile = 1 << 5;
constexpr std::uint64_t kMakeDir = 1 << 7;
constexpr std::uint64_t kMakeReg = 1 << 8;
constexpr std::uint64_t kMakeSock = 1 << 9;
constexpr std::uint64_t kMakeFifo = 1 << 10;
constexpr std::uint64_t kMakeSym = 1 << 12;
constexpr std::uint64_t kFirstVersion = (1 << 13) - 1;  // all of the above, and devices' making
constexpr std::uint64_t kRefer = 1 << 13;               // version 2
constexpr std::uint64_t kTruncate = 1 << 14;            // version 3
constexpr std::uint64_t kIoctlDevice = 1 << 15;         // version 5
constexpr std::uint64_t kBindTcp = 1 << 0;              // of the network; version 4
constexpr std::uint64_t kConnectTcp = 1 << 1;
constexpr std::uint64_t kAbstractSocket = 1 << 0;  // of the scope; version 6
constexpr std::uint64_t kSignal = 1 << 1;

constexpr std::uint64_t kReading = kExecute | kReadFile | kReadDir;
constexpr std::uint64_t kWriting = kReading | kWriteFile | kRemoveDir | kRemoveFile | kMakeDir |
                                   kMakeReg | kMakeSock | kMakeFifo | kMakeSym | kRefer | kTruncate;
constexpr std::uint64_t kUsing = kReadFile | kReadDir | kWriteFile | kTruncate | kIoctlDevice;
// The rights that a file can have. A folder has all.
constexpr std::uint64_t kOfFiles = kExecute | kWriteFile | kReadFile | kTruncate | kIoctlDevice;

struct Ruleset {
  std::uint64_t files = 0, network = 0, scope = 0;
};

struct __attribute__((packed)) PathRule {
  std::uint64_t rights = 0;
  std::int32_t folder = -1;
};

constexpr int kPathRule = 1;
constexpr std::uint32_t kAskVersion = 1;

Ruleset Handled(int version) {
  Ruleset handled;
  handled.files = kFirstVersion;
  if (version >= 2) handled.files |= kRefer;
  if (version >= 3) handled.files |= kTruncate;
  if (version >= 4) handled.network = kBindTcp | kConnectTcp;
  if (version >= 5) handled.files |= kIoctlDevice;
  if (version >= 6) handled.scope = kAbstractSocket | kSignal;
  return handled;
}

// The bytes of Ruleset that this version knows.
std::size_t SizeFor(int version) {
  const std::size_t fields = version >= 6 ? 3 : version >= 4 ? 2 : 1;
  return fields * sizeof(std::uint64_t);
}

bool IsInside(const fs::path& path, const fs::path& folder) {
  const auto [end, at] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return end == folder.end();
}

std::string Canonical(const std::string& path) {
  std::error_code error;
  const fs::path canonical = fs::weakly_canonical(path, error);
  std::string text = error ? path : canonical.string();
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

// Adds the rule for one path. Returns why it could not, or an empty text.
std::string Allow(int ruleset, const std::string& path, std::uint64_t rights) {
  const int fd = open(path.c_str(), O_PATH | O_CLOEXEC);
  if (fd < 0) return {};  // it is not there, or the user may not reach it
  const absl::Cleanup close_it = [fd] { close(fd); };
  struct stat found {};
  if (fstat(fd, &found) != 0) return {};
  if (!S_ISDIR(found.st_mode)) rights &= kOfFiles;
  const PathRule rule{rights, fd};
  if (syscall(SYS_landlock_add_rule, ruleset, kPathRule, &rule, 0) == 0) return {};
  return Cat("landlock refuses a rule for ", path, ": ", std::generic_category().message(errno));
}

}  // namespace

std::vector<std::string> Without(const std::string& path,
                                 const std::vector<std::string>& forbidden) {
  const fs::path folder = Canonical(path);
  bool holds_forbidden = false;
  for (const std::string& one : forbidden) {
    const fs::path secret = Canonical(one);
    if (IsInside(folder, secret)) return {};
    holds_forbidden = holds_forbidden || IsInside(secret, folder);
  }
  if (!holds_forbidden) return {folder.string()};
  std::vector<std::string> rest;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    // A link is followed when it is used, and the rules for its target count then.
    if (entry.is_symlink(error)) continue;
    for (std::string& part : Without(entry.path().string(), forbidden)) {
      rest.push_back(std::move(part));
    }
  }
  return rest;
}

int LandlockVersion(std::string* why) {
  const long version = syscall(SYS_landlock_create_ruleset, nullptr, 0, kAskVersion);
  if (version > 0) return static_cast<int>(version);
  *why = errno == ENOSYS ? "this Linux has no landlock (it came with 5.13)"
         : errno == EOPNOTSUPP
             ? "landlock is switched off on this machine (boot with lsm=landlock,…)"
             : Cat("landlock is refused here: ", std::generic_category().message(errno));
  return 0;
}

std::string RestrictFiles(const FileRules& rules) {
  std::string why;
  const int version = LandlockVersion(&why);
  if (version == 0) return why;
  const Ruleset handled = Handled(version);
  const int ruleset =
      static_cast<int>(syscall(SYS_landlock_create_ruleset, &handled, SizeFor(version), 0));
  if (ruleset < 0) return Cat("landlock_create_ruleset: ", std::generic_category().message(errno));
  const absl::Cleanup close_it = [ruleset] { close(ruleset); };
  const auto allow = [&](const std::vector<std::string>& paths, std::uint64_t rights) {
    for (const std::string& path : paths) {
      for (const std::string& part : Without(path, rules.forbidden)) {
        if (why.empty()) why = Allow(ruleset, part, rights & handled.files);
      }
    }
  };
  allow(rules.readable, kReading);
  allow(rules.writable, kWriting);
  for (const std::string& path : rules.granted) {
    if (why.empty()) why = Allow(ruleset, path, kReading & handled.files);
  }
  allow(rules.devices, kUsing);
  if (rules.process_names) allow({"/proc"}, kReading | kWriteFile | kTruncate);
  if (!why.empty()) return why;
  if (syscall(SYS_landlock_restrict_self, ruleset, 0) != 0) {
    return Cat("landlock_restrict_self: ", std::generic_category().message(errno));
  }
  return {};
}

}  // namespace assay::kernels
