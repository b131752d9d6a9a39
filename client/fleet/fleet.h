// Fleet: the reports of many nodes, in compact rows that can be compared.
//
// A node is one assayd. Its address and the name of its machine identify it. Each device of a node
// is one FleetDevice, even if several reports describe it. A text that repeats is stored once, and
// rows hold its number. So 500,000 results fit into a few hundred MiB.
#ifndef ASSAY_CLIENT_FLEET_FLEET_H_
#define ASSAY_CLIENT_FLEET_FLEET_H_

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "absl/time/time.h"
#include "client/fleet/missing.h"
#include "client/report/report.h"

namespace assay::client {

// A report of schema "assay.report/v1" as a comparison needs it: one job on one node, or
// what a client made of several.
struct ReportRows {
  struct Probe {
    std::string name;    // "exact-sparse"
    std::string digest;  // 32 hexadecimal digits
    std::optional<bool> golden;
  };
  // Quantiles of the time of a launch, seconds.
  struct Times {
    double p10 = 0, median = 0, p90 = 0;
    int samples = 0;
    bool noisy = false;     // it did not settle, or other processes held the device's memory
    bool replayed = false;  // as a graph of many: without the host's part of a launch
    std::optional<double> flops_per_second, bytes_per_second;
    std::optional<double> clock_hertz;          // median core clock meanwhile
    std::vector<std::string> throttle_reasons;  // "power", "thermal", …
  };
  // As of v1::Precision.
  struct Exactness {
    std::optional<double> bits;
    double rms = 0;
  };
  struct Test {
    std::string name, op, provider, dtype, implementation;
    std::string key;        // what was computed, on what data: the same in all reports of the case
    bool whole_key = true;  // a worker that died did not tell what data its case had
    std::string seed;
    std::string target, device;  // empty: the report's
    std::string verdict, reason, message, phase;
    v1::Blame blame = v1::BLAME_UNSPECIFIED;  // an old report has none; BlameOf
    std::string digest;                       // of the output
    std::vector<Probe> probes;
    std::optional<Times> times;
    std::optional<Exactness> exactness;
  };

  // What a job says of itself, of none of its cases.
  struct JobFinding {
    std::string reason, message;
    std::string target;  // empty: the report's
    std::string device;  // empty: it is about no single one, or the report is old

    // A kernel that the suite requires is missing, or kUnexplained; else less is proven.
    bool failed() const { return reason == "unsupported" || reason == kUnexplained; }
  };
  // The reason of what a report's verdict says, and no finding of its job.
  static constexpr char kUnexplained[] = "verdict";

  // What a daemon is, whatever address it was asked at; empty where the report does not say.
  struct Daemon {
    std::string host, instance;
    std::map<std::string, std::string> uuids;        // by device
    std::map<std::string, std::string> models = {};  // the same
  };

  std::string source;  // the file, or the target that answered
  std::string target, host, device, model, driver, job, suite, suite_version, seed, state;
  std::string filter;   // which of the suite's cases; empty: all
  std::string verdict;  // of a report of one job
  std::optional<absl::Time> generated_at;
  std::optional<std::int64_t> total;  // results that its writer counted
  std::map<std::string, std::string> versions;
  std::map<std::string, Daemon> daemons;  // by target
  std::vector<Test> tests;
  std::vector<JobFinding> findings;
};

// Texts as numbers.
class Texts {
 public:
  std::uint32_t Id(std::string_view text);
  const std::string& operator[](std::uint32_t id) const { return texts_[id]; }

 private:
  std::deque<std::string> texts_;
  std::unordered_map<std::string_view, std::uint32_t> ids_;
};

// One device of one node, whatever number of addresses the node was asked at.
struct FleetDevice {
  std::string target, host, id;  // id: "cuda:3"
  std::string uuid;              // empty where it is not known
  std::string node;              // as people are told it; see NameNodes
  std::string model, driver;
  std::map<std::string, std::string> versions;  // "assayd", "onednn", …
  std::vector<std::string> suites, jobs, seeds;
  std::optional<absl::Time> generated_at;  // of its newest report
  std::string state;                       // of its newest job
  Counts counts;
  int reports = 0;

  std::string name() const { return node + " " + id; }
};

// Digest of 128 bits.
using Digest = std::array<std::uint8_t, 16>;
std::string DigestText(const Digest& digest);
// 32 hexadecimal digits; nothing for other texts.
std::optional<Digest> ParseDigest(std::string_view text);

// One digest that must be the same everywhere.
struct DigestVote {
  std::uint32_t what;  // text: the case's key and the probe
  std::uint32_t device;
  std::uint32_t provider;
  std::uint32_t name;  // text: the case's name
  std::uint32_t probe;
  Digest digest;
  std::int8_t golden;  // 1 is the suite's own, 0 is not, -1 there is none
  bool of_output;      // of the output of a case that moves values; else of an exact case
  std::uint32_t key;   // text: the case's key
};

// One timed case.
struct TimedRow {
  std::uint32_t what;  // text: the case's key
  std::uint32_t device;
  std::uint32_t provider;
  std::uint32_t name;
  std::uint32_t implementation;
  std::uint32_t samples;
  double p10, median, p90;  // seconds
  double work;              // operations of a launch, or bytes where there are none; 0: unknown
  bool flops;               // work is operations
  float clock_hertz;        // 0: unknown
  std::uint32_t throttled;  // text: "power, thermal"
  bool replayed;            // launches as one graph
};

// How exactly one case was computed.
struct PrecisionRow {
  std::uint32_t what;  // text: the case's key and its seed
  std::uint32_t device, provider, name, implementation;
  std::uint32_t key;  // text: the case's key
  bool failed;
  double bits;  // NaN: unknown
  double rms;
};

// A case that is FAILED or ERROR.
struct FailedRow {
  std::uint32_t what, device, provider, name;
  bool error;
  std::string reason, message;
  std::uint32_t job = 0;  // text

  // Its kernel did not end in its time.
  bool late() const { return error && reason == "timeout"; }
};

// What a job says of itself.
struct JobRow {
  std::string target, suite, job, reason, message;
  std::string run;                     // the suite, and which of its cases were asked for
  std::string what;                    // the message, the same of other devices of the backend
  std::vector<std::uint32_t> devices;  // that it is about; empty where that is not known
  bool failed = false;                 // else less is proven than was asked for
};

// How one device did with the cases of one kernel.
struct KernelCounts {
  int passed = 0, failed = 0, other = 0;
};

// Everything known of a fleet. Filled by Add; then const.
class Fleet {
 public:
  // Takes a report's rows. What of it was there already (the same node, device and job) is counted
  // once and named in `duplicates`. Of a job that one report has to its end and another one does
  // not, all results count.
  void Add(const ReportRows& report);

  // Gives each node the shortest name that only it has: the machine's, else the address,
  // else both. Called once, after the last Add.
  void NameNodes();

  const std::string& text(std::uint32_t id) const { return texts_[id]; }
  std::size_t node_count() const;

  std::vector<FleetDevice> devices;
  std::vector<DigestVote> votes;
  std::vector<TimedRow> timed;
  std::vector<PrecisionRow> precisions;
  std::vector<FailedRow> failures;
  std::vector<JobRow> jobs;
  // Jobs whose own verdict is FAILED or INCONCLUSIVE by their cases, with which.
  std::vector<JobRow> verdicts;
  std::map<std::string, std::set<std::string>> targets_of_run;  // that sent a report of it
  // By device and kernel ("gemm bf16 onednn").
  std::map<std::pair<std::uint32_t, std::uint32_t>, KernelCounts> kernels;
  // How many devices have run a case (text: key) with a provider, and whether one has.
  std::uint32_t DevicesThatRan(std::uint32_t what, std::uint32_t provider) const;
  bool HasRun(std::uint32_t device, std::uint32_t what, std::uint32_t provider) const;
  // The key of the case that failed: the row's, or where that is not whole, the one of other
  // results of the same name and provider.
  std::uint32_t CaseOf(const FailedRow& row) const;

  std::vector<std::string> duplicates;  // a line each
  // Reports that are not of a whole job: without results, cut, or written before its end.
  std::vector<MissingNode> missing;
  std::int64_t reports = 0, results = 0;
  std::int64_t few_samples = 0;                   // times of too few launches to compare
  std::int64_t noisy = 0;                         // times that are noisy
  std::map<std::uint32_t, std::size_t> noisy_of;  // the same, by device
  // Of a row's case.
  std::map<std::uint32_t, std::uint32_t> kernel_of_name;  // name -> kernel

 private:
  std::uint32_t DeviceOf(const ReportRows& report, const std::string& target,
                         const std::string& id);
  // What earlier reports of a job had of a device.
  struct Seen {
    std::int64_t results = 0;
    bool ended = false;
  };
  // Takes what the report says of a device. Returns what is there of its job already.
  Seen Meet(const ReportRows& report, const std::string& target, std::uint32_t device);
  void NoteShortfall(const ReportRows& report);
  // One result's texts as numbers.
  struct CaseIds {
    std::uint32_t what, device, provider, name;
  };
  void AddTest(const ReportRows::Test& test, std::uint32_t device, std::uint32_t job);
  void NoteRun(const ReportRows::Test& test, const CaseIds& ids);
  void NoteVotes(const ReportRows::Test& test, const CaseIds& ids);
  void NoteTimes(const ReportRows::Test& test, const CaseIds& ids);
  void NotePrecision(const ReportRows::Test& test, const CaseIds& ids);
  // A target's device, as the report names them -> where it stands in `devices`.
  using Places = std::map<std::pair<std::string_view, std::string_view>, std::uint32_t>;
  void NoteJobs(const ReportRows& report, const Places& places);
  // Of the devices whose results are new.
  void NoteVerdicts(const ReportRows& report, const Places& places,
                    const std::map<std::uint32_t, bool>& fresh);

  Texts texts_;
  // By host, id, and UUID, the daemon's instance or its address.
  std::map<std::tuple<std::string, std::string, std::string>, std::uint32_t> device_ids_;
  std::map<std::tuple<std::uint32_t, std::string>, Seen> seen_;            // by device and job
  std::set<std::tuple<std::string, std::string, std::string>> seen_jobs_;  // target, job, message
  struct Ran {
    std::uint32_t id = 0, devices = 0;
  };
  std::map<std::pair<std::uint32_t, std::uint32_t>, Ran> ran_;  // case, provider
  std::unordered_set<std::uint64_t> ran_on_;                    // Ran's id, device
  std::unordered_set<std::uint32_t> partial_;                   // keys that are not whole
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> whole_;  // name, provider
};

// Fewest launches whose times say something of a device.
inline constexpr int kFewestSamples = 3;

}  // namespace assay::client

#endif  // ASSAY_CLIENT_FLEET_FLEET_H_
