// Slices as they are written, and what is said of wrong ones.
#include "kernels/ops/slice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/ops/op.h"

namespace assay {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Case Attention() {
  AttentionProblem p;
  p.batch = 2;
  p.heads = 3;
  p.seq = 64;
  p.dim = 16;
  Case c;
  c.problem = p;
  c.dtype = DType::kF32;
  return c;
}

class SliceText : public ::testing::Test {
 protected:
  SliceText() : plan_(*FindOp("attention")->MakePlan(Attention())) {}

  SliceRange Parsed(std::string_view text) {
    std::string error;
    const auto range = ParseSlice(text, plan_, &error);
    EXPECT_TRUE(range.has_value()) << text << ": " << error;
    return range.value_or(SliceRange{});
  }
  std::string Refused(std::string_view text) {
    std::string error;
    EXPECT_FALSE(ParseSlice(text, plan_, &error).has_value()) << text;
    return error;
  }

  Plan plan_;
};

TEST_F(SliceText, IsReadAsPythonHasIt) {
  const SliceRange range = Parsed("actual[1, 0:2, -8:, :4]");
  EXPECT_EQ(range.of, SliceRange::Of::kActual);
  EXPECT_THAT(range.begin, ElementsAre(1, 0, 56, 0));
  EXPECT_THAT(range.shape, ElementsAre(1, 2, 8, 4));
  EXPECT_EQ(range.count(), 64);
  EXPECT_THAT(Parsed("actual[-1,-1,-1]").begin, ElementsAre(1, 2, 63, 0));
  EXPECT_THAT(Parsed("actual[-1,-1,-1]").shape, ElementsAre(1, 1, 1, 16));
  // A range is cut at the extent, as Python cuts it.
  EXPECT_THAT(Parsed("bound[0,0,60:99,0]").shape, ElementsAre(1, 1, 4, 1));
  EXPECT_EQ(Parsed("expected[0,0,0]").of, SliceRange::Of::kExpected);
  const SliceRange v = Parsed(" v [1,2,:,3] ");
  EXPECT_EQ(v.of, SliceRange::Of::kInput);
  EXPECT_EQ(v.input, 2u);
}

TEST_F(SliceText, SaysWhatIsWrong) {
  EXPECT_THAT(Refused("aktual[0]"), HasSubstr("no tensor \"aktual\"; known: actual, expected, "
                                              "bound, q, k, v"));
  EXPECT_THAT(Refused("actual[0,0,0,0,0]"),
              HasSubstr("5 ranges and the tensor 4 axes [2,3,64,16]"));
  EXPECT_THAT(Refused("actual[2]"), HasSubstr("index 2 is not in an axis of 2"));
  EXPECT_THAT(Refused("actual[-3]"), HasSubstr("index -3"));
  EXPECT_THAT(Refused("actual[0,0,5:5]"), HasSubstr("\"5:5\" selects nothing of an axis of 64"));
  EXPECT_THAT(Refused("actual[0,0,::2]"), HasSubstr("has a step"));
  EXPECT_THAT(Refused("actual[x]"), HasSubstr("\"x\" is no range"));
  EXPECT_THAT(Refused("actual[]x"), HasSubstr("in brackets"));
  EXPECT_THAT(Refused("actual[0"), HasSubstr("in brackets"));
  EXPECT_THAT(Refused("actual"), HasSubstr("more than 4096 elements; the tensor is [2,3,64,16]"));
  EXPECT_THAT(Refused(""), HasSubstr("no tensor \"\""));
  EXPECT_THAT(Refused("actual[99999999999999999999]"), HasSubstr("is no range"));
}

TEST(CheckSlices, NamesTheSliceThatIsWrong) {
  Case c = Attention();
  c.slices = {"actual[0,0,0]", "q[9]", "z"};
  const std::vector<FieldError> errors = Check(c);
  ASSERT_EQ(errors.size(), 2u);
  EXPECT_EQ(errors[0].field, "slices[1]");
  EXPECT_EQ(errors[1].field, "slices[2]");
  c.slices.assign(kMaxSlices + 1, "actual[0,0,0]");
  ASSERT_EQ(Check(c).size(), 1u);
  EXPECT_EQ(Check(c)[0].field, "slices");
}

TEST(CheckSlices, KnowsThatChecksumsHaveNoReference) {
  Case c;
  GemmProblem p;
  p.m = p.n = p.k = 64;
  c.problem = p;
  c.dtype = DType::kF32;
  c.verify = Verification::kChecksum;
  c.slices = {"actual[0]", "expected[0]"};
  const std::vector<FieldError> errors = Check(c);
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].field, "slices[1]");
}

}  // namespace
}  // namespace assay
