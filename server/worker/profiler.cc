#include "server/worker/profiler.h"

#include <sys/stat.h>
#include <unistd.h>

#include <vector>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "kernels/text/cat.h"

namespace assay::server {
namespace {

struct Properties {
  Profiler profiler;
  std::string_view name;
  std::string_view backend;
  std::vector<std::string_view> programs;  // the first that exists is used
};

const std::vector<Properties>& Table() {
  static const auto& table = *new std::vector<Properties>{
      {Profiler::kPerf, "perf", "cpu", {"perf"}},
      {Profiler::kNcu, "ncu", "cuda", {"ncu"}},
      {Profiler::kRocprof, "rocprof", "hip", {"rocprofv3", "rocprof"}},
  };
  return table;
}

const Properties& Of(Profiler profiler) { return Table()[static_cast<std::size_t>(profiler)]; }

bool IsProgram(const std::string& path) {
  struct stat found {};
  return stat(path.c_str(), &found) == 0 && S_ISREG(found.st_mode) &&
         access(path.c_str(), X_OK) == 0;
}

}  // namespace

std::string_view Name(Profiler profiler) { return Of(profiler).name; }

std::optional<Profiler> ParseProfiler(std::string_view name) {
  for (const Properties& p : Table()) {
    if (p.name == name) return p.profiler;
  }
  return std::nullopt;
}

std::string_view BackendOf(Profiler profiler) { return Of(profiler).backend; }

std::string FindProfiler(Profiler profiler, std::string_view path) {
  for (const std::string_view program : Of(profiler).programs) {
    for (const absl::string_view folder :
         absl::StrSplit(absl::string_view(path.data(), path.size()), ':')) {
      if (folder.empty() || folder.front() != '/') continue;
      std::string candidate = Cat(std::string_view(folder.data(), folder.size()), "/", program);
      if (IsProgram(candidate)) return candidate;
    }
  }
  return "";
}

}  // namespace assay::server
