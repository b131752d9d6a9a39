#include "kernels/cheats/cheats.h"

#include <algorithm>
#include <random>

#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

constexpr std::string_view kTwin = "-twin";

constexpr Cheat kCheats[] = {
    // Results that are not what was asked for.
    {"zeros"},
    {"constant"},
    {"partial-sum"},
    {"tested-shapes"},
    {"copies-input"},
    {"unwritten-tail"},
    {"waits-for-poison"},
    {"changes-input"},
    {"write-behind"},
    {"lower-precision"},
    {"calls-library", Barrier::kNone, Mode::kValidate, /*shown=*/true},
    // Work that is done late, seldom or once.
    {"late-write"},
    {"late-tail"},
    {"done-early"},
    {"every-other"},
    {"only-first", Barrier::kNone, Mode::kBoth},
    {"wrong-later", Barrier::kNone, Mode::kBoth},
    {"replays", Barrier::kNone, Mode::kBoth},
    {"cache-by-pointer", Barrier::kNone, Mode::kBoth},
    {"cache-by-content", Barrier::kNone, Mode::kBoth},
    {"waits-for-no-poison", Barrier::kLaunches, Mode::kBoth},
    {"watches-operands", Barrier::kLaunches, Mode::kBoth},
    {"undoes-stop", Barrier::kLaunches},
    {"timer-undoes-stop", Barrier::kLaunches},
    {"own-clock", Barrier::kClock, Mode::kBoth},
    // Ends of the process, as if all were well.
    {"exit-in-launch"},
    {"constructor-exit"},
    // The expected tensor, the judge and what others left.
    {"expected-in-memory", Barrier::kMemory},
    {"earlier-case", Barrier::kMemory},
    {"judge-memory-file", Barrier::kMemory},
    {"reads-judge", Barrier::kMemory},
    {"writes-judge", Barrier::kMemory},
    {"traces-judge", Barrier::kMemory},
    {"judge-descriptors", Barrier::kMemory},
    {"symbol-clash", Barrier::kMemory, Mode::kBoth},
    {"own-descriptors", Barrier::kFiles},
    {"writes-file", Barrier::kFiles},
    {"reads-file", Barrier::kFiles},
    {"lists-files", Barrier::kFiles},
    {"memory-file", Barrier::kFiles},
    {"shared-memory", Barrier::kLeftovers},
    {"named-memory", Barrier::kLeftovers},
    {"message-queue", Barrier::kLeftovers},
    {"keyring", Barrier::kLeftovers},
    {"page-cache", Barrier::kLeftovers},
    {"socket", Barrier::kNetwork},
    {"unix-socket", Barrier::kNetwork},
    {"forks", Barrier::kProcesses},
    {"restarts", Barrier::kProcesses},
    {"runs-shell", Barrier::kProcesses},
    {"stops-judge", Barrier::kSignals},
    {"kills-judge", Barrier::kSignals},
    // The machine.
    {"sets-clock", Barrier::kSystem},
    {"counts-events", Barrier::kSystem},
    {"page-faults", Barrier::kSystem},
    {"slows-judge", Barrier::kSystem},
    {"binds-judge", Barrier::kSystem},
    {"hides", Barrier::kSystem},
    {"traced-by-judge", Barrier::kSystem},
};

// An extent of at least `least`, and never a multiple of 16.
std::int64_t Draw(std::int64_t least, std::mt19937_64& random) {
  return least + 1 + static_cast<std::int64_t>(random() % 15);
}

}  // namespace

std::span<const Cheat> Cheats() { return kCheats; }

std::optional<CheatKernel> FindCheat(std::string_view provider) {
  if (!provider.starts_with(kCheatPrefix)) return std::nullopt;
  std::string_view name = provider.substr(kCheatPrefix.size());
  const bool twin = name.ends_with(kTwin);
  if (twin) name.remove_suffix(kTwin.size());
  const auto* const found = std::find_if(std::begin(kCheats), std::end(kCheats),
                                         [name](const Cheat& cheat) { return cheat.name == name; });
  if (found == std::end(kCheats)) return std::nullopt;
  return CheatKernel{found, twin};
}

std::string ProviderOf(const CheatKernel& kernel) {
  return Cat(kCheatPrefix, kernel.cheat->name, kernel.twin ? kTwin : "");
}

std::string LibraryOf(const CheatKernel& kernel) {
  std::string file = Cat(kernel.cheat->name, kernel.twin ? kTwin : "", ".so");
  std::replace(file.begin(), file.end(), '-', '_');
  return file;
}

std::vector<Case> CheatCases(std::uint64_t seed) {
  std::vector<Case> cases;
  std::mt19937_64 random(seed);
  for (const Cheat& cheat : kCheats) {
    // A timed launch must be longer than what it takes to ask for one.
    const std::int64_t least = cheat.mode == Mode::kValidate ? 32 : 96;
    const std::int64_t m = Draw(least, random), n = Draw(least, random), k = Draw(least, random);
    for (const bool twin : {false, true}) {
      Case c;
      c.problem = GemmProblem{.m = m, .n = n, .k = k};
      c.dtype = DType::kF32;
      c.provider = ProviderOf({&cheat, twin});
      c.mode = cheat.mode;
      c.seed = seed;
      cases.push_back(std::move(c));
    }
  }
  return cases;
}

}  // namespace assay::kernels
