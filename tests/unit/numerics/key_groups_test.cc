// What makes attention's exact case exact: every query finds a power of two of the
// keys of its group, no other key comes near it, and every key is some group's.
#include "kernels/numerics/key_groups.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <set>
#include <vector>

namespace assay {
namespace {

const std::int64_t kLengths[] = {1,  2,  3,  15, 16, 17,  31,  32,  47,  48,  63,
                                 64, 65, 79, 80, 96, 127, 128, 129, 200, 513, 1000};

TEST(KeyGroups, PartTheKeysIntoNeighbours) {
  for (const std::int64_t keys : kLengths) {
    const KeyGroups groups(keys, keys, false);
    std::int64_t next = 0;
    for (std::int64_t g = 0; g < groups.groups(); ++g) {
      const auto [first, size] = groups.Members(g);
      ASSERT_EQ(first, next) << keys << " keys, group " << g;
      ASSERT_TRUE(std::has_single_bit(static_cast<std::uint64_t>(size)) && size <= 16)
          << keys << " keys, group " << g << " has " << size;
      for (std::int64_t j = first; j < first + size; ++j) ASSERT_EQ(groups.GroupOf(j), g);
      next = first + size;
    }
    EXPECT_EQ(next, keys);
  }
}

TEST(KeyGroups, EveryQuerySeesAPowerOfTwoOfTheGroupItChooses) {
  for (const std::int64_t keys : kLengths) {
    for (const std::int64_t queries : {std::int64_t{1}, std::int64_t{7}, keys, keys + 9}) {
      for (const bool causal : {false, true}) {
        const KeyGroups groups(queries, keys, causal);
        for (std::int64_t query = 0; query < queries; ++query) {
          const std::int64_t seen = groups.Seen(query);
          if (seen == 0) continue;
          const std::int64_t chosen = groups.Chosen(5, query);
          ASSERT_LT(chosen, groups.groups());
          const auto [first, size] = groups.Members(chosen);
          std::uint64_t visible = 0, kept = 0;
          for (std::int64_t j = first; j < std::min(first + size, seen); ++j) {
            ++visible;
            kept += groups.Keeps(query, j) ? 1 : 0;
          }
          ASSERT_TRUE(std::has_single_bit(visible)) << keys << " " << query << " " << visible;
          ASSERT_EQ(std::has_single_bit(kept), !KeyGroups::SeesNone(query))
              << keys << " " << query << " " << kept;
        }
      }
    }
  }
}

TEST(KeyGroups, AllGroupsAreChosenWhereThereAreQueriesForThem) {
  for (const std::int64_t keys : kLengths) {
    const KeyGroups groups(keys, keys, false);
    std::set<std::int64_t> chosen;
    for (std::int64_t query = 0; query < keys; ++query) chosen.insert(groups.Chosen(0, query));
    EXPECT_EQ(static_cast<std::int64_t>(chosen.size()), groups.groups()) << keys;
  }
}

// A loop that leaves out the last keys is seen by a single query.
TEST(KeyGroups, FewQueriesBeginWithTheLastGroup) {
  for (const std::int64_t keys : kLengths) {
    for (const std::int64_t codes : {std::int64_t{0}, std::int64_t{100000}}) {
      const KeyGroups groups(1, keys, false, codes);
      EXPECT_EQ(groups.Chosen(0, 0), groups.groups() - 1) << keys << " " << codes;
    }
  }
}

// A softmax over blocks that forgets a block without a visible key gives NaN.
TEST(KeyGroups, TheMaskHidesWholeBlocks) {
  constexpr std::int64_t kKeys = 1024;
  for (const bool causal : {false, true}) {
    const KeyGroups groups(kKeys, kKeys, causal);
    for (std::int64_t size = 16; size <= 256; size *= 2) {
      int first = 0, later = 0;
      for (std::int64_t query = 0; query < kKeys; ++query) {
        for (std::int64_t at = 0; at + size < groups.Seen(query); at += size) {
          bool kept = false;
          for (std::int64_t j = at; j < at + size && !kept; ++j) kept = groups.Keeps(query, j);
          (at == 0 ? first : later) += kept ? 0 : 1;
        }
      }
      EXPECT_GT(first, 16) << size << (causal ? " causal" : "");
      EXPECT_GT(later, 4) << size << (causal ? " causal" : "");
    }
  }
}

// A mask that is off by one key must show in many rows, in either direction.
TEST(KeyGroups, CausalQueriesStandAtTheEndOfWhatTheySee) {
  constexpr std::int64_t kKeys = 1024;
  const KeyGroups groups(kKeys, kKeys, true);
  int too_few = 0, too_many = 0;
  for (std::int64_t query = 0; query < kKeys; ++query) {
    const std::int64_t chosen = groups.Chosen(0, query);
    too_few += groups.GroupOf(groups.Seen(query) - 1) == chosen ? 1 : 0;
    too_many += query + 1 < kKeys && groups.GroupOf(query + 1) == chosen ? 1 : 0;
  }
  EXPECT_GT(too_few, kKeys / 2);
  EXPECT_GT(too_many, kKeys / 3);
}

TEST(KeyGroups, CodesAreAWholeUnitApart) {
  for (const std::int64_t dim : {1, 2, 3, 4, 7, 8}) {
    for (int weight = 1; weight <= 3 && weight <= dim; ++weight) {
      const std::int64_t count = CodesOf(weight, dim);
      std::vector<std::vector<int>> codes;
      for (std::int64_t g = 0; g < count; ++g) {
        const GroupCode code = CodeOf(g, weight, dim, 3);
        std::vector<int> vector(static_cast<std::size_t>(dim));
        for (int i = 0; i < code.weight; ++i) {
          ASSERT_TRUE(code.at[i] >= 0 && code.at[i] < dim);
          vector[static_cast<std::size_t>(code.at[i])] += code.negative[i] ? -1 : 1;
        }
        codes.push_back(std::move(vector));
      }
      for (std::size_t a = 0; a < codes.size(); ++a) {
        for (std::size_t b = 0; b < codes.size(); ++b) {
          int dot = 0;
          for (std::size_t d = 0; d < codes[a].size(); ++d) dot += codes[a][d] * codes[b][d];
          if (a == b) {
            ASSERT_EQ(dot, weight) << "dim " << dim << " code " << a;
          } else {
            ASSERT_LE(dot, weight - 1) << "dim " << dim << " codes " << a << ", " << b;
          }
        }
      }
    }
  }
}

TEST(KeyGroups, WeightIsTheLeastThatSuffices) {
  EXPECT_EQ(CodeWeight(2, 1), 1);
  EXPECT_EQ(CodeWeight(3, 1), 0);
  EXPECT_EQ(CodeWeight(128, 64), 1);
  EXPECT_EQ(CodeWeight(129, 64), 2);
  EXPECT_EQ(CodeWeight(8065, 64), 3);
  EXPECT_EQ(CodeWeight(1000, 4), 0);
}

// What the significand probe rests on: the chosen key's score is 0, all others are a unit below.
TEST(KeyGroups, OfSingleKeysOnlyTheChosenOneScoresZero) {
  struct Shape {
    std::int64_t queries, keys, dim, sharing;
    bool causal;
  };
  // Few elements leave fewer codes than keys.
  for (const Shape& s :
       {Shape{20, 64, 32, 1, false}, Shape{64, 64, 16, 2, true}, Shape{40, 90, 2, 1, false},
        Shape{30, 50, 4, 3, true}, Shape{7, 1, 8, 1, false}, Shape{90, 40, 8, 1, true}}) {
    const KeyGroups groups(s.queries, s.keys, s.causal, SingleCodes(s.dim));
    const auto vector = [&](const CodedRows& coded, std::int64_t head, std::int64_t row) {
      std::vector<double> v(static_cast<std::size_t>(s.dim));
      v[0] = coded.First();
      const GroupCode code = coded.Code(head, row);
      for (int i = 0; i < code.weight; ++i) {
        EXPECT_GT(code.at[i], 0);
        v[static_cast<std::size_t>(code.at[i])] = code.negative[i] ? -1 : 1;
      }
      return v;
    };
    const CodedRows keys(KeyCodes(2, /*single=*/true), s.keys, s.dim);
    const CodedRows queries(QueryCodes(2, s.keys, s.causal, s.sharing, /*single=*/true), s.queries,
                            s.dim);
    std::set<std::int64_t> chosen_keys;
    for (std::int64_t head = 0; head < 2 * s.sharing; ++head) {
      for (std::int64_t query = 0; query < s.queries; ++query) {
        const std::int64_t seen = groups.Seen(query);
        if (seen == 0) continue;
        const KeyGroups::Group chosen = groups.Members(groups.Chosen(head, query));
        ASSERT_EQ(chosen.size, 1);
        ASSERT_LT(chosen.first, seen);
        chosen_keys.insert(chosen.first);
        const std::vector<double> q = vector(queries, head, query);
        for (std::int64_t key = 0; key < s.keys; ++key) {
          const std::vector<double> k = vector(keys, head / s.sharing, key);
          double dot = 0;
          for (std::size_t d = 0; d < q.size(); ++d) dot += q[d] * k[d];
          if (key == chosen.first) {
            ASSERT_EQ(dot, 0) << "query " << query << " key " << key;
          } else {
            ASSERT_LE(dot, -1) << "query " << query << " key " << key;
          }
        }
      }
    }
    EXPECT_GE(chosen_keys.size(),
              static_cast<std::size_t>(std::min(groups.groups(), s.queries) / 2));
  }
}

// The codes of one kv head say nothing to the queries of another.
TEST(KeyGroups, PatternsCarryTheLayout) {
  constexpr std::int64_t kKeys = 40, kDim = 16;
  const CodedRows keys(KeyCodes(2), kKeys, kDim);
  const CodedRows queries(QueryCodes(2, kKeys, true, 4), 24, kDim);
  const KeyGroups groups(24, kKeys, true);
  for (std::int64_t head = 0; head < 8; ++head) {
    for (std::int64_t query = 0; query < 24; ++query) {
      const GroupCode q = queries.Code(head, query);
      const KeyGroups::Group chosen = groups.Members(groups.Chosen(head, query));
      const GroupCode k = keys.Code(head / 4, chosen.first);
      const GroupCode other = keys.Code(head / 4 + 1, chosen.first);
      ASSERT_EQ(q.weight, k.weight);
      EXPECT_EQ(q.at[0], k.at[0]);
      EXPECT_EQ(q.negative[0], k.negative[0]);
      EXPECT_NE(q.at[0], other.at[0]);
    }
  }
}

}  // namespace
}  // namespace assay
