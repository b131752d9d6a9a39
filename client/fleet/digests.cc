#include "client/fleet/digests.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/fleet/kinds.h"

namespace assay::client {
namespace {

using Ballots = std::vector<const DigestVote*>;

// Names of at most three, and how many more.
std::string Names(const Fleet& fleet, const std::set<std::uint32_t>& devices) {
  std::vector<std::string> names;
  for (const std::uint32_t device : devices) {
    if (names.size() < 3) names.push_back(fleet.devices[device].name());
  }
  if (devices.size() > names.size()) {
    names.push_back(absl::StrCat(devices.size() - names.size(), " more"));
  }
  return absl::StrJoin(names, ", ");
}

using Camps = std::map<Digest, std::set<std::uint32_t>>;

Camps CampsOf(const Ballots& votes) {
  Camps camps;
  for (const DigestVote* vote : votes) camps[vote->digest].insert(vote->device);
  return camps;
}

// The digest that more than half of the voters gave; nothing where none has.
std::optional<Digest> Majority(const Camps& camps) {
  std::size_t voters = 0;
  for (const auto& [digest, devices] : camps) voters += devices.size();
  for (const auto& [digest, devices] : camps) {
    if (2 * devices.size() > voters) return digest;
  }
  return std::nullopt;
}

std::string Describe(const Fleet& fleet, const Camps& camps) {
  std::vector<std::string> words;
  for (const auto& [digest, devices] : camps) {
    words.push_back(absl::StrCat(DigestText(digest).substr(0, 8), "… on ", Names(fleet, devices)));
  }
  return absl::StrJoin(words, "; ");
}

std::string AssaydOf(const Fleet& fleet, const DigestVote& vote) {
  const auto& versions = fleet.devices[vote.device].versions;
  const auto it = versions.find("assayd");
  return it == versions.end() ? "" : it->second;
}

// All votes on one probe of one case.
class Poll {
 public:
  Poll(const Fleet& fleet, const Kinds& kinds, const Ballots& votes, DigestFindings& findings)
      : fleet_(fleet), kinds_(kinds), votes_(votes), findings_(findings) {}

  void Count() {
    const std::size_t known = findings_.suspects.size();
    FindSuspects();
    AcquitKinds(known);
  }

 private:
  void FindSuspects() {
    // Each version ships golden digests of its own. That a device's daemon found one equal
    // and yet reports another is possible too: then most of them have it.
    std::map<std::string, Ballots> golden_votes;
    for (const DigestVote* vote : votes_) {
      if (vote->golden == 1) golden_votes[AssaydOf(fleet_, *vote)].push_back(vote);
    }
    std::map<std::string, Digest> golden;
    Minds suites;
    for (const auto& [version, votes] : golden_votes) {
      const Camps camps = CampsOf(votes);
      if (const auto most = Majority(camps)) {
        golden[version] = *most;
        suites[*most].who.insert(absl::StrCat("the suite of assayd ", version));
        suites[*most].devices.insert(camps.at(*most).begin(), camps.at(*most).end());
      } else {
        Undecided(votes, camps);
      }
    }
    const Camps all = CampsOf(votes_);
    Ballots open;
    for (const DigestVote* vote : votes_) {
      const std::string version = AssaydOf(fleet_, *vote);
      if (const auto known = golden.find(version); known != golden.end()) {
        if (vote->digest != known->second) {
          Accuse(*vote, known->second, DigestSuspect::By::kGolden, all);
        }
      } else if (vote->golden == 0) {
        // Its own daemon says so; what would be right, the others may show.
        Accuse(*vote, Majority(all), DigestSuspect::By::kGolden, all);
      } else if (!golden_votes.contains(version)) {
        open.push_back(vote);
      }
    }
    CountOpen(open, suites);
  }

  // Takes back what was found from suspect `first` on where it is a whole kind's.
  void AcquitKinds(std::size_t first) {
    std::map<std::pair<std::uint32_t, Digest>, std::set<std::uint32_t>> bad;
    std::map<std::uint32_t, std::set<std::uint32_t>> ran;  // by provider
    for (std::size_t i = first; i < findings_.suspects.size(); ++i) {
      const DigestVote& vote = findings_.suspects[i].vote;
      bad[{vote.provider, vote.digest}].insert(vote.device);
    }
    if (bad.empty()) return;
    for (const DigestVote* vote : votes_) ran[vote->provider].insert(vote->device);
    std::set<std::string> told;
    const std::vector<DigestSuspect> found(
        findings_.suspects.begin() + static_cast<std::ptrdiff_t>(first), findings_.suspects.end());
    findings_.suspects.erase(findings_.suspects.begin() + static_cast<std::ptrdiff_t>(first),
                             findings_.suspects.end());
    std::map<std::pair<std::string, std::pair<std::uint32_t, Digest>>, std::string> known;
    for (const DigestSuspect& s : found) {
      const std::pair wrong{s.vote.provider, s.vote.digest};
      const auto [place, is_new] = known.try_emplace({kinds_.NarrowestOf(s.vote.device), wrong});
      if (is_new) {
        place->second = kinds_.WhollyBad(s.vote.device, bad.at(wrong), ran.at(s.vote.provider));
      }
      const std::string& kind = place->second;
      if (kind.empty()) {
        findings_.suspects.push_back(s);
      } else if (told.insert(absl::StrCat(kind, s.vote.provider, DigestText(s.vote.digest)))
                     .second) {
        TellKind(kind, s);
      }
    }
  }

  void TellKind(const std::string& kind, const DigestSuspect& s) {
    const bool golden = s.by == DigestSuspect::By::kGolden;
    (golden ? findings_.everywhere : findings_.divided)
        .push_back(absl::StrCat(
            fleet_.text(s.vote.name), " ", fleet_.text(s.vote.probe), ": all devices of ", kind,
            " gave ", DigestText(s.vote.digest).substr(0, 8), "…, ",
            !s.expected_known ? "which is not the suite's own digest"
                              : absl::StrCat(DigestText(s.expected).substr(0, 8), "… is ",
                                             golden ? "the suite's own" : "what the others gave"),
            ": look at the kernel and its version there, not at a card"));
  }

  // What a version or a provider settled on.
  struct Mind {
    std::set<std::string> who;
    std::set<std::uint32_t> devices;
  };
  using Minds = std::map<Digest, Mind>;

  void Accuse(const DigestVote& vote, std::optional<Digest> expected, DigestSuspect::By by,
              const Camps& camps) {
    DigestSuspect suspect{vote, {}, by};
    suspect.expected_known = expected.has_value() && *expected != vote.digest;
    if (suspect.expected_known) suspect.expected = *expected;
    for (const auto& [digest, devices] : camps) {
      // The device itself may have given the right one too, by another provider.
      const auto others = static_cast<std::uint32_t>(devices.size() - devices.count(vote.device));
      if (suspect.expected_known && digest == suspect.expected) {
        suspect.agree += others;
        suspect.right_otherwise = others < devices.size();
      } else {
        suspect.differ += others;
      }
    }
    ++suspect.differ;
    findings_.suspects.push_back(suspect);
  }

  void Undecided(const Ballots& votes, const Camps& camps) {
    findings_.undecided.push_back(absl::StrCat(
        fleet_.text(votes.front()->name), " ", fleet_.text(votes.front()->probe),
        ": as many say one thing as another, nobody is accused: ", Describe(fleet_, camps)));
  }

  // `suites`: what those settled on whose suites ship a digest.
  void CountOpen(const Ballots& open, const Minds& suites) {
    std::map<std::string, std::map<std::uint32_t, Ballots>> versions;
    for (const DigestVote* vote : open)
      versions[AssaydOf(fleet_, *vote)][vote->provider].push_back(vote);
    const bool several = versions.size() > 1 || !suites.empty();
    Minds minds;
    for (const auto& [version, providers] : versions) {
      Ballots of_version;
      for (const auto& [provider, votes] : providers) {
        of_version.insert(of_version.end(), votes.begin(), votes.end());
      }
      const auto all = Majority(CampsOf(of_version));
      for (const auto& [provider, votes] : providers) {
        const Camps camps = CampsOf(votes);
        const auto own = Majority(camps);
        const auto right = own ? own : providers.size() > 1 ? all : std::nullopt;
        if (!right) {
          Undecided(votes, camps);
          continue;
        }
        Mind& mind = minds[*right];
        mind.who.insert(several ? absl::StrCat(fleet_.text(provider), " under assayd ", version)
                                : fleet_.text(provider));
        for (const DigestVote* vote : votes) {
          if (vote->digest == *right) {
            mind.devices.insert(vote->device);
          } else {
            Accuse(*vote, right,
                   own ? DigestSuspect::By::kProvider : DigestSuspect::By::kAllProviders, camps);
          }
        }
      }
    }
    // Suites of two versions may have different probes, and each has its own digest.
    const bool alike =
        minds.size() == 1 && (suites.empty() || suites.contains(minds.begin()->first));
    if (minds.empty() || alike) return;
    for (const auto& [digest, mind] : suites) {
      minds[digest].who.insert(mind.who.begin(), mind.who.end());
      minds[digest].devices.insert(mind.devices.begin(), mind.devices.end());
    }
    Divided(minds);
  }

  void Divided(const Minds& minds) {
    std::vector<std::string> words;
    std::set<std::uint32_t> alone;
    for (const auto& [digest, mind] : minds) {
      words.push_back(
          absl::StrCat(DigestText(digest).substr(0, 8), "… by ", absl::StrJoin(mind.who, ", ")));
      if (mind.devices.size() == 1) alone.insert(*mind.devices.begin());
    }
    // One device that is alone with its version may be wrong as well as its version different.
    const std::string reading =
        alone.empty()
            ? "so it is no single card"
            : absl::StrCat("and ", Names(fleet_, alone), alone.size() == 1 ? " is" : " are each",
                           " alone with one: card or version, run it elsewhere to tell");
    findings_.divided.push_back(absl::StrCat(
        fleet_.text(votes_.front()->name), " ", fleet_.text(votes_.front()->probe),
        ": each is of one mind, but they differ, ", reading, ": ", absl::StrJoin(words, "; ")));
  }

  const Fleet& fleet_;
  const Kinds& kinds_;
  const Ballots& votes_;
  DigestFindings& findings_;
};

}  // namespace

DigestFindings CompareDigests(const Fleet& fleet) {
  DigestFindings findings;
  const Kinds kinds(fleet);
  Ballots sorted;
  sorted.reserve(fleet.votes.size());
  for (const DigestVote& vote : fleet.votes) sorted.push_back(&vote);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto* a, const auto* b) { return a->what < b->what; });
  for (auto begin = sorted.begin(); begin != sorted.end();) {
    const auto end = std::find_if(begin, sorted.end(),
                                  [&](const auto* vote) { return vote->what != (*begin)->what; });
    findings.votes += end - begin;
    if (end - begin > 1) ++findings.compared;
    const bool alike = std::all_of(begin, end, [&](const auto* vote) {
      return vote->digest == (*begin)->digest && vote->golden != 0;
    });
    // Nearly all are: what follows is for the others.
    if (!alike) {
      const Ballots votes(begin, end);
      Poll(fleet, kinds, votes, findings).Count();
    }
    begin = end;
  }
  return findings;
}

}  // namespace assay::client
