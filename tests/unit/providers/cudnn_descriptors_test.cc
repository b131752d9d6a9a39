// The real cuDNN, where it is installed, takes every operation that the provider describes,
// and proposes engines for them on cards that it is told of: none of that needs a
// device. What it would compute is not looked at.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <array>
#include <span>
#include <string>
#include <vector>

#include "kernels/providers/cudnn/operations.h"
#include "kernels/text/cat.h"

namespace assay {
namespace {

class CudnnDescriptors : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cudnn::Load().ok()) GTEST_SKIP() << cudnn::Load().status().message();
  }
};

TEST_F(CudnnDescriptors, ConvolutionsAreTakenByTheLibraryItself) {
  for (const IntList& input : {IntList{17}, IntList{9, 11}, IntList{4, 5, 6}}) {
    for (const std::string layout : {"nchw", "nhwc"}) {
      ConvProblem p;
      p.batch = 2;
      p.channels = 4;
      p.filters = 6;
      p.groups = 2;
      p.input = input;
      p.kernel = IntList(input.size(), 3);
      p.padding = {1};
      p.dilation = {1};
      p.layout = layout;
      for (const DType t : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16}) {
        const auto type = cudnn::TypeOf(t);
        ASSERT_TRUE(type.ok());
        EXPECT_TRUE(cudnn::ConvOperation(p, t, *type, *type).status().ok())
            << Name(t) << " " << p.Describe() << ": "
            << cudnn::ConvOperation(p, t, *type, *type).status();
      }
    }
  }
  // It looks: 4 channels in 3 groups do not pass.
  ConvProblem wrong;
  wrong.channels = 4;
  wrong.filters = 6;
  wrong.groups = 3;  // of 4 channels
  wrong.input = wrong.kernel = {3, 3};
  EXPECT_FALSE(
      cudnn::ConvOperation(wrong, DType::kF32, CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT).status().ok());
}

TEST_F(CudnnDescriptors, NormsAndAttentionAreTakenByTheLibraryItself) {
  const Extents rows = Extents::Dense(1, 7, 64);
  for (const bool rms : {false, true}) {
    const LayerNormProblem p{.rows = 7, .cols = 64, .rms = rms};
    EXPECT_TRUE(cudnn::LayerNormOperation(p, CUDNN_DATA_HALF, rows, rows).status().ok())
        << cudnn::LayerNormOperation(p, CUDNN_DATA_HALF, rows, rows).status();
  }
  AttentionProblem p;
  p.heads = 4;
  p.kv_heads = 2;
  p.seq = 64;
  p.kv_seq = 96;
  p.dim = 64;
  EXPECT_TRUE(cudnn::AttentionOperation(p, CUDNN_DATA_BFLOAT16).status().ok())
      << cudnn::AttentionOperation(p, CUDNN_DATA_BFLOAT16).status();
  for (const bool causal : {false, true}) {
    for (const std::int64_t keys : {64, 96}) {
      p.causal = causal;
      p.kv_seq = keys;
      for (const cudnn::Descriptor& o : cudnn::AttentionGraph(p, CUDNN_DATA_HALF)) {
        EXPECT_TRUE(o.status().ok()) << p.Describe() << ": " << o.status();
      }
    }
  }
}

// A card as the library itself writes it down, for compiling where there is none (9.8 and
// later).
cudnn::Descriptor Card(std::string_view name, int version, int multiprocessors, int shared_bytes) {
  const std::string text = Cat(
      R"({"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,)",
      R"("warpSize":32,"maxSharedMemoryPerBlock":49152,"reservedSharedMemoryPerBlock":1024,)",
      R"("maxRegistersPerSM":65536,"maxCtasPerSM":32,"maxThreadsPerBlock":1024,)",
      R"("maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,"supportCoopLaunch":1,)",
      R"("totalGlobalMem":85000000000,"smClockRateKHz":1755000,"memClockRateKHz":2619000,)",
      R"("l2CacheSize":52428800,"cudaDeviceId":0,"driverVer":13000,"multiProcessorCount":)",
      multiprocessors, R"(,"maxSharedMemoryPerBlockOptin":)", shared_bytes, R"(,"deviceVer":)",
      version, R"(,"deviceName":")", name, R"("})");
  cudnn::Descriptor card(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  card.Set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
           static_cast<std::int64_t>(text.size()), text.data())
      .Finalize();
  return card;
}

// Engines for the operations on the card that the library says can be had there.
std::int64_t Engines(std::span<const cudnn::Descriptor> operations, const cudnn::Descriptor& card) {
  cudnn::Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.Set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operations).Finalize();
  cudnn::Descriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristic.Set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph)
      .Set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, CUDNN_HEUR_MODE_A)
      .Set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, card)
      .Finalize();
  const std::int64_t most =
      heuristic.Get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, nullptr);
  std::vector<cudnn::Descriptor> configs;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (std::int64_t i = 0; i < most; ++i) {
    configs.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    raw.push_back(configs.back().get());
  }
  const std::int64_t found =
      heuristic.Get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, most, raw.data());
  EXPECT_TRUE(heuristic.status().ok()) << heuristic.status();
  return found;
}

TEST_F(CudnnDescriptors, EveryOperationHasEnginesOnEveryCardTheLibraryIsToldOf) {
  if ((*cudnn::Load())->get_version() < 91900) GTEST_SKIP() << "cuDNN before 9.19";
  // Engines are looked for where there is a driver: the toolkit's stub is enough.
  if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) == nullptr &&
      dlopen(CUDA_DRIVER_STUB, RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    GTEST_SKIP() << "no driver, nor the toolkit's stub of it: " << dlerror();
  }
  AttentionProblem p;
  p.heads = 8;
  p.kv_heads = 2;
  const struct {
    std::string_view name;
    int version, multiprocessors, shared_bytes;
  } kCards[] = {
      {"A100", 800, 108, 166912}, {"H100", 900, 132, 232448}, {"B200", 1000, 148, 232448}};
  for (const auto& [name, version, multiprocessors, shared_bytes] : kCards) {
    const cudnn::Descriptor card = Card(name, version, multiprocessors, shared_bytes);
    ASSERT_TRUE(card.status().ok()) << card.status();
    for (const auto& [seq, kv_seq, dim] : {std::array{512, 512, 64}, std::array{4096, 4096, 128},
                                           std::array{37, 45, 16}, std::array{1, 1000, 128}}) {
      p.seq = seq;
      p.kv_seq = kv_seq;
      p.dim = dim;
      for (const bool causal : {false, true}) {
        p.causal = causal;
        EXPECT_GT(Engines(cudnn::AttentionGraph(p, CUDNN_DATA_HALF), card), 0)
            << name << " " << p.Describe();
      }
    }
    for (const DType t : {DType::kF32, DType::kF16, DType::kBF16}) {
      for (const std::int64_t cols : {143, 4096}) {
        for (const bool rms : {false, true}) {
          const LayerNormProblem norm{.rows = 512, .cols = cols, .rms = rms};
          const Extents rows = Extents::Dense(1, norm.rows, cols);
          const cudnn::Descriptor o =
              cudnn::LayerNormOperation(norm, *cudnn::TypeOf(t), rows, rows);
          EXPECT_GT(Engines({&o, 1}, card), 0) << name << " " << norm.Describe() << Name(t);
        }
      }
      for (const std::size_t dimensions : {1U, 2U, 3U}) {
        for (const std::string layout : {"nchw", "nhwc"}) {
          ConvProblem conv;
          conv.channels = conv.filters = 64;
          conv.groups = 2;
          conv.input = IntList(dimensions, 28);
          conv.kernel = IntList(dimensions, 3);
          conv.layout = layout;
          const auto type = *cudnn::TypeOf(t);
          const cudnn::Descriptor o = cudnn::ConvOperation(conv, t, type, type);
          EXPECT_GT(Engines({&o, 1}, card), 0) << name << " " << conv.Describe() << Name(t);
        }
      }
    }
    // A head of 12 numbers is none that the library takes: it looks.
    p.dim = 12;
    EXPECT_EQ(Engines(cudnn::AttentionGraph(p, CUDNN_DATA_HALF), card), 0) << name;
  }
}

}  // namespace
}  // namespace assay
