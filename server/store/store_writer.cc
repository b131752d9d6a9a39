#include "server/store/store_writer.h"

#include <array>
#include <string>
#include <utility>

#include "absl/strings/str_join.h"
#include "google/protobuf/util/time_util.h"
#include "kernels/text/cat.h"
#include "server/base/error_info.h"

namespace assay::server {
namespace {

using google::protobuf::util::TimeUtil;

bool Ended(v1::JobState state) {
  return state == v1::JOB_STATE_FINISHED || state == v1::JOB_STATE_CANCELLED ||
         state == v1::JOB_STATE_INTERRUPTED;
}

void BindTime(Statement& statement, int parameter, bool present,
              const google::protobuf::Timestamp& time) {
  if (present) {
    statement.Bind(parameter, TimeUtil::TimestampToNanoseconds(time));
  } else {
    statement.BindNull(parameter);
  }
}

// The verdict's column in `update_counts_`, counted from passed; -1 for none.
int CountColumn(v1::Verdict verdict) {
  return verdict >= v1::VERDICT_PASSED && verdict <= v1::VERDICT_SKIPPED
             ? verdict - v1::VERDICT_PASSED
             : -1;
}

std::string FindingsBlob(const v1::Job& job) {
  v1::Job findings;
  *findings.mutable_findings() = job.findings();
  if (job.has_selftest()) *findings.mutable_selftest() = job.selftest();
  return findings.SerializeAsString();
}

}  // namespace

absl::StatusOr<std::unique_ptr<StoreWriter>> StoreWriter::Make(std::unique_ptr<Database> database) {
  std::unique_ptr<StoreWriter> writer(new StoreWriter(std::move(database)));
  if (absl::Status s = writer->PrepareAll(); !s.ok()) return s;
  return writer;
}

absl::Status StoreWriter::PrepareAll() {
  return database_->PrepareAll({
      {&begin_, "BEGIN IMMEDIATE"},
      {&commit_, "COMMIT"},
      {&roll_back_, "ROLLBACK"},
      {&set_mark_, "SAVEPOINT one"},
      {&undo_to_mark_, "ROLLBACK TO one"},
      {&drop_mark_, "RELEASE one"},
      {&find_job_, "SELECT row, last_sequence FROM jobs WHERE name = ?1"},
      {&insert_job_,
       "INSERT INTO jobs(name, request_id, suite, state, verdict, total, findings, summary, spec)"
       " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)"},
      {&insert_label_, "INSERT INTO labels(job, key, value) VALUES(?1, ?2, ?3)"},
      {&insert_plan_,
       "INSERT INTO plans(key, device, first_index, required, cases) VALUES(?1, ?2, ?3, ?4, ?5)"},
      {&insert_result_, "INSERT INTO results(key, data) VALUES(?1, ?2)"},
      {&insert_event_, "INSERT INTO events(key, time, result, data) VALUES(?1, ?2, ?3, ?4)"},
      {&update_counts_,
       "UPDATE jobs SET last_sequence = ?2, passed = passed + ?3, failed = failed + ?4,"
       " inconclusive = inconclusive + ?5, unsupported = unsupported + ?6, errors = errors + ?7,"
       " skipped = skipped + ?8 WHERE row = ?1"},
      {&update_job_,
       "UPDATE jobs SET state = ?2, verdict = ?3, start_time = ?4, end_time = ?5, findings = ?6,"
       " total = max(total, ?7)"
       " WHERE row = ?1"},
      {&delete_plans_, "DELETE FROM plans WHERE key BETWEEN ?1 AND ?2"},
      {&delete_job_, "DELETE FROM jobs WHERE row = ?1"},
      {&delete_labels_, "DELETE FROM labels WHERE job = ?1"},
      {&delete_results_, "DELETE FROM results WHERE key BETWEEN ?1 AND ?2"},
      {&delete_events_, "DELETE FROM events WHERE key BETWEEN ?1 AND ?2"},
  });
}

absl::Status StoreWriter::Insert(const NewJob& job) {
  v1::Job summary;
  *summary.mutable_spec() = job.job.spec();
  summary.set_name(job.job.name());
  *summary.mutable_create_time() = job.job.create_time();
  *summary.mutable_devices() = job.job.devices();
  summary.set_suite_version(job.job.suite_version());
  *summary.mutable_environment() = job.job.environment();
  // The bulk of a spec lies in a column of its own, so that a listing need not read it.
  std::string spec;
  if (job.job.spec().has_cases() || !job.job.spec().suite_text().empty() ||
      job.job.spec().has_inline_baseline()) {
    spec = job.job.spec().SerializeAsString();
    if (job.job.spec().suite().empty()) summary.mutable_spec()->clear_source();
    if (summary.spec().has_inline_baseline()) {
      summary.mutable_spec()->mutable_inline_baseline()->clear_results();
      summary.mutable_spec()->mutable_inline_baseline()->clear_untimed();
    }
  }
  const std::string summary_blob = summary.SerializeAsString();
  const std::string findings = FindingsBlob(job.job);
  insert_job_.BindText(1, job.job.name());
  if (job.request_id.empty()) {
    insert_job_.BindNull(2);
  } else {
    insert_job_.BindText(2, job.request_id);
  }
  insert_job_.BindText(3, job.job.suite())
      .Bind(4, job.job.state())
      .Bind(5, job.job.verdict())
      .Bind(6, job.job.counts().total())
      .BindBlob(7, findings)
      .BindBlob(8, summary_blob);
  if (spec.empty()) {
    insert_job_.BindNull(9);
  } else {
    insert_job_.BindBlob(9, spec);
  }
  if (absl::Status s = insert_job_.Run(); !s.ok()) return s;

  const ScopedReset reset(find_job_);
  const absl::StatusOr<bool> found = find_job_.BindText(1, job.job.name()).Step();
  if (!found.ok()) return found.status();
  const std::int64_t row = find_job_.Int(0);
  for (const auto& [key, value] : job.job.spec().labels()) {
    absl::Status s = insert_label_.Bind(1, row).BindText(2, key).BindText(3, value).Run();
    if (!s.ok()) return s;
  }
  return InsertPlans(row, job.plans);
}

absl::Status StoreWriter::InsertPlans(std::int64_t row, const std::vector<DevicePlan>& plans) {
  std::int64_t position = 0;
  for (const DevicePlan& plan : plans) {
    v1::CaseList list;
    for (const v1::CaseSpec& spec : plan.cases) *list.add_cases() = spec;
    const std::string required = absl::StrJoin(plan.required, "\n");
    const std::string cases = list.SerializeAsString();
    absl::Status s = insert_plan_.Bind(1, Key(row, position++))
                         .BindText(2, plan.device)
                         .Bind(3, plan.first_index)
                         .BindText(4, required)
                         .BindBlob(5, cases)
                         .Run();
    if (!s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status StoreWriter::Delete(std::string_view name) {
  std::int64_t row = 0;
  {
    const ScopedReset reset(find_job_);
    const absl::StatusOr<bool> found = find_job_.BindText(1, name).Step();
    if (!found.ok()) return found.status();
    if (!*found)
      return WithReason(absl::NotFoundError(Cat("no job \"", name, "\"")),
                        v1::ERROR_REASON_JOB_NOT_FOUND);
    row = find_job_.Int(0);
  }
  for (Statement* statement : {&delete_results_, &delete_events_, &delete_plans_}) {
    absl::Status s = statement->Bind(1, Key(row, 0)).Bind(2, Key(row + 1, 0) - 1).Run();
    if (!s.ok()) return s;
  }
  if (absl::Status s = delete_labels_.Bind(1, row).Run(); !s.ok()) return s;
  return delete_job_.Bind(1, row).Run();
}

absl::Status StoreWriter::InsertEvent(std::int64_t row, std::int64_t sequence,
                                      const v1::JobEvent& event) {
  std::string data;
  insert_event_.Bind(1, Key(row, sequence))
      .Bind(2, TimeUtil::TimestampToNanoseconds(event.create_time()));
  if (event.has_case_result()) {
    const std::int64_t key = Key(row, event.case_result().index());
    const std::string result = event.case_result().SerializeAsString();
    if (absl::Status s = insert_result_.Bind(1, key).BindBlob(2, result).Run(); !s.ok()) {
      insert_event_.Reset();
      return s;
    }
    insert_event_.Bind(3, key);
  } else {
    v1::JobEvent bare = event;
    bare.clear_create_time();
    if (bare.has_finished()) bare.mutable_finished()->clear_job();
    data = bare.SerializeAsString();
    insert_event_.BindNull(3);
  }
  return insert_event_.BindBlob(4, data).Run();
}

absl::StatusOr<std::int64_t> StoreWriter::Apply(const JobUpdate& update) {
  std::int64_t row = 0;
  std::int64_t sequence = 0;
  {
    const ScopedReset reset(find_job_);
    const absl::StatusOr<bool> found = find_job_.BindText(1, update.name).Step();
    if (!found.ok()) return found.status();
    if (!*found) return absl::NotFoundError(Cat("no job \"", update.name, "\""));
    row = find_job_.Int(0);
    sequence = find_job_.Int(1);
  }
  std::array<std::int64_t, 6> counts{};
  for (const v1::JobEvent& event : update.events) {
    if (absl::Status s = InsertEvent(row, ++sequence, event); !s.ok()) return s;
    const int column = event.has_case_result() ? CountColumn(event.case_result().verdict()) : -1;
    if (column >= 0) ++counts[static_cast<std::size_t>(column)];
  }
  if (!update.events.empty()) {
    update_counts_.Bind(1, row).Bind(2, sequence);
    for (int n = 0; n < 6; ++n) update_counts_.Bind(3 + n, counts[static_cast<std::size_t>(n)]);
    if (absl::Status s = update_counts_.Run(); !s.ok()) return s;
  }
  if (update.job.has_value()) {
    const v1::Job& job = *update.job;
    const std::string findings = FindingsBlob(job);
    update_job_.Bind(1, row).Bind(2, job.state()).Bind(3, job.verdict());
    BindTime(update_job_, 4, job.has_start_time(), job.start_time());
    BindTime(update_job_, 5, job.has_end_time(), job.end_time());
    if (absl::Status s = update_job_.BindBlob(6, findings).Bind(7, job.counts().total()).Run();
        !s.ok())
      return s;
    if (Ended(job.state())) {
      absl::Status s = delete_plans_.Bind(1, Key(row, 0)).Bind(2, Key(row + 1, 0) - 1).Run();
      if (!s.ok()) return s;
    }
  }
  return sequence;
}

}  // namespace assay::server
