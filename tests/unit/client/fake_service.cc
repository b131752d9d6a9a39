#include "tests/unit/client/fake_service.h"

#include <limits>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"

namespace assay::client::testing {
namespace {

v1::Mismatch MakeMismatch(std::int64_t row, double actual) {
  v1::Mismatch mismatch;
  mismatch.add_index(0);
  mismatch.add_index(row);
  mismatch.set_actual(actual);
  mismatch.set_expected(0.03125);
  mismatch.set_bound(0.0005);
  mismatch.set_actual_bits("0x3310");
  mismatch.set_expected_bits("0x2800");
  return mismatch;
}

v1::Device CpuDevice() {
  v1::Device device;
  device.set_name("devices/cpu:0");
  device.set_id("cpu:0");
  device.set_backend("cpu");
  device.set_model("EPYC 9755");
  device.set_state(v1::DEVICE_STATE_READY);
  device.set_compute_units(2);
  device.set_memory_bytes(std::int64_t{24} << 30);
  auto* ceiling = device.add_ceilings();
  ceiling->set_dtype(v1::DTYPE_BF16);
  ceiling->set_flops_per_second(1.03e12);
  return device;
}

}  // namespace

v1::CaseResult MakeResult(int index, v1::Verdict verdict) {
  v1::CaseResult result;
  result.set_index(index);
  result.set_name("gemm 64x32x16 bf16 onednn #" + std::to_string(index));
  v1::CaseSpec& spec = *result.mutable_spec();
  spec.mutable_gemm()->set_m(64);
  spec.mutable_gemm()->set_n(32);
  spec.mutable_gemm()->set_k(16);
  spec.mutable_gemm()->set_alpha(1);
  spec.set_dtype(v1::DTYPE_BF16);
  spec.set_out_dtype(v1::DTYPE_BF16);
  spec.set_provider("onednn");
  spec.set_pattern("normal:1");
  spec.set_seed(7);
  result.set_device("cpu:0");
  result.set_verdict(verdict);
  result.set_criterion(v1::CRITERION_BOUND);
  result.set_repro("assay run gemm --m 64 --n 32 --k 16 --dtype bf16 --seed 7");
  result.mutable_duration()->set_nanos(12'500'000);
  if (verdict == v1::VERDICT_UNSUPPORTED || verdict == v1::VERDICT_ERROR ||
      verdict == v1::VERDICT_SKIPPED) {
    auto* finding = result.add_findings();
    finding->set_reason(verdict == v1::VERDICT_ERROR ? "crash" : "unsupported");
    finding->set_message(verdict == v1::VERDICT_ERROR ? "worker killed by SIGSEGV"
                                                      : "no bf16 \"here\", today");
    return result;
  }
  v1::ErrorStats& stats = *result.mutable_stats();
  stats.set_count(2048);
  stats.set_rho(0.92);
  stats.set_rho_proven(0.11);
  stats.set_max_abs_error(0.125);
  stats.set_mean_abs_error(0.01);
  stats.set_rms_error(0.02);
  stats.set_max_rel_error(0.5);
  stats.set_cosine(0.99999);
  stats.set_bias_z(-0.4);
  result.mutable_digests()->set_raw("aa");
  result.mutable_digests()->set_canonical("bb");
  v1::BenchStats& bench = *result.mutable_bench();
  bench.set_median_seconds(2.53e-3);
  bench.set_samples(1);
  bench.set_flops_per_second(850e9);
  bench.set_bytes_per_second(1e9);
  bench.set_efficiency(0.81);
  bench.set_roof("compute");
  if (verdict == v1::VERDICT_FAILED) {
    stats.set_rho(412.6);
    stats.set_mismatches(2);
    *stats.add_mismatch_samples() = MakeMismatch(63, 0.2207);
    *stats.add_mismatch_samples() = MakeMismatch(127, std::numeric_limits<double>::quiet_NaN());
    *stats.mutable_worst() = MakeMismatch(63, 0.2207);
    auto* bound = result.add_findings();
    bound->set_reason("bound");
    bound->set_message("2 of 2,048 elements beyond their bound");
    auto* exact = result.add_findings();
    exact->set_reason("exact");
    exact->set_message("1 element differs from the exact result");
  }
  if (verdict == v1::VERDICT_INCONCLUSIVE) {
    auto* finding = result.add_findings();
    finding->set_reason("zeros");
    finding->set_message("every output element is 0 and so is the reference");
  }
  return result;
}

grpc::Status NotFound(v1::ErrorReason reason, const std::string& message) {
  google::rpc::ErrorInfo info;
  info.set_domain("assay");
  info.set_reason(v1::ErrorReason_Name(reason).substr(std::string("ERROR_REASON_").size()));
  google::rpc::Status status;
  status.set_code(5);
  status.add_details()->PackFrom(info);
  return {grpc::StatusCode::NOT_FOUND, message, status.SerializeAsString()};
}

grpc::Status BadRequest(const std::vector<std::pair<std::string, std::string>>& violations) {
  google::rpc::BadRequest bad;
  for (const auto& [field, description] : violations) {
    auto* violation = bad.add_field_violations();
    violation->set_field(field);
    violation->set_description(description);
  }
  google::rpc::Status status;
  status.set_code(3);
  status.add_details()->PackFrom(bad);
  return {grpc::StatusCode::INVALID_ARGUMENT, "the job is malformed", status.SerializeAsString()};
}

FakeService::FakeService() {
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
}

FakeService::~FakeService() { server_->Shutdown(); }

std::vector<v1::CreateJobRequest> FakeService::created() const {
  const std::lock_guard lock(mutex_);
  return created_;
}

std::vector<std::int64_t> FakeService::watched_after() const {
  const std::lock_guard lock(mutex_);
  return watched_after_;
}

std::vector<std::string> FakeService::cancelled() const {
  const std::lock_guard lock(mutex_);
  return cancelled_;
}

int FakeService::jobs_made() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(request_ids_.size());
}

v1::Job FakeService::Job(bool ended) const {
  v1::Job job;
  job.set_name("jobs/4f2k");
  *job.mutable_spec() = spec_;
  job.set_suite(spec_.suite());
  for (const std::string& device : devices) job.add_devices(device);
  job.set_state(ended ? end_state : v1::JOB_STATE_RUNNING);
  job.mutable_create_time()->set_seconds(1'700'000'000);
  *job.mutable_start_time() = job.create_time();
  job.mutable_counts()->set_total(static_cast<int>(results.size()));
  if (ended) {
    job.set_verdict(verdict);
    job.mutable_end_time()->set_seconds(1'700'000'006);
    job.mutable_end_time()->set_nanos(200'000'000);
    for (const auto& finding : job_findings) *job.add_findings() = finding;
  }
  return job;
}

std::vector<v1::JobEvent> FakeService::Events() const {
  std::vector<v1::JobEvent> events(1);
  auto& started = *events[0].mutable_started();
  started.set_total(static_cast<int>(results.size()));
  for (const auto& result : results)
    ++(*started.mutable_op_counts())[result.spec().has_gemm() ? "gemm" : "copy"];
  if (!progress_phase.empty() && !results.empty()) {
    auto& progress = *events.emplace_back().mutable_progress();
    progress.set_name(results[0].name());
    progress.set_total(static_cast<int>(results.size()));
    progress.set_phase(progress_phase);
  }
  for (const auto& result : results) *events.emplace_back().mutable_case_result() = result;
  auto* change = events.emplace_back().mutable_state_change();
  change->set_from(v1::JOB_STATE_RUNNING);
  change->set_to(end_state);
  *events.emplace_back().mutable_finished()->mutable_job() = Job(true);
  for (std::size_t i = 0; i < events.size(); ++i) {
    events[i].set_sequence(static_cast<std::int64_t>(i) + 1);
  }
  return events;
}

grpc::Status FakeService::CreateJob(grpc::ServerContext*, const v1::CreateJobRequest* request,
                                    v1::Job* job) {
  const std::lock_guard lock(mutex_);
  created_.push_back(*request);
  if (!create_status.ok()) return create_status;
  ++request_ids_[request->request_id()];
  if (static_cast<int>(created_.size()) <= lose_creates) {
    return {grpc::StatusCode::UNAVAILABLE, "Socket closed"};
  }
  spec_ = request->spec();
  *job = Job(false);
  job->set_state(start_state);
  return grpc::Status::OK;
}

grpc::Status FakeService::GetJob(grpc::ServerContext*, const v1::GetJobRequest* request,
                                 v1::Job* job) {
  const std::lock_guard lock(mutex_);
  if (request->name() != "jobs/4f2k") {
    return NotFound(v1::ERROR_REASON_JOB_NOT_FOUND, "no job \"" + request->name() + "\"");
  }
  *job = Job(known_state == v1::JOB_STATE_FINISHED);
  if (known_state != v1::JOB_STATE_FINISHED) job->set_state(known_state);
  return grpc::Status::OK;
}

grpc::Status FakeService::ListJobs(grpc::ServerContext*, const v1::ListJobsRequest* request,
                                   v1::ListJobsResponse* response) {
  const std::lock_guard lock(mutex_);
  for (const v1::Job& job : other_jobs) {
    if (request->filter() == "state=" + v1::JobState_Name(job.state()).substr(10)) {
      *response->add_jobs() = job;
    }
  }
  if (!request->filter().empty()) return grpc::Status::OK;
  *response->add_jobs() = Job(true);
  if (more_pages) response->set_next_page_token("more");
  return grpc::Status::OK;
}

grpc::Status FakeService::CancelJob(grpc::ServerContext*, const v1::CancelJobRequest* request,
                                    v1::Job* job) {
  const std::lock_guard lock(mutex_);
  cancelled_.push_back(request->name());
  if (cancelled_state == v1::JOB_STATE_CANCELLED) {
    end_state = v1::JOB_STATE_CANCELLED;
    verdict = v1::VERDICT_INCONCLUSIVE;
  }
  *job = Job(cancelled_state != v1::JOB_STATE_RUNNING);
  return grpc::Status::OK;
}

grpc::Status FakeService::WatchJob(grpc::ServerContext* context, const v1::WatchJobRequest* request,
                                   grpc::ServerWriter<v1::JobEvent>* writer) {
  std::vector<v1::JobEvent> events;
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    first = watched_after_.empty();
    const std::size_t call = watched_after_.size();
    watched_after_.push_back(request->after_sequence());
    if (call < watch_refusals.size()) return watch_refusals[call];
    events = Events();
  }
  if (always_drop) return {grpc::StatusCode::UNAVAILABLE, "Socket closed"};
  int sent = 0;
  for (const auto& event : events) {
    if (die_after > 0 && request->after_sequence() >= die_after) break;
    if (event.sequence() <= request->after_sequence()) continue;
    if (hang && event.has_state_change()) {
      // Until the client has gone or asked for the end.
      while (!context->IsCancelled() && cancelled().empty()) std::this_thread::yield();
      if (context->IsCancelled()) return grpc::Status::CANCELLED;
      v1::JobEvent finished = event;
      {
        const std::lock_guard lock(mutex_);
        *finished.mutable_finished()->mutable_job() = Job(true);
      }
      writer->Write(finished);
      return grpc::Status::OK;
    }
    writer->Write(event);
    if (request->after_sequence() + ++sent == die_after || (first && sent == drop_after))
      return {grpc::StatusCode::UNAVAILABLE, "Socket closed"};
  }
  if (die_after > 0) return {grpc::StatusCode::UNAVAILABLE, "Socket closed"};
  if (late_progress) {
    v1::JobEvent progress;
    progress.mutable_progress()->set_phase(progress_phase);
    writer->Write(progress);
  }
  return grpc::Status::OK;
}

// One result a page, so that a client that forgets the next page is caught.
grpc::Status FakeService::ListCaseResults(grpc::ServerContext*,
                                          const v1::ListCaseResultsRequest* request,
                                          v1::ListCaseResultsResponse* response) {
  const std::size_t at = request->page_token().empty() ? 0 : std::stoul(request->page_token());
  if (at < results.size()) *response->add_results() = results[at];
  if (at + 1 < results.size()) response->set_next_page_token(std::to_string(at + 1));
  return grpc::Status::OK;
}

grpc::Status FakeService::ListDevices(grpc::ServerContext*, const v1::ListDevicesRequest*,
                                      v1::ListDevicesResponse* response) {
  *response->add_devices() = CpuDevice();
  v1::Device& cuda = *response->add_devices();
  cuda.set_id("cuda");
  cuda.set_backend("cuda");
  cuda.set_state(v1::DEVICE_STATE_UNAVAILABLE);
  cuda.set_unavailable_reason("no driver");
  for (const v1::Device& device : more_devices) *response->add_devices() = device;
  return grpc::Status::OK;
}

grpc::Status FakeService::ReleaseDevice(grpc::ServerContext*,
                                        const v1::ReleaseDeviceRequest* request,
                                        v1::Device* device) {
  if (request->name() != "devices/cpu:0") {
    return NotFound(v1::ERROR_REASON_DEVICE_NOT_FOUND, "no device \"" + request->name() + "\"");
  }
  *device = CpuDevice();
  if (request->keep_quarantine()) device->set_state(v1::DEVICE_STATE_QUARANTINED);
  return grpc::Status::OK;
}

grpc::Status FakeService::ListKernels(grpc::ServerContext*, const v1::ListKernelsRequest* request,
                                      v1::ListKernelsResponse* response) {
  v1::Kernel& kernel = *response->add_kernels();
  kernel.set_op("gemm");
  kernel.set_provider("onednn");
  kernel.add_dtypes(v1::DTYPE_FP32);
  kernel.add_dtypes(v1::DTYPE_BF16);
  kernel.set_backend("cpu");
  kernel.set_available(true);
  if (request->show_planted()) {
    v1::Kernel& planted = *response->add_kernels();
    planted.set_op("gemm");
    planted.set_provider("planted/wrong-tile");
    planted.set_unavailable_reason("needs AVX-512");
    for (const v1::Kernel& more : more_kernels) *response->add_kernels() = more;
  }
  return grpc::Status::OK;
}

grpc::Status FakeService::ListSuites(grpc::ServerContext*, const v1::ListSuitesRequest* request,
                                     v1::ListSuitesResponse* response) {
  v1::Suite& suite = *response->add_suites();
  suite.set_name("nightly");
  suite.set_title("what runs at night");
  suite.set_case_count(3);
  if (request->full()) suite.set_text("title = \"what runs at night\"\n");
  v1::Suite& broken = *response->add_suites();
  broken.set_name("broken");
  broken.set_error("broken.toml:3:1: unknown key");
  return grpc::Status::OK;
}

grpc::Status FakeService::GetServerInfo(grpc::ServerContext*, const v1::GetServerInfoRequest*,
                                        v1::ServerInfo* info) {
  info->set_version("0.1.0");
  (*info->mutable_versions())["onednn"] = "2.6.3";
  info->MergeFrom(more_info);
  return grpc::Status::OK;
}

}  // namespace assay::client::testing
