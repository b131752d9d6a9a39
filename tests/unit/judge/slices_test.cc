// Elements that somebody asked to see, each held against the tensor it is of.
#include "kernels/judge/slices.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "tests/unit/checksum/checksum_gemm.h"
#include "tests/unit/judge/forwarding_device.h"

namespace assay {
namespace {

using testing::TestGemm;

class FailingDevice : public testing::ForwardingDevice {
 public:
  absl::Status ToHost(const TensorView& t, std::int64_t b, std::int64_t n, void* d) override {
    if (t.data == lost) return absl::InternalError("lost");
    ++reads;
    return cpu_->ToHost(t, b, n, d);
  }
  const void* lost = nullptr;
  int reads = 0;
};

class Slices : public ::testing::Test {
 protected:
  Slices() : g({.m = 4, .n = 5, .k = 3, .batch = 2}, DType::kF16), reference(40), allowance(40) {
    g.Fill(1);
    g.Compute();
    for (std::size_t i = 0; i < reference.size(); ++i) {
      reference[i] = 1.0 + static_cast<double>(i);
      allowance[i] = 0.5 * static_cast<double>(i);
    }
    request.output = g.output;
    request.reference = reference.data();
    request.allowance = allowance.data();
    debug.resize(1000);
    std::iota(debug.begin(), debug.end(), std::uint8_t{0});
  }

  std::vector<Slice> Read(const std::vector<std::string>& names) {
    Case c = g.c;
    c.slices = names;
    absl::StatusOr<std::vector<Slice>> slices =
        ReadSlices(c, g.plan, device, g.inputs, request, debug);
    status = slices.status();
    return slices.ok() ? *slices : std::vector<Slice>();
  }

  TestGemm g;
  FailingDevice device;
  std::vector<double> reference, allowance;
  std::vector<std::uint8_t> debug;
  CompareRequest request;
  absl::Status status;
};

TEST_F(Slices, ShowTheOutputInOrder) {
  const std::vector<Slice> slices = Read({"actual[:,1:3,2:5]", "actual"});
  ASSERT_EQ(slices.size(), 2u);
  const Slice& s = slices[0];
  EXPECT_EQ(s.name, "actual[:,1:3,2:5]");
  EXPECT_EQ(s.begin, (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_EQ(s.shape, (std::vector<std::int64_t>{2, 2, 3}));
  ASSERT_EQ(s.values.size(), 12u);
  ASSERT_EQ(s.bits.size(), 12u);
  std::size_t at = 0;
  for (std::int64_t b = 0; b < 2; ++b) {
    for (std::int64_t i = 1; i < 3; ++i) {
      for (std::int64_t j = 2; j < 5; ++j) EXPECT_EQ(s.values[at++], g.D(b, i, j));
    }
  }
  g.Set(g.output, 1, 2, 4, 1.0);
  EXPECT_EQ(Read({"actual[1,2,4]"})[0].bits, std::vector<std::string>{"0x3c00"});
  ASSERT_EQ(slices[1].values.size(), 40u);
  EXPECT_EQ(slices[1].values[21], g.D(1, 0, 1));
}

TEST_F(Slices, ShowTheReferenceAndItsBound) {
  const std::vector<Slice> slices = Read({"expected[1,2,1:4]", "bound[1,2,1:4]"});
  ASSERT_EQ(slices.size(), 2u);
  EXPECT_EQ(slices[0].values, (std::vector<double>{32, 33, 34}));
  EXPECT_TRUE(slices[0].bits.empty());
  const double u = 0x1p-11;
  ASSERT_EQ(slices[1].values.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    const auto n = static_cast<double>(i);
    EXPECT_DOUBLE_EQ(slices[1].values[i], u * (32 + n) + 0x1p-25 + (1 + u) * 0.5 * (31 + n));
  }
  request.allowance = nullptr;
  EXPECT_DOUBLE_EQ(Read({"bound[1,2,1]"})[0].values[0], u * 32 + 0x1p-25);
}

TEST_F(Slices, ShowInputsAndWhatTheKernelWroteForItsAuthor) {
  const std::vector<Slice> slices = Read({"b[1,2,:]", "a[0,3,1:]", "debug[254:258]"});
  ASSERT_EQ(slices.size(), 3u);
  ASSERT_EQ(slices[0].values.size(), 5u);
  for (std::int64_t j = 0; j < 5; ++j) {
    EXPECT_EQ(slices[0].values[static_cast<std::size_t>(j)], g.B(1, 2, j));
  }
  EXPECT_EQ(slices[1].values, (std::vector<double>{g.A(0, 3, 1), g.A(0, 3, 2)}));
  EXPECT_EQ(slices[2].values, (std::vector<double>{254, 255, 0, 1}));
  EXPECT_EQ(slices[2].bits, (std::vector<std::string>{"0xfe", "0xff", "0x00", "0x01"}));
}

TEST_F(Slices, LeaveOutWhatThereIsNot) {
  request.reference = nullptr;
  debug.clear();
  const std::vector<Slice> slices =
      Read({"expected[0,0,0]", "bound[0,0,0]", "debug[0:4]", "actual[0,0,0]"});
  ASSERT_EQ(slices.size(), 1u);
  EXPECT_EQ(slices[0].name, "actual[0,0,0]");
}

TEST_F(Slices, SayWhatIsWrong) {
  EXPECT_TRUE(Read({"nothing[0]"}).empty());
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  const struct {
    std::string name;
    const void* lost;
  } rows[] = {{"actual[0,0:3,0]", g.output.data},
              {"a[0,0,0]", g.inputs[0].data},
              {"expected[0,0,0]", reference.data()},
              {"bound[0,0,0]", reference.data()},
              {"bound[0,0,0]", allowance.data()}};
  for (const auto& row : rows) {
    device.lost = row.lost;
    Read({row.name});
    EXPECT_EQ(status, absl::InternalError("lost")) << row.name;
  }
  // Nothing is read after the first that is lost.
  device.lost = reference.data();
  device.reads = 0;
  Read({"bound[0,0,0]"});
  EXPECT_EQ(device.reads, 0);
}

}  // namespace
}  // namespace assay
