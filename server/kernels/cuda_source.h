// Looks through the text of CUDA source for what its launch needs to know: the kernels of the file,
// and the names of the shared memory that a launch asks for.
//
// It reads tokens and is no compiler: macros that make kernels stay unseen. A name that it gets
// wrong is a compiler's error later, and nothing worse.
#ifndef ASSAY_SERVER_KERNELS_CUDA_SOURCE_H_
#define ASSAY_SERVER_KERNELS_CUDA_SOURCE_H_

#include <string>
#include <string_view>
#include <vector>

namespace assay::server {

struct CudaSource {
  std::vector<std::string> kernels;         // functions marked __global__, each once
  std::vector<std::string> dynamic_shared;  // "extern __shared__ float tile[];": "tile", each once
};

CudaSource ScanCuda(std::string_view source);

}  // namespace assay::server

#endif  // ASSAY_SERVER_KERNELS_CUDA_SOURCE_H_
