// Where NaN and infinities of an output come from: the inputs, the kernel, or poison that was never
// overwritten; and which of them the reference has, too.
#include "kernels/judge/provenance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/text/cat.h"

namespace assay {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// "nan of input, expected, 2 from 5"
std::vector<std::string> Traced(const CompareResult& compare, std::int64_t unwritten,
                                const std::vector<OperandStats>& inputs) {
  std::vector<std::string> all;
  for (const Provenance& p : TraceNonFinite(compare, unwritten, inputs)) {
    all.push_back(Cat(p.kind, " of ", p.origin, p.expected ? ", expected, " : ", unexpected, ",
                      p.count, " from ", p.first));
  }
  return all;
}

CompareResult Found() {
  CompareResult r;
  r.nan_count = 9;
  r.first_nan = 3;
  r.unexpected_nan = 4;
  r.first_unexpected_nan = 5;
  r.inf_count = 7;
  r.first_inf = 10;
  r.unexpected_inf = 2;
  r.first_unexpected_inf = 11;
  return r;
}

TEST(Provenance, ComesFromTheInputsOrElseFromTheKernel) {
  OperandStats finite, nan, inf;
  nan.nan_count = 1;
  inf.inf_count = 1;
  EXPECT_THAT(
      Traced(Found(), 0, {finite, finite}),
      ElementsAre("nan of kernel, expected, 5 from 3", "nan of kernel, unexpected, 4 from 5",
                  "inf of kernel, expected, 5 from 10", "inf of kernel, unexpected, 2 from 11"));
  EXPECT_THAT(
      Traced(Found(), 0, {finite, nan}),
      ElementsAre("nan of input, expected, 5 from 3", "nan of input, unexpected, 4 from 5",
                  "inf of kernel, expected, 5 from 10", "inf of kernel, unexpected, 2 from 11"));
  EXPECT_THAT(
      Traced(Found(), 0, {inf}),
      ElementsAre("nan of kernel, expected, 5 from 3", "nan of kernel, unexpected, 4 from 5",
                  "inf of input, expected, 5 from 10", "inf of input, unexpected, 2 from 11"));
}

TEST(Provenance, NamesOnlyWhatThereIs) {
  CompareResult r;
  EXPECT_FALSE(HasNonFinite(r, 0));
  EXPECT_THAT(Traced(r, 0, {}), IsEmpty());
  r.nan_count = r.unexpected_nan = 1;
  r.first_nan = r.first_unexpected_nan = 0;
  EXPECT_TRUE(HasNonFinite(r, 0));
  EXPECT_THAT(Traced(r, 0, {}), ElementsAre("nan of kernel, unexpected, 1 from 0"));
  r = {};
  r.inf_count = 1;
  r.first_inf = 2;
  EXPECT_TRUE(HasNonFinite(r, 0));
  EXPECT_THAT(Traced(r, 0, {}), ElementsAre("inf of kernel, expected, 1 from 2"));
}

// Poison is NaN: elements that were never written are named as such and not a second time.
TEST(Provenance, PoisonIsNoNaNOfTheKernel) {
  CompareResult r;
  r.nan_count = r.unwritten = 6;
  r.first_nan = r.first_unwritten = 1;
  EXPECT_FALSE(HasNonFinite(r, 6));
  EXPECT_THAT(Traced(r, 6, {}), ElementsAre("nan of unwritten, unexpected, 6 from 1"));
  r.nan_count = 8;
  r.unexpected_nan = 2;
  r.first_unexpected_nan = 4;
  EXPECT_TRUE(HasNonFinite(r, 6));
  EXPECT_THAT(Traced(r, 6, {}), ElementsAre("nan of unwritten, unexpected, 6 from 1",
                                            "nan of kernel, unexpected, 2 from 4"));
  // An output that sets the poison's bits itself is not unwritten if the other poison says so.
  EXPECT_TRUE(HasNonFinite(r, 0));
  EXPECT_THAT(Traced(r, 0, {}), ElementsAre("nan of kernel, expected, 6 from 1",
                                            "nan of kernel, unexpected, 2 from 4"));
}

}  // namespace
}  // namespace assay
