#include "client/lint/lint.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/lib/parse.h"
#include "client/lint/amd.h"
#include "client/lint/nvidia.h"
#include "client/lint/offload_bundle.h"

namespace assay::client {
namespace {

constexpr int kMachineX86 = 62, kMachineArm = 183, kMachineCuda = 190, kMachineAmd = 224;

using Kernels = absl::StatusOr<std::vector<LintedKernel>>;

// A file that LLVM's readers can open, for as long as the object lives.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& bytes) {
    const char* const folder = std::getenv("TMPDIR");
    path_ =
        absl::StrCat(folder == nullptr || *folder == '\0' ? "/tmp" : folder, "/assay-lint-XXXXXX");
    const int fd = mkstemp(path_.data());
    if (fd < 0) return;
    std::size_t at = 0;
    while (at < bytes.size()) {
      const ssize_t n = write(fd, bytes.data() + at, bytes.size() - at);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) break;
      at += static_cast<std::size_t>(n);
    }
    whole_ = at == bytes.size();
    close(fd);
  }
  ~TemporaryFile() { unlink(path_.c_str()); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  bool whole() const { return whole_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  bool whole_ = false;
};

Kernels LintBundle(std::string_view bytes, const std::string& arch) {
  const absl::StatusOr<std::vector<std::string>> objects = UnpackOffloadBundle(bytes);
  if (!objects.ok()) return objects.status();
  std::vector<LintedKernel> all;
  for (const std::string& object : *objects) {
    const TemporaryFile file(object);
    if (!file.whole()) {
      return absl::UnavailableError(absl::StrCat("cannot write ", file.path()));
    }
    Kernels kernels = LintAmd(file.path(), arch);
    if (!kernels.ok()) return kernels.status();
    std::move(kernels->begin(), kernels->end(), std::back_inserter(all));
  }
  return all;
}

bool IsPtx(const std::string& text) {
  for (absl::string_view line : absl::StrSplit(
           absl::string_view(text.data(), std::min<std::size_t>(text.size(), 64 << 10)), '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || absl::StartsWith(line, "//")) continue;
    return absl::StartsWith(line, ".version");
  }
  return false;
}

// A number of so many bytes, the lowest first. The bytes must be there.
std::uint64_t NumberAt(const std::string& bytes, std::size_t at, std::size_t size) {
  std::uint64_t number = 0;
  for (std::size_t i = at + size; i-- > at;) {
    number = number << 8 | static_cast<unsigned char>(bytes[i]);
  }
  return number;
}

// Whether an ELF file ends before its tables of segments and sections, one of which is last. Device
// code is of 64 bits; of other files the first bytes are enough.
bool IsCutOff(const std::string& bytes) {
  constexpr std::size_t kMachineEnd = 20, kHeader = 64;
  constexpr std::size_t kClass = 4;
  constexpr char k64Bits = 2;
  if (bytes.size() < kMachineEnd) return true;
  if (bytes[kClass] != k64Bits) return false;
  if (bytes.size() < kHeader) return true;
  const auto beyond = [&bytes](std::size_t offset, std::size_t size, std::size_t count) {
    const std::uint64_t begin = NumberAt(bytes, offset, 8);
    const std::uint64_t table = NumberAt(bytes, size, 2) * NumberAt(bytes, count, 2);
    return begin > bytes.size() || table > bytes.size() - begin;
  };
  return beyond(0x20, 0x36, 0x38) || beyond(0x28, 0x3a, 0x3c);
}

Kernels LintElf(const std::string& path, const std::string& bytes, const std::string& arch) {
  if (IsCutOff(bytes)) return absl::InvalidArgumentError("the ELF file is cut off");
  const std::uint64_t machine = NumberAt(bytes, 18, 2);
  if (machine == kMachineAmd) return LintAmd(path, arch);
  if (machine == kMachineCuda) return LintCubin(path, arch);
  if (machine == kMachineX86 || machine == kMachineArm) {
    return absl::InvalidArgumentError(
        "it holds code for the host. lint reads device code: .hsaco, .cubin, .ptx, or what "
        "hipcc --genco writes");
  }
  return absl::InvalidArgumentError(absl::StrCat("it is an ELF file for machine ", machine,
                                                 "; lint reads 224 (AMD's GPUs) and 190 (CUDA)"));
}

Kernels LintBytes(const std::string& path, const std::string& bytes, const std::string& arch) {
  if (absl::StartsWith(bytes,
                       "\x7f"
                       "ELF"))
    return LintElf(path, bytes, arch);
  if (IsOffloadBundle(bytes)) return LintBundle(bytes, arch);
  if (absl::StartsWith(bytes, "CCOB")) {
    return absl::InvalidArgumentError(
        "it is a compressed offload bundle: compile with --no-offload-compress");
  }
  if (IsPtx(bytes)) return LintPtx(path, bytes, arch);
  return absl::InvalidArgumentError(
      "it is neither ELF, an offload bundle, nor PTX; lint reads .hsaco, .cubin, .ptx, and what "
      "hipcc --genco writes");
}

}  // namespace

std::string_view Word(LintSeverity severity) {
  constexpr std::string_view kWords[] = {"note", "warning", "error"};
  return kWords[static_cast<std::size_t>(severity)];
}

absl::StatusOr<LintReport> Lint(const std::string& path, const std::string& arch) {
  if (!arch.empty() && !arch.starts_with("gfx") && !arch.starts_with("sm_")) {
    return absl::InvalidArgumentError(
        absl::StrCat("arch: \"", arch, "\" is no card; give gfx942, sm_90 or the like"));
  }
  const auto named = [&](const absl::Status& status) {
    return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
  };
  std::error_code none;
  const std::filesystem::file_status about = std::filesystem::status(path, none);
  if (std::filesystem::is_directory(about)) {
    return named(absl::InvalidArgumentError("it is a folder; name one file in it"));
  }
  if (std::filesystem::exists(about) && !std::filesystem::is_regular_file(about)) {
    return named(absl::InvalidArgumentError("it is a pipe or a device; must be a regular file"));
  }
  const absl::StatusOr<std::string> bytes = ReadFile(path);
  if (!bytes.ok()) return bytes.status();
  if (bytes->empty()) return named(absl::InvalidArgumentError("it is empty"));
  Kernels kernels = LintBytes(path, *bytes, arch);
  if (!kernels.ok()) return named(kernels.status());
  if (kernels->empty()) return named(absl::InvalidArgumentError("it holds no kernel"));
  LintReport report{path, "", *std::move(kernels)};
  std::set<std::string> targets;
  for (LintedKernel& kernel : report.kernels) {
    targets.insert(kernel.target);
    std::stable_sort(
        kernel.findings.begin(), kernel.findings.end(),
        [](const LintFinding& a, const LintFinding& b) { return a.severity > b.severity; });
  }
  report.target = absl::StrJoin(targets, ",");
  return report;
}

}  // namespace assay::client
