// The profilers that may count what a kernel does: which there are, and for which backend.
#ifndef ASSAY_SERVER_WORKER_PROFILER_H_
#define ASSAY_SERVER_WORKER_PROFILER_H_

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace assay {

// A request names one of these, never a program's path.
enum class Profiler { kPerf, kNcu, kRocprof };

inline constexpr std::array<Profiler, 3> kProfilers = {Profiler::kPerf, Profiler::kNcu,
                                                       Profiler::kRocprof};

// "perf", "ncu", "rocprof".
std::string_view Name(Profiler profiler);
std::optional<Profiler> ParseProfiler(std::string_view name);

// The backend whose devices it counts on: "cpu", "cuda", "hip".
std::string_view BackendOf(Profiler profiler);

// Its program in `path`, a list as in $PATH, whose relative entries are passed over; of
// rocprof's two generations the newer. Empty where there is none.
std::string FindProfiler(Profiler profiler, std::string_view path);

}  // namespace assay

#endif  // ASSAY_SERVER_WORKER_PROFILER_H_
