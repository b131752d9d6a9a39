// What is usually wrong with a matrix product.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <variant>

#include "absl/strings/str_format.h"
#include "kernels/numerics/convert.h"
#include "kernels/ops/case.h"
#include "kernels/ops/gemm/gemm_suspects.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

// Errors of a simulated accumulator and the seen ones are of one size within this.
constexpr double kAlike = 1.5;

// What the size of errors alone tells.
constexpr std::string_view kNarrowSomewhere =
    "the accumulator is not FP32, or the results pass through a narrower format on their way";

// The products behind elements, in the order of k. Suspects look at the same elements, so those of
// the last few are kept.
class Products {
 public:
  explicit Products(const Scene& scene)
      : p_(std::get<GemmProblem>(scene.c.problem)), inputs_(scene.inputs) {}

  const std::vector<double>& Of(std::int64_t index) {
    constexpr std::size_t kMostKept = 16;
    if (const auto found = kept_.find(index); found != kept_.end()) return found->second;
    if (kept_.size() == kMostKept) kept_.clear();
    const std::int64_t batch = index / (p_.m * p_.n);
    const std::int64_t i = index / p_.n % p_.m;
    const std::int64_t j = index % p_.n;
    std::vector<double> a = Vector(0, batch, i, p_.m, !p_.trans_a);
    const std::vector<double> b = Vector(1, batch, j, p_.n, p_.trans_b);
    for (std::size_t k = 0; k < a.size(); ++k) a[k] *= b[k];
    return kept_[index] = std::move(a);
  }

 private:
  // The k elements of one row of op(A), or one column of op(B).
  std::vector<double> Vector(int operand, std::int64_t batch, std::int64_t at, std::int64_t extent,
                             bool along) const {
    std::vector<double> v(static_cast<std::size_t>(p_.k));
    if (along) {
      inputs_.Read(operand, (batch * extent + at) * p_.k, p_.k, v.data());
      return v;
    }
    // Short lines are read whole, many at a time.
    constexpr std::int64_t kShort = 64, kLines = 256;
    const bool whole = extent <= kShort;
    const std::int64_t width = whole ? extent : 1, step = whole ? kLines : 1;
    const std::int64_t from = whole ? at : 0;
    std::vector<double> lines(static_cast<std::size_t>(step * width));
    for (std::int64_t k = 0; k < p_.k; k += step) {
      const std::int64_t count = std::min(step, p_.k - k);
      inputs_.Read(operand, (batch * p_.k + k) * extent + at - from, count * width, lines.data());
      for (std::int64_t i = 0; i < count; ++i) {
        v[static_cast<std::size_t>(k + i)] = lines[static_cast<std::size_t>(i * width + from)];
      }
    }
    return v;
  }

  const GemmProblem& p_;
  const HostInputs& inputs_;
  std::map<std::int64_t, std::vector<double>> kept_;
};

// D = factor·Σ + …: what an error of the sum becomes. Nothing where a column or an
// activation has a say in it.
std::optional<double> SumFactor(const GemmProblem& p) {
  if (p.channel_scale || p.activation != "none") return std::nullopt;
  return p.alpha * p.scale_a * p.scale_b;
}

// A stretch of k that is left out, or counted twice.
struct Stretch {
  std::int64_t width = 0;
  std::int64_t at = 0;  // in widths
  int sign = 0;         // -1 left out, +1 twice

  auto operator<=>(const Stretch&) const = default;  // NOLINT(modernize-use-nullptr)
};

std::set<Stretch> StretchesOf(const std::vector<double>& products, double error, double bound) {
  std::set<Stretch> found;
  const auto k = static_cast<std::int64_t>(products.size());
  for (std::int64_t width = 1; width < k; width *= 2) {
    for (std::int64_t at = 0; at * width < k; ++at) {
      double sum = 0;
      for (std::int64_t t = at * width; t < std::min(k, (at + 1) * width); ++t) {
        sum += products[static_cast<std::size_t>(t)];
      }
      for (const int sign : {-1, 1}) {
        if (std::abs(error - sign * sum) <= bound) found.insert({width, at, sign});
      }
    }
  }
  return found;
}

std::string Name(const Stretch& s, std::int64_t k) {
  const std::int64_t first = s.at * s.width;
  const std::int64_t last = std::min(k, first + s.width) - 1;
  std::string what =
      first == last ? Cat("the term k = ", first) : Cat("the terms k = ", first, " to ", last);
  if (last == k - 1) {
    what = first == last ? "the last term of each sum"
                         : Cat("the last ", last - first + 1, " terms of each sum");
  }
  return Cat(what, first == last ? " is" : " are", s.sign < 0 ? " left out" : " counted twice");
}

// The same stretch of k is wrong in every element.
Suspect WrongStretch(const Scene& scene, std::shared_ptr<Products> products) {
  Suspect suspect;
  suspect.next_step =
      "look at the bounds of the loop over k: its last iteration, its remainder, and the tile "
      "that is prefetched";
  suspect.test = [&scene, products = std::move(products)](
                     std::span<const WrongElement> elements) -> std::optional<Proof> {
    const auto& p = std::get<GemmProblem>(scene.c.problem);
    const std::optional<double> factor = SumFactor(p);
    if (!factor.has_value() || *factor == 0.0) return std::nullopt;
    std::optional<std::set<Stretch>> common;
    for (const WrongElement& e : elements) {
      const std::set<Stretch> found =
          StretchesOf(products->Of(e.index), (e.actual - e.expected) / *factor,
                      scene.plan.exact ? 0.25 : 1.5 * e.bound / std::abs(*factor));
      if (!common.has_value()) {
        common = found;
        continue;
      }
      std::set<Stretch> both;
      std::set_intersection(common->begin(), common->end(), found.begin(), found.end(),
                            std::inserter(both, both.end()));
      common = std::move(both);
      if (common->empty()) return std::nullopt;
    }
    // One explanation only, else none is proven. A last stretch shows at many widths.
    std::set<std::pair<std::int64_t, std::int64_t>> extents;
    for (const Stretch& s : *common) {
      extents.insert({s.at * s.width, std::min(p.k, (s.at + 1) * s.width)});
    }
    if (extents.size() != 1) return std::nullopt;
    return Proof{Cat("so in ", elements.size(), " of ", elements.size(), " sampled elements"),
                 Name(*common->begin(), p.k), false};
  };
  return suspect;
}

// Whether all of them are numbers of a format with fewer digits than the output's. Of an output
// that is not kept in that format, chance does not make them so.
bool AllAreNumbersOf(DType format, DType output, std::span<const WrongElement> elements) {
  return Info(format).mantissa_bits < Info(output).mantissa_bits &&
         std::all_of(elements.begin(), elements.end(), [format](const WrongElement& e) {
           return Quantise(e.actual, format) == e.actual;
         });
}

// Sums kept in a format narrower than fp32: the errors are of the size that gives. Size alone names
// no format, because other errors have it by chance.
Suspect NarrowAccumulator(const Scene& scene, std::shared_ptr<Products> products, DType format) {
  Suspect suspect;
  suspect.reads_as = Cat("the sums are kept in ", Name(format),
                         ": the accumulator is not FP32, and the error grows with k");
  suspect.next_step =
      "accumulate in FP32 (the library's compute type, the type of the accumulator's registers) "
      "and round once at the end";
  suspect.test = [&scene, products = std::move(products),
                  format](std::span<const WrongElement> elements) -> std::optional<Proof> {
    const auto& p = std::get<GemmProblem>(scene.c.problem);
    const std::optional<double> factor = SumFactor(p);
    if (!factor.has_value() || scene.plan.exact || p.k < 16) return std::nullopt;
    double seen = 0;
    double simulated = 0;
    double magnitude = 0;
    double bounds = 0;
    std::size_t same = 0;
    std::size_t telling = 0;
    for (const WrongElement& e : elements) {
      double narrow = 0;
      double exact = 0;
      for (const double product : products->Of(e.index)) {
        narrow = Quantise(narrow + product, format);
        exact += product;
      }
      if (!std::isfinite(narrow)) return std::nullopt;
      const double error = *factor * (narrow - exact);
      seen += (e.actual - e.expected) * (e.actual - e.expected);
      simulated += error * error;
      magnitude += e.expected * e.expected;
      bounds += e.bound * e.bound;
      if (std::abs(e.actual - e.expected - error) <= e.bound) ++same;
      // What would be accepted as right as well tells nothing.
      if (std::abs(error) > e.bound) ++telling;
    }
    const auto n = static_cast<double>(elements.size());
    seen = std::sqrt(seen / n);
    simulated = std::sqrt(simulated / n);
    if (same == elements.size() && 2 * telling >= elements.size()) {
      return Proof{Cat(same, " of ", same, " sampled elements are what sums in ", Name(format),
                       ", term after term, give"),
                   "", false};
    }
    // Another order of the sum gives other errors of the same size.
    const bool alike = seen <= kAlike * simulated && simulated <= kAlike * seen;
    const bool small = seen < 0.25 * std::sqrt(magnitude / n);
    // Such sums must be able to pass their bounds, else something else did.
    const bool able = simulated >= 0.75 * std::sqrt(bounds / n);
    if (!alike || !small || !able) return std::nullopt;
    const bool named = AllAreNumbersOf(format, scene.plan.output.dtype, elements);
    return Proof{absl::StrFormat("the errors are of the size that gives: %.2g rms, %.2g simulated",
                                 seen, simulated),
                 named ? "" : std::string(kNarrowSomewhere), true};
  };
  return suspect;
}

// An operand with leading dimension beyond its extent, read as if it were dense.
AlteredInputs::Reader IgnoringLeadingDimension(const Scene& scene, std::size_t operand) {
  const Operand& o = scene.plan.inputs[operand];
  return [&scene, &o, operand](std::string_view name, std::int64_t begin, std::int64_t count,
                               double* out) {
    if (name != o.name) return false;
    const Extents& e = o.extents;
    // Padding is all ones, in every format.
    const std::uint64_t ones = ~std::uint64_t{0} >> (64 - Info(o.dtype).storage_bits);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t at = begin + i;
      const std::int64_t batch = at / (e.rows * e.cols);
      const std::int64_t offset = at % (e.rows * e.cols);
      const std::int64_t row = offset / e.ld;
      const std::int64_t col = offset % e.ld;
      if (col >= e.cols) {
        out[i] = ToDouble(o.dtype, ones);
      } else {
        scene.inputs.Read(static_cast<int>(operand), (batch * e.rows + row) * e.cols + col, 1,
                          out + i);
      }
    }
    return true;
  };
}

// A and B rounded to a narrower format before they are multiplied.
AlteredInputs::Reader Rounded(const Scene& scene, DType format) {
  return
      [&scene, format](std::string_view name, std::int64_t begin, std::int64_t count, double* out) {
        if (name != "a" && name != "b") return false;
        scene.inputs.Read(name == "a" ? 0 : 1, begin, count, out);
        for (std::int64_t i = 0; i < count; ++i) out[i] = Quantise(out[i], format);
        return true;
      };
}

// The suspects of one case, in the order in which they are tried.
class GemmSuspectList {
 public:
  explicit GemmSuspectList(const Scene& scene)
      : scene_(scene),
        p_(std::get<GemmProblem>(scene.c.problem)),
        products_(std::make_shared<Products>(scene)) {}

  // Strides are those of the shape as it is; read otherwise it is dense.
  void AddLayouts() {
    Altered(
        [](GemmProblem& g) {
          g.trans_b = !g.trans_b;
          g.ldb = g.stride_b = 0;
        },
        "B is read in the other order: rows taken for columns",
        "look at the operand's layout flag (trans_b) and at which extent its rows have");
    Altered(
        [](GemmProblem& g) {
          g.trans_a = !g.trans_a;
          g.lda = g.stride_a = 0;
        },
        "A is read in the other order: rows taken for columns",
        "look at the operand's layout flag (trans_a) and at which extent its rows have");
    for (const std::size_t operand : {std::size_t{0}, std::size_t{1}}) {
      const Operand& o = scene_.plan.inputs[operand];
      if (o.extents.ld == o.extents.cols) continue;
      Altered([](GemmProblem&) {},
              Cat(operand == 0 ? "A" : "B", "'s leading dimension is taken for its extent: ",
                  o.extents.cols, " in place of ", o.extents.ld),
              "pass the leading dimension itself to the loads, not the number of columns",
              IgnoringLeadingDimension(scene_, operand));
    }
  }

  void AddFactors() {
    if (p_.beta != 0.0) {
      Altered([](GemmProblem& g) { g.beta = 0; }, "the addend beta·C is left out",
              "look at the epilogue: where beta is read, and whether C is");
      if (p_.beta != 1.0) {
        Altered([](GemmProblem& g) { g.beta = 1; }, "beta is taken for 1",
                "look at the epilogue: where beta is read");
      }
    }
    if (p_.alpha != 1.0) {
      Altered([](GemmProblem& g) { g.alpha = 1; }, "alpha is taken for 1",
              "look at the epilogue: where alpha is applied");
    }
    if (p_.scale_a != 1.0) {
      Altered([](GemmProblem& g) { g.scale_a = 1; }, "A's scale is left out",
              "multiply by scale_a in the epilogue, before anything is added");
    }
    if (p_.scale_b != 1.0) {
      Altered([](GemmProblem& g) { g.scale_b = 1; }, "B's scale is left out",
              "multiply by scale_b in the epilogue, before anything is added");
    }
  }

  void AddColumns() {
    if (p_.channel_scale) {
      Altered([](GemmProblem& g) { g.channel_scale = false; },
              "the scale of each column is left out",
              "multiply column j by channel_scale[j] before anything is added");
    }
    if (p_.bias) {
      Altered([](GemmProblem& g) { g.bias = false; }, "the bias is left out",
              "add bias[j] to column j before the activation");
    }
    if (p_.activation == "none") return;
    for (const char* other : {"none", "relu", "gelu", "gelu_tanh"}) {
      if (p_.activation == other) continue;
      Altered([other](GemmProblem& g) { g.activation = other; },
              other == std::string_view("none")
                  ? Cat("the activation ", p_.activation, " is left out")
                  : Cat("the activation is ", other, ", not ", p_.activation),
              "look at which activation the epilogue is built with");
    }
  }

  void AddStretch() { list_.push_back(WrongStretch(scene_, products_)); }

  void AddFormats() {
    const DType dtype = scene_.c.dtype;
    if (dtype == DType::kF32 || dtype == DType::kF64) {
      for (const DType format : {DType::kF32, DType::kTF32, DType::kBF16, DType::kF16}) {
        if (format == dtype) continue;
        Altered([](GemmProblem&) {},
                Cat("the operands are rounded to ", Name(format), " before they are multiplied"),
                Cat("turn the library's ", Name(format), " mode off, or ask for ", Name(format),
                    " and its bounds"),
                Rounded(scene_, format));
      }
    }
    if (Info(dtype).storage_bits <= 32 && !Info(dtype).is_integer) {
      list_.push_back(NarrowAccumulator(scene_, products_, DType::kF16));
      list_.push_back(NarrowAccumulator(scene_, products_, DType::kBF16));
    }
  }

  std::vector<Suspect> Take() { return std::move(list_); }

 private:
  template <typename Change>
  void Altered(Change change, std::string reads_as, std::string next_step,
               AlteredInputs::Reader read = nullptr) {
    list_.push_back(AlteredProblem<GemmProblem>(scene_, change, std::move(reads_as),
                                                std::move(next_step), std::move(read)));
  }

  const Scene& scene_;
  const GemmProblem& p_;
  const std::shared_ptr<Products> products_;
  std::vector<Suspect> list_;
};

}  // namespace

std::vector<Suspect> GemmSuspects(const Scene& scene) {
  GemmSuspectList suspects(scene);
  suspects.AddLayouts();
  suspects.AddFactors();
  suspects.AddColumns();
  suspects.AddStretch();
  suspects.AddFormats();
  return suspects.Take();
}

}  // namespace assay::kernels
