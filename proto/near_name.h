// Finds the known name that is nearest to a mistyped one, for "did you mean". The daemon and the
// client must guess alike, so both ask here. Standard library only.
#ifndef ASSAY_PROTO_NEAR_NAME_H_
#define ASSAY_PROTO_NEAR_NAME_H_

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace assay {

// The number of edits that turn `from` into `to`: insertions, deletions, substitutions, and swaps
// of neighbours (optimal string alignment).
inline std::size_t EditDistance(std::string_view from, std::string_view to) {
  std::vector<std::size_t> before(to.size() + 1), last(to.size() + 1), row(to.size() + 1);
  for (std::size_t j = 0; j <= to.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= from.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= to.size(); ++j) {
      const std::size_t differs = from[i - 1] == to[j - 1] ? 0 : 1;
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + differs});
      if (i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    before.swap(last);
    last.swap(row);
  }
  return last[to.size()];
}

// The nearest known name, if at most max(1, word.size() / 3) edits lead to it. Otherwise empty. As
// many edits as the lengths differ by are needed at least, so a long word costs nothing.
inline std::string_view NearestName(std::string_view word,
                                    std::span<const std::string_view> known) {
  std::string_view nearest;
  std::size_t best = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string_view name : known) {
    const std::size_t longer = std::max(word.size(), name.size());
    if (longer - std::min(word.size(), name.size()) >= best) continue;
    const std::size_t distance = EditDistance(word, name);
    if (distance < best) {
      best = distance;
      nearest = name;
    }
  }
  return nearest;
}

}  // namespace assay

#endif  // ASSAY_PROTO_NEAR_NAME_H_
