#include "server/kernels/user_kernels.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <span>
#include <sstream>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/escaping.h"
#include "absl/time/clock.h"
#include "google/protobuf/util/time_util.h"
#include "google/rpc/error_details.pb.h"
#include "kernels/cheats/cheats.h"
#include "kernels/ops/field.h"
#include "kernels/providers/provider.h"
#include "kernels/providers/user/check_library.h"
#include "kernels/providers/user/code_object.h"
#include "kernels/providers/user/device_program.h"
#include "kernels/text/cat.h"
#include "kernels/text/visible.h"
#include "server/base/case_spec.h"
#include "server/base/error_info.h"
#include "server/base/request_errors.h"
#include "server/kernels/compiler_log.h"
#include "server/kernels/cuda_program.h"
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

bool IsSource(v1::KernelForm form) {
  return form == v1::KERNEL_FORM_C || form == v1::KERNEL_FORM_CXX || form == v1::KERNEL_FORM_CUDA;
}

bool IsCodeObject(v1::KernelForm form) {
  return form == v1::KERNEL_FORM_PTX || form == v1::KERNEL_FORM_CUBIN;
}

// Whether a launch description belongs to it.
bool HasLaunch(v1::KernelForm form) { return form == v1::KERNEL_FORM_CUDA || IsCodeObject(form); }

// What `assayd --user-kernels` calls it, and how a message does.
struct Way {
  const char* word;
  const char* what;
};
Way WayOf(v1::KernelForm form) {
  if (form == v1::KERNEL_FORM_LIBRARY) return {"library", "libraries"};
  return IsSource(form) ? Way{"source", "source"} : Way{"code-object", "PTX or cubins"};
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

// The bytes of the file, for a look at them.
std::string BytesOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

absl::Status CheckFile(const std::string& path, const std::string& file_name) {
  const std::string bytes = BytesOf(path);
  absl::Status status = CheckLibrary(std::as_bytes(std::span(bytes.data(), bytes.size())));
  if (status.ok()) return status;
  return BadRequestError({{"kernel", Cat(file_name, ": ", status.message())}});
}

}  // namespace

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

absl::StatusOr<std::unique_ptr<UserKernels>> UserKernels::Open(UserKernelOptions options) {
  std::unique_ptr<UserKernels> kernels(new UserKernels(std::move(options)));
  if (!kernels->on()) return kernels;
  absl::StatusOr<std::unique_ptr<KernelFolder>> folder =
      KernelFolder::Open(kernels->options_.folder);
  if (!folder.ok()) return folder.status();
  kernels->folder_ = *std::move(folder);
  return kernels;
}

absl::Status UserKernels::CheckForm(const v1::KernelHeader& header) const {
  const bool library = header.form() == v1::KERNEL_FORM_LIBRARY;
  if (!library && !IsSource(header.form()) && !IsCodeObject(header.form())) {
    return BadHeader("form", "must be a library, C, C++, CUDA, PTX or a cubin");
  }
  const bool taken = library                   ? options_.library
                     : IsSource(header.form()) ? options_.source
                                               : options_.code_object;
  if (taken) return absl::OkStatus();
  const auto [word, what] = WayOf(header.form());
  if (!on()) {
    return Off(
        Cat("this daemon takes no users' kernels; its operator can allow them with "
            "`assayd --user-kernels ",
            word, "`"));
  }
  std::vector<std::string> words;
  if (options_.library) words.emplace_back("library");
  if (options_.source) words.emplace_back("source");
  if (options_.code_object) words.emplace_back("code-object");
  words.emplace_back(word);
  return Off(Cat("this daemon takes no ", what,
                 " of users' kernels; its operator can allow it with `assayd --user-kernels ",
                 Join(words, ","), "`"));
}

absl::Status UserKernels::CheckHeader(const v1::KernelHeader& header) const {
  if (!header.node_path().empty()) {
    if (header.form() == v1::KERNEL_FORM_LIBRARY) return absl::OkStatus();
    return BadHeader("node_path", "must be that of a library (.so)");
  }
  if (absl::Status s = CheckFileName(header.file_name()); !s.ok()) return s;
  if (header.size_bytes() < 1) {
    return BadHeader("size_bytes", Cat("must be at least 1, got ", header.size_bytes()));
  }
  if (header.size_bytes() > options_.most_bytes) {
    return BadHeader("size_bytes", Cat("must be at most ", options_.most_bytes,
                                       " (assayd "
                                       "--user-kernel-bytes), got ",
                                       header.size_bytes()));
  }
  return absl::OkStatus();
}

absl::Status UserKernels::ReadNodeFile(const std::string& path, KernelUpload& upload) {
  const absl::StatusOr<int> opened = OpenNodeFile(path, options_.node_folders);
  if (!opened.ok()) return opened.status();
  const int file = *opened;
  const absl::Cleanup close_it = [file] { close(file); };
  struct stat found {};
  if (fstat(file, &found) != 0 || found.st_size < 1 || found.st_size > options_.most_bytes) {
    return BadHeader("node_path", Cat("must be a file of 1 to ", options_.most_bytes,
                                      " bytes, got ", found.st_size));
  }
  upload.kernel_.set_size_bytes(found.st_size);
  std::array<char, 65536> buffer;
  for (;;) {
    const ssize_t n = read(file, buffer.data(), buffer.size());
    if (n < 0) return absl::ErrnoToStatus(errno, Cat("cannot read ", path));
    if (n == 0) return absl::OkStatus();
    absl::Status s = upload.Append({buffer.data(), static_cast<std::size_t>(n)});
    if (!s.ok()) return s;
  }
}

absl::Status UserKernels::TakeLaunch(const v1::KernelHeader& header, KernelUpload& upload) const {
  if (!HasLaunch(header.form())) {
    if (header.launch().empty() && header.entry().empty()) return absl::OkStatus();
    return BadHeader(header.launch().empty() ? "entry" : "launch",
                     "belongs to CUDA code (.cu, .ptx, .cubin)");
  }
  if (header.file_name().find_first_of("\"\\") != std::string::npos) {
    return BadHeader("file_name", "must hold neither '\"' nor '\\'");
  }
  if (header.launch().empty()) {
    return BadHeader("launch",
                     "is required for CUDA code: a TOML text with the keys grid, block and args "
                     "(assay run … --kernel-launch FILE.toml)");
  }
  absl::StatusOr<LaunchDescription> launch = ParseLaunch(header.launch());
  if (!launch.ok()) return BadHeader("launch", ShownText(Cat(launch.status().message())));
  if (!header.entry().empty()) {
    if (absl::Status s = CheckEntry(header.entry()); !s.ok()) {
      return BadHeader("entry", Cat(s.message(), ", got \"", ShownText(header.entry()), "\""));
    }
  }
  upload.launch_ = *std::move(launch);
  upload.launch_text_ = header.launch();
  upload.entry_ = header.entry();
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<KernelUpload>> UserKernels::Begin(const v1::KernelHeader& header) {
  if (absl::Status s = CheckForm(header); !s.ok()) return s;
  if (absl::Status s = CheckHeader(header); !s.ok()) return s;
  absl::StatusOr<std::string> path = folder_->NewFolder();
  if (!path.ok()) return path.status();
  std::unique_ptr<KernelUpload> upload(new KernelUpload(*folder_, *path));
  const std::string file =
      Cat(*path, header.form() == v1::KERNEL_FORM_LIBRARY ? "/kernel.so" : "/source");
  upload->file_ = open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (upload->file_ < 0) return absl::ErrnoToStatus(errno, Cat("cannot write ", file));
  upload->kernel_.set_form(header.form());
  upload->kernel_.set_file_name(header.file_name());
  upload->kernel_.set_size_bytes(header.size_bytes());
  if (absl::Status s = TakeLaunch(header, *upload); !s.ok()) return s;
  if (!header.node_path().empty()) {
    upload->kernel_.set_file_name(ShownText(BaseName(header.node_path())));
    if (absl::Status s = ReadNodeFile(header.node_path(), *upload); !s.ok()) return s;
  }
  return upload;
}

namespace {

DeviceProgram ProgramOf(const LaunchDescription& launch, std::string name, std::string symbol,
                        std::string signature, std::string image) {
  return {.name = std::move(name),
          .symbol = std::move(symbol),
          .signature = std::move(signature),
          .grid = launch.grid,
          .block = launch.block,
          .shared = launch.shared,
          .args = launch.args,
          .image = std::move(image)};
}

absl::Status WriteProgram(const DeviceProgram& program, const std::string& file) {
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out << ToBytes(program) << std::flush;
  return out ? absl::OkStatus() : absl::ResourceExhaustedError(Cat("cannot write ", file));
}

}  // namespace

// Writes the PTX or cubin that came in beside the library's place, for each kind of card. A card
// that cannot load it says so.
absl::Status UserKernels::WriteDevicePrograms(const KernelUpload& upload,
                                              const std::string& library,
                                              const CudaTargets& targets) const {
  const v1::UserKernel& kernel = upload.kernel_;
  if (targets.architectures.empty()) {
    return absl::FailedPreconditionError(
        "this daemon has no CUDA device, and PTX and cubins run on nothing else");
  }
  std::string image = BytesOf(Cat(upload.path_, "/source"));
  const absl::StatusOr<std::vector<std::string>> kernels =
      kernel.form() == v1::KERNEL_FORM_PTX ? KernelsOfPtx(image) : KernelsOfCubin(image);
  const std::string& entry = upload.entry_.empty() ? upload.launch_.entry : upload.entry_;
  const absl::StatusOr<std::string> symbol =
      kernels.ok() ? ChooseKernel(*kernels, entry) : kernels.status();
  if (!symbol.ok()) {
    return BadRequestError(
        {{"kernel", ShownText(Cat(kernel.file_name(), ": ", symbol.status().message()))}});
  }
  const DeviceProgram program = ProgramOf(upload.launch_, entry.empty() ? *symbol : entry, *symbol,
                                          *symbol, std::move(image));
  for (const std::string& architecture : targets.architectures) {
    const std::string file = DeviceProgramFile(library, architecture);
    if (absl::Status s = WriteProgram(program, file); !s.ok()) return s;
  }
  return absl::OkStatus();
}

// Compiles for compile.architecture, and writes the device program beside the library.
absl::Status UserKernels::CompileForDevice(const KernelUpload& upload, const std::string& library,
                                           Compile compile) const {
  const std::string file = DeviceProgramFile(library, compile.architecture);
  compile.result = file;
  if (absl::Status s = CompileKernel(options_.compiler, compile); !s.ok()) return s;
  const std::string compiled = BytesOf(file);
  const std::size_t symbol = compiled.find('\n');
  const std::size_t end = symbol == compiled.npos ? symbol : compiled.find('\n', symbol + 1);
  if (end == compiled.npos) return absl::InternalError("the compiler left no symbol");
  return WriteProgram(
      ProgramOf(upload.launch_, compile.entry, compiled.substr(0, symbol),
                compiled.substr(symbol + 1, end - symbol - 1), compiled.substr(end + 1)),
      file);
}

absl::Status UserKernels::CompileSource(const KernelUpload& upload, const std::string& library,
                                        const CudaTargets& targets,
                                        const std::function<void(const std::string&)>& log,
                                        const std::atomic<bool>& cancel) const {
  const v1::UserKernel& kernel = upload.kernel_;
  Compile compile{.source = Cat(upload.path_, "/source"),
                  .file_name = kernel.file_name(),
                  .form = kernel.form(),
                  .result = library,
                  .log = log,
                  .cancel = &cancel};
  if (kernel.form() != v1::KERNEL_FORM_CUDA) return CompileKernel(options_.compiler, compile);
  const std::string source = BytesOf(compile.source);
  absl::StatusOr<std::string> entry =
      EntryOf(kernel.file_name(), source, upload.launch_, upload.entry_);
  if (!entry.ok()) return BadRequestError({{"kernel", ShownText(Cat(entry.status().message()))}});
  compile.entry = *std::move(entry);
  // It is enough if one of them compiles it: cards have what the emulator lacks, and the reverse.
  // What failed for another reason than the source or the node may go well the next time.
  absl::Status failed;
  std::vector<std::string> without;
  bool compiled = false;
  const auto take = [&](const absl::Status& status, std::string_view target) {
    compiled = compiled || status.ok();
    if (status.ok()) return true;
    without.push_back(Cat("not for ", target, ": ", status.message()));
    if (failed.ok() || !absl::IsInvalidArgument(failed)) failed = status;
    return absl::IsInvalidArgument(status) || absl::IsFailedPrecondition(status);
  };
  for (const std::string& architecture : targets.architectures) {
    compile.architecture = architecture;
    const absl::Status status = CompileForDevice(upload, library, compile);
    if (!take(status, architecture)) return status;
  }
  if (targets.emulator || targets.architectures.empty()) {
    compile.architecture.clear();
    const std::function<void(const std::string&)> own = compile.log;
    if (compiled) compile.log = [](const std::string&) {};  // one line is enough then
    const absl::Status status = CompileForEmulator(upload, source, compile);
    compile.log = own;
    if (!take(status, "the emulator, simt:0")) return status;
  }
  if (!compiled) return failed;
  for (const std::string& line : without) {
    if (compile.log) compile.log(ShownText(line));
  }
  return absl::OkStatus();
}

absl::Status UserKernels::CompileForEmulator(const KernelUpload& upload, const std::string& source,
                                             Compile compile) const {
  absl::StatusOr<std::string> program =
      CudaProgram(upload.kernel_.file_name(), source, upload.launch_, upload.entry_);
  if (!program.ok()) return program.status();
  compile.program = *std::move(program);
  return CompileKernel(options_.compiler, compile);
}

absl::StatusOr<v1::UserKernel> UserKernels::Keep(KernelUpload& upload,
                                                 const std::function<void(const std::string&)>& log,
                                                 const std::atomic<bool>& cancel) {
  v1::UserKernel& kernel = upload.kernel_;
  if (upload.taken_ != kernel.size_bytes()) {
    return BadHeader("size_bytes",
                     Cat("is ", kernel.size_bytes(), ", and ", upload.taken_, " bytes came"));
  }
  if (HasLaunch(kernel.form())) {
    for (const std::string& part :
         {std::string(1, '\0') + upload.launch_text_, std::string(1, '\0') + upload.entry_}) {
      EVP_DigestUpdate(upload.digest_, part.data(), part.size());
    }
  }
  std::array<unsigned char, 32> digest{};
  EVP_DigestFinal_ex(upload.digest_, digest.data(), nullptr);
  kernel.set_sha256(
      absl::BytesToHexString({reinterpret_cast<const char*>(digest.data()), digest.size()}));
  kernel.set_provider(Cat(kUserPrefix, kernel.sha256().substr(0, kKernelIdLength)));
  const bool source = IsSource(kernel.form());
  const CudaTargets targets =
      HasLaunch(kernel.form()) && options_.targets ? options_.targets() : CudaTargets{};
  const std::string toolchain = source ? Toolchain(options_.compiler, kernel.form(), targets)
                                : IsCodeObject(kernel.form())
                                    ? Cat(kDeviceProgramMark, " ", Join(targets.architectures, " "))
                                    : "";
  const absl::StatusOr<std::optional<KernelFolder::Kept>> kept = folder_->FindSame(kernel);
  if (!kept.ok()) return kept.status();
  if (*kept && (*kept)->toolchain == toolchain) return (*kept)->kernel;
  const std::string library = Cat(upload.path_, "/kernel.so");
  v1::UserKernel compiled = kernel;
  if (source) {
    const absl::Time start = absl::Now();
    if (absl::Status s = CompileSource(upload, library, targets, log, cancel); !s.ok()) return s;
    *compiled.mutable_compile_time() = google::protobuf::util::TimeUtil::NanosecondsToDuration(
        absl::ToInt64Nanoseconds(absl::Now() - start));
  }
  if (IsCodeObject(kernel.form())) {
    if (absl::Status s = WriteDevicePrograms(upload, library, targets); !s.ok()) return s;
  } else if (targets.architectures.empty() || access(library.c_str(), F_OK) == 0) {
    if (absl::Status s = CheckFile(library, kernel.file_name()); !s.ok()) return s;
  }
  if (absl::Status s = folder_->Put(upload.path_, kernel, toolchain); !s.ok()) return s;
  return compiled;
}

absl::Status UserKernels::CheckProvider(std::string_view provider) {
  if (provider.starts_with(kCheatPrefix)) return CheckCheat(provider);
  const std::optional<std::string> id = KernelIdOf(provider);
  if (!id) {
    return absl::InvalidArgumentError(Cat("must be user/ and the first ", kKernelIdLength,
                                          " hexadecimal digits of the file's SHA-256, got \"",
                                          ShownText(std::string(provider)), "\""));
  }
  if (!on()) {
    return absl::FailedPreconditionError(
        "this daemon takes no users' kernels; its operator can allow them with "
        "`assayd --user-kernels library,source`");
  }
  if (folder_->Find(*id)) return absl::OkStatus();
  return absl::NotFoundError(Cat("this daemon does not have the kernel ", provider,
                                 "; send its file again (assay run … --kernel FILE)"));
}

absl::Status UserKernels::CheckCheat(std::string_view provider) const {
  const std::optional<CheatKernel> cheat = FindCheat(provider);
  if (!cheat) {
    return absl::InvalidArgumentError(Cat("unknown cheat \"", ShownText(std::string(provider)),
                                          "\"; `assay selftest --adversarial` lists them"));
  }
  const std::string file = Cat(options_.cheats_folder, "/", assay::LibraryOf(*cheat));
  if (!options_.cheats_folder.empty() && access(file.c_str(), R_OK) == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(Cat("this installation lacks the library ",
                                           assay::LibraryOf(*cheat),
                                           " of libexec/assay/cheats; install it again"));
}

std::string UserKernels::LibraryOf(std::string_view provider) {
  if (const std::optional<CheatKernel> cheat = FindCheat(provider)) {
    return Cat(options_.cheats_folder, "/", assay::LibraryOf(*cheat));
  }
  const std::optional<std::string> id = KernelIdOf(provider);
  if (!id || folder_ == nullptr) return "";
  const std::optional<KernelFolder::Kept> kept = folder_->Find(*id);
  return kept ? kept->library : "";
}

}  // namespace assay::server
