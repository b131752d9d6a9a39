// What profilers write, read: pure functions from text to counters.
//
// Formats: perf-stat(1), "CSV FORMAT"; Nsight Compute CLI, `--csv --page raw` (a row of
// names, a row of units, a row a kernel); rocprof's results.csv (a row a kernel) and
// rocprofv3's counter_collection.csv (a row a counter of a dispatch).
//
// A profiler of a GPU sees every kernel, those that fill, refer and compare among them:
// they are known by name and left out. Of what remains the kernel that took longest is
// told of, since shares of a peak cannot be added.
#ifndef ASSAY_SERVER_WORKER_PROFILER_OUTPUT_H_
#define ASSAY_SERVER_WORKER_PROFILER_OUTPUT_H_

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/worker/profiler.h"

namespace assay {

struct Profile {
  std::map<std::string, double> counters;  // by the profiler's own names, in its units
  std::string note;                        // what was not possible, in sentences' parts; else empty
};

// What is asked for, by the profiler's names.
std::span<const std::string_view> CountersOf(Profiler profiler);

// Reads what `profiler` wrote. Counters that were asked for and are not there are named in
// the note; nothing is taken for 0.
Profile ReadProfile(Profiler profiler, std::string_view text);

// Why it refused, if the text that it wrote says that it lacks permission; else empty.
// `paranoid`: the value of kernel.perf_event_paranoid, empty where unknown.
std::string Refusal(Profiler profiler, std::string_view text, std::string_view paranoid);

// Whether a kernel of this name, demangled or not qualified, is one that checks others.
bool IsCheckingKernel(std::string_view kernel_name);

// Those names.
std::span<const std::string_view> CheckingKernels();

// The function's own name: "void a::(anonymous namespace)::Fill<float>(int*)" is Fill.
std::string_view FunctionName(std::string_view kernel_name);

}  // namespace assay

#endif  // ASSAY_SERVER_WORKER_PROFILER_OUTPUT_H_
