// assay-telemetry: the process that samples the devices of a node for its daemon. Once a second it
// writes assay.v1.Device messages with id, properties and telemetry to its stdout. The length of
// each message stands before it, as a varint. This process loads the drivers' management libraries,
// so that the daemon loads none. If a library hangs, only this process hangs, and the daemon
// replaces it.
//
//   assay-telemetry --once --device cpu:0      takes two samples and prints the second as JSON
//
// ASSAY_NVML and ASSAY_ROCM_SMI name other libraries. In a container, ASSAY_HOST_ROOT names the
// folder that has the host's /sys.
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <ctime>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "google/protobuf/util/delimited_message_util.h"
#include "google/protobuf/util/json_util.h"
#include "server/telemetry/sampler.h"

namespace assay::server {
namespace {

// Makes this process die with its daemon and leave no core file.
bool TieToParent(int parent_pid) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit core{1, 1};
  setrlimit(RLIMIT_CORE, &core);
  return getppid() == parent_pid;  // if not, the parent died before prctl
}

// The time of a monotonic clock.
absl::Time Steady() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return absl::TimeFromTimespec(now);
}

int SampleOnce(TelemetrySampler& sampler) {
  for (std::size_t i = 0; i < sampler.size(); ++i) sampler.Sample(i, Steady());
  absl::SleepFor(absl::Seconds(1));
  google::protobuf::util::JsonPrintOptions print;
  print.add_whitespace = true;
  print.preserve_proto_field_names = true;
  for (std::size_t i = 0; i < sampler.size(); ++i) {
    std::string json;
    if (!google::protobuf::util::MessageToJsonString(sampler.Sample(i, Steady()), &json, print)
             .ok()) {
      return 1;
    }
    std::cout << json;
  }
  std::cout << std::flush;
  return 0;
}

// Samples until the daemon is gone.
int SampleForever(TelemetrySampler& sampler, absl::Duration period) {
  absl::Time next = Steady();
  for (;;) {
    for (std::size_t i = 0; i < sampler.size(); ++i) {
      if (!google::protobuf::util::SerializeDelimitedToFileDescriptor(sampler.Sample(i, Steady()),
                                                                      STDOUT_FILENO)) {
        return 1;
      }
    }
    // A missed sample is not made up for.
    const absl::Time now = Steady();
    next = std::max(next + period, now);
    absl::SleepFor(next - now);
  }
}

int Main(int argc, char** argv) {
  std::vector<std::string> devices;
  int parent_pid = 0;
  int period_ms = 1000;
  bool once = false;
  CLI::App app("Samples clocks, power, temperature and faults of devices for assayd.");
  app.add_option("--device", devices, "ID,UUID,PCI-ID, the last two where they are known")
      ->required()
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--parent-pid", parent_pid, "the daemon's process id");
  app.add_option("--period-ms", period_ms, "time between samples (default 1000)")
      ->check(CLI::Range(1, 60'000));
  app.add_flag("--once", once, "print two samples, the second as JSON, and end");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  if (parent_pid != 0 && !TieToParent(parent_pid)) return 1;
  std::signal(SIGPIPE, SIG_IGN);
  TelemetrySamplerOptions options = TelemetryOptionsFromEnvironment();
  for (const std::string& device : devices) {
    const std::vector<std::string> parts = absl::StrSplit(device, ',');
    DeviceAddress address;
    address.id = parts[0];
    if (parts.size() > 1) address.uuid = parts[1];
    if (parts.size() > 2) address.pci_id = parts[2];
    options.devices.push_back(std::move(address));
  }
  options.daemon_pid = parent_pid;
  TelemetrySampler sampler(std::move(options));
  return once ? SampleOnce(sampler) : SampleForever(sampler, absl::Milliseconds(period_ms));
}

}  // namespace
}  // namespace assay::server

// NOLINTNEXTLINE(bugprone-exception-escape): the daemon starts a sampler that died again
int main(int argc, char** argv) { return assay::server::Main(argc, argv); }
