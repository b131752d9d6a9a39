// Blame: the code of every combination of evidence.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/qualify/judgement.h"
#include "tests/unit/client/qualify_evidence.h"

namespace assay::client {
namespace {

using qualify_testing::Killed;
using qualify_testing::Late;
using qualify_testing::Result;
using qualify_testing::SetAside;

using Results = std::vector<v1::CaseResult>;

// Each way in which a result can be in trouble.
std::vector<std::pair<std::string, v1::CaseResult>> Seen() {
  return {{"wrong", Result(v1::VERDICT_FAILED, "bound", 1)},
          {"unsteady", Result(v1::VERDICT_FAILED, "nondeterministic", 1)},
          {"crashed", Result(v1::VERDICT_ERROR, "crash", 1)},
          {"fault", Result(v1::VERDICT_ERROR, "fault", 1)},
          {"set aside", SetAside(1)},
          {"late", Late(1)}};
}

// What a result in that trouble looks like when its case runs again.
v1::CaseResult Again(const v1::CaseResult& seen) {
  const bool set_aside = seen.SerializeAsString() == SetAside(1).SerializeAsString();
  return set_aside ? Result(v1::VERDICT_ERROR, "fault", 1) : seen;
}

v1::CaseResult By(const std::string& provider, v1::CaseResult result) {
  result.mutable_spec()->set_provider(provider);
  return result;
}

// Votes as Columns has them.
Results Votes(int kind, const v1::CaseResult& seen, const std::string& provider) {
  const v1::CaseResult again = By(provider, Again(seen));
  const v1::CaseResult right = By(provider, Result(v1::VERDICT_PASSED, "", 1));
  switch (kind) {
    case 0:
      return {};
    case 1:
      return {again};
    case 2:
      return {right};
    default:
      return {again, right};
  }
}
constexpr const char* kVotes[] = {"none", "again", "right", "both"};

std::string CodeOf(const v1::CaseResult& seen, Results here, Results sibling) {
  return std::string(CodeOfTrouble(seen, {{seen, std::move(here), std::move(sibling)}}));
}

std::string AllVotes() {
  std::string text;
  for (const auto& [name, seen] : Seen()) {
    for (int here = 0; here < 4; ++here) {
      for (int others = 0; others < 4; ++others) {
        Results again = Votes(here, seen, "onednn");
        for (v1::CaseResult& r : Votes(others, seen, "openblas")) again.push_back(std::move(r));
        std::vector<std::string> codes;
        for (int sibling = 0; sibling < 4; ++sibling) {
          codes.push_back(CodeOf(seen, again, Votes(sibling, seen, "onednn")));
        }
        absl::StrAppend(&text, name, ", here ", kVotes[here], ", others ", kVotes[others], ": ",
                        absl::StrJoin(codes, " "), "\n");
      }
    }
  }
  return text;
}

// What a case can come to when it runs again.
std::vector<std::pair<std::string, v1::CaseResult>> Outcomes() {
  std::vector<std::pair<std::string, v1::CaseResult>> outcomes = Seen();
  const std::vector<std::pair<std::string, v1::CaseResult>> others = {
      {"right", Result(v1::VERDICT_PASSED, "", 1)},
      {"slower", Result(v1::VERDICT_FAILED, "slower", 1)},
      {"inefficient", Result(v1::VERDICT_FAILED, "efficiency", 1)},
      {"unproven", Result(v1::VERDICT_INCONCLUSIVE, "zeros", 1)},
      {"no memory", Result(v1::VERDICT_INCONCLUSIVE, "memory", 1)},
      {"out of memory", Result(v1::VERDICT_ERROR, "memory", 1)},
      {"killed", Killed(1)},
      {"late on the host", Late(1, "recheck")},
      {"late in the reference", Late(1, "reference")},
      {"error without a finding", Result(v1::VERDICT_ERROR, "", 1)},
      {"unsupported", Result(v1::VERDICT_UNSUPPORTED, "unsupported", 1)},
      {"skipped", Result(v1::VERDICT_SKIPPED, "skipped", 1)}};
  outcomes.insert(outcomes.end(), others.begin(), others.end());
  return outcomes;
}

// Each outcome alone: here, on a sibling, and by another provider where all others are right.
std::string EveryOutcome() {
  std::string text;
  for (const auto& [name, seen] : Seen()) {
    const v1::CaseResult again = Again(seen), right = Result(v1::VERDICT_PASSED, "", 1);
    for (const auto& [what, outcome] : Outcomes()) {
      absl::StrAppend(&text, name, ", then ", what, ": ", CodeOf(seen, {outcome}, {}), " ",
                      CodeOf(seen, {outcome}, {right}), " ", CodeOf(seen, {again}, {outcome}), " ",
                      CodeOf(seen, {again, By("openblas", outcome)}, {right}), "\n");
    }
  }
  return text;
}

// Retries that come to each of the codes, for the trouble they are of.
std::vector<std::pair<std::string, Retry>> Retried(const v1::CaseResult& seen) {
  std::map<std::string, Retry> by_code;
  const v1::CaseResult again = Again(seen), right = Result(v1::VERDICT_PASSED, "", 1);
  for (const Results& here : std::vector<Results>{{}, {again}, {right}, {Killed(1)}}) {
    for (const Results& sibling : std::vector<Results>{{}, {again}, {right}}) {
      by_code.try_emplace(CodeOf(seen, here, sibling), Retry{seen, here, sibling});
    }
  }
  return {by_code.begin(), by_code.end()};
}

// A case without a retry, where others of its device and provider, and of its device and another
// provider, came to any set of codes.
std::string Inherited() {
  std::string text;
  for (const auto& [name, seen] : Seen()) {
    const auto retried = Retried(seen);
    v1::CaseResult untried = seen;
    untried.set_index(2);
    for (unsigned same = 0; same < 1U << retried.size(); ++same) {
      std::vector<std::string> given, codes;
      for (unsigned i = 0; i < retried.size(); ++i) {
        if (same >> i & 1) given.push_back(retried[i].first);
      }
      for (unsigned others = 0; others < 1U << retried.size(); ++others) {
        std::vector<Retry> retries;
        for (unsigned i = 0; i < retried.size(); ++i) {
          if (same >> i & 1) retries.push_back(retried[i].second);
          if (others >> i & 1) {
            Retry& other = retries.emplace_back(retried[i].second);
            other.failed = By("openblas", other.failed);
            other.failed.set_index(3);
            for (v1::CaseResult& r : other.here) r = By("openblas", r);
          }
        }
        codes.emplace_back(CodeOfTrouble(untried, retries));
      }
      absl::StrAppend(&text, name, ", its provider's ", absl::StrJoin(given, "+"), ": ",
                      absl::StrJoin(codes, " "), "\n");
    }
  }
  return text;
}

// blame_codes.txt is what the codes were before a table decided them.
TEST(Blame, EveryEvidenceHasTheCodeThatItAlwaysHad) {
  std::ifstream file(BLAME_CODES);
  std::ostringstream expected;
  expected << file.rdbuf();
  ASSERT_TRUE(file) << BLAME_CODES;
  EXPECT_EQ(absl::StrCat(AllVotes(), "\n----\n", EveryOutcome(), "\n----\n", Inherited()),
            expected.str());
}

}  // namespace
}  // namespace assay::client
