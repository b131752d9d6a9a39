// A finding: one reason for a verdict, and who is to blame for it.
#ifndef ASSAY_KERNELS_JUDGE_FINDING_H_
#define ASSAY_KERNELS_JUDGE_FINDING_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kernels/runtime/kernel_failure.h"

namespace assay::inline kernels {

// Values equal assay.v1.Reason's, which says what each means; a test holds them together.
enum class Reason : std::uint8_t {
  kUnspecified = 0,
  kBound,
  kClass,
  kExact,
  kBias,
  kGuard,
  kUnwritten,
  kNondeterministic,
  kEfficiency,
  kThreshold,
  kSuspect,
  kZeros,
  kNoisy,
  kMemory,
  kEmpty,
  kCrash,
  kTimeout,
  kFault,
  kUnsupported,
  kCancelled,
  kDeadline,
  kDigest,
  kSlower,
  kReplay,
  kBudget,
  kBaseline,
  kPrecision,
  kStructure,
  kImpossible,
  kStale,
};

// Values equal assay.v1.Blame's; a test holds them together.
enum class Blame : std::uint8_t {
  kUnspecified = 0,
  kKernel,
  kLibrary,
  kDevice,
  kHost,
  kCaller,
  kNobody,
};

struct ReasonInfo {
  std::string_view word;
  Blame blame;  // unless who finds it knows better
};

// By the number of the reason.
inline constexpr ReasonInfo kReasons[] = {
    {"", Blame::kUnspecified},        {"bound", Blame::kKernel},
    {"class", Blame::kKernel},        {"exact", Blame::kKernel},
    {"bias", Blame::kKernel},         {"guard", Blame::kKernel},
    {"unwritten", Blame::kKernel},    {"nondeterministic", Blame::kKernel},
    {"efficiency", Blame::kKernel},   {"threshold", Blame::kKernel},
    {"suspect", Blame::kNobody},      {"zeros", Blame::kNobody},
    {"noisy", Blame::kHost},          {"memory", Blame::kHost},
    {"empty", Blame::kCaller},        {"crash", Blame::kKernel},
    {"timeout", Blame::kKernel},      {"fault", Blame::kDevice},
    {"unsupported", Blame::kLibrary}, {"cancelled", Blame::kCaller},
    {"deadline", Blame::kCaller},     {"digest", Blame::kDevice},
    {"slower", Blame::kKernel},       {"replay", Blame::kNobody},
    {"budget", Blame::kCaller},       {"baseline", Blame::kCaller},
    {"precision", Blame::kKernel},    {"structure", Blame::kKernel},
    {"impossible", Blame::kKernel},   {"stale", Blame::kKernel},
};

// The stable word of assay.v1.Finding, such as "bound".
constexpr std::string_view ReasonWord(Reason reason) {
  return kReasons[static_cast<std::size_t>(reason)].word;
}

constexpr Blame UsualBlame(Reason reason) {
  return kReasons[static_cast<std::size_t>(reason)].blame;
}

struct Finding {
  Reason reason = Reason::kUnspecified;
  std::string message = {};  // a sentence with the figures
  std::string subject = {};  // the name of an exact case; empty: the whole case
  std::string operand = {};  // the inputs that the kernel changed; empty: none
  std::size_t headline = 0;  // bytes of the message before its worst element; 0: it names none
  Blame blame = UsualBlame(reason);
  // Of a kernel that runs in a process of its own and failed there.
  std::optional<KernelFailure> failure = {};
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_JUDGE_FINDING_H_
