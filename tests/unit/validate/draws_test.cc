// The draws of timed launches: which a kernel cannot foresee, and what outputs and times tell.
#include "kernels/validate/draws.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <vector>

namespace assay {
namespace {

constexpr std::uint64_t kOwn = 5;  // the case's seed

TensorDigest DigestFor(std::uint64_t n) {
  TensorDigest digest;
  digest.raw[0] = n;
  return digest;
}

// The draws of 200 launches, each right: by number, in the order in which they first came.
std::vector<std::size_t> DrawsInOrder(DrawRotation& rotation) {
  std::map<std::uint64_t, std::size_t> numbers;
  std::vector<std::size_t> draws;
  for (int i = 0; i < 200; ++i) {
    const std::uint64_t seed = rotation.Next();
    draws.push_back(numbers.emplace(seed, numbers.size()).first->second);
    if (rotation.Take(DigestFor(seed), 1) != DrawRotation::Output::kKnown) rotation.Accept();
  }
  return draws;
}

TEST(DrawRotation, GivesThreeKnownDrawsAndUnseenOnesInRandomOrder) {
  DrawRotation one(kOwn, 1), two(kOwn, 2);
  const std::vector<std::size_t> draws = DrawsInOrder(one);
  EXPECT_NE(draws, DrawsInOrder(two));
  int unseen = 0;
  for (std::size_t i = 0; i < draws.size(); ++i) {
    if (draws[i] < kDraws) continue;
    ++unseen;
    EXPECT_EQ(std::count(draws.begin(), draws.end(), draws[i]), 1) << "an unseen draw came twice";
    if (i + 1 < draws.size()) {
      EXPECT_LT(draws[i + 1], kDraws) << "what it is held against";
    }
  }
  EXPECT_GE(unseen, 8);
  EXPECT_TRUE(one.EnoughUnseen());
}

TEST(DrawRotation, HasNoSeedThatAKernelCouldForeseeButTheCasesOwn) {
  // The same order: the seeds are secret all the same.
  DrawRotation one(kOwn, 1), two(kOwn, 1);
  std::set<std::uint64_t> of_one, of_two, both;
  for (int i = 0; i < 100; ++i) {
    of_one.insert(one.Next());
    of_two.insert(two.Next());
    one.Take(DigestFor(1), 1);
    two.Take(DigestFor(1), 1);
  }
  EXPECT_TRUE(of_one.contains(kOwn));
  EXPECT_LT(*of_one.rbegin(), std::uint64_t{1} << 53) << "a number of JSON's";
  std::set_intersection(of_one.begin(), of_one.end(), of_two.begin(), of_two.end(),
                        std::inserter(both, both.end()));
  // By chance, another one is in both once in ten million million runs.
  EXPECT_EQ(both, std::set<std::uint64_t>{kOwn});
  EXPECT_NE(DrawRotation(kOwn, 1).Next(), kOwn) << "the first launch is on a secret draw";
}

TEST(DrawRotation, KnowsWhatWasJudgedAndForWhichDraw) {
  DrawRotation rotation(kOwn, 1);
  rotation.Know(7, DigestFor(7));
  rotation.Next();
  EXPECT_EQ(rotation.Take(DigestFor(100), 1), DrawRotation::Output::kNew);
  EXPECT_EQ(rotation.Take(DigestFor(100), 1), DrawRotation::Output::kNew) << "not judged yet";
  rotation.Accept();
  EXPECT_EQ(rotation.Take(DigestFor(100), 1), DrawRotation::Output::kKnown);
  EXPECT_EQ(rotation.Take(DigestFor(7), 1), DrawRotation::Output::kOther);
  rotation.Accept();  // outputs may be equal for two draws
  EXPECT_EQ(rotation.Take(DigestFor(7), 1), DrawRotation::Output::kKnown);
}

TEST(DrawRotation, JudgesTheFirstOfManyOutputsAlwaysAndLaterOnesSometimes) {
  DrawRotation rotation(kOwn, 1);
  int judged = 0;
  for (int i = 0; i < 1000; ++i) {
    rotation.Next();
    rotation.Take(DigestFor(static_cast<std::uint64_t>(i)), 1);
    const bool must = rotation.MustJudge();
    if (rotation.unseen() || i < 10) {
      EXPECT_TRUE(must);
    }
    judged += must ? 1 : 0;
  }
  EXPECT_EQ(rotation.judged(), judged);
  EXPECT_EQ(rotation.varying(), 1000);
  EXPECT_GT(judged, 30);
  EXPECT_LT(judged, 300);
}

// `unseen` and `seen`: seconds of a launch, by its number.
template <class Unseen, class Seen>
std::optional<double> Slowness(Unseen unseen, Seen seen) {
  DrawRotation rotation(kOwn, 3);
  for (int i = 0; i < 200; ++i) {
    rotation.Next();
    const bool fresh = rotation.unseen();
    rotation.Take(DigestFor(rotation.seed()), fresh ? unseen(i) : seen(i));
    if (fresh) rotation.Accept();
  }
  return rotation.SlowOnUnseen();
}

TEST(DrawRotation, FindsAKernelThatIsQuickOnWhatItHasSeen) {
  const auto slow = Slowness([](int) { return 3.0; }, [](int) { return 1.0; });
  ASSERT_TRUE(slow.has_value());
  EXPECT_DOUBLE_EQ(*slow, 3);
  // A busy machine held up one launch that it knew.
  int held = 0;
  EXPECT_TRUE(Slowness([](int) { return 3.0; }, [&](int) { return held++ == 9 ? 9.0 : 1.0; }));
  // It is slow on every fourth launch that it knew, too.
  int known = 0;
  EXPECT_TRUE(Slowness([](int) { return 3.0; }, [&](int) { return known++ % 4 == 0 ? 3.0 : 1.0; }));
}

TEST(DrawRotation, TakesNoHonestKernelForOne) {
  EXPECT_FALSE(Slowness([](int) { return 1.0; }, [](int) { return 1.0; }));
  // A machine that gets quicker: early launches, where most unseen draws are, take longer.
  const auto warming = [](int i) { return i < 60 ? 4.0 : 1.0; };
  EXPECT_FALSE(Slowness(warming, warming));
  // Half of the unseen launches are as quick as the others.
  EXPECT_FALSE(Slowness([](int i) { return i % 2 == 0 ? 1.0 : 3.0; }, [](int) { return 1.0; }));
}

}  // namespace
}  // namespace assay
