// Qualifies the devices of one daemon: it runs the self-test, then the level's suite, then failed
// cases again.
#ifndef ASSAY_CLIENT_QUALIFY_CONDUCT_H_
#define ASSAY_CLIENT_QUALIFY_CONDUCT_H_

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "client/lib/connection.h"
#include "client/lib/follow.h"
#include "client/lib/stop.h"
#include "client/qualify/expected_devices.h"
#include "client/qualify/judgement.h"
#include "client/qualify/level.h"
#include "client/report/report.h"

namespace assay::client {

struct QualifyOptions {
  Level level;
  std::string device;  // an id, "cuda:*", "all"; empty: accelerators, the CPU where there are none
  std::optional<ExpectedDevices> expect_devices;
  std::optional<std::uint64_t> seed;     // nothing: of the day, the node and the device
  std::optional<absl::Duration> budget;  // of the level's cases; nothing: the suite's
  // Puts the baseline into the level's spec, and what it is of into the baseline, asking the
  // daemon where it has it; none: no baseline.
  std::function<grpc::Status(Connection&, v1::JobSpec*, v1::Baseline*)> hold_against;
  std::optional<double> baseline_threshold;
  // Longest time of a case, and of each job with those that are run again; nothing: the daemon's.
  std::optional<google::protobuf::Duration> case_deadline, job_deadline;
  StopSwitch* stop = nullptr;  // ends it: its jobs are cancelled
  bool selftest = true;
  bool retry = true;
  bool siblings = true;           // what fails again is run on another device, too
  bool fail_early = false;        // a device's first wrong result ends its job
  bool keep_results = true;       // whole, for reports; else of what passed only what judges it
  std::set<std::string> ignored;  // codes, and devices' ids
};

struct DeviceFit {
  std::string target;
  std::string device;  // "cuda:3"
  std::string model;
  Fit fit;
  Run run;                    // of the level; its job is empty where none was made
  std::int64_t launches = 0;  // of the level, judged and right
  double seconds = 0;
};

// What is not there to be qualified: a node that cannot be reached, devices of one that can,
// or, of a node that is well, any device that was asked for.
struct Missing {
  std::string target;
  std::string reason;
  std::optional<int> expected, found;  // devices
  bool none_asked_for = false;
  bool by_count = false;  // they were counted, not named
};

struct TargetFit {
  std::vector<DeviceFit> devices;
  std::vector<Missing> missing;
  std::set<std::string> listed;  // devices that the daemon lists
};

// Told what is being done, from any thread: "cpu:0: self-test".
using QualifyProgress = std::function<void(std::string_view device, std::string_view what)>;

// The daemon's devices side by side. Never fails: what went wrong is in the result.
TargetFit Qualify(Connection& connection, const QualifyOptions& options,
                  const FollowOptions& reconnecting, const QualifyProgress& progress);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_QUALIFY_CONDUCT_H_
