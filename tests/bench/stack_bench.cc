// What the stack costs around a kernel: submit to first result, and tiny cases a
// second through daemon, worker, store and stream.
//
//   stack_bench --target HOST:PORT [--cases N] [--folder DIR] [--json]
//
// Prints `name ours peer ratio` lines; the peer is the goal. One line is not about the stack:
// durable_commit_p50_s is what a single SQLite commit with synchronous=FULL takes in DIR (default
// /tmp), to hold the other times against. Choose a folder on the disk of the daemon's state.
#include <grpcpp/grpcpp.h>
#include <sqlite3.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "assay/v1/service.grpc.pb.h"

namespace {

namespace v1 = assay::v1;
using Clock = std::chrono::steady_clock;

double Since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

v1::CreateJobRequest TinyJob(int cases) {
  v1::CreateJobRequest request;
  for (int i = 0; i < cases; ++i) {
    v1::CaseSpec* spec = request.mutable_spec()->mutable_cases()->add_cases();
    spec->mutable_gemm()->set_m(16);
    spec->mutable_gemm()->set_n(16);
    spec->mutable_gemm()->set_k(16);
    spec->set_dtype(v1::DTYPE_FP32);
    spec->set_provider("builtin");
    spec->set_seed(static_cast<std::uint64_t>(i) + 1);
  }
  return request;
}

// Runs a job to its end; seconds to the first result and in all. Exits where a
// case does not pass, for a figure about wrong results is none.
struct Times {
  double first = 0;
  double all = 0;
};

Times RunJob(v1::ValidationService::Stub& stub, const v1::CreateJobRequest& request) {
  Times times;
  const Clock::time_point begin = Clock::now();
  grpc::ClientContext create;
  v1::Job job;
  grpc::Status status = stub.CreateJob(&create, request, &job);
  if (!status.ok()) {
    std::fprintf(stderr, "stack_bench: %s\n", status.error_message().c_str());
    std::exit(1);
  }
  grpc::ClientContext watch;
  v1::WatchJobRequest watch_request;
  watch_request.set_name(job.name());
  const auto stream = stub.WatchJob(&watch, watch_request);
  v1::JobEvent event;
  int results = 0;
  while (stream->Read(&event)) {
    if (!event.has_case_result()) continue;
    if (event.case_result().verdict() != v1::VERDICT_PASSED) {
      std::fprintf(stderr, "stack_bench: %s did not pass\n", event.case_result().name().c_str());
      std::exit(1);
    }
    if (++results == 1) times.first = Since(begin);
  }
  times.all = Since(begin);
  if (results != request.spec().cases().cases_size()) {
    std::fprintf(stderr, "stack_bench: %d results of %d\n", results,
                 request.spec().cases().cases_size());
    std::exit(1);
  }
  return times;
}

void Must(bool fine, sqlite3* db) {
  if (fine) return;
  std::fprintf(stderr, "stack_bench: %s\n", sqlite3_errmsg(db));
  std::exit(1);
}

// The median time of a durable commit of one row of half a kilobyte [s].
double CommitSeconds(const std::string& folder) {
  const std::string path = folder + "/stack_bench." + std::to_string(getpid()) + ".db";
  sqlite3* db = nullptr;
  Must(sqlite3_open(path.c_str(), &db) == SQLITE_OK, db);
  const auto run = [db](const char* sql) {
    Must(sqlite3_exec(db, sql, nullptr, nullptr, nullptr) == SQLITE_OK, db);
  };
  run("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE t(data BLOB)");
  std::vector<double> seconds;
  for (int i = 0; i < 300; ++i) {
    const Clock::time_point begin = Clock::now();
    run("INSERT INTO t VALUES(zeroblob(512))");
    seconds.push_back(Since(begin));
  }
  sqlite3_close(db);
  for (const char* suffix : {"", "-wal", "-shm"}) unlink((path + suffix).c_str());
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

void Print(bool json, const char* name, double ours, double peer, double ratio) {
  if (json) {
    std::printf("{\"name\":\"%s\",\"ours\":%.6g,\"peer\":%.6g,\"ratio\":%.4g}\n", name, ours, peer,
                ratio);
  } else {
    std::printf("%-32s %12.6g %12.6g %8.3f\n", name, ours, peer, ratio);
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::string target;
  std::string folder = "/tmp";
  int cases = 3000;
  bool json = false;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--json") == 0) {
      json = true;
    } else if (std::strcmp(argv[i], "--target") == 0 && i + 1 < argc) {
      target = argv[++i];
    } else if (std::strcmp(argv[i], "--cases") == 0 && i + 1 < argc) {
      cases = std::atoi(argv[++i]);
    } else if (std::strcmp(argv[i], "--folder") == 0 && i + 1 < argc) {
      folder = argv[++i];
    } else {
      std::fprintf(stderr,
                   "usage: stack_bench --target HOST:PORT [--cases N] [--folder DIR] [--json]\n");
      return 2;
    }
  }
  const auto stub = v1::ValidationService::NewStub(
      grpc::CreateChannel(target, grpc::InsecureChannelCredentials()));
  const v1::CreateJobRequest one = TinyJob(1);
  for (int i = 0; i < 20; ++i) RunJob(*stub, one);
  std::vector<double> first;
  for (int i = 0; i < 300; ++i) first.push_back(RunJob(*stub, one).first);
  std::sort(first.begin(), first.end());
  constexpr double kGoalFirst = 1e-3;  // [seconds]
  const double p50 = first[first.size() / 2];
  Print(json, "submit_to_first_result_p50_s", p50, kGoalFirst, kGoalFirst / p50);
  Print(json, "submit_to_first_result_p99_s", first[first.size() * 99 / 100], kGoalFirst,
        kGoalFirst / first[first.size() * 99 / 100]);
  const double commit = CommitSeconds(folder);
  Print(json, "durable_commit_p50_s", commit, kGoalFirst, kGoalFirst / commit);
  constexpr double kGoalRate = 3000;  // [cases/s]
  const double rate = cases / RunJob(*stub, TinyJob(cases)).all;
  Print(json, "tiny_cases_per_second", rate, kGoalRate, rate / kGoalRate);
  return 0;
}
