// --held-out: what is asked of the daemon, and what is refused before it is asked.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/unit/client/command.h"

namespace assay::client::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(HeldOutCommand, ShapesStandBehindTheNamedOnes) {
  FakeService service;
  const auto cases = [&](std::vector<std::string> more) {
    EXPECT_EQ(RunGemm(service, std::move(more)).code, 0);
    return service.created().back().spec().cases();
  };
  EXPECT_EQ(cases({}).cases_size(), 1);
  EXPECT_EQ(cases({"--kernel", "user/0123456789ab"}).cases_size(), 1)
      << "the line that repeats a case repeats that case alone";
  const v1::CaseList held = cases({"--held-out", "2", "--provider", "builtin,onednn"});
  ASSERT_EQ(held.cases_size(), 6);
  EXPECT_EQ(held.cases(1).gemm().m(), 64);
  EXPECT_EQ(held.cases(1).name(), "");
  EXPECT_THAT(held.cases(2).name(), StartsWith("held out: gemm m="));
  EXPECT_EQ(held.cases(2).gemm().m(), held.cases(3).gemm().m());
  EXPECT_EQ(held.cases(3).provider(), "onednn");
}

TEST(HeldOutCommand, ARefusedShapeIsDrawnAgain) {
  FakeService service;
  service.create_status = BadRequest({{"spec.cases[1].gemm.k", "must be even"}});
  EXPECT_EQ(RunGemm(service, {"--held-out", "1"}).code, 2);
  const auto created = service.created();
  ASSERT_EQ(created.size(), 9U) << "eight draws, and the named case alone";
  EXPECT_NE(created[0].spec().cases().cases(1).name(), created[1].spec().cases().cases(1).name());
  EXPECT_EQ(created[8].spec().cases().cases_size(), 1);
}

TEST(HeldOutCommand, ShapesThatHaveNoneNearThemAreTold) {
  FakeService service;
  const Output output =
      Assay(service, {"run", "gemm", "--m", "8", "--n", "8,9", "--k", "8", "--held-out", "1"});
  EXPECT_EQ(output.code, 0);
  EXPECT_THAT(
      output.err,
      HasSubstr("assay: held-out: fewer shapes than asked for were drawn near gemm m=8 n=8 k=8 "
                "(and 1 more): extents below 16 are kept"));
  const auto report = [&](std::string n) {
    const Output document = Assay(service, {"run", "gemm", "--m", "8", "--n", std::move(n), "--k",
                                            "8", "--held-out", "1", "--format", "json"});
    return nlohmann::json::parse(document.out);
  };
  EXPECT_EQ(report("8,64,9")["held_out_lacking"],
            nlohmann::json({"gemm m=8 n=8 k=8", "gemm m=8 n=9 k=8"}));
  EXPECT_FALSE(report("64").contains("held_out_lacking"));
}

TEST(HeldOutCommand, SubmitNamesShapesThatLackOnesNearThem) {
  FakeService service;
  const auto job = [&](std::string n) {
    const Output output = Assay(service, {"submit", "gemm", "--m", "8", "--n", std::move(n), "--k",
                                          "8", "--held-out", "1", "--format", "json"});
    return nlohmann::json::parse(output.out);
  };
  EXPECT_EQ(job("8,64")["held_out_lacking"], nlohmann::json({"gemm m=8 n=8 k=8"}));
  EXPECT_FALSE(job("64").contains("held_out_lacking"));
}

TEST(HeldOutCommand, NeedsShapesOfAnOperator) {
  FakeService service;
  const auto said = [&](std::vector<std::string> args) {
    const Output output = Assay(service, std::move(args));
    EXPECT_EQ(output.code, 2);
    return output.err;
  };
  EXPECT_THAT(said({"run", "--suite", "smoke", "--held-out", "1"}),
              StartsWith("assay: held-out: belongs to an operator"));
  EXPECT_THAT(said({"run", "custom", "--input", "x=64", "--out", "y=64", "--held-out", "1"}),
              HasSubstr("held-out: which extents of custom belong together is not known"));
  EXPECT_THAT(said({"run", "copy", "--count", "64", "--held-out", "-1"}),
              StartsWith("assay: held-out: must be a whole number from 0 to 10000, got \"-1\""));
  EXPECT_THAT(said({"run", "copy", "--count", "64,65", "--held-out", "9000"}),
              HasSubstr("held-out: 18000 cases beside 2 are too many; at most 10000"));
  EXPECT_THAT(said({"run", "gemm", "--m", "64", "--n", "64", "--k", "64", "--held-out", "1",
                    "--criterion", "derived", "--accumulations", "64"}),
              HasSubstr("held-out: accumulations belong to the shape that you name"));
  EXPECT_TRUE(service.created().empty());
}

}  // namespace
}  // namespace assay::client::testing
