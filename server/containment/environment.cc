#include "server/containment/environment.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_split.h"

namespace assay::server {
namespace {

// A name that ends with * stands for all names that begin so.
constexpr std::array kAllowed = {
    // The system's.
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TZ", "TZDIR", "TMPDIR",
    "TERM", "LD_LIBRARY_PATH", "LD_PRELOAD", "GLIBC_TUNABLES", "MALLOC_*", "XDG_CACHE_HOME",
    // Drivers', libraries' and profilers'.
    "CUDA_*", "CUBLAS_*", "CUBLASLT_*", "CUDNN_*", "NVIDIA_*", "HIP_*", "HIPBLASLT_*", "ROCR_*",
    "HSA_*", "ROCM_*", "ROCBLAS_*", "ROCPROF*", "TENSILE_*", "MIOPEN_*", "GPU_*", "AMD_*", "OMP_*",
    "GOMP_*", "KMP_*", "OPENBLAS_*", "GOTO_*", "MKL_*", "DNNL_*", "ONEDNN_*", "OCL_ICD_*",
    // Our own: where to find libraries, and another root for telemetry. FAKE_* are of tests.
    "ASSAY_CUBLAS", "ASSAY_CUBLASLT", "ASSAY_CUDNN", "ASSAY_ROCBLAS", "ASSAY_HIPBLASLT",
    "ASSAY_MIOPEN", "ASSAY_NVML", "ASSAY_ROCM_SMI", "ASSAY_HOST_ROOT", "ASSAY_FAKE_*",
    "FAKE_WORKER*",
    // Sanitizers'.
    "ASAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS", "MSAN_OPTIONS",
    "ASAN_SYMBOLIZER_PATH"};

std::string_view NameOf(std::string_view entry) { return entry.substr(0, entry.find('=')); }

std::string_view ValueOf(std::string_view entry) {
  const std::size_t equals = entry.find('=');
  return equals == entry.npos ? std::string_view() : entry.substr(equals + 1);
}

std::vector<std::string> Parts(std::string_view value) {
  return absl::StrSplit(std::string(value), absl::ByAnyChar(": "), absl::SkipEmpty());
}

// The root is no path that anybody means to give to workers.
void AddAbsolute(std::string_view path, std::vector<std::string>* to) {
  if (path.starts_with('/') && path.find_first_not_of('/') != path.npos) to->emplace_back(path);
}

}  // namespace

bool MayReachWorkers(std::string_view name) {
  return std::any_of(kAllowed.begin(), kAllowed.end(), [&](std::string_view allowed) {
    return allowed.ends_with('*') ? name.starts_with(allowed.substr(0, allowed.size() - 1))
                                  : name == allowed;
  });
}

std::vector<std::string> ChosenEnvironment(const char* const* from,
                                           const std::vector<std::string>& extra) {
  std::vector<std::string> chosen;
  for (; *from != nullptr; ++from) {
    const std::string_view entry = *from;
    const bool replaced = std::any_of(extra.begin(), extra.end(), [&](const std::string& other) {
      return NameOf(other) == NameOf(entry);
    });
    if (!replaced && MayReachWorkers(NameOf(entry))) chosen.emplace_back(entry);
  }
  chosen.insert(chosen.end(), extra.begin(), extra.end());
  return chosen;
}

NamedPaths PathsNamedBy(const std::vector<std::string>& environment) {
  NamedPaths paths;
  for (const std::string& entry : environment) {
    const std::string_view name = NameOf(entry), value = ValueOf(entry);
    if (name == "CUDA_CACHE_PATH") {
      AddAbsolute(value, &paths.writable);
    } else if (name.starts_with("ASSAY_")) {
      AddAbsolute(value, &paths.readable);
      // A library loads its own parts from beside it, and from beside what a link to it names.
      std::error_code error;
      const std::filesystem::path file = std::filesystem::canonical(value, error);
      if (!error && std::filesystem::is_regular_file(file, error)) {
        AddAbsolute(std::filesystem::path(value).parent_path().string(), &paths.readable);
        AddAbsolute(file.parent_path().string(), &paths.readable);
      }
    } else if (name == "LD_LIBRARY_PATH" || name == "LD_PRELOAD") {
      for (const std::string& path : Parts(value)) {
        AddAbsolute(path, &paths.readable);
      }
    } else if (name.ends_with("SAN_OPTIONS")) {
      for (const std::string& option : Parts(value)) {
        if (NameOf(option) == "suppressions") AddAbsolute(ValueOf(option), &paths.readable);
      }
    } else if (name == "CUDA_HOME" || name == "CUDA_PATH" || name == "ROCM_PATH" ||
               name == "HIP_PATH") {
      AddAbsolute(value, &paths.readable);
    }
  }
  return paths;
}

}  // namespace assay::server
