// Measures how far right and defective products lie from the reference, in units of the deviation
// σ that Assay takes (kernels/numerics/deviation.h). README.md has the tables and what they mean.
//
//   product_sums [--all] [--long] [--seed N]
//   product_sums --alarms SECONDS [--seed N]
//
// --all: also a line for each product, tab-separated, and every table. --long: four times as many
// elements a product. --alarms: draws right products for so much processor time, and counts those
// that a threshold would fail.
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string_view>
#include <vector>

#include "tests/experiments/alarms.h"
#include "tests/experiments/products.h"
#include "tests/experiments/tables.h"

namespace assay::experiment {
namespace {

// Fewer elements at large K, for time.
constexpr Shape kShapes[] = {{64, 64, 16},   {64, 64, 64},    {64, 64, 256},  {64, 64, 1024},
                             {64, 64, 4096}, {32, 64, 16384}, {32, 32, 65536}};

struct Options {
  bool all = false;
  int times = 1;
  double alarm_seconds = 0;
  std::uint64_t seed = 1;
};

int Run(const Options& options) {
  if (options.alarm_seconds > 0) {
    return CountAlarms(options.alarm_seconds, options.seed) == 0 ? 0 : 1;
  }
  std::vector<Measured> measured;
  std::uint64_t seed = options.seed;
  for (const Shape& shape : kShapes) {
    for (const Data& data : AllData()) {
      const Shape larger{shape.m * options.times, shape.n * options.times, shape.k};
      MeasureAll(Draw(data, larger, ++seed), data, true,
                 [&](const Measured& x, const Measurement&) {
                   measured.push_back(x);
                   if (options.all) PrintLine(x);
                 });
    }
  }
  PrintSummary(measured);
  if (options.all) PrintDetails(measured);
  std::printf("\n%zu products, %.0f s of processor time\n", measured.size(),
              static_cast<double>(std::clock()) / static_cast<double>(CLOCKS_PER_SEC));
  return 0;
}

}  // namespace
}  // namespace assay::experiment

int main(int argc, char** argv) {
#ifdef __FMA__
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
    std::fprintf(stderr, "product_sums was compiled for AVX2, which this processor has not\n");
    return 2;
  }
#endif
  assay::experiment::Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--all") {
      options.all = true;
    } else if (word == "--long") {
      options.times = 2;
    } else if (word == "--alarms" && i + 1 < argc) {
      options.alarm_seconds = std::atof(argv[++i]);
    } else if (word == "--seed" && i + 1 < argc) {
      options.seed = std::strtoull(argv[++i], nullptr, 10);
    } else {
      std::fprintf(stderr, "product_sums [--all] [--long] [--alarms SECONDS] [--seed N]\n");
      return 2;
    }
  }
  return assay::experiment::Run(options);
}
