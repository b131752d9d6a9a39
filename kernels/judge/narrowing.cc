#include "kernels/judge/narrowing.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "kernels/judge/narrowing_errors.h"
#include "kernels/numerics/convert.h"
#include "kernels/numerics/digest.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

// Numbers vectors so that equal ones have equal numbers.
std::vector<std::int64_t> EqualVectors(const SampledProducts& products,
                                       const SampledProducts::Side& side) {
  std::unordered_map<std::uint64_t, std::int64_t> first;
  std::vector<std::int64_t> numbers;
  for (std::int64_t i = 0; i < products.vectors(side); ++i) {
    const double* v = side.vector(i, products.terms);
    std::uint64_t hash = 0;
    for (std::int64_t k = 0; k < products.terms; ++k) {
      hash = std::rotl(hash, 5) ^ std::bit_cast<std::uint64_t>(v[k]);
      hash *= kDigestStep;
    }
    const std::int64_t earlier = first.emplace(DigestFinalise(hash), i).first->second;
    const bool equal = std::equal(v, v + products.terms, side.vector(earlier, products.terms));
    numbers.push_back(equal ? earlier : i);
  }
  return numbers;
}

// The sample as the fits need it: values divided by σ.
struct Sample {
  std::vector<std::size_t> at;           // number in the products
  std::vector<double> error, reference;  // e/σ, r/σ
  std::vector<double> weight;            // 1/σ
  std::vector<std::int64_t> row, column;
  std::int64_t rows = 0, columns = 0;
  double error_square = 0, reference_square = 0, error_reference = 0;  // Σ of the products

  std::size_t size() const { return at.size(); }
};

Sample MakeSample(const SampledProducts& products, const NarrowingErrors& errors,
                  std::span<const double> output, std::span<const double> reference,
                  std::span<const double> deviation) {
  Sample sample;
  const std::vector<std::int64_t> rows = EqualVectors(products, products.left);
  const std::vector<std::int64_t> columns = EqualVectors(products, products.right);
  sample.rows = static_cast<std::int64_t>(rows.size());
  sample.columns = static_cast<std::int64_t>(columns.size());
  std::unordered_map<std::int64_t, double> seen;  // factors of pairs of vectors
  for (std::size_t i = 0; i < products.elements.size(); ++i) {
    const SampledProducts::Element& e = products.elements[i];
    const double o = output[i], r = reference[i];
    const double sigma = deviation.empty() ? errors.scale[i] : deviation[i];
    const bool told = o > products.told_above && r > products.told_above;
    const bool finite = std::isfinite(o) && std::isfinite(r) && std::isfinite(sigma);
    if (!finite || !(sigma > 0) || !told) continue;
    const std::int64_t row = rows[static_cast<std::size_t>(e.left)];
    const std::int64_t column = columns[static_cast<std::size_t>(e.right)];
    const auto [known, added] = seen.emplace(row * sample.columns + column, e.factor);
    if (!added && known->second == e.factor) continue;
    sample.at.push_back(i);
    sample.error.push_back((o - r) / sigma);
    sample.reference.push_back(r / sigma);
    sample.weight.push_back(1 / sigma);
    sample.row.push_back(row);
    sample.column.push_back(column);
    const double error = sample.error.back(), r_own = sample.reference.back();
    sample.error_square += error * error;
    sample.reference_square += r_own * r_own;
    sample.error_reference += error * r_own;
  }
  return sample;
}

struct Fit {
  double share = 0;     // s
  double z = 0;         // s over its standard error
  double residual = 0;  // Σ(e − g·r − s·d)²/σ²
};

// Σ over the groups of (Σ of the group)².
double SquaredGroups(std::span<const double> values, std::span<const std::int64_t> group,
                     std::int64_t groups) {
  std::vector<double> sums(static_cast<std::size_t>(groups), 0.0);
  for (std::size_t i = 0; i < values.size(); ++i) {
    sums[static_cast<std::size_t>(group[i])] += values[i];
  }
  return std::inner_product(sums.begin(), sums.end(), sums.begin(), 0.0);
}

// The fit e = g·r + s·d, where `d` is divided by σ already. Nothing if d is 0, is a
// multiple of r, or is not finite. If z is at most kNarrowingZ with independent errors of equal
// variance, that z is returned: the other standard errors could only make it smaller.
std::optional<Fit> FitShare(const Sample& sample, const std::vector<double>& d) {
  // What is left of d after r is removed must be more than the rounding of d itself.
  constexpr double kLeastPart = 1e-10;
  // No s is known better than to a millionth, as d is not.
  constexpr double kLeastVariance = 1e-12;
  const std::size_t n = sample.size();
  double dd = 0, dr = 0, de = 0;
  for (std::size_t i = 0; i < n; ++i) {
    dd += d[i] * d[i];
    dr += d[i] * sample.reference[i];
    de += d[i] * sample.error[i];
  }
  const double rr = sample.reference_square, er = sample.error_reference;
  const double ratio = rr > 0 ? dr / rr : 0.0;
  const double square = dd - ratio * dr;  // of d without r
  if (!(square > kLeastPart * dd) || !std::isfinite(square)) return std::nullopt;

  Fit fit;
  fit.share = (de - ratio * er) / square;
  const double gain = rr > 0 ? (er - fit.share * dr) / rr : 0.0;
  fit.residual = sample.error_square - gain * er - fit.share * de;
  const double equal = fit.residual / static_cast<double>(n - 2) / square;
  fit.z = fit.share / std::sqrt(std::max(equal, kLeastVariance));
  if (!std::isfinite(fit.share) || !std::isfinite(fit.residual)) return std::nullopt;
  if (!(fit.z > kNarrowingZ)) return fit;

  // Summed once more, as the difference above may be all rounding.
  fit.residual = 0;
  std::vector<double> score(n);  // (d without r)·(residual)
  double unequal = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double rest = sample.error[i] - gain * sample.reference[i] - fit.share * d[i];
    const double own = d[i] - ratio * sample.reference[i];
    fit.residual += rest * rest;
    score[i] = own * rest;
    // What the fit leaves to an element. With little left, the others know nothing of the share.
    constexpr double kLittle = 1e-6;
    const double r_own = sample.reference[i];
    const double free = 1 - own * own / square - (rr > 0 ? r_own * r_own / rr : 0.0);
    const double alone = free > kLittle ? score[i] / free : square;
    unequal += alone * alone;
  }
  const double variance = std::max(
      {fit.residual / static_cast<double>(n - 2) / square, unequal / square / square,
       SquaredGroups(score, sample.row, sample.rows) / square / square,
       SquaredGroups(score, sample.column, sample.columns) / square / square, kLeastVariance});
  fit.z = fit.share / std::sqrt(variance);
  if (!std::isfinite(fit.z)) return std::nullopt;
  return fit;
}

// Which operands a narrowing rounds.
enum class Rounded : std::uint8_t { kBoth, kLeft, kRight, kBothWithoutLow };

struct Candidate {
  NarrowingInfo narrowing;
  Rounded rounded;
  Fit fit;
};

// d of the sampled elements, divided by σ. It is not finite if the inputs overflow the format.
std::vector<double> Errors(const Sample& sample, const NarrowingErrors& errors,
                           std::size_t narrowing, Rounded rounded) {
  const std::size_t count = errors.scale.size();
  std::vector<double> d(sample.size());
  for (std::size_t i = 0; i < d.size(); ++i) {
    const std::size_t at = sample.at[i];
    double sum = 0;
    if (rounded != Rounded::kRight) sum += errors.left[narrowing * count + at];
    if (rounded != Rounded::kLeft) sum += errors.right[narrowing * count + at];
    if (rounded == Rounded::kBothWithoutLow) sum -= errors.low[at];
    d[i] = sum * sample.weight[i];
  }
  return d;
}

std::string NameOf(const Candidate& named, const SampledProducts& products) {
  const std::string_view how = named.narrowing.how;
  switch (named.rounded) {
    case Rounded::kLeft:
      return Cat("inputs", how, " (", products.left.name, " only)");
    case Rounded::kRight:
      return Cat("inputs", how, " (", products.right.name, " only)");
    case Rounded::kBothWithoutLow:
      return "inputs, without the products of the low parts";
    case Rounded::kBoth:
      break;
  }
  return Cat("inputs", how);
}

// Whether a kernel that declares so much may have the narrowing. A split into two parts of b bits
// keeps 2·b + 1 bits or 2·b + 2, as one part's sign is a bit, too.
bool IsDeclared(const NarrowingInfo& narrowing, double declared) {
  return std::exp2(-(narrowing.significand_bits + 2)) <= declared;
}

// The fits of all narrowings that are not declared, in the order of the table.
std::vector<Candidate> Candidates(const Sample& sample, const NarrowingErrors& errors,
                                  double declared) {
  std::vector<Candidate> fits;
  for (std::size_t n = 0; n < errors.narrowings.size(); ++n) {
    if (IsDeclared(errors.narrowings[n], declared)) continue;
    for (const Rounded rounded :
         {Rounded::kBoth, Rounded::kLeft, Rounded::kRight, Rounded::kBothWithoutLow}) {
      const bool low = rounded == Rounded::kBothWithoutLow;
      if (low && errors.narrowings[n].narrower != Narrower::kBF16x2) continue;
      const std::optional<Fit> fit = FitShare(sample, Errors(sample, errors, n, rounded));
      if (fit.has_value()) fits.push_back({errors.narrowings[n], rounded, *fit});
    }
  }
  return fits;
}

bool Holds(const Fit& fit) {
  return fit.z > kNarrowingZ && std::abs(fit.share - 1) <= kNarrowingShare;
}

bool IsOf(double v, DType format) { return Quantise(v, format) == v; }

}  // namespace

std::int64_t NarrowingSamples(std::int64_t terms) {
  constexpr std::int64_t kWork = std::int64_t{1} << 28;
  // Shorter sums are so exact that fewer elements do, and their cases are over soon.
  constexpr std::int64_t kShort = 1024;
  if (terms < kShort) return 1024;
  return std::clamp<std::int64_t>(kWork / terms, 1024, 4096);
}

Narrowing FindNarrowedInputs(const SampledProducts& products, std::span<const double> output,
                             std::span<const double> reference, std::span<const double> deviation,
                             double declared) {
  Narrowing result;
  if (NarrowingsOf(products.format).empty() || products.count() < kLeastNarrowingElements) {
    return result;
  }
  const NarrowingErrors errors = ComputeNarrowingErrors(products);
  if (errors.scale.empty()) return result;
  const Sample sample = MakeSample(products, errors, output, reference, deviation);
  result.elements = static_cast<std::int64_t>(sample.size());
  if (result.elements < kLeastNarrowingElements) return result;
  const std::vector<Candidate> fits = Candidates(sample, errors, declared);
  const auto best = std::min_element(
      fits.begin(), fits.end(),
      [](const Candidate& a, const Candidate& b) { return a.fit.residual < b.fit.residual; });
  // If the best one does not hold, the others are not it either.
  if (best == fits.end() || !Holds(best->fit)) return result;
  // n/2·ln(residual/least) is the logarithm of the likelihood ratio; 4.6 is 100 to 1.
  const double alike =
      best->fit.residual * std::exp(2 * 4.6 / static_cast<double>(result.elements));
  const Candidate* first = nullptr;
  std::string formats;
  for (const Candidate& named : fits) {
    if (named.fit.residual > alike || !Holds(named.fit)) continue;
    if (first == nullptr) {
      first = &named;
      formats = named.narrowing.name;
    } else if (named.rounded == first->rounded && named.narrowing.how == first->narrowing.how) {
      Append(&formats, " or ", named.narrowing.name);
    }
  }
  result.name = Cat(formats, " ", NameOf(*first, products));
  result.share = first->fit.share;
  result.z = first->fit.z;
  return result;
}

Narrowing FindNarrowedOutput(DType format, std::span<const double> output,
                             std::span<const double> reference) {
  // The fewest bits first, and then the smallest range. Integers have no mantissa bits,
  // so that nothing is narrower.
  constexpr DType kNarrow[] = {DType::kBF16, DType::kF16, DType::kTF32, DType::kF32};
  // One result of 8,192 has the bits of TF32 by chance. Constant operands make it that of all.
  constexpr std::size_t kLeastDifferent = 8;
  Narrowing result;
  const FormatInfo& own = Info(format);
  DType named = DType::kUnspecified;
  for (const DType narrow : kNarrow) {
    const FormatInfo& f = Info(narrow);
    if (f.mantissa_bits >= own.mantissa_bits) continue;
    const bool another = named != DType::kUnspecified;
    std::int64_t used = 0, needs_more = 0, near = 0, tells = 0;
    bool all = true;
    std::unordered_set<double> different;  // r that need more
    for (std::size_t i = 0; all && i < output.size(); ++i) {
      const double o = output[i], r = reference[i];
      if (!std::isfinite(o) || !std::isfinite(r) || (o == 0.0 && r == 0.0)) continue;
      ++used;
      all = IsOf(o, narrow);
      if (IsOf(Quantise(r, format), narrow)) continue;
      ++needs_more;
      if (different.size() < kLeastDifferent) different.insert(r);
      // A 0 is a number of every format: sums that cancel leave it, too.
      const double step = f.machine_epsilon * std::abs(r) + f.min_subnormal;
      near += o != 0.0 && std::abs(o - r) <= step ? 1 : 0;
      tells += another && !IsOf(Quantise(r, narrow), named) ? 1 : 0;
    }
    result.elements = std::max(result.elements, used);
    if (!all || needs_more < kLeastNarrowingElements) continue;
    if (different.size() < kLeastDifferent) continue;
    if (needs_more < used - used / 4 || near < needs_more / 2) continue;
    // This format would have kept bits that no o has.
    if (tells >= kLeastNarrowingElements / 4) continue;
    const std::string_view name = narrow == DType::kTF32 ? std::string_view("TF32") : f.name;
    result.name = another ? Cat(result.name, " or ", name) : Cat("output through ", name);
    named = narrow;
  }
  return result;
}

}  // namespace assay::kernels
