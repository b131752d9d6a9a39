#include "tests/experiments/alarms.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <map>
#include <random>
#include <string>

#include "tests/experiments/tables.h"

namespace assay::experiment {
namespace {

volatile std::sig_atomic_t g_interrupted = 0;

double ProcessorSeconds() {
  return static_cast<double>(std::clock()) / static_cast<double>(CLOCKS_PER_SEC);
}

// Which Q each statistic takes.
struct Rule {
  const char* name;
  QKind sums;    // R and gain
  QKind places;  // z, rows, columns and tiles
};
constexpr Rule kRules[] = {
    {"the upper Q", kUpper, kUpper},
    {"Q of margins", kMargins, kMargins},
    {"Q of margins for R and gain, the upper Q for the rest", kMargins, kUpper}};
constexpr const Rule& kJudged = kRules[2];  // the product's

struct Count {
  long products = 0, alarms = 0;
  Limits largest{};
  double r_64 = 0, r_1024 = 0, z = 0;  // R of products with so many elements, and more
  std::string which;

  void Add(const Measured& x, const Rule& rule) {
    const Statistics::OfQ& sums = x.statistics.of[rule.sums];
    const Statistics::OfQ& places = x.statistics.of[rule.places];
    Limits l = LimitsOf(places, x.shape);
    l.r = LimitsOf(sums, x.shape).r;
    l.gain = LimitsOf(sums, x.shape).gain;
    ++products;
    largest.r = std::max(largest.r, l.r);
    largest.z = std::max(largest.z, l.z);
    largest.group = std::max(largest.group, l.group);
    largest.gain = std::max(largest.gain, l.gain);
    z = std::max(z, places.z);
    const int elements = x.shape.m * x.shape.n;
    if (elements >= 64) r_64 = std::max(r_64, sums.r);
    if (elements >= 1024) r_1024 = std::max(r_1024, sums.r);
    if (l.Largest() <= 1) return;
    ++alarms;
    if (which.size() > 100) return;
    char text[100];
    std::snprintf(text, sizeof text, " %s, K = %lld, %dx%d;", x.algorithm->name,
                  static_cast<long long>(x.shape.k), x.shape.m, x.shape.n);
    which += text;
  }
};
using Counts = std::map<std::string, Count>;

class Chooser {
 public:
  explicit Chooser(std::uint64_t seed) : engine_(seed) {}
  std::uint64_t Below(std::uint64_t n) { return engine_() % n; }
  // Three draws of four are of data that is judged.
  const Data& ChooseData() {
    for (;;) {
      const Data& data = AllData()[Below(AllData().size())];
      if (data.judged || Below(4) == 0) return data;
    }
  }
  // K from 16 to 65,536, small ones more often; from 32 to 4,096 elements.
  Shape ChooseShape() {
    const double power = static_cast<double>(Below(1000)) / 1000;
    const auto k = 16 * static_cast<std::int64_t>(std::exp2(power * power * 12));
    const int m = 1 << Below(7);
    const bool wide = k <= 2048 && Below(2) == 0;
    return {k > 8192 ? std::min(m, 8) : m, wide ? 64 : 32, k};
  }

 private:
  std::mt19937_64 engine_;
};

// `keys` are the table's first two columns.
long Print(const Counts& counts, const Rule& rule, const char* keys) {
  std::printf(
      "\nAlarms with %s\n\n"
      "| %s | products | alarms | R / limit | z / limit | group / limit |"
      " gain / limit | R, n >= 64 | R, n >= 1024 | z | which |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|---|\n",
      rule.name, keys);
  for (const auto& [name, c] : counts) {
    const Limits& l = c.largest;
    std::printf("| %s | %ld | %ld | %.2f | %.2f | %.2f | %.2f | %.2f | %.2f | %.1f |%s |\n",
                name.c_str(), c.products, c.alarms, l.r, l.z, l.group, l.gain, c.r_64, c.r_1024,
                c.z, c.which.c_str());
  }
  long products = 0, alarms = 0;
  for (const auto& [name, c] : counts) {
    if (name.starts_with("(")) continue;
    products += c.products;
    alarms += c.alarms;
  }
  std::printf("\n%ld alarms on %ld products of right algorithms on data that is judged\n", alarms,
              products);
  return alarms;
}

}  // namespace

long CountAlarms(double seconds, std::uint64_t seed) {
  Counts counts[std::size(kRules)], by_algorithm;
  Chooser chooser(seed);
  long draws = 0;
  std::signal(SIGINT, [](int) { g_interrupted = 1; });
  while (ProcessorSeconds() < seconds && g_interrupted == 0) {
    const Data& data = chooser.ChooseData();
    const Shape shape = chooser.ChooseShape();
    const Operands drawn = Draw(data, shape, chooser.Below(~std::uint64_t{0}));
    ++draws;
    MeasureAll(drawn, data, false, [&](const Measured& x) {
      const std::string name = std::string(data.judged ? "" : "(not judged) ") + NameOf(x.formats) +
                               (x.algorithm->promoted > 0 ? ", 128" : "") + " | " + data.name;
      for (std::size_t i = 0; i < std::size(kRules); ++i) counts[i][name].Add(x, kRules[i]);
      if (!data.judged) return;
      by_algorithm[std::string(NameOf(x.formats)) + " | " + x.algorithm->name].Add(x, kJudged);
    });
  }
  long alarms = 0;
  for (std::size_t i = 0; i < std::size(kRules); ++i)
    alarms += Print(counts[i], kRules[i], "formats | data");
  Print(by_algorithm, kJudged, "formats | algorithm");
  std::printf("%ld draws of operands\n", draws);
  return alarms;
}

}  // namespace assay::experiment
