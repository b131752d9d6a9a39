// The options of `run`, `bench` and `submit`, and the job that they describe.
#ifndef ASSAY_CLIENT_CLI_RUN_OPTIONS_H_
#define ASSAY_CLIENT_CLI_RUN_OPTIONS_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "assay/v1/job.pb.h"
#include "client/lib/kernel.h"

namespace assay::client {

// Everything a run can say, as typed. One string an option of a case, by flag.
struct RunOptions {
  std::map<std::string, std::string> common;                          // "dtype" -> "bf16,fp16"
  std::map<std::string, std::map<std::string, std::string>> problem;  // op -> flag -> text
  std::map<std::string, CLI::App*> operators;
  std::string suite;
  std::string suite_file;
  std::string ops;
  std::string name;
  std::string device;
  std::string mode;
  v1::Mode default_mode = v1::MODE_UNSPECIFIED;  // the command's own
  bool bench = false;
  std::string job_deadline;
  std::string case_deadline;
  std::string wait_for_others;
  int priority = 0;
  std::vector<std::string> labels;
  bool resume = false;
  std::string compare;
  std::string threshold;
  std::string profile;
  std::string kernel;         // a file, "user/…" or "node:…"
  std::string kernel_launch;  // a file, of device code; empty: the one beside it
  std::string kernel_entry;   // a kernel's name, of CUDA source
  std::string reference;      // as `kernel`
  int held_out = 0;           // shapes drawn near each that is named, client/lib/held_out.h
  bool on_change = false;
};

// What --kernel names; absent if it was not said. INVALID_ARGUMENT as ParseKernel.
absl::StatusOr<std::optional<KernelChoice>> KernelOf(const RunOptions& options);
// The same of --reference.
absl::StatusOr<std::optional<KernelChoice>> ReferenceOf(const RunOptions& options);

// The files here that the kernel and its reference are made of. One that was not said is empty.
std::vector<std::string> FilesOf(const RunOptions& options);

// Adds them to the command; `width` is the terminal's, for --help, 0 in a pipe.
void AddRunOptions(CLI::App& run, int width, const std::shared_ptr<RunOptions>& options);

// Extents that have no default and were not said: "gemm.m". The daemon sees 0 of them.
std::vector<std::string> ExtentsNotSaid(const RunOptions& options);

// The job that was asked for, once `run` has been parsed. INVALID_ARGUMENT says everything
// that is wrong, a line each.
absl::StatusOr<v1::JobSpec> MakeSpec(const RunOptions& options, const CLI::App& run);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_CLI_RUN_OPTIONS_H_
