// Shapes near those that the user named: what is drawn, what is kept, and what is drawn again.
#include "client/lib/held_out.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "client/lib/case_options.h"
#include "client/lib/operators.h"
#include "tests/unit/client/fake_service.h"

namespace assay::client {
namespace {

using testing::BadRequest;
using ::testing::ElementsAre;

v1::CaseSpec Gemm(std::int64_t m, std::int64_t n, std::int64_t k) {
  v1::CaseSpec spec;
  spec.mutable_gemm()->set_m(m);
  spec.mutable_gemm()->set_n(n);
  spec.mutable_gemm()->set_k(k);
  spec.set_dtype(v1::DTYPE_FP32);
  spec.set_provider("builtin");
  return spec;
}

v1::JobSpec JobOf(const std::vector<v1::CaseSpec>& cases, std::uint64_t seed = 1) {
  v1::JobSpec job;
  for (const v1::CaseSpec& spec : cases) *job.mutable_cases()->add_cases() = spec;
  job.set_seed(seed);
  return job;
}

std::vector<std::string> NamesOf(const v1::JobSpec& job) {
  std::vector<std::string> names;
  for (const v1::CaseSpec& spec : job.cases().cases()) names.push_back(spec.name());
  return names;
}

// The last case of the job.
const v1::CaseSpec& Last(const v1::JobSpec& job) { return *job.cases().cases().rbegin(); }

TEST(HeldOut, DrawsShapesNearTheNamedOneAndNamesThem) {
  const v1::JobSpec job = HeldOut(JobOf({Gemm(128, 128, 128)}), 3).Job();
  ASSERT_EQ(job.cases().cases_size(), 4);
  EXPECT_EQ(job.cases().cases(0).SerializeAsString(), Gemm(128, 128, 128).SerializeAsString());
  for (int i = 1; i < 4; ++i) {
    const v1::CaseSpec& spec = job.cases().cases(i);
    for (const std::int64_t extent : {spec.gemm().m(), spec.gemm().n(), spec.gemm().k()}) {
      EXPECT_GE(extent, 96);
      EXPECT_LE(extent, 160);
    }
    EXPECT_EQ(spec.name(), "held out: gemm m=" + std::to_string(spec.gemm().m()) +
                               " n=" + std::to_string(spec.gemm().n()) +
                               " k=" + std::to_string(spec.gemm().k()) + " fp32 builtin");
    EXPECT_EQ(spec.dtype(), v1::DTYPE_FP32);
  }
  EXPECT_NE(job.cases().cases(1).name(), job.cases().cases(2).name());
}

TEST(HeldOut, TheSeedDrawsWhateverElseTheJobHas) {
  const std::vector<std::string> first = NamesOf(HeldOut(JobOf({Gemm(64, 64, 64)}), 2).Job());
  EXPECT_EQ(NamesOf(HeldOut(JobOf({Gemm(64, 64, 64)}), 2).Job()), first);
  EXPECT_NE(NamesOf(HeldOut(JobOf({Gemm(64, 64, 64)}, 2), 2).Job()), first);
  EXPECT_EQ(Last(HeldOut(JobOf({Gemm(99, 99, 99), Gemm(64, 64, 64)}), 1).Job()).name(), first[1]);
  v1::CaseSpec own_seed = Gemm(64, 64, 64);
  own_seed.set_seed(1);
  EXPECT_EQ(Last(HeldOut(JobOf({own_seed}, 5), 1).Job()).name(), first[1]);
}

TEST(HeldOut, CasesOfOneShapeGetTheSameShapes) {
  v1::CaseSpec other = Gemm(64, 64, 64);
  other.set_provider("user/0123456789ab");
  const v1::JobSpec job = HeldOut(JobOf({Gemm(64, 64, 64), other}), 1).Job();
  ASSERT_EQ(job.cases().cases_size(), 4);
  const v1::CaseSpec &first = job.cases().cases(2), &second = job.cases().cases(3);
  EXPECT_EQ(first.gemm().SerializeAsString(), second.gemm().SerializeAsString());
  EXPECT_EQ(second.provider(), "user/0123456789ab");
  EXPECT_TRUE(second.name().ends_with(" fp32 user/0123456789ab"));
}

TEST(HeldOut, WhatBelongsToTheNamedShapeStaysThere) {
  v1::CaseSpec spec = Gemm(64, 64, 64);
  spec.add_slices("actual[63,63]");
  spec.set_min_efficiency(0.5);
  spec.set_atol(1e-3);
  spec.set_pattern("normal:2");
  spec.mutable_gemm()->set_alpha(0.5);
  const v1::CaseSpec drawn = Last(HeldOut(JobOf({spec}), 1).Job());
  EXPECT_EQ(drawn.slices_size(), 0);
  EXPECT_EQ(drawn.min_efficiency(), 0);
  EXPECT_EQ(drawn.atol(), 1e-3);
  EXPECT_EQ(drawn.gemm().alpha(), 0.5);
  EXPECT_TRUE(drawn.name().ends_with(" alpha=0.5 fp32 normal:2 builtin")) << drawn.name();
}

TEST(HeldOut, SmallExtentsAreKept) {
  HeldOut held_out(JobOf({Gemm(8, 15, 1), Gemm(8, 64, 1), Gemm(8, 15, 1)}), 2);
  const v1::JobSpec job = held_out.Job();
  ASSERT_EQ(job.cases().cases_size(), 5);
  EXPECT_EQ(Last(job).gemm().m(), 8);
  EXPECT_EQ(Last(job).gemm().k(), 1);
  EXPECT_NE(Last(job).gemm().n(), 64);
  EXPECT_THAT(held_out.Lacking(), ElementsAre("gemm m=8 n=15 k=1"));
}

TEST(HeldOut, FieldsOfALengthKeepTheirDifference) {
  v1::CaseSpec spec;
  spec.mutable_attention()->set_heads(4);
  spec.mutable_attention()->set_seq(100);
  spec.mutable_attention()->set_kv_seq(140);
  spec.mutable_attention()->set_dim(64);
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const v1::AttentionProblem drawn = Last(HeldOut(JobOf({spec}, seed), 1).Job()).attention();
    EXPECT_EQ(drawn.kv_seq() - drawn.seq(), 40);
    EXPECT_EQ(drawn.heads(), 4);
  }
}

// An option of each operator that is a whole number, or a list of them, is set to 100.
v1::CaseSpec Wide(const std::string& op) {
  std::vector<GivenOption> given;
  for (const CaseOption& option : ProblemOptions(op)) {
    if (option.value == "N") given.emplace_back(option, "100");
    if (option.value == "N[xN…]") given.emplace_back(option, "100x100");
  }
  return Expand(op, given)->front();
}

TEST(HeldOut, KnowsTheExtentsOfEachOperator) {
  for (const std::string& op : OperatorNames()) {
    const bool known = InfoOf(op).operands_size() > 0;
    EXPECT_EQ(HasExtents(op), known) << op;
    HeldOut held_out(JobOf({Wide(op)}), 1);
    EXPECT_EQ(held_out.Job().cases().cases_size(), known ? 2 : 1) << op;
    EXPECT_EQ(held_out.Lacking().empty(), known) << op;
  }
  const v1::ConvProblem conv = Last(HeldOut(JobOf({Wide("conv")}), 1).Job()).conv();
  EXPECT_NE(conv.filters(), 100);
  EXPECT_NE(conv.input(0), conv.input(1));
  EXPECT_EQ(conv.channels(), 100) << "groups must divide them";
  EXPECT_EQ(conv.stride(0), 100) << "no extent";
}

TEST(HeldOut, ARefusedShapeIsDrawnAgainUntilItIsGivenUp) {
  HeldOut held_out(JobOf({Gemm(64, 64, 64), Gemm(96, 96, 96)}), 1);
  const grpc::Status refused = BadRequest({{"spec.cases[3].gemm.k", "must be even"}});
  std::vector<std::string> before = NamesOf(held_out.Job());
  int draws = 1;
  while (held_out.DrawAgain(refused) && held_out.Job().cases().cases_size() == 4) {
    const std::vector<std::string> now = NamesOf(held_out.Job());
    EXPECT_EQ(now[2], before[2]) << "that one was not refused";
    EXPECT_NE(now[3], before[3]);
    before = now;
    ++draws;
  }
  EXPECT_EQ(draws, 8);
  ASSERT_EQ(held_out.Job().cases().cases_size(), 3);
  EXPECT_THAT(held_out.Lacking(), ElementsAre("gemm m=96 n=96 k=96"));
}

TEST(HeldOut, AShapeLacksOneOfTwoNearIt) {
  HeldOut held_out(JobOf({Gemm(64, 64, 64)}), 2);
  const grpc::Status refused = BadRequest({{"spec.cases[2].gemm.k", "must be even"}});
  while (held_out.Job().cases().cases_size() == 3) ASSERT_TRUE(held_out.DrawAgain(refused));
  EXPECT_EQ(held_out.Job().cases().cases_size(), 2) << "the other one stays";
  EXPECT_THAT(held_out.Lacking(), ElementsAre("gemm m=64 n=64 k=64"));
}

// The daemon ends a long list of mistakes with a line of the whole job.
TEST(HeldOut, TheRestOfALongListSpeaksAgainstNoOtherShape) {
  HeldOut held_out(JobOf({Gemm(64, 64, 64), Gemm(96, 96, 96)}), 1);
  const std::vector<std::string> before = NamesOf(held_out.Job());
  EXPECT_TRUE(held_out.DrawAgain(
      BadRequest({{"spec.cases[3].gemm.k", "must be even"}, {"spec", "and 40 more"}})));
  const std::vector<std::string> now = NamesOf(held_out.Job());
  ASSERT_EQ(now.size(), 4U);
  EXPECT_EQ(now[2], before[2]);
  EXPECT_NE(now[3], before[3]);
}

TEST(HeldOut, WhatNoOtherShapeMendsIsGivenUpAtOnce) {
  for (const char* field : {"spec.cases[1].pattern", "job.spec.cases[1]", "spec.cases[1].name"}) {
    HeldOut held_out(JobOf({Gemm(64, 64, 64)}), 1);
    EXPECT_TRUE(held_out.DrawAgain(BadRequest({{field, "is wrong"}}))) << field;
    EXPECT_EQ(held_out.Job().cases().cases_size(), 1) << field;
    EXPECT_FALSE(held_out.DrawAgain(BadRequest({{"spec.cases[0].pattern", "is wrong"}})));
  }
}

TEST(HeldOut, TheDrawnCasesGoIfTheNamedOnesAreRefused) {
  for (const char* field : {"spec.cases.cases[0].gemm.m", "spec.device", "spec.cases[x].gemm.m"}) {
    HeldOut held_out(JobOf({Gemm(64, 64, 64)}), 1);
    EXPECT_TRUE(held_out.DrawAgain(
        BadRequest({{field, "is wrong"}, {"spec.cases.cases[1].gemm.m", "is wrong"}})));
    EXPECT_EQ(held_out.Job().cases().cases_size(), 1) << field;
    EXPECT_FALSE(held_out.DrawAgain(BadRequest({{field, "is wrong"}})));
  }
  HeldOut held_out(JobOf({Gemm(64, 64, 64)}), 1);
  EXPECT_FALSE(held_out.DrawAgain({grpc::StatusCode::UNAVAILABLE, "Socket closed"}));
  EXPECT_EQ(held_out.Job().cases().cases_size(), 2);
}

// The named shape fits the device, and one that is a little larger may not.
TEST(HeldOut, IfThereIsNoRoomNoExtentIsAboveTheNamedOne) {
  const grpc::Status full = {grpc::StatusCode::RESOURCE_EXHAUSTED, "needs more"};
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    HeldOut held_out(JobOf({Gemm(64, 64, 64)}, seed), 1);
    ASSERT_TRUE(held_out.DrawAgain(full));
    const v1::GemmProblem drawn = Last(held_out.Job()).gemm();
    for (const std::int64_t extent : {drawn.m(), drawn.n(), drawn.k()}) {
      EXPECT_GE(extent, 48);
      EXPECT_LT(extent, 64);
    }
    EXPECT_TRUE(held_out.DrawAgain(full));
    EXPECT_EQ(held_out.Job().cases().cases_size(), 1);
    EXPECT_FALSE(held_out.DrawAgain(full)) << "the named shape has no room either";
  }
}

}  // namespace
}  // namespace assay::client
