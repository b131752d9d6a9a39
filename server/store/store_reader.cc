#include "server/store/store_reader.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_split.h"
#include "google/protobuf/util/time_util.h"
#include "kernels/text/cat.h"
#include "server/base/error_info.h"
#include "server/base/job_events.h"
#include "server/store/record.h"
#include "server/store/store_writer.h"

namespace assay::server {
namespace {

using google::protobuf::util::TimeUtil;

constexpr std::size_t kEventPageBytes = 1 << 20;
constexpr std::size_t kJobPageBytes = 2 << 20;
constexpr std::size_t kResultPageBytes = 2 << 20;

// The columns ToJob reads, in its order; spec last, for GetJob alone.
#define ASSAY_JOB_COLUMNS                                                                    \
  "row, suite, state, verdict, start_time, end_time, last_sequence, total, passed, failed, " \
  "inconclusive, unsupported, errors, skipped, findings, summary, name"
constexpr char kJob[] = "SELECT " ASSAY_JOB_COLUMNS ", spec FROM jobs WHERE name = ?1";
constexpr char kRequest[] = "SELECT " ASSAY_JOB_COLUMNS ", spec FROM jobs WHERE request_id = ?1";
constexpr char kUnfinished[] =
    "SELECT " ASSAY_JOB_COLUMNS " FROM jobs WHERE state IN (1, 2) ORDER BY row";
constexpr char kList[] = "SELECT " ASSAY_JOB_COLUMNS " FROM jobs WHERE row < ?1";
#undef ASSAY_JOB_COLUMNS

constexpr int kSummaryColumn = 15;
constexpr int kNameColumn = 16;
constexpr int kSpecColumn = 17;

// The job without a spec of its own column. What cannot be read is missing, and `damage` then says
// so.
v1::Job ToJob(const Statement& s, absl::Status& damage) {
  v1::Job job;
  v1::Job findings;
  damage = absl::OkStatus();
  if (!ParseRecord(job, s.Bytes(kSummaryColumn)) || !ParseRecord(findings, s.Bytes(14))) {
    damage = Unreadable("record", s.Bytes(kNameColumn));
    job.Clear();
    findings.Clear();
    job.set_name(std::string(s.Bytes(kNameColumn)));
  }
  job.set_suite(std::string(s.Bytes(1)));
  job.set_state(static_cast<v1::JobState>(s.Int(2)));
  job.set_verdict(static_cast<v1::Verdict>(s.Int(3)));
  if (!s.IsNull(4)) *job.mutable_start_time() = TimeUtil::NanosecondsToTimestamp(s.Int(4));
  if (!s.IsNull(5)) *job.mutable_end_time() = TimeUtil::NanosecondsToTimestamp(s.Int(5));
  job.set_last_sequence(s.Int(6));
  const auto count = [&s](int column) { return static_cast<std::int32_t>(s.Int(column)); };
  v1::VerdictCounts& counts = *job.mutable_counts();
  counts.set_total(count(7));
  counts.set_passed(count(8));
  counts.set_failed(count(9));
  counts.set_inconclusive(count(10));
  counts.set_unsupported(count(11));
  counts.set_errors(count(12));
  counts.set_skipped(count(13));
  *job.mutable_findings() = findings.findings();
  if (findings.has_selftest()) *job.mutable_selftest() = findings.selftest();
  return job;
}

// The job, with a finding where its record is damaged: one record must not hide the others.
v1::Job ToJobWithDamage(const Statement& s) {
  absl::Status damage;
  v1::Job job = ToJob(s, damage);
  if (!damage.ok()) AddFinding(job, v1::REASON_FAULT, std::string(damage.message()));
  return job;
}

}  // namespace

absl::StatusOr<std::unique_ptr<StoreReader>> StoreReader::Make(std::unique_ptr<Database> database) {
  std::unique_ptr<StoreReader> reader(new StoreReader(std::move(database)));
  if (absl::Status s = reader->PrepareAll(); !s.ok()) return s;
  return reader;
}

absl::Status StoreReader::PrepareAll() {
  return database_->PrepareAll({
      {&row_, "SELECT row FROM jobs WHERE name = ?1"},
      {&job_, kJob},
      {&request_, kRequest},
      {&unfinished_, kUnfinished},
      {&events_,
       "SELECT e.key, e.time, e.result, e.data, r.data FROM events e"
       " LEFT JOIN results r ON r.key = e.result"
       " WHERE e.key > ?1 AND e.key < ?2 ORDER BY e.key LIMIT ?3"},
      {&results_, "SELECT data FROM results WHERE key >= ?1 AND key < ?2 ORDER BY key LIMIT ?3"},
      {&plans_,
       "SELECT device, first_index, required, cases FROM plans"
       " WHERE key >= ?1 AND key < ?2 ORDER BY key"},
      {&indices_, "SELECT key FROM results WHERE key >= ?1 AND key < ?2 ORDER BY key"},
  });
}

absl::StatusOr<std::int64_t> StoreReader::Row(std::string_view name) {
  const ScopedReset reset(row_);
  const absl::StatusOr<bool> found = row_.BindText(1, name).Step();
  if (!found.ok()) return found.status();
  if (!*found) {
    return WithReason(absl::NotFoundError(Cat("no job \"", name, "\"")),
                      v1::ERROR_REASON_JOB_NOT_FOUND);
  }
  return row_.Int(0);
}

absl::StatusOr<v1::Job> StoreReader::OneJob(Statement& statement, std::string_view key,
                                            std::string_view what) {
  const ScopedReset reset(statement);
  const absl::StatusOr<bool> found = statement.BindText(1, key).Step();
  if (!found.ok()) return found.status();
  if (!*found) {
    return WithReason(absl::NotFoundError(Cat("no ", what, " \"", key, "\"")),
                      v1::ERROR_REASON_JOB_NOT_FOUND);
  }
  absl::Status damage;
  v1::Job job = ToJob(statement, damage);
  if (!damage.ok()) return damage;
  if (!statement.IsNull(kSpecColumn) &&
      !ParseRecord(*job.mutable_spec(), statement.Bytes(kSpecColumn))) {
    return Unreadable("spec", key);
  }
  return job;
}

absl::StatusOr<v1::Job> StoreReader::GetJob(std::string_view name) {
  return OneJob(job_, name, "job");
}

absl::StatusOr<v1::Job> StoreReader::FindRequest(std::string_view request_id) {
  return OneJob(request_, request_id, "job of request");
}

absl::StatusOr<JobPage> StoreReader::ListJobs(const JobQuery& query) {
  std::string sql = kList;
  // Parameters: ?1 before, ?2 limit, then the conditions'.
  int parameter = 2;
  if (query.state) sql += Cat(" AND state = ?", ++parameter);
  if (query.verdict) sql += Cat(" AND verdict = ?", ++parameter);
  if (query.suite) sql += Cat(" AND suite = ?", ++parameter);
  for (std::size_t n = 0; n < query.labels.size(); ++n) {
    const int key = ++parameter;
    const int value = ++parameter;
    sql += Cat(" AND EXISTS(SELECT 1 FROM labels WHERE job = row AND key = ?", key,
               " AND value = ?", value, ")");
  }
  sql += Cat(" ORDER BY row DESC LIMIT ?2");
  absl::StatusOr<Statement> list = database_->Prepare(sql);
  if (!list.ok()) return list.status();
  list->Bind(1, query.before > 0 ? query.before : INT64_MAX).Bind(2, query.limit + 1);
  parameter = 2;
  if (query.state) list->Bind(++parameter, *query.state);
  if (query.verdict) list->Bind(++parameter, *query.verdict);
  if (query.suite) list->BindText(++parameter, *query.suite);
  for (const auto& [key, value] : query.labels) {
    list->BindText(++parameter, key);
    list->BindText(++parameter, value);
  }
  JobPage page;
  std::int64_t last = 0;
  std::size_t bytes = 0;
  while (true) {
    const absl::StatusOr<bool> row = list->Step();
    if (!row.ok()) return row.status();
    if (!*row) return page;
    // By bytes, too: a message has a limit, and labels may be long.
    if (page.jobs.size() == static_cast<std::size_t>(query.limit) || bytes > kJobPageBytes) {
      page.next = last;
      return page;
    }
    last = list->Int(0);
    page.jobs.push_back(ToJobWithDamage(*list));
    bytes += page.jobs.back().ByteSizeLong();
  }
}

absl::StatusOr<std::vector<v1::JobEvent>> StoreReader::Events(std::string_view name,
                                                              std::int64_t after, int limit) {
  const absl::StatusOr<std::int64_t> row = Row(name);
  if (!row.ok()) return row.status();
  std::vector<v1::JobEvent> events;
  const ScopedReset reset(events_);
  events_.Bind(1, Key(*row, after)).Bind(2, Key(*row + 1, 0)).Bind(3, limit);
  std::size_t bytes = 0;
  while (bytes < kEventPageBytes) {
    const absl::StatusOr<bool> more = events_.Step();
    if (!more.ok()) return more.status();
    if (!*more) break;
    v1::JobEvent event;
    if (!ParseRecord(event, events_.Bytes(3))) return Unreadable("event", name);
    if (!events_.IsNull(2) && !ParseRecord(*event.mutable_case_result(), events_.Bytes(4))) {
      return Unreadable("result", name);
    }
    if (event.has_finished()) {
      absl::StatusOr<v1::Job> job = GetJob(name);
      if (!job.ok()) return job.status();
      if (job->spec().has_cases() || !job->spec().suite_text().empty()) {
        job->mutable_spec()->clear_source();
      }
      if (job->spec().has_inline_baseline()) {
        job->mutable_spec()->mutable_inline_baseline()->clear_results();
        job->mutable_spec()->mutable_inline_baseline()->clear_untimed();
      }
      *event.mutable_finished()->mutable_job() = *std::move(job);
    }
    event.set_job(std::string(name));
    event.set_sequence(events_.Int(0) - Key(*row, 0));
    *event.mutable_create_time() = TimeUtil::NanosecondsToTimestamp(events_.Int(1));
    bytes += events_.Bytes(3).size() + events_.Bytes(4).size();
    events.push_back(std::move(event));
  }
  return events;
}

absl::StatusOr<std::vector<v1::CaseResult>> StoreReader::Results(std::string_view name,
                                                                 std::int32_t from, int limit) {
  const absl::StatusOr<std::int64_t> row = Row(name);
  if (!row.ok()) return row.status();
  std::vector<v1::CaseResult> results;
  const ScopedReset reset(results_);
  results_.Bind(1, Key(*row, from)).Bind(2, Key(*row + 1, 0)).Bind(3, limit);
  std::size_t bytes = 0;
  while (bytes < kResultPageBytes) {
    const absl::StatusOr<bool> more = results_.Step();
    if (!more.ok()) return more.status();
    if (!*more) break;
    v1::CaseResult result;
    if (!ParseRecord(result, results_.Bytes(0))) return Unreadable("result", name);
    bytes += results_.Bytes(0).size();
    results.push_back(std::move(result));
  }
  return results;
}

absl::StatusOr<std::vector<v1::Job>> StoreReader::UnfinishedJobs() {
  std::vector<v1::Job> jobs;
  const ScopedReset reset(unfinished_);
  while (true) {
    const absl::StatusOr<bool> more = unfinished_.Step();
    if (!more.ok()) return more.status();
    if (!*more) return jobs;
    jobs.push_back(ToJobWithDamage(unfinished_));
  }
}

absl::StatusOr<std::vector<DevicePlan>> StoreReader::Plans(std::string_view name) {
  const absl::StatusOr<std::int64_t> row = Row(name);
  if (!row.ok()) return row.status();
  std::vector<DevicePlan> plans;
  const ScopedReset reset(plans_);
  plans_.Bind(1, Key(*row, 0)).Bind(2, Key(*row + 1, 0));
  while (true) {
    const absl::StatusOr<bool> more = plans_.Step();
    if (!more.ok()) return more.status();
    if (!*more) return plans;
    DevicePlan plan;
    plan.device = std::string(plans_.Bytes(0));
    plan.first_index = static_cast<std::int32_t>(plans_.Int(1));
    if (!plans_.Bytes(2).empty())
      plan.required =
          absl::StrSplit(absl::string_view(plans_.Bytes(2).data(), plans_.Bytes(2).size()), '\n');
    v1::CaseList list;
    if (!ParseRecord(list, plans_.Bytes(3))) return Unreadable("plan", name);
    plan.cases.assign(std::make_move_iterator(list.mutable_cases()->begin()),
                      std::make_move_iterator(list.mutable_cases()->end()));
    plans.push_back(std::move(plan));
  }
}

absl::StatusOr<std::vector<std::int32_t>> StoreReader::ResultIndices(std::string_view name) {
  const absl::StatusOr<std::int64_t> row = Row(name);
  if (!row.ok()) return row.status();
  std::vector<std::int32_t> indices;
  const ScopedReset reset(indices_);
  indices_.Bind(1, Key(*row, 0)).Bind(2, Key(*row + 1, 0));
  while (true) {
    const absl::StatusOr<bool> more = indices_.Step();
    if (!more.ok()) return more.status();
    if (!*more) return indices;
    indices.push_back(static_cast<std::int32_t>(indices_.Int(0) - Key(*row, 0)));
  }
}

}  // namespace assay::server
