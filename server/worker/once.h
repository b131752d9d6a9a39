// One case in the foreground, without a daemon: for a debugger, a profiler, a sanitizer.
#ifndef ASSAY_SERVER_WORKER_ONCE_H_
#define ASSAY_SERVER_WORKER_ONCE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "assay/v1/case.pb.h"
#include "kernels/validate/runner.h"

namespace assay {

// The case of a file, a CaseSpec as protobuf's JSON; "-" is standard input. What it does
// not say is as in a job: seed 1, the built-in kernel, validated, judged by the bound.
// NOT_FOUND: it cannot be read; INVALID_ARGUMENT: it is no such case. Both name the file.
absl::StatusOr<v1::CaseSpec> ReadCaseFile(const std::string& path);

// The result as protobuf's JSON, names as in the .proto, with a newline.
absl::StatusOr<std::string> ResultText(const v1::CaseResult& result);

// Lets perf count while the kernel under test runs for the first time, and at no other: short
// cases launch it again, and a count means something of a known number of launches. `control` is
// CONTROL,ANSWER, the two pipes of `perf stat --control=fifo:CONTROL,ANSWER`. Where they
// are not served nothing is counted, and the case runs as ever.
std::unique_ptr<PhaseObserver> MakePerfControl(const std::string& control);

// The same of a profiler that waits for NVIDIA's driver to tell it of a range, as
// `ncu --profile-from-start off` does: it looks at the launches of that time alone. Where there is
// no such driver, nothing is told.
std::unique_ptr<PhaseObserver> MakeDriverRange();

// An arena in which the case and its checks find room [bytes], for a profiler that saves all of
// it before it lets a kernel run; nothing where the case has no plan.
std::optional<std::int64_t> SmallArena(const v1::CaseSpec& spec);

// Ends this process group once the process `pid` has ended: a profiler stands between a
// worker and its daemon, so that the worker is no child of it.
void EndWith(int pid);

}  // namespace assay

#endif  // ASSAY_SERVER_WORKER_ONCE_H_
