#include "server/kernels/user_kernels.h"

#include <unistd.h>

#include <fstream>
#include <optional>
#include <span>
#include <sstream>
#include <string_view>
#include <vector>

#include "absl/time/clock.h"
#include "google/protobuf/util/time_util.h"
#include "kernels/cheats/cheats.h"
#include "kernels/providers/user/amd_code_object.h"
#include "kernels/providers/user/check_library.h"
#include "kernels/providers/user/code_object.h"
#include "kernels/providers/user/device_program.h"
#include "kernels/text/cat.h"
#include "kernels/text/visible.h"
#include "server/base/request_errors.h"
#include "server/kernels/compiler_log.h"
#include "server/kernels/cuda_program.h"
#include "server/kernels/kernel_form.h"

namespace assay::server {
namespace {

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

// Device code in a file, for one kind of card.
struct DeviceCode {
  std::string architecture;  // empty: the file does not say
  std::string_view image;    // of the file's bytes
  std::vector<std::string> kernels;
};

absl::StatusOr<std::vector<DeviceCode>> CodesIn(v1::KernelForm form, std::string_view bytes) {
  std::vector<DeviceCode> found;
  if (form != v1::KERNEL_FORM_HSACO) {
    absl::StatusOr<std::vector<std::string>> kernels =
        form == v1::KERNEL_FORM_PTX ? KernelsOfPtx(bytes) : KernelsOfCubin(bytes);
    if (!kernels.ok()) return kernels.status();
    found.push_back({"", bytes, *std::move(kernels)});
    return found;
  }
  const absl::StatusOr<std::vector<AmdCodeObject>> codes = AmdCodeObjects(bytes);
  if (!codes.ok()) return codes.status();
  for (const AmdCodeObject& code : *codes) {
    std::vector<std::string> kernels;
    kernels.reserve(code.kernels.size());
    for (const AmdKernel& kernel : code.kernels) kernels.push_back(kernel.symbol);
    found.push_back({code.architecture, code.image, std::move(kernels)});
  }
  return found;
}

}  // namespace

absl::StatusOr<std::unique_ptr<UserKernels>> UserKernels::Open(UserKernelOptions options) {
  std::unique_ptr<UserKernels> kernels(new UserKernels(std::move(options)));
  if (!kernels->on()) return kernels;
  absl::StatusOr<std::unique_ptr<KernelFolder>> folder =
      KernelFolder::Open(kernels->options_.folder);
  if (!folder.ok()) return folder.status();
  kernels->folder_ = *std::move(folder);
  return kernels;
}

absl::StatusOr<std::unique_ptr<KernelUpload>> UserKernels::Begin(const v1::KernelHeader& header) {
  return KernelUpload::Begin(header, options_, folder_.get());
}

// Writes the code that came in beside the library's place, for each kind of card that it is for.
// PTX and cubins do not say for which: a card that cannot load one says so.
absl::Status UserKernels::WriteDevicePrograms(const KernelUpload& upload,
                                              const std::string& library,
                                              const DeviceTargets& targets) const {
  const v1::UserKernel& kernel = upload.kernel();
  const bool amd = kernel.form() == v1::KERNEL_FORM_HSACO;
  const std::vector<std::string>& architectures = amd ? targets.hip : targets.cuda;
  if (architectures.empty()) {
    return absl::FailedPreconditionError(
        amd ? "this daemon has no HIP device, and code objects of AMD's run on nothing else"
            : "this daemon has no CUDA device, and PTX and cubins run on nothing else");
  }
  const std::string bytes = BytesOf(Cat(upload.path(), "/source"));
  const auto refuse = [&](const absl::Status& why) {
    return BadRequestError({{"kernel", ShownText(Cat(kernel.file_name(), ": ", why.message()))}});
  };
  const absl::StatusOr<std::vector<DeviceCode>> codes = CodesIn(kernel.form(), bytes);
  if (!codes.ok()) return refuse(codes.status());
  const std::string& entry = upload.entry().empty() ? upload.launch().entry : upload.entry();
  bool written = false;
  for (const std::string& architecture : architectures) {
    for (const DeviceCode& code : *codes) {
      if (!code.architecture.empty() && !IsFor(code.architecture, architecture)) continue;
      const absl::StatusOr<std::string> symbol = ChooseKernel(code.kernels, entry);
      if (!symbol.ok()) return refuse(symbol.status());
      const DeviceProgram program = ProgramOf(upload.launch(), entry.empty() ? *symbol : entry,
                                              *symbol, *symbol, std::string(code.image));
      const std::string file = DeviceProgramFile(library, architecture);
      if (absl::Status s = WriteProgram(program, file); !s.ok()) return s;
      written = true;
      break;
    }
  }
  if (written) return absl::OkStatus();
  std::vector<std::string> found;
  found.reserve(codes->size());
  for (const DeviceCode& code : *codes) found.push_back(code.architecture);
  return absl::FailedPreconditionError(ShownText(
      Cat(kernel.file_name(), " is for ", Join(found, ", "), ", and the HIP devices here are ",
          Join(architectures, ", "), "; make it with hipcc --genco --offload-arch=",
          architectures.front().substr(0, architectures.front().find(':')))));
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
      ProgramOf(upload.launch(), compile.entry, compiled.substr(0, symbol),
                compiled.substr(symbol + 1, end - symbol - 1), compiled.substr(end + 1)),
      file);
}

absl::Status UserKernels::CompileSource(const KernelUpload& upload, const std::string& library,
                                        const DeviceTargets& targets,
                                        const std::function<void(const std::string&)>& log,
                                        const std::atomic<bool>& cancel) const {
  const v1::UserKernel& kernel = upload.kernel();
  Compile compile{.source = Cat(upload.path(), "/source"),
                  .file_name = kernel.file_name(),
                  .form = kernel.form(),
                  .result = library,
                  .log = log,
                  .cancel = &cancel};
  const bool hip = kernel.form() == v1::KERNEL_FORM_HIP;
  if (!HasLaunch(kernel.form())) return CompileKernel(options_.compiler, compile);
  if (hip && targets.hip.empty()) {
    return absl::FailedPreconditionError(
        "this daemon has no HIP device, and HIP source runs on nothing else");
  }
  const std::string source = BytesOf(compile.source);
  absl::StatusOr<std::string> entry =
      EntryOf(kernel.file_name(), source, upload.launch(), upload.entry());
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
  for (const std::string& architecture : hip ? targets.hip : targets.cuda) {
    compile.architecture = architecture;
    absl::Status status = CompileForDevice(upload, library, compile);
    if (!take(status, architecture)) return status;
  }
  if (!hip && (targets.emulator || targets.cuda.empty())) {
    compile.architecture.clear();
    const std::function<void(const std::string&)> own = compile.log;
    if (compiled) compile.log = [](const std::string&) {};  // one line is enough then
    absl::Status status = CompileForEmulator(upload, source, compile);
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
      CudaProgram(upload.kernel().file_name(), source, upload.launch(), upload.entry());
  if (!program.ok()) return program.status();
  compile.program = *std::move(program);
  return CompileKernel(options_.compiler, compile);
}

absl::StatusOr<v1::UserKernel> UserKernels::Keep(KernelUpload& upload,
                                                 const std::function<void(const std::string&)>& log,
                                                 const std::atomic<bool>& cancel) {
  if (absl::Status s = upload.Finish(); !s.ok()) return s;
  const v1::UserKernel& kernel = upload.kernel();
  const bool source = IsSource(kernel.form());
  const DeviceTargets targets =
      HasLaunch(kernel.form()) && options_.targets ? options_.targets() : DeviceTargets{};
  const std::string toolchain =
      source ? Toolchain(options_.compiler, kernel.form(), targets)
      : IsCodeObject(kernel.form())
          ? Cat(kDeviceProgramMark, " ", Join(targets.cuda, " "), " ", Join(targets.hip, " "))
          : "";
  const absl::StatusOr<std::optional<KernelFolder::Kept>> kept = folder_->FindSame(kernel);
  if (!kept.ok()) return kept.status();
  if (*kept && (*kept)->toolchain == toolchain) return (*kept)->kernel;
  const std::string library = Cat(upload.path(), "/kernel.so");
  v1::UserKernel compiled = kernel;
  if (source) {
    const absl::Time start = absl::Now();
    if (absl::Status s = CompileSource(upload, library, targets, log, cancel); !s.ok()) return s;
    *compiled.mutable_compile_time() = google::protobuf::util::TimeUtil::NanosecondsToDuration(
        absl::ToInt64Nanoseconds(absl::Now() - start));
  }
  if (IsCodeObject(kernel.form())) {
    if (absl::Status s = WriteDevicePrograms(upload, library, targets); !s.ok()) return s;
  } else if (!HasDeviceProgram(library) || access(library.c_str(), F_OK) == 0) {
    if (absl::Status s = CheckFile(library, kernel.file_name()); !s.ok()) return s;
  }
  if (absl::Status s = folder_->Put(upload.path(), kernel, toolchain); !s.ok()) return s;
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
