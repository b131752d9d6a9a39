// Store keeps jobs, their results, their events, and baselines in one SQLite file that survives
// the daemon.
//
// One folder holds `assay.db` (WAL mode) and `assay.lock`. A Store owns the folder while it lives;
// a second daemon on the same folder is refused. One writer thread does all writes. It commits
// everything that has gathered as one transaction, in the order of submission, so that a write
// costs a share of an fsync. A write is durable when its call has returned, or when its Done was
// called with OK. Events get their sequence numbers at the commit: from 1, without gaps, in the
// order of submission.
//
// A full disk or a full store does not lose results: their updates are held in memory until there
// is room (server/store/write_queue.h). Who submits more than can be held waits.
//
// Thread-safe. Errors: NOT_FOUND (no such job or baseline), ALREADY_EXISTS (id or request_id
// taken), RESOURCE_EXHAUSTED (disk or max_bytes full), INTERNAL (input/output, corruption),
// FAILED_PRECONDITION and PERMISSION_DENIED at opening; every message names the path.
#ifndef ASSAY_SERVER_STORE_STORE_H_
#define ASSAY_SERVER_STORE_STORE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "assay/v1/baseline.pb.h"
#include "assay/v1/job.pb.h"

namespace assay::server {

// What an operator should know of the store, beside what it keeps.
struct StoreState {
  std::string full{};    // why nothing new can be written; empty: there is room
  int held = 0;          // updates that wait in memory for room
  bool damaged = false;  // a file lies there that was moved aside, or records cannot be read
};

enum class StoreSync {
  kFull,    // a commit survives loss of power
  kNormal,  // a commit survives the daemon's death; loss of power may take the newest
};

struct StoreOptions {
  std::string folder{};  // made if absent
  StoreSync sync = StoreSync::kFull;
  std::int64_t max_bytes = 0;  // [bytes] of assay.db; 0: as the disk allows
};

// A job's cases on one device, all defaults filled in, kept while the job has not
// ended. Indices of a job run through its devices' plans one after the other.
struct DevicePlan {
  std::string device{};
  std::int32_t first_index = 0;
  std::vector<v1::CaseSpec> cases{};
  std::vector<std::string> required{};  // "gemm onednn fp32": must not be UNSUPPORTED
};

struct NewJob {
  v1::Job job{};  // name, spec, state, counts.total, create_time, devices, findings, suite
  std::string request_id{};  // empty: none
  std::vector<DevicePlan> plans{};
};

// What happened to a job: applied as a whole or not at all.
struct JobUpdate {
  std::string name{};            // "jobs/{id}"
  std::optional<v1::Job> job{};  // new state, verdict, start_time, end_time, findings, a larger
                                 // total; rest ignored
  // In order; sequence and job are set by the store. A case_result is kept as a
  // result and counted; a finished event's job is read back from the jobs' table.
  std::vector<v1::JobEvent> events{};
  bool can_wait = false;  // a few milliseconds, so that it shares the sync of the next write
};

struct JobQuery {
  std::optional<v1::JobState> state{};
  std::optional<v1::Verdict> verdict{};
  std::optional<std::string> suite{};
  std::vector<std::pair<std::string, std::string>> labels{};
  std::int64_t before = 0;  // position; 0: from the newest
  int limit = 100;
};

struct JobPage {
  std::vector<v1::Job> jobs;  // newest first, without spec.cases and spec.suite_text
  std::int64_t next = 0;      // `before` of the next page; 0: this was the last
};

struct BaselinePage {
  std::vector<v1::Baseline> baselines;  // newest first, without results
  std::int64_t next = 0;                // as JobPage's
};

// Of the store's file [bytes].
struct StoreSize {
  std::int64_t used = 0;
  std::int64_t free = 0;  // left by what was deleted; new rows take it first
};

class Store {
 public:
  // Called on the writer thread after the commit, in order; must be short and
  // must not call a waiting method of the store. `last_sequence` is the job's.
  using Done = std::function<void(const absl::Status& status, std::int64_t last_sequence)>;

  // Opens or makes the store of a folder. A damaged file is moved aside (see notices()) and an
  // empty store begun; the records of a large file are checked later, on a thread of the store's. A
  // file of a newer version is refused with FAILED_PRECONDITION, as is a folder that another daemon
  // holds. A full disk is no failure where the folder has space set aside (StoreState::full).
  static absl::StatusOr<std::unique_ptr<Store>> Open(const StoreOptions& options);

  virtual ~Store() = default;  // writes what was submitted, then closes

  // What the operator must be told of the opening, a sentence each; logged too.
  virtual const std::vector<std::string>& notices() const = 0;

  // Called at once and after each change, on a thread of the store's; must be short and must not
  // call the store. Replaces the one before.
  virtual void TellOfState(std::function<void(const StoreState&)> told) = 0;

  // For a daemon that ends: updates that wait for room are refused, now and from now on, and so is
  // a copy that is being made.
  virtual void HoldNoMore() = 0;

  // A copy of the store as it is now, in pieces of at most 1 MiB: a file that an assayd can be
  // started on. `write` gets each piece and the size of the whole [bytes]; its failure ends the
  // copy and is returned. FAILED_PRECONDITION while another copy is made, RESOURCE_EXHAUSTED where
  // the folder has no room for the copy.
  virtual absl::Status Backup(
      absl::FunctionRef<absl::Status(std::string_view piece, std::int64_t bytes)> write) = 0;

  // Waits until it is durable. `queued` is called before that, on the caller's thread, as soon as
  // the write has its place in the order. From then on updates of the job may be submitted: they
  // are kept after the job or with it, and are answered with NOT_FOUND if the job cannot be kept.
  virtual absl::Status CreateJob(const NewJob& job, absl::FunctionRef<void()> queued) = 0;
  absl::Status CreateJob(const NewJob& job) {
    return CreateJob(job, [] {});
  }
  virtual absl::Status DeleteJob(std::string_view name) = 0;
  virtual absl::Status Apply(JobUpdate update) = 0;

  // Queues the update; waits only while the queue is full (back-pressure), which it is, too, while
  // there is no room for what waits.
  virtual void Submit(JobUpdate update, Done done) = 0;

  // Reads; they see what is committed.
  virtual absl::StatusOr<v1::Job> GetJob(std::string_view name) = 0;
  // The job a request made, NOT_FOUND where there is none.
  virtual absl::StatusOr<v1::Job> FindRequest(std::string_view request_id) = 0;
  virtual absl::StatusOr<JobPage> ListJobs(const JobQuery& query) = 0;
  // Events with sequence > after, at most `limit` of them and about 1 MiB.
  virtual absl::StatusOr<std::vector<v1::JobEvent>> Events(std::string_view name,
                                                           std::int64_t after, int limit) = 0;
  // Results with index >= from, at most `limit` of them and about 2 MiB.
  virtual absl::StatusOr<std::vector<v1::CaseResult>> Results(std::string_view name,
                                                              std::int32_t from, int limit) = 0;

  virtual absl::StatusOr<StoreSize> Size() = 0;
  // Gives at most `bytes` of the free space back to the disk, as one short write among the others.
  // A file that a version without this made keeps its size.
  virtual absl::Status GiveBack(std::int64_t bytes) = 0;

  // For a daemon that starts: jobs that have not ended, oldest first, and what is
  // left of one: plans without the cases' results. Of a job whose record cannot be read there is
  // what stands beside the record, and a finding that says so; listings have it likewise.
  virtual absl::StatusOr<std::vector<v1::Job>> UnfinishedJobs() = 0;
  virtual absl::StatusOr<std::vector<DevicePlan>> Plans(std::string_view name) = 0;
  virtual absl::StatusOr<std::vector<std::int32_t>> ResultIndices(std::string_view name) = 0;

  // The users' kernels that kept jobs name, "user/3fa9c1d2e4b0". It reads the spec of every job.
  virtual absl::StatusOr<std::set<std::string>> UserKernels() = 0;

  // Baselines, by their whole names; writes wait until they are durable. `before`: a
  // position, 0 from the newest. Of one whose record cannot be read, a listing has the name alone.
  virtual absl::Status CreateBaseline(const v1::Baseline& baseline) = 0;
  virtual absl::Status DeleteBaseline(std::string_view name) = 0;
  virtual absl::StatusOr<v1::Baseline> GetBaseline(std::string_view name) = 0;
  virtual absl::StatusOr<BaselinePage> ListBaselines(std::int64_t before, int limit) = 0;
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_STORE_STORE_H_
