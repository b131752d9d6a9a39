#include "server/kernels/kernel_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <system_error>
#include <vector>

#include "absl/time/time.h"
#include "google/protobuf/util/json_util.h"
#include "kernels/providers/user/device_program.h"
#include "kernels/text/cat.h"
#include "server/base/case_spec.h"
#include "server/base/limit.h"
#include "server/base/limit_error.h"
#include "server/base/log.h"

namespace assay::server {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kAbout = "/about.json";
constexpr std::string_view kToolchain = "/toolchain";
constexpr std::string_view kLibrary = "/kernel.so";

// The files of a kernel's folder that hold code.
std::vector<std::string> CodeIn(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    std::error_code absent;
    if ((name == kLibrary.substr(1) || name.starts_with(kDeviceProgramPrefix)) &&
        entry.is_regular_file(absent)) {
      files.push_back(entry.path().string());
    }
  }
  return files;
}

bool IsSame(const v1::UserKernel& a, const v1::UserKernel& b) {
  return a.sha256() == b.sha256() && a.form() == b.form();
}

// "C", "CXX", "CUDA": as the API calls them.
std::string_view NameOf(v1::KernelForm form) {
  std::string_view name = v1::KernelForm_Name(form);
  constexpr std::string_view kPrefix = "KERNEL_FORM_";
  if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
  return name;
}

// The name of a kernel comes from its bytes alone, so that the same bytes in two forms have one.
std::string Clash(const v1::UserKernel& here, const v1::UserKernel& sent) {
  if (here.sha256() != sent.sha256()) {
    return Cat("another kernel is called ", sent.provider(), " here");
  }
  return Cat("the same bytes are here as ", NameOf(here.form()), ", not as ", NameOf(sent.form()),
             ": they are called ", sent.provider(), " in both forms");
}

bool IsId(std::string_view text) {
  return text.size() == kKernelIdLength && text.find_first_not_of("0123456789abcdef") == text.npos;
}

absl::Status Cannot(std::string_view what, const std::string& path) {
  const int error = errno;
  absl::Status status = absl::ErrnoToStatus(error, Cat("cannot ", what, " ", path));
  return error == ENOSPC || error == EDQUOT ? absl::ResourceExhaustedError(status.message())
                                            : absl::InternalError(status.message());
}

absl::Status Sync(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return Cannot("open", path);
  const bool synced = fsync(fd) == 0;
  close(fd);
  return synced ? absl::OkStatus() : Cannot("write", path);
}

absl::Status WriteSynced(const std::string& path, std::string_view text) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return Cannot("make", path);
  const bool written =
      write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) && fsync(fd) == 0;
  close(fd);
  return written ? absl::OkStatus() : Cannot("write", path);
}

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::int64_t BytesIn(const std::string& folder) {
  std::int64_t bytes = 0;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::uintmax_t size = entry.file_size(error);
    if (!error) bytes += static_cast<std::int64_t>(size);
  }
  return bytes;
}

// What a folder would hold.
struct Held {
  std::int64_t count = 0;
  std::int64_t bytes = 0;
};

bool TooMany(const KernelFolderOptions& options, const Held& held) {
  return options.most_count > 0 && held.count > options.most_count;
}
bool TooLarge(const KernelFolderOptions& options, std::int64_t bytes) {
  return options.most_bytes > 0 && bytes > options.most_bytes;
}

// Why a kernel of `bytes` has no room. `held` is with it.
absl::Status NoRoom(const KernelFolderOptions& options, const Held& held, std::int64_t bytes) {
  const bool never = TooLarge(options, bytes);
  const bool many = !never && TooMany(options, held);
  return MakeLimitError(
      {.limit = Setting(many ? Limit::kKeptKernels : Limit::kKeptKernelBytes),
       .value = many ? options.most_count : options.most_bytes,
       .may = many ? "users' kernels" : "bytes of users' kernels",
       .note = never ? Cat("this one needs ", bytes)
                     : Cat("there is no room for another kernel: kept jobs name the other ",
                           held.count - 1, ", or they were used in the last ",
                           absl::FormatDuration(options.fresh),
                           "; delete jobs, or the daemon's operator can raise the limit"),
       .again = never ? absl::ZeroDuration() : absl::Minutes(1),
       .instead = "send a smaller one, or the daemon's operator can raise the limit"});
}

}  // namespace

std::optional<std::string> KernelIdOf(std::string_view provider) {
  if (!provider.starts_with(kUserKernelPrefix)) return std::nullopt;
  const std::string_view id = provider.substr(provider.find('/') + 1);
  return IsId(id) ? std::optional<std::string>(id) : std::nullopt;
}

absl::StatusOr<std::unique_ptr<KernelFolder>> KernelFolder::Open(KernelFolderOptions options) {
  std::unique_ptr<KernelFolder> folder(new KernelFolder(std::move(options)));
  const std::string& path = folder->options_.path;
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return Cannot("make", path);
  // An earlier mask of the process must not leave it open to others.
  if (chmod(path.c_str(), 0700) != 0) return Cannot("close to other users", path);
  folder->Load();
  return folder;
}

void KernelFolder::Load() {
  std::vector<fs::path> broken;
  std::error_code error;
  for (const fs::directory_entry& found : fs::directory_iterator(options_.path, error)) {
    const std::string id = found.path().filename().string();
    const std::string path = found.path().string();
    Entry entry;
    const bool whole =
        IsId(id) && !CodeIn(path).empty() &&
        google::protobuf::util::JsonStringToMessage(ReadAll(Cat(path, kAbout)), &entry.kernel)
            .ok() &&
        std::string_view(entry.kernel.sha256()).substr(0, kKernelIdLength) == id;
    if (!whole) {
      broken.push_back(found.path());
      continue;
    }
    entry.toolchain = ReadAll(Cat(path, kToolchain));
    entry.bytes = BytesIn(path);
    entry.used = fs::last_write_time(Cat(path, kAbout), error);
    entries_[id] = std::move(entry);
  }
  for (const fs::path& path : broken) {
    fs::remove_all(path, error);
    Log(LogLevel::kInfo, "kernel.half_written_removed", {{"path", path.string()}});
  }
}

absl::StatusOr<std::string> KernelFolder::NewFolder() {
  std::string path = Cat(options_.path, "/new-XXXXXX");
  if (mkdtemp(path.data()) == nullptr) return Cannot("make a folder in", options_.path);
  return path;
}

void KernelFolder::Discard(const std::string& folder) {
  std::error_code ignored;
  fs::remove_all(folder, ignored);
}

absl::StatusOr<std::set<std::string>> KernelFolder::Named() const {
  return options_.named ? options_.named() : std::set<std::string>();
}

bool KernelFolder::IsFresh(const Entry& entry) const {
  // A clock that was set back does not keep a kernel for ever.
  const absl::Duration since = absl::FromChrono(fs::file_time_type::clock::now() - entry.used);
  return absl::AbsDuration(since) < options_.fresh;
}

absl::Status KernelFolder::CheckPlace(const Entry& entry, const v1::UserKernel& kernel) const {
  if (IsSame(entry.kernel, kernel)) return absl::OkStatus();
  const std::string another = Clash(entry.kernel, kernel);
  if (IsFresh(entry)) {
    return absl::AlreadyExistsError(Cat(another, ". That one was used in the last ",
                                        absl::FormatDuration(options_.fresh),
                                        "; change a byte of the file, or send it later"));
  }
  const absl::StatusOr<std::set<std::string>> named = Named();
  if (!named.ok()) return named.status();
  if (!named->contains(entry.kernel.provider())) return absl::OkStatus();
  return absl::AlreadyExistsError(Cat(
      another, ", and kept jobs name that one; change a byte of the file, or delete those jobs"));
}

absl::Status KernelFolder::MakeRoom(const std::string& id, std::int64_t bytes) {
  Held held{1, bytes};
  for (const auto& [other, entry] : entries_) {
    if (other == id) continue;
    ++held.count;
    held.bytes += entry.bytes;
  }
  if (TooLarge(options_, bytes)) return NoRoom(options_, held, bytes);
  const auto fits = [&] { return !TooMany(options_, held) && !TooLarge(options_, held.bytes); };
  if (fits()) return absl::OkStatus();
  const absl::StatusOr<std::set<std::string>> named = Named();
  if (!named.ok()) return named.status();
  while (!fits()) {
    auto oldest = entries_.end();
    for (auto it = entries_.begin(); it != entries_.end(); ++it) {
      if (it->first == id || named->contains(it->second.kernel.provider())) continue;
      if (IsFresh(it->second)) continue;
      if (oldest == entries_.end() || it->second.used < oldest->second.used) oldest = it;
    }
    if (oldest == entries_.end()) return NoRoom(options_, held, bytes);
    --held.count;
    held.bytes -= oldest->second.bytes;
    Discard(PathOf(oldest->first));
    Log(LogLevel::kInfo, "kernel.removed", {{"kernel", oldest->second.kernel.provider()}});
    entries_.erase(oldest);
  }
  return absl::OkStatus();
}

absl::Status KernelFolder::Put(const std::string& folder, const v1::UserKernel& kernel,
                               const std::string& toolchain) {
  const std::string id = kernel.sha256().substr(0, kKernelIdLength);
  std::string about;
  if (!google::protobuf::util::MessageToJsonString(kernel, &about).ok()) {
    return absl::InternalError("a kernel cannot be described");
  }
  if (absl::Status s = WriteSynced(Cat(folder, kAbout), about); !s.ok()) return s;
  if (!toolchain.empty()) {
    if (absl::Status s = WriteSynced(Cat(folder, kToolchain), toolchain); !s.ok()) return s;
  }
  for (const std::string& file : CodeIn(folder)) {
    if (absl::Status s = Sync(file); !s.ok()) return s;
  }
  if (absl::Status s = Sync(folder); !s.ok()) return s;
  Entry entry{kernel, toolchain, BytesIn(folder), fs::file_time_type::clock::now()};
  const std::lock_guard lock(mutex_);
  if (const auto found = entries_.find(id); found != entries_.end()) {
    const Entry& old = found->second;
    if (absl::Status s = CheckPlace(old, kernel); !s.ok()) return s;
    if (IsSame(old.kernel, kernel) && old.toolchain == toolchain && !CodeIn(PathOf(id)).empty()) {
      Use(id, found->second);
      Discard(folder);
      return absl::OkStatus();
    }
  }
  if (absl::Status s = MakeRoom(id, entry.bytes); !s.ok()) return s;
  if (absl::Status s = Place(folder, id); !s.ok()) return s;
  entries_[id] = std::move(entry);
  absl::Status synced = Sync(options_.path);
  // A process that has the old library open keeps it.
  if (synced.ok()) Discard(folder);
  return synced;
}

absl::Status KernelFolder::Place(const std::string& folder, const std::string& id) const {
  const std::string path = PathOf(id);
  if (!entries_.contains(id)) {
    return rename(folder.c_str(), path.c_str()) == 0 ? absl::OkStatus() : Cannot("rename", folder);
  }
  if (renameat2(AT_FDCWD, folder.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) == 0) {
    return absl::OkStatus();
  }
  if (errno != EINVAL && errno != ENOSYS && errno != ENOENT) return Cannot("exchange", path);
  // The file system exchanges no folders, or the old one is gone.
  const std::string aside = Cat(folder, "-old");
  const bool moved = rename(path.c_str(), aside.c_str()) == 0;
  if (!moved && errno != ENOENT) return Cannot("rename", path);
  if (rename(folder.c_str(), path.c_str()) != 0) {
    absl::Status status = Cannot("rename", folder);
    if (moved) std::rename(aside.c_str(), path.c_str());
    return status;
  }
  if (moved && rename(aside.c_str(), folder.c_str()) != 0) return Cannot("rename", aside);
  return absl::OkStatus();
}

KernelFolder::Kept KernelFolder::Use(const std::string& id, Entry& entry) const {
  entry.used = fs::file_time_type::clock::now();
  std::error_code ignored;
  fs::last_write_time(Cat(PathOf(id), kAbout), entry.used, ignored);
  return Kept{entry.kernel, Cat(PathOf(id), kLibrary), entry.toolchain};
}

std::optional<KernelFolder::Kept> KernelFolder::Find(const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end()) return std::nullopt;
  return Use(id, found->second);
}

absl::StatusOr<std::optional<KernelFolder::Kept>> KernelFolder::FindSame(
    const v1::UserKernel& kernel) {
  const std::string id = kernel.sha256().substr(0, kKernelIdLength);
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end()) return std::nullopt;
  if (absl::Status s = CheckPlace(found->second, kernel); !s.ok()) return s;
  if (!IsSame(found->second.kernel, kernel)) return std::nullopt;
  return Use(id, found->second);
}

}  // namespace assay::server
