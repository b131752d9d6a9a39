// Fuzz targets. Each gives foreign bytes to one parser of Assay and ends the process if the parser
// breaks its contract. tests/fuzz/run gives them bytes that libFuzzer makes up; fuzz_test gives
// them the files of tests/fuzz/<name>, in every run of the tests.
#ifndef ASSAY_TESTS_FUZZ_FUZZ_H_
#define ASSAY_TESTS_FUZZ_FUZZ_H_

#include <cstddef>
#include <span>
#include <string_view>

#include "absl/status/status.h"

namespace assay::fuzz {

struct Target {
  std::string_view name;  // of its folder of files, too
  void (*run)(std::string_view bytes);
};

// All targets, in the order of their names. A line each in targets.cc.
std::span<const Target> Targets();

// Ends the process with the message if a contract does not hold.
void Require(bool holds, std::string_view message);
// Ends the process if a parser blames itself for foreign bytes: INTERNAL or UNKNOWN.
void RequireNotInternal(const absl::Status& status);

// Whether an input gets a check that would slow a target down too much if all inputs had it. In
// libFuzzer's program one of n inputs gets it: a hash of the bytes says which. In fuzz_test all do.
bool IsOneOf(std::size_t n, std::string_view bytes);
// Called once, by libFuzzer's program.
void CheckOnlySome();

// A folder of this process's own, in memory where the machine has such a disk.
const char* ScratchFolder();

void FuzzBaseline(std::string_view bytes);
void FuzzCode(std::string_view bytes);
void FuzzCompare(std::string_view bytes);
void FuzzConfig(std::string_view bytes);
void FuzzGolden(std::string_view bytes);
void FuzzJob(std::string_view bytes);
void FuzzLaunch(std::string_view bytes);
void FuzzLint(std::string_view bytes);
void FuzzNodes(std::string_view bytes);
void FuzzNpy(std::string_view bytes);
void FuzzProfiler(std::string_view bytes);
void FuzzRecord(std::string_view bytes);
void FuzzReport(std::string_view bytes);
void FuzzRequest(std::string_view bytes);
void FuzzRoles(std::string_view bytes);
void FuzzStore(std::string_view bytes);
void FuzzSuite(std::string_view bytes);
void FuzzTargets(std::string_view bytes);
void FuzzTelemetry(std::string_view bytes);
void FuzzWorker(std::string_view bytes);

}  // namespace assay::fuzz

#endif  // ASSAY_TESTS_FUZZ_FUZZ_H_
