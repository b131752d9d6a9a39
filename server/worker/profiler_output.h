// Reads what profilers write. All functions are pure: they turn text into counters.
//
// Formats: perf-stat(1), "CSV FORMAT"; Nsight Compute CLI, `--csv --page raw` (a row of
// names, a row of units, a row a kernel); rocprof's results.csv (a row a kernel) and
// rocprofv3's counter_collection.csv (a row a counter of a dispatch).
//
// A profiler of a GPU sees every kernel, also those that fill, compute references and compare.
// These are known by name and left out. Of the rest, only the kernel that took longest is reported,
// because shares of a peak cannot be added.
#ifndef ASSAY_SERVER_WORKER_PROFILER_OUTPUT_H_
#define ASSAY_SERVER_WORKER_PROFILER_OUTPUT_H_

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/worker/profiler.h"

namespace assay::server {

struct Profile {
  std::map<std::string, double> counters;  // by the profiler's own names, in its units
  std::string note;                        // what was not possible; else empty
};

// The counters that the profiler is asked for, by its own names.
std::span<const std::string_view> CountersOf(Profiler profiler);

// Reads what `profiler` wrote. If a counter is missing, the note names it. A missing counter is
// never taken for 0.
Profile ReadProfile(Profiler profiler, std::string_view text);

// Why the profiler refused, if its text says that it lacks permission. Else empty. `paranoid` is
// the value of kernel.perf_event_paranoid, or empty if it is not known.
std::string Refusal(Profiler profiler, std::string_view text, std::string_view paranoid);

// Whether a kernel of this name belongs to the checks. The name may be demangled or unqualified.
bool IsCheckingKernel(std::string_view kernel_name);

// The names of the kernels that belong to the checks. Those that end in "Reference" belong to them
// too, and are not listed.
std::span<const std::string_view> CheckingKernels();

// The function's own name. Of "void a::(anonymous namespace)::Fill<float>(int*)" it is Fill.
std::string_view FunctionName(std::string_view kernel_name);

}  // namespace assay::server

#endif  // ASSAY_SERVER_WORKER_PROFILER_OUTPUT_H_
