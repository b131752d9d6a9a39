// Report: the results of jobs, whatever the format.
//
// A Report holds one Run for each daemon. Sinks receive it while it grows. Streaming formats
// (table, jsonl, csv) write one line for each result. Documents (json, junit, html, markdown) are
// written at the end. A Report is not thread-safe: the caller serialises.
#ifndef ASSAY_CLIENT_REPORT_REPORT_H_
#define ASSAY_CLIENT_REPORT_REPORT_H_

#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "assay/v1/device.pb.h"
#include "assay/v1/job.pb.h"

namespace assay::client {

// A job on one daemon.
struct Run {
  std::string target;               // the daemon's address
  v1::Job job;                      // as it stands now
  v1::ServerInfo server;            // empty where it was not asked for
  std::vector<v1::Device> devices;  // those of the daemon; empty where not asked for
  std::vector<v1::CaseResult> results;
  int total = 0;                         // cases the job has; 0 until known
  std::map<std::string, int> op_totals;  // the same by operator; empty until known
  // Named shapes that have fewer shapes drawn near them than the user asked for (--held-out).
  std::vector<std::string> held_out_lacking;
};

struct Report {
  absl::Time generated_at;
  std::vector<Run> runs;
};

enum class Format { kTable, kJsonl, kCsv, kJson, kJunit, kHtml, kMarkdown };

// "json" -> kJson. INVALID_ARGUMENT lists the formats and a near one.
absl::StatusOr<Format> ParseFormat(std::string_view word);

// The format a file's name asks for by its extension: .json, .jsonl, .csv, .xml,
// .html, .md; kTable for .txt and for none. INVALID_ARGUMENT lists them for others.
absl::StatusOr<Format> FormatOfFile(std::string_view path);

// Where a sink writes, and what a person sees there.
struct Surface {
  std::ostream& out;          // results
  std::ostream& err;          // everything else
  bool live = false;          // out is a terminal: progress may be redrawn there
  bool colour = false;        // verdict words may be coloured
  int width = 0;              // columns; 0: unlimited
  bool every_row = false;     // show each passed case, however many there are
  bool several = false;       // more than one daemon: lines say which
  bool side_by_side = false;  // times of a case's providers in one row, at the end
  bool numbered = false;      // rows begin with the case's number in its job
};

// Receives a report as it grows.
class Sink {
 public:
  virtual ~Sink() = default;
  // The run's job has been accepted or found; called once a run.
  virtual void OnStart(const Run& /*run*/) {}
  // A case is about to run.
  virtual void OnProgress(const Run& /*run*/, const v1::CaseProgress& /*progress*/) {}
  // A case has ended; it is already in run.results.
  virtual void OnResult(const Run& /*run*/, const v1::CaseResult& /*result*/) {}
  // A line for the person, to be put where it does not tear what is drawn.
  virtual void OnNote(std::string_view note) = 0;
  // Everything has ended; called once, and the last call.
  virtual void OnEnd(const Report& report) = 0;
  // There is no end to report: the user left before it, or no daemon gave any
  // result. Called instead of OnEnd.
  virtual void OnLeave() {}
};

// The sink of a format.
std::unique_ptr<Sink> MakeSink(Format format, const Surface& surface);

// What is true of a result, as counted in summaries.
struct Counts {
  int total = 0;
  int passed = 0;
  int failed = 0;
  int inconclusive = 0;
  int unsupported = 0;
  int errors = 0;
  int skipped = 0;

  void Add(v1::Verdict verdict);
};

// Counts of all results.
Counts CountOf(const Report& report);

// "142 passed, 0 failed, 6 unsupported".
std::string Describe(const Counts& counts);

// "m=1024 n=1024 k=1024 trans_a=true": the problem's fields that say something.
std::string ShapeText(const v1::CaseSpec& spec);

// A protobuf time in seconds.
double Seconds(const google::protobuf::Duration& duration);
absl::Time Time(const google::protobuf::Timestamp& timestamp);

// From its start to its end; 0 where it has not started or not ended.
absl::Duration Elapsed(const v1::Job& job);

// Why the whole came out as it did where the counts do not say: a cancelled
// job, nothing that ran. Empty otherwise.
std::string Explain(const v1::Job& job, const Counts& counts);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_REPORT_REPORT_H_
