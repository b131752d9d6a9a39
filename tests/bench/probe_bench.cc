// What exact cases and identities cost: the cases of a suite with the default checks
// against the same cases judged on their random data alone, one after the other.
//
//   probe_bench [--suite FILE] [--json] [--op OP] [--name PART] [--cases] [--cpu-time]
//
// Prints `name ours peer ratio` lines: seconds with the default checks, seconds on the
// data alone, and their ratio (less is better), for each operator and for all; --cases
// prints every case. --cpu-time counts processor time: with OMP_NUM_THREADS=1, the cost
// on a machine that others use.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/suites/suite.h"
#include "kernels/text/cat.h"
#include "kernels/validate/runner.h"

namespace assay {
namespace {

struct Cost {
  double with = 0, alone = 0;  // [seconds]
  void Add(const Cost& other) {
    with += other.with;
    alone += other.alone;
  }
};

struct Options {
  std::string suite = ASSAY_SUITES_DIR "/kernel-lab.toml";
  std::string op;
  bool json = false;
  std::string name;
  bool cases = false;
  bool cpu_time = false;
};

void Print(const Options& options, const std::string& name, const Cost& cost) {
  const double ratio = cost.alone > 0 ? cost.with / cost.alone : 0;
  if (options.json) {
    std::printf("{\"name\": \"%s\", \"ours\": %.6f, \"peer\": %.6f, \"ratio\": %.3f}\n",
                name.c_str(), cost.with, cost.alone, ratio);
  } else {
    std::printf("%-60s %10.4f %10.4f %7.3f\n", name.c_str(), cost.with, cost.alone, ratio);
  }
}

double Now(bool cpu_time) {
  if (cpu_time) return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int Main(const Options& options) {
  std::ifstream file(options.suite);
  std::ostringstream text;
  text << file.rdbuf();
  const absl::StatusOr<Suite> suite = ParseSuite(text.str(), options.suite, "cpu");
  if (!suite.ok()) {
    std::fprintf(stderr, "%s\n", std::string(suite.status().message()).c_str());
    return 2;
  }
  Registry registry;
  RegisterAll(registry);
  const std::unique_ptr<Device> device = MakeCpuDevice(0, ArenaOptions{});
  CaseRunner runner(*device, registry, nullptr);
  PhaseObserver observer;
  std::map<std::string, Cost> ops;
  Cost all;
  int failed = 0;
  for (const Case& base : suite->cases) {
    const std::string op(OpName(base.problem));
    if (!options.op.empty() && op != options.op) continue;
    for (const KernelEntry& entry : registry.entries()) {
      if (entry.op != op || entry.provider.starts_with(kPlantedPrefix)) continue;
      if (!entry.unavailable_reason.empty()) continue;
      Case c = base;
      c.provider = std::string(entry.provider);
      c.seed = 1;
      c.mode = Mode::kValidate;
      if (DefaultName(c).find(options.name) == std::string::npos) continue;
      Cost cost;
      bool ran = true;
      const auto timed = [&](bool probes) {
        c.probes = probes;
        const double begin = Now(options.cpu_time);
        const CaseOutcome outcome = runner.Run(c, observer);
        const double seconds = Now(options.cpu_time) - begin;
        ran = outcome.verdict != Verdict::kUnsupported;
        failed += ran && outcome.verdict != Verdict::kPassed ? 1 : 0;
        return seconds;
      };
      timed(true);  // code generation, pages
      if (!ran) continue;
      // The less disturbed of two each, in turn.
      cost.alone = timed(false);
      cost.with = timed(true);
      cost.alone = std::min(cost.alone, timed(false));
      cost.with = std::min(cost.with, timed(true));
      if (options.cases) Print(options, DefaultName(c), cost);
      ops[op].Add(cost);
      all.Add(cost);
    }
  }
  for (const auto& [op, cost] : ops) Print(options, "probes_" + op, cost);
  Print(options, "probes_all", all);
  if (failed > 0) std::fprintf(stderr, "%d runs did not pass\n", failed);
  return failed > 0 ? 1 : 0;
}

}  // namespace
}  // namespace assay

int main(int argc, char** argv) {
  assay::Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const bool more = i + 1 < argc;
    if (argument == "--json") {
      options.json = true;
    } else if (argument == "--cases") {
      options.cases = true;
    } else if (argument == "--cpu-time") {
      options.cpu_time = true;
    } else if (argument == "--name" && more) {
      options.name = argv[++i];
    } else if (argument == "--suite" && more) {
      options.suite = argv[++i];
    } else if (argument == "--op" && more) {
      options.op = argv[++i];
    } else {
      std::fprintf(stderr,
                   "probe_bench [--suite FILE] [--op OP] [--name PART] [--json] [--cases] "
                   "[--cpu-time]\n");
      return 2;
    }
  }
  return assay::Main(options);
}
