#include "tests/experiments/tables.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <set>
#include <string_view>
#include <vector>

namespace assay::experiment {
namespace {

bool Same(const Formats& a, const Formats& b) { return a.input == b.input && a.output == b.output; }

// A column of the tables: products of these formats, and whether narrow units promote.
struct Column {
  std::string name;
  Formats formats;
  bool narrow, promoted;
  bool Has(const Measured& x) const {
    if (!Same(x.formats, formats)) return false;
    return !narrow || !x.algorithm->right || promoted == (x.algorithm->promoted > 0);
  }
};

std::vector<Column> Columns() {
  std::vector<Column> columns;
  for (const Formats& f : kFormatsTried) {
    if (Info(f.input).storage_bits > 8) {
      columns.push_back({NameOf(f), f, false, false});
      continue;
    }
    columns.push_back({NameOf(f) + ", 128", f, true, true});
    columns.push_back({NameOf(f) + ", never", f, true, false});
  }
  return columns;
}

std::set<std::int64_t> LengthsOf(std::span<const Measured> measured) {
  std::set<std::int64_t> lengths;
  for (const Measured& x : measured) lengths.insert(x.shape.k);
  return lengths;
}

void PrintHead(const std::vector<std::string>& names) {
  std::printf("\n|");
  for (const std::string& name : names) std::printf(" %s |", name.c_str());
  std::printf("\n|");
  for (std::size_t i = 0; i < names.size(); ++i) std::printf("---|");
  std::printf("\n");
}

double GainShare(const Statistics::OfQ& of) {
  return of.gain_limit > 0 ? std::abs(of.gain) / of.gain_limit : 0;
}

// The largest of every statistic over right algorithms.
struct Worst {
  std::array<double, kQKinds> r{};
  double z = 0, group = 0, gain = 0, rho = 0, rho_held = 0;
  void Add(const Measured& x) {
    for (std::size_t i = 0; i < kQKinds; ++i) r[i] = std::max(r[i], x.statistics.of[i].r);
    const Statistics::OfQ& of = x.statistics.of[kUpper];
    z = std::max(z, of.z);
    group = std::max(group, of.group_r);
    gain = std::max(gain, GainShare(of));
    rho = std::max(rho, x.statistics.rho);
    rho_held = std::max(rho_held, x.statistics.rho_held);
  }
};

Worst WorstOf(std::span<const Measured> measured, const Data& data, const Column& column) {
  Worst worst;
  for (const Measured& x : measured) {
    if (x.algorithm->right && x.data == &data && column.Has(x)) worst.Add(x);
  }
  return worst;
}

void PrintRight(std::span<const Measured> measured) {
  std::printf(
      "\nRight algorithms: the largest figures over algorithms and K. z, groups and gain are"
      " those with the upper Q.\n");
  PrintHead({"formats", "data", "R exact Q", "R upper Q", "R margins", "z", "rows, columns, tiles",
             "gain / limit", "rho", "rho, truncation held"});
  for (const Column& column : Columns()) {
    for (const Data& data : AllData()) {
      const Worst w = WorstOf(measured, data, column);
      std::printf("| %s | %s | %.2f | %.2f | %.2f | %.1f | %.2f | %.2f | %.2g | %.2g |\n",
                  column.name.c_str(), data.name, w.r[kExact], w.r[kUpper], w.r[kMargins], w.z,
                  w.group, w.gain, w.rho, w.rho_held);
    }
  }
}

// Letters for the tests that find a defect.
std::string FoundBy(const Limits& limits) {
  std::string found;
  if (limits.r > 1) found += "R";
  if (limits.z > 1) found += "z";
  if (limits.group > 1) found += "t";
  if (limits.gain > 1) found += "g";
  return found.empty() ? "-" : found;
}

// `first`: the least K that is shown.
void PrintDefects(std::span<const Measured> measured, std::span<const Formats> formats,
                  std::string_view data, std::int64_t first) {
  std::printf(
      "\nDefects on %.*s data: rho; R with the exact Q, the upper one, margins; what finds it with"
      " the upper one (R, z, t: a row, column or tile, g: gain)\n",
      static_cast<int>(data.size()), data.data());
  std::vector<std::string> names{"formats", "defect"};
  for (const std::int64_t k : LengthsOf(measured)) {
    if (k >= first) names.push_back("K = " + std::to_string(k));
  }
  PrintHead(names);
  for (const Formats& f : formats) {
    for (const Algorithm& defect : DefectsOf(f.input)) {
      std::printf("| %s | %s |", NameOf(f).c_str(), defect.name);
      for (const Measured& x : measured) {
        if (x.data->name != data || x.algorithm != &defect || x.shape.k < first) continue;
        if (!Same(x.formats, f)) continue;
        const auto& of = x.statistics.of;
        std::printf(" %.2g; %.3g, %.3g, %.3g %s |", x.statistics.rho, of[kExact].r, of[kUpper].r,
                    of[kMargins].r, FoundBy(LimitsOf(of[kUpper], x.shape)).c_str());
      }
      std::printf("\n");
    }
  }
}

void PrintBeyond(std::span<const Measured> measured, QKind kind) {
  std::printf("\nRight products beyond a threshold, with %s\n", NameOf(kind));
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
  PrintHead(
      {"formats", "data", "products", "R", "z", "group / limit", "gain / limit", "algorithms"});
  for (const auto& [name, b] : beyond) {
    std::printf("| %s | %d | %.2f | %.1f | %.2f | %.2f | %s |\n", name.c_str(), b.count, b.r, b.z,
                b.group, b.gain, b.which.c_str());
  }
}

// Defects whose least R over the K shown goes into the table of orders.
constexpr const char* kShownDefects[] = {"TF32 inputs", "fp16 sums, blocks of 16",
                                         "last product left out", "gain 2e-5"};

// What one data set in one format shows from K = 256 on. λ is the largest R of the emulated orders
// on 256 elements, over .74, which random order gives.
struct Order {
  double lambda = 0, with_w = 0, right = 0, share = 0, z = 0;
  std::map<std::string_view, double> least;

  void Add(std::span<const Measured* const> products) {
    double now = 0;
    for (const Measured* x : products) {
      if (x->algorithm->emulated) now = std::max(now, x->statistics.of[kUpper].sampled / 0.74);
    }
    lambda = std::max(lambda, now);
    const double factor = std::max(1.0, now);
    for (const Measured* x : products) {
      const Statistics::OfQ& of = x->statistics.of[kUpper];
      if (!x->algorithm->right) {
        double& r = least.try_emplace(x->algorithm->name, of.r / factor).first->second;
        r = std::min(r, of.r / factor);
        continue;
      }
      with_w = std::max(with_w, x->statistics.of[kPrefix].r);
      right = std::max(right, of.r);
      share = std::max(share, of.r / factor);
      z = std::max(z, of.z / factor);
    }
  }
};

void PrintOrders(std::span<const Measured> measured) {
  std::printf(
      "\nOrder along K, from K = 256 on, with the upper Q: lambda; R of right algorithms with W, "
      "and"
      " without it; R and z over max(1, lambda); the least R of defects over the same\n");
  std::vector<std::string> names{"formats", "data",        "lambda",     "R with W",
                                 "R",       "R / lambda'", "z / lambda'"};
  names.insert(names.end(), std::begin(kShownDefects), std::end(kShownDefects));
  PrintHead(names);
  for (const Formats& f : kFormatsTried) {
    for (const Data& data : AllData()) {
      std::map<std::int64_t, std::vector<const Measured*>> products;
      for (const Measured& x : measured) {
        if (x.data == &data && Same(x.formats, f) && x.shape.k >= 256) {
          products[x.shape.k].push_back(&x);
        }
      }
      Order order;
      for (const auto& [k, of_length] : products) order.Add(of_length);
      std::printf("| %s | %s | %.2f | %.2f | %.2f | %.2f | %.1f |", NameOf(f).c_str(), data.name,
                  order.lambda, order.with_w, order.right, order.share, order.z);
      for (const char* name : kShownDefects) {
        const auto at = order.least.find(name);
        std::printf(at == order.least.end() ? " |" : " %.3g |",
                    at == order.least.end() ? 0 : at->second);
      }
      std::printf("\n");
    }
  }
}

void PrintLost(std::span<const Measured> measured) {
  std::printf("\nLost by truncating units: the largest |e| / (K 2u_a S) from K = 256 on\n");
  std::vector<std::string> names{"unit"};
  for (const Data& data : AllData()) names.emplace_back(data.name);
  PrintHead(names);
  for (const Algorithm& algorithm : RightAlgorithms()) {
    if (algorithm.unit == Unit::kNearest) continue;
    std::printf("| %s |", algorithm.name);
    for (const Data& data : AllData()) {
      double lost = 0;
      for (const Measured& x : measured) {
        if (x.algorithm != &algorithm || x.data != &data || x.shape.k < 256) continue;
        if (x.formats.output == DType::kF32) lost = std::max(lost, x.statistics.lost);
      }
      std::printf(" %.3f |", lost);
    }
    std::printf("\n");
  }
}

}  // namespace

std::string NameOf(const Formats& f) {
  return std::string(Name(f.input)) + "->" + std::string(Name(f.output));
}

const char* NameOf(QKind kind) {
  constexpr const char* kNames[] = {"the exact Q", "the upper Q", "Q of margins", "W"};
  return kNames[kind];
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

void PrintSummary(std::span<const Measured> measured) {
  std::printf(
      "\nThe largest R of right algorithms, over algorithms and K: exact Q, upper Q, margins\n");
  std::vector<std::string> names{"data"};
  for (const Column& column : Columns()) names.push_back(column.name);
  PrintHead(names);
  for (const Data& data : AllData()) {
    std::printf("| %s |", data.name);
    for (const Column& column : Columns()) {
      const Worst w = WorstOf(measured, data, column);
      std::printf(" %.2f, %.2f, %.2f |", w.r[kExact], w.r[kUpper], w.r[kMargins]);
    }
    std::printf("\n");
  }
  PrintDefects(measured, std::span(kFormatsTried).first(1), "normal", 256);
  PrintDefects(measured, std::span(kFormatsTried).first(1), "uniform(0,1)", 256);
}

void PrintDetails(std::span<const Measured> measured) {
  PrintRight(measured);
  for (const char* data : {"normal", "uniform(0,1)", "Student t, 3", "sparse 20 %"}) {
    PrintDefects(measured, kFormatsTried, data, 0);
  }
  PrintBeyond(measured, kUpper);
  PrintBeyond(measured, kMargins);
  PrintOrders(measured);
  PrintLost(measured);
}

}  // namespace assay::experiment
