#include "tests/unit/server/rpc_fixture.h"

namespace assay::server {
namespace {

using testing::HasSubstr;

TEST(ErrorMapping, PayloadsBecomeDetails) {
  const absl::Status status =
      WithRetry(BadRequestError({{"spec.cases[3].gemm.m", "must be at least 1, got 0"}}),
                absl::Milliseconds(2500));
  const grpc::Status mapped = ToGrpcStatus(status);
  EXPECT_EQ(mapped.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(mapped.error_message(), "spec.cases[3].gemm.m: must be at least 1, got 0");
  google::rpc::Status details;
  ASSERT_TRUE(details.ParseFromString(mapped.error_details()));
  google::rpc::BadRequest request;
  google::rpc::RetryInfo retry;
  for (const google::protobuf::Any& any : details.details()) {
    if (any.Is<google::rpc::BadRequest>()) any.UnpackTo(&request);
    if (any.Is<google::rpc::RetryInfo>()) any.UnpackTo(&retry);
  }
  ASSERT_EQ(request.field_violations_size(), 1);
  EXPECT_EQ(request.field_violations(0).field(), "spec.cases[3].gemm.m");
  EXPECT_EQ(retry.retry_delay().seconds(), 2);
  EXPECT_EQ(retry.retry_delay().nanos(), 500'000'000);
}

TEST(ErrorMapping, DamageIsInternalAndOkIsOk) {
  EXPECT_EQ(ToGrpcStatus(absl::DataLossError("x")).error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).ok());
}

// gRPC's client takes 8 KiB for message and details together, and hides the error if they are more.
TEST(ErrorMapping, AMessageIsCutToWhatATrailerHolds) {
  const std::string fits(4000, 'x');
  EXPECT_EQ(ToGrpcStatus(absl::InternalError(fits)).error_message(), fits);
  const auto takes = [](const grpc::Status& status) {
    std::size_t bytes = (status.error_details().size() + 2) / 3 * 4;
    for (const char c : status.error_message()) bytes += c < ' ' || c > '~' || c == '%' ? 3 : 1;
    return bytes;
  };
  std::string accents;
  for (int i = 0; i < 30'000; ++i) accents += "é";
  for (const std::string& name : {std::string(65'536, 'a'), std::string(65'536, '%'), accents}) {
    const grpc::Status plain = ToGrpcStatus(absl::NotFoundError("no job " + name));
    EXPECT_LT(takes(plain), 7500u);
    EXPECT_TRUE(plain.error_message().starts_with("no job "));
    EXPECT_TRUE(plain.error_message().ends_with("…"));
    const grpc::Status described =
        ToGrpcStatus(WithReason(absl::NotFoundError(name), v1::ERROR_REASON_JOB_NOT_FOUND, fits));
    EXPECT_LT(takes(described), 7500u);
    EXPECT_EQ(InfoOf(described).reason(), "JOB_NOT_FOUND");
  }
  const std::string cut = ToGrpcStatus(absl::NotFoundError(accents)).error_message();
  EXPECT_EQ(cut.substr(0, cut.size() - 3), accents.substr(0, cut.size() - 3));
  EXPECT_EQ((cut.size() - 3) % 2, 0u) << "no character is cut in two";
}

// Every error tells a program why, one without a reason of its own by the name of its code.
TEST(ErrorMapping, EveryErrorHasItsReason) {
  const google::rpc::ErrorInfo own = InfoOf(ToGrpcStatus(
      WithReason(absl::NotFoundError("x"), v1::ERROR_REASON_DEVICE_NOT_FOUND, "spec.device")));
  EXPECT_EQ(own.domain(), "assay");
  EXPECT_EQ(own.reason(), "DEVICE_NOT_FOUND");
  EXPECT_EQ(own.metadata().at("field"), "spec.device");
  EXPECT_EQ(InfoOf(ToGrpcStatus(absl::ResourceExhaustedError("x"))).reason(), "RESOURCE_EXHAUSTED");
  EXPECT_EQ(InfoOf(ToGrpcStatus(BadRequestError({{"a", "b"}}))).reason(), "BAD_REQUEST");
  EXPECT_EQ(CodeName(grpc::StatusCode::UNAUTHENTICATED), "UNAUTHENTICATED");
  EXPECT_EQ(CodeName(grpc::StatusCode::RESOURCE_EXHAUSTED), "RESOURCE_EXHAUSTED");
}

TEST(RequestParsing, NamesAreHeldToTheirForm) {
  EXPECT_TRUE(CheckJobName("name", "jobs/k3v9x2mp").ok());
  for (const char* bad : {"", "jobs", "jobs/", "k3v9", "jobs/A", "jobs/a/b", "jobs/a b"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(CheckJobName("name", bad))) << bad;
  }
  EXPECT_EQ(*ParseDeviceName("devices/cpu:0"), "cpu:0");
  EXPECT_FALSE(ParseDeviceName("cpu:0").ok());
}

TEST(RequestParsing, FilterGrammar) {
  const auto query =
      ParseJobFilter("state=RUNNING AND verdict=FAILED AND suite=smoke AND label.a.b=x=y");
  ASSERT_TRUE(query.ok()) << query.status();
  EXPECT_EQ(query->state, v1::JOB_STATE_RUNNING);
  EXPECT_EQ(query->verdict, v1::VERDICT_FAILED);
  EXPECT_EQ(query->suite, "smoke");
  EXPECT_EQ(query->labels[0], std::make_pair(std::string("a.b"), std::string("x=y")));
  EXPECT_TRUE(ParseJobFilter("").ok());
  const auto message = [](std::string_view filter) {
    return std::string(ParseJobFilter(filter).status().message());
  };
  EXPECT_THAT(message("state=RUNING"), HasSubstr("did you mean \"RUNNING\""));
  EXPECT_THAT(message("stat=RUNNING"), HasSubstr("known: state, verdict"));
  EXPECT_THAT(message("state"), HasSubstr("KEY=VALUE"));
  EXPECT_THAT(message("state=QUEUED AND state=RUNNING"), HasSubstr("twice"));
  EXPECT_THAT(message("label.=x"), HasSubstr("unknown key"));
  EXPECT_THAT(message("suite=smoke AND"), HasSubstr("nothing behind its last \" AND\""));
}

TEST(RequestParsing, PageTokensBelongToTheirListing) {
  const std::string token = MakePageToken("a", 42);
  EXPECT_EQ(*ParsePageToken("a", token), 42);
  EXPECT_EQ(*ParsePageToken("a", ""), 0);
  EXPECT_FALSE(ParsePageToken("b", token).ok());
  EXPECT_FALSE(ParsePageToken("a", token + "x").ok());
  EXPECT_FALSE(ParsePageToken("a", "42").ok());
  EXPECT_EQ(*ParsePageToken("a", MakePageToken("a", 0xFFFFFF)), 0xFFFFFF);
  for (const std::int64_t forged : {std::int64_t{-1}, std::int64_t{1} << 24, INT64_MAX}) {
    EXPECT_FALSE(ParsePageToken("a", MakePageToken("a", forged)).ok()) << forged;
  }
  EXPECT_EQ(*ParsePageSize(0), 100);
  EXPECT_EQ(*ParsePageSize(5000), 1000);
  EXPECT_FALSE(ParsePageSize(-1).ok());
}

TEST_F(ServiceTest, AJobFromCreateToDelete) {
  const std::string name = Create(Copies(250));
  const auto [events, status] = Watch(name);
  EXPECT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(events.size(), 254u);
  for (std::size_t n = 0; n < events.size(); ++n) {
    ASSERT_EQ(events[n].sequence(), static_cast<std::int64_t>(n) + 1);
  }
  EXPECT_EQ(events.back().finished().job().verdict(), v1::VERDICT_PASSED);
  EXPECT_EQ(Watch(name, 200).first.size(), 54u);

  v1::ListCaseResultsRequest list;
  list.set_job(name);
  int results = 0;
  int pages = 0;
  do {
    v1::ListCaseResultsResponse page;
    ASSERT_TRUE(Call(&Stub::ListCaseResults, list, &page).ok());
    for (const v1::CaseResult& result : page.results()) EXPECT_EQ(result.index(), results++);
    list.set_page_token(page.next_page_token());
    ++pages;
  } while (!list.page_token().empty());
  EXPECT_EQ(results, 250);
  EXPECT_EQ(pages, 3);

  v1::Job job;
  v1::GetJobRequest get;
  get.set_name(name);
  ASSERT_TRUE(Call(&Stub::GetJob, get, &job).ok());
  EXPECT_EQ(job.counts().passed(), 250);
  EXPECT_EQ(job.spec().cases().cases_size(), 250);
  v1::DeleteJobRequest remove;
  remove.set_name(name);
  google::protobuf::Empty empty;
  EXPECT_TRUE(Call(&Stub::DeleteJob, remove, &empty).ok());
  EXPECT_EQ(Call(&Stub::GetJob, get, &job).error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(metrics_.cases, 250);
  EXPECT_EQ(metrics_.jobs, 1);
  EXPECT_EQ(metrics_.queue, 0);
  EXPECT_EQ(metrics_.calls("CreateJob OK"), 1);
  EXPECT_EQ(metrics_.calls("GetJob NOT_FOUND"), 1);
}

TEST_F(ServiceTest, AJobOfPlantedKernelsIsNoJobToTheMetrics) {
  v1::CreateJobRequest request = Copies(2);
  for (v1::CaseSpec& c : *request.mutable_spec()->mutable_cases()->mutable_cases()) {
    c.set_provider("planted/wrong");
  }
  Watch(Create(request));
  EXPECT_EQ(metrics_.jobs, 0);
  request.mutable_spec()->mutable_cases()->mutable_cases(0)->set_provider("builtin");
  Watch(Create(request));
  EXPECT_EQ(metrics_.jobs, 1);
}

TEST_F(ServiceTest, WatchRefusesWhatItCannotFollow) {
  EXPECT_EQ(Watch("job/x").second.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Watch("jobs/none").second.error_code(), grpc::StatusCode::NOT_FOUND);
  const std::string name = Create(Copies(1));
  Watch(name);
  EXPECT_EQ(Watch(name, 1000).second.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(ServiceTest, ManyWatchersAndOneThatLeaves) {
  CaseGate gate;
  cpu_->GateBy(gate);
  const std::string name = Create(Copies(100));
  {
    grpc::ClientContext context;
    v1::WatchJobRequest request;
    request.set_name(name);
    const auto reader = stub_->WatchJob(&context, request);
    v1::JobEvent event;
    ASSERT_TRUE(reader->Read(&event));
    context.TryCancel();
    while (reader->Read(&event)) {
    }
    EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  std::atomic<int> whole{0};
  std::vector<std::jthread> watchers;
  for (int n = 0; n < 8; ++n) {
    watchers.emplace_back([&] { whole += Watch(name).first.size() == 104 ? 1 : 0; });
  }
  gate.Let(100);
  watchers.clear();
  EXPECT_EQ(whole, 8);
}

// A watcher that opens a stream and reads nothing, over a connection of its own.
class Sleeper {
 public:
  Sleeper(int port, const std::string& job)
      : stub_(v1::ValidationService::NewStub(grpc::CreateCustomChannel(
            Cat("127.0.0.1:", port), grpc::InsecureChannelCredentials(), OwnConnection()))) {
    v1::WatchJobRequest request;
    request.set_name(job);
    reader_ = stub_->WatchJob(&context_, request);
    reader_->WaitForInitialMetadata();
  }

  // Reads what has come, to the end of the stream: the last number, and the status.
  std::pair<std::int64_t, grpc::Status> Wake() {
    std::int64_t last = 0;
    for (v1::JobEvent event; reader_->Read(&event);) last = std::max(last, event.sequence());
    return {last, reader_->Finish()};
  }

 private:
  static grpc::ChannelArguments OwnConnection() {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    // A fast connection's window would grow to megabytes, and so hold all that comes.
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    return arguments;
  }

  std::unique_ptr<v1::ValidationService::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::JobEvent>> reader_;
};

// Far more events than a connection holds for a client that does not read.
constexpr int kManyCases = 6000;

TEST_F(ServiceTest, WatchersThatSleepHoldUpNobody) {
  service_->SetWatchStall(absl::ZeroDuration());  // they sleep as long as they like
  CaseGate gate;
  cpu_->GateBy(gate);
  const std::string name = Create(Copies(kManyCases));
  std::vector<std::unique_ptr<Sleeper>> asleep;
  for (int n = 0; n < 20; ++n) asleep.push_back(std::make_unique<Sleeper>(port_, name));
  std::jthread let([&] { gate.Let(kManyCases); });
  const auto [events, status] = Watch(name);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(events.size(), kManyCases + 4u);
  // It is counted once its status is on its way.
  const absl::Time deadline = absl::Now() + absl::Seconds(120);
  while (metrics_.calls("WatchJob OK") == 0 && absl::Now() < deadline) std::this_thread::yield();
  EXPECT_EQ(metrics_.calls("WatchJob OK"), 1) << "the others have not ended";
  for (const auto& sleeper : asleep) {
    const auto [last, end] = sleeper->Wake();
    EXPECT_TRUE(end.ok()) << end.error_message();
    EXPECT_EQ(last, kManyCases + 4) << "and who wakes up finds everything";
  }
}

TEST_F(ServiceTest, AWatcherThatSleepsTooLongIsDroppedAndComesBackToWhereItWas) {
  service_->SetWatchStall(absl::Milliseconds(50));
  const std::string name = Create(Copies(kManyCases));
  const auto sleeper = std::make_unique<Sleeper>(port_, name);
  // One that reads may be slow for a while on a busy machine, and then resumes as well.
  std::int64_t seen = 0;
  for (grpc::Status status(grpc::StatusCode::UNAVAILABLE, ""); !status.ok();) {
    ASSERT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE) << status.error_message();
    const auto [events, end] = Watch(name, seen);
    if (!events.empty()) seen = events.back().sequence();
    status = end;
  }
  EXPECT_EQ(seen, kManyCases + 4);
  const absl::Time deadline = absl::Now() + absl::Seconds(120);
  while (metrics_.calls("WatchJob UNAVAILABLE") == 0 && absl::Now() < deadline) {
    std::this_thread::yield();
  }
  const auto [last, status] = sleeper->Wake();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE) << status.error_message();
  EXPECT_THAT(status.error_message(), HasSubstr("--watch-stall"));
  EXPECT_LT(last, kManyCases + 4);
  service_->SetWatchStall(absl::ZeroDuration());
  EXPECT_EQ(Watch(name, last).first.size(), static_cast<std::size_t>(kManyCases + 4 - last));
}

TEST_F(ServiceTest, AClientsLimitsHoldAndAreGivenBack) {
  limits_.Set({.waiting_jobs = 1, .cases_per_minute = 0, .watchers = 1, .all_watchers = 0});
  CaseGate gate;
  cpu_->GateBy(gate);
  const std::string running = Create(Copies(1));
  ASSERT_TRUE(gate.AwaitArrival());
  const std::string waiting = Create(Copies(1));
  v1::Job job;
  const grpc::Status refused = Call(&Stub::CreateJob, Copies(1), &job);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(LimitIn(refused), "client-max-waiting-jobs");
  EXPECT_EQ(metrics_.calls("limit client-max-waiting-jobs"), 1);

  grpc::ClientContext context;
  v1::WatchJobRequest request;
  request.set_name(running);
  const auto reader = stub_->WatchJob(&context, request);
  v1::JobEvent event;
  ASSERT_TRUE(reader->Read(&event));
  EXPECT_EQ(LimitIn(Watch(running).second), "client-max-watchers");
  context.TryCancel();
  while (reader->Read(&event)) {
  }
  reader->Finish();
  const absl::Time deadline = absl::Now() + absl::Seconds(120);
  while (metrics_.calls("WatchJob CANCELLED") == 0 && absl::Now() < deadline) {
    std::this_thread::yield();
  }
  limits_.Set({.waiting_jobs = 1});  // a stream that has ended may count for a moment longer
  gate.Let(2);
  EXPECT_TRUE(Watch(running).second.ok());
  EXPECT_TRUE(Watch(waiting).second.ok());
  gate.Let(1);
  Watch(Create(Copies(1)));
}

TEST_F(ServiceTest, AJobThatIsCancelledBeforeItBeginsGivesItsPlaceBack) {
  limits_.Set({.waiting_jobs = 1});
  CaseGate gate;
  cpu_->GateBy(gate);
  const std::string running = Create(Copies(1));
  ASSERT_TRUE(gate.AwaitArrival());
  const std::string waiting = Create(Copies(1));
  v1::CancelJobRequest cancel;
  cancel.set_name(waiting);
  v1::Job job;
  ASSERT_TRUE(Call(&Stub::CancelJob, cancel, &job).ok());
  Watch(waiting);
  const std::string again = Create(Copies(1));
  gate.Let(2);
  Watch(running);
  Watch(again);
}

TEST_F(ServiceTest, CasesAreCountedOnceForARequestThatComesTwice) {
  limits_.Set({.cases_per_minute = 2});
  v1::CreateJobRequest request = Copies(2);
  request.set_request_id("one");
  const std::string name = Create(request);
  EXPECT_EQ(Create(request), name) << "a retry makes no job, and costs nothing";
  v1::Job job;
  EXPECT_EQ(LimitIn(Call(&Stub::CreateJob, Copies(1), &job)), "client-cases-per-minute");
  Watch(name);
}

TEST_F(ServiceTest, DrainEndsOpenStreams) {
  CaseGate gate;
  cpu_->GateBy(gate);
  v1::CreateJobRequest request = Copies(2);
  request.mutable_spec()->set_resume(true);
  const std::string name = Create(request);
  ASSERT_TRUE(gate.AwaitArrival());
  grpc::Status status;
  std::jthread watcher([&] { status = Watch(name).second; });
  jobs_->Drain(absl::ZeroDuration());
  watcher.join();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE) << status.error_message();
  v1::Job job;
  EXPECT_EQ(Call(&Stub::CreateJob, Copies(1), &job).error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(ServiceTest, JobsAreListedByFilterAndPage) {
  for (int n = 0; n < 5; ++n) {
    v1::CreateJobRequest request = Copies(1);
    (*request.mutable_spec()->mutable_labels())["n"] = Cat(n % 2);
    Watch(Create(request));
  }
  v1::ListJobsRequest request;
  request.set_filter("label.n=0 AND verdict=PASSED");
  request.set_page_size(2);
  v1::ListJobsResponse page;
  ASSERT_TRUE(Call(&Stub::ListJobs, request, &page).ok());
  EXPECT_EQ(page.jobs_size(), 2);
  request.set_page_token(page.next_page_token());
  v1::ListJobsResponse last;
  ASSERT_TRUE(Call(&Stub::ListJobs, request, &last).ok());
  EXPECT_EQ(last.jobs_size(), 1);
  EXPECT_EQ(last.next_page_token(), "");
  request.set_filter("label.n=1");
  EXPECT_EQ(Call(&Stub::ListJobs, request, &last).error_code(), grpc::StatusCode::INVALID_ARGUMENT)
      << "the token is another listing's";
}

TEST_F(ServiceTest, InventoryOfTheDaemon) {
  v1::ListDevicesResponse devices;
  ASSERT_TRUE(Call(&Stub::ListDevices, v1::ListDevicesRequest(), &devices).ok());
  EXPECT_EQ(devices.devices_size(), 2);
  v1::ListKernelsResponse kernels;
  ASSERT_TRUE(Call(&Stub::ListKernels, v1::ListKernelsRequest(), &kernels).ok());
  ASSERT_EQ(kernels.kernels_size(), 3);
  EXPECT_EQ(kernels.kernels(2).backend(), "cuda") << "of which no kernel is known";
  EXPECT_EQ(kernels.kernels(2).op(), "*");
  EXPECT_FALSE(kernels.kernels(2).available());
  EXPECT_EQ(kernels.kernels(2).unavailable_reason(), "no driver");
  v1::ListKernelsRequest planted;
  planted.set_show_planted(true);
  ASSERT_TRUE(Call(&Stub::ListKernels, planted, &kernels).ok());
  EXPECT_EQ(kernels.kernels_size(), 4);
  v1::ListSuitesResponse suites;
  ASSERT_TRUE(Call(&Stub::ListSuites, v1::ListSuitesRequest(), &suites).ok());
  ASSERT_EQ(suites.suites_size(), 2);
  EXPECT_THAT(suites.suites(0).error(), HasSubstr("broken.toml"));
  EXPECT_EQ(suites.suites(1).title(), "One");
  EXPECT_EQ(suites.suites(1).case_count(), 2) << "two providers";
  v1::ServerInfo info;
  ASSERT_TRUE(Call(&Stub::GetServerInfo, v1::GetServerInfoRequest(), &info).ok());
  EXPECT_EQ(info.version(), "1.2.3");
  EXPECT_EQ(info.max_cases_per_job(), 10'000);
  EXPECT_EQ(info.default_case_deadline().seconds(), 60);
  EXPECT_FALSE(info.draining());
  v1::ReleaseDeviceRequest release;
  release.set_name("devices/cpu:0");
  v1::Device device;
  EXPECT_TRUE(Call(&Stub::ReleaseDevice, release, &device).ok());
  EXPECT_EQ(cpu_->released, 1);
  release.set_keep_quarantine(true);
  EXPECT_TRUE(Call(&Stub::ReleaseDevice, release, &device).ok());
  EXPECT_EQ(device.name(), "devices/cpu:0");
  EXPECT_EQ(cpu_->given_back, 1);
  EXPECT_EQ(cpu_->released, 1) << "which ends a quarantine";
  release.set_name("devices/cpu:9");
  EXPECT_EQ(Call(&Stub::ReleaseDevice, release, &device).error_code(), grpc::StatusCode::NOT_FOUND);
}

// A finished job's times, as each case's fake launch takes 1 ms.
TEST_F(ServiceTest, BaselinesFromCreateToDelete) {
  cpu_->run = [this](const v1::CaseSpec& spec, const CancelToken&) {
    v1::CaseResult result = cpu_->Passed(spec);
    result.mutable_bench()->set_median_seconds(1e-3);
    result.mutable_bench()->set_samples(10);
    return result;
  };
  v1::CreateJobRequest copies = Copies(2);
  copies.mutable_spec()->set_mode(v1::MODE_BENCHMARK);
  const std::string job = Create(copies);
  Watch(job);
  v1::CreateBaselineRequest create;
  v1::Baseline baseline;
  EXPECT_EQ(Call(&Stub::CreateBaseline, create, &baseline).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  create.mutable_baseline()->set_job("jobs/none");
  EXPECT_EQ(Call(&Stub::CreateBaseline, create, &baseline).error_code(),
            grpc::StatusCode::NOT_FOUND);
  create.mutable_baseline()->set_job(job);
  create.set_baseline_id("../x");
  EXPECT_EQ(Call(&Stub::CreateBaseline, create, &baseline).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  create.set_baseline_id("Nightly_1.a-b");
  ASSERT_TRUE(Call(&Stub::CreateBaseline, create, &baseline).ok());
  EXPECT_EQ(baseline.name(), "baselines/Nightly_1.a-b");
  EXPECT_EQ(baseline.case_count(), 2);
  EXPECT_EQ(Call(&Stub::CreateBaseline, create, &baseline).error_code(),
            grpc::StatusCode::ALREADY_EXISTS);

  v1::ListBaselinesResponse list;
  ASSERT_TRUE(Call(&Stub::ListBaselines, v1::ListBaselinesRequest(), &list).ok());
  ASSERT_EQ(list.baselines_size(), 1);
  EXPECT_EQ(list.baselines(0).results_size(), 0);
  EXPECT_EQ(list.next_page_token(), "");
  v1::ListBaselinesRequest bad_page;
  bad_page.set_page_token("x");
  EXPECT_EQ(Call(&Stub::ListBaselines, bad_page, &list).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);

  v1::GetBaselineRequest get;
  get.set_name(baseline.name());
  ASSERT_TRUE(Call(&Stub::GetBaseline, get, &baseline).ok());
  EXPECT_EQ(baseline.results_size(), 2);

  v1::CompareBaselinesRequest compare;
  v1::CompareBaselinesResponse changes;
  EXPECT_EQ(Call(&Stub::CompareBaselines, compare, &changes).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  compare.mutable_baseline()->set_name(baseline.name());
  compare.mutable_current()->set_name(job);
  ASSERT_TRUE(Call(&Stub::CompareBaselines, compare, &changes).ok());
  ASSERT_EQ(changes.changes_size(), 2);
  EXPECT_DOUBLE_EQ(changes.changes(0).ratio(), 1);
  *compare.mutable_current()->mutable_inline_() = baseline;
  compare.mutable_current()->mutable_inline_()->set_model("another");
  const grpc::Status other = Call(&Stub::CompareBaselines, compare, &changes);
  EXPECT_EQ(other.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(other.error_message(), HasSubstr("device model not known there, \"another\" here"));

  v1::DeleteBaselineRequest erase;
  erase.set_name(baseline.name());
  google::protobuf::Empty nothing;
  EXPECT_TRUE(Call(&Stub::DeleteBaseline, erase, &nothing).ok());
  EXPECT_EQ(Call(&Stub::DeleteBaseline, erase, &nothing).error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(Call(&Stub::GetBaseline, get, &baseline).error_code(), grpc::StatusCode::NOT_FOUND);
}

}  // namespace
}  // namespace assay::server
