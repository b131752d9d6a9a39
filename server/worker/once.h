// Runs one case in the foreground, without a daemon, for a debugger, a profiler or a sanitizer.
#ifndef ASSAY_SERVER_WORKER_ONCE_H_
#define ASSAY_SERVER_WORKER_ONCE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "assay/v1/case.pb.h"
#include "kernels/validate/runner.h"

namespace assay::server {

// Reads the case of a file, a CaseSpec as protobuf's JSON. "-" is standard input. Defaults are seed
// 1, the built-in kernel, validation, and the bound as criterion. NOT_FOUND if the file cannot be
// read, INVALID_ARGUMENT if it holds no such case. Both name the file.
absl::StatusOr<v1::CaseSpec> ReadCaseFile(const std::string& path);

// The result as protobuf's JSON, with the names of the .proto and a newline at the end.
absl::StatusOr<std::string> ResultText(const v1::CaseResult& result);

// Makes perf count only while the kernel under test runs for the first time. Short cases launch the
// kernel again, and a count needs a known number of launches. `control` is CONTROL,ANSWER: the two
// pipes of `perf stat --control=fifo:CONTROL,ANSWER`. If nobody serves them, nothing is counted,
// and the case runs as usual.
std::unique_ptr<PhaseObserver> MakePerfControl(const std::string& control);

// Does the same for a profiler that waits until NVIDIA's driver tells it of a range, such as
// `ncu --profile-from-start off`. Without such a driver it does nothing.
std::unique_ptr<PhaseObserver> MakeDriverRange();

// The size of an arena that is just large enough for the case and its checks [bytes]. A profiler
// needs it if it saves the whole arena before it lets a kernel run. Nothing if the case has no
// plan.
std::optional<std::int64_t> SmallArena(const v1::CaseSpec& spec);

// Ends this process group when the process `pid` has ended. It is for a worker under a profiler,
// which is not a child of its daemon.
void EndWith(int pid);

}  // namespace assay::server

#endif  // ASSAY_SERVER_WORKER_ONCE_H_
