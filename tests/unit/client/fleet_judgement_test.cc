// The judgement across nodes: who is accused, and above all who is not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "client/fleet/judgement.h"
#include "tests/unit/client/fleet_rows.h"

namespace assay::client::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

// Nodes that each gave these digests of one probe of one case.
struct Vote {
  const char* node;
  char digit;
  std::optional<bool> golden;
  const char* provider = "builtin";
  const char* assayd = "0.1.0";
};
std::vector<ReportRows> Votes(const std::vector<Vote>& votes) {
  std::vector<ReportRows> reports;
  for (const Vote& vote : votes) {
    ReportRows report = MakeReport(vote.node);
    report.job += vote.provider;  // one node may run several providers in jobs of their own
    report.versions["assayd"] = vote.assayd;
    report.tests.push_back(MakeTest(0, vote.provider));
    report.tests.back().probes.push_back({"exact-sparse", MakeDigest(vote.digit), vote.golden});
    reports.push_back(std::move(report));
  }
  return reports;
}

std::vector<std::string> Names(const Fleet& fleet, const Judgement& judgement) {
  std::vector<std::string> names;
  for (const Accused& accused : judgement.accused) {
    names.push_back(
        absl::StrCat(ChargeWord(accused.charge), " ", fleet.devices[accused.device].name()));
  }
  return names;
}

TEST(Digests, TheMinorityIsASuspectWithItsEvidence) {
  Fleet fleet;
  const Judgement judgement = JudgeReports(
      Votes({{"a1", 'a', {}}, {"a2", 'a', {}}, {"a3", 'b', {}}, {"a4", 'a', {}}}), &fleet);
  ASSERT_THAT(Names(fleet, judgement), ElementsAre("SUSPECT a3 cuda:0"));
  const Evidence& evidence = judgement.accused[0].evidence[0];
  EXPECT_EQ(evidence.case_name, "gemm 64x64x72 bf16 builtin");
  EXPECT_EQ(evidence.probe, "exact-sparse");
  EXPECT_EQ(evidence.digest, MakeDigest('b'));
  EXPECT_EQ(evidence.expected, MakeDigest('a'));
  EXPECT_EQ(evidence.agree, 3u);
  EXPECT_EQ(evidence.differ, 1u);
}

TEST(Digests, OneBitIsEnough) {
  auto reports = Votes({{"a1", 'a', {}}, {"a2", 'a', {}}, {"a3", 'a', {}}});
  reports[1].tests[0].probes[0].digest.back() = 'b';  // 1010 -> 1011
  Fleet fleet;
  EXPECT_THAT(Names(fleet, JudgeReports(reports, &fleet)), ElementsAre("SUSPECT a2 cuda:0"));
}

TEST(Digests, ATieAccusesNobodyAndSaysSo) {
  const Judgement judgement = JudgeReports(Votes({{"a1", 'a', {}}, {"a2", 'b', {}}}));
  EXPECT_THAT(judgement.accused, IsEmpty());
  EXPECT_THAT(judgement.undecided,
              ElementsAre(AllOf(HasSubstr("nobody is accused"), HasSubstr("a1 cuda:0"),
                                HasSubstr("a2 cuda:0"))));
}

TEST(Digests, OtherProvidersOfTheSameDevicesBreakATie) {
  Fleet fleet;
  const Judgement judgement = JudgeReports(Votes({{"a1", 'a', {}, "builtin"},
                                                  {"a2", 'b', {}, "builtin"},
                                                  {"a1", 'a', {}, "onednn"},
                                                  {"a2", 'a', {}, "onednn"},
                                                  {"a1", 'a', {}, "openblas"},
                                                  {"a2", 'a', {}, "openblas"}}),
                                           &fleet);
  EXPECT_THAT(Names(fleet, judgement), ElementsAre("SUSPECT a2 cuda:0"));
  EXPECT_EQ(judgement.accused[0].evidence[0].decided_by, "devices with any provider");
}

TEST(Digests, TheGoldenOneDecidesAgainstAMajority) {
  Fleet fleet;
  const Judgement judgement =
      JudgeReports(Votes({{"a1", 'b', false}, {"a2", 'b', false}, {"a3", 'a', true}}), &fleet);
  EXPECT_THAT(Names(fleet, judgement), ElementsAre("SUSPECT a1 cuda:0", "SUSPECT a2 cuda:0"));
  EXPECT_EQ(judgement.accused[0].evidence[0].expected, MakeDigest('a'));
  EXPECT_EQ(judgement.accused[0].evidence[0].decided_by, "golden");
}

TEST(Digests, AReportThatWasAlteredIsFoundThoughItSaysGolden) {
  Fleet fleet;
  EXPECT_THAT(
      Names(fleet,
            JudgeReports(Votes({{"a1", 'a', true}, {"a2", 'b', true}, {"a3", 'a', true}}), &fleet)),
      ElementsAre("SUSPECT a2 cuda:0"));
  EXPECT_THAT(JudgeReports(Votes({{"a1", 'a', true}, {"a2", 'b', true}})).accused, IsEmpty());
}

TEST(Digests, ALibraryThatIsOfOneMindIsNoCard) {
  const Judgement judgement = JudgeReports(Votes({{"a1", 'a', {}, "builtin"},
                                                  {"a2", 'a', {}, "builtin"},
                                                  {"a1", 'b', {}, "onednn"},
                                                  {"a2", 'b', {}, "onednn"}}));
  EXPECT_THAT(judgement.accused, IsEmpty());
  EXPECT_THAT(judgement.divided, ElementsAre(AllOf(HasSubstr("builtin"), HasSubstr("onednn"),
                                                   HasSubstr("no single card"))));
}

// Five of one card and three of another, which all gave another digest.
TEST(Digests, AKernelThatIsWrongOnOneModelIsNoCard) {
  auto reports = Votes({{"a1", 'a', {}},
                        {"a2", 'a', {}},
                        {"a3", 'a', {}},
                        {"a4", 'a', {}},
                        {"a5", 'a', {}},
                        {"b1", 'b', {}},
                        {"b2", 'b', {}},
                        {"b3", 'b', {}}});
  for (std::size_t i = 5; i < 8; ++i) reports[i].model = "B card";
  const Judgement judgement = JudgeReports(reports);
  EXPECT_THAT(judgement.accused, IsEmpty());
  EXPECT_THAT(judgement.divided,
              ElementsAre(AllOf(HasSubstr("all devices of model B card gave bbbbbbbb…"),
                                HasSubstr("aaaaaaaa… is what the others gave"))));
  // One of them alone is a card.
  reports[6].tests[0].probes[0].digest = reports[7].tests[0].probes[0].digest = MakeDigest('a');
  Fleet fleet;
  EXPECT_THAT(Names(fleet, JudgeReports(reports, &fleet)), ElementsAre("SUSPECT b1 cuda:0"));
  // Nor are two that differ from one another.
  reports[6].tests[0].probes[0].digest = MakeDigest('c');
  reports.pop_back();
  Fleet differ;
  EXPECT_THAT(Names(differ, JudgeReports(reports, &differ)),
              ElementsAre("SUSPECT b1 cuda:0", "SUSPECT b2 cuda:0"));
}

TEST(Digests, AKernelThatMissesTheGoldenOneEverywhereIsNoCard) {
  auto reports = Votes({{"a1", 'b', false}, {"a2", 'b', false}, {"a3", 'b', false}});
  const Judgement judgement = JudgeReports(reports);
  EXPECT_THAT(judgement.accused, IsEmpty());
  EXPECT_THAT(judgement.everywhere,
              ElementsAre(AllOf(HasSubstr("all devices of model A card gave bbbbbbbb…"),
                                HasSubstr("is not the suite's own digest"))));
  reports.resize(1);
  EXPECT_THAT(JudgeReports(reports).accused, SizeIs(1)) << "of one device nothing is shared";
}

TEST(Digests, AnOtherVersionOfAssaydMayHaveOtherProbes) {
  const Judgement judgement = JudgeReports(Votes(
      {{"a1", 'a', {}}, {"a2", 'a', {}}, {"a3", 'a', {}}, {"old", 'b', {}, "builtin", "0.0.9"}}));
  EXPECT_THAT(judgement.accused, IsEmpty());
  EXPECT_THAT(judgement.divided,
              ElementsAre(AllOf(HasSubstr("0.0.9"), HasSubstr("old cuda:0 is alone with one"),
                                Not(HasSubstr("no single card")))));
  EXPECT_THAT(judgement.differences, Contains(HasSubstr("assayd: 0.1.0 on a1 cuda:0")));
}

TEST(Digests, ASuitesOwnIsHeldAgainstAVersionThatHasNone) {
  const auto votes = [](char old, std::optional<bool> golden) {
    return Votes({{"a1", 'a', true}, {"a2", 'a', true}, {"old", old, golden, "builtin", "0.0.9"}});
  };
  const Judgement judgement = JudgeReports(votes('b', {}));
  EXPECT_THAT(judgement.accused, IsEmpty());
  EXPECT_THAT(judgement.divided, ElementsAre(HasSubstr("old cuda:0 is alone")));
  EXPECT_THAT(JudgeReports(votes('a', {})).divided, IsEmpty());
  EXPECT_THAT(JudgeReports(votes('b', true)).divided, IsEmpty()) << "each has its own suite's";
}

TEST(Digests, OfACopyTheOutputsOwnForTheSameSeed) {
  std::vector<ReportRows> reports;
  for (const char* node : {"a1", "a2", "a3", "a4"}) {
    reports.push_back(MakeReport(node));
    reports.back().tests.push_back(MakeTest(0));
    reports.back().tests[0].op = "copy";
    reports.back().tests[0].digest = MakeDigest(node[1] == '3' ? 'b' : node[1] == '4' ? 'c' : 'a');
  }
  reports[3].tests[0].seed = "2";  // other data, another digest
  Fleet fleet;
  EXPECT_THAT(Names(fleet, JudgeReports(reports, &fleet)), ElementsAre("SUSPECT a3 cuda:0"));
}

TEST(Failures, AreOfTheirDeviceUnlessItFailsEverywhere) {
  std::vector<ReportRows> reports;
  for (const char* node : {"a1", "a2", "a3"}) {
    reports.push_back(MakeReport(node));
    reports.back().tests = {MakeTest(0), MakeTest(1)};
    reports.back().tests[1].verdict = "FAILED";
    reports.back().tests[1].reason = "bound";
  }
  reports[1].tests[0].verdict = "ERROR";
  reports[1].tests[0].reason = "crash";
  reports[1].tests[0].message = "worker killed by SIGSEGV";
  Fleet fleet;
  const Judgement judgement = JudgeReports(reports, &fleet);
  EXPECT_THAT(Names(fleet, judgement), ElementsAre("FAILED a2 cuda:0"));
  EXPECT_THAT(judgement.accused[0].evidence, SizeIs(1));
  EXPECT_THAT(
      judgement.accused[0].evidence[0].text,
      AllOf(HasSubstr("ERROR crash"), HasSubstr("2 of 3 devices that ran it did not fail")));
  EXPECT_THAT(judgement.everywhere, ElementsAre(AllOf(HasSubstr("gemm 65x"), HasSubstr("all 3"))));
}

// The case failed on the last four of eight nodes.
std::vector<ReportRows> FailedOnHalf() {
  std::vector<ReportRows> reports;
  for (int node = 0; node < 8; ++node) {
    reports.push_back(MakeReport(absl::StrCat("a", node)));
    reports.back().tests = {MakeTest(0)};
    if (node < 4) continue;
    reports.back().tests[0].verdict = "FAILED";
    reports.back().tests[0].reason = "bound";
  }
  return reports;
}

TEST(Failures, OfAllDevicesOfAModelAreTheKernels) {
  auto reports = FailedOnHalf();
  EXPECT_THAT(JudgeReports(reports).accused, SizeIs(4));
  for (std::size_t i = 4; i < 8; ++i) reports[i].model = "B card";
  const Judgement judgement = JudgeReports(reports);
  EXPECT_THAT(judgement.accused, IsEmpty());
  EXPECT_THAT(judgement.everywhere,
              ElementsAre(HasSubstr("FAILED on all devices of model B card that ran it (bound)")));
  // Of the B cards one is right.
  reports[7].tests[0] = MakeTest(0);
  EXPECT_THAT(JudgeReports(reports).accused, SizeIs(3));
  // Of the B cards there is but one.
  reports.resize(5);
  EXPECT_THAT(JudgeReports(reports).accused, SizeIs(1));
}

TEST(Failures, OfAllDevicesWithOneDriverAreTheSoftwares) {
  auto reports = FailedOnHalf();
  for (std::size_t i = 4; i < 8; ++i) reports[i].driver = "590.1";
  const Judgement judgement = JudgeReports(reports);
  EXPECT_THAT(judgement.accused, IsEmpty());
  EXPECT_THAT(judgement.everywhere,
              ElementsAre(HasSubstr("all devices of model A card with driver 590.1")));
  reports[0].driver = "590.1";
  EXPECT_THAT(JudgeReports(reports).accused, SizeIs(4)) << "one with it is right";
}

TEST(Failures, WhatTheHostDoesToACaseAccusesNobody) {
  std::vector<ReportRows> reports;
  for (const char* node : {"a1", "a2", "a3"}) {
    reports.push_back(MakeReport(node));
    reports.back().tests = {MakeTest(0), MakeTest(1)};
  }
  ReportRows::Test& late = reports[1].tests[0];
  late.verdict = "ERROR";
  late.reason = "timeout";
  late.phase = "recheck";
  EXPECT_THAT(JudgeReports(reports).accused, IsEmpty());
  late.phase = "kernel";
  late.reason = "memory";
  EXPECT_THAT(JudgeReports(reports).accused, IsEmpty()) << "the host had none";
  late.reason = "crash";
  late.blame = v1::BLAME_HOST;
  EXPECT_THAT(JudgeReports(reports).accused, IsEmpty()) << "it was killed from outside";
  late.reason = "timeout";
  late.phase = "recheck";
  late.blame = v1::BLAME_KERNEL;
  EXPECT_EQ(JudgeReports(reports).watch.size(), 1u) << "what the daemon says of blame stands";
}

TEST(Failures, OneKernelThatIsLateIsWatchedAndTwoAreAccused) {
  std::vector<ReportRows> reports;
  for (const char* node : {"a1", "a2", "a3"}) {
    reports.push_back(MakeReport(node));
    reports.back().tests = {MakeTest(0), MakeTest(1), MakeTest(2)};
  }
  for (int late = 0; late < 2; ++late) {
    ReportRows::Test& test = reports[1].tests[static_cast<std::size_t>(late)];
    test.verdict = "ERROR";
    test.reason = "timeout";
    test.phase = "kernel";
    Fleet fleet;
    const Judgement judgement = JudgeReports(reports, &fleet);
    if (late == 0) {
      EXPECT_THAT(judgement.accused, IsEmpty());
      EXPECT_THAT(judgement.watch, ElementsAre(AllOf(HasSubstr("a2 cuda:0"), HasSubstr("timeout"),
                                                     HasSubstr("2 of 3 devices"))));
    } else {
      EXPECT_THAT(Names(fleet, judgement), ElementsAre("FAILED a2 cuda:0"));
      EXPECT_THAT(judgement.watch, IsEmpty());
    }
  }
}

// The worker died before it could say what data the case had.
TEST(Failures, ACrashIsHeldAgainstThoseThatDidNot) {
  const auto reports = [](std::size_t crashed) {
    std::vector<ReportRows> all;
    for (std::size_t node = 0; node < 3; ++node) {
      all.push_back(MakeReport(absl::StrCat("a", node)));
      all.back().tests = {MakeTest(0)};
      if (node >= crashed) continue;
      ReportRows::Test& test = all.back().tests[0];
      test.key = "gemm k=72 m=64 n=64 bf16 bf16 ";
      test.whole_key = false;
      test.verdict = "ERROR";
      test.reason = "crash";
    }
    return all;
  };
  Fleet fleet;
  const Judgement one = JudgeReports(reports(1), &fleet);
  ASSERT_THAT(Names(fleet, one), ElementsAre("FAILED a0 cuda:0"));
  EXPECT_THAT(one.accused[0].evidence[0].text,
              HasSubstr("2 of 3 devices that ran it did not fail"));
  const Judgement all = JudgeReports(reports(3));
  EXPECT_THAT(all.accused, IsEmpty());
  EXPECT_THAT(all.everywhere, ElementsAre(HasSubstr("ERROR on all 3 devices")));
}

TEST(Similarity, IsOneMinusTheSlowSideOfTheAreaBetween) {
  const RateQuantiles centroid = {98, 100, 101};
  EXPECT_DOUBLE_EQ(Similarity(centroid, centroid), 1);
  EXPECT_DOUBLE_EQ(Similarity({98 * 0.88, 88, 101 * 0.88}, centroid), 0.88);
  EXPECT_DOUBLE_EQ(Similarity({110, 120, 130}, centroid), 1);
  // The slowest tenth alone is slower: 0.1 of the area and half of the next 0.4.
  EXPECT_NEAR(Similarity({49, 100, 101}, centroid), 1 - (0.1 + 0.2) * 49 / 99.6, 5e-3);
}

std::vector<ReportRows> Timed(const std::vector<double>& speeds, int cases = 1) {
  std::vector<ReportRows> reports;
  for (std::size_t node = 0; node < speeds.size(); ++node) {
    reports.push_back(MakeReport(absl::StrCat("n", node)));
    for (int i = 0; i < cases; ++i) {
      reports.back().tests.push_back(MakeTest(i));
      reports.back().tests.back().times = MakeTimes((1 + i) * 1e-4 / speeds[node]);
    }
  }
  return reports;
}

TEST(Throughput, NobodyIsAccusedOfLessThanTheCustomarySpread) {
  EXPECT_THAT(JudgeReports(Timed({1, 1, 1, 1, 1, 1, 1, 0.955})).accused, IsEmpty());
}

TEST(Throughput, NeedsFourPeersOfTheModel) {
  const Judgement few = JudgeReports(Timed({1, 1, 1, 0.5}));
  EXPECT_THAT(few.accused, IsEmpty());
  EXPECT_EQ(few.throughput.too_few_peers, 1);
  EXPECT_FALSE(few.compared());
  Fleet fleet;
  EXPECT_THAT(Names(fleet, JudgeReports(Timed({1, 1.01, 1, 0.99, 0.5}), &fleet)),
              ElementsAre("SLOW n4 cuda:0"));
  auto models = Timed({1, 1.01, 1, 0.99, 0.5});
  models[4].model = "Another card";
  EXPECT_THAT(JudgeReports(models).accused, IsEmpty());
}

// Nodes with six devices of one model and two of a slower one, each by one job.
TEST(Throughput, OfANodeWithTwoModelsEachHasItsOwnPeers) {
  std::vector<ReportRows> reports;
  for (int node = 0; node < 3; ++node) {
    ReportRows& report = reports.emplace_back(MakeReport(absl::StrCat("n", node)));
    report.model = "A card,B card";  // as a report of both has it
    ReportRows::Daemon& daemon = report.daemons[report.target] = {report.host, "", {}};
    for (int card = 0; card < 8; ++card) {
      const std::string id = absl::StrCat("cuda:", card);
      daemon.models[id] = card < 6 ? "A card" : "B card";
      ReportRows::Test& test = report.tests.emplace_back(MakeTest(0));
      test.device = id;
      test.times = MakeTimes(card < 6 ? 1e-4 : 2e-4);
    }
  }
  EXPECT_THAT(JudgeReports(reports).accused, IsEmpty());
  reports[1].tests[7].times = MakeTimes(4e-4);
  Fleet fleet;
  EXPECT_THAT(Names(fleet, JudgeReports(reports, &fleet)), ElementsAre("SLOW n1 cuda:7"));
}

// Half the time of a tiny case may be the host's, which a graph of launches does not have.
TEST(Throughput, ATimeInAGraphIsHeldAgainstItsLikeOnly) {
  auto reports = Timed({1, 1, 1, 1, 1, 1, 0.5});
  for (std::size_t node = 0; node < 6; ++node) reports[node].tests[0].times->replayed = true;
  EXPECT_THAT(JudgeReports(reports).accused, IsEmpty());
  reports[6].tests[0].times->replayed = true;
  Fleet fleet;
  EXPECT_THAT(Names(fleet, JudgeReports(reports, &fleet)), ElementsAre("SLOW n6 cuda:0"));
}

TEST(Throughput, AWideSpreadIsNoFault) {
  // Six of twelve 20 % slower: two kinds of machines under one name.
  EXPECT_THAT(JudgeReports(Timed({1, 1, 1, 1, 1, 1, .8, .8, .8, .8, .8, .8})).accused, IsEmpty());
}

TEST(Throughput, NoisyTimesAndTooFewSamplesSayNothing) {
  auto reports = Timed({1, 1, 1, 1, 1, 1, 0.5, 0.5});
  reports[6].tests[0].times->noisy = true;
  reports[7].tests[0].times->samples = 2;
  Fleet fleet;
  EXPECT_THAT(JudgeReports(reports, &fleet).accused, IsEmpty());
  EXPECT_EQ(fleet.noisy, 1);
  EXPECT_EQ(fleet.few_samples, 1);
}

// It may throttle all the time; nobody else's times are as restless.
TEST(Throughput, ADeviceWhoseTimesDoNotSettleIsWatched) {
  auto reports = Timed({1, 1, 1, 1, 1, 1}, 4);
  for (std::size_t i = 0; i < 3; ++i) reports[2].tests[i].times->noisy = true;
  const Judgement judgement = JudgeReports(reports);
  EXPECT_THAT(judgement.accused, IsEmpty());
  EXPECT_THAT(judgement.watch, ElementsAre("n2 cuda:0: 3 of 4 times did not settle, or others "
                                           "disturbed them: they were not compared"));
  reports[2].tests[2].times->noisy = false;
  EXPECT_THAT(JudgeReports(reports).watch, IsEmpty());
  for (ReportRows& report : reports) {
    for (ReportRows::Test& test : report.tests) test.times->noisy = true;
  }
  EXPECT_THAT(JudgeReports(reports).watch, IsEmpty()) << "a busy night";
}

TEST(Throughput, WhatIsUnlikeThePeersIsNamedBeside) {
  auto reports = Timed({1, 1.01, 1, 0.99, 1, 0.8});
  for (ReportRows& report : reports) {
    report.tests[0].times->clock_hertz = 1.98e9;
    report.tests[0].implementation = "AVX3";
  }
  reports[5].driver = "550.1";
  reports[5].versions["onednn"] = "2.5";
  reports[5].tests[0].times->clock_hertz = 1.5e9;
  reports[5].tests[0].times->throttle_reasons = {"power"};
  reports[5].tests[0].implementation = "AVX2";
  const Judgement judgement = JudgeReports(reports);
  ASSERT_THAT(judgement.accused, SizeIs(1));
  EXPECT_THAT(judgement.accused[0].unlike,
              ElementsAre("driver 550.1, 580.65 on 5 others", "onednn 2.5, 2.6.3 on 5 others"));
  EXPECT_THAT(judgement.accused[0].evidence[0].text,
              AllOf(HasSubstr("20.0 % under"), HasSubstr("core clock 1.50 GHz against 1.98 GHz"),
                    HasSubstr("throttled: power"), HasSubstr("kernel AVX2 against AVX3")));
}

// A fleet of 32 whose devices spread by `spread` and each of whose times has a noise of 1 %.
std::vector<ReportRows> RandomFleet(std::mt19937_64& random, double spread) {
  std::normal_distribution<double> normal;
  std::vector<ReportRows> reports;
  for (int node = 0; node < 32; ++node) {
    const double speed = 1 + spread * normal(random);
    reports.push_back(MakeReport(absl::StrCat("n", node)));
    for (int i = 0; i < 8; ++i) {
      reports.back().tests.push_back(MakeTest(i));
      ReportRows::Test& test = reports.back().tests.back();
      test.times = MakeTimes(1e-4 / (speed * (1 + 0.01 * normal(random))));
      test.probes.push_back({"exact-sparse", MakeDigest(static_cast<char>('0' + i)), {}});
    }
  }
  return reports;
}

TEST(Fleets, AThousandHealthyOnesHaveNobodyAccused) {
  std::mt19937_64 random(20261122);
  for (const double spread : {0.01, 0.03}) {
    int accused = 0;
    for (int i = 0; i < 500; ++i)
      accused += static_cast<int>(JudgeReports(RandomFleet(random, spread)).accused.size());
    EXPECT_EQ(accused, 0) << "spread " << spread;
  }
}

// Devices within 3 % of one another either way (three deviations): each planted fault is
// found in every fleet, and nobody else is accused.
TEST(Fleets, EveryPlantedFaultIsFoundAndNoOther) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 500; ++i) {
    auto reports = RandomFleet(random, 0.01);
    const std::size_t wrong = random() % 32, slow = (wrong + 1 + random() % 31) % 32;
    std::string& digest = reports[wrong].tests[random() % 8].probes[0].digest;
    char& digit = digest[random() % 32];
    digit = digit == '0' ? '1' : static_cast<char>(digit ^ 1);  // '2' and '3', … are one bit apart
    for (ReportRows::Test& test : reports[slow].tests) {
      for (double* time : {&test.times->p10, &test.times->median, &test.times->p90}) *time /= 0.88;
    }
    Fleet fleet;
    const Judgement judgement = JudgeReports(reports, &fleet);
    ASSERT_THAT(Names(fleet, judgement), ElementsAre(absl::StrCat("SUSPECT n", wrong, " cuda:0"),
                                                     absl::StrCat("SLOW n", slow, " cuda:0")))
        << "fleet " << i;
  }
}

TEST(Reports, OfTheSameJobCountOnce) {
  auto reports = Votes({{"a1", 'a', {}}, {"a2", 'b', {}}});
  reports.push_back(reports[1]);
  reports.push_back(reports[1]);
  Fleet fleet;
  EXPECT_THAT(JudgeReports(reports, &fleet).accused, IsEmpty()) << "three copies are no majority";
  EXPECT_THAT(fleet.duplicates, SizeIs(2));
  EXPECT_EQ(fleet.results, 2);
}

// Of one that was read while the job ran, and one of its end, in whichever order they are named.
TEST(Reports, OfAJobThatRanAndThenEndedCountWhole) {
  ReportRows whole = MakeReport("a1");
  whole.tests = {MakeTest(0), MakeTest(1)};
  whole.tests[1].verdict = "FAILED";
  whole.tests[1].reason = "bound";
  ReportRows early = whole;
  early.state = "RUNNING";
  early.tests.pop_back();
  ReportRows other = MakeReport("a2");
  other.tests = {MakeTest(0), MakeTest(1)};
  for (const auto& reports : {std::vector{early, whole, other}, std::vector{whole, early, other}}) {
    Fleet fleet;
    const Judgement judgement = JudgeReports(reports, &fleet);
    EXPECT_THAT(Names(fleet, judgement), ElementsAre("FAILED a1 cuda:0"));
    EXPECT_EQ(fleet.results, 4);
    EXPECT_THAT(fleet.duplicates, SizeIs(1));
  }
}

// A good daemon, and a bad one that is named twice.
TEST(Reports, OfOneDaemonByTwoAddressesHaveOneVote) {
  auto reports = Votes({{"good", 'a', {}}, {"bad", 'b', {}}, {"bad", 'b', {}}});
  reports[2].target = "10.0.0.7:7575";
  reports[2].job = "jobs/later";
  for (ReportRows& report : reports) {
    report.daemons[report.target] = {report.host, "2026-11-22T20:00:00Z 0.0.0.0:7575", {}};
  }
  Fleet fleet;
  const Judgement judgement = JudgeReports(reports, &fleet);
  EXPECT_THAT(judgement.accused, IsEmpty());
  EXPECT_THAT(judgement.undecided, SizeIs(1));
  EXPECT_THAT(fleet.duplicates,
              ElementsAre("10.0.0.7:7575 cuda:0 is bad:7575 cuda:0 by another address: one device, "
                          "one vote"));
  // Started again between the two, and known by its card.
  for (const std::size_t i : {1u, 2u}) {
    ReportRows::Daemon& daemon = reports[i].daemons.begin()->second;
    daemon.instance += std::to_string(i);
    daemon.uuids["cuda:0"] = "GPU-1";
  }
  Fleet again;
  EXPECT_THAT(JudgeReports(reports, &again).accused, IsEmpty());
  EXPECT_THAT(again.devices, SizeIs(2));
}

TEST(Reports, OfTwoDaemonsOnOneHostHaveTwoVotes) {
  auto reports = Votes({{"a1", 'a', {}}, {"a1", 'a', {}}, {"a1", 'b', {}}});
  for (std::size_t i = 0; i < reports.size(); ++i) {
    reports[i].target = absl::StrCat("127.0.0.1:", i);
    reports[i].daemons[reports[i].target] = {"a1", absl::StrCat("20:00 127.0.0.1:", i), {}};
  }
  Fleet fleet;
  EXPECT_THAT(Names(fleet, JudgeReports(reports, &fleet)),
              ElementsAre("SUSPECT 127.0.0.1:2 cuda:0"));
}

TEST(Reports, ACardThatWasReplacedIsAnotherDevice) {
  auto reports = Votes({{"a1", 'b', {}}, {"a1", 'a', {}}});
  reports[1].job = "jobs/later";
  for (std::size_t i = 0; i < reports.size(); ++i) {
    reports[i].daemons["a1:7575"] = {"a1", "", {{"cuda:0", absl::StrCat("GPU-", i)}}};
  }
  Fleet fleet;
  JudgeReports(reports, &fleet);
  EXPECT_THAT(fleet.devices, SizeIs(2));
}

TEST(Reports, OfDifferentSuitesAreComparedInTheCasesThatTheyShare) {
  auto reports = Votes({{"a1", 'a', {}}, {"a2", 'a', {}}, {"a3", 'b', {}}, {"a4", 'c', {}}});
  reports[2].suite = "smoke";
  reports[3].suite = "quick";
  reports[3].tests = {MakeTest(7)};
  reports[3].tests[0].probes.push_back({"exact-sparse", MakeDigest('c'), {}});
  Fleet fleet;
  const Judgement judgement = JudgeReports(reports, &fleet);
  EXPECT_THAT(Names(fleet, judgement), ElementsAre("SUSPECT a3 cuda:0"));
  EXPECT_THAT(
      judgement.differences,
      Contains(AllOf(HasSubstr("suite: nightly 2 on a1 cuda:0, a2 cuda:0"),
                     HasSubstr("smoke 2 on a3 cuda:0"), HasSubstr("quick 2 on a4 cuda:0"))));
}

TEST(Reports, ClocksHoursApartAreNamed) {
  auto reports = Timed({1, 1, 1});
  reports[1].generated_at = Evening() - absl::Hours(7);
  reports[2].generated_at = Evening() + absl::Hours(3);
  const Judgement judgement = JudgeReports(reports);
  EXPECT_THAT(judgement.differences, Contains(AllOf(HasSubstr("n1 cuda:0"), HasSubstr("older"))));
  EXPECT_THAT(judgement.differences,
              Contains(AllOf(HasSubstr("n2 cuda:0"), HasSubstr("ahead of this machine's"))));
}

TEST(Reports, NodesAreNamedByWhatOnlyTheyHave) {
  Fleet fleet;
  for (int port : {1, 2}) {
    ReportRows report = MakeReport("same");
    report.target = absl::StrCat("127.0.0.1:", port);
    report.tests = {MakeTest(0)};
    fleet.Add(report);
  }
  ReportRows other = MakeReport("other");
  other.tests = {MakeTest(0)};
  fleet.Add(other);
  fleet.NameNodes();
  EXPECT_EQ(fleet.devices[0].name(), "127.0.0.1:1 cuda:0");
  EXPECT_EQ(fleet.devices[1].name(), "127.0.0.1:2 cuda:0");
  EXPECT_EQ(fleet.devices[2].name(), "other cuda:0");
  EXPECT_EQ(fleet.node_count(), 3u);
}

}  // namespace
}  // namespace assay::client::testing
