// What a launch of a user's kernel costs beside the kernel's work, with a kernel that does nothing.
//
//   runner_bench [--launches N] [--json]
//
// Prints lines `name ours peer ratio`: our seconds, the goal, and the goal over ours.
//   abi_adds_to_a_launch   a launch as the runner does it, in this process, beyond a direct call of
//                          the same function; the median of rounds of 1,000 launches
//   abi_load_and_launch    the library opened (the process has it already), the call described, and
//                          one launch; a case describes the call once
//   handshake              judge to runner and back, for an empty launch of a runner that goes on
//   handshake_frozen       the same of one that was stopped before, as for a launch that is judged,
//                          from the signal on that lets it go on
//   handshake_until_go     until that signal; the judge takes off this time as it was
//   …_error                by how much the judge's estimate of a handshake, which it takes off, is
//                          wrong
// Where judge and runner share one processor (`taskset -c 0`), a request waits until the other side
// yields.
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "kernels/providers/provider.h"
#include "kernels/providers/user/describe_problem.h"
#include "kernels/providers/user/runner_process.h"
#include "kernels/runner/library_kernel.h"

namespace {

using Clock = std::chrono::steady_clock;
constexpr double kAbiGoal = 1e-6;         // [seconds]
constexpr double kHandshakeGoal = 10e-6;  // [seconds]
bool json = false;

[[noreturn]] void Fail(const std::string& why) {
  std::fprintf(stderr, "runner_bench: %s\n", why.c_str());
  std::exit(1);
}

double Since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double Quantile(std::vector<double> seconds, double q) {
  std::sort(seconds.begin(), seconds.end());
  const auto at = static_cast<std::size_t>(q * static_cast<double>(seconds.size()));
  return seconds[std::min(at, seconds.size() - 1)];
}

void Print(const std::string& name, double ours, double goal) {
  std::printf(json ? "{\"name\":\"%s\",\"ours\":%.6g,\"peer\":%.6g,\"ratio\":%.4g}\n"
                   : "%-32s %12.6g %12.6g %8.3f\n",
              name.c_str(), ours, goal, goal / std::max(ours, 1e-12));
}

void PrintBoth(const std::string& name, const std::vector<double>& seconds) {
  Print(name + "_p50_s", Quantile(seconds, 0.5), kHandshakeGoal);
  Print(name + "_p99_s", Quantile(seconds, 0.99), kHandshakeGoal);
}

std::unique_ptr<assay::Description> SmallProblem() {
  assay::Case c;
  c.problem = assay::GemmProblem{.m = 8, .n = 8, .k = 8};
  c.dtype = c.out_dtype = assay::DType::kF32;
  c.provider = "user/0123456789ab";
  c.kernel_file = EMPTY_KERNEL;
  auto plan = assay::FindOp("gemm")->MakePlan(c);
  if (!plan.ok()) Fail(plan.status().ToString());
  auto description = assay::DescribeProblem(c, *plan);
  if (!description.ok()) Fail(description.status().ToString());
  (*description)->thread_count = 1;
  (*description)->memory_bytes = std::uint64_t{1} << 30;
  return *std::move(description);
}

// The runner's own code in this process, where a clock around it sees nothing else.
void MeasureAbi(const assay::Description& description, int rounds) {
  constexpr int kAtOnce = 1000;
  std::vector<char> memory(description.total_bytes - assay::kOperandsOffset);
  assay::RunnerAnswer answer{};
  assay::LibraryKernel kernel(description, memory.data());
  if (kernel.Load(answer) != assay::LoadStatus::kOk) Fail(answer.message);
  void* const library = dlopen(EMPTY_KERNEL, RTLD_NOW);
  using Launch = int (*)(void*, const assay_launch*);
  const auto direct = reinterpret_cast<Launch>(dlsym(library, "empty_launch"));
  if (direct == nullptr) Fail("the library has no empty_launch");
  const assay_launch launch{};
  std::vector<double> adds, anew;
  for (int round = 0; round < rounds; ++round) {
    int failed = 0;
    Clock::time_point begin = Clock::now();
    for (int i = 0; i < kAtOnce; ++i) failed += kernel.Launch(answer);
    const double ours = Since(begin);
    begin = Clock::now();
    for (int i = 0; i < kAtOnce; ++i) failed += direct(nullptr, &launch);
    adds.push_back((ours - Since(begin)) / kAtOnce);
    begin = Clock::now();
    assay::LibraryKernel other(description, memory.data());
    if (other.Load(answer) != assay::LoadStatus::kOk) Fail(answer.message);
    failed += other.Launch(answer);
    anew.push_back(Since(begin));
    if (failed != 0) Fail("a launch failed");
  }
  Print("abi_adds_to_a_launch_s", Quantile(adds, 0.5), kAbiGoal);
  Print("abi_load_and_launch_s", Quantile(anew, 0.5), kAbiGoal);
}

struct Handshakes {
  std::vector<double> until_go;
  std::vector<double> rest;   // from then on
  std::vector<double> error;  // by how much the judge's estimate of the rest is wrong
};

Handshakes Measure(assay::RunnerProcess& runner, bool frozen, int launches) {
  Handshakes found;
  for (int i = 0; i < launches; ++i) {
    if (frozen && !runner.Freeze().ok()) Fail("the runner cannot be stopped");
    runner.TakeOverhead();
    const Clock::time_point begin = Clock::now();
    const absl::StatusOr<int> done = runner.Ask(assay::RunnerTask::kLaunch);
    const double seconds = Since(begin);
    if (!done.ok() || *done != 0) Fail("a launch failed");
    const assay::RunnerProcess::Overhead overhead = runner.TakeOverhead();
    found.until_go.push_back(overhead.known);
    found.rest.push_back(seconds - overhead.known);
    found.error.push_back(std::abs(found.rest.back() - overhead.estimated));
  }
  return found;
}

}  // namespace

int main(int argc, char** argv) {
  int launches = 20'000;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--json") == 0) {
      json = true;
    } else if (std::strcmp(argv[i], "--launches") == 0 && i + 1 < argc) {
      launches = std::atoi(argv[++i]);
    } else {
      std::fprintf(stderr, "usage: runner_bench [--launches N] [--json]\n");
      return 2;
    }
  }
  launches = std::max(launches, 100);
  const std::unique_ptr<assay::Description> description = SmallProblem();
  MeasureAbi(*description, launches / 100);
  assay::SetRunnerPath(RUNNER_PATH);
  auto runner = assay::RunnerProcess::Start(*description);
  if (!runner.ok()) Fail(runner.status().ToString());
  const absl::StatusOr<int> loaded = (*runner)->Ask(assay::RunnerTask::kLoad);
  if (!loaded.ok() || *loaded != 0) Fail((*runner)->Answer().message);
  for (const bool frozen : {false, true}) {
    const Handshakes found = Measure(**runner, frozen, launches);
    const std::string name = frozen ? "handshake_frozen" : "handshake";
    PrintBoth(name, found.rest);
    PrintBoth(name + "_error", found.error);
    if (frozen) PrintBoth("handshake_until_go", found.until_go);
  }
  return 0;
}
