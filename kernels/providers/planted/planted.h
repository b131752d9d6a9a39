// Kernels that are wrong on purpose, to prove that the harness finds errors. Each is correct except
// for one defect, and is registered as provider "planted/<name>". One correct kernel is among them,
// as a control. They run only if a user names them, or in a self-test. The CPU's kernels are short
// plain loops. The GPUs' kernels (planted_gpu.h) are the built-in kernels with a defect that is
// made on the device.
//
// Tests, the self-test and documents know the kernels from the tables (table.cc, table_gpu.cc): the
// size of the defect, the data that show it, the check that must find it, and how often.
#ifndef ASSAY_KERNELS_PROVIDERS_PLANTED_PLANTED_H_
#define ASSAY_KERNELS_PROVIDERS_PLANTED_PLANTED_H_

#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/ops/case.h"
#include "kernels/providers/provider.h"

namespace assay::inline kernels {

struct PlantedDefect {
  std::string_view op;
  std::string_view name;      // "wrong-tile"
  std::vector<DType> dtypes;  // input formats that show the defect
  std::string_view check;     // the required finding, a word of assay.v1.Finding; empty if
                              // nothing is wrong; see ExpectedReason
  Problem problem;            // a problem that shows it
  std::string_view pattern;   // of inputs that show it; empty: the op's own
  int repeats = 1;            // launches that show it
  DType out_dtype = DType::kUnspecified;             // unspecified: the default
  std::string_view magnitude;                        // of the defect, one line of text
  double required_rate = 1.0;                        // share of seeds that must find it
  std::vector<std::pair<DType, double>> rates = {};  // formats with another required rate
  bool ends_process = false;  // kills, blocks or starves the process, or tries to leave it
  bool slow = false;          // only its time is wrong
};

// All defects of a backend, ordered by operator: "cpu", or a GPU's, "cuda", "hip" or "simt".
std::span<const PlantedDefect> PlantedDefects(std::string_view backend = "cpu");

// "planted/wrong-tile".
std::string_view PlantedProvider(const PlantedDefect& defect);

// Finds the row of a backend's kernel, such as "gemm", "planted/wrong-tile". nullptr if there is
// none.
const PlantedDefect* FindPlanted(std::string_view op, std::string_view provider,
                                 std::string_view backend = "cpu");

// The finding that must be made if the inputs have format `dtype`. It is the row's check. If the
// output is an integer, "exact" replaces bound, class and bias.
std::string_view ExpectedReason(const PlantedDefect& defect, DType dtype);

// The share of seeds that must make the finding.
double RequiredRate(const PlantedDefect& defect, DType dtype);

// A small case that shows the defect, with provider, pattern and repeats. If the kernel blocks, the
// case has a deadline. The seed decides where the defect is.
Case PlantedCase(const PlantedDefect& defect, DType dtype, std::uint64_t seed = 1);

// Makes a kernel for every row of the CPU's table.
std::vector<KernelEntry> PlantedKernels();

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_PROVIDERS_PLANTED_PLANTED_H_
