// Defines the data of attention's exact case. Keys form groups, and each group has a code. The
// codes are so far apart that softmax gives the n keys of one group the weight 1/n each, and all
// other keys exactly 0.
//
// Groups: key j has the place j + 1. A cycle of 64 places holds 8 groups of 2 places, 4 of 4, 2 of
// 8 and one of 16, in this order. The last block of 16 places always holds pairs. So groups cross
// the borders of tiles, and their sizes are powers of two.
//
// Codes: a code is a vector with one, two or three elements ±a; all others are 0. A query holds the
// code of the group it chooses. The keys of that group score weight·a_q·a_k·scale. Every other key
// scores at least a_q·a_k·scale less. The codes of a kv head are rotated by the head's number, so
// that a query that meets another head's keys finds another group.
//
// Choice: a causal query chooses the group of its last key if it sees a power of two of that
// group's keys. One key too few or too many then changes the mean. Otherwise it chooses a group
// that it sees in full. Queries that are not causal go through all groups in turn. If they are too
// few, as those of a decoder, they begin with the last group, because loops go wrong at their end.
//
// Mask: the boolean mask keeps a power of two of the keys of every group that a query sees in full.
// It keeps all keys of a group that the query sees only in part. It hides a whole block of 16 to
// 256 keys from one query in four, from half of them the first block. Such a query chooses a group
// outside of its block, even if the problem has no mask.
//
// Single keys: the significand probe gives each query one key. Then every key that has a code is a
// group of its own. If there are more keys than codes, every second, third, … key has one, and the
// others have none. Vectors have an element 0 before the code, which makes the score of the chosen
// key exactly 0: it is a_k in every key, and -weight·a_q in every query. All other scores are
// -a_q·a_k·scale or less. exp(0) is 1 in every implementation.
//
// std-only, for host and device. The functions depend on the problem alone.
#ifndef ASSAY_KERNELS_NUMERICS_KEY_GROUPS_H_
#define ASSAY_KERNELS_NUMERICS_KEY_GROUPS_H_

#include <algorithm>
#include <cstdint>
#include <utility>

#include "kernels/numerics/bits.h"
#include "kernels/numerics/digest.h"
#include "kernels/numerics/pattern.h"

namespace assay::inline kernels {

class KeyGroups {
 public:
  // Keys [first, first + size).
  struct Group {
    std::int64_t first = 0;
    std::int64_t size = 0;
  };

  // `codes` above 0: single keys, with so many codes.
  constexpr KeyGroups(std::int64_t queries, std::int64_t keys, bool causal, std::int64_t codes = 0)
      : queries_(queries),
        keys_(keys),
        causal_(causal),
        distance_(codes > 0 ? (keys + codes - 1) / codes : 0),
        groups_(single() ? (keys - 1) / distance_ + 1 : GroupOf(keys - 1) + 1) {
    // A step near the golden section of the number of groups, and prime to it, so that steps reach
    // every group.
    step_ = std::max<std::int64_t>(1, groups_ * 5 / 8);
    while (Gcd(step_, groups_) != 1) ++step_;
  }

  constexpr std::int64_t groups() const { return groups_; }
  constexpr bool single() const { return distance_ > 0; }

  // -1: none, which only single keys may have.
  constexpr std::int64_t GroupOf(std::int64_t key) const {
    if (single()) return key % distance_ == 0 ? key / distance_ : -1;
    const std::int64_t place = key + 1;
    const std::int64_t block = place / kBlock;
    const int kind = KindOf(block);
    return block / kKinds * kGroupsOfAll + FirstOf(KindInCycle(block)) +
           (place % kBlock >> (kind + 1));
  }

  constexpr Group Members(std::int64_t group) const {
    if (single()) return {group * distance_, 1};
    const std::int64_t last_block = keys_ / kBlock;
    const std::int64_t last_base =
        last_block / kKinds * kGroupsOfAll + FirstOf(KindInCycle(last_block));
    std::int64_t place = 0;
    std::int64_t size = 2;
    if (group >= last_base) {
      place = last_block * kBlock + (group - last_base) * size;
    } else {
      const std::int64_t in_cycle = group % kGroupsOfAll;
      int kind = 0;
      while (kind + 1 < kKinds && in_cycle >= FirstOf(kind + 1)) ++kind;
      size = std::int64_t{2} << kind;
      place = (group / kGroupsOfAll * kKinds + kind) * kBlock + (in_cycle - FirstOf(kind)) * size;
    }
    const std::int64_t first = std::max<std::int64_t>(place, 1);
    return {first - 1, std::min(place + size, keys_ + 1) - first};
  }

  // The number of keys that a query sees before the mask: keys [0, result).
  constexpr std::int64_t Seen(std::int64_t query) const {
    if (!causal_) return keys_;
    return std::clamp<std::int64_t>(query + 1 + keys_ - queries_, 0, keys_);
  }

  // The group that a query of a head chooses. It is 0 if the query sees no key.
  constexpr std::int64_t Chosen(std::int64_t head, std::int64_t query) const {
    const Hidden hidden = single() ? Hidden{} : HiddenOf(query);
    if (!causal_) {
      std::int64_t chosen = (head * queries_ + query) % groups_ * step_ % groups_;
      if (queries_ < groups_) chosen = groups_ - 1 - chosen;
      return hidden.Touches(chosen) ? Outside(hidden, chosen, groups_) : chosen;
    }
    const std::int64_t seen = Seen(query);
    if (seen == 0) return 0;
    if (single()) {
      const auto seen_groups = static_cast<std::uint64_t>((seen - 1) / distance_ + 1);
      return static_cast<std::int64_t>(Mix(head, query) % seen_groups);
    }
    const std::int64_t last = GroupOf(seen - 1);
    const std::int64_t of_last = seen - Members(last).first;
    if (HasOneBit(static_cast<std::uint64_t>(of_last)) && !hidden.Touches(last)) return last;
    return Outside(hidden, static_cast<std::int64_t>(Mix(head, query) >> 1), last);
  }

  // Whether the mask lets a query see a key. Not for single keys.
  constexpr bool Keeps(std::int64_t query, std::int64_t key) const {
    if (SeesNone(query)) return false;
    const Hidden hidden = HiddenOf(query);
    if (key >= hidden.first_key && key < hidden.last_key) return false;
    const std::int64_t group = GroupOf(key);
    const Group members = Members(group);
    if (members.first + members.size > Seen(query)) return true;
    const std::uint64_t draw = Mix(query, group);
    const auto size = static_cast<std::uint64_t>(members.size);
    // A group has a member, so that its width is not 0.
    // NOLINTNEXTLINE(clang-analyzer-core.DivideZero)
    const std::uint64_t width = draw % static_cast<std::uint64_t>(BitWidth(size));
    const std::uint64_t kept = std::uint64_t{1} << width;
    return ((static_cast<std::uint64_t>(key - members.first) + (draw >> 32)) & (size - 1)) < kept;
  }

  // The mask hides all keys from such a query.
  static constexpr bool SeesNone(std::int64_t query) { return query % 32 == 19; }

 private:
  static constexpr std::int64_t kBlock = 16;        // places with groups of one size
  static constexpr int kKinds = 4;                  // sizes: 2, 4, 8, 16
  static constexpr std::int64_t kGroupsOfAll = 15;  // 8 + 4 + 2 + 1
  // The number of a kind's first group in a cycle: 0, 8, 12, 14.
  static constexpr std::int64_t FirstOf(int kind) { return 16 - (16 >> kind); }

  static constexpr int KindInCycle(std::int64_t block) { return static_cast<int>(block % kKinds); }
  // The last block holds pairs, so that a cut inside it leaves powers of two.
  constexpr int KindOf(std::int64_t block) const {
    return block == keys_ / kBlock ? 0 : KindInCycle(block);
  }

  // Keys [first_key, last_key), and the groups [first_group, last_group) that have such a key.
  struct Hidden {
    std::int64_t first_key = 0, last_key = 0;
    std::int64_t first_group = 0, last_group = 0;

    constexpr bool Touches(std::int64_t group) const {
      return group >= first_group && group < last_group;
    }
  };

  // The block of keys that the mask hides from a query. It may be empty.
  constexpr Hidden HiddenOf(std::int64_t query) const {
    const std::uint64_t draw = Mix(query, -1);
    if (draw % 4 != 0) return {};
    const std::int64_t seen = Seen(query);
    const std::int64_t size = kBlock << (draw >> 2) % 5;
    const auto blocks = static_cast<std::uint64_t>((seen + size - 1) / size);
    // A causal query may see its last group only in part.
    const std::int64_t whole = seen == 0 ? 0 : causal_ ? GroupOf(seen - 1) : groups_;
    if (blocks < 2) return {};
    Hidden hidden;
    hidden.first_key =
        (draw >> 8 & 1) != 0 ? 0 : static_cast<std::int64_t>((draw >> 16) % blocks) * size;
    hidden.last_key = std::min(hidden.first_key + size, seen);
    hidden.first_group = GroupOf(hidden.first_key);
    hidden.last_group = GroupOf(hidden.last_key - 1) + 1;
    const bool leaves_one = hidden.first_group > 0 || hidden.last_group < whole;
    return leaves_one ? hidden : Hidden{};
  }

  // The group below `end` that a draw gives. It has no hidden key.
  static constexpr std::int64_t Outside(const Hidden& hidden, std::int64_t draw, std::int64_t end) {
    const std::int64_t first = std::min(hidden.first_group, end);
    const std::int64_t others = first + std::max<std::int64_t>(0, end - hidden.last_group);
    // What is hidden leaves a group, and a query that sees group 0 alone chooses that.
    // NOLINTNEXTLINE(clang-analyzer-core.DivideZero)
    const std::int64_t group = draw % others;
    return group < first ? group : group - first + hidden.last_group;
  }

  static constexpr std::int64_t Gcd(std::int64_t a, std::int64_t b) {
    while (b != 0) a = std::exchange(b, a % b);
    return a;
  }

  static constexpr std::uint64_t Mix(std::int64_t a, std::int64_t b) {
    return DigestFinalise(DigestFinalise(static_cast<std::uint64_t>(a) + kDigestStep) +
                          static_cast<std::uint64_t>(b));
  }

  std::int64_t queries_;
  std::int64_t keys_;
  bool causal_;
  std::int64_t distance_;  // of single keys that have codes; 0: not single
  std::int64_t groups_;
  std::int64_t step_ = 1;
};

// The elements of a code that are not 0: their positions and signs.
struct GroupCode {
  int weight = 0;
  std::int64_t at[3] = {};
  bool negative[3] = {};
};

// The number of codes with `weight` elements in a vector of `dim`: 2^w·C(dim, w).
constexpr std::int64_t CodesOf(int weight, std::int64_t dim) {
  switch (weight) {
    case 1:
      return 2 * dim;
    case 2:
      return 2 * dim * (dim - 1);
    default:
      return 4 * dim * (dim - 1) * (dim - 2) / 3;
  }
}

// The most codes that elements of one weight give.
constexpr std::int64_t MostCodes(std::int64_t dim) {
  return std::max(CodesOf(1, dim), std::max(CodesOf(2, dim), CodesOf(3, dim)));
}

// The codes of single keys in vectors of `dim`, of which one element is no part of a code.
constexpr std::int64_t SingleCodes(std::int64_t dim) { return MostCodes(dim - 1); }

// The fewest elements a code needs so that there is one for each group. It is 0 if three are too
// few.
constexpr int CodeWeight(std::int64_t groups, std::int64_t dim) {
  for (int weight = 1; weight <= 3; ++weight) {
    if (CodesOf(weight, dim) >= groups) return weight;
  }
  return 0;
}

// The code of a group in a kv head. `weight` comes from CodeWeight.
constexpr GroupCode CodeOf(std::int64_t group, int weight, std::int64_t dim, std::int64_t kv_head) {
  GroupCode code;
  code.weight = weight;
  for (int i = 0; i < weight; ++i) code.negative[i] = ((group >> i) & 1) != 0;
  // Combinations in colexicographic order: the largest element first.
  std::int64_t rest = group >> weight;
  const auto below = [](std::int64_t n, int of) {  // C(n, of)
    return of == 1 ? n : of == 2 ? n * (n - 1) / 2 : n * (n - 1) * (n - 2) / 6;
  };
  std::int64_t element = dim - 1;
  for (int left = weight; left > 0; --left) {
    while (below(element, left) > rest) --element;
    rest -= below(element, left);
    code.at[left - 1] = (element + kv_head) % dim;
    --element;
  }
  return code;
}

// ---- The same as patterns. The two parameters hold what the operand's extents do not say.

constexpr Pattern KeyCodes(double magnitude, bool single = false) {
  return {PatternKind::kKeyCodes, magnitude, single ? 1.0 : 0.0};
}

// `group` is the number of query heads that share a kv head.
constexpr Pattern QueryCodes(double magnitude, std::int64_t keys, bool causal, std::int64_t group,
                             bool single = false) {
  const double packed =
      static_cast<double>(keys) + static_cast<double>(group - 1) * 0x1p32 + (single ? 0x1p52 : 0.0);
  return {PatternKind::kQueryCodes, magnitude, causal ? -packed : packed};
}

constexpr Pattern KeyMask(bool causal) { return {PatternKind::kKeyMask, causal ? 1.0 : 0.0, 0}; }

// Whether a kind is one of these three.
constexpr bool IsKeyGroups(PatternKind kind) {
  return kind == PatternKind::kKeyCodes || kind == PatternKind::kQueryCodes ||
         kind == PatternKind::kKeyMask;
}

// Returns the code of each row of an operand that holds codes, [heads, rows, cols].
class CodedRows {
 public:
  constexpr CodedRows(const Pattern& pattern, std::int64_t rows, std::int64_t cols)
      : of_queries_(pattern.kind == PatternKind::kQueryCodes),
        single_(of_queries_ ? (Packed(pattern) >> 52) != 0 : pattern.b != 0),
        dim_(single_ ? cols - 1 : cols),
        sharing_(of_queries_ ? static_cast<std::int64_t>(Packed(pattern) >> 32 & 0xfffff) + 1 : 1),
        layout_(rows, of_queries_ ? static_cast<std::int64_t>(Packed(pattern) & 0xffffffff) : rows,
                pattern.b < 0, single_ ? MostCodes(dim_) : 0),
        weight_(CodeWeight(layout_.groups(), dim_)) {}

  constexpr GroupCode Code(std::int64_t head, std::int64_t row) const {
    const std::int64_t group = of_queries_ ? layout_.Chosen(head, row) : layout_.GroupOf(row);
    if (group < 0) return {};
    GroupCode code = CodeOf(group, weight_, dim_, head / sharing_);
    for (int i = 0; single_ && i < code.weight; ++i) ++code.at[i];
    return code;
  }

  // Element 0 of every row of single keys, times the magnitude; 0: there is no such element.
  constexpr double First() const {
    if (!single_) return 0;
    return of_queries_ ? -weight_ : 1;
  }

 private:
  static constexpr std::uint64_t Packed(const Pattern& pattern) {
    return static_cast<std::uint64_t>(pattern.b < 0 ? -pattern.b : pattern.b);
  }

  bool of_queries_;
  bool single_;
  std::int64_t dim_;  // of codes
  std::int64_t sharing_;
  KeyGroups layout_;
  int weight_;
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_NUMERICS_KEY_GROUPS_H_
