// The real cuDNN, where it is installed, takes every operation that the provider describes:
// none of that needs a device. What it would compute is not looked at.
#include <gtest/gtest.h>

#include <string>

#include "kernels/providers/cudnn/operations.h"

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
}

}  // namespace
}  // namespace assay
