// The profilers that can count what a kernel does, and their backends.
#ifndef ASSAY_SERVER_WORKER_PROFILER_H_
#define ASSAY_SERVER_WORKER_PROFILER_H_

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace assay::server {

// A profiler. A request names one of these, never the path of a program.
enum class Profiler { kPerf, kNcu, kRocprof };

inline constexpr std::array<Profiler, 3> kProfilers = {Profiler::kPerf, Profiler::kNcu,
                                                       Profiler::kRocprof};

// The name of a profiler: "perf", "ncu", "rocprof".
std::string_view Name(Profiler profiler);
std::optional<Profiler> ParseProfiler(std::string_view name);

// The backend whose devices the profiler counts on: "cpu", "cuda", "hip".
std::string_view BackendOf(Profiler profiler);

// Finds the program of a profiler in `path`, a list as in $PATH. Relative entries are passed over.
// Of rocprof's two generations it takes the newer one. Empty if there is none.
std::string FindProfiler(Profiler profiler, std::string_view path);

}  // namespace assay::server

#endif  // ASSAY_SERVER_WORKER_PROFILER_H_
