#include "server/kernels/kernel_upload.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/escaping.h"
#include "google/rpc/error_details.pb.h"
#include "kernels/text/cat.h"
#include "kernels/text/visible.h"
#include "server/base/case_spec.h"
#include "server/base/error_info.h"
#include "server/base/request_errors.h"
#include "server/kernels/compiler_log.h"
#include "server/kernels/kernel_form.h"
#include "server/kernels/node_file.h"

namespace assay::server {
namespace {

constexpr std::string_view kSetting = "user-kernels";

absl::Status BadHeader(std::string_view field, std::string message) {
  return BadRequestError({{Cat("header.", field), std::move(message)}});
}

// FAILED_PRECONDITION, reason USER_KERNELS_OFF.
absl::Status Off(const std::string& message) {
  absl::Status status = absl::FailedPreconditionError(message);
  google::rpc::ErrorInfo info;
  info.set_domain(kErrorDomain);
  info.set_reason(std::string(Word(v1::ERROR_REASON_USER_KERNELS_OFF)));
  (*info.mutable_metadata())["setting"] = std::string(kSetting);
  Attach(info, status);
  return status;
}

// What `assayd --user-kernels` calls it, and how a message does.
struct Way {
  const char* word;
  const char* what;
};
Way WayOf(v1::KernelForm form) {
  if (form == v1::KERNEL_FORM_LIBRARY) return {"library", "libraries"};
  return IsSource(form) ? Way{"source", "source"}
                        : Way{"code-object", "PTX, cubins or code objects"};
}

// The name stands in messages, and the compiler gets it as a file of its folder.
absl::Status CheckFileName(const std::string& name) {
  if (name.empty() || name.size() > kMostKernelNameBytes) {
    return BadHeader("file_name",
                     Cat("must have 1 to ", kMostKernelNameBytes, " bytes, got ", name.size()));
  }
  if (FindControl(name) != name.npos) {
    return BadHeader("file_name", "must hold no control characters");
  }
  if (name.find('/') != name.npos || name.starts_with('-') || name.starts_with('.') ||
      name.starts_with('@')) {
    return BadHeader("file_name", Cat("must be the name of a file without folders, and begin with "
                                      "neither '-' nor '.' nor '@', got \"",
                                      name, "\""));
  }
  return absl::OkStatus();
}

std::string BaseName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

absl::Status CheckForm(const v1::KernelHeader& header, const UserKernelOptions& options) {
  const bool library = header.form() == v1::KERNEL_FORM_LIBRARY;
  if (!library && !IsSource(header.form()) && !IsCodeObject(header.form())) {
    return BadHeader("form", "must be a library, C, C++, CUDA, HIP, PTX, a cubin or a code object");
  }
  const bool taken = library                   ? options.library
                     : IsSource(header.form()) ? options.source
                                               : options.code_object;
  if (taken) return absl::OkStatus();
  const auto [word, what] = WayOf(header.form());
  if (!options.on()) {
    return Off(
        Cat("this daemon takes no users' kernels; its operator can allow them with "
            "`assayd --user-kernels ",
            word, "`"));
  }
  std::vector<std::string> words;
  if (options.library) words.emplace_back("library");
  if (options.source) words.emplace_back("source");
  if (options.code_object) words.emplace_back("code-object");
  words.emplace_back(word);
  return Off(Cat("this daemon takes no ", what,
                 " of users' kernels; its operator can allow it with `assayd --user-kernels ",
                 Join(words, ","), "`"));
}

absl::Status CheckHeader(const v1::KernelHeader& header, const UserKernelOptions& options) {
  if (!header.node_path().empty()) {
    if (header.form() == v1::KERNEL_FORM_LIBRARY) return absl::OkStatus();
    return BadHeader("node_path", "must be that of a library (.so)");
  }
  if (absl::Status s = CheckFileName(header.file_name()); !s.ok()) return s;
  if (header.size_bytes() < 1) {
    return BadHeader("size_bytes", Cat("must be at least 1, got ", header.size_bytes()));
  }
  if (header.size_bytes() > options.most_bytes) {
    return BadHeader("size_bytes", Cat("must be at most ", options.most_bytes,
                                       " (assayd "
                                       "--user-kernel-bytes), got ",
                                       header.size_bytes()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<KernelUpload>> KernelUpload::Begin(const v1::KernelHeader& header,
                                                                  const UserKernelOptions& options,
                                                                  KernelFolder* folder) {
  if (absl::Status s = CheckForm(header, options); !s.ok()) return s;
  if (absl::Status s = CheckHeader(header, options); !s.ok()) return s;
  absl::StatusOr<std::string> path = folder->NewFolder();
  if (!path.ok()) return path.status();
  std::unique_ptr<KernelUpload> upload(new KernelUpload(*folder, *path));
  const std::string file =
      Cat(*path, header.form() == v1::KERNEL_FORM_LIBRARY ? "/kernel.so" : "/source");
  upload->file_ = open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (upload->file_ < 0) return absl::ErrnoToStatus(errno, Cat("cannot write ", file));
  upload->kernel_.set_form(header.form());
  upload->kernel_.set_file_name(header.file_name());
  upload->kernel_.set_size_bytes(header.size_bytes());
  if (absl::Status s = upload->TakeLaunch(header); !s.ok()) return s;
  if (!header.node_path().empty()) {
    upload->kernel_.set_file_name(ShownText(BaseName(header.node_path())));
    if (absl::Status s = upload->ReadNodeFile(header.node_path(), options); !s.ok()) return s;
  }
  return upload;
}

KernelUpload::KernelUpload(KernelFolder& folder, std::string path)
    : folder_(folder), path_(std::move(path)), digest_(EVP_MD_CTX_new()) {
  EVP_DigestInit_ex(digest_, EVP_sha256(), nullptr);
}

KernelUpload::~KernelUpload() {
  if (file_ >= 0) close(file_);
  EVP_MD_CTX_free(digest_);
  folder_.Discard(path_);  // Put has renamed it if the kernel was kept
}

absl::Status KernelUpload::Append(std::string_view bytes) {
  taken_ += static_cast<std::int64_t>(bytes.size());
  if (taken_ > kernel_.size_bytes()) {
    return BadHeader("size_bytes", Cat("is ", kernel_.size_bytes(), ", and more bytes came"));
  }
  EVP_DigestUpdate(digest_, bytes.data(), bytes.size());
  while (!bytes.empty()) {
    const ssize_t n = write(file_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      return absl::ResourceExhaustedError(
          Cat("the daemon cannot write the file: ", absl::ErrnoToStatus(errno, "").message()));
    }
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return absl::OkStatus();
}

absl::Status KernelUpload::ReadNodeFile(const std::string& path, const UserKernelOptions& options) {
  const absl::StatusOr<int> opened = OpenNodeFile(path, options.node_folders);
  if (!opened.ok()) return opened.status();
  const int file = *opened;
  const absl::Cleanup close_it = [file] { close(file); };
  struct stat found {};
  if (fstat(file, &found) != 0 || found.st_size < 1 || found.st_size > options.most_bytes) {
    return BadHeader("node_path", Cat("must be a file of 1 to ", options.most_bytes, " bytes, got ",
                                      found.st_size));
  }
  kernel_.set_size_bytes(found.st_size);
  std::array<char, 65536> buffer;
  for (;;) {
    const ssize_t n = read(file, buffer.data(), buffer.size());
    if (n < 0) return absl::ErrnoToStatus(errno, Cat("cannot read ", path));
    if (n == 0) return absl::OkStatus();
    absl::Status s = Append({buffer.data(), static_cast<std::size_t>(n)});
    if (!s.ok()) return s;
  }
}

absl::Status KernelUpload::TakeLaunch(const v1::KernelHeader& header) {
  if (!HasLaunch(header.form())) {
    if (header.launch().empty() && header.entry().empty()) return absl::OkStatus();
    return BadHeader(header.launch().empty() ? "entry" : "launch",
                     "belongs to device code (.cu, .hip, .ptx, .cubin, .hsaco)");
  }
  if (header.file_name().find_first_of("\"\\") != std::string::npos) {
    return BadHeader("file_name", "must hold neither '\"' nor '\\'");
  }
  if (header.launch().empty()) {
    return BadHeader("launch",
                     "is required for device code: a TOML text with the keys grid, block and args "
                     "(assay run … --kernel-launch FILE.toml)");
  }
  absl::StatusOr<LaunchDescription> launch = ParseLaunch(header.launch());
  if (!launch.ok()) return BadHeader("launch", ShownText(Cat(launch.status().message())));
  if (!header.entry().empty()) {
    if (absl::Status s = CheckEntry(header.entry()); !s.ok()) {
      return BadHeader("entry", Cat(s.message(), ", got \"", ShownText(header.entry()), "\""));
    }
  }
  launch_ = *std::move(launch);
  launch_text_ = header.launch();
  entry_ = header.entry();
  return absl::OkStatus();
}

absl::Status KernelUpload::Finish() {
  if (taken_ != kernel_.size_bytes()) {
    return BadHeader("size_bytes",
                     Cat("is ", kernel_.size_bytes(), ", and ", taken_, " bytes came"));
  }
  if (HasLaunch(kernel_.form())) {
    for (const std::string& part :
         {std::string(1, '\0') + launch_text_, std::string(1, '\0') + entry_}) {
      EVP_DigestUpdate(digest_, part.data(), part.size());
    }
  }
  std::array<unsigned char, 32> digest{};
  EVP_DigestFinal_ex(digest_, digest.data(), nullptr);
  kernel_.set_sha256(
      absl::BytesToHexString({reinterpret_cast<const char*>(digest.data()), digest.size()}));
  kernel_.set_provider(Cat(kUserKernelPrefix, kernel_.sha256().substr(0, kKernelIdLength)));
  return absl::OkStatus();
}

}  // namespace assay::server
