// Tries an operator's suspects (kernels/ops/suspect.h) on some of the wrong elements.
#ifndef ASSAY_KERNELS_DIAGNOSE_SUSPECTS_H_
#define ASSAY_KERNELS_DIAGNOSE_SUSPECTS_H_

#include <optional>
#include <string>

#include "kernels/diagnose/anatomy.h"
#include "kernels/ops/suspect.h"

namespace assay::inline kernels {

// A fault that the elements bear out.
struct Conviction {
  std::string reads_as;
  std::string evidence;
  std::string next_step;
  bool circumstantial = false;
};

// The first suspect of the case's operator that the anatomy's samples bear out. A suspect
// with circumstantial evidence is returned only if there is no other.
std::optional<Conviction> FindSuspect(const Scene& scene, const Anatomy& anatomy);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_DIAGNOSE_SUSPECTS_H_
