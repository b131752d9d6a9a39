#include "client/report/reading.h"

#include <cmath>

#include "client/lib/operators.h"

namespace assay::client {
namespace {

constexpr double kEfficientShare = 0.6;
constexpr double kLowShare = 0.4;
constexpr double kLowPassesShare = 0.3;  // of an operator that takes several passes
// Launches shorter than this are mostly launching.
constexpr double kTooShortToJudge = 50e-6;

// Whole numbers, as the operator counts them.
std::optional<double> Whole(bool known, double per_second, double seconds) {
  if (!known || !(seconds > 0)) return std::nullopt;
  return std::round(per_second * seconds);
}

bool SlowPasses(const v1::CaseResult& result) {
  return InfoOf(result.spec()).several_passes() && result.bench().roof() == "memory";
}

}  // namespace

double LowShare(const v1::CaseResult& result) {
  return SlowPasses(result) ? kLowPassesShare : kLowShare;
}

SpeedReading ReadingOf(const v1::CaseResult& result) {
  const v1::BenchStats& bench = result.bench();
  if (result.verdict() != v1::VERDICT_PASSED || bench.samples() < 2 || !bench.has_efficiency() ||
      bench.median_seconds() < kTooShortToJudge) {
    return SpeedReading::kNone;
  }
  const double efficient = SlowPasses(result) ? kLowPassesShare : kEfficientShare;
  if (bench.efficiency() >= efficient) return SpeedReading::kEfficient;
  return bench.efficiency() < LowShare(result) ? SpeedReading::kLookCloser : SpeedReading::kBetween;
}

std::string ReadingWord(SpeedReading reading) {
  switch (reading) {
    case SpeedReading::kEfficient:
      return "efficient";
    case SpeedReading::kBetween:
      return "between";
    case SpeedReading::kLookCloser:
      return "look closer";
    default:
      return "";
  }
}

std::optional<double> FlopsOf(const v1::BenchStats& bench) {
  return Whole(bench.has_flops_per_second(), bench.flops_per_second(), bench.median_seconds());
}

std::optional<double> BytesOf(const v1::BenchStats& bench) {
  return Whole(bench.has_bytes_per_second(), bench.bytes_per_second(), bench.median_seconds());
}

}  // namespace assay::client
