// Kernels that are wrong on purpose: the proof that the harness says no. Each is a
// short plain-loop kernel, right but for one defect, registered as provider
// "planted/<name>"; one that is right is among them, as a control. They are run only
// when asked for by name.
//
// This table is what tests, the self-test and documents know of them.
#ifndef ASSAY_KERNELS_PROVIDERS_PLANTED_PLANTED_H_
#define ASSAY_KERNELS_PROVIDERS_PLANTED_PLANTED_H_

#include <span>
#include <string_view>
#include <vector>

#include "kernels/ops/case.h"
#include "kernels/providers/provider.h"

namespace assay {

struct PlantedDefect {
  std::string_view op;
  std::string_view name;  // "wrong-tile"
  std::vector<DType> dtypes;
  // The finding that must be made, a word of assay.v1.Finding; empty for the control.
  // "bound" means "exact" where the format is an integer.
  std::string_view reason;
  std::string_view pattern;      // of the inputs that show it; empty: the op's own
  int repeats = 1;               // launches that show it
  std::string_view description;  // a line
};

// All of them, by operator.
std::span<const PlantedDefect> PlantedDefects();

// "planted/wrong-tile".
std::string_view PlantedProvider(const PlantedDefect& defect);

// The finding that must be made where the inputs are of format `dtype`.
std::string_view ExpectedReason(const PlantedDefect& defect, DType dtype);

// A small case that shows the defect, with provider, pattern, repeats and seed set.
Case PlantedCase(const PlantedDefect& defect, DType dtype);

// A kernel for every row of the table.
std::vector<KernelEntry> PlantedKernels();

}  // namespace assay

#endif  // ASSAY_KERNELS_PROVIDERS_PLANTED_PLANTED_H_
