#include "client/cli/fleet_status.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/listing.h"
#include "client/fleet/fan_out.h"
#include "client/lib/first_call.h"
#include "client/lib/words.h"
#include "client/report/json.h"
#include "client/report/units.h"

namespace assay::client {
namespace {

// One node's answer.
struct Answer {
  std::string problem;
  v1::ServerInfo server;
  std::vector<v1::Device> devices;
  std::vector<v1::Job> jobs;  // newest first
};

void AskNode(const Target& target, Answer& answer) {
  auto connection = Connection::Open(target);
  if (!connection.ok()) {
    answer.problem = std::string(connection.status().message());
    return;
  }
  v1::ListDevicesResponse devices;
  const grpc::Status status =
      FirstCall(**connection, [&] { return Ask(**connection, &Stub::ListDevices, {}, &devices); });
  if (!status.ok()) {
    answer.problem = WhyMissing(status, target.address);
    return;
  }
  answer.devices.assign(devices.devices().begin(), devices.devices().end());
  if (!Ask(**connection, &Stub::GetServerInfo, {}, &answer.server).ok()) {
    answer.server.Clear();
  }
  v1::ListJobsRequest request;
  request.set_page_size(100);
  v1::ListJobsResponse jobs;
  if (Ask(**connection, &Stub::ListJobs, request, &jobs).ok()) {
    answer.jobs.assign(jobs.jobs().begin(), jobs.jobs().end());
  }
}

// The device's newest job that has a verdict; none: nullptr.
const v1::Job* LastJob(const Answer& answer, const v1::Device& device) {
  for (const v1::Job& job : answer.jobs) {
    if (job.verdict() == v1::VERDICT_UNSPECIFIED) continue;
    for (const std::string& id : job.devices()) {
      if (id == device.id() || id == device.name()) return &job;
    }
  }
  return nullptr;
}

std::vector<std::string> RowOf(const std::string& target, const Answer& answer,
                               const v1::Device& device) {
  std::string state = Word(device.state());
  if (!device.quarantine_reason().empty()) {
    absl::StrAppend(&state, ": ", device.quarantine_reason());
  }
  if (answer.server.draining()) absl::StrAppend(&state, ", draining");
  std::string job, temperature;
  if (const v1::Job* last = LastJob(answer, device); last != nullptr) {
    job = absl::StrCat(Word(last->verdict()), " ",
                       last->suite().empty() ? last->name() : last->suite());
  }
  if (device.telemetry().has_temperature_celsius()) {
    temperature = absl::StrFormat("%.0f °C", device.telemetry().temperature_celsius());
  }
  return {target,
          device.id(),
          OrDash(answer.server.version()),
          OrDash(device.model()),
          OrDash(state),
          absl::StrCat(device.queue_depth()),
          OrDash(job),
          OrDash(temperature)};
}

Json ItemOf(const std::string& target, const Answer& answer, const v1::Device& device) {
  Json item = {{"target", target},
               {"host", answer.server.host()},
               {"version", answer.server.version()},
               {"device", device.id()},
               {"model", device.model()},
               {"state", Word(device.state())},
               {"queue_depth", device.queue_depth()}};
  if (const v1::Job* last = LastJob(answer, device); last != nullptr) {
    item["last_job"] = last->name();
    item["last_verdict"] = Word(last->verdict());
  }
  if (device.telemetry().has_temperature_celsius()) {
    item["temperature_celsius"] = Number(device.telemetry().temperature_celsius());
  }
  if (!device.quarantine_reason().empty()) item["quarantine_reason"] = device.quarantine_reason();
  return item;
}

}  // namespace

ExitCode FleetStatus(const Context& context, FleetTargets targets, std::size_t limit, Format format,
                     std::ostream& out) {
  std::vector<Answer> answers(targets.targets.size());
  FanOut(answers.size(), limit, [&](std::size_t i) { AskNode(targets.targets[i], answers[i]); });
  std::vector<std::vector<std::string>> rows;
  Json json = {{"schema", "assay.fleet.status/v1"},
               {"devices", Json::array()},
               {"missing", Json::array()},
               {"duplicates", Json::array()}};
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const std::string& target = targets.targets[i].address;
    if (!answers[i].problem.empty()) {
      targets.missing.push_back({target, answers[i].problem});
      continue;
    }
    for (const v1::Device& device : answers[i].devices) {
      // Backends that the node does not have are `assay devices`' matter.
      if (device.state() == v1::DEVICE_STATE_UNAVAILABLE &&
          device.id().find(':') == std::string::npos) {
        continue;
      }
      rows.push_back(RowOf(target, answers[i], device));
      json["devices"].push_back(ItemOf(target, answers[i], device));
    }
  }
  if (format == Format::kJson) {
    for (const MissingNode& missing : targets.missing) {
      json["missing"].push_back({{"target", missing.target}, {"reason", missing.reason}});
    }
    for (const std::string& line : targets.duplicates) json["duplicates"].push_back(line);
    out << Indented(json) << '\n';
  } else {
    PrintListing(out, {"NODE", "DEVICE", "ASSAYD", "MODEL", "STATE", "QUEUE", "LAST JOB", "HEAT"},
                 rows);
  }
  for (const MissingNode& missing : targets.missing) {
    context.Say(absl::StrCat("missing ", missing.target, ": ", missing.reason));
  }
  for (const std::string& line : targets.duplicates) context.Say(line);
  return targets.missing.empty() ? ExitCode::kPassed : ExitCode::kNoVerdict;
}

}  // namespace assay::client
