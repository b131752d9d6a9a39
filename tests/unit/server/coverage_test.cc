// What a budget has left out altogether.
#include "server/plan/coverage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace assay::server {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

v1::CaseSpec Listed(std::int64_t count, const std::string& pattern = "") {
  v1::CaseSpec spec;
  spec.mutable_copy()->set_count(count);
  spec.set_dtype(v1::DTYPE_FP32);
  spec.set_provider("builtin");
  spec.set_pattern(pattern);
  return spec;
}

TEST(Coverage, ARungOfALadderIsEnough) {
  Coverage coverage;
  EXPECT_THAT(coverage.Missed({Listed(8), Listed(8000)}), ElementsAre("copy builtin fp32"));
  coverage.Ran(Listed(8));
  EXPECT_THAT(coverage.Missed({Listed(8), Listed(8000)}), IsEmpty());
}

TEST(Coverage, WhatElseIsAskedOfAKernelIsAnotherMatter) {
  Coverage coverage;
  coverage.Ran(Listed(8));
  v1::CaseSpec timed = Listed(8), repeated = Listed(8);
  timed.set_mode(v1::MODE_BOTH);
  repeated.set_repeats(200);
  EXPECT_THAT(coverage.Missed({Listed(8), timed, repeated, Listed(8, "checkerboard")}),
              ElementsAre("copy builtin fp32 timed", "copy builtin fp32 repeated",
                          "copy builtin fp32 checkerboard"));
}

TEST(Coverage, AFillIsNeitherMissedNorAProof) {
  Coverage coverage;
  v1::CaseSpec fill = Listed(8);
  fill.set_fill(true);
  EXPECT_THAT(coverage.Missed({fill}), IsEmpty());
  coverage.Ran(fill);
  EXPECT_THAT(coverage.Missed({Listed(8)}), ElementsAre("copy builtin fp32"));
}

}  // namespace
}  // namespace assay::server
