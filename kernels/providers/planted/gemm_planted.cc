// gemm, correct except for one defect; see the table. Plain loops: A and B are loaded in the
// accumulator's format, B in groups of columns, and each element is one dot product with the
// epilogue. The dot products of a group are summed side by side, each in the order of its terms.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "kernels/ops/common/load.h"
#include "kernels/providers/planted/defect.h"
#include "kernels/providers/planted/escape.h"
#include "kernels/providers/planted/factories.h"
#include "kernels/providers/planted/faults.h"
#include "kernels/providers/planted/site.h"
#include "kernels/runtime/cpu/parallel.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels::planted {
namespace {

constexpr std::string_view kNames[] = {
    // All values are right.
    "correct", "slow",
    // Operands, sums, epilogue, output.
    "wrong-tile", "dropped-tile", "stale-tile", "duplicated-tile", "dropped-k", "doubled-product",
    "short-element", "transposed-b", "wrong-ld", "dropped-bias", "epilogue-order", "wrong-scale",
    "stale-buffer", "zero-output", "constant-output",
    // Precision and single elements.
    "fp16-accumulate", "truncating-output", "tf32-inputs", "long-tf32-inputs", "tf32-a", "tf32-b",
    "two-bf16", "lost-subnormals", "output-through-fp16", "output-through-bf16", "gain", "bit-flip",
    "low-bit-flip", "nan", "nan-in-tail",
    // Memory.
    "unwritten-tail", "past-the-end", "before-the-start", "writes-padding", "reads-padding",
    "changes-input",
    // Launches.
    "nondeterministic", "race"};
using Defect = NamedDefect<kNames>;

constexpr std::int64_t kGroup = 8;      // columns that are summed side by side
constexpr std::int64_t kTile = 16;      // side of a tile of the output
constexpr std::int64_t kKTile = 32;     // terms in a tile of the sums
constexpr std::int64_t kTail = 8;       // [elements] of a row that are not written
constexpr std::size_t kOverrun = 64;    // [bytes] written outside the output
constexpr double kGained = 1 + 1e-6;    // what every element is multiplied by
constexpr int kSlowness = 20;           // slow does everything this many times
constexpr std::int64_t kRaceOdds = 50;  // one of this many launches shows the race
constexpr std::int64_t kLowBits = 12;   // bits of an fp32 mantissa that low-bit-flip may flip

enum SiteDraw : std::uint32_t {
  kRowDraw,
  kColumnDraw,
  kTermDraw,
  kBatchDraw,
  kBitDraw,
  kLaunchDraw = 1000,  // and up: one for each launch
};

// T is the accumulator. It is double for fp64 and for integers, whose sums it holds exactly.
template <class T>
class GemmKernel : public Kernel {
  // Rows whose sums with a group of columns fit into registers. A single chain of additions would
  // wait for itself.
  static constexpr std::int64_t kBeside = 16 / sizeof(T);

 public:
  GemmKernel(const GemmProblem& p, Defect defect, DType dtype, const Site& site)
      : p_(p),
        defect_(defect),
        min_normal_(Info(dtype).min_normal),
        site_(site),
        batch_(site.Draw(kBatchDraw, p.batch)),
        row_(site.Draw(kRowDraw, p.m)),
        column_(site.Draw(kColumnDraw, p.n)),
        term_(site.Draw(kTermDraw, p.k)) {}

  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    ++launches_;
    if (Is("stale-buffer")) staging_.resize(Size(kTile * kTile), T{0});
    const int rounds = Is("slow") ? kSlowness : 1;
    for (int i = 0; i < rounds; ++i) {
      for (std::int64_t b = 0; b < p_.batch; ++b) Batch(b, inputs, output);
    }
    Trespass(inputs, output);
    return absl::OkStatus();
  }

 private:
  static std::size_t Size(std::int64_t n) { return static_cast<std::size_t>(n); }
  bool Is(Defect defect) const { return defect_ == defect; }

  // Whether an element lies in the output tile of the drawn element.
  bool InTile(std::int64_t b, std::int64_t i, std::int64_t j) const {
    return b == batch_ && i / kTile == row_ / kTile && j / kTile == column_ / kTile;
  }
  bool InElement(std::int64_t b, std::int64_t i, std::int64_t j) const {
    return b == batch_ && i == row_ && j == column_;
  }

  void Batch(std::int64_t b, std::span<const TensorView> inputs, const TensorView& output) {
    const std::int64_t terms = Terms(inputs);
    const std::int64_t groups = (p_.n + kGroup - 1) / kGroup;
    const std::vector<T> rows = Rows(b, terms, inputs[0]);
    const std::vector<T> columns = Columns(b, terms, inputs[1]);
    std::vector<T> values(Size(p_.m * p_.n));
    ParallelFor(p_.m, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t first = begin; first < end; first += kBeside) {
        const std::int64_t count = std::min(kBeside, end - first);
        const T* row = &rows[Size(first * terms)];
        for (std::int64_t g = 0; g < groups; ++g) {
          const T* group = &columns[Size(g * terms * kGroup)];
          T dots[kBeside * kGroup];
          Dots(row, count, group, terms, dots);
          for (std::int64_t i = 0; i < count; ++i) {
            for (std::int64_t j = g * kGroup; j < std::min(p_.n, (g + 1) * kGroup); ++j) {
              const T sum = Sum(b, first + i, j, row + i * terms, group + j % kGroup, terms,
                                dots[i * kGroup + j % kGroup]);
              values[Size((first + i) * p_.n + j)] = Epilogue(b, first + i, j, sum, inputs);
            }
          }
        }
      }
    });
    for (std::int64_t i = 0; i < p_.m; ++i) Store(b, i, values, output);
  }

  // A, [m, terms].
  std::vector<T> Rows(std::int64_t b, std::int64_t terms, const TensorView& view) const {
    // As if there were no padding between rows.
    const std::int64_t ld = Is("wrong-ld") ? view.extents.cols : view.extents.ld;
    std::vector<T> a = Stored(view, b, ld, p_.trans_a ? p_.m : terms, "tf32-a");
    if (!p_.trans_a) return a;
    std::vector<T> rows(Size(p_.m * terms));
    for (std::int64_t i = 0; i < p_.m; ++i) {
      for (std::int64_t t = 0; t < terms; ++t) rows[Size(i * terms + t)] = a[Size(t * p_.m + i)];
    }
    return rows;
  }

  // B, [groups, terms, kGroup].
  std::vector<T> Columns(std::int64_t b, std::int64_t terms, const TensorView& view) const {
    const std::int64_t width = p_.trans_b ? terms : p_.n;
    const std::vector<T> stored = Stored(view, b, view.extents.ld, width, "tf32-b");
    // The defect reads the same storage as if it had the other two extents.
    const bool along = p_.trans_b != Is("transposed-b");
    std::vector<T> columns(Size((p_.n + kGroup - 1) / kGroup * kGroup * terms));
    for (std::int64_t j = 0; j < p_.n && along; ++j) {
      T* to = &columns[Size(j / kGroup * terms * kGroup + j % kGroup)];
      for (std::int64_t t = 0; t < terms; ++t) to[t * kGroup] = stored[Size(j * terms + t)];
    }
    for (std::int64_t j = 0; j < p_.n && !along; j += kGroup) {
      for (std::int64_t t = 0; t < terms; ++t) {
        std::copy_n(&stored[Size(t * p_.n + j)], std::min(kGroup, p_.n - j),
                    &columns[Size(j * terms + t * kGroup)]);
      }
    }
    return columns;
  }

  // The first `width` elements of each row of one batch of an operand. `alone`: the defect that
  // rounds this operand and not the other.
  std::vector<T> Stored(const TensorView& view, std::int64_t b, std::int64_t ld, std::int64_t width,
                        Defect alone) const {
    std::vector<T> values(Size(view.extents.rows * width));
    std::vector<double> line(Size(width));
    const bool changed = Is("two-bf16") || Is("lost-subnormals") || Narrows(alone);
    for (std::int64_t r = 0; r < view.extents.rows; ++r) {
      LoadDoubles(view.dtype, view.data, b * view.extents.batch_stride + r * ld, width,
                  line.data());
      std::transform(line.begin(), line.end(), &values[Size(r * width)],
                     [&](double v) { return changed ? Input(v, alone) : static_cast<T>(v); });
    }
    return values;
  }

  // The sum of an element, from its dot product or anew. `column` has its terms kGroup apart.
  T Sum(std::int64_t b, std::int64_t i, std::int64_t j, const T* row, const T* column,
        std::int64_t terms, T dot) const {
    if (Is("zero-output")) return T{0};
    const bool tile = InTile(b, i, j);
    const bool element = InElement(b, i, j);
    const bool lost = (tile && Is("dropped-tile")) || (element && (Is("short-element") || Races()));
    const bool stale = tile && Is("stale-tile");
    const bool twice = tile && Is("duplicated-tile");
    const bool doubled = element && Is("doubled-product");
    if (!lost && !stale && !twice && !doubled) return dot;
    T sum = 0;
    const auto add = [&](std::int64_t t, std::int64_t from) {
      sum += row[t] * column[from * kGroup];
    };
    for (std::int64_t t = 0; t < terms; ++t) {
      const bool here = t / kKTile == term_ / kKTile;
      if (here && lost) continue;
      // The earlier contents of the tile's buffer: the tile before, or for the first tile the next
      // one.
      const std::int64_t other = t >= kKTile ? t - kKTile : std::min(t + kKTile, terms - 1);
      add(t, here && stale ? other : t);
      if ((here && twice) || (t == term_ && doubled)) add(t, t);
    }
    return sum;
  }

  // The dot products of kBeside rows at most, behind one another, and a group of columns.
  void Dots(const T* rows, std::int64_t count, const T* group, std::int64_t terms, T* dots) const {
    const bool narrow = Is("fp16-accumulate");
    if (count == kBeside && !narrow) return SumBeside<kBeside>(rows, group, terms, dots);
    for (std::int64_t i = 0; i < count; ++i) {
      if (narrow) {
        SumNarrowly(rows + i * terms, group, terms, dots + i * kGroup);
      } else {
        SumBeside<1>(rows + i * terms, group, terms, dots + i * kGroup);
      }
    }
  }

  template <std::int64_t kRows>
  void SumBeside(const T* rows, const T* group, std::int64_t terms, T* dots) const {
    using Columns [[gnu::vector_size(kGroup * sizeof(T))]] = T;
    const bool backwards = Is("nondeterministic") && launches_ % 2 == 0;
    Columns sums[kRows] = {};
    for (std::int64_t i = 0; i < terms; ++i) {
      const std::int64_t t = backwards ? terms - 1 - i : i;
      Columns column;
      std::memcpy(&column, group + t * kGroup, sizeof column);
#pragma GCC unroll 4
      for (std::int64_t r = 0; r < kRows; ++r) sums[r] += rows[r * terms + t] * column;
    }
    std::memcpy(dots, sums, sizeof sums);
  }

  static void SumNarrowly(const T* row, const T* group, std::int64_t terms, T* dots) {
    T sums[kGroup] = {};
    for (std::int64_t t = 0; t < terms; ++t) {
      for (std::int64_t j = 0; j < kGroup; ++j) {
        sums[j] = ToHalf(sums[j] + row[t] * group[t * kGroup + j]);
      }
    }
    std::copy_n(sums, kGroup, dots);
  }

  bool Races() const {
    return Is("race") &&
           site_.Draw(kLaunchDraw + static_cast<std::uint32_t>(launches_), kRaceOdds) == 0;
  }

  // act(alpha·scale_a·scale_b·s_j·sum + beta·c + bias_j).
  T Epilogue(std::int64_t b, std::int64_t i, std::int64_t j, T sum,
             std::span<const TensorView> inputs) const {
    std::size_t next = 2;
    T value =
        static_cast<T>(p_.alpha) * static_cast<T>(p_.scale_a) * static_cast<T>(p_.scale_b) * sum;
    const T addend = p_.beta != 0.0 ? static_cast<T>(p_.beta * Get(inputs[next++], b, i, j)) : T{0};
    if (p_.channel_scale) {
      const std::int64_t channel = Is("wrong-scale") ? (j + 1) % p_.n : j;
      value *= static_cast<T>(Get(inputs[next++], channel));
    }
    value += addend;
    if (p_.bias && !Is("dropped-bias")) {
      const T bias = static_cast<T>(Get(inputs[next], j));
      if (Is("epilogue-order")) return Activate(value) + bias;
      value += bias;
    }
    return Activate(value);
  }

  T Activate(T v) const {
    if (p_.activation == "relu") return std::max(v, T{0});
    if (p_.activation == "gelu") {
      return v * T{0.5} * (T{1} + std::erf(v * static_cast<T>(0.70710678118654752440)));
    }
    if (p_.activation == "gelu_tanh") {
      const T inner =
          static_cast<T>(0.79788456080286535588) * (v + static_cast<T>(0.044715) * v * v * v);
      return v * T{0.5} * (T{1} + std::tanh(inner));
    }
    return v;
  }

  void Store(std::int64_t b, std::int64_t i, const std::vector<T>& values,
             const TensorView& output) {
    const std::int64_t written =
        Is("unwritten-tail") ? std::max<std::int64_t>(p_.n - kTail, 0) : p_.n;
    const std::int64_t tail = p_.n / kTile * kTile;  // where the last, partial tile begins
    for (std::int64_t j = 0; j < written; ++j) {
      const std::int64_t from = Is("constant-output") ? 0 : i * p_.n + Column(b, i, j);
      T v = values[Size(from)];
      if (Is("stale-buffer") && InTile(b, i, j)) {
        std::swap(v, staging_[Size(i % kTile * kTile + j % kTile)]);
      }
      const bool nan = (Is("nan") && InElement(b, i, j)) ||
                       (Is("nan-in-tail") && b == batch_ && i == row_ && j >= tail);
      const double value = nan ? std::nan("") : Result(static_cast<double>(v));
      std::uint64_t bits = Is("truncating-output") ? Truncated(value, output.dtype)
                                                   : RoundToFormat(value, output.dtype);
      if (InElement(b, i, j)) bits ^= Flipped();
      PutBits(output, b, i, j, bits);
    }
  }

  // A result on its way to the output.
  double Result(double v) const {
    if (Is("output-through-fp16")) return Quantise(v, DType::kF16);
    if (Is("output-through-bf16")) return Quantise(v, DType::kBF16);
    return Is("gain") ? v * kGained : v;
  }

  // The bits of the drawn element's code that are flipped.
  std::uint64_t Flipped() const {
    if (Is("bit-flip")) return std::uint64_t{2};
    if (Is("low-bit-flip")) return std::uint64_t{1} << site_.Draw(kBitDraw, kLowBits);
    return 0;
  }

  // The column whose value goes to column j. In a wrong tile it is that of the neighbouring tile.
  std::int64_t Column(std::int64_t b, std::int64_t i, std::int64_t j) const {
    if (!Is("wrong-tile") || !InTile(b, i, j)) return j;
    return (j + std::min(kTile, p_.n / 2)) % p_.n;
  }

  // The number of terms in a sum.
  std::int64_t Terms(std::span<const TensorView> inputs) const {
    if (Is("dropped-k")) return p_.k - 1;
    const bool rows = !p_.trans_a && p_.trans_b;  // k lies along the rows of both
    if (!Is("reads-padding") || !rows) return p_.k;
    return std::min(inputs[0].extents.ld, inputs[1].extents.ld);
  }

  T Input(double v, Defect alone) const {
    if (Is("two-bf16")) {
      const double high = Quantise(v, DType::kBF16);
      return static_cast<T>(high + Quantise(v - high, DType::kBF16));
    }
    if (Is("lost-subnormals") && std::abs(v) < min_normal_) return T{0};
    return static_cast<T>(Narrows(alone) ? Quantise(v, DType::kTF32) : v);
  }
  bool Narrows(Defect alone) const {
    return Is("tf32-inputs") || Is("long-tf32-inputs") || Is(alone);
  }

  // Writes outside the output, or changes an input.
  void Trespass(std::span<const TensorView> inputs, const TensorView& output) const {
    auto* first = output.as<unsigned char>();
    if (Is("past-the-end")) std::memset(first + output.bytes(), 0, kOverrun);
    if (Is("before-the-start")) std::memset(first - kOverrun, 0, kOverrun);
    if (Is("writes-padding") && output.extents.ld > output.extents.cols) {
      Put(output, 0, 0, output.extents.cols, 1.0);
    }
    if (Is("changes-input")) {
      Put(inputs[0], 0, 0, 0, Get(inputs[0], 0, 0, 0) == 1.0 ? 2.0 : 1.0);
    }
  }

  GemmProblem p_;
  Defect defect_;
  double min_normal_;  // of the inputs'
  Site site_;
  // The element of the defect, or an element of its tile.
  std::int64_t batch_, row_, column_, term_;
  std::vector<T> staging_;  // the tile of the launch before; 0 at first
  int launches_ = 0;
};

// Whether the plan has the operands of the epilogue.
bool HasEpilogueOperands(const GemmProblem& p, const Plan& plan) {
  const std::size_t asked =
      2 + std::size_t{p.beta != 0.0} + std::size_t{p.channel_scale} + std::size_t{p.bias};
  return plan.inputs.size() == asked;
}

// What this problem lacks for the defect to show; empty if it lacks nothing.
std::string_view MissingFor(Defect defect, const GemmProblem& p, const Plan& plan) {
  const bool padded = std::any_of(plan.inputs.begin(), plan.inputs.end(),
                                  [](const Operand& o) { return o.extents.ld > o.extents.cols; });
  const bool padded_output = plan.output.extents.ld > plan.output.extents.cols;
  const bool activated = p.activation != "none" && !p.activation.empty();
  if (defect == "dropped-bias" && !p.bias) return "a bias";
  if (defect == "epilogue-order" && !(p.bias && activated)) return "a bias and an activation";
  if (defect == "wrong-scale" && !p.channel_scale) return "a scale for each channel";
  if ((defect == "wrong-ld" || defect == "reads-padding") && !padded) {
    return "leading dimensions beyond the rows of its inputs";
  }
  if (defect == "writes-padding" && !padded_output) {
    return "a leading dimension beyond the rows of its output";
  }
  if (defect == "nan-in-tail" && p.n % kTile == 0) return "a partial tile of columns";
  return "";
}

}  // namespace

Made MakeGemm(const Case& c, const Plan& plan, Device&) {
  const std::string_view wanted = DefectOf(c);
  if (std::unique_ptr<Kernel> fault = MakeFault(wanted)) return fault;
  if (wanted == "escape") return MakeEscape();
  const std::optional<Defect> defect = Defect::Find(wanted);
  if (!defect) return MakeHiddenGemm(c, plan);
  const auto& p = std::get<GemmProblem>(c.problem);
  if (!HasEpilogueOperands(p, plan)) {
    return absl::UnimplementedError(Cat(c.provider, " gemm has no such epilogue"));
  }
  if (const std::string_view missing = MissingFor(*defect, p, plan); !missing.empty()) {
    return absl::UnimplementedError(
        Cat(c.provider, " gemm is wrong only with ", missing, ", and this problem has none"));
  }
  const DType dtype = plan.inputs[0].dtype;
  if (dtype == DType::kF64 || Info(dtype).is_integer) {
    return std::make_unique<GemmKernel<double>>(p, *defect, dtype, Site(c));
  }
  return std::make_unique<GemmKernel<float>>(p, *defect, dtype, Site(c));
}

}  // namespace assay::kernels::planted
