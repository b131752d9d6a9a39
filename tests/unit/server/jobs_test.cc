// Jobs from their creation to their end: order, cancellation, deadlines, suites, verdicts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "google/protobuf/util/time_util.h"
#include "tests/unit/server/jobs_fixture.h"

namespace assay::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(JobsTest, JobRunsFromCreationToItsLastEvent) {
  Start();
  const std::string name = Create(Copies(3));
  EventReader reader(*manager_, name);
  const std::vector<v1::JobEvent> events = reader.Rest();
  ASSERT_TRUE(reader.status().ok()) << reader.status();
  ASSERT_EQ(events.size(), 7u);
  for (std::size_t n = 0; n < events.size(); ++n) {
    EXPECT_EQ(events[n].sequence(), static_cast<std::int64_t>(n) + 1);
    EXPECT_EQ(events[n].job(), name);
    EXPECT_TRUE(events[n].has_create_time());
  }
  EXPECT_EQ(events[0].state_change().to(), v1::JOB_STATE_RUNNING);
  EXPECT_EQ(events[1].started().total(), 3);
  EXPECT_EQ(events[4].case_result().index(), 2);
  EXPECT_EQ(events[5].state_change().to(), v1::JOB_STATE_FINISHED);
  EXPECT_EQ(events[6].finished().job().verdict(), v1::VERDICT_PASSED);
  EXPECT_EQ(events[6].finished().job().counts().passed(), 3);
  const v1::Job job = *manager_->Get(name);
  EXPECT_EQ(job.state(), v1::JOB_STATE_FINISHED);
  EXPECT_TRUE(job.has_start_time() && job.has_end_time());
  EXPECT_EQ(manager_->QueueDepth("cpu:0"), 0);
}

TEST_F(JobsTest, ExecutorGetsEveryDefault) {
  Start();
  v1::JobSpec spec = Copies(1, "");
  spec.mutable_cases()->mutable_cases(0)->clear_name();
  spec.set_seed(7);
  spec.mutable_case_deadline()->set_seconds(5);
  EXPECT_EQ(Finish(Create(spec)).counts().total(), 2) << "builtin and other; not absent or planted";
  ASSERT_EQ(cpu_->executed().size(), 2u);
  const v1::CaseSpec run = cpu_->executed()[1];
  EXPECT_EQ(run.provider(), "other");
  EXPECT_EQ(run.seed(), 7u);
  EXPECT_EQ(run.mode(), v1::MODE_VALIDATE);
  EXPECT_EQ(run.repeats(), 1);
  EXPECT_EQ(run.criterion(), v1::CRITERION_BOUND);
  EXPECT_EQ(run.out_dtype(), v1::DTYPE_FP32);
  EXPECT_EQ(run.deadline().seconds(), 5);
  EXPECT_THAT(run.name(), HasSubstr("other"));
  EXPECT_EQ(cpu_->last_limit(), absl::Seconds(5));
}

// Kernels that are wrong on purpose run beside the others where a filter names them.
TEST_F(JobsTest, AFilterThatNamesAPlantedKernelRunsIt) {
  Start();
  v1::JobSpec spec = Copies(1, "");
  spec.mutable_filter()->add_providers("builtin");
  spec.mutable_filter()->add_providers("planted/wrong-tile");
  EXPECT_EQ(Finish(Create(spec)).counts().total(), 2);
  ASSERT_EQ(cpu_->executed().size(), 2u);
  EXPECT_EQ(cpu_->executed()[0].provider(), "builtin");
  EXPECT_EQ(cpu_->executed()[1].provider(), "planted/wrong-tile");
}

TEST_F(JobsTest, HigherPriorityFirstThenTheOlder) {
  CaseGate gate;
  cpu_->GateBy(gate);
  Start();
  const std::string running = Create(Copies(1));
  ASSERT_TRUE(gate.AwaitArrival());
  std::vector<std::string> names;
  for (const int priority : {0, 5, 0, 100, -100, 5}) {
    v1::JobSpec spec = Copies(1);
    spec.mutable_cases()->mutable_cases(0)->set_name(Cat("p", priority, " ", names.size()));
    spec.set_priority(priority);
    names.push_back(Create(spec));
  }
  EXPECT_EQ(manager_->QueueDepth("cpu:0"), 7);
  gate.Let(7);
  for (const std::string& name : names) Finish(name);
  std::vector<std::string> order;
  for (const v1::CaseSpec& spec : cpu_->executed()) order.push_back(spec.name());
  EXPECT_THAT(order, ElementsAre("copy 0", "p100 3", "p5 1", "p5 5", "p0 0", "p0 2", "p-100 4"));
}

TEST_F(JobsTest, CancelEndsTheRunningCaseAndSkipsTheRest) {
  CaseGate gate;
  cpu_->GateBy(gate);
  Start();
  const std::string name = Create(Copies(5));
  const std::string waiting = Create(Copies(2));
  gate.Let(2);
  ASSERT_TRUE(gate.AwaitArrival());
  ASSERT_TRUE(manager_->Cancel(waiting, "a test cancelled it").ok());
  const v1::Job never_ran = Finish(waiting);
  EXPECT_EQ(never_ran.state(), v1::JOB_STATE_CANCELLED) << "without waiting for its turn";
  EXPECT_EQ(never_ran.counts().skipped(), 2);
  EXPECT_FALSE(never_ran.has_start_time());
  ASSERT_TRUE(manager_->Cancel(name, "a test cancelled it").ok());
  const v1::Job job = Finish(name);
  EXPECT_EQ(job.state(), v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(job.verdict(), v1::VERDICT_INCONCLUSIVE);
  EXPECT_EQ(job.counts().passed(), 2);
  EXPECT_EQ(job.counts().skipped(), 3);
  EXPECT_EQ(job.findings(0).reason(), "cancelled");
  const auto results = manager_->Results(name, 0, 10);
  ASSERT_EQ(results->size(), 5u);
  EXPECT_EQ((*results)[2].findings(0).reason(), "cancelled");
  const auto again = manager_->Cancel(name, "a test cancelled it");
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->last_sequence(), job.last_sequence()) << "ending an ended job changes nothing";
}

TEST_F(JobsTest, JobDeadlineSkipsTheRestWhetherRunningOrWaiting) {
  CaseGate gate;
  cpu_->GateBy(gate);
  Start();
  v1::JobSpec spec = Copies(3);
  // So long that its first case begins before: how long a store takes is the disk's to say.
  std::string running;
  for (int ms = 50; running.empty(); ms *= 4) {
    ASSERT_LE(ms, 60'000) << "no case began in time";
    *spec.mutable_deadline() = google::protobuf::util::TimeUtil::MillisecondsToDuration(ms);
    const std::string name = Create(spec);
    while (!gate.Arrived() && manager_->Get(name)->state() != v1::JOB_STATE_FINISHED) {
      std::this_thread::yield();
    }
    if (gate.Arrived()) running = name;
  }
  const std::string waiting = Create(spec);
  for (const std::string& name : {running, waiting}) {
    const v1::Job job = Finish(name);
    EXPECT_EQ(job.state(), v1::JOB_STATE_FINISHED);
    EXPECT_EQ(job.verdict(), v1::VERDICT_INCONCLUSIVE);
    EXPECT_EQ(job.counts().skipped(), 3);
    EXPECT_EQ(job.findings(0).reason(), "deadline");
    EXPECT_EQ((*manager_->Results(name, 0, 1))[0].findings(0).reason(), "deadline");
  }
}

TEST_F(JobsTest, SameRequestIsTheSameJob) {
  Start();
  const std::string name = Create(Copies(2), "nightly-1");
  EXPECT_EQ(Create(Copies(2), "nightly-1"), name);
  Finish(name);
  EXPECT_EQ(Create(Copies(2), "nightly-1"), name);
  EXPECT_EQ(manager_->List({})->jobs.size(), 1u);
  const auto other = manager_->Create(Copies(3), "nightly-1");
  EXPECT_THAT(Violations(other.status())["request_id"], HasSubstr(name));
  Restart();
  EXPECT_EQ(Create(Copies(2), "nightly-1"), name) << "after a restart, too";
  EXPECT_TRUE(Violations(manager_->Create(Copies(1), std::string(129, 'x')).status())
                  .contains("request_id"));
  EXPECT_THAT(Violations(manager_->Create(Copies(1), "a\x1b[2J").status())["request_id"],
              HasSubstr("no control characters"));
}

TEST_F(JobsTest, OneRequestSentByManyAtOnceMakesOneJob) {
  Start();
  std::vector<std::string> names(8);
  {
    std::vector<std::jthread> callers;
    for (std::string& name : names) {
      callers.emplace_back([&] { name = Create(Copies(1), "once"); });
    }
  }
  for (const std::string& name : names) EXPECT_EQ(name, names[0]);
  EXPECT_EQ(manager_->List({})->jobs.size(), 1u);
  EXPECT_EQ(Finish(names[0]).verdict(), v1::VERDICT_PASSED);
}

TEST_F(JobsTest, SuiteRunsAndItsMissingRequirementFailsTheJob) {
  cpu_->run = [this](const v1::CaseSpec& spec, const CancelToken&) {
    return spec.provider() == "fast"
               ? cpu_->Without(spec, v1::VERDICT_UNSUPPORTED, v1::REASON_UNSUPPORTED)
               : cpu_->Passed(spec);
  };
  Start();
  v1::JobSpec spec;
  spec.set_suite("small");
  const v1::Job job = Finish(Create(spec));
  EXPECT_EQ(job.suite(), "small");
  EXPECT_EQ(job.counts().passed(), 2);
  EXPECT_EQ(job.counts().unsupported(), 1) << "required, so run although not available";
  EXPECT_EQ(job.verdict(), v1::VERDICT_FAILED);
  EXPECT_THAT(job.findings(0).message(), HasSubstr("copy fast fp32"));
  spec.mutable_filter()->add_providers("builtin");
  EXPECT_EQ(Finish(Create(spec)).verdict(), v1::VERDICT_PASSED) << "requirements filtered alike";
  spec.mutable_filter()->set_name("no such");
  EXPECT_TRUE(Violations(manager_->Create(spec, "").status()).contains("spec.filter"));
  spec.clear_filter();
  spec.set_suite_text("name = 3");
  EXPECT_TRUE(Violations(manager_->Create(spec, "").status()).contains("spec.suite_text"));
}

TEST_F(JobsTest, JobOnSeveralDevicesRunsItsCasesOnEach) {
  FakeExecutor& second = AddDevice("cpu:1");
  Start();
  v1::JobSpec spec = Copies(3);
  spec.set_device("cpu:*");
  const v1::Job job = Finish(Create(spec));
  EXPECT_EQ(job.counts().passed(), 6);
  EXPECT_THAT(job.devices(), ElementsAre("cpu:0", "cpu:1"));
  EXPECT_EQ(cpu_->executed().size(), 3u);
  EXPECT_EQ(second.executed().size(), 3u);
  const auto results = manager_->Results(job.name(), 0, 10);
  ASSERT_EQ(results->size(), 6u);
  EXPECT_EQ((*results)[3].device(), "cpu:1");
  EXPECT_EQ((*results)[3].index(), 3);
}

TEST_F(JobsTest, VerdictOfAJob) {
  std::map<std::string, v1::Verdict> says = {{"copy 0", v1::VERDICT_PASSED}};
  cpu_->run = [&](const v1::CaseSpec& spec, const CancelToken&) {
    v1::CaseResult result = cpu_->Passed(spec);
    result.set_verdict(says[spec.name()]);
    return result;
  };
  Start();
  const auto verdict = [&](v1::Verdict second) {
    says["copy 1"] = second;
    return Finish(Create(Copies(2))).verdict();
  };
  EXPECT_EQ(verdict(v1::VERDICT_PASSED), v1::VERDICT_PASSED);
  EXPECT_EQ(verdict(v1::VERDICT_UNSUPPORTED), v1::VERDICT_PASSED);
  EXPECT_EQ(verdict(v1::VERDICT_SKIPPED), v1::VERDICT_PASSED);
  EXPECT_EQ(verdict(v1::VERDICT_INCONCLUSIVE), v1::VERDICT_INCONCLUSIVE);
  EXPECT_EQ(verdict(v1::VERDICT_FAILED), v1::VERDICT_FAILED);
  EXPECT_EQ(verdict(v1::VERDICT_ERROR), v1::VERDICT_FAILED);
  says["copy 0"] = v1::VERDICT_UNSUPPORTED;
  EXPECT_EQ(verdict(v1::VERDICT_UNSUPPORTED), v1::VERDICT_INCONCLUSIVE) << "nothing ran";
}

TEST_F(JobsTest, OnlyEndedJobsAreDeleted) {
  CaseGate gate;
  cpu_->GateBy(gate);
  Start();
  const std::string name = Create(Copies(1));
  ASSERT_TRUE(gate.AwaitArrival());
  EXPECT_TRUE(absl::IsFailedPrecondition(manager_->Delete(name)));
  gate.Let(1);
  Finish(name);
  EXPECT_TRUE(manager_->Delete(name).ok());
  EXPECT_TRUE(absl::IsNotFound(manager_->Get(name).status()));
}

// A profile stands beside a time, wherever there is one, and changes nothing else.
TEST_F(JobsTest, OnlyTimedCasesThatHaveATimeAreProfiled) {
  cpu_->run = [this](const v1::CaseSpec& spec, const CancelToken&) {
    v1::CaseResult result = spec.name() == "copy 1" ? cpu_->Without(spec, v1::VERDICT_UNSUPPORTED,
                                                                    v1::REASON_UNSUPPORTED)
                                                    : cpu_->Passed(spec);
    if (spec.name() == "copy 2") result.set_verdict(v1::VERDICT_FAILED);
    if (spec.name() != "copy 1") result.mutable_bench()->set_median_seconds(0.5);
    return result;
  };
  std::vector<std::string> profiled;
  cpu_->profile = [&](Profiler profiler, const v1::CaseSpec& spec) {
    EXPECT_EQ(profiler, Profiler::kPerf);
    profiled.push_back(spec.name());
    Profile profile{.counters = {{"cycles", 12}}, .note = "counter instructions not supported"};
    if (spec.name() == "copy 2") profile.counters.clear();
    return profile;
  };
  Start();
  v1::JobSpec spec = Copies(4);
  for (v1::CaseSpec& c : *spec.mutable_cases()->mutable_cases()) c.set_mode(v1::MODE_BOTH);
  spec.mutable_cases()->mutable_cases(3)->set_mode(v1::MODE_VALIDATE);
  spec.set_profiler("perf");
  const std::string name = Create(spec);
  Finish(name);
  const std::vector<v1::CaseResult> results = manager_->Results(name, 0, 10).value();
  ASSERT_EQ(results.size(), 4u);
  EXPECT_EQ(profiled, (std::vector<std::string>{"copy 0", "copy 2"}));
  EXPECT_EQ(results[0].bench().profile().at("cycles"), 12);
  EXPECT_EQ(results[0].bench().profile_note(), "counter instructions not supported");
  EXPECT_EQ(results[0].verdict(), v1::VERDICT_PASSED);
  EXPECT_EQ(results[1].verdict(), v1::VERDICT_UNSUPPORTED);
  EXPECT_FALSE(results[1].has_bench());
  EXPECT_TRUE(results[2].bench().profile().empty());
  EXPECT_EQ(results[2].verdict(), v1::VERDICT_FAILED);
  EXPECT_TRUE(results[3].bench().profile().empty());
}

// What may run early is offered, and what has run early is taken for the case's own result.
TEST_F(JobsTest, CasesThatRanBesideAnotherAreNotRunAgain) {
  std::vector<std::size_t> offered;
  cpu_->lead = [&](int index, CasesAhead& ahead) {
    offered.push_back(ahead.next.size());
    if (index != 0) return;
    for (const int place : {1, 3}) {  // of the second nothing is known
      v1::CaseResult result = cpu_->Passed(*ahead.next[static_cast<std::size_t>(place) - 1]);
      result.set_implementation("beside");
      ahead.results[index + place] = std::move(result);
    }
  };
  Start();
  v1::JobSpec spec = Copies(14);
  spec.mutable_cases()->mutable_cases(11)->set_mode(v1::MODE_BOTH);
  const std::string name = Create(spec);
  EXPECT_EQ(Finish(name).counts().passed(), 14);
  const std::vector<v1::CaseResult> results = manager_->Results(name, 0, 20).value();
  ASSERT_EQ(results.size(), 14u);
  for (std::size_t i = 0; i < results.size(); ++i) {
    EXPECT_EQ(results[i].index(), static_cast<int>(i));
    EXPECT_EQ(results[i].name(), "copy " + std::to_string(i));
    EXPECT_EQ(results[i].implementation() == "beside", i == 1 || i == 3) << i;
  }
  EXPECT_EQ(cpu_->executed().size(), 12u);
  // Of 0, 2, 4 and so on: at most seven, none behind what has run already, and none from the
  // timed case, 11, on.
  EXPECT_EQ(offered, (std::vector<std::size_t>{7, 0, 6, 5, 4, 3, 2, 1, 0, 0, 1, 0}));
}

TEST_F(JobsTest, WhatHasRunBeforeACancellationIsRecorded) {
  cpu_->lead = [&](int index, CasesAhead& ahead) {
    if (index != 0) return;
    for (const int place : {1, 2}) {
      ahead.results[index + place] = cpu_->Passed(*ahead.next[static_cast<std::size_t>(place) - 1]);
    }
  };
  std::string name;
  std::mutex named;
  cpu_->run = [&](const v1::CaseSpec& spec, const CancelToken&) {
    const std::lock_guard guard(named);
    EXPECT_TRUE(manager_->Cancel(name, "a test cancelled it").ok());
    return cpu_->Passed(spec);
  };
  Start();
  {
    const std::lock_guard guard(named);
    name = Create(Copies(5));
  }
  const v1::Job job = Finish(name);
  EXPECT_EQ(job.counts().passed(), 3);
  EXPECT_EQ(job.counts().skipped(), 2);
}

// A crash in a later case's turn waits for its case. A cancellation does not make it a SKIPPED.
TEST_F(JobsTest, WhatWasFoundAheadOutlivesACancellation) {
  cpu_->lead = [&](int index, CasesAhead& ahead) {
    if (index != 0) return;
    ahead.EndedIn(0, 3, cpu_->Without(*ahead.next[2], v1::VERDICT_ERROR, v1::REASON_CRASH));
  };
  std::string name;
  std::mutex named;
  cpu_->run = [&](const v1::CaseSpec& spec, const CancelToken&) {
    const std::lock_guard guard(named);
    EXPECT_TRUE(manager_->Cancel(name, "a test cancelled it").ok());
    return cpu_->Passed(spec);
  };
  Start();
  {
    const std::lock_guard guard(named);
    name = Create(Copies(5));
  }
  const v1::Job job = Finish(name);
  EXPECT_EQ(job.counts().passed(), 1);
  EXPECT_EQ(job.counts().errors(), 1);
  EXPECT_EQ(job.counts().skipped(), 3);
  EXPECT_EQ(manager_->Results(name, 3, 1).value().at(0).findings(0).reason_code(),
            v1::REASON_CRASH);
}

// In turn, a long case would keep back the results of the cases before it.
TEST_F(JobsTest, OnlySmallCasesAreOfferedToRunInTurn) {
  std::vector<std::size_t> offered;
  cpu_->in_turn = true;
  cpu_->lead = [&](int, CasesAhead& ahead) { offered.push_back(ahead.next.size()); };
  Start();
  v1::JobSpec spec = Copies(5);
  spec.mutable_cases()->mutable_cases(3)->mutable_copy()->set_count(1 << 24);
  EXPECT_EQ(Finish(Create(spec)).counts().passed(), 5);
  // None for the first: nothing is known of how quick the device is.
  EXPECT_EQ(offered, (std::vector<std::size_t>{0, 1, 0, 1, 0}));
  offered.clear();
  spec.mutable_case_deadline()->set_nanos(99'000'000);
  EXPECT_EQ(Finish(Create(spec)).counts().passed(), 5);
  EXPECT_EQ(offered, (std::vector<std::size_t>{0, 0, 0, 0, 0}));
}

}  // namespace
}  // namespace assay::server
