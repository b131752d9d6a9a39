// The golden digests of suites: runs the exact cases of every case on every provider,
// demands that each is right and that all providers' digests are one, and holds them
// against the files that ship, or writes these. Cases of more than kMostFlops are left out:
// their digests would take minutes each.
//
//   golden_digests FOLDER [--update] SUITE…      FOLDER: kernels/suites
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "kernels/suites/golden.h"
#include "kernels/text/cat.h"
#include "kernels/validate/runner.h"

namespace assay {
namespace {

// A product of 2048³ is 1.7e10.
constexpr double kMostFlops = 2e10;

int wrong = 0;

void Complain(const std::string& text) {
  std::printf("%s\n", text.c_str());
  ++wrong;
}

// `known`: of the suites before; levels share most of their cases.
Golden Collect(const Suite& suite, const Registry& registry, Device& device, const Golden& known) {
  CaseRunner runner(device, registry, nullptr);
  PhaseObserver observer;
  Golden golden;
  std::vector<Case> cases = suite.cases;
  cases.insert(cases.end(), suite.fill.begin(), suite.fill.end());
  for (const Case& base : cases) {
    const Op& op = *FindOp(OpName(base.problem));
    const absl::StatusOr<Plan> plan = op.MakePlan(base);
    if (!plan.ok() || plan->flops > kMostFlops) continue;
    const std::string key = GoldenKey(base);
    if (const auto at = known.find(key); at != known.end()) {
      golden[key] = at->second;
      continue;
    }
    for (const KernelEntry& entry : registry.entries()) {
      if (entry.op != op.name() || entry.provider.starts_with(kPlantedPrefix)) continue;
      Case c = base;
      c.provider = std::string(entry.provider);
      for (const KernelProbe& probe : op.Probes(c, *plan)) {
        if (!probe.data.exact || !probe.skipped.empty() || op.SeveralRight(probe.data)) continue;
        const CaseOutcome outcome = runner.Run(probe.data, observer);
        if (outcome.verdict == Verdict::kUnsupported) continue;
        // Its sums are rounded on their way, as it declares.
        if (outcome.verdict == Verdict::kFailed && outcome.plan &&
            Info(outcome.plan->output.dtype).is_integer &&
            outcome.plan->intermediate_roundoff > 0) {
          continue;
        }
        const std::string where = Cat(key, " ", c.provider, " ", probe.name);
        // Mostly zeros is no fault of data that are sparse.
        if (outcome.verdict != Verdict::kPassed && outcome.verdict != Verdict::kInconclusive) {
          Complain(Cat(where, ": ", outcome.findings.empty() ? "" : outcome.findings[0].message));
          continue;
        }
        const std::string digest =
            absl::StrFormat("%016x%016x", outcome.compare->digest_canonical[0],
                            outcome.compare->digest_canonical[1]);
        const auto [at, fresh] = golden[key].emplace(probe.name, digest);
        if (at->second != digest) Complain(where + ": another digest than another provider's");
      }
    }
  }
  return golden;
}

int Main(const std::string& folder, bool update, const std::vector<std::string>& suites) {
  Registry registry;
  RegisterAll(registry);
  const std::unique_ptr<Device> device = MakeCpuDevice(0, ArenaOptions{});
  Golden known;
  for (const std::string& name : suites) {
    const absl::StatusOr<std::string> text = ReadSuiteText(folder, name);
    if (!text.ok()) return Complain(std::string(text.status().message())), 2;
    const absl::StatusOr<Suite> suite = ParseSuite(*text, name, "cpu");
    if (!suite.ok()) return Complain(std::string(suite.status().message())), 2;
    const Golden golden = Collect(*suite, registry, *device, known);
    known.insert(golden.begin(), golden.end());
    int digests = 0;
    for (const auto& [key, probes] : golden) digests += static_cast<int>(probes.size());
    if (digests == 0) Complain(name + ": no digest at all");
    if (update) {
      std::ofstream(folder + "/golden/" + name + ".tsv") << GoldenText(golden);
    } else {
      const absl::StatusOr<Golden> shipped = ReadGolden(folder, name);
      if (!shipped.ok()) return Complain(std::string(shipped.status().message())), 2;
      for (const auto& [key, probes] : golden) {
        for (const auto& [probe, digest] : probes) {
          const auto at = shipped->find(key);
          if (at == shipped->end() || !at->second.contains(probe)) {
            Complain(Cat(name, ": no golden digest of ", key, " ", probe));
          } else if (at->second.at(probe) != digest) {
            Complain(Cat(name, ": not the golden digest: ", key, " ", probe));
          }
        }
      }
    }
    std::printf("%s: %d digests\n", name.c_str(), digests);
  }
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace assay

int main(int argc, char** argv) {
  std::vector<std::string> suites;
  bool update = false;
  for (int i = 2; i < argc; ++i) {
    if (std::string(argv[i]) == "--update") {
      update = true;
    } else {
      suites.emplace_back(argv[i]);
    }
  }
  if (argc < 3 || suites.empty()) {
    std::fprintf(stderr, "golden_digests FOLDER [--update] SUITE…\n");
    return 2;
  }
  return assay::Main(argv[1], update, suites);
}
