#include <algorithm>
#include <array>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <string>

#include "kernels/text/cat.h"
#include "server/base/finding.h"
#include "server/base/log.h"
#include "server/store/baseline_table.h"
#include "server/store/store.h"
#include "server/store/store_reader.h"
#include "tests/fuzz/fuzz.h"

namespace assay::fuzz {
namespace {

using namespace server;

constexpr char kJob[] = "jobs/a";
constexpr char kBaseline[] = "baselines/b";

// The columns that hold messages. ?1 is the bytes.
constexpr std::array<const char*, 7> kColumns = {
    "UPDATE jobs SET summary = ?1",     "UPDATE jobs SET findings = ?1",
    "UPDATE jobs SET spec = ?1",        "UPDATE plans SET cases = ?1",
    "UPDATE results SET data = ?1",     "UPDATE events SET data = ?1",
    "UPDATE baselines SET summary = ?1"};

// The columns, by their place above.
enum Column { kSummary, kFindings, kSpec, kCases, kResult, kEvent, kBaselineSummary };

constexpr char kAllColumns[] =
    "SELECT group_concat(hex(summary) || hex(findings) || hex(spec)) ||"
    " (SELECT group_concat(hex(cases)) FROM plans) ||"
    " (SELECT group_concat(hex(data)) FROM results) ||"
    " (SELECT group_concat(hex(data)) FROM events) ||"
    " (SELECT group_concat(hex(summary)) FROM baselines) FROM jobs";

void Fill(Store& store) {
  NewJob job;
  job.job.set_name(kJob);
  job.job.set_state(v1::JOB_STATE_RUNNING);
  job.job.mutable_spec()->mutable_cases()->add_cases();
  job.plans = {{.device = "cpu:0", .cases = std::vector<v1::CaseSpec>(2)}};
  Require(store.CreateJob(job).ok(), "cannot make the job");
  JobUpdate update{.name = kJob};
  update.events.emplace_back().mutable_case_result()->set_verdict(v1::VERDICT_PASSED);
  Require(store.Apply(std::move(update)).ok(), "cannot keep the result");
  v1::Baseline baseline;
  baseline.set_name(kBaseline);
  Require(store.CreateBaseline(baseline).ok(), "cannot keep the baseline");
}

// A store whose one connection keeps the file for itself, so that no statement asks for a lock or
// reads a page again.
class Rows {
 public:
  Rows() {
    SetLogLevel("error");
    const std::string folder = Cat(ScratchFolder(), "/record");
    {
      auto store = Store::Open({.folder = folder});
      Require(store.ok(), store.status().ToString());
      Fill(**store);
    }
    auto opened = Database::Open(folder + "/assay.db", SQLITE_OPEN_READWRITE);
    Require(opened.ok() && (*opened)->Exec("PRAGMA journal_mode=MEMORY").ok() &&
                (*opened)->Exec("PRAGMA synchronous=OFF").ok() &&
                (*opened)->Exec("PRAGMA locking_mode=EXCLUSIVE").ok(),
            "cannot write the store");
    auto reader = StoreReader::Make(*std::move(opened));
    Require(reader.ok(), reader.status().ToString());
    reader_ = *std::move(reader);
    for (std::size_t i = 0; i < kColumns.size(); ++i) {
      auto update = reader_->database().Prepare(kColumns[i]);
      Require(update.ok(), update.status().ToString());
      updates_[i] = *std::move(update);
    }
    first_ = Columns();
  }

  // Has the function read the store while a column holds the bytes.
  template <class Read>
  void With(std::size_t column, std::string_view bytes, Read&& read) {
    Require(database().Exec("BEGIN").ok() && updates_[column].BindBlob(1, bytes).Run().ok(),
            "cannot write a row");
    read(*reader_);
    Require(database().Exec("ROLLBACK").ok(), "cannot restore a row");
  }

  // All columns, as text.
  std::string Columns() {
    auto select = database().Prepare(kAllColumns);
    Require(select.ok() && select->Step().value_or(false) && !select->IsNull(0),
            "cannot read the rows");
    return std::string(select->Bytes(0));
  }

  const std::string& first() const { return first_; }

 private:
  Database& database() { return reader_->database(); }

  std::unique_ptr<StoreReader> reader_;
  std::array<Statement, kColumns.size()> updates_;
  std::string first_;  // the columns before the first input
};

template <class Value>
bool Read(const absl::StatusOr<Value>& value) {
  Require(value.ok() || absl::IsDataLoss(value.status()), value.status().ToString());
  return value.ok();
}

// Reads by every query that has one of the columns; `may_differ` says which those are.
void ReadBy(StoreReader& reader, const auto& may_differ) {
  if (may_differ({kSummary, kFindings, kSpec})) Read(reader.GetJob(kJob));
  if (may_differ({kEvent, kResult})) Read(reader.Events(kJob, 0, 100));
  if (may_differ({kResult})) Read(reader.Results(kJob, 0, 100));
  if (may_differ({kCases})) Read(reader.Plans(kJob));
  if (may_differ({})) Read(reader.ResultIndices(kJob));
  if (may_differ({kBaselineSummary})) {
    Read(ReadBaseline(reader.database(), kBaseline));
    Read(ReadBaselines(reader.database(), 0, 100));
  }
  if (!may_differ({kSummary, kFindings})) return;
  // One record that cannot be read costs that record, not the listing, and not the start.
  const auto page = reader.ListJobs({});
  Require(Read(page) && page->jobs.size() == 1, "a job is missing from the listing");
  const auto unfinished = reader.UnfinishedJobs();
  Require(Read(unfinished) && unfinished->size() == 1, "a job is missing at the start");
}

}  // namespace

// The first byte chooses the column. Each input finds the same store; the input without bytes asks
// whether it does.
void FuzzRecord(std::string_view bytes) {
  static Rows rows;
  if (bytes.empty()) {
    Require(rows.Columns() == rows.first(), "an input has changed the store");
    return;
  }
  const std::size_t column = static_cast<unsigned char>(bytes[0]) % kColumns.size();
  // What has another column alone finds what it found for the input before.
  const bool all = IsOneOf(16, bytes);
  const auto may_differ = [&](std::initializer_list<Column> columns) {
    return all || std::find(columns.begin(), columns.end(), column) != columns.end();
  };
  rows.With(column, bytes.substr(1), [&](StoreReader& reader) { ReadBy(reader, may_differ); });
}

}  // namespace assay::fuzz
