// Measures how far right and defective products lie from the reference, in units of the deviation
// σ that Assay takes (kernels/numerics/deviation.h). README.md has the tables and what they mean.
//
//   product_sums [--all] [--long] [--alarms SECONDS] [--seed N]
//
// --all: a line for each product, tab-separated, before the tables. --long: 16,384 elements a
// product in place of 4,096. --alarms: draws right products for so long, and counts those that a
// threshold would fail.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <iterator>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "tests/experiments/products.h"

namespace assay::experiment {
namespace {

struct Length {
  std::int64_t k;
  int m, n;
};
// Fewer elements at large K, for time.
constexpr Length kLengths[] = {{16, 64, 64},   {64, 64, 64},    {256, 64, 64},  {1024, 64, 64},
                               {4096, 64, 64}, {16384, 32, 64}, {65536, 32, 32}};

constexpr const char* kShownDefects[] = {"TF32 inputs", "fp16 sums, blocks of 16",
                                         "last product left out", "gain 2e-5"};

struct Options {
  bool all = false;
  int times = 1;
  double alarm_seconds = 0;
  std::uint64_t seed = 1;
};

double ProcessorSeconds() {
  return static_cast<double>(std::clock()) / static_cast<double>(CLOCKS_PER_SEC);
}

std::string NameOf(const Formats& f) {
  return std::string(Name(f.input)) + "->" + std::string(Name(f.output));
}

void PrintLine(const Measured& x) {
  const Statistics& s = x.statistics;
  std::printf("%s\t%s\t%s\t%lld\t%s\t%.3g\t%.3g", x.algorithm->right ? "right" : "defect",
              NameOf(x.formats).c_str(), x.data->name, static_cast<long long>(x.shape.k),
              x.algorithm->name, s.rho, s.rho_held);
  for (const Statistics::OfQ& of : s.of) {
    std::printf("\t%.3f\t%.2f\t%.2f\t%.2f\t%.2e\t%.1e\t%.1e", of.r, of.z, of.group_r, of.group,
                of.gain, of.gain_error, of.gain_limit);
  }
  std::printf("\n");
}

// Every algorithm and defect of every format on one draw.
void MeasureAll(const Operands& drawn, const Data& data, const Options& options, bool defects,
                std::vector<Measured>* measured) {
  DType input = DType::kUnspecified;
  Operands operands;
  Reference reference;
  std::optional<Summer> summer;
  for (const Formats& formats : kFormatsTried) {
    if (formats.input != input) {
      input = formats.input;
      operands = Rounded(drawn, input);
      reference = Refer(operands);
      summer.emplace(operands);
    }
    const auto one = [&](const Algorithm& algorithm) {
      if (!Takes(input, algorithm.unit)) return;
      const std::vector<float> y = summer->Product(algorithm, formats.output);
      const Truncating truncating = TruncatingOf(input, algorithm.promoted);
      measured->push_back({formats, &data, operands.shape, &algorithm,
                           Measure(reference, y, input, formats.output, truncating)});
      if (options.all) PrintLine(measured->back());
    };
    for (const Algorithm& algorithm : RightAlgorithms()) one(algorithm);
    if (!defects) continue;
    for (const Algorithm& algorithm : DefectsOf(input)) one(algorithm);
  }
}

// The largest of every statistic over the right algorithms.
struct Worst {
  std::array<double, kQKinds> r{};
  double z = 0, group = 0, gain = 0, rho = 0, rho_held = 0;
  void Add(const Measured& x) {
    for (std::size_t i = 0; i < kQKinds; ++i) r[i] = std::max(r[i], x.statistics.of[i].r);
    const Statistics::OfQ& of = x.statistics.of[kUpper];
    z = std::max(z, of.z);
    group = std::max(group, of.group_r);
    gain = std::max(gain, of.gain_limit > 0 ? std::abs(of.gain) / of.gain_limit : 0);
    rho = std::max(rho, x.statistics.rho);
    rho_held = std::max(rho_held, x.statistics.rho_held);
  }
};

void PrintRight(const std::vector<Measured>& measured) {
  std::printf(
      "\nRight algorithms: the largest figure over algorithms and K\n\n"
      "| formats | data | R exact Q | R upper Q | R margins | z | rows, columns, tiles | gain / "
      "limit |"
      " rho | rho, truncation held |\n|---|---|---|---|---|---|---|---|---|---|\n");
  for (const Formats& f : kFormatsTried) {
    const bool narrow = Info(f.input).storage_bits == 8;
    for (const bool promoted : {true, false}) {
      if (!narrow && promoted) continue;
      for (const Data& data : AllData()) {
        Worst worst;
        for (const Measured& x : measured) {
          if (x.data != &data || x.formats.input != f.input || x.formats.output != f.output)
            continue;
          if (!x.algorithm->right) continue;
          if (narrow && promoted != (x.algorithm->promoted > 0)) continue;
          worst.Add(x);
        }
        std::printf("| %s%s | %s | %.2f | %.2f | %.2f | %.1f | %.2f | %.2f | %.2g | %.2g |\n",
                    NameOf(f).c_str(), narrow ? promoted ? ", 128" : ", never" : "", data.name,
                    worst.r[kExact], worst.r[kUpper], worst.r[kMargins], worst.z, worst.group,
                    worst.gain, worst.rho, worst.rho_held);
      }
    }
  }
}

void PrintDefects(const std::vector<Measured>& measured, std::string_view data) {
  std::printf(
      "\nDefects on %.*s data: rho; R with the exact Q, the upper one, margins; what finds it"
      " with the upper one (R, z, t: group, g: gain)\n\n| formats | defect |",
      static_cast<int>(data.size()), data.data());
  for (const Length& length : kLengths) std::printf(" %lld |", static_cast<long long>(length.k));
  std::printf("\n|---|---|---|---|---|---|---|---|---|\n");
  for (const Formats& f : kFormatsTried) {
    for (const Algorithm& defect : DefectsOf(f.input)) {
      std::printf("| %s | %s |", NameOf(f).c_str(), defect.name);
      for (const Measured& x : measured) {
        if (x.data->name != data || x.algorithm != &defect) continue;
        if (x.formats.input != f.input || x.formats.output != f.output) continue;
        const Statistics::OfQ& of = x.statistics.of[kUpper];
        const Limits limits = LimitsOf(of, x.shape);
        std::string found;
        if (limits.r > 1) found += "R";
        if (limits.z > 1) found += "z";
        if (limits.group > 1) found += "t";
        if (limits.gain > 1) found += "g";
        std::printf(" %.2g; %.3g, %.3g, %.3g %s |", x.statistics.rho, x.statistics.of[kExact].r,
                    of.r, x.statistics.of[kMargins].r, found.empty() ? "-" : found.c_str());
      }
      std::printf("\n");
    }
  }
}

void PrintBeyond(const std::vector<Measured>& measured, QKind kind) {
  std::printf("\nRight products beyond a threshold, with %s\n\n",
              kind == kUpper ? "the upper Q" : "Q of margins");
  struct Beyond {
    int count = 0;
    double r = 0, z = 0, group = 0, gain = 0;
    std::string which;
  };
  std::map<std::string, Beyond> beyond;
  for (const Measured& x : measured) {
    if (!x.algorithm->right) continue;
    const Limits l = LimitsOf(x.statistics.of[kind], x.shape);
    if (l.Largest() <= 1) continue;
    Beyond& b = beyond[NameOf(x.formats) + " | " + x.data->name];
    ++b.count;
    b.r = std::max(b.r, x.statistics.of[kind].r);
    b.z = std::max(b.z, x.statistics.of[kind].z);
    b.group = std::max(b.group, l.group);
    if (l.gain > b.gain) {
      b.gain = l.gain;
    }
    if (b.which.find(x.algorithm->name) == std::string::npos) {
      b.which += (b.which.empty() ? "" : ", ") + std::string(x.algorithm->name);
    }
  }
  std::printf(
      "| formats | data | products | R | z | group / limit | gain / limit | algorithms |\n"
      "|---|---|---|---|---|---|---|---|\n");
  for (const auto& [name, b] : beyond) {
    std::printf("| %s | %d | %.2f | %.1f | %.2f | %.2f | %s |\n", name.c_str(), b.count, b.r, b.z,
                b.group, b.gain, b.which.c_str());
  }
}

// A user's own data: λ is the largest R of the emulated orders on 256 elements, over .74. R of
// right algorithms and of defects is over max(1, λ).
void PrintOrders(const std::vector<Measured>& measured) {
  std::printf(
      "\nOrder along K, K from 256 on, the upper Q: lambda; right algorithms' R with W in place of "
      "the"
      " mean order; their R and its share of max(1, lambda); defects' least R over max(1, "
      "lambda)\n\n"
      "| formats | data | lambda | R with W | R | R / max(1, lambda) | z / max(1, lambda) |");
  for (const char* name : kShownDefects) std::printf(" %s |", name);
  std::printf("\n|---|---|---|---|---|---|---|");
  for (std::size_t i = 0; i < std::size(kShownDefects); ++i) std::printf("---|");
  std::printf("\n");
  for (const Formats& f : kFormatsTried) {
    for (const Data& data : AllData()) {
      double largest = 0, with_w = 0, right = 0, share = 0, z = 0;
      std::map<std::string_view, double> least;
      for (const Length& length : kLengths) {
        if (length.k < 256) continue;
        const auto each = [&](auto visit) {
          for (const Measured& x : measured) {
            if (x.data == &data && x.formats.input == f.input && x.formats.output == f.output &&
                x.shape.k == length.k) {
              visit(x, x.statistics.of[kUpper]);
            }
          }
        };
        double lambda = 0;
        each([&](const Measured& x, const Statistics::OfQ& of) {
          if (x.algorithm->emulated) lambda = std::max(lambda, of.sampled / 0.74);
        });
        const double factor = std::max(1.0, lambda);
        largest = std::max(largest, lambda);
        each([&](const Measured& x, const Statistics::OfQ& of) {
          if (!x.algorithm->right) {
            const auto [at, added] = least.try_emplace(x.algorithm->name, of.r / factor);
            at->second = std::min(at->second, of.r / factor);
            return;
          }
          with_w = std::max(with_w, x.statistics.of[kPrefix].r);
          right = std::max(right, of.r);
          share = std::max(share, of.r / factor);
          z = std::max(z, of.z / factor);
        });
      }
      std::printf("| %s | %s | %.2f | %.2f | %.2f | %.2f | %.1f |", NameOf(f).c_str(), data.name,
                  largest, with_w, right, share, z);
      for (const char* name : kShownDefects) {
        const auto at = least.find(name);
        if (at == least.end()) {
          std::printf(" |");
        } else {
          std::printf(" %.3g |", at->second);
        }
      }
      std::printf("\n");
    }
  }
}

// What truncating units lose: the largest |e|/(K·2u_a·S) over data and K from 256.
void PrintLost(const std::vector<Measured>& measured) {
  std::printf(
      "\nLost by truncating units: the largest |e| / (K 2u_a S) from K = 256 on\n\n"
      "| unit |");
  for (const Data& d : AllData()) std::printf(" %s |", d.name);
  std::printf("\n|---|");
  for (std::size_t i = 0; i < AllData().size(); ++i) std::printf("---|");
  std::printf("\n");
  for (const Algorithm& algorithm : RightAlgorithms()) {
    if (algorithm.unit == Unit::kNearest) continue;
    std::printf("| %s |", algorithm.name);
    for (const Data& d : AllData()) {
      double lost = 0;
      for (const Measured& x : measured) {
        if (x.algorithm != &algorithm || x.data != &d || x.shape.k < 256) continue;
        if (x.formats.output != DType::kF32) continue;
        lost = std::max(lost, x.statistics.lost);
      }
      std::printf(" %.3f |", lost);
    }
    std::printf("\n");
  }
}

// Draws right products until the time is over, and counts those that a threshold fails.
int Alarms(const Options& options) {
  struct Count {
    long products = 0, failed = 0;
    double r = 0, z = 0, group = 0, gain = 0;    // the largest, over their limits
    double r_64 = 0, r_1024 = 0, largest_z = 0;  // R from so many elements on
    std::string which;
  };
  std::map<std::string, Count> counts[2];
  std::mt19937_64 engine(options.seed);
  const auto below = [&](std::uint64_t n) { return engine() % n; };
  long draws = 0;
  while (ProcessorSeconds() < options.alarm_seconds) {
    const Data& data = AllData()[below(AllData().size())];
    if (!data.judged && below(4) != 0) continue;
    const double power = static_cast<double>(below(1000)) / 1000;
    const auto k = 16 * static_cast<std::int64_t>(std::exp2(power * power * 12));
    const int m = 1 << below(7);
    const Shape shape{k > 8192 ? std::min(m, 8) : m, k <= 2048 && below(2) == 0 ? 64 : 32, k};
    const Operands drawn = Draw(data, shape, engine());
    ++draws;
    std::vector<Measured> measured;
    MeasureAll(drawn, data, options, false, &measured);
    for (const QKind kind : {kUpper, kMargins}) {
      for (const Measured& x : measured) {
        const Statistics::OfQ& of = x.statistics.of[kind];
        const Limits l = LimitsOf(of, x.shape);
        Count& c = counts[kind == kUpper ? 0 : 1]
                         [std::string(data.judged ? "" : "(not judged) ") + NameOf(x.formats) +
                          (x.algorithm->promoted > 0 ? ", 128" : "") + " | " + data.name];
        ++c.products;
        c.r = std::max(c.r, l.r);
        c.z = std::max(c.z, l.z);
        c.group = std::max(c.group, l.group);
        c.gain = std::max(c.gain, l.gain);
        const int elements = shape.m * shape.n;
        if (elements >= 64) c.r_64 = std::max(c.r_64, of.r);
        if (elements >= 1024) c.r_1024 = std::max(c.r_1024, of.r);
        c.largest_z = std::max(c.largest_z, of.z);
        if (l.Largest() <= 1) continue;
        ++c.failed;
        if (c.which.size() > 100) continue;
        char text[100];
        std::snprintf(text, sizeof text, " %s K=%lld %dx%d;", x.algorithm->name,
                      static_cast<long long>(k), shape.m, shape.n);
        c.which += text;
      }
    }
  }
  long failed = 0;
  for (const QKind kind : {kUpper, kMargins}) {
    long products = 0, alarms = 0;
    std::printf(
        "\nAlarms with %s\n\n| formats | data | products | alarms | R / limit | z / limit |"
        " group / limit | gain / limit | R, n >= 64 | R, n >= 1024 | z | which |\n"
        "|---|---|---|---|---|---|---|---|---|---|---|---|\n",
        kind == kUpper ? "the upper Q" : "Q of margins");
    for (const auto& [name, c] : counts[kind == kUpper ? 0 : 1]) {
      std::printf("| %s | %ld | %ld | %.2f | %.2f | %.2f | %.2f | %.2f | %.2f | %.1f |%s |\n",
                  name.c_str(), c.products, c.failed, c.r, c.z, c.group, c.gain, c.r_64, c.r_1024,
                  c.largest_z, c.which.c_str());
      if (name.starts_with("(")) continue;
      products += c.products;
      alarms += c.failed;
    }
    std::printf("\n%ld alarms on %ld products of right algorithms on judged data\n", alarms,
                products);
    failed += alarms;
  }
  std::printf("%ld draws of operands\n", draws);
  return failed == 0 ? 0 : 1;
}

int Run(const Options& options) {
  if (options.alarm_seconds > 0) return Alarms(options);
  std::vector<Measured> measured;
  std::uint64_t seed = options.seed;
  for (const Length& length : kLengths) {
    const Shape shape{length.m * options.times, length.n * options.times, length.k};
    for (const Data& data : AllData()) {
      const Operands drawn = Draw(data, shape, ++seed);
      MeasureAll(drawn, data, options, true, &measured);
    }
  }
  PrintRight(measured);
  for (const char* data : {"normal", "uniform(0,1)", "Student t, 3", "sparse 20 %"}) {
    PrintDefects(measured, data);
  }
  PrintBeyond(measured, kUpper);
  PrintBeyond(measured, kMargins);
  PrintOrders(measured);
  PrintLost(measured);
  std::printf("\n%zu products, %.0f s of processor time\n", measured.size(), ProcessorSeconds());
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
