// Kernels that are wrong on purpose: the proof that the harness says no. Each is right but
// for one defect, registered as provider "planted/<name>"; one that is right is among them,
// as a control. They are run only when asked for by name, or by a self-test. Those of the
// CPU are short plain loops; those of GPUs (planted_gpu.h) the built-in kernels with a
// defect made on the device.
//
// The tables (table.cc, table_gpu.cc) are what tests, the self-test and documents know of
// them: how large the defect is, on which data it shows, which check must find it, and how
// often.
#ifndef ASSAY_KERNELS_PROVIDERS_PLANTED_PLANTED_H_
#define ASSAY_KERNELS_PROVIDERS_PLANTED_PLANTED_H_

#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/ops/case.h"
#include "kernels/providers/provider.h"

namespace assay {

struct PlantedDefect {
  std::string_view op;
  std::string_view name;      // "wrong-tile"
  std::vector<DType> dtypes;  // inputs that the kernel takes and that show the defect
  std::string_view check;     // the finding that must be made, a word of assay.v1.Finding;
                              // empty where nothing is wrong; see ExpectedReason
  Problem problem;            // that shows it
  std::string_view pattern;   // of the inputs that show it; empty: the op's own
  int repeats = 1;            // launches that show it
  DType out_dtype = DType::kUnspecified;             // unspecified: the default
  std::string_view magnitude;                        // of the defect, a line
  double required_rate = 1.0;                        // share of seeds in which it must be found
  std::vector<std::pair<DType, double>> rates = {};  // formats of another required rate
  bool ends_process = false;  // kills, blocks or starves it, whatever the seed
  bool slow = false;          // nothing is wrong but the time it takes
};

// All of a backend, by operator: "cpu", or a GPU's, "cuda", "hip" or "simt".
std::span<const PlantedDefect> PlantedDefects(std::string_view backend = "cpu");

// "planted/wrong-tile".
std::string_view PlantedProvider(const PlantedDefect& defect);

// The row behind a backend's kernel, or nullptr: "gemm", "planted/wrong-tile".
const PlantedDefect* FindPlanted(std::string_view op, std::string_view provider,
                                 std::string_view backend = "cpu");

// The finding that must be made where the inputs are of format `dtype`: the row's, but
// "exact" for bound, class and bias where the output is an integer.
std::string_view ExpectedReason(const PlantedDefect& defect, DType dtype);

// The share of seeds in which it must be made.
double RequiredRate(const PlantedDefect& defect, DType dtype);

// A small case that shows the defect, with provider, pattern and repeats set, and a
// deadline where the kernel blocks. The seed draws the site of the defect.
Case PlantedCase(const PlantedDefect& defect, DType dtype, std::uint64_t seed = 1);

// A kernel for every row of the CPU's table.
std::vector<KernelEntry> PlantedKernels();

}  // namespace assay

#endif  // ASSAY_KERNELS_PROVIDERS_PLANTED_PLANTED_H_
