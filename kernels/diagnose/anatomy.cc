#include "kernels/diagnose/anatomy.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "kernels/diagnose/anatomy_words.h"
#include "kernels/diagnose/displacement.h"
#include "kernels/judge/pieces.h"
#include "kernels/ops/op.h"

namespace assay::inline kernels {
namespace {

// Columns whose sums are kept, at most: 64 bytes each.
constexpr std::int64_t kMaxColumns = std::int64_t{1} << 18;
// Squared errors before a fit over those behind it.
constexpr double kExplained = 4.0;
// A line of fewer elements fits anything.
constexpr std::int64_t kLeastLine = 4;
// Where so large a share of the wrong elements lies in lines that fit, all are said to.
constexpr double kMostLines = 0.9;
// A range with so large a share of its indices hit is called one.
constexpr double kNearlyAll = 0.9;
constexpr std::size_t kMostMissing = 3;
// Elements at the hit indices of all axes of which so many are wrong are all meant.
constexpr double kSure = 0.95;

struct Run {
  std::int64_t begin = 0;
  std::int64_t length = 0;
};

std::vector<Run> RunsOf(const std::vector<bool>& hits) {
  std::vector<Run> runs;
  for (std::size_t i = 0; i < hits.size(); ++i) {
    if (!hits[i]) continue;
    if (i == 0 || !hits[i - 1]) runs.push_back({static_cast<std::int64_t>(i), 0});
    ++runs.back().length;
  }
  return runs;
}

// Where in each `period` the runs lie, and how wide; nothing where they lie too
// widely to be a place.
std::optional<Run> Within(const std::vector<Run>& runs, std::int64_t period) {
  std::int64_t first = period;
  std::int64_t end = 0;
  for (const Run& r : runs) {
    const std::int64_t at = r.begin % period;
    first = std::min(first, at);
    end = std::max(end, at + r.length);
  }
  if (end > period || 2 * (end - first) > period) return std::nullopt;
  return Run{first, end - first};
}

constexpr bool PowerOfTwo(std::int64_t v) { return v > 0 && (v & (v - 1)) == 0; }

bool SetPeriod(const std::vector<bool>& hits, AxisErrors& axis) {
  const std::vector<Run> runs = RunsOf(hits);
  const auto count = static_cast<std::int64_t>(runs.size());
  if (count < 2) return false;
  const std::int64_t gap = runs[1].begin - runs[0].begin;
  bool even = true;
  for (std::size_t i = 1; i < runs.size(); ++i) {
    even = even && runs[i].begin - runs[i - 1].begin == gap;
  }
  std::vector<std::int64_t> candidates;
  if (even) candidates.push_back(gap);
  // Where some errors stayed within their bounds, a tile's width still shows.
  for (std::int64_t p = axis.extent / 2; p >= 8; --p) {
    if (PowerOfTwo(p)) candidates.push_back(p);
  }
  for (const std::int64_t period : candidates) {
    const std::optional<Run> place = Within(runs, period);
    if (!place.has_value()) continue;
    const std::int64_t periods = (axis.extent - place->begin + period - 1) / period;
    const bool full = 4 * axis.hit >= 3 * periods * place->length;
    // Two places make a period only at the edges of tiles.
    const bool edge = PowerOfTwo(period) && period >= 8 &&
                      (place->begin == 0 || place->begin + place->length == period);
    const bool enough = even && period == gap ? count >= 3 || (edge && periods == 2) : count >= 4;
    if (!full || !enough) continue;
    axis.kind = AxisErrors::Kind::kPeriodic;
    axis.period = period;
    axis.first = place->begin;
    axis.run = place->length;
    return true;
  }
  return false;
}

void Classify(const std::vector<bool>& hits, AxisErrors& axis) {
  using Kind = AxisErrors::Kind;
  axis.extent = static_cast<std::int64_t>(hits.size());
  axis.first = -1;
  for (std::size_t i = 0; i < hits.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    if (!hits[i]) {
      if (axis.missing.size() <= kMostMissing) axis.missing.push_back(at);
      continue;
    }
    if (axis.first < 0) axis.first = at;
    axis.last = at;
    ++axis.hit;
  }
  const std::int64_t span = axis.last - axis.first + 1;
  if (axis.hit == axis.extent) {
    axis.kind = Kind::kAll;
  } else if (axis.hit == 1) {
    axis.kind = Kind::kSingle;
  } else if (span < axis.extent &&
             static_cast<double>(axis.hit) >= kNearlyAll * static_cast<double>(span)) {
    axis.kind = Kind::kRange;
  } else if (axis.missing.size() <= kMostMissing && axis.extent >= 8) {
    axis.kind = Kind::kAllBut;
  } else if (!SetPeriod(hits, axis)) {
    axis.kind = Kind::kSome;
  }
  if (axis.kind != Kind::kAllBut) axis.missing.clear();
}

// The names of the output's axes. A user's tensor may have other outer axes than the operator has:
// several in place of its first one, which go by number, or fewer.
std::vector<std::string_view> NamesOf(const Case& c, const Plan& plan) {
  const Op& op = OpOf(c);
  const std::size_t rank = plan.output.dims.size();
  const absl::StatusOr<Plan> own = op.MakePlan(c);
  if (!own.ok() || own->output.dims.size() == rank ||
      own->output.extents.count() != plan.output.extents.count()) {
    return op.OutputAxes(c, plan);
  }
  std::vector<std::string_view> names = op.OutputAxes(c, *own);
  while (names.size() > rank) names.erase(names.begin());
  if (names.size() == rank) return names;
  const std::size_t outer = std::min(rank - names.size() + 1, std::size(kNumberedAxes));
  names.erase(names.begin());
  names.insert(names.begin(), std::begin(kNumberedAxes), std::begin(kNumberedAxes) + outer);
  return names;
}

// Whether the wrong elements are most of a rectangle of the last two axes, at one index of each
// outer axis.
bool IsOneBlock(const Anatomy& a) {
  const std::size_t n = a.axes.size();
  if (n < 2 || a.wrong == 1 || a.wrong == a.seen || a.fill < 0.5) return false;
  const auto outer = a.axes.end() - 2;
  return std::all_of(a.axes.begin(), outer, [](const AxisErrors& axis) { return axis.hit == 1; }) &&
         std::all_of(outer, a.axes.end(),
                     [](const AxisErrors& axis) { return axis.kind == AxisErrors::Kind::kRange; });
}

}  // namespace

void ErrorMap::Line::Add(double o, double r, double t) {
  ++n;
  const double a = o / t;
  const double b = r / t;
  const double error = (o - r) / t;
  aa += a * a;
  ab += a * b;
  bb += b * b;
  dd += error * error;
  d += error;
  d_along += r < 0 ? -error : error;
  d_magnitude += std::abs(error);
  d_over_t += error / t;
  one_over_tt += 1.0 / (t * t);
}

// The factor f of a least-squares fit o ≈ f·r, where it leaves nothing beyond the
// bounds and the values stand well above them.
std::optional<double> ErrorMap::Line::Factor() const {
  const auto count = static_cast<double>(n);
  if (n < kLeastLine || !(bb >= 100.0 * count)) return std::nullopt;
  const double factor = ab / bb;
  const double rest = aa - factor * ab;
  if (!(rest <= count * std::max(1.0, factor * factor) + 1e-12 * aa)) return std::nullopt;
  // And it must explain the errors, not merely fit among them.
  if (!(dd >= count && dd >= kExplained * rest)) return std::nullopt;
  return factor;
}

// The same for o ≈ r + c.
std::optional<double> ErrorMap::Line::Offset() const {
  const auto count = static_cast<double>(n);
  if (n < kLeastLine || !(dd >= 100.0 * count)) return std::nullopt;
  const double offset = d_over_t / one_over_tt;
  const double rest = dd - offset * d_over_t;
  if (!(rest <= count + 1e-12 * dd)) return std::nullopt;
  if (!(dd >= kExplained * rest)) return std::nullopt;
  return offset;
}

void ErrorMap::Lines::Add(const Line& line, const std::optional<double>& value) {
  ++lines;
  wrong += line.wrong;
  if (!value.has_value()) return;
  fit.least = fit.lines == 0 ? *value : std::min(fit.least, *value);
  fit.most = fit.lines == 0 ? *value : std::max(fit.most, *value);
  ++fit.lines;
  fitting += line.wrong;
}

std::optional<LineFit> ErrorMap::Lines::Fit() const {
  if (lines < 2 || static_cast<double>(fitting) < kMostLines * static_cast<double>(wrong)) {
    return std::nullopt;
  }
  return fit;
}

ErrorMap::ErrorMap(const Case& c, const Plan& plan, const internal::CompareRule& rule)
    : rule_(rule), dims_(plan.output.dims) {
  anatomy_.count = plan.output.extents.count();
  const std::vector<std::string_view> names = NamesOf(c, plan);
  for (std::size_t d = 0; d < dims_.size(); ++d) {
    AxisErrors& axis = anatomy_.axes.emplace_back();
    axis.name = d < names.size() ? names[d] : "index";
    hits_.emplace_back(static_cast<std::size_t>(dims_[d]), false);
  }
  if (dims_.size() > 1 && dims_.back() <= kMaxColumns) {
    columns_.resize(static_cast<std::size_t>(dims_.back()));
  }
}

// What an error of this element is measured in.
double ErrorMap::Unit(const internal::Judgement& j) const {
  if (j.bound > 0) return j.bound;
  if (rule_.is_integer) return 0.5;
  return std::max(rule_.min_subnormal, Info(rule_.dtype).unit_roundoff * std::abs(j.expected));
}

void ErrorMap::EndRow() {
  if (row_.wrong > 0) {
    rows_.Add(row_, row_.Factor());
    if (row_.d_magnitude > 0) {
      coherence_ += static_cast<double>(row_.wrong) *
                    std::max(std::abs(row_.d), std::abs(row_.d_along)) / row_.d_magnitude;
    }
  }
  row_ = Line{};
}

void ErrorMap::Keep(std::int64_t index, const internal::Judgement& j) {
  if (anatomy_.finite % stride_ != 0) return;
  if (anatomy_.samples.size() == 2 * kWrongSamples) {
    // Every second one goes, so that what stays is spread evenly.
    for (std::size_t i = 0; i < kWrongSamples; ++i) {
      anatomy_.samples[i] = anatomy_.samples[2 * i];
    }
    anatomy_.samples.resize(kWrongSamples);
    stride_ *= 2;
    if (anatomy_.finite % stride_ != 0) return;
  }
  anatomy_.samples.push_back({index, j.actual, j.expected, j.gate_bound});
}

void ErrorMap::Add(std::int64_t index, const internal::Judgement& j) {
  ++anatomy_.seen;
  const std::int64_t cols = dims_.back();
  const std::int64_t row = index / cols;
  if (row != row_at_) {
    EndRow();
    row_at_ = row;
  }
  const bool finite = std::isfinite(j.actual) && std::isfinite(j.expected);
  if (finite) {
    const double unit = Unit(j);
    all_.Add(j.actual, j.expected, unit);
    row_.Add(j.actual, j.expected, unit);
    if (!columns_.empty()) {
      columns_[static_cast<std::size_t>(index % cols)].Add(j.actual, j.expected, unit);
    }
    if (!first_output_) first_output_ = j.actual;
    one_output_ = one_output_ && j.actual == *first_output_;
    const double magnitude = std::abs(j.expected);
    if (j.actual != 0.0 && magnitude != 0.0 &&
        (anatomy_.least_kept == 0.0 || magnitude < anatomy_.least_kept)) {
      anatomy_.least_kept = magnitude;
    }
  }
  if (!j.mismatch) return;
  ++anatomy_.wrong;
  ++row_.wrong;
  if (!columns_.empty()) ++columns_[static_cast<std::size_t>(index % cols)].wrong;
  std::int64_t rest = index;
  for (std::size_t d = dims_.size(); d-- > 0;) {
    hits_[d][static_cast<std::size_t>(rest % dims_[d])] = true;
    rest /= dims_[d];
  }
  if (dims_.size() > 1) {
    const std::int64_t diagonal = index % cols - row % dims_[dims_.size() - 2];
    anatomy_.least_diagonal = std::min(anatomy_.least_diagonal.value_or(diagonal), diagonal);
    anatomy_.most_diagonal = std::max(anatomy_.most_diagonal.value_or(diagonal), diagonal);
  }
  if (!finite) return;
  Keep(index, j);
  ++anatomy_.finite;
  squared_error_ += (j.actual - j.expected) * (j.actual - j.expected);
  squared_expected_ += j.expected * j.expected;
  if (j.actual == 0.0 && j.rounded != 0.0) {
    ++anatomy_.zeroed;
    anatomy_.most_zeroed = std::max(anatomy_.most_zeroed, std::abs(j.expected));
  }
}

Anatomy ErrorMap::Finish() {
  EndRow();
  Anatomy& a = anatomy_;
  if (a.wrong == 0) return std::move(a);
  double places = 1;
  for (std::size_t d = 0; d < dims_.size(); ++d) {
    Classify(hits_[d], a.axes[d]);
    places *= static_cast<double>(a.axes[d].hit);
  }
  a.fill = static_cast<double>(a.wrong) / places;
  // Where not all elements at those places are wrong, an index without one may be chance.
  for (AxisErrors& axis : a.axes) {
    const double share = static_cast<double>(axis.hit) / static_cast<double>(axis.extent);
    const bool chance = a.fill < kSure && share >= kNearlyAll;
    if (chance || (axis.kind == AxisErrors::Kind::kAllBut && a.fill < 1)) {
      axis.kind = AxisErrors::Kind::kAll;
      axis.missing.clear();
    }
  }
  if (a.finite > 0) {
    a.rms_error = std::sqrt(squared_error_ / static_cast<double>(a.finite));
    a.rms_expected = std::sqrt(squared_expected_ / static_cast<double>(a.finite));
  }
  a.coherence = coherence_ / static_cast<double>(a.wrong);
  a.constant = one_output_ && all_.n > 1 && a.finite > 1;
  a.factor = all_.Factor();
  a.row_factors = rows_.Fit();
  Lines factors, offsets;
  for (const Line& column : columns_) {
    if (column.wrong == 0) continue;
    factors.Add(column, column.Factor());
    offsets.Add(column, column.Offset());
  }
  a.column_factors = factors.Fit();
  a.column_offsets = offsets.Fit();
  if (a.samples.size() > kWrongSamples) {
    std::vector<WrongElement> fewer;
    for (std::size_t i = 0; i < kWrongSamples; ++i) {
      fewer.push_back(a.samples[i * a.samples.size() / kWrongSamples]);
    }
    a.samples = std::move(fewer);
  }
  a.one_block = IsOneBlock(a);
  a.words = DescribeErrors(a);
  return std::move(a);
}

absl::StatusOr<Anatomy> Dissect(const Case& c, const Plan& plan, Device& device,
                                const CompareRequest& request) {
  const internal::CompareRule rule(request);
  ErrorMap map(c, plan, rule);
  const std::int64_t count = request.output.count();
  const std::int64_t looked_at = std::min(count, kMaxDissected);
  const TensorView reference = DoublesView(const_cast<double*>(request.reference), count);
  const TensorView allowance = DoublesView(const_cast<double*>(request.allowance), count);
  std::vector<std::uint64_t> bits;
  std::vector<double> expected;
  std::vector<double> allowed;
  for (std::int64_t begin = 0; begin < looked_at; begin += kPiece) {
    const std::int64_t n = std::min(kPiece, looked_at - begin);
    absl::Status status = ReadBits(device, request.output, begin, n, bits);
    if (status.ok()) status = ReadValues(device, reference, begin, n, expected);
    if (status.ok() && request.allowance != nullptr) {
      status = ReadValues(device, allowance, begin, n, allowed);
    }
    if (!status.ok()) return status;
    allowed.resize(expected.size(), 0.0);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      map.Add(begin + static_cast<std::int64_t>(i),
              internal::JudgeElement(rule, bits[i], expected[i], allowed[i]));
    }
  }
  Anatomy anatomy = map.Finish();
  if (absl::Status s = FindDisplacement(plan, device, request, anatomy); !s.ok()) return s;
  return anatomy;
}

}  // namespace assay::kernels
