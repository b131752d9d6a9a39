#include "kernels/checksum/checksum.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "kernels/checksum/checksum_probes.h"
#include "kernels/numerics/bound.h"
#include "kernels/numerics/convert.h"
#include "kernels/ops/gemm/gemm_reference.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

// Standard deviation of rounding to nearest over u_o·|r|, at least.
constexpr double kRoundingSigma = 0.25;
constexpr double kOwnRoundoff = 0x1p-53;
// What FP64 holds of whole numbers.
constexpr double kExactLimit = 0x1p53;
// Streams of the random vectors; operands are 0, 1, 2, ….
constexpr std::uint32_t kRightStream = 0x63680000;
constexpr std::uint32_t kLeftStream = 0x63690000;
// Suspicious lines of each side that are tried as coordinates of one element.
constexpr std::size_t kMeetings = 8;

using Vector = std::vector<double>;

std::size_t Size(std::int64_t n) { return static_cast<std::size_t>(n); }

// Whether a pattern gives whole numbers only; formats round them to whole numbers.
bool IsWhole(const Pattern& p) {
  const auto whole = [](double v) { return v == std::nearbyint(v); };
  switch (p.kind) {
    case PatternKind::kIntegers:
    case PatternKind::kZeros:
    case PatternKind::kOnes:
    case PatternKind::kDiagonal:
    case PatternKind::kCheckerboard:
    case PatternKind::kBernoulli:
    case PatternKind::kExactSparse:
    case PatternKind::kExactInts:
      return true;
    case PatternKind::kConstant:
    case PatternKind::kOneHot:
    case PatternKind::kOneLarge:
      return whole(p.a) && whole(p.b);
    default:
      return false;
  }
}

// Largest magnitude up to which a format holds every whole number.
double WholeLimit(DType t) {
  const FormatInfo& f = Info(t);
  return f.is_integer ? f.max_finite : std::min(std::ldexp(1.0, f.mantissa_bits + 1), f.max_finite);
}

class Measurement {
 public:
  Measurement(const Case& c, const Plan& plan, Device& device, std::span<const TensorView> inputs,
              const TensorView& output, bool flushes)
      : p_(std::get<GemmProblem>(c.problem)),
        plan_(plan),
        device_(device),
        inputs_(inputs),
        output_(output),
        probes_(c.checksum_probes > 0 ? c.checksum_probes : kDefaultChecksumProbes),
        seed_(c.seed.value_or(1)),
        epilogue_(MakeGemmEpilogue(c, plan)),
        rounding_(OutputRoundingOf(plan.output.dtype, flushes)),
        rows_(p_.batch, p_.m, probes_),
        columns_(p_.batch, p_.n, probes_) {}

  absl::StatusOr<ChecksumMeasures> Run() {
    if (absl::Status s = ReadColumns(); !s.ok()) return s;
    x_ = RandomSigns(seed_, kRightStream, probes_, p_.n);
    w_ = RandomSigns(seed_, kLeftStream, probes_, p_.m);
    Vector scaled = x_;
    for (std::size_t i = 0; double& v : scaled) v *= scale_[i++ % scale_.size()];
    const ProbedMatrices a(device_, inputs_[0], p_.trans_a, probes_);
    const ProbedMatrices b(device_, inputs_[1], p_.trans_b, probes_);
    absl::StatusOr<ProbedProduct> product = ProbeProduct(a, b, scaled, w_);
    if (!product.ok()) return product.status();

    const ChecksumAsked all{.right = &x_, .left = &w_, .squares = true};
    ChecksumSums addend;
    if (p_.beta != 0.0) {
      absl::StatusOr<ChecksumSums> sums =
          ProbedMatrices(device_, inputs_[2], false, probes_).Pass(all);
      if (!sums.ok()) return sums.status();
      addend = *std::move(sums);
    }
    ChecksumAsked counted = all;
    counted.counts = true;
    absl::StatusOr<ChecksumSums> output =
        ProbedMatrices(device_, output_, false, probes_).Pass(counted);
    if (!output.ok()) return output.status();

    ChecksumMeasures m;
    m.probes = probes_;
    exact_ = IsExact(*product, addend);
    m.exact = exact_;
    Rows(*product, addend, *output);
    Columns(*product, addend, *output);
    m.rows = rows_.Judge();
    m.columns = columns_.Judge();
    m.located = Meet(m);
    m.output = *std::move(output);
    for (Vector* v : {&m.output.row_products, &m.output.col_products, &m.output.row_squares,
                      &m.output.col_squares}) {
      *v = {};
    }
    if (!product->finite || !AllFinite(addend.row_squares)) {
      if (absl::Status s = CountNonFinite(m.input_non_finite); !s.ok()) return s;
    }
    return m;
  }

 private:
  // Scales and biases of the columns.
  absl::Status ReadColumns() {
    scale_.assign(Size(p_.n), 1.0);
    bias_.assign(Size(p_.n), 0.0);
    const auto read = [&](int operand, Vector& to) -> absl::Status {
      const TensorView& view = inputs_[static_cast<std::size_t>(operand)];
      std::vector<unsigned char> raw(Size(StorageBytes(view.dtype, p_.n)));
      if (absl::Status s = device_.ToHost(view, 0, p_.n, raw.data()); !s.ok()) return s;
      for (std::int64_t j = 0; j < p_.n; ++j) to[Size(j)] = LoadDouble(view.dtype, raw.data(), j);
      return absl::OkStatus();
    };
    if (p_.channel_scale) {
      if (absl::Status s = read(p_.channel_scale_operand(), scale_); !s.ok()) return s;
    }
    if (p_.bias) {
      if (absl::Status s = read(p_.bias_operand(), bias_); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

  // Whether every sum is exact, in the kernel whatever its order, and here.
  bool IsExact(const ProbedProduct& product, const ChecksumSums& addend) const {
    if (!product.finite) return false;
    const double lines = std::sqrt(static_cast<double>(std::max(p_.m, p_.n)));
    const double sums =
        std::max(Largest(product.row_norm), Largest(product.col_norm)) +
        std::sqrt(std::max(Largest(addend.row_squares), Largest(addend.col_squares)));
    if (!(lines * sums < kExactLimit)) return false;
    if (plan_.exact && Info(plan_.output.dtype).is_integer) return true;
    // What a declared transform or split makes of the operands has sums of its own.
    if (plan_.operand_roundoff > 0) return false;
    if (!epilogue_.plain || !IsWhole(plan_.inputs[0].pattern) ||
        !IsWhole(plan_.inputs[1].pattern)) {
      return false;
    }
    const DType input = plan_.inputs[0].dtype;
    double held = WholeLimit(input == DType::kF64 ? DType::kF64 : DType::kF32);
    if (const double u = AccumulatorOf(input, plan_.accumulator).roundoff; u > 0) {
      held = std::min(held, 1.0 / u);
    }
    return product.largest <= std::min(held, WholeLimit(plan_.output.dtype));
  }

  // Norm of a line's error allowances, from norms of its terms: E is a sum of magnitudes,
  // so that the norm of the sum is at most the sum of the norms. `length` elements.
  double Allowance(double product, double addend, double scale, double bias,
                   std::int64_t length) const {
    GemmEpilogue e = epilogue_;
    e.factor = std::abs(e.factor);
    e.beta = std::abs(e.beta);
    if (!std::isfinite(e.Sum(product, addend, scale, bias))) return product;  // not finite
    const double constant = e.Allowance(0.0, 0.0, 0.0, scale, 0.0);
    const double each = e.Allowance(product, product, addend, scale, bias) +
                        (std::sqrt(static_cast<double>(length)) - 1.0) * constant;
    return plan_.zero_mean_random ? each : plan_.proven_factor * each;
  }

  // Thresholds of a line: `norm` of the output's elements in it, and of its terms.
  void SetThreshold(ChecksumResiduals& side, std::int64_t b, std::int64_t i, double norm,
                    double product, double addend, double scale, double bias, std::int64_t length) {
    if (exact_) return;  // 0
    const double root = std::sqrt(static_cast<double>(length));
    const double terms = std::abs(epilogue_.factor) * scale * product +
                         std::abs(epilogue_.beta) * addend + bias + norm;
    const double own = kChecksumRigorous * kOwnRoundoff *
                       (root + kChecksumRigorous * std::sqrt(static_cast<double>(p_.k))) * terms;
    const double rounding = rounding_.u * norm + root * rounding_.half_quantum;
    side.SetThreshold(
        b, i,
        kChecksumRigorous * (rounding + Allowance(product, addend, scale, bias, length)) + own,
        kRoundingSigma * rounding + own / kChecksumRigorous);
  }

  void Rows(const ProbedProduct& product, const ChecksumSums& addend, const ChecksumSums& out) {
    double scale = 0, bias = 0;
    for (double s : scale_) scale = std::max(scale, std::abs(s));
    for (double v : bias_) bias += v * v;
    bias = std::sqrt(bias);
    for (std::int64_t b = 0; b < p_.batch; ++b) {
      for (int p = 0; p < probes_; ++p) {
        const double shift =
            std::inner_product(bias_.begin(), bias_.end(), x_.data() + p * p_.n, 0.0);
        for (std::int64_t i = 0; i < p_.m; ++i) {
          const std::size_t at = Size((b * probes_ + p) * p_.m + i);
          const double c0 =
              addend.row_products.empty() ? 0.0 : epilogue_.beta * addend.row_products[at];
          rows_.residual(b, p, i) =
              out.row_products[at] - (epilogue_.factor * product.rows[at] + c0 + shift);
        }
      }
      for (std::int64_t i = 0; i < p_.m; ++i) {
        const std::size_t at = Size(b * p_.m + i);
        const double c0 = addend.row_squares.empty() ? 0.0 : std::sqrt(addend.row_squares[at]);
        SetThreshold(rows_, b, i, std::sqrt(out.row_squares[at]), product.row_norm[at], c0, scale,
                     bias, p_.n);
      }
    }
  }

  void Columns(const ProbedProduct& product, const ChecksumSums& addend, const ChecksumSums& out) {
    for (std::int64_t b = 0; b < p_.batch; ++b) {
      for (int p = 0; p < probes_; ++p) {
        const double* w = w_.data() + p * p_.m;
        const double sum = std::accumulate(w, w + p_.m, 0.0);
        for (std::int64_t j = 0; j < p_.n; ++j) {
          const std::size_t at = Size((b * probes_ + p) * p_.n + j);
          const double c0 =
              addend.col_products.empty() ? 0.0 : epilogue_.beta * addend.col_products[at];
          columns_.residual(b, p, j) =
              out.col_products[at] - (epilogue_.factor * scale_[Size(j)] * product.columns[at] +
                                      c0 + bias_[Size(j)] * sum);
        }
      }
      for (std::int64_t j = 0; j < p_.n; ++j) {
        const std::size_t at = Size(b * p_.n + j);
        const double c0 = addend.col_squares.empty() ? 0.0 : std::sqrt(addend.col_squares[at]);
        SetThreshold(columns_, b, j, std::sqrt(out.col_squares[at]), product.col_norm[at], c0,
                     std::abs(scale_[Size(j)]),
                     std::sqrt(static_cast<double>(p_.m)) * std::abs(bias_[Size(j)]), p_.m);
      }
    }
  }

  // The element whose error explains a suspicious row and a suspicious column along
  // every probe; none where there is no such pair.
  std::vector<std::int64_t> Meet(const ChecksumMeasures& m) {
    for (std::size_t r = 0; r < std::min(kMeetings, m.rows.lines.size()); ++r) {
      for (std::size_t c = 0; c < std::min(kMeetings, m.columns.lines.size()); ++c) {
        const ChecksumLine& row = m.rows.lines[r];
        const ChecksumLine& column = m.columns.lines[c];
        if (row.batch != column.batch || !OneError(row, column)) continue;
        if (p_.batch == 1) return {row.index, column.index};
        return {row.batch, row.index, column.index};
      }
    }
    return {};
  }

  bool OneError(const ChecksumLine& row, const ChecksumLine& column) {
    Vector seen;
    double error = 0;
    for (int p = 0; p < probes_; ++p) {
      seen.push_back(rows_.residual(row.batch, p, row.index) * x_[Size(p * p_.n + column.index)]);
      seen.push_back(columns_.residual(row.batch, p, column.index) *
                     w_[Size(p * p_.m + row.index)]);
    }
    for (double e : seen) error += e / static_cast<double>(seen.size());
    // Around the error lies the noise of the rest of the line, far below the screening
    // threshold that the error itself exceeds.
    const double noise = std::max(std::abs(row.residual) / row.deviation,
                                  std::abs(column.residual) / column.deviation);
    return std::all_of(seen.begin(), seen.end(), [&](double e) {
      return std::isfinite(e) &&
             std::abs(e - error) <= (std::isfinite(noise) ? noise : 0.0) + 1e-9 * std::abs(error);
    });
  }

  absl::Status CountNonFinite(std::int64_t& count) const {
    for (std::size_t i = 0; i < (p_.beta != 0.0 ? 3u : 2u); ++i) {
      absl::StatusOr<ChecksumSums> sums = ProbedMatrices(device_, inputs_[i], false, probes_)
                                              .Pass({.squares = true, .counts = true});
      if (!sums.ok()) return sums.status();
      count += sums->nan_count + sums->inf_count;
    }
    return absl::OkStatus();
  }

  const GemmProblem& p_;
  const Plan& plan_;
  Device& device_;
  const std::span<const TensorView> inputs_;
  const TensorView& output_;
  const int probes_;
  const std::uint64_t seed_;
  const GemmEpilogue epilogue_;
  const OutputRounding rounding_;
  ChecksumResiduals rows_, columns_;
  bool exact_ = false;
  Vector x_, w_;         // [probes, n], [probes, m]
  Vector scale_, bias_;  // [n]
};

}  // namespace

std::string ChecksumRefusal(const Case& c, const Plan& plan) {
  const auto* p = std::get_if<GemmProblem>(&c.problem);
  if (p == nullptr) return "checksums verify gemm only";
  if (p->activation_kind() != Activation::kNone) {
    return Cat("checksums verify what is linear: an activation (", p->activation, ") is not");
  }
  const DType out = plan.output.dtype;
  if (out == DType::kE5M2 || out == DType::kE5M2FNUZ || out == DType::kE2M1) {
    return Cat("checksums see nothing through the roundings of ", Name(out), " outputs");
  }
  for (const Operand& o : plan.inputs) {
    if (o.pattern.kind == PatternKind::kDenormal) {
      return Cat("checksums cannot tell a subnormal of ", o.name, " that was flushed from a fault");
    }
    // Two e2m1 elements share a byte, and rows are addressed by bytes.
    const Extents& e = o.extents;
    if (o.dtype == DType::kE2M1 && (e.ld % 2 != 0 || e.batch_stride % 2 != 0)) {
      return Cat("checksums need even leading dimensions and strides of e2m1 operands; ", o.name,
                 " has ", e.ld, " and ", e.batch_stride);
    }
  }
  return "";
}

absl::StatusOr<ChecksumMeasures> MeasureChecksums(const Case& c, const Plan& plan, Device& device,
                                                  std::span<const TensorView> inputs,
                                                  const TensorView& output, bool flushes) {
  return Measurement(c, plan, device, inputs, output, flushes).Run();
}

}  // namespace assay::kernels
