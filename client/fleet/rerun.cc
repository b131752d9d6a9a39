// Reruns: does a deviation repeat, and does it repeat elsewhere?
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/blame/rerun.h"
#include "client/fleet/fan_out.h"
#include "client/fleet/run.h"
#include "client/lib/words.h"
#include "client/report/units.h"

namespace assay::client {
namespace {

// Where a case can be run.
struct Place {
  NodeRun* node = nullptr;
  std::string device;
  std::string name;  // of the node, for people
};

std::string BareId(const std::string& device) { return device.substr(device.rfind('/') + 1); }

Vote ReadPrecision(const Evidence& evidence, const v1::CaseResult& result, std::string& text) {
  if (!result.precision().has_rms()) {
    text = absl::StrCat("no precision (", Word(result.verdict()), ")");
    return Vote::kUnknown;
  }
  const double rms = result.precision().rms();
  text =
      absl::StrCat("rms error ", RatioText(rms), ", the median is ", RatioText(evidence.peers_rms));
  return IsInexact(rms, evidence.peers_rms) ? Vote::kAgain : Vote::kRight;
}

// Whether the result speaks against its device or its kernel. If a worker was killed from outside
// or had no memory, or the device was set aside, it does not.
bool Failed(const v1::CaseResult& result) {
  if (result.verdict() == v1::VERDICT_FAILED) return true;
  if (result.verdict() != v1::VERDICT_ERROR) return false;
  if (result.findings().empty()) return true;
  const v1::Finding& first = result.findings(0);
  return !first.quarantined() && !IsNobodysFault(BlameOf(first.blame(), first.reason(),
                                                         first.phase(), BareId(result.device())));
}

// What a second result says of the evidence.
Vote Read(const Evidence& evidence, const v1::CaseResult& result, std::string& text) {
  const std::string verdict = Word(result.verdict());
  switch (evidence.charge) {
    case Charge::kAccused: {
      if (evidence.rms) return ReadPrecision(evidence, result, text);
      std::string digest;
      std::optional<bool> golden;
      for (const auto& probe : result.probes()) {
        if (probe.name() != evidence.probe) continue;
        digest = probe.digest();
        if (probe.has_golden()) golden = probe.golden();
      }
      if (evidence.of_output) digest = result.digests().canonical();
      if (digest.empty()) {
        text = absl::StrCat("no digest (", verdict, ")");
        return Vote::kUnknown;
      }
      const bool right = evidence.expected.empty() ? golden.value_or(digest != evidence.digest)
                                                   : digest == evidence.expected;
      text = absl::StrCat(digest.substr(0, 12), "…, ",
                          right                       ? "the right one"
                          : digest == evidence.digest ? "the wrong one again"
                                                      : "wrong in another way");
      return right ? Vote::kRight : Vote::kAgain;
    }
    case Charge::kFailed:
      text = result.findings().empty() ? verdict
                                       : absl::StrCat(verdict, " ", result.findings(0).reason());
      if (result.verdict() == v1::VERDICT_PASSED) return Vote::kRight;
      return Failed(result) ? Vote::kAgain : Vote::kUnknown;
    case Charge::kSlow: {
      const double rate =
          evidence.flops ? result.bench().flops_per_second() : result.bench().bytes_per_second();
      if (rate <= 0 || evidence.peers_rate <= 0) {
        text = absl::StrCat("no time (", verdict, ")");
        return Vote::kUnknown;
      }
      const double below = 1 - rate / evidence.peers_rate;
      text = absl::StrFormat("%.1f %% %s the median", 100 * std::abs(below),
                             below >= 0 ? "under" : "above");
      return below >= kCustomarySpread ? Vote::kAgain : Vote::kRight;
    }
  }
  return Vote::kUnknown;
}

// The result that the evidence is of. Cases that fill a suite's budget have one name and many
// seeds, and the deviation may be in the data of one of them.
const v1::CaseResult* FindResult(const NodeRun& node, const std::string& device,
                                 const Evidence& evidence) {
  const v1::CaseResult* found = nullptr;
  for (const v1::CaseResult& result : node.run.results) {
    if (result.name() != evidence.case_name || result.spec().provider() != evidence.provider ||
        BareId(result.device()) != device) {
      continue;
    }
    std::string text;
    if (Read(evidence, result, text) == Vote::kAgain) return &result;
    if (found == nullptr) found = &result;
  }
  return found;
}

Rerun RunAgain(const Place& place, bool sibling, const Evidence& evidence, const v1::CaseSpec& spec,
               const FollowOptions& follow) {
  Rerun rerun;
  rerun.case_name = evidence.case_name;
  rerun.node = place.name;
  rerun.device = place.device;
  rerun.sibling = sibling;
  v1::JobSpec job_spec = RerunSpec(spec, place.device);
  (*job_spec.mutable_labels())["assay-fleet"] = sibling ? "rerun-sibling" : "rerun";
  Connection& connection = *place.node->connection;
  v1::Job job;
  grpc::Status status = CreateJob(connection, job_spec, follow, &job);
  std::optional<v1::CaseResult> result;
  if (status.ok()) {
    status = Follower(connection, follow).Follow(job.name(), 0, [&](const v1::JobEvent& event) {
      if (event.has_case_result() && !result) result = event.case_result();
    });
  }
  if (!result) {
    rerun.text = status.ok() ? "no result" : WhyMissing(status, connection.target());
    return rerun;
  }
  rerun.vote = Read(evidence, *result, rerun.text);
  absl::StrAppend(&rerun.text, " (", job.name(), ")");
  return rerun;
}

// What each code of the blame table says to the reader of a fleet's report.
constexpr std::pair<std::string_view, const char*> kReadings[] = {
    {"A101", "it repeats there and not on the sibling: suspect this card"},
    {"A102", "it repeats, on the sibling too: look at library and driver before the card"},
    {"A103", "it repeats; there was no sibling to tell card from library"},
    {"A104", "it did not repeat: it comes and goes, keep the evidence and watch the device"},
};

// What the reruns say together; empty if they say nothing. A sibling that was right says something
// of the device only in a case that went wrong on the device again.
std::string ReadsAs(const Accused& accused) {
  Reruns reruns{Seen::kAccused, {}, {}, {}};
  Vote here = Vote::kUnknown;  // each rerun on a sibling follows the one on the device
  for (const Rerun& rerun : accused.reruns) {
    if (!rerun.sibling) {
      here = rerun.vote;
      reruns.here.Add(here);
    } else if (rerun.vote == Vote::kAgain || here == Vote::kAgain) {
      reruns.siblings.Add(rerun.vote);
    }
  }
  const std::string_view code = BlameOf(reruns);
  for (const auto& [of, reading] : kReadings) {
    if (of == code) return reading;
  }
  return "";
}

class Siblings {
 public:
  Siblings(const Fleet& fleet, std::vector<NodeRun>& nodes, const Judgement& judgement)
      : fleet_(fleet) {
    for (NodeRun& node : nodes) node_of_[node.target.address] = &node;
    for (const Accused& accused : judgement.accused) accused_.insert(accused.device);
  }

  Place PlaceOf(std::uint32_t device) const {
    const FleetDevice& of = fleet_.devices[device];
    const auto it = node_of_.find(of.target);
    if (it == node_of_.end() || it->second->state != NodeRun::State::kFinished) return {};
    return {it->second, of.id, of.node};
  }

  // Another device of the same node and model, else of another node; none: no node.
  Place SiblingOf(std::uint32_t device) const {
    const FleetDevice& of = fleet_.devices[device];
    if (const Place own = PlaceOf(device); own.node != nullptr) {
      const auto& devices = own.node->run.devices;
      const auto me = std::find_if(devices.begin(), devices.end(),
                                   [&](const v1::Device& one) { return one.id() == of.id; });
      if (me != devices.end()) {
        const auto siblings = SiblingsOf(devices, *me, 1, [&](const v1::Device& one) {
          return one.model() == me->model() && !Accuses(of.target, one.id());
        });
        if (!siblings.empty()) return {own.node, siblings.front(), own.name};
      }
    }
    for (std::uint32_t i = 0; i < fleet_.devices.size(); ++i) {
      if (i == device || accused_.contains(i) || fleet_.devices[i].model != of.model) continue;
      if (Place place = PlaceOf(i); place.node != nullptr) return place;
    }
    return {};
  }

 private:
  bool Accuses(const std::string& target, const std::string& id) const {
    return std::any_of(accused_.begin(), accused_.end(), [&](std::uint32_t device) {
      return fleet_.devices[device].target == target && fleet_.devices[device].id == id;
    });
  }

  const Fleet& fleet_;
  std::map<std::string, NodeRun*> node_of_;
  std::set<std::uint32_t> accused_;
};

}  // namespace

void RerunAccused(const Fleet& fleet, std::vector<NodeRun>& nodes, const FollowOptions& follow,
                  std::size_t limit, std::size_t most, Judgement& judgement) {
  const Siblings siblings(fleet, nodes, judgement);
  FanOut(judgement.accused.size(), limit, [&](std::size_t i) {
    Accused& accused = judgement.accused[i];
    const Place place = siblings.PlaceOf(accused.device);
    if (place.node == nullptr) return;
    const Place sibling = siblings.SiblingOf(accused.device);
    std::set<std::string> cases;
    for (const Evidence& evidence : accused.evidence) {
      const v1::CaseResult* result = FindResult(*place.node, place.device, evidence);
      if (result == nullptr || !cases.insert(evidence.case_name).second) continue;
      if (cases.size() > most) break;
      accused.reruns.push_back(RunAgain(place, false, evidence, result->spec(), follow));
      if (sibling.node != nullptr) {
        accused.reruns.push_back(RunAgain(sibling, true, evidence, result->spec(), follow));
      }
    }
    accused.reads_as = ReadsAs(accused);
  });
}

}  // namespace assay::client
