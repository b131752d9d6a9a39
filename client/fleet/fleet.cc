#include "client/fleet/fleet.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/lib/operators.h"
#include "client/lib/words.h"

namespace assay::client {
namespace {

void AddOnce(std::vector<std::string>& list, const std::string& text) {
  if (!text.empty() && std::find(list.begin(), list.end(), text) == list.end()) {
    list.push_back(text);
  }
}

v1::Verdict VerdictOf(const std::string& word) {
  v1::Verdict verdict = v1::VERDICT_UNSPECIFIED;
  return v1::Verdict_Parse("VERDICT_" + word, &verdict) ? verdict : v1::VERDICT_UNSPECIFIED;
}

// A job may have run on devices of several models.
std::string ModelOf(const ReportRows& report, const std::string& target, const std::string& id) {
  const auto daemon = report.daemons.find(target);
  if (daemon == report.daemons.end()) return report.model;
  const auto known = daemon->second.models.find(id);
  return known == daemon->second.models.end() ? report.model : known->second;
}

bool HasEnded(const ReportRows& report) {
  return report.state.empty() || report.state == Word(v1::JOB_STATE_FINISHED);
}

std::string WhichJob(const ReportRows& report) {
  return !report.job.empty() ? report.job
                             : absl::FormatTime(report.generated_at.value_or(absl::InfinitePast()));
}

}  // namespace

std::optional<Digest> ParseDigest(std::string_view text) {
  Digest digest = {};
  if (text.size() != 2 * digest.size()) return std::nullopt;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const int nibble = c >= '0' && c <= '9'   ? c - '0'
                       : c >= 'a' && c <= 'f' ? c - 'a' + 10
                       : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                              : -1;
    if (nibble < 0) return std::nullopt;
    digest[i / 2] = static_cast<std::uint8_t>(digest[i / 2] << 4 | nibble);
  }
  return digest;
}

std::string DigestText(const Digest& digest) {
  std::string text;
  for (const std::uint8_t byte : digest) {
    text.push_back("0123456789abcdef"[byte >> 4]);
    text.push_back("0123456789abcdef"[byte & 15]);
  }
  return text;
}

std::uint32_t Texts::Id(std::string_view text) {
  if (const auto it = ids_.find(text); it != ids_.end()) return it->second;
  const auto id = static_cast<std::uint32_t>(texts_.size());
  ids_.emplace(texts_.emplace_back(text), id);
  return id;
}

std::uint32_t Fleet::DeviceOf(const ReportRows& report, const std::string& target,
                              const std::string& id) {
  ReportRows::Daemon daemon;
  if (const auto it = report.daemons.find(target); it != report.daemons.end()) daemon = it->second;
  const std::string host = report.host.empty() ? daemon.host : report.host;
  const std::string uuid = daemon.uuids.contains(id) ? daemon.uuids.at(id) : "";
  std::vector<std::string> identities;
  if (!uuid.empty()) identities.push_back("uuid " + uuid);
  if (!daemon.instance.empty()) identities.push_back("instance " + daemon.instance);
  identities.push_back("at " + target);
  auto at = static_cast<std::uint32_t>(devices.size());
  for (const std::string& identity : identities) {
    const auto known = device_ids_.find({host, id, identity});
    if (known == device_ids_.end()) continue;
    // A card that was replaced is another device.
    const std::string& other = devices[known->second].uuid;
    if (!uuid.empty() && !other.empty() && uuid != other) continue;
    at = known->second;
    break;
  }
  if (at == devices.size()) {
    FleetDevice& device = devices.emplace_back();
    device.target = target;
    device.host = host;
    device.id = id;
  }
  FleetDevice& device = devices[at];
  if (device.uuid.empty()) device.uuid = uuid;
  const bool new_address = device_ids_.try_emplace({host, id, identities.back()}, at).second;
  for (const std::string& identity : identities) device_ids_.try_emplace({host, id, identity}, at);
  if (new_address && device.target != target) {
    duplicates.push_back(absl::StrCat(target, " ", id, " is ", device.target, " ", id,
                                      " by another address: one device, one vote"));
  }
  return at;
}

void Fleet::NoteShortfall(const ReportRows& report) {
  const std::string in =
      report.source == report.target ? "" : absl::StrCat(" (", report.source, ")");
  const std::string job = report.job.empty() ? "its job" : report.job;
  const bool ended = HasEnded(report);
  std::set<std::string> heard;
  for (const ReportRows::Test& test : report.tests) {
    heard.insert(test.target.empty() ? report.target : test.target);
  }
  // One file may hold the jobs of several targets.
  for (const std::string& target : std::vector<std::string>(absl::StrSplit(report.target, ','))) {
    if (heard.contains(target) || heard.contains(report.target)) continue;
    missing.push_back({target.empty() ? report.source : target,
                       absl::StrCat("its report has no results", in,
                                    ended ? "" : absl::StrCat("; ", job, " is ", report.state))});
  }
  const auto count = static_cast<std::int64_t>(report.tests.size());
  const bool cut = report.total.value_or(0) > count;
  if ((ended && !cut) || report.tests.empty()) return;
  missing.push_back(
      {report.target.empty() ? report.source : report.target,
       ended ? absl::StrCat("incomplete: has ", count, " of its ", *report.total, " results", in)
             : absl::StrCat("incomplete: ", job, " is ", report.state, ", not FINISHED", in),
       count});
}

Fleet::Seen Fleet::Meet(const ReportRows& report, const std::string& target, std::uint32_t at) {
  FleetDevice& device = devices[at];
  const auto [seen, is_new] = seen_.try_emplace({at, WhichJob(report)});
  if (is_new) {
    ++device.reports;
    AddOnce(device.jobs, report.job);
    AddOnce(device.suites, report.suite_version.empty()
                               ? report.suite
                               : absl::StrCat(report.suite, " ", report.suite_version));
    AddOnce(device.seeds, report.seed);
  } else {
    duplicates.push_back(absl::StrCat(report.source, ": ", device.target, " ", device.id, " ",
                                      WhichJob(report), " is there already, counted once"));
  }
  if (!device.generated_at ||
      (report.generated_at && *report.generated_at >= *device.generated_at)) {
    device.generated_at = report.generated_at;
    device.model = ModelOf(report, target, device.id);
    device.driver = report.driver;
    device.versions = report.versions;
    device.state = report.state;
  }
  return seen->second;
}

void Fleet::NoteRun(const ReportRows::Test& test, const CaseIds& ids) {
  Ran& ran =
      ran_.try_emplace({ids.what, ids.provider}, Ran{static_cast<std::uint32_t>(ran_.size()), 0})
          .first->second;
  if (ran_on_.insert(std::uint64_t{ran.id} << 32 | ids.device).second) ++ran.devices;
  if (test.whole_key) {
    whole_.try_emplace({ids.name, ids.provider}, ids.what);
  } else {
    partial_.insert(ids.what);
  }
}

void Fleet::NoteVotes(const ReportRows::Test& test, const CaseIds& ids) {
  const auto vote = [&](const std::string& probe, const std::string& text,
                        std::optional<bool> golden, bool of_output) {
    const auto digest = ParseDigest(text);
    if (!digest) return;
    votes.push_back({texts_.Id(absl::StrCat(test.key, "\n", probe)), ids.device, ids.provider,
                     ids.name, texts_.Id(probe), *digest,
                     static_cast<std::int8_t>(golden ? (*golden ? 1 : 0) : -1), of_output,
                     ids.what});
  };
  for (const ReportRows::Probe& probe : test.probes) {
    vote(probe.name, probe.digest, probe.golden, false);
  }
  if (InfoOf(test.op).moves_values()) {
    vote(absl::StrCat("output of seed ", test.seed), test.digest, {}, true);
  }
}

void Fleet::NoteTimes(const ReportRows::Test& test, const CaseIds& ids) {
  const ReportRows::Times& times = *test.times;
  if (times.samples < kFewestSamples || times.median <= 0) {
    ++few_samples;
    return;
  }
  if (times.noisy) {
    ++noisy;
    ++noisy_of[ids.device];
    return;
  }
  const double per_second = times.flops_per_second.value_or(times.bytes_per_second.value_or(0));
  timed.push_back({ids.what, ids.device, ids.provider, ids.name, texts_.Id(test.implementation),
                   static_cast<std::uint32_t>(times.samples),
                   times.p10 > 0 ? std::min(times.p10, times.median) : times.median, times.median,
                   std::max(times.p90, times.median), per_second * times.median,
                   times.flops_per_second.has_value(),
                   static_cast<float>(times.clock_hertz.value_or(0)),
                   texts_.Id(absl::StrJoin(times.throttle_reasons, ", ")), times.replayed});
}

void Fleet::NotePrecision(const ReportRows::Test& test, const CaseIds& ids) {
  precisions.push_back({texts_.Id(absl::StrCat(test.key, "\nseed ", test.seed)), ids.device,
                        ids.provider, ids.name, texts_.Id(test.implementation), ids.what,
                        VerdictOf(test.verdict) == v1::VERDICT_FAILED,
                        test.exactness->bits.value_or(std::numeric_limits<double>::quiet_NaN()),
                        test.exactness->rms});
}

void Fleet::AddTest(const ReportRows::Test& test, std::uint32_t at, std::uint32_t job) {
  ++results;
  const v1::Verdict verdict = VerdictOf(test.verdict);
  devices[at].counts.Add(verdict);
  if (verdict == v1::VERDICT_UNSUPPORTED || verdict == v1::VERDICT_SKIPPED) return;
  const CaseIds ids = {texts_.Id(test.key), at, texts_.Id(test.provider), texts_.Id(test.name)};
  const std::uint32_t kernel =
      texts_.Id(absl::StrCat(test.op, " ", test.dtype, " ", test.provider));
  kernel_of_name[ids.name] = kernel;
  KernelCounts& kernel_counts = kernels[{at, kernel}];
  NoteRun(test, ids);
  // Neither right nor wrong.
  const bool unfinished =
      verdict == v1::VERDICT_ERROR &&
      IsNobodysFault(BlameOf(test.blame, test.reason, test.phase, devices[at].id));
  if ((verdict == v1::VERDICT_FAILED || verdict == v1::VERDICT_ERROR) && !unfinished) {
    ++kernel_counts.failed;
    failures.push_back({ids.what, at, ids.provider, ids.name, verdict == v1::VERDICT_ERROR,
                        test.reason, test.message, job});
  } else {
    ++(verdict == v1::VERDICT_PASSED ? kernel_counts.passed : kernel_counts.other);
  }
  NoteVotes(test, ids);
  if (test.times && verdict != v1::VERDICT_ERROR) NoteTimes(test, ids);
  if (test.exactness && test.whole_key) NotePrecision(test, ids);
}

void Fleet::Add(const ReportRows& report) {
  ++reports;
  NoteShortfall(report);
  struct Heard {
    Seen known;  // of earlier reports of the job
    std::int64_t here = 0;
  };
  std::map<std::uint32_t, Heard> heard;  // by device
  Places places;
  const std::uint32_t job = texts_.Id(report.job);
  for (const ReportRows::Test& test : report.tests) {
    const std::string& target = test.target.empty() ? report.target : test.target;
    const std::string& device_name = test.device.empty() ? report.device : test.device;
    const auto [place, unseen] = places.try_emplace({target, device_name});
    if (unseen) {
      place->second = DeviceOf(report, target, device_name.substr(device_name.rfind('/') + 1));
    }
    const std::uint32_t at = place->second;
    const auto [device, is_first] = heard.try_emplace(at);
    if (is_first) device->second.known = Meet(report, target, at);
    // The results of a job keep their order: those of a report that was written before its end are
    // the first.
    if (device->second.here++ >= device->second.known.results) AddTest(test, at, job);
  }
  std::map<std::uint32_t, bool> fresh;  // device -> some of its results are new, or the verdict is
  for (const auto& [at, device] : heard) {
    const bool ends = HasEnded(report) && !device.known.ended;
    fresh[at] = ends || device.here > device.known.results;
    seen_[{at, WhichJob(report)}] = {std::max(device.known.results, device.here),
                                     device.known.ended || ends};
  }
  NoteJobs(report, places);
  NoteVerdicts(report, places, fresh);
}

std::uint32_t Fleet::DevicesThatRan(std::uint32_t what, std::uint32_t provider) const {
  const auto it = ran_.find({what, provider});
  return it == ran_.end() ? 0 : it->second.devices;
}

bool Fleet::HasRun(std::uint32_t device, std::uint32_t what, std::uint32_t provider) const {
  const auto it = ran_.find({what, provider});
  return it != ran_.end() && ran_on_.contains(std::uint64_t{it->second.id} << 32 | device);
}

std::uint32_t Fleet::CaseOf(const FailedRow& row) const {
  if (!partial_.contains(row.what)) return row.what;
  const auto it = whole_.find({row.name, row.provider});
  return it == whole_.end() ? row.what : it->second;
}

void Fleet::NameNodes() {
  std::map<std::string, std::set<std::string>> targets_of_host, hosts_of_target;
  for (const FleetDevice& device : devices) {
    targets_of_host[device.host].insert(device.target);
    hosts_of_target[device.target].insert(device.host);
  }
  for (FleetDevice& device : devices) {
    if (!device.host.empty() && targets_of_host[device.host].size() == 1) {
      device.node = device.host;
    } else if (!device.target.empty() && hosts_of_target[device.target].size() == 1) {
      device.node = device.target;
    } else {
      device.node = absl::StrCat(device.host, device.host.empty() ? "" : " ", device.target);
    }
  }
}

std::size_t Fleet::node_count() const {
  std::set<std::string> nodes;
  for (const FleetDevice& device : devices) nodes.insert(device.node);
  return nodes.size();
}

}  // namespace assay::client
