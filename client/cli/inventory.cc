// devices, kernels, suites, version: what a daemon has.
#include <map>
#include <memory>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/ceilings.h"
#include "client/cli/context.h"
#include "client/cli/device_text.h"
#include "client/cli/listing.h"
#include "client/lib/words.h"
#include "client/qualify/level.h"
#include "client/report/units.h"

namespace assay::client {
namespace {

std::vector<std::string> DeviceRow(const v1::Device& device) {
  std::vector<std::string> notes;
  for (const std::string* reason : {&device.quarantine_reason(), &device.unavailable_reason()}) {
    if (!reason->empty()) notes.push_back(*reason);
  }
  if (device.queue_depth() > 0) {
    notes.push_back(absl::StrCat(device.queue_depth(),
                                 device.queue_depth() == 1 ? " case" : " cases", " to do"));
  }
  if (device.worker_restarts() > 0) {
    notes.push_back(absl::StrCat(device.worker_restarts(),
                                 device.worker_restarts() == 1 ? " restart" : " restarts"));
  }
  for (std::string& word : TelemetryWords(device.telemetry())) notes.push_back(std::move(word));
  for (std::string& word : CeilingWords(device)) notes.push_back(std::move(word));
  return {device.id(),
          absl::AsciiStrToLower(Word(device.state())),
          OrDash(device.model()),
          device.compute_units() > 0 ? absl::StrCat(device.compute_units()) : "–",
          device.memory_bytes() > 0 ? BytesText(device.memory_bytes()) : "–",
          device.state() == v1::DEVICE_STATE_UNAVAILABLE ? "–" : BytesText(device.leased_bytes()),
          absl::StrJoin(notes, "; ")};
}

// What nobody could look at has no value, not even 0.
Json DeviceJson(const v1::Device& device) {
  Json json = MessageJson(device);
  if (const auto telemetry = json.find("telemetry"); telemetry != json.end()) {
    for (const char* key : {"clock_hertz", "throttle_seconds", "ecc_errors", "faults"}) {
      if (telemetry->contains(key) && (*telemetry)[key].empty()) telemetry->erase(key);
    }
  }
  if (device.state() == v1::DEVICE_STATE_UNAVAILABLE) {
    for (const char* key : {"memory_bytes", "arena_bytes", "leased_bytes", "compute_units",
                            "queue_depth", "worker_restarts"}) {
      json.erase(key);
    }
  }
  return json;
}

const std::vector<std::string> kDeviceHeading = {"DEVICE", "STATE", "MODEL", "UNITS",
                                                 "MEMORY", "HELD",  ""};

const std::vector<std::string> kContainmentHeading = {"DEVICE", "MEASURE", "HOLDS", ""};

// One row for each measure that keeps the device's workers from the rest of the node.
std::vector<std::vector<std::string>> ContainmentRows(const v1::Device& device) {
  std::vector<std::vector<std::string>> rows;
  for (const v1::ContainmentMeasure& measure : device.containment()) {
    rows.push_back(
        {device.id(), measure.measure(), measure.applied() ? "yes" : "no", measure.detail()});
  }
  if (rows.empty()) {
    rows.push_back({device.id(), "–", "–",
                    device.unavailable_reason().empty() ? "the daemon does not say"
                                                        : device.unavailable_reason()});
  }
  return rows;
}

// What `assay devices` shows of each device.
enum class DeviceView { kState, kCeilings, kContainment };

ExitCode ListDevices(const Context& context, DeviceView view) {
  const bool ceilings = view == DeviceView::kCeilings;
  const auto ask = [&](Connection& connection, Listed& listed) {
    v1::ListDevicesRequest request;
    request.set_measure_ceilings(ceilings);
    v1::ListDevicesResponse response;
    // Measuring ceilings keeps the devices busy for a while.
    grpc::Status status = Ask(connection, &Stub::ListDevices, request, &response,
                              ceilings ? absl::Minutes(10) : kCallDeadline);
    for (const v1::Device& device : response.devices()) {
      switch (view) {
        case DeviceView::kState:
          listed.rows.push_back(DeviceRow(device));
          break;
        case DeviceView::kCeilings:
          for (auto& row : CeilingRows(device)) listed.rows.push_back(std::move(row));
          break;
        case DeviceView::kContainment:
          for (auto& row : ContainmentRows(device)) listed.rows.push_back(std::move(row));
          break;
      }
      listed.items.push_back(DeviceJson(device));
    }
    return status;
  };
  return List(context, "devices",
              ceilings                           ? CeilingHeading()
              : view == DeviceView::kContainment ? kContainmentHeading
                                                 : kDeviceHeading,
              ask);
}

ExitCode ReleaseDevice(const Context& context, const std::string& device, bool keep_quarantine) {
  return List(context, "devices", kDeviceHeading, [&](Connection& connection, Listed& listed) {
    v1::ReleaseDeviceRequest request;
    request.set_name(device.starts_with("devices/") ? device : "devices/" + device);
    request.set_keep_quarantine(keep_quarantine);
    v1::Device released;
    grpc::Status status = Ask(connection, &Stub::ReleaseDevice, request, &released);
    if (status.ok()) {
      listed.rows.push_back(DeviceRow(released));
      listed.items.push_back(DeviceJson(released));
    }
    return status;
  });
}

std::vector<std::string> KernelRow(const v1::Kernel& kernel) {
  std::vector<std::string> types;
  for (const int type : kernel.dtypes()) types.push_back(Word(static_cast<v1::DType>(type)));
  const std::string provider = kernel.version().empty()
                                   ? kernel.provider()
                                   : absl::StrCat(kernel.provider(), " ", kernel.version());
  return {kernel.op(), provider, kernel.backend(), OrDash(absl::StrJoin(types, " ")),
          kernel.available()                    ? "yes"
          : kernel.unavailable_reason().empty() ? "no"
                                                : "no: " + kernel.unavailable_reason()};
}

ExitCode ListKernels(const Context& context, bool planted) {
  return List(context, "kernels", {"OP", "PROVIDER", "BACKEND", "TYPES", "AVAILABLE"},
              [&](Connection& connection, Listed& listed) {
                v1::ListKernelsRequest request;
                request.set_show_planted(planted);
                v1::ListKernelsResponse response;
                grpc::Status status = Ask(connection, &Stub::ListKernels, request, &response);
                for (const v1::Kernel& kernel : response.kernels()) {
                  listed.rows.push_back(KernelRow(kernel));
                  listed.items.push_back(MessageJson(kernel));
                }
                return status;
              });
}

grpc::Status FetchSuites(Connection& connection, bool full, v1::ListSuitesResponse* response) {
  v1::ListSuitesRequest request;
  request.set_full(full);
  return Ask(connection, &Stub::ListSuites, request, response);
}

Json SuiteJson(const v1::Suite& suite) {
  Json json = MessageJson(suite);
  // A suite that cannot be read has an unknown number of cases, not none.
  if (!suite.error().empty()) json.erase("case_count");
  return json;
}

ExitCode ListSuites(const Context& context) {
  return List(context, "suites", {"SUITE", "VERSION", "CASES", "WHAT IT IS FOR"},
              [&](Connection& connection, Listed& listed) {
                v1::ListSuitesResponse response;
                grpc::Status status = FetchSuites(connection, false, &response);
                for (const v1::Suite& suite : response.suites()) {
                  listed.rows.push_back(
                      {suite.name(), suite.version(),
                       suite.error().empty() ? absl::StrCat(suite.case_count()) : "–",
                       suite.error().empty() ? suite.title() : "cannot be read: " + suite.error()});
                  listed.items.push_back(SuiteJson(suite));
                }
                return status;
              });
}

ExitCode ShowSuite(const Context& context, const std::string& name) {
  auto format = context.ChosenFormat("a suite", {"table", "json"});
  if (!format.ok()) return context.Fail(format.status());
  auto connections = context.Connect();
  if (!connections.ok()) return context.Fail(connections.status());
  Connection& connection = *connections->front();
  v1::ListSuitesResponse response;
  if (grpc::Status status = FetchSuites(connection, true, &response); !status.ok()) {
    return context.Fail(Describe(status, connection.target()));
  }
  // A level's suite has a number, too.
  const auto level = ParseLevel(name);
  std::vector<std::string> known;
  for (const v1::Suite& suite : response.suites()) {
    known.push_back(suite.name());
    if (suite.name() != name && !(level.ok() && suite.name() == level->suite)) continue;
    return context.WithOutput([&](std::ostream& out) {
      if (*format == Format::kTable) {
        // As comments, so that what is shown is still a suite.
        for (const std::string& line : suite.coverage()) out << "# here: " << line << '\n';
        out << suite.text() << (suite.text().ends_with('\n') ? "" : "\n");
      } else {
        out << Indented(SuiteJson(suite)) << '\n';
      }
      return ExitCode::kPassed;
    });
  }
  return context.Fail(
      absl::InvalidArgumentError(absl::StrCat("no suite \"", name, "\" on ", connection.target(),
                                              DidYouMean(name, known), " (assay suites)")));
}

ExitCode Version(const Context& context) {
  auto format = context.ChosenFormat("versions", {"table", "json"});
  if (!format.ok()) return context.Fail(format.status());
  auto connections = context.Connect();
  if (!connections.ok()) return context.Fail(connections.status());
  return context.WithOutput([&](std::ostream& out) {
    ExitCode code = ExitCode::kPassed;
    Json document;
    document["assay"] = ASSAY_VERSION;
    document["daemons"] = Json::array();
    if (*format == Format::kTable) out << "assay " << ASSAY_VERSION << '\n';
    for (const auto& connection : *connections) {
      v1::ServerInfo info;
      const grpc::Status status =
          Ask(*connection, &Stub::GetServerInfo, {}, &info, absl::Seconds(10));
      if (!status.ok()) {
        // The client's own version is told, whoever else is silent.
        code = context.Fail(Describe(status, connection->target()));
        continue;
      }
      Json item = MessageJson(info);
      item["target"] = connection->target();
      document["daemons"].push_back(std::move(item));
      if (*format != Format::kTable) continue;
      out << "assayd " << info.version() << " at " << connection->target();
      if (!info.host().empty()) out << " on " << info.host();
      if (info.draining()) out << ", draining";
      out << '\n';
      for (const auto& [name, version] :
           std::map<std::string, std::string>(info.versions().begin(), info.versions().end())) {
        out << "  " << name << ' ' << version << '\n';
      }
    }
    if (*format != Format::kTable) out << Indented(document) << '\n';
    return code;
  });
}

}  // namespace

void AddInventoryCommands(CLI::App& app, Context& context) {
  auto* devices = app.add_subcommand("devices", "list the devices, and why others cannot be used");
  auto ceilings = std::make_shared<bool>(false);
  devices->add_flag(
      "--ceilings,--measure-ceilings", *ceilings,
      "also show each device's ceilings: the best speeds that it reached, beside its data "
      "sheet; a ceiling is measured once and kept, and measured again if a kernel was faster "
      "or the runs deviated by more than 10 %");
  auto verbose = std::make_shared<bool>(false);
  devices
      ->add_flag("--verbose", *verbose,
                 "show what keeps each device's workers from the rest of the node, and why a "
                 "measure does not hold here")
      ->excludes("--ceilings");
  auto* release =
      devices->add_subcommand("release", "give a device's memory back, and end its quarantine");
  auto device = std::make_shared<std::string>();
  auto keep_quarantine = std::make_shared<bool>(false);
  release->add_option("device", *device, "cpu:0, cuda:1, …")->required();
  release->add_flag("--keep-quarantine", *keep_quarantine, "give back the memory only");
  devices->callback([=, &context] {
    context.action = [=, &context] {
      return release->parsed() ? ReleaseDevice(context, *device, *keep_quarantine)
                               : ListDevices(context, *ceilings  ? DeviceView::kCeilings
                                                      : *verbose ? DeviceView::kContainment
                                                                 : DeviceView::kState);
    };
  });

  auto* kernels = app.add_subcommand("kernels", "list the kernels that can be put under test");
  auto planted = std::make_shared<bool>(false);
  kernels->add_flag("--planted", *planted, "also list planted kernels, which are wrong on purpose");
  context.OnRun(kernels, [planted](const Context& of) { return ListKernels(of, *planted); });

  auto* suites = app.add_subcommand("suites", "list the suites that the daemon has");
  auto* show =
      suites->add_subcommand("show", "show a suite's text, and what it covers on this daemon");
  auto name = std::make_shared<std::string>();
  show->add_option("name", *name, "the suite, or a level's number")->required();
  suites->callback([&context, show, name] {
    context.action = [&context, show, name] {
      return show->parsed() ? ShowSuite(context, *name) : ListSuites(context);
    };
  });

  app.add_subcommand("version", "show the versions of this client and of the daemon")
      ->callback([&context] { context.action = [&context] { return Version(context); }; });
}

}  // namespace assay::client
