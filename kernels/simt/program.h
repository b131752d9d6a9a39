// Holds the state that the parts of a CUDA program under the emulator share. One program in a
// process, one thread.
#ifndef ASSAY_KERNELS_SIMT_PROGRAM_H_
#define ASSAY_KERNELS_SIMT_PROGRAM_H_

#include "kernels/simt/accesses.h"

namespace assay::inline kernels::simt {

// Follows the accesses of the kernel while a launch runs. Null between launches: what the library
// does there is not the kernel's.
extern Accesses* followed;

// Whether an index outside an array of known size ended the launch. Each launch begins without.
extern bool index_fault;

}  // namespace assay::kernels::simt

#endif  // ASSAY_KERNELS_SIMT_PROGRAM_H_
