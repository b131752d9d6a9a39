#include "client/blame/blame.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/lib/text.h"

namespace assay::client {
namespace {

struct Row {
  // A word of Seen, then words of Gave. A cell may list several, or be "any".
  std::string_view seen, here, others, siblings, code;
};

constexpr std::string_view kDied = "crashed, fault, quarantined";

constexpr Row kRows[] = {
    // If every sibling is wrong, too, this device is not at fault, whatever came of it here.
    {"wrong", "any", "again", "again", "A103"},
    {"wrong", "any", "any", "again", "A102"},
    {"wrong", "any", "any", "both", "A103"},
    {"wrong", "right", "any", "any", "A104"},
    {"wrong", "any", "any", "nothing", "A103"},
    // One wrong result that was not confirmed does not convict the device.
    {"wrong", "nothing", "any", "right", "A103"},
    {"wrong", "again, both", "again", "right", "A106"},
    {"wrong", "again, both", "any", "right", "A101"},

    {"unsteady", "any", "any", "again", "A102"},
    {"unsteady", "any", "any", "nothing, both", "A105"},
    {"unsteady", "right", "any", "right", "A104"},
    {"unsteady", "nothing", "any", "right", "A105"},
    {"unsteady", "again, both", "any", "right", "A101"},

    {kDied, "any", "any", "again", "A117"},
    {kDied, "right", "any", "any", "A119"},
    {"quarantined", "any", "any", "any", "A115"},
    {"fault", "any", "any", "any", "A114"},
    {"crashed", "any", "any", "any", "A111"},

    {"late", "any", "any", "again", "A118"},
    {"late", "again, both", "any", "any", "A112"},
    {"late", "right", "any", "any", "A310"},
    // It was cancelled, killed or without memory: nobody is to blame.
    {"late", "nothing", "any", "any", "A306"},

    {"accused by the fleet", "right", "any", "any", "A104"},
    {"accused by the fleet", "again, both", "any", "again, both", "A102"},
    {"accused by the fleet", "again, both", "any", "right", "A101"},
    {"accused by the fleet", "again, both", "any", "nothing", "A103"},
};

// What the reruns of other cases of the device came to.
enum class Came {
  kNone,  // no case was run again
  kOwn,   // all with the same provider came to this code; empty: to one code
  kOne,   // at least one came to this code
  kAny,
};

struct InheritedRow {
  std::string_view seen;
  Came came;
  std::string_view to;
  std::string_view code;  // empty: the code that the others came to
};

constexpr InheritedRow kInheritedRows[] = {
    {"wrong, unsteady", Came::kOwn, "", ""},
    {"wrong", Came::kAny, "", "A103"},
    {"unsteady", Came::kAny, "", "A105"},

    {kDied, Came::kOwn, "A117", "A117"},
    {"crashed, fault", Came::kOwn, "A119", "A119"},
    {"quarantined", Came::kAny, "", "A115"},
    {"fault", Came::kAny, "", "A114"},
    {"crashed", Came::kAny, "", "A111"},

    // If one case of the device hung again, the device hangs. The siblings may tell whose fault
    // that is.
    {"late", Came::kNone, "", "A112"},
    {"late", Came::kOne, "A112", "A112"},
    {"late", Came::kOwn, "A118", "A118"},
    {"late", Came::kOwn, "A306", "A306"},
    {"late", Came::kOne, "A118", "A112"},
    {"late", Came::kOne, "A306", "A306"},
    {"late", Came::kAny, "", "A310"},
};

std::string_view Word(Seen seen) {
  constexpr std::string_view kWords[] = {
      "wrong", "unsteady", "crashed", "fault", "quarantined", "late", "accused by the fleet"};
  return kWords[static_cast<int>(seen)];
}

std::string_view Word(const Votes& votes) {
  if (votes.again) return votes.right ? "both" : "again";
  return votes.right ? "right" : "nothing";
}

bool Has(std::string_view cell, std::string_view word) {
  if (cell == "any") return true;
  for (const absl::string_view one : absl::StrSplit(View(cell), ", ")) {
    if (one == View(word)) return true;
  }
  return false;
}

// The one code of all precedents of the same provider; empty if there are several, or none.
std::string_view OwnCode(const std::vector<Precedent>& precedents) {
  std::string_view own;
  for (const Precedent& one : precedents) {
    if (!one.same_provider) continue;
    if (!own.empty() && own != one.code) return "";
    own = one.code;
  }
  return own;
}

bool Fits(const InheritedRow& row, std::string_view own, const std::vector<Precedent>& all) {
  switch (row.came) {
    case Came::kNone:
      return all.empty();
    case Came::kOwn:
      return !own.empty() && (row.to.empty() || own == row.to);
    case Came::kOne:
      return std::any_of(all.begin(), all.end(),
                         [&](const Precedent& one) { return one.code == row.to; });
    case Came::kAny:
      break;
  }
  return true;
}

std::string Words(const InheritedRow& row) {
  const std::string to = row.to.empty() ? "one code" : std::string(row.to);
  return row.came == Came::kNone  ? "no case was run again"
         : row.came == Came::kOwn ? absl::StrCat("with the same provider, all came to ", to)
         : row.came == Came::kOne ? absl::StrCat("one came to ", to)
                                  : "any";
}

}  // namespace

std::string_view Word(Vote vote) {
  return vote == Vote::kAgain ? "again" : vote == Vote::kRight ? "right" : "unknown";
}

void Votes::Add(Vote vote) {
  again |= vote == Vote::kAgain;
  right |= vote == Vote::kRight;
}

std::string_view BlameOf(const Reruns& reruns) {
  for (const Row& row : kRows) {
    if (Has(row.seen, Word(reruns.seen)) && Has(row.here, Word(reruns.here)) &&
        Has(row.others, Word(reruns.others)) && Has(row.siblings, Word(reruns.siblings))) {
      return row.code;
    }
  }
  return "";
}

std::string_view BlameWithoutRerun(Seen seen, const std::vector<Precedent>& precedents) {
  const std::string_view own = OwnCode(precedents);
  for (const InheritedRow& row : kInheritedRows) {
    if (Has(row.seen, Word(seen)) && Fits(row, own, precedents)) {
      return row.code.empty() ? own : row.code;
    }
  }
  return "";
}

std::vector<std::vector<std::string>> BlameRows() {
  std::vector<std::vector<std::string>> rows = {
      {"SEEN", "AGAIN HERE", "OTHER PROVIDERS HERE", "SIBLINGS", "CODE"}};
  for (const Row& row : kRows) {
    auto& words = rows.emplace_back();
    for (const auto cell : {row.seen, row.here, row.others, row.siblings, row.code}) {
      words.emplace_back(cell);
    }
  }
  return rows;
}

std::vector<std::vector<std::string>> BlameWithoutRerunRows() {
  std::vector<std::vector<std::string>> rows = {{"SEEN", "OTHER CASES OF THE DEVICE", "CODE"}};
  for (const InheritedRow& row : kInheritedRows) {
    rows.push_back({std::string(row.seen), Words(row),
                    row.code.empty() ? "that code" : std::string(row.code)});
  }
  return rows;
}

}  // namespace assay::client
