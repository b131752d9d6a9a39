// Whether the words about times are right where a kernel is not disturbed: the sampler and the
// reading of changes over a kernel that a machine's neighbours hardly slow down, so that the
// answer is had on machines that share their cores, too. (repeat_bench.py asks the same of
// real kernels through daemon and worker, and needs a machine to itself.)
//
//   steady_bench [--json] [--repeats N]
//
// The kernel is a walk along a ring of pointers that lie in the first cache: each load needs
// the one before, so that it waits for the cache's latency and leaves nearly all of a core to
// whoever shares it. Sampled with the options that cases are; the slower kernel really walks
// 10 % further.
//
// Prints `name ours peer ratio` lines.
//   disturbed  ours: pairs of runs of which one says it is noisy, counted apart; peer: --repeats
//   repeat     ours: share of pairs whose medians agree within their stated noise; peer: 0.95
//   repeat_within_errors
//              ours: the same, within 2.576 of the standard errors that decide changes
//   changed    ours: share of pairs that are called faster or slower; peer: at most 0.05
//   slower     ours: share of pairs called slower, the second 10 % longer; peer: 0.95
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "kernels/bench/roofline.h"
#include "kernels/bench/sampler.h"
#include "kernels/numerics/change.h"

namespace assay {
namespace {

constexpr int kSteps = 800'000;  // some 1 ms
constexpr int kMostPairs = 3;    // as many times those that are asked for

struct alignas(64) Stone {
  Stone* next = nullptr;
};

class Ring {
 public:
  Ring() {
    for (std::size_t i = 0; i < stones_.size(); ++i) {
      stones_[i].next = &stones_[(i + 1) % stones_.size()];
    }
  }
  double SecondsOf(int steps) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < steps; ++i) at_ = at_->next;
    const auto end = std::chrono::steady_clock::now();
    return std::chrono::duration<double>(end - begin).count();
  }

 private:
  std::array<Stone, 8> stones_;
  Stone* at_ = stones_.data();
};

BenchStats Time(int steps) {
  Ring ring;
  const LaunchTimes times = TimeLaunches(
      SamplerOptions{},
      [&](int launches) -> std::optional<double> { return ring.SecondsOf(steps * launches); });
  return MakeBenchStats(Plan{}, DType::kF64, times, nullptr);
}

RunTimes TimesOf(const BenchStats& stats) {
  return {.median_seconds = stats.median_seconds.value_or(0),
          .p10_seconds = stats.p10_seconds,
          .p90_seconds = stats.p90_seconds,
          .samples = stats.samples,
          .median_standard_error = stats.median_standard_error};
}

bool AgreeWithinNoise(const BenchStats& a, const BenchStats& b) {
  const double one = a.median_seconds.value_or(0);
  const double two = b.median_seconds.value_or(0);
  const double noise = std::max(a.noise.value_or(0), b.noise.value_or(0));
  return std::abs(one - two) <= noise * std::min(one, two);
}

struct Counts {
  int disturbed = 0, pairs = 0, agree = 0, within_errors = 0, changed = 0, slower = 0;
};

void Tell(bool json, const char* name, double ours, double peer) {
  const double ratio = ours / peer;
  if (json) {
    std::printf("{\"name\": \"%s\", \"ours\": %.6g, \"peer\": %.6g, \"ratio\": %.6g}\n", name, ours,
                peer, ratio);
  } else {
    std::printf("%s %.6g %.6g %.3f\n", name, ours, peer, ratio);
  }
}

// Three runs a repeat, in turns: the kernel, itself again, and the one that is slower.
Counts Repeat(int repeats) {
  Counts counts;
  for (int i = 0; i < kMostPairs * repeats && counts.pairs < repeats; ++i) {
    const BenchStats before = Time(kSteps);
    const BenchStats again = Time(kSteps);
    const BenchStats longer = Time(kSteps * 11 / 10);
    if (before.noisy || again.noisy || longer.noisy) {
      ++counts.disturbed;
      continue;
    }
    const auto same = ReadChange(TimesOf(before), TimesOf(again));
    const auto slowed = ReadChange(TimesOf(before), TimesOf(longer));
    if (!same || !slowed) continue;
    ++counts.pairs;
    if (AgreeWithinNoise(before, again)) ++counts.agree;
    if (std::abs(std::log(same->ratio)) <= 2.576 * same->noise) ++counts.within_errors;
    if (same->change == Change::kFaster || same->change == Change::kSlower) ++counts.changed;
    if (slowed->change == Change::kSlower) ++counts.slower;
  }
  return counts;
}

int Run(int argc, char** argv) {
  bool json = false;
  int repeats = 100;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--json") == 0) {
      json = true;
    } else if (std::strcmp(argv[i], "--repeats") == 0 && i + 1 < argc) {
      repeats = std::max(1, std::atoi(argv[++i]));
    } else {
      std::fprintf(stderr, "usage: steady_bench [--json] [--repeats N]\n");
      return 2;
    }
  }
  const Counts counts = Repeat(repeats);
  Tell(json, "disturbed", counts.disturbed, repeats);
  if (counts.pairs == 0) {
    std::fprintf(stderr, "the machine disturbed all pairs\n");
    return 1;
  }
  const double pairs = counts.pairs;
  Tell(json, "repeat", counts.agree / pairs, 0.95);
  Tell(json, "repeat_within_errors", counts.within_errors / pairs, 0.95);
  Tell(json, "changed", counts.changed / pairs, 0.05);
  Tell(json, "slower", counts.slower / pairs, 0.95);
  return 0;
}

}  // namespace
}  // namespace assay

int main(int argc, char** argv) { return assay::Run(argc, argv); }
