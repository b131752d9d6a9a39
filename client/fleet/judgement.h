// Judgement: what the reports of a fleet say against each device.
//
//   SUSPECT   The device gave another digest than it must, or computed less exactly than its peers.
//   FAILED    A case is FAILED or ERROR on the device, but not on every device that ran it. One
//             late kernel alone is only watched.
//   SLOW      The device is slower than others of its model, and chance does not explain it.
//
// If a device has no charge and was not compared with anything, it is unjudged. It does not pass.
//
// A job may be FAILED or INCONCLUSIVE although no device is accused: one late kernel, a host
// without memory, or cases that prove nothing. Such a job is listed, and it does not pass.
//
// If a case fails on all of two or more devices, or on all of a kind (kinds.h), its kernel is at
// fault and no device is accused.
// If no node has a kernel that the suite requires, the library or the configuration is at fault.
#ifndef ASSAY_CLIENT_FLEET_JUDGEMENT_H_
#define ASSAY_CLIENT_FLEET_JUDGEMENT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/blame/blame.h"
#include "client/fleet/digests.h"
#include "client/fleet/fleet.h"
#include "client/fleet/precision.h"
#include "client/fleet/throughput.h"
#include "client/fleet/unjudged.h"

namespace assay::client {

enum class Charge { kAccused, kFailed, kSlow };

// Its word in reports: "SUSPECT" of an accused device, "FAILED", "SLOW".
const char* ChargeWord(Charge charge);

// What one case, or all its times together, say against a device.
struct Evidence {
  Charge charge = Charge::kSlow;
  std::string case_name, provider;
  std::string key;   // as ReportRows::Test has it
  std::string text;  // a sentence with the figures
  // Digests.
  std::string probe, digest, expected, decided_by;
  bool of_output = false;               // as in DigestVote
  std::uint32_t agree = 0, differ = 0;  // devices
  // Failures, and "precision".
  std::string reason;
  // Of a device that is less exact than its peers, and their median.
  std::optional<double> rms;
  double peers_rms = 0;
  // Times.
  std::optional<Standing> standing;
  double rate = 0, peers_rate = 0;  // operations or bytes a second; 0: unknown
  bool flops = true;
  std::uint32_t peer_count = 0;
  // Of a device on the whole, of so many timed cases and without a name of one; else 0.
  std::uint32_t cases = 0;
};

// One more run of a case that accuses a device.
struct Rerun {
  std::string case_name;
  std::string node, device;
  bool sibling = false;  // on another device, to tell the card from its library
  Vote vote = Vote::kUnknown;
  std::string text;  // what came of it
};

struct Accused {
  std::uint32_t device = 0;
  Charge charge = Charge::kSlow;    // the worst of the evidence
  std::vector<Evidence> evidence;   // the worst first
  std::vector<std::string> unlike;  // how it differs from its peers: "driver_version 550 …"
  std::vector<Rerun> reruns;
  std::string reads_as;  // what the reruns say
};

struct Judgement {
  std::vector<Accused> accused;          // the worst first
  std::vector<Unjudged> unjudged;        // neither accused nor cleared
  std::vector<std::string> everywhere;   // what fails on every device, or node, that ran it
  std::vector<std::string> jobs;         // that failed, and nobody is accused by it
  std::vector<std::string> unproven;     // jobs that prove less than was asked for
  std::vector<JobRow> verdicts;          // of those two, by their cases: Fleet::verdicts
  std::vector<std::string> watch;        // slow, late once or unsettled: may be chance
  std::vector<std::string> undecided;    // digests that nobody's majority decides
  std::vector<std::string> divided;      // providers or versions that differ
  std::vector<std::string> differences;  // between nodes: versions, suites, seeds, clocks
  DigestFindings digests;
  ThroughputFindings throughput;
  PrecisionFindings precision;

  // Anything was held against anything.
  bool compared() const { return digests.compared > 0 || throughput.groups > 0; }
};

// `now`: what the clocks of reports are held against.
Judgement JudgeFleet(const Fleet& fleet, absl::Time now);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_FLEET_JUDGEMENT_H_
