// A bare loop of cublasLtMatmul, with nothing of Assay in it: what a program that calls the
// library itself reaches on a card, to hold what comes through daemon and worker against.
//
//   cublaslt_loop M N K [--dtype fp32|fp16|bf16] [--seconds S] [--device N]
//
// Row-major operands of normal data, output of the operands' format, sums in fp32, split k in
// fp32 only, the workspace that is recommended: the call that Assay's provider makes. One sample is
// one call between two events; operands are taken in turn from sets enough that none is in the L2,
// as Assay times. Prints the median seconds of a call, and the algorithm that the heuristic put
// first.
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string_view>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

// [bytes] What NVIDIA's documentation recommends, for Hopper and later, and before.
constexpr std::size_t kWorkspaceHopper = 32 << 20;
constexpr std::size_t kWorkspace = 4 << 20;
constexpr int kCallsOfARound = 16;  // between waits
constexpr int kAlgorithms = 16;

[[noreturn]] void Die(const char* what, const char* why) {
  std::fprintf(stderr, "cublaslt_loop: %s: %s\n", what, why);
  std::exit(1);
}
void Check(cudaError_t code, const char* what) {
  if (code != cudaSuccess) Die(what, cudaGetErrorString(code));
}
void Check(cublasStatus_t code, const char* what) {
  if (code != CUBLAS_STATUS_SUCCESS) Die(what, cublasLtGetStatusString(code));
}

struct Options {
  std::uint64_t m = 0, n = 0, k = 0;
  std::string_view dtype = "fp16";
  double seconds = 1;
  int device = 0;
  cudaDataType_t type = CUDA_R_16F;
  std::size_t width = 2;  // of an element [bytes]
};

Options Parse(int argc, char** argv) {
  const char* const usage =
      "cublaslt_loop M N K [--dtype fp32|fp16|bf16] [--seconds S] [--device N]";
  if (argc < 4) Die("usage", usage);
  Options o;
  std::uint64_t* const extents[] = {&o.m, &o.n, &o.k};
  for (int i = 0; i < 3; ++i) {
    *extents[i] = std::strtoull(argv[i + 1], nullptr, 10);
    if (*extents[i] == 0) Die("an extent is no positive number", argv[i + 1]);
  }
  for (int i = 4; i < argc; i += 2) {
    const std::string_view name = argv[i];
    if (i + 1 == argc) {
      Die("no value of", argv[i]);
    } else if (name == "--dtype") {
      o.dtype = argv[i + 1];
    } else if (name == "--seconds") {
      o.seconds = std::atof(argv[i + 1]);
    } else if (name == "--device") {
      o.device = std::atoi(argv[i + 1]);
    } else {
      Die("usage", usage);
    }
  }
  if (o.dtype == "fp32") {
    o.type = CUDA_R_32F;
    o.width = 4;
  } else if (o.dtype == "bf16") {
    o.type = CUDA_R_16BF;
  } else if (o.dtype != "fp16") {
    Die("--dtype is none of fp32, fp16, bf16", o.dtype.data());
  }
  return o;
}

// A few thousand normal numbers over and over: drawing all of them takes longer than the rest.
void* Matrix(const Options& o, std::uint64_t rows, std::uint64_t cols, unsigned seed) {
  constexpr std::size_t kDrawn = 4093;
  std::minstd_rand engine(seed);
  std::normal_distribution<float> normal;
  std::vector<float> drawn(kDrawn);
  for (float& x : drawn) x = normal(engine);
  const std::size_t count = rows * cols;
  std::vector<unsigned char> host(count * o.width);
  for (std::size_t i = 0; i < count; ++i) {
    const float x = drawn[i % kDrawn];
    unsigned char* const at = host.data() + i * o.width;
    if (o.type == CUDA_R_32F) {
      *reinterpret_cast<float*>(at) = x;
    } else if (o.type == CUDA_R_16BF) {
      *reinterpret_cast<__nv_bfloat16*>(at) = __float2bfloat16(x);
    } else {
      *reinterpret_cast<__half*>(at) = __float2half(x);
    }
  }
  void* data = nullptr;
  Check(cudaMalloc(&data, host.size()), "memory of a matrix");
  Check(cudaMemcpy(data, host.data(), host.size(), cudaMemcpyHostToDevice), "a matrix's data");
  return data;
}

struct Operands {
  void *a, *b, *c;
};

// The library's objects: it is column-major, so that its A is B and its rows are columns.
class Matmul {
 public:
  Matmul(const Options& o, std::size_t workspace) : bytes_(workspace) {
    Check(cublasLtCreate(&handle_), "a handle");
    const cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
    Check(cublasLtMatmulDescCreate(&operation_, compute, CUDA_R_32F), "an operation");
    Check(cublasLtMatrixLayoutCreate(&a_, o.type, o.n, o.k, static_cast<std::int64_t>(o.n)), "B");
    Check(cublasLtMatrixLayoutCreate(&b_, o.type, o.k, o.m, static_cast<std::int64_t>(o.k)), "A");
    Check(cublasLtMatrixLayoutCreate(&c_, o.type, o.n, o.m, static_cast<std::int64_t>(o.n)), "C");
    cublasLtMatmulPreference_t preference = nullptr;
    Check(cublasLtMatmulPreferenceCreate(&preference), "a preference");
    const std::uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    Check(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                               &bytes_, sizeof bytes_),
          "the workspace's size");
    Check(cublasLtMatmulPreferenceSetAttribute(
              preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof schemes),
          "how parts of k are added");
    std::array<cublasLtMatmulHeuristicResult_t, kAlgorithms> found = {};
    int count = 0;
    Check(cublasLtMatmulAlgoGetHeuristic(handle_, operation_, a_, b_, c_, c_, preference,
                                         kAlgorithms, found.data(), &count),
          "the heuristic");
    for (int i = 0; i < count && !chosen_; ++i) {
      const cublasLtMatmulHeuristicResult_t& result = found[static_cast<std::size_t>(i)];
      if (result.state != CUBLAS_STATUS_SUCCESS) continue;
      algorithm_ = result.algo;
      chosen_ = true;
    }
    if (!chosen_) Die("the heuristic", "no algorithm");
    Check(cublasLtMatmulPreferenceDestroy(preference), "a preference");
    Check(cudaMalloc(&workspace_, bytes_), "the workspace");
  }

  void Launch(const Operands& x) {
    const float one = 1, zero = 0;
    Check(cublasLtMatmul(handle_, operation_, &one, x.b, a_, x.a, b_, &zero, x.c, c_, x.c, c_,
                         &algorithm_, workspace_, bytes_, nullptr),
          "the product");
  }

  // "algo 66 tile id 21 stages id 35 split-k 1", in the words of Assay's results.
  void PrintAlgorithm() const {
    const auto config = [&](cublasLtMatmulAlgoConfigAttributes_t attribute) {
      std::int32_t value = -1;
      std::size_t written = 0;
      Check(cublasLtMatmulAlgoConfigGetAttribute(&algorithm_, attribute, &value, sizeof value,
                                                 &written),
            "the algorithm");
      return value;
    };
    std::printf("algo %d tile id %d stages id %d split-k %d\n", config(CUBLASLT_ALGO_CONFIG_ID),
                config(CUBLASLT_ALGO_CONFIG_TILE_ID), config(CUBLASLT_ALGO_CONFIG_STAGES_ID),
                config(CUBLASLT_ALGO_CONFIG_SPLITK_NUM));
  }

 private:
  const std::size_t bytes_;  // of the workspace
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr, b_ = nullptr, c_ = nullptr;
  cublasLtMatmulAlgo_t algorithm_ = {};
  void* workspace_ = nullptr;
  bool chosen_ = false;
};

// Seconds of each of a round's calls.
void Round(Matmul& matmul, const std::vector<Operands>& sets, std::size_t first,
           std::vector<double>* seconds) {
  static std::array<cudaEvent_t, 2 * kCallsOfARound> events = {};
  for (cudaEvent_t& event : events) {
    if (event == nullptr) Check(cudaEventCreate(&event), "an event");
  }
  for (std::size_t i = 0; i < kCallsOfARound; ++i) {
    Check(cudaEventRecord(events[2 * i], nullptr), "an event");
    matmul.Launch(sets[(first + i) % sets.size()]);
    Check(cudaEventRecord(events[2 * i + 1], nullptr), "an event");
  }
  Check(cudaStreamSynchronize(nullptr), "the products");
  for (std::size_t i = 0; i < kCallsOfARound; ++i) {
    float milliseconds = 0;
    Check(cudaEventElapsedTime(&milliseconds, events[2 * i], events[2 * i + 1]), "a time");
    seconds->push_back(1e-3 * static_cast<double>(milliseconds));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const Options o = Parse(argc, argv);
  Check(cudaSetDevice(o.device), "the device");
  int l2 = 0;
  Check(cudaDeviceGetAttribute(&l2, cudaDevAttrL2CacheSize, o.device), "the L2's size");
  const std::size_t bytes = o.width * (o.m * o.k + o.k * o.n + o.m * o.n);
  std::vector<Operands> sets(2 + 2 * static_cast<std::size_t>(l2) / bytes);
  unsigned seed = 1;
  for (Operands& set : sets) {
    set = {Matrix(o, o.m, o.k, seed), Matrix(o, o.k, o.n, seed + 1), nullptr};
    Check(cudaMalloc(&set.c, o.width * o.m * o.n), "memory of the product");
    seed += 2;
  }
  int major = 0;
  Check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, o.device), "the card");
  Matmul matmul(o, major >= 9 ? kWorkspaceHopper : kWorkspace);
  std::vector<double> seconds;
  Round(matmul, sets, 0, &seconds);
  seconds.clear();
  const auto end = Clock::now() + std::chrono::duration<double>(o.seconds);
  while (seconds.empty() || Clock::now() < end) Round(matmul, sets, seconds.size(), &seconds);
  std::sort(seconds.begin(), seconds.end());
  std::printf("%.9f\n", seconds[seconds.size() / 2]);
  matmul.PrintAlgorithm();
  return 0;
}
