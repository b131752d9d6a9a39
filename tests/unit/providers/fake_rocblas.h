// Records what the tests' stand-in for librocblas has seen. fake_rocblas_seen() returns it.
#ifndef ASSAY_TESTS_UNIT_PROVIDERS_FAKE_ROCBLAS_H_
#define ASSAY_TESTS_UNIT_PROVIDERS_FAKE_ROCBLAS_H_

#include <cstddef>

namespace assay::fake {

struct RocblasSeen {
  int handles = 0;
  int launches = 0;
  int single_launches = 0;  // of those, without batches
  int atomics = -1;
  int compute_type = 0;
  void* stream = nullptr;
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;
};

}  // namespace assay::fake

#endif  // ASSAY_TESTS_UNIT_PROVIDERS_FAKE_ROCBLAS_H_
