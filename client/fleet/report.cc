#include "client/fleet/report.h"

#include "client/fleet/jobs.h"

namespace assay::client {
namespace {

void AddText(Json& json, const char* name, const std::string& text) {
  if (!text.empty()) json[name] = text;
}

Json List(const std::vector<std::string>& lines) {
  Json list = Json::array();
  for (const std::string& line : lines) list.push_back(line);
  return list;
}

Json EvidenceJson(const Evidence& evidence) {
  Json json = {{"charge", ChargeWord(evidence.charge)}};
  AddText(json, "case", evidence.case_name);
  AddText(json, "provider", evidence.provider);
  if (evidence.cases > 0) json["cases"] = evidence.cases;
  json["text"] = evidence.text;
  AddText(json, "reason", evidence.reason);
  AddText(json, "probe", evidence.probe);
  AddText(json, "digest", evidence.digest);
  AddText(json, "expected_digest", evidence.expected);
  AddText(json, "decided_by", evidence.decided_by);
  if (!evidence.probe.empty()) {
    json["devices_that_agree"] = evidence.agree;
    json["devices_that_differ"] = evidence.differ;
  }
  if (evidence.rms) {
    json["rms"] = Number(*evidence.rms);
    json["median_rms"] = Number(evidence.peers_rms);
    json["peers"] = evidence.peer_count;
  }
  if (evidence.standing) {
    json["below_median"] = Number(evidence.standing->shortfall);
    json["deviations"] = Number(evidence.standing->deviations);
    json["similarity"] = Number(evidence.standing->similarity);
    json["p_value"] = Number(evidence.standing->p_value);
    json["peers"] = evidence.peer_count;
    if (evidence.rate > 0) {
      const std::string unit = evidence.flops ? "flops_per_second" : "bytes_per_second";
      json[unit] = Number(evidence.rate);
      json["median_" + unit] = Number(evidence.peers_rate);
    }
  }
  return json;
}

Json RerunJson(const Rerun& rerun) {
  return {{"case", rerun.case_name},
          {"node", rerun.node},
          {"device", rerun.device},
          {"sibling", rerun.sibling},
          {"outcome", std::string(Word(rerun.vote))},
          {"text", rerun.text}};
}

Json JobFindingJson(const JobRow& row, bool everywhere) {
  Json json = {{"target", row.target}};
  AddText(json, "suite", row.suite);
  AddText(json, "job", row.job);
  json["verdict"] = row.failed ? "FAILED" : "INCONCLUSIVE";
  json["reason"] = row.reason;
  json["message"] = row.message;
  json["everywhere"] = everywhere;
  return json;
}

Json JobFindingsJson(const FleetReport& report) {
  Json list = Json::array();
  for (const JobGroup& group : GroupJobs(report.fleet)) {
    for (const JobRow* row : group.rows) list.push_back(JobFindingJson(*row, group.everywhere()));
  }
  for (const JobRow& row : report.judgement.verdicts) list.push_back(JobFindingJson(row, false));
  return list;
}

Json PlaceJson(const FleetDevice& device) {
  Json json = {{"node", device.node}};
  AddText(json, "target", device.target);
  json["device"] = device.id;
  return json;
}

Json AccusedJson(const Accused& accused, const FleetDevice& device) {
  Json json = PlaceJson(device);
  AddText(json, "model", device.model);
  json["charge"] = ChargeWord(accused.charge);
  json["evidence"] = Json::array();
  for (const Evidence& evidence : accused.evidence) {
    json["evidence"].push_back(EvidenceJson(evidence));
  }
  json["unlike_peers"] = List(accused.unlike);
  json["reruns"] = Json::array();
  for (const Rerun& rerun : accused.reruns) json["reruns"].push_back(RerunJson(rerun));
  AddText(json, "reads_as", accused.reads_as);
  return json;
}

Json DeviceJson(const FleetDevice& device) {
  Json json = {{"node", device.node}};
  AddText(json, "target", device.target);
  AddText(json, "host", device.host);
  json["device"] = device.id;
  AddText(json, "uuid", device.uuid);
  AddText(json, "model", device.model);
  AddText(json, "driver_version", device.driver);
  json["versions"] = Json::object();
  for (const auto& [name, version] : device.versions) json["versions"][name] = version;
  json["suites"] = List(device.suites);
  json["jobs"] = List(device.jobs);
  AddText(json, "state", device.state);
  if (device.generated_at) json["generated_at"] = UtcText(*device.generated_at);
  AddCounts(device.counts.total, device.counts, json);
  return json;
}

}  // namespace

std::vector<std::string> FleetReport::GivenTwice() const {
  std::vector<std::string> lines = duplicates;
  lines.insert(lines.end(), fleet.duplicates.begin(), fleet.duplicates.end());
  return lines;
}

ExitCode ExitCodeOf(const FleetReport& report) {
  const Judgement& judgement = report.judgement;
  if (!judgement.accused.empty() || !judgement.everywhere.empty() || !judgement.jobs.empty()) {
    return ExitCode::kFailed;
  }
  if (!judgement.compared() || !judgement.unjudged.empty() || !judgement.undecided.empty() ||
      !judgement.divided.empty() || !judgement.unproven.empty() || !report.missing.empty() ||
      !report.unread.empty()) {
    return ExitCode::kNoVerdict;
  }
  return ExitCode::kPassed;
}

Json FleetJson(const FleetReport& report) {
  const Fleet& fleet = report.fleet;
  const Judgement& judgement = report.judgement;
  Json json;
  json["schema"] = "assay.fleet/v1";
  json["generated_at"] = UtcText(report.generated_at);
  const ExitCode code = ExitCodeOf(report);
  json["verdict"] = code == ExitCode::kPassed   ? "PASSED"
                    : code == ExitCode::kFailed ? "FAILED"
                                                : "INCONCLUSIVE";
  json["nodes"] = fleet.node_count();
  json["device_count"] = fleet.devices.size();
  json["reports"] = fleet.reports;
  json["results"] = fleet.results;
  json["compared"] = {{"digests", judgement.digests.compared},
                      {"digest_votes", judgement.digests.votes},
                      {"timed_groups", judgement.throughput.groups},
                      {"precision_groups", judgement.precision.groups},
                      {"too_few_peers", judgement.throughput.too_few_peers},
                      {"few_samples", fleet.few_samples},
                      {"noisy", fleet.noisy}};
  json["accused"] = Json::array();
  for (const Accused& accused : judgement.accused) {
    json["accused"].push_back(AccusedJson(accused, fleet.devices[accused.device]));
  }
  json["unjudged"] = Json::array();
  for (const Unjudged& unjudged : judgement.unjudged) {
    Json one = PlaceJson(fleet.devices[unjudged.device]);
    one["reason"] = unjudged.reason;
    json["unjudged"].push_back(std::move(one));
  }
  json["missing"] = Json::array();
  for (const MissingNode& missing : report.missing) {
    json["missing"].push_back(
        {{"target", missing.target}, {"reason", missing.reason}, {"results", missing.results}});
  }
  json["unread"] = List(report.unread);
  json["duplicates"] = List(report.GivenTwice());
  json["everywhere"] = List(judgement.everywhere);
  json["job_findings"] = JobFindingsJson(report);
  json["watch"] = List(judgement.watch);
  json["undecided"] = List(judgement.undecided);
  json["divided"] = List(judgement.divided);
  json["differences"] = List(judgement.differences);
  json["devices"] = Json::array();
  for (const FleetDevice& device : fleet.devices) json["devices"].push_back(DeviceJson(device));
  return json;
}

}  // namespace assay::client
