#include "client/fleet/unjudged.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "client/report/units.h"

namespace assay::client {
namespace {

// Of one device.
struct Voice {
  bool judged = false;   // a digest of its own was held against another's, or the suite's
  bool exactly = false;  // one of an exact case
  std::int64_t given = 0, lacking = 0;  // digests that others gave of the same case and provider
};

// Why a device that gave nothing comparable did not.
std::string WhyNothing(const FleetDevice& device) {
  const Counts& counts = device.counts;
  if (counts.total == counts.unsupported + counts.skipped) {
    return absl::StrCat("ran none of its ", CountText(counts.total),
                        counts.total == 1 ? " case" : " cases", ": UNSUPPORTED or SKIPPED");
  }
  return "gave no digest of an exact case that another gave too, and no time with enough peers";
}

using Ballots = std::vector<const DigestVote*>;

Ballots Sorted(const Fleet& fleet) {
  Ballots sorted;
  sorted.reserve(fleet.votes.size());
  for (const DigestVote& vote : fleet.votes) sorted.push_back(&vote);
  std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) {
    return std::tuple(a->what, a->provider, a->device) <
           std::tuple(b->what, b->provider, b->device);
  });
  return sorted;
}

// What each device gave and did not give. Cases that ended in ERROR have no digests to give.
std::vector<Voice> Hear(const Fleet& fleet) {
  std::vector<Voice> voices(fleet.devices.size());
  std::set<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>> errors;
  for (const FailedRow& row : fleet.failures) {
    if (row.error) errors.emplace(row.what, row.provider, row.device);
  }
  const auto count = [&](const DigestVote& first, const std::vector<std::uint32_t>& voters) {
    const std::uint32_t ran = fleet.DevicesThatRan(first.key, first.provider);
    for (const std::uint32_t device : voters) voices[device].given += ran > 1 ? 1 : 0;
    if (ran == voters.size()) return;
    for (std::uint32_t device = 0; device < voices.size(); ++device) {
      if (!std::binary_search(voters.begin(), voters.end(), device) &&
          fleet.HasRun(device, first.key, first.provider) &&
          !errors.contains({first.key, first.provider, device})) {
        ++voices[device].lacking;
      }
    }
  };
  const Ballots sorted = Sorted(fleet);
  for (auto begin = sorted.begin(); begin != sorted.end();) {
    const auto end = std::find_if(begin, sorted.end(),
                                  [&](const auto* vote) { return vote->what != (*begin)->what; });
    const bool of_output = (*begin)->of_output;
    const bool others =
        std::any_of(begin, end, [&](const auto* vote) { return vote->device != (*begin)->device; });
    for (auto at = begin; at != end; ++at) {
      if (!others && (*at)->golden < 0) continue;
      voices[(*at)->device].judged = true;
      if (!of_output) voices[(*at)->device].exactly = true;
    }
    while (begin != end) {
      const DigestVote& first = **begin;
      std::vector<std::uint32_t> voters;  // ascending, each once
      for (; begin != end && (*begin)->provider == first.provider; ++begin) {
        if (voters.empty() || voters.back() != (*begin)->device) {
          voters.push_back((*begin)->device);
        }
      }
      if (!of_output) count(first, voters);
    }
  }
  return voices;
}

}  // namespace

SilenceFindings FindSilence(const Fleet& fleet, const ThroughputFindings& throughput,
                            const std::set<std::uint32_t>& accused) {
  std::vector<Voice> voices = Hear(fleet);
  for (const auto& [cell, rate] : throughput.rates) {
    // A time says nothing of digests that were not given.
    Voice& voice = voices[cell.first];
    if (voice.lacking == 0) voice.judged = true;
  }
  SilenceFindings findings;
  for (std::uint32_t device = 0; device < voices.size(); ++device) {
    const Voice& voice = voices[device];
    const std::int64_t all = voice.given + voice.lacking;
    const std::string digests = absl::StrCat(CountText(all), all == 1 ? " digest" : " digests");
    // Who gave none of the digests is not cleared by the output of a copy, or by a time.
    const bool silent = !voice.exactly && voice.given == 0 && voice.lacking > 0;
    if ((voice.judged && !silent) || accused.contains(device)) {
      if (voice.lacking > 0) {
        findings.partly.push_back(absl::StrCat("digests: ", fleet.devices[device].name(), " gave ",
                                               voice.given == 0 ? "none" : CountText(voice.given),
                                               " of the ", digests, " the others gave"));
      }
    } else if (voice.lacking > 0) {
      findings.unjudged.push_back(
          {device, absl::StrCat("gave none of the ", digests, " the others gave")});
    } else {
      findings.unjudged.push_back({device, WhyNothing(fleet.devices[device])});
    }
  }
  return findings;
}

}  // namespace assay::client
