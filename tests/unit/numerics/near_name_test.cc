// The nearest known name: names whose lengths differ by too much are left out, and by nothing else.
#include "proto/near_name.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace assay {
namespace {

TEST(NearName, ANameIsNearUpToAThirdOfTheWord) {
  constexpr std::array<std::string_view, 3> kKnown = {"gemm", "softmax", "layer_norm"};
  EXPECT_EQ(NearestName("gem", kKnown), "gemm");
  EXPECT_EQ(NearestName("gmem", kKnown), "gemm") << "a swap is one edit";
  EXPECT_EQ(NearestName("softma", kKnown), "softmax");
  EXPECT_EQ(NearestName("layernrm", kKnown), "layer_norm");
  EXPECT_EQ(NearestName("lyernrm", kKnown), "") << "three edits, and two are allowed";
  EXPECT_EQ(NearestName("ge", kKnown), "");
  EXPECT_EQ(NearestName("", kKnown), "");
}

// Lengths that differ by as many edits as are allowed, and by one more.
TEST(NearName, ALengthMayDifferByWhatIsAllowed) {
  for (const std::size_t length :
       {std::size_t{1}, std::size_t{3}, std::size_t{6}, std::size_t{9}}) {
    const std::size_t allowed = length < 3 ? 1 : length / 3;
    const std::string word(length, 'a');
    const std::string longer(length + allowed, 'a');
    const std::string too_long = longer + "a";
    EXPECT_EQ(NearestName(word, std::vector<std::string_view>{longer}), longer);
    EXPECT_EQ(NearestName(word, std::vector<std::string_view>{too_long}), "");
    const std::string shorter(length - allowed, 'a');
    EXPECT_EQ(NearestName(word, std::vector<std::string_view>{shorter}), shorter);
  }
}

// The answer is that of a search that leaves no name out.
TEST(NearName, LeavingNamesOutChangesNoAnswer) {
  std::mt19937 random(1);
  const auto text = [&] {
    std::string made(random() % 12, ' ');
    for (char& c : made) c = static_cast<char>('a' + random() % 3);
    return made;
  };
  for (int round = 0; round < 2000; ++round) {
    const std::string word = text();
    std::vector<std::string> names(5);
    for (std::string& name : names) name = text();
    std::string_view nearest;
    std::size_t best = (word.size() < 3 ? 1 : word.size() / 3) + 1;
    for (const std::string& name : names) {
      const std::size_t distance = EditDistance(word, name);
      if (distance >= best) continue;
      best = distance;
      nearest = name;
    }
    const std::vector<std::string_view> known(names.begin(), names.end());
    ASSERT_EQ(NearestName(word, known), nearest) << word;
  }
}

// Working the distances out would take many minutes.
TEST(NearName, ALongWordCostsNothing) {
  const std::string word(std::size_t{64} << 20, 'a');
  const std::vector<std::string_view> known(1000, "softmax");
  EXPECT_EQ(NearestName(word, known), "");
}

}  // namespace
}  // namespace assay
