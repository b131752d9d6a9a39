// Records what the tests' stand-in for libcudnn has seen, and what it lacks. fake_cudnn_seen()
// returns it.
#ifndef ASSAY_TESTS_UNIT_PROVIDERS_FAKE_CUDNN_H_
#define ASSAY_TESTS_UNIT_PROVIDERS_FAKE_CUDNN_H_

#include <cstdint>

namespace assay::fake {

// Engines that the stand-in proposes for everything, in this order.
enum CudnnEngine : std::int64_t {
  kNondeterministic = 10,
  kWinograd = 11,
  kDownConverting = 12,
  kUnbuildable = 13,  // its plan cannot be made
  kTensorCores = 14,
  kPlain = 15,
};

struct CudnnSeen {
  int handles = 0;
  int live_objects = 0;
  int launches = 0;
  int packs = 0;  // variant packs made
  std::int64_t engine = 0;
  void* stream = nullptr;
  // It proposes no engine for graphs with a node of attention, with a product.
  bool without_sdpa = false;
  bool without_matmul = false;
};

}  // namespace assay::fake

#endif  // ASSAY_TESTS_UNIT_PROVIDERS_FAKE_CUDNN_H_
