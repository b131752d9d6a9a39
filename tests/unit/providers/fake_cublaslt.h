// Records what the tests' stand-in for libcublasLt has seen. fake_cublaslt_seen() returns it.
#ifndef ASSAY_TESTS_UNIT_PROVIDERS_FAKE_CUBLASLT_H_
#define ASSAY_TESTS_UNIT_PROVIDERS_FAKE_CUBLASLT_H_

#include <cstdint>

namespace assay::fake {

struct CublasltSeen {
  int handles = 0;
  int live_objects = 0;  // descriptors, layouts, preferences
  int launches = 0;
  // Of the last launch.
  int compute_type = 0;
  int scale_type = 0;
  int pointer_mode = 0;
  int fast_accum = -1;  // -1: not set
  bool scales_behind_pointers = false;
  std::uint32_t reduction_schemes = 0;  // that the last heuristic was allowed
  std::uint64_t workspace_limit = 0;    // likewise
  void* stream = nullptr;
};

}  // namespace assay::fake

#endif  // ASSAY_TESTS_UNIT_PROVIDERS_FAKE_CUBLASLT_H_
