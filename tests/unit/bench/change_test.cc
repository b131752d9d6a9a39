// Whether two runs' times are read as they should be, of simulated launches: each run has
// an offset of its own, launches of a run depend on one another, and some straggle.
#include "kernels/numerics/change.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/bench/sampler.h"

namespace assay {
namespace {

struct Machine {
  double run_to_run = 0.005;  // relative deviation of a run's true time
  double spread = 0.01;       // of single launches
  double memory = 0.5;        // correlation of a launch with the one before
  double straggling = 0.02;   // share of launches that take up to twice as long
  int launches = 50;
};

class Simulation {
 public:
  explicit Simulation(std::uint32_t seed) : random_(seed) {}

  RunTimes Run(const Machine& machine, double seconds) {
    std::normal_distribution<double> normal;
    std::uniform_real_distribution<double> uniform;
    const double truth = seconds * std::exp(machine.run_to_run * normal(random_));
    std::vector<double> times;
    double state = normal(random_);
    for (int i = 0; i < machine.launches; ++i) {
      state =
          machine.memory * state + std::sqrt(1 - machine.memory * machine.memory) * normal(random_);
      double time = truth * std::exp(machine.spread * state);
      if (uniform(random_) < machine.straggling) time *= 1 + uniform(random_);
      times.push_back(time);
    }
    return {Quantile(times, 0.5), Quantile(times, 0.1), Quantile(times, 0.9), machine.launches,
            MedianStandardError(times)};
  }

 private:
  std::mt19937 random_;
};

struct Tally {
  int faster = 0, same = 0, slower = 0, ambiguous = 0;
};

// What 2,000 pairs of runs are read as, the second `slowdown` times as long.
Tally ReadPairs(const Machine& machine, double slowdown, double threshold = 0.05) {
  Simulation simulation(7);
  Tally tally;
  for (int i = 0; i < 2000; ++i) {
    const RunTimes before = simulation.Run(machine, 1e-3);
    const RunTimes after = simulation.Run(machine, 1e-3 * slowdown);
    const auto reading = ReadChange(before, after, threshold);
    switch (reading.value().change) {
      case Change::kFaster:
        ++tally.faster;
        break;
      case Change::kSame:
        ++tally.same;
        break;
      case Change::kSlower:
        ++tally.slower;
        break;
      case Change::kAmbiguous:
        ++tally.ambiguous;
        break;
    }
  }
  return tally;
}

const Machine kQuiet{.run_to_run = 0.003, .spread = 0.004};
const Machine kUsual{};
// As two cores of a shared host: launches spread widely, and their median hardly moves.
const Machine kShared{
    .run_to_run = 0.006, .spread = 0.025, .memory = 0.3, .straggling = 0.1, .launches = 300};
const Machine kBusy{.run_to_run = 0.012, .spread = 0.05, .memory = 0.8, .straggling = 0.08};
const Machine kHopeless{.run_to_run = 0.1, .spread = 0.5, .memory = 0.9, .straggling = 0.2};

TEST(Change, AnUnchangedKernelIsRarelyCalledSlowerOrFaster) {
  for (const Machine& machine : {kQuiet, kUsual, kShared, kBusy, kHopeless}) {
    for (const double threshold : {0.02, 0.05, 0.1}) {
      const Tally tally = ReadPairs(machine, 1, threshold);
      EXPECT_LE(tally.slower + tally.faster, 100)  // 5 of 100
          << "spread " << machine.spread << ", threshold " << threshold;
    }
  }
  for (const Machine& machine : {kQuiet, kUsual, kShared}) {
    EXPECT_GE(ReadPairs(machine, 1).same, 1900);
  }
}

TEST(Change, TenPercentAreCalledSlowerAndFaster) {
  for (const Machine& machine : {kQuiet, kUsual, kShared}) {
    EXPECT_GE(ReadPairs(machine, 1.1).slower, 1900) << "spread " << machine.spread;
    EXPECT_GE(ReadPairs(machine, 1 / 1.1).faster, 1900) << "spread " << machine.spread;
  }
  // With few launches, too.
  Machine few = kUsual;
  few.launches = 10;
  EXPECT_GE(ReadPairs(few, 1.1).slower, 1900);
}

TEST(Change, WhereNoiseIsLargerThanTheEffectItIsAmbiguous) {
  EXPECT_GE(ReadPairs(kHopeless, 1).ambiguous, 1900);
  EXPECT_GE(ReadPairs(kHopeless, 1.1).ambiguous, 1900);
  // A factor is told all the same.
  EXPECT_GE(ReadPairs(kBusy, 2).slower, 1900);
}

TEST(Change, TheStatedNoiseCoversRepeats) {
  for (const Machine& machine : {kQuiet, kUsual, kShared, kBusy}) {
    Simulation simulation(11);
    int agree = 0;
    for (int i = 0; i < 2000; ++i) {
      const RunTimes a = simulation.Run(machine, 1e-3);
      const RunTimes b = simulation.Run(machine, 1e-3);
      const auto reading = ReadChange(a, b);
      agree += std::abs(std::log(reading.value().ratio)) <= 1.96 * reading.value().noise ? 1 : 0;
    }
    EXPECT_GE(agree, 1900) << "spread " << machine.spread;
  }
}

TEST(Change, ExactTimesAreReadByTheThreshold) {
  const auto at = [](double seconds) { return RunTimes{seconds, seconds, seconds, 100}; };
  EXPECT_EQ(ReadChange(at(1), at(1)).value().change, Change::kSame);
  EXPECT_EQ(ReadChange(at(1), at(1.04)).value().change, Change::kSame);
  EXPECT_EQ(ReadChange(at(1), at(1.06)).value().change, Change::kSlower);
  EXPECT_EQ(ReadChange(at(1.06), at(1)).value().change, Change::kFaster);
  EXPECT_EQ(ReadChange(at(1), at(1.06), 0.1).value().change, Change::kSame);
  // A threshold that no run resolves: small changes cannot be told.
  EXPECT_EQ(ReadChange(at(1), at(1.005), 0.001).value().change, Change::kAmbiguous);
  EXPECT_DOUBLE_EQ(ReadChange(at(2), at(1)).value().ratio, 0.5);
}

TEST(Change, NearlyAllLaunchesMustAgreeWhereThereIsNoise) {
  // As with other work on the machine: twice the median, and yet some launches as before.
  const RunTimes before{1, 0.98, 1.1, 100};
  EXPECT_EQ(ReadChange(before, {2, 1.5, 2.2, 100}).value().change, Change::kSlower);
  EXPECT_EQ(ReadChange(before, {2, 0.95, 2.2, 100}).value().change, Change::kAmbiguous);
  EXPECT_EQ(ReadChange({2, 1.5, 2.2, 100}, before).value().change, Change::kFaster);
  EXPECT_EQ(ReadChange({2, 0.95, 2.2, 100}, before).value().change, Change::kAmbiguous);
}

// Medians of two runs of one kernel on two cores with three times as many programs.
TEST(Change, AMachineWithMuchOtherWorkTellsNoFactorOfFour) {
  const auto run = [](double median, double noise) {
    return RunTimes{median, median * (1 - noise / 2), median * (1 + 3 * noise / 2), 30};
  };
  EXPECT_EQ(ReadChange(run(2.13e-3, 0.45), run(8.53e-3, 0.42)).value().change, Change::kAmbiguous);
  EXPECT_EQ(ReadChange(run(1.11e-3, 0.25), run(3.95e-3, 0.58)).value().change, Change::kAmbiguous);
  EXPECT_EQ(ReadChange(run(2.13e-3, 0.45), run(213e-3, 0.42)).value().change, Change::kSlower);
}

TEST(Change, WhatOtherWorkSpreadsIsNotToldByPartsOfTheRun) {
  // Steady in itself for as long as it runs, and as long as the neighbour does.
  const RunTimes beside{1.2, 0.9, 1.8, 300, 0.001};
  EXPECT_EQ(ReadChange({1, 0.98, 1.04, 300, 0.001}, beside).value().change, Change::kAmbiguous);
  EXPECT_EQ(ReadChange({1, 0.98, 1.04, 300, 0.001}, {1.1, 1.07, 1.14, 300, 0.001}).value().change,
            Change::kSlower);
}

// A build and another benchmark held both cores for as long as the run took: each time was
// near the others, and 1.88 times the baseline's.
TEST(Change, WhatThreadsWaitedForOthersIsHeldAgainstNobody) {
  const auto run = [](double median, double waited) {
    return RunTimes{median, 0.99 * median, 1.01 * median, 300, 0.002, waited};
  };
  const auto read = [&](const RunTimes& before, const RunTimes& now) {
    return ReadChange(before, now).value().change;
  };
  EXPECT_EQ(read(run(1, 0), run(1.88, 0)), Change::kSlower);
  EXPECT_EQ(read(run(1, 0), run(1.88, 0.5)), Change::kAmbiguous);
  EXPECT_EQ(read(run(1, 0), run(1.88, 0.3)), Change::kSlower) << "whatever the others took";
  EXPECT_EQ(read(run(1.88, 0.5), run(1, 0)), Change::kAmbiguous);
  EXPECT_EQ(read(run(1.88, 0.3), run(1, 0)), Change::kFaster);
  EXPECT_EQ(read(run(1, 0.3), run(1, 0)), Change::kAmbiguous) << "alone it may have taken 0.7";
  EXPECT_EQ(read(run(1, 0.01), run(1, 0.01)), Change::kSame);
  EXPECT_EQ(read(run(1, 0.01), run(1.1, 0.01)), Change::kSlower);
  EXPECT_EQ(read(run(1, 1.7), run(1, 1.7)), Change::kAmbiguous);
  EXPECT_EQ(read(run(1, 0), run(40, 0.96)), Change::kSlower);
  EXPECT_EQ(read(run(1, 0), run(17, 0.95)), Change::kAmbiguous) << "a share of a seventeenth";
  EXPECT_EQ(read(run(1, 1.7), run(40, 1.7)), Change::kAmbiguous)
      << "threads that waited throughout";
  EXPECT_DOUBLE_EQ(ReadChange(run(1.88, 0.5), run(1.9, 0)).value().most_ratio, 1.9 / 0.94);
  EXPECT_DOUBLE_EQ(ReadChange(run(1, 0), run(1.2, 0.5)).value().most_ratio, 1.2);
}

TEST(Change, NoSpreadHidesAManifoldTime) {
  const RunTimes torn{1, 0.9, 9, 30};
  EXPECT_EQ(ReadChange(torn, {40, 36, 360, 30}).value().change, Change::kSlower);
  EXPECT_EQ(ReadChange({40, 36, 360, 30}, torn).value().change, Change::kFaster);
  EXPECT_EQ(ReadChange(torn, {9, 8.1, 81, 30}).value().change, Change::kSlower);
  EXPECT_EQ(ReadChange(torn, {7, 6.3, 63, 30}).value().change, Change::kAmbiguous);
}

TEST(Change, OneLaunchSaysOnlyWhatIsLarge) {
  const RunTimes one{1, std::nullopt, std::nullopt, 1};
  const RunTimes steady{1, 1, 1, 100};
  EXPECT_DOUBLE_EQ(MedianUncertainty(one), kUnknownSpread);
  EXPECT_EQ(ReadChange(steady, one).value().change, Change::kAmbiguous);
  EXPECT_EQ(ReadChange(steady, {1.1, std::nullopt, std::nullopt, 1}).value().change,
            Change::kAmbiguous);
  EXPECT_EQ(ReadChange(steady, {1.7, std::nullopt, std::nullopt, 1}).value().change,
            Change::kSlower);
}

TEST(Change, WhatIsNoTimeIsNotRead) {
  const RunTimes steady{1, 1, 1, 100};
  for (const double bad : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(),
                           std::numeric_limits<double>::infinity()}) {
    EXPECT_FALSE(ReadChange(steady, {bad, 1, 1, 100})) << bad;
    EXPECT_FALSE(ReadChange({bad, 1, 1, 100}, steady)) << bad;
    EXPECT_FALSE(ReadChange(steady, steady, bad)) << bad;
  }
  // Percentiles that cannot be are not believed.
  EXPECT_DOUBLE_EQ(MedianUncertainty({1, 2, 1, 100}), kUnknownSpread);
}

}  // namespace
}  // namespace assay
