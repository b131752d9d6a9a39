#include "server/kernels/compiler.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <system_error>

#include "absl/cleanup/cleanup.h"
#include "google/rpc/error_details.pb.h"
#include "kernels/providers/user/device_program.h"
#include "kernels/text/cat.h"
#include "server/base/error_info.h"
#include "server/base/even_time.h"
#include "server/containment/containment.h"
#include "server/kernels/compiler_log.h"
#include "server/process/process.h"

namespace assay::server {
namespace {

namespace fs = std::filesystem;

// How long a compiler that was killed may take to be gone.
constexpr absl::Duration kReapDeadline = absl::Seconds(10);
constexpr int kPollMilliseconds = 50;

// Sets the limits before the compiler begins, and goes to the source's folder, so that messages
// have the author's name of the file.
constexpr char kScript[] =
    "ulimit -c 0 && ulimit -t \"$1\" && ulimit -v \"$2\" && ulimit -f \"$3\" && cd \"$4\" && "
    "shift 4 && exec \"$@\"";

std::string CompilerOf(v1::KernelForm form) {
  return form == v1::KERNEL_FORM_C ? "/usr/bin/cc" : "/usr/bin/c++";
}

// The status of assay-device-compiler if it has no compiler library.
constexpr int kNoDeviceCompiler = 2;
constexpr char kRocm[] = "/opt/rocm";

// The file that is compiled for CUDA source. It cannot be the author's: that ends with .cu.
constexpr char kProgramName[] = "assay_program.cc";
constexpr char kSimtArchive[] = "/libassay_simt.a";

// Of CUDA source: every access to memory calls the emulator, and so does an index outside an array.
// The emulator takes the place of the sanitizers' libraries. No loop becomes a call that copies,
// and no load moves to where the author has none.
std::vector<std::string> CudaFlags(const CompilerOptions& options) {
  std::vector<std::string> flags = {
      "-O1",
      "-g1",  // lines, for the emulator's messages
      "-gdwarf-4", "-march=native", "-fsanitize=thread,bounds,bounds-strict,alignment",
      "-fno-sanitize-recover=bounds,alignment", "--param=tsan-instrument-func-entry-exit=0",
      "-fno-tree-loop-distribute-patterns", "-fno-tree-loop-im",
      // What a call hands over by value is not followed: functions
      // of the device become part of their callers.
      "-finline-functions", "-finline-small-functions", "--param=max-inline-insns-auto=100000",
      "--param=max-inline-insns-small=100000",
      // Copies of a known size stay calls, which are followed.
      "-fno-builtin-memcpy", "-fno-builtin-memset", "-fno-builtin-memmove", "-fno-builtin-memcmp",
      "-D__builtin_memcpy=memcpy", "-D__builtin_memset=memset", "-D__builtin_memmove=memmove",
      "-fno-extern-tls-init", "-fvisibility=hidden", "-nodefaultlibs", "-shared", "-fPIC", "-Wall",
      "-Wno-unknown-pragmas", "-Wno-sign-compare", "-fmax-errors=20", "-fdiagnostics-color=never",
      "-fmessage-length=0", "-Wl,-z,defs", "-std=gnu++20", "-DASSAY_KERNEL"};
  for (const std::string& folder : {options.include_folder, options.simt_folder}) {
    if (!folder.empty()) flags.push_back(Cat("-I", folder));
  }
  return flags;
}

std::vector<std::string> Flags(const CompilerOptions& options, v1::KernelForm form) {
  if (form == v1::KERNEL_FORM_CUDA) return CudaFlags(options);
  std::vector<std::string> flags = {"-O3",
                                    "-march=native",
                                    "-fopenmp",
                                    "-shared",
                                    "-fPIC",
                                    "-Wall",
                                    "-fmax-errors=20",
                                    "-fdiagnostics-color=never",
                                    "-fmessage-length=0",
                                    "-Wl,-z,defs"};
  flags.emplace_back(form == v1::KERNEL_FORM_C ? "-std=gnu17" : "-std=gnu++20");
  if (!options.include_folder.empty()) flags.push_back(Cat("-I", options.include_folder));
  return flags;
}

absl::Status SourceError(const std::string& text) {
  absl::Status status =
      WithReason(absl::InvalidArgumentError(text), v1::ERROR_REASON_KERNEL_SOURCE);
  google::rpc::BadRequest bad;
  google::rpc::BadRequest::FieldViolation& violation = *bad.add_field_violations();
  violation.set_field("kernel");
  violation.set_description(text);
  Attach(bad, status);
  return status;
}

// The containment of one compile. FAILED_PRECONDITION if the node cannot keep a compiler from the
// rest of its files.
absl::StatusOr<std::unique_ptr<Containment>> Contain(const CompilerOptions& options,
                                                     const std::string& compiler) {
  ContainmentOptions contained;
  contained.worker = compiler;
  contained.compiler = true;
  for (const std::string& folder : {options.include_folder, options.simt_folder}) {
    if (!folder.empty()) contained.readable.push_back(folder);
  }
  if (!options.device_compiler.empty()) contained.readable.push_back(options.device_compiler);
  for (const std::string& library : {options.nvrtc_library, options.hiprtc_library}) {
    // With the toolkit's headers, which lie beside the folder.
    if (library.empty()) continue;
    contained.readable.push_back(fs::path(library).parent_path().parent_path());
  }
  std::error_code none;
  if (fs::exists(kRocm, none)) contained.readable.push_back(fs::canonical(kRocm, none));
  contained.forbidden = options.forbidden;
  std::unique_ptr<Containment> containment;
  try {
    containment = Containment::Make(contained);
  } catch (const std::system_error& error) {
    // Another kernel may have taken all of the node's room for threads.
    return absl::ResourceExhaustedError(Cat("no thread for a compiler: ", error.what()));
  }
  for (const Measure& measure : containment->measures()) {
    if (measure.name != kLandlock || measure.applied) continue;
    return absl::FailedPreconditionError(
        Cat("this node cannot keep a compiler from its other files, so it compiles no kernels (",
            measure.detail, "); users' kernels, libraries too, need a node with landlock"));
  }
  if (containment->folder().empty()) {
    return absl::FailedPreconditionError(
        "this node has no folder for temporary files, so it compiles no kernels; send a library");
  }
  return containment;
}

// Moves what is in the file to `to`, if it is a plain file that is small enough.
absl::Status TakeResult(const std::string& from, const Compile& compile, std::int64_t most) {
  const int in = open(from.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (in < 0) return absl::InternalError("the compiler ended well and left no file");
  const absl::Cleanup close_in = [in] { close(in); };
  struct stat found {};
  if (fstat(in, &found) != 0 || !S_ISREG(found.st_mode) || found.st_size > most) {
    return SourceError(Cat(compile.file_name, ": the compiled file would have ", found.st_size,
                           " bytes; at most ", most, " are allowed"));
  }
  const int out =
      open(compile.result.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (out < 0) return absl::ErrnoToStatus(errno, Cat("cannot write ", compile.result));
  const absl::Cleanup close_out = [out] { close(out); };
  std::array<char, 65536> buffer;
  for (;;) {
    const ssize_t n = read(in, buffer.data(), buffer.size());
    if (n < 0) return absl::ErrnoToStatus(errno, Cat("cannot read ", from));
    if (n == 0) break;
    for (ssize_t done = 0; done < n;) {
      const ssize_t wrote = write(out, buffer.data() + done, static_cast<std::size_t>(n - done));
      if (wrote < 0) return absl::ErrnoToStatus(errno, Cat("cannot write ", compile.result));
      done += wrote;
    }
  }
  if (fsync(out) != 0) return absl::ErrnoToStatus(errno, Cat("cannot write ", compile.result));
  return absl::OkStatus();
}

// Why a compile was ended before its compiler ended.
enum class Ended { kByItself, kDeadline, kCancelled };

// Reads the compiler's output until it ends or its time is over; then it is killed.
Ended ReadOutput(int pipe, absl::Time deadline, const std::atomic<bool>* cancel,
                 WorkerProcess& process, CompilerLog& log) {
  std::array<char, 4096> buffer;
  for (;;) {
    const bool cancelled = cancel != nullptr && cancel->load();
    if (cancelled || EvenTime() >= deadline) {
      process.Kill();
      return cancelled ? Ended::kCancelled : Ended::kDeadline;
    }
    pollfd fd{pipe, POLLIN, 0};
    if (poll(&fd, 1, kPollMilliseconds) <= 0) continue;
    const ssize_t n = read(pipe, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return Ended::kByItself;
    log.Take({buffer.data(), static_cast<std::size_t>(n)});
  }
}

// The compiler and its arguments.
std::vector<std::string> Command(const CompilerOptions& options, const Compile& compile,
                                 const std::string& out) {
  if (!compile.architecture.empty()) {
    std::vector<std::string> words = {options.device_compiler,
                                      "--arch",
                                      compile.architecture,
                                      "--entry",
                                      compile.entry,
                                      "--out",
                                      out};
    if (!options.include_folder.empty()) {
      words.insert(words.end(), {"--include", options.include_folder});
    }
    words.push_back(compile.file_name);
    return words;
  }
  std::vector<std::string> words = {CompilerOf(compile.form)};
  for (std::string& flag : Flags(options, compile.form)) words.push_back(std::move(flag));
  const bool emulated = compile.form == v1::KERNEL_FORM_CUDA;
  words.insert(words.end(),
               {"-x", compile.form == v1::KERNEL_FORM_C ? "c" : "c++",
                emulated ? std::string(kProgramName) : compile.file_name, "-x", "none", "-o", out});
  if (emulated) {
    words.insert(words.end(), {Cat(options.simt_folder, kSimtArchive), "-lstdc++", "-lm", "-lgcc_s",
                               "-lgcc", "-lc"});
  } else {
    words.emplace_back("-lm");
  }
  return words;
}

absl::Status RunCompiler(const CompilerOptions& options, const Compile& compile,
                         Containment& containment, const std::string& out, CompilerLog& log) {
  const std::string in = Cat(containment.folder(), "/in");
  ProcessOptions process_options;
  process_options.path = "/bin/sh";
  process_options.args = {"-c",
                          kScript,
                          "sh",
                          Cat(absl::ToInt64Seconds(options.limit) + 1),
                          Cat(options.memory_bytes >> 10),
                          Cat(2 * (options.library_bytes >> 9)),
                          in};
  for (std::string& word : Command(options, compile, out)) {
    process_options.args.push_back(std::move(word));
  }
  process_options.environment = containment.environment();
  process_options.environment.emplace_back("LC_ALL=C");
  for (const auto& [variable, library] : {std::pair{"ASSAY_NVRTC=", options.nvrtc_library},
                                          std::pair{"ASSAY_HIPRTC=", options.hiprtc_library}}) {
    if (!library.empty()) process_options.environment.push_back(Cat(variable, library));
  }
  process_options.with_channel = false;
  process_options.containment = &containment;
  int pipe[2];
  if (pipe2(pipe, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "pipe for a compiler");
  const absl::Cleanup close_pipe = [&] { close(pipe[0]); };
  process_options.output_fd = pipe[1];
  const absl::Time deadline = EvenTime() + options.limit;
  absl::StatusOr<std::unique_ptr<WorkerProcess>> process = WorkerProcess::Start(process_options);
  close(pipe[1]);
  if (!process.ok()) return process.status();
  const Ended ended = ReadOutput(pipe[0], deadline, compile.cancel, **process, log);
  const std::optional<ExitCause> cause =
      (*process)->Wait(std::max(deadline, EvenTime() + kReapDeadline));
  log.End();
  if (ended == Ended::kCancelled) return absl::CancelledError("the client has left");
  if (ended == Ended::kDeadline) {
    return SourceError(Cat(compile.file_name, ": the compiler took longer than ",
                           absl::FormatDuration(options.limit)));
  }
  if (!cause) return absl::InternalError("the compiler does not end");
  if (cause->signal == 0 && cause->status == 0) return absl::OkStatus();
  const std::string said = log.Summary();
  if (!compile.architecture.empty() && cause->status == kNoDeviceCompiler) {
    return absl::FailedPreconditionError(Cat("this node cannot compile for its ",
                                             compile.form == v1::KERNEL_FORM_HIP ? "HIP" : "CUDA",
                                             " devices: ", said.empty() ? cause->Text() : said));
  }
  return SourceError(said.empty() ? Cat(compile.file_name, ": the compiler ", cause->Text())
                                  : said);
}

}  // namespace

namespace {

absl::Status CheckCompiler(const CompilerOptions& options, const Compile& compile,
                           const std::string& compiler) {
  if (!compile.architecture.empty()) {
    if (!compiler.empty() && access(compiler.c_str(), X_OK) == 0) return absl::OkStatus();
    return absl::FailedPreconditionError(
        "this installation lacks libexec/assay/assay-device-compiler, which compiles for cards; "
        "install it again");
  }
  if (access(compiler.c_str(), X_OK) != 0) {
    return absl::FailedPreconditionError(
        Cat("this node has no compiler ", compiler,
            ", so it compiles no kernels; install gcc and g++ there, or send a library"));
  }
  if (compile.form == v1::KERNEL_FORM_CUDA && options.simt_folder.empty()) {
    return absl::FailedPreconditionError(
        "this installation lacks lib/assay/simt, the emulator that runs CUDA source; install it "
        "again");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CompileKernel(const CompilerOptions& options, const Compile& compile) {
  const std::string compiler =
      compile.architecture.empty() ? CompilerOf(compile.form) : options.device_compiler;
  if (absl::Status s = CheckCompiler(options, compile, compiler); !s.ok()) return s;
  absl::StatusOr<std::unique_ptr<Containment>> containment = Contain(options, compiler);
  if (!containment.ok()) return containment.status();
  const std::string folder = (*containment)->folder();
  const std::string out = Cat(folder, "/out/kernel");
  std::error_code error;
  fs::create_directory(Cat(folder, "/in"), error);
  fs::create_directory(Cat(folder, "/out"), error);
  fs::copy_file(compile.source, Cat(folder, "/in/", compile.file_name), error);
  if (error) return absl::InternalError(Cat("cannot write ", folder, "/in: ", error.message()));
  if (!compile.program.empty()) {
    std::ofstream program(Cat(folder, "/in/", kProgramName));
    program << compile.program << std::flush;
    if (!program) return absl::InternalError(Cat("cannot write ", folder, "/in"));
  }
  CompilerLog log(compile.file_name, options.log_bytes, compile.log);
  if (absl::Status s = RunCompiler(options, compile, **containment, out, log); !s.ok()) return s;
  return TakeResult(out, compile, options.library_bytes);
}

namespace {

std::string StampOf(const std::string& path) {
  std::error_code error;
  const fs::path file = fs::canonical(path, error);
  struct stat found {};
  if (error || stat(file.c_str(), &found) != 0) return Cat(path, " absent\n");
  return Cat(file.string(), " ", found.st_size, " ", found.st_mtim.tv_sec, ".",
             found.st_mtim.tv_nsec, "\n");
}

}  // namespace

namespace {

// Where the compiler libraries may be. assay-device-compiler takes the first that it can load.
std::vector<std::string> LibrariesFor(const CompilerOptions& options, v1::KernelForm form) {
  const bool hip = form == v1::KERNEL_FORM_HIP;
  std::vector<std::string> files = {hip ? options.hiprtc_library : options.nvrtc_library};
  const std::vector<const char*> names =
      hip ? std::vector{"libhiprtc.so.6", "libhiprtc.so", "libamdhip64.so.6", "libamdhip64.so.5"}
          : std::vector{"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
  for (const char* folder :
       {hip ? "/opt/rocm/lib" : "/usr/local/cuda/lib64", "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu", "/usr/lib64"}) {
    for (const char* name : names) files.push_back(Cat(folder, "/", name));
  }
  return files;
}

}  // namespace

std::string Toolchain(const CompilerOptions& options, v1::KernelForm form,
                      const DeviceTargets& targets) {
  std::string text = StampOf(CompilerOf(form));
  const bool hip = form == v1::KERNEL_FORM_HIP;
  if (const std::vector<std::string>& cards = hip ? targets.hip : targets.cuda; !cards.empty()) {
    Append(&text, kDeviceProgramMark, " ", Join(cards, " "),
           targets.emulator && !hip ? " emulator\n" : "\n", StampOf(options.device_compiler));
    for (const std::string& library : LibrariesFor(options, form)) Append(&text, StampOf(library));
  }
  for (const std::string& flag : Flags(options, form)) Append(&text, flag, " ");
  Append(&text, "\n", StampOf(Cat(options.include_folder, "/assay/kernel.h")));
  if (form == v1::KERNEL_FORM_CUDA) {
    std::error_code error;
    std::set<std::string> files;
    for (const fs::directory_entry& file : fs::directory_iterator(options.simt_folder, error)) {
      files.insert(file.path().string());
    }
    for (const std::string& file : files) Append(&text, StampOf(file));
  }
  // -march=native: the first processor's model and features.
  std::ifstream cpus("/proc/cpuinfo");
  for (std::string line; std::getline(cpus, line) && !line.empty();) {
    if (line.starts_with("model name") || line.starts_with("flags") ||
        line.starts_with("Features")) {
      Append(&text, line, "\n");
    }
  }
  return text;
}

}  // namespace assay::server
