// Says in words what a profiler counted beside the times of a case.
#ifndef ASSAY_CLIENT_REPORT_PROFILE_H_
#define ASSAY_CLIENT_REPORT_PROFILE_H_

#include <span>
#include <string>
#include <string_view>

#include "assay/v1/case.pb.h"

namespace assay::client {

// "cache-misses 81,234, task-clock 7.24 ms; counter instructions not supported". The long
// names of Nsight Compute's metrics are cut to what tells them apart: "dram__throughput
// 34.7 %, stalled barrier 1.25". Empty where no profiler was asked for.
std::string ProfileText(const v1::BenchStats& bench);

// The counters a profiler is asked for by the daemon, under its own names; none of a
// profiler that is not known.
std::span<const std::string_view> CountersOf(std::string_view profiler);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_REPORT_PROFILE_H_
