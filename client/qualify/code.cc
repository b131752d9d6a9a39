#include "client/qualify/code.h"

#include <algorithm>
#include <iterator>

namespace assay::client {
namespace {

constexpr QualifyCode kCodes[] = {
    {"A000", Fitness::kQualified, "none", "fit for work", ""},
    {"A101", Fitness::kFailed, "isolate",
     "wrong results that other devices of the node do not give with the same kernel",
     "drain the device; run extended on it; if it stays, replace it"},
    {"A102", Fitness::kFailed, "configuration",
     "wrong results of one provider, on other devices as well",
     "the library is at fault, not the device: compare its version with the fleet's, and go back "
     "to "
     "one that was right"},
    {"A103", Fitness::kFailed, "triage",
     "wrong results, and nothing shows whether the device or the library is at fault",
     "run the repro line on another device: if it is wrong there too, the library is at fault"},
    {"A104", Fitness::kFailed, "triage", "wrong results that did not come back",
     "run extended on it and on a sibling: if the error returns only here, the device is at fault; "
     "if it returns on both, the kernel has a race"},
    {"A105", Fitness::kFailed, "triage", "launches of the same kernel differ",
     "a race in the kernel, or a device that computes unsteadily: run it on another device"},
    {"A106", Fitness::kFailed, "isolate", "wrong results of every provider, on this device alone",
     "drain the device and replace it"},
    {"A107", Fitness::kFailed, "isolate",
     "digests that its peers in the fleet do not have (fleet compare)",
     "drain the device; run extended on it; if it stays, replace it"},
    {"A111", Fitness::kFailed, "reset", "a kernel crashed",
     "reset the device and qualify again; look at the driver's log"},
    {"A112", Fitness::kFailed, "reset", "a kernel did not end in its time",
     "reset the device and qualify again; look at the driver's log"},
    {"A113", Fitness::kInconclusive, "configuration", "a kernel ran out of memory",
     "find out who holds the memory, and qualify again"},
    {"A114", Fitness::kFailed, "reset", "the device reported a fault",
     "reset the device; if the fault comes back, the card is at fault"},
    {"A115", Fitness::kFailed, "isolate", "the device is in quarantine: its worker kept dying",
     "drain the device; `assay devices` says why its worker died"},
    {"A116", Fitness::kFailed, "isolate", "fewer devices than there should be",
     "if `assay devices` names the driver or the build as the reason, mend that; else look for the "
     "device with the driver's own tool, and reseat or replace it"},
    {"A117", Fitness::kFailed, "configuration",
     "a kernel crashed or faulted, on other devices as well",
     "the library is at fault, not the device: compare its version with the fleet's, and go back "
     "to "
     "one that did not crash"},
    {"A118", Fitness::kFailed, "configuration",
     "a kernel did not end in its time, here and on another device",
     "the library is at fault, not the device: compare its version with the fleet's, and go back "
     "to "
     "one that ended in time"},
    {"A119", Fitness::kFailed, "triage",
     "a kernel crashed or faulted, and did not when it ran again",
     "run extended on it and on a sibling; look at the driver's and the host's logs"},
    {"A201", Fitness::kDegraded, "monitor", "slower than its baseline",
     "compare clocks, power limit and temperature with the baseline's; qualify again"},
    {"A202", Fitness::kDegraded, "monitor", "below the efficiency that was asked for",
     "compare with a sibling: `assay bench` on both"},
    {"A203", Fitness::kDegraded, "monitor", "times that do not settle",
     "look for other work on the device, and for clocks that change"},
    {"A204", Fitness::kDegraded, "monitor", "throttled by heat or by hardware",
     "look at cooling and power supply"},
    {"A301", Fitness::kInconclusive, "triage", "the self-test missed a planted defect",
     "do not trust this node's verdicts; `assay selftest` says which check was blind"},
    {"A302", Fitness::kInconclusive, "triage", "the self-test called a right kernel wrong",
     "do not trust this node's verdicts; `assay selftest` says which check it was"},
    {"A303", Fitness::kInconclusive, "triage", "the self-test did not come to its end",
     "run `assay selftest` and look at the daemon's log"},
    {"A304", Fitness::kInconclusive, "triage", "cases that prove nothing",
     "the finding says why; change the case, or ignore the code"},
    {"A305", Fitness::kInconclusive, "configuration", "not enough memory for the cases",
     "end what else uses the device, and qualify again"},
    {"A306", Fitness::kInconclusive, "triage", "the qualification did not come to its end",
     "qualify again"},
    {"A307", Fitness::kInconclusive, "triage", "nothing ran, or nothing of it passed",
     "see what the suite has for this device: assay suites show"},
    {"A308", Fitness::kInconclusive, "triage", "the job proves less than it was asked to",
     "the finding says why: give a larger --budget, a baseline of this suite, or a faster device"},
    {"A309", Fitness::kInconclusive, "configuration",
     "a case's deadline came while its result was checked",
     "its kernel had ended; look for other work on the host, or give the daemon a longer "
     "--case-deadline"},
    {"A310", Fitness::kInconclusive, "triage",
     "a kernel did not end in its time, and did when it ran again",
     "look for other work on the device and in the driver's log; run extended on it"},
    {"A311", Fitness::kInconclusive, "configuration", "a worker was killed from outside",
     "the host's log (journalctl -k) says whether memory was short: leave the node more of it, and "
     "qualify again"},
    {"A401", Fitness::kFailed, "configuration", "a kernel that the level requires is not there",
     "`assay kernels` says what is missing: install the library, or repair its path"},
    {"A901", Fitness::kInconclusive, "triage", "the daemon cannot be reached, or refused",
     "look at assayd on that node: systemctl status assayd"},
    {"A902", Fitness::kInconclusive, "configuration", "the daemon refused the request",
     "the message says what is wrong with it"},
    {"A903", Fitness::kInconclusive, "configuration",
     "the node has none of the devices that were asked for",
     "`assay devices` lists what it has; change --device or --ignore"},
    {"A904", Fitness::kInconclusive, "configuration", "more devices than there should be",
     "`assay devices` lists them; change --expect-devices, or look for what was added"},
};

// What is done about it: the more drastic first.
constexpr std::string_view kSeverities[] = {"isolate",       "reset",   "triage",
                                            "configuration", "monitor", "none"};

auto Rank(const QualifyCode& code) {
  return std::find(std::begin(kSeverities), std::end(kSeverities), code.severity);
}

}  // namespace

std::string_view Word(Fitness fitness) {
  switch (fitness) {
    case Fitness::kQualified:
      return "QUALIFIED";
    case Fitness::kDegraded:
      return "DEGRADED";
    case Fitness::kInconclusive:
      return "INCONCLUSIVE";
    case Fitness::kFailed:
      return "FAILED";
  }
  return "INCONCLUSIVE";
}

std::span<const QualifyCode> QualifyCodes() { return kCodes; }

const QualifyCode* FindCode(std::string_view code) {
  const auto* found = std::find_if(std::begin(kCodes), std::end(kCodes),
                                   [&](const QualifyCode& c) { return c.code == code; });
  return found == std::end(kCodes) ? nullptr : found;
}

bool Outweighs(const QualifyCode& a, const QualifyCode& b) {
  return a.fitness != b.fitness ? a.fitness > b.fitness : Rank(a) < Rank(b);
}

bool IsIgnorable(const QualifyCode& code) { return code.code != "A306" && code.code != "A307"; }

}  // namespace assay::client
