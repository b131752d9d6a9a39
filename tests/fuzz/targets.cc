#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <system_error>

#include "tests/fuzz/fuzz.h"

namespace assay::fuzz {
namespace {

constexpr std::array kTargets = {
    Target{"baseline", FuzzBaseline},    // baselines and reports as baselines, JSON
    Target{"code", FuzzCode},            // PTX, cubins, code of AMD's, and device programs
    Target{"compare", FuzzCompare},      // the header of a comparison
    Target{"config", FuzzConfig},        // the daemon's settings, TOML
    Target{"golden", FuzzGolden},        // golden digests of a suite
    Target{"job", FuzzJob},              // the spec of a job, to its plan
    Target{"launch", FuzzLaunch},        // launch descriptions, TOML, and CUDA source
    Target{"lint", FuzzLint},            // compiled GPU kernels, and what tools say of them
    Target{"nodes", FuzzNodes},          // what sinfo and kubectl list
    Target{"npy", FuzzNpy},              // headers of .npy files
    Target{"profiler", FuzzProfiler},    // what perf, ncu and rocprof write
    Target{"record", FuzzRecord},        // messages in the store's rows
    Target{"report", FuzzReport},        // reports for a fleet, JSON
    Target{"request", FuzzRequest},      // names, filters, page tokens, sizes, times
    Target{"roles", FuzzRoles},          // the roles file, TOML
    Target{"store", FuzzStore},          // the store's file and journal
    Target{"suite", FuzzSuite},          // suites, TOML
    Target{"targets", FuzzTargets},      // the client's targets file, TOML
    Target{"telemetry", FuzzTelemetry},  // samples, and words of drivers
    Target{"worker", FuzzWorker},        // a worker's answers
};

bool only_some = false;

// Removed at the process's end.
class Scratch {
 public:
  Scratch() {
    std::error_code error;
    const bool in_memory = std::filesystem::is_directory("/dev/shm", error);
    path_ = std::string(in_memory ? "/dev/shm" : "/tmp") + "/assay-fuzz.XXXXXX";
    Require(mkdtemp(path_.data()) != nullptr, "cannot make a folder for scratch");
  }
  ~Scratch() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const char* path() const { return path_.c_str(); }

 private:
  std::string path_;
};

}  // namespace

std::span<const Target> Targets() { return kTargets; }

void Require(bool holds, std::string_view message) {
  if (holds) return;
  std::fprintf(stderr, "broken contract: %.*s\n", static_cast<int>(message.size()), message.data());
  std::abort();
}

void RequireNotInternal(const absl::Status& status) {
  Require(!absl::IsInternal(status) && !absl::IsUnknown(status), status.ToString());
}

bool IsOneOf(std::size_t n, std::string_view bytes) {
  return !only_some || std::hash<std::string_view>{}(bytes) % n == 0;
}

void CheckOnlySome() { only_some = true; }

const char* ScratchFolder() {
  static const Scratch scratch;
  return scratch.path();
}

}  // namespace assay::fuzz
