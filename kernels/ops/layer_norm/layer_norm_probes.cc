#include "kernels/ops/layer_norm/layer_norm_probes.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "kernels/numerics/dtype.h"
#include "kernels/numerics/pattern.h"
#include "kernels/ops/common/probe_data.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

// So many that some come out as NaN where a variance does by chance.
constexpr std::int64_t kRows = 16;
// A probe of one row's problem has kRows of them up to here [elements].
constexpr std::int64_t kFewElements = std::int64_t{1} << 22;
// Below the one, squares of a row's smallest elements underflow in fp32; above the other,
// 16-bit outputs are subnormal.
constexpr double kLeastEps = 0x1p-80;
constexpr double kMostEps = 0x1p20;
// The last column, where the others are 0. Its square is beyond the range of fp16, and so is it
// itself in formats that hold it. In 8-bit formats it is the largest number.
constexpr double kLastColumn = 4096;
// A mean's significand that is no power of two, so that its square needs all of its digits.
constexpr double kSignificand = 1.37109375;
// A mean beside which 8-bit formats hold deviations of 1.
constexpr double kMeanOfNarrow = 8;
// Deviations of large rows. A kernel that clips elements at a number of its own changes most of
// them, in fp16 some, and no sum of squares overflows in fp32.
constexpr double kLarge = 0x1p30;
constexpr double kLargeOfHalf = 0x1p12;
// The elements of a row of sparse that are not 0, on average, all of one size. A kernel that leaves
// one of them out has a norm that is off by a hundredth, which every output format shows.
constexpr double kKept = 48;
// Of a user's kernel each column is to be among them in so many rows, if they have so few elements.
constexpr double kTimesKept = 4;
constexpr std::int64_t kMostSparse = std::int64_t{1} << 19;
// What follows the pattern of x.
constexpr std::string_view kUsualWeight = "/uniform:0.5:1.5";
constexpr std::string_view kUsualWeightAndBias = "/uniform:0.5:1.5/normal";

// Where no probe can be: why.
std::string EpsFault(const LayerNormProblem& p) {
  if (p.eps == 0) return "eps is 0";
  if (p.eps < kLeastEps) return "eps is below 2^-80";
  if (p.eps > kMostEps) return "eps is above 2^20";
  if (p.cols == 1 && !p.rms) return "rows of one column have no variance";
  return "";
}

struct RowData {
  Pattern pattern;
  std::string skipped;
};

// So many rows that all columns count in some. A user's kernel may be made for its extents; then
// these do not count.
LayerNormProblem WithSparseRows(const LayerNormProblem& p) {
  const double wanted = std::ceil(kTimesKept / kKept * static_cast<double>(p.cols));
  LayerNormProblem many = p;
  many.rows = std::max(p.rows, std::min(static_cast<std::int64_t>(wanted), kMostSparse / p.cols));
  return many;
}

// Deviations above eps, so that eps hides nothing, and a mean that the format holds them at.
RowData LargeMean(const LayerNormProblem& p, DType input) {
  const FormatInfo& f = Info(input);
  const double unit = std::exp2(std::ceil(std::log2(std::max(1.0, 64 * std::sqrt(p.eps)))));
  Pattern data{PatternKind::kNearConstant, 0, unit};
  if (f.storage_bits <= 8) {
    data.a = kMeanOfNarrow * unit;
  } else if (f.machine_epsilon <= 0x1p-20) {
    data.a = kSignificand * unit * (input == DType::kF64 ? 0x1p26 : 0x1p12);
  } else {
    // Elements are the mean or one of its neighbours: in 11 bits a tenth are, in 8 one of 64.
    const double spread = f.machine_epsilon <= 0x1p-10 ? 0.314 : 0.207;
    data.a = (2 * std::round(kSignificand / 2 / f.machine_epsilon) + 1) * unit;
    data.b = spread * unit;
  }
  if (LargestMagnitude(data) > f.max_finite / 2) {
    return {{}, Cat("eps is too large for ", Name(input), "'s range")};
  }
  return {data, ""};
}

RowData SmallVariance(const LayerNormProblem& p, DType input) {
  const FormatInfo& f = Info(input);
  const double root = std::sqrt(p.eps);
  // Subnormal inputs are taken for 0, which leaves too few digits below this.
  const double least = 8 * f.min_normal;
  const double spread = std::min(std::max(root / 2, least), f.max_finite / 16);
  if (spread > 4 * root) return {{}, Cat("eps is too small for ", Name(input), "'s range")};
  return {Pattern{PatternKind::kNormal, spread, 0}, ""};
}

}  // namespace

std::vector<KernelProbe> LayerNormProbes(const Case& c, const Plan& plan) {
  const auto& p = std::get<LayerNormProblem>(c.problem);
  LayerNormProblem few = p;
  if (IsOurs(c)) few.rows = p.cols <= kFewElements / kRows ? kRows : std::min(p.rows, kRows);
  std::vector<KernelProbe> probes;
  const std::string_view usual_operands = p.rms ? kUsualWeight : kUsualWeightAndBias;
  const bool half = HoldsInHalf(c, plan);
  const auto add = [&](std::string_view name, RowData data) {
    KernelProbe probe{name, {}};
    probe.skipped = EpsFault(p);
    if (probe.skipped.empty()) probe.skipped = std::move(data.skipped);
    if (probe.skipped.empty()) {
      probe.data = ProbeCase(c, few, ToString(data.pattern), /*exact=*/false);
      // Large numbers times weights as large are infinite in fp16, and show nothing there.
      const bool usual = half || name == "last-column" || name == "sparse";
      if (usual && p.affine) probe.data.pattern += usual_operands;
    }
    probes.push_back(std::move(probe));
  };
  // Whoever leaves the last column out of a sum has nothing to sum.
  const bool narrow = Info(c.dtype).storage_bits <= 8;
  const bool far = ReachesBeyondHalf(c.dtype) && !half;
  const double last = far ? kBeyondHalf : narrow ? Info(c.dtype).max_finite : kLastColumn;
  if (!IsOurs(c)) {
    const Pattern sparse{PatternKind::kExactSparse,
                         std::min(1.0, kKept / static_cast<double>(p.cols)), 0};
    add("sparse", {sparse, ""});
    if (probes.back().skipped.empty()) probes.back().data.problem = WithSparseRows(p);
  }
  add("last-column", {Pattern{PatternKind::kOneLarge, last, -1}, ""});
  if (!narrow) add("large", {Pattern{PatternKind::kNormal, far ? kLarge : kLargeOfHalf, 0}, ""});
  // The mean of the row is NaN, and so is its mean square: nothing of the row is a number.
  if (p.affine && !IsOurs(c)) {
    // The first column of the weight, and all of the bias.
    AddNanProbe(c, plan, few, Cat("normal/", kNanInEachRow, p.rms ? "" : "/normal"), probes,
                /*exact=*/false, "nan-weight");
    if (!p.rms) {
      AddNanProbe(c, plan, few, Cat("normal", kUsualWeight, "/", kAllNan), probes,
                  /*exact=*/false, "nan-bias");
    }
  }
  AddNanProbe(c, plan, few, Cat(kNanInEachRow, p.affine ? usual_operands : ""), probes);
  if (!p.rms) add("large-mean", LargeMean(p, c.dtype));
  add("small-variance", SmallVariance(p, c.dtype));
  return probes;
}

}  // namespace assay::kernels
