// The draws of timed launches: which a kernel cannot foresee, and what outputs and times tell.
#include "kernels/validate/draws.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace assay {
namespace {

TensorDigest DigestFor(std::uint64_t n) {
  TensorDigest digest;
  digest.raw[0] = n;
  return digest;
}

TEST(DrawRotation, GivesAtLeastThreeDrawsInAnOrderOfItsSecret) {
  const auto order = [](std::uint64_t secret) {
    DrawRotation rotation(secret);
    std::vector<std::uint32_t> epochs;
    for (int i = 0; i < 200; ++i) {
      epochs.push_back(rotation.Next());
      const bool known = rotation.Take(DigestFor(epochs.back()), 1) == DrawRotation::Output::kKnown;
      if (!known) rotation.Accept();
    }
    return epochs;
  };
  const std::vector<std::uint32_t> one = order(1);
  EXPECT_NE(one, order(2));
  std::set<std::uint32_t> seen;
  int fresh = 0;
  for (std::size_t i = 0; i < one.size(); ++i) {
    if (one[i] >= kDraws) {
      EXPECT_TRUE(seen.insert(one[i]).second) << "an unseen draw came twice";
      ++fresh;
      if (i + 1 < one.size()) {
        EXPECT_LT(one[i + 1], kDraws) << "what it is held against";
      }
    }
    seen.insert(one[i]);
  }
  for (std::uint32_t draw = 0; draw < kDraws; ++draw) EXPECT_TRUE(seen.contains(draw));
  EXPECT_GE(fresh, 5);
}

TEST(DrawRotation, KnowsWhatWasJudgedAndForWhichDraw) {
  DrawRotation rotation(1);
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
  DrawRotation rotation(1);
  int judged = 0;
  for (int i = 0; i < 1000; ++i) {
    rotation.Next();
    rotation.Take(DigestFor(static_cast<std::uint64_t>(i)), 1);
    const bool must = rotation.MustJudge();
    if (rotation.epoch() >= kDraws || i < 10) {
      EXPECT_TRUE(must);
    }
    judged += must ? 1 : 0;
  }
  EXPECT_GT(judged, 30);
  EXPECT_LT(judged, 300);
}

// `unseen` and `seen`: seconds of a launch, by its number.
template <class Unseen, class Seen>
std::optional<double> Slowness(Unseen unseen, Seen seen) {
  DrawRotation rotation(3);
  for (int i = 0; i < 200; ++i) {
    const bool fresh = rotation.Next() >= kDraws;
    rotation.Take(DigestFor(rotation.epoch()), fresh ? unseen(i) : seen(i));
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
