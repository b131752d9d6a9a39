#include "kernels/ops/common/product_residuals.h"

#include <algorithm>
#include <cmath>

#include "kernels/ops/common/planning.h"
#include "kernels/ops/common/row_depth.h"

namespace assay::inline kernels {
namespace {

// Data that vary less than so beside their magnitude repeat one rounding error: the model, which
// takes errors for independent, does not hold.
constexpr double kLeastSpread = 0.25;
// The same if a format holds a few of their values only: so many of its smallest steps. A format of
// 4 bits has no more anywhere.
constexpr double kLeastSteps = 16;

bool IsDrawnInFullPrecision(const Pattern& p, DType dtype) {
  const FormatInfo& f = Info(dtype);
  const double steps = f.storage_bits < 8 ? 0 : kLeastSteps * f.min_subnormal;
  const auto varies = [&](double spread, double magnitude) {
    return spread >= kLeastSpread * magnitude && spread >= steps;
  };
  switch (p.kind) {
    case PatternKind::kNormal:
      return varies(p.a, std::abs(p.b));
    case PatternKind::kUniform:
      return varies(std::abs(p.b - p.a), std::max(std::abs(p.a), std::abs(p.b)));
    case PatternKind::kAllPositive:
      return true;
    default:
      return false;
  }
}

// Short sums of few bits have few distinct values, and these repeat their rounding errors: the
// model does not hold if the products of an element have fewer bits of one operand in all.
constexpr std::int64_t kLeastBits = 32;

// Whether sums have so many more products than there are distinct ones that roundings repeat
// (row_depth.h): an FP32 sum in order of bf16 products then has a common error of up to six times
// the model's. Errors of both signs cancel one another, and sums of 8-bit products are nearly
// exact.
bool RoundingsRepeat(const Plan& plan, double u) {
  constexpr double kProductsEach = 4;
  if (plan.zero_mean_random || Info(plan.inputs[0].dtype).storage_bits < 16) return false;
  double distinct = 1;
  for (std::size_t i = 0; i < 2; ++i) {
    const Operand& o = plan.inputs[i];
    distinct *= DistinctAddends(o.pattern, o.dtype, Addends::kElements, 1, u);
  }
  return static_cast<double>(plan.accumulations) > kProductsEach * distinct;
}

constexpr std::int64_t kWidth = 8, kDepth = 256;  // of a packed panel

double* ThreadPanel() {
  static thread_local std::vector<double> panel(kWidth * kDepth);
  return panel.data();
}

}  // namespace

SumModel MakeSumModel(DType input, std::int64_t terms, const Accumulator& accumulator) {
  const Arithmetic arithmetic = ArithmeticOf(input);
  const double k = static_cast<double>(terms);
  SumModel model;
  model.terms = k;
  model.roundoff = arithmetic.u;
  if (accumulator.roundoff > arithmetic.u) {
    model.truncation = accumulator.roundoff;
    model.block = static_cast<double>(accumulator.block);
  }
  if (const TruncatingUnit& t = accumulator.truncation; t.roundoff > 0) {
    model.truncation = std::max(model.truncation, t.roundoff);
    model.block = static_cast<double>(t.block);
  }
  const double lost = k * arithmetic.min_normal;
  model.underflow = lost * lost;
  return model;
}

bool DrawnInFullPrecision(const Plan& plan, int operands) {
  return std::all_of(plan.inputs.begin(), plan.inputs.begin() + operands,
                     [](const Operand& o) { return IsDrawnInFullPrecision(o.pattern, o.dtype); });
}

ResidualModel ProductResiduals(const Case& c, const Plan& plan) {
  ResidualModel model;
  const FormatInfo& input = Info(c.dtype);
  const FormatInfo& output = Info(plan.output.dtype);
  if (plan.exact || input.is_integer || output.is_integer || c.dtype == DType::kF64 ||
      plan.output.dtype == DType::kF64) {
    return model;
  }
  if (input.storage_bits < 16 && plan.accumulations * input.storage_bits < kLeastBits) return model;
  const double u = AccumulatorRoundoff(c.dtype);
  const double k = static_cast<double>(plan.accumulations);
  model.known = true;
  const TruncatingUnit& cut = plan.accumulator.truncation;
  model.roundoff = std::max({u, plan.accumulator.roundoff, cut.roundoff});
  model.gates = DrawnInFullPrecision(plan, 2) && !RoundingsRepeat(plan, u);
  // t² of a right kernel: partial sums share a relative error of about t = u·|r|·√(K/Q). For data
  // of mean zero r² is near Q; otherwise it is K·Q at most.
  const double growth = plan.zero_mean_random ? 4 * std::sqrt(k) : k;
  model.gain_floor = 4 * u + u * u * growth * growth;
  model.gain_floor += AccumulatedGain(plan.accumulations, plan.accumulator, u);
  return model;
}

void AllowDeclaredOperands(const Plan& plan, double u, ResidualModel& model) {
  // Each product of a sum errs by up to 2·w. σ of a sum in order is at least 0.3·u·√K of them, so
  // that errors of random signs have an R of at most 6·w/u.
  constexpr double kOfRandomSigns = 6;
  const double w = plan.operand_roundoff;
  if (!(w > 0)) return;
  const double wider = 1 + kOfRandomSigns * w / u;
  model.largest_rms *= wider;
  model.largest_z *= wider;
  model.gain_floor += 2 * w;
  if (model.direction) model.direction_floor = std::max(model.direction_floor, 8 * u) + 2 * w;
}

double AccumulatedGain(std::int64_t terms, const Accumulator& accumulator, double u) {
  const double cut = TruncatedGain(terms, accumulator.truncation);
  if (!(accumulator.roundoff > u)) return cut;
  return cut + accumulator.roundoff * (static_cast<double>(terms) + 1) / 2 *
                   (1 / static_cast<double>(accumulator.block) + 1);
}

double TruncatedGain(std::int64_t terms, const TruncatingUnit& unit) {
  // Units without further bits reach 1.3 times the model's common loss.
  constexpr double kUnits = 1.5;
  if (!(unit.roundoff > 0)) return 0;
  return kUnits * unit.roundoff * (static_cast<double>(terms) + 1) / 2 *
         (1 / static_cast<double>(unit.block) + 1);
}

void SumFourthPowers(const PanelSource& source, std::int64_t rows, std::int64_t k, double* sums) {
  double* panel = ThreadPanel();
  for (std::int64_t r = 0; r < rows; r += kWidth) {
    const std::int64_t here = std::min(kWidth, rows - r);
    double sum[kWidth] = {};
    for (std::int64_t k0 = 0; k0 < k; k0 += kDepth) {
      const std::int64_t kc = std::min(kDepth, k - k0);
      source.Pack(r, here, k0, kc, kWidth, panel);
      for (std::int64_t i = 0; i < kc; ++i) {
        const double* x = panel + i * kWidth;
        for (std::int64_t w = 0; w < kWidth; ++w) {
          const double square = x[w] * x[w];
          sum[w] += square * square;
        }
      }
    }
    std::copy_n(sum, here, sums + r);
  }
}

}  // namespace assay::kernels
