#include "tests/experiments/alarms.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>

#include "tests/experiments/assay_rule.h"
#include "tests/experiments/tables.h"

namespace assay::experiment {
namespace {

volatile std::sig_atomic_t g_interrupted = 0;

double ProcessorSeconds() {
  return static_cast<double>(std::clock()) / static_cast<double>(CLOCKS_PER_SEC);
}

// Which Q each statistic takes. The limits are those of Limits (products.h): R 2, z 20, groups 3,
// and gain. Assay's own rule, with margins everywhere and wider limits, is in assay_rule.h.
struct Rule {
  const char* name;
  QKind sums;    // R and gain
  QKind places;  // z, rows, columns and tiles
};
constexpr Rule kRules[] = {
    {"the upper Q", kUpper, kUpper},
    {"Q of margins", kMargins, kMargins},
    {"Q of margins for R and gain, the upper Q for the rest", kMargins, kUpper}};
constexpr const Rule& kSafest = kRules[2];

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

// What Assay's own rule says of right products.
struct SaidCount {
  long products = 0, failed = 0, doubted = 0;
  double share = 0;  // of the limit from which a product fails, or is doubted if it cannot fail
  std::string which;

  void Add(const Said& said, const Measured& x) {
    ++products;
    failed += said.fails ? 1 : 0;
    doubted += said.doubts ? 1 : 0;
    share = std::max(share, said.share);
    if (!said.fails || which.size() > 300) return;
    which += ' ';
    which += x.algorithm->name;
    which += ", K = ";
    which += std::to_string(x.shape.k);
    which += ": ";
    which += said.why;
    which += ';';
  }
};
using SaidCounts = std::map<std::string, SaidCount>;

// Judges the products of one draw after another by Assay's own rule.
class AssayCounts {
 public:
  void Add(const Measured& x, const Measurement& measurement) {
    const bool same = rule_ != nullptr && reference_ == &measurement.reference &&
                      formats_.input == x.formats.input && formats_.output == x.formats.output;
    if (!same) {
      rule_ = std::make_unique<AssayRule>(*x.data, x.formats, measurement.operands,
                                          measurement.reference);
      reference_ = &measurement.reference;
      formats_ = x.formats;
    }
    std::string name = NameOf(x.formats);
    name += " | ";
    std::string algorithm = name;
    name += x.data->name;
    algorithm += x.algorithm->name;
    if (const std::optional<Said> said = rule_->OfRun(measurement.y, *x.algorithm)) {
      run_[name].Add(*said, x);
      run_by_algorithm_[algorithm].Add(*said, x);
    }
    compare_[name].Add(rule_->OfCompare(measurement.y), x);
  }
  void EndDraw() { rule_ = nullptr; }

  // Returns the products that fail.
  long Print() const {
    Print("run", "algorithm", run_by_algorithm_);
    return Print("run", "data", run_) + Print("compare", "data", compare_);
  }

 private:
  static long Print(const char* command, const char* key, const SaidCounts& counts) {
    std::printf(
        "\nAssay's own rule, assay %s\n\n"
        "| formats | %s | products | FAILED | doubted | of the limit | which |\n"
        "|---|---|---|---|---|---|---|\n",
        command, key);
    long products = 0, failed = 0;
    for (const auto& [name, c] : counts) {
      std::printf("| %s | %ld | %ld | %ld | %.2f |%s |\n", name.c_str(), c.products, c.failed,
                  c.doubted, c.share, c.which.c_str());
      products += c.products;
      failed += c.failed;
    }
    std::printf("\n%ld of %ld right products are FAILED by assay %s\n", failed, products, command);
    return failed;
  }

  std::unique_ptr<AssayRule> rule_;
  const Reference* reference_ = nullptr;
  Formats formats_{};
  SaidCounts run_, run_by_algorithm_, compare_;
};

class Chooser {
 public:
  explicit Chooser(std::uint64_t seed) : engine_(seed) {}
  std::uint64_t Below(std::uint64_t n) { return engine_() % n; }
  // Three draws of four are of data that is judged.
  const Data& ChooseData() {
    for (;;) {
      const Data& data = DataOfAlarms()[Below(DataOfAlarms().size())];
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
void Print(const Counts& counts, const Rule& rule, const char* keys) {
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
}

}  // namespace

long CountAlarms(double seconds, std::uint64_t seed) {
  Counts counts[std::size(kRules)], by_algorithm;
  AssayCounts assay;
  Chooser chooser(seed);
  long draws = 0;
  std::signal(SIGINT, [](int) { g_interrupted = 1; });
  while (ProcessorSeconds() < seconds && g_interrupted == 0) {
    const Data& data = chooser.ChooseData();
    const Shape shape = chooser.ChooseShape();
    const Operands drawn = Draw(data, shape, chooser.Below(~std::uint64_t{0}));
    ++draws;
    MeasureAll(drawn, data, false, [&](const Measured& x, const Measurement& measurement) {
      assay.Add(x, measurement);
      const std::string name = std::string(data.judged ? "" : "(not judged) ") + NameOf(x.formats) +
                               (x.algorithm->promoted > 0 ? ", 128" : "") + " | " + data.name;
      for (std::size_t i = 0; i < std::size(kRules); ++i) counts[i][name].Add(x, kRules[i]);
      if (!data.judged) return;
      by_algorithm[std::string(NameOf(x.formats)) + " | " + x.algorithm->name].Add(x, kSafest);
    });
    assay.EndDraw();
  }
  for (std::size_t i = 0; i < std::size(kRules); ++i) {
    Print(counts[i], kRules[i], "formats | data");
  }
  Print(by_algorithm, kSafest, "formats | algorithm");
  const long alarms = assay.Print();
  std::printf("%ld draws of operands\n", draws);
  return alarms;
}

}  // namespace assay::experiment
