// The emulator has all of it in one header.
#ifndef ASSAY_SIMT_CUDA_FP16_H_
#define ASSAY_SIMT_CUDA_FP16_H_

#include "cuda_runtime.h"

#endif  // ASSAY_SIMT_CUDA_FP16_H_
