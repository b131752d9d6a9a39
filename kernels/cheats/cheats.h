// Kernels that cheat, and an honest twin of each: the one table of them. The judge must stop or
// show every cheat, and every twin must pass.
//
// Each is a small library in C, which the project builds and installs (kernels/cheats/*.c). It runs
// as any kernel of a user's does. Its provider is "cheat/late-write"; the twin's is
// "cheat/late-write-twin". All compute a gemm of fp32.
//
// All functions are pure. Thread-safe.
#ifndef ASSAY_KERNELS_CHEATS_CHEATS_H_
#define ASSAY_KERNELS_CHEATS_CHEATS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/ops/case.h"

namespace assay::inline kernels {

inline constexpr std::string_view kCheatPrefix = "cheat/";

// What makes a cheat impossible by construction. Values equal assay.v1.Barrier's, which says what
// each means; a test holds them together.
enum class Barrier : std::uint8_t {
  kNone = 0,  // the verdict finds the cheat
  kMemory,
  kFiles,
  kNetwork,
  kProcesses,
  kSignals,
  kLeftovers,
  kClock,
  kLaunches,
  kSystem,
};

struct Cheat {
  std::string_view name;  // "late-write"; its source is late_write.c
  // A cheat that has a barrier writes no result if it does not get what it needs.
  Barrier barrier = Barrier::kNone;
  Mode mode = Mode::kValidate;
  // It is right, and so passes: what it pretends is whose work that is. Its result names the
  // library that did the work.
  bool shown = false;
};

std::span<const Cheat> Cheats();

// Which kernel a provider is. Nothing if it is none of the table.
struct CheatKernel {
  const Cheat* cheat = nullptr;
  bool twin = false;
};
std::optional<CheatKernel> FindCheat(std::string_view provider);

// "cheat/late-write-twin".
std::string ProviderOf(const CheatKernel& kernel);
// The file name of its library: "late_write_twin.so".
std::string LibraryOf(const CheatKernel& kernel);

// The cases of all cheats and their twins. A cheat and its twin get the same problem and data. The
// seed draws the shape, so that no kernel can know it.
std::vector<Case> CheatCases(std::uint64_t seed);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_CHEATS_CHEATS_H_
