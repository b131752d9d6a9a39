#include "kernels/judge/precision.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "absl/strings/str_format.h"
#include "kernels/judge/verdict.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

// The tail of |z| of right kernels: P(|z| > t) = exp(−kTail·t) at most. kRare = −ln 1e-9.
constexpr double kTail = 1.74;
constexpr double kRare = 21;
// A right kernel stays below it, and has all the bits that are declared.
constexpr double kRightRms = 1.2;
// Rows, columns and tiles of right kernels have an R of at most 3.2 where σ takes Q by margins.
constexpr double kGroupFloor = 4;
// Standard errors that a gain or a direction must be away from what a right kernel may have.
constexpr double kGainErrors = 8;
constexpr double kDirectionErrors = 12;
// The same of a direction if its scatter from row to row shows it as well.
constexpr double kScatteredErrors = 6;
// A right kernel may have the operator's scale wrong by so many roundings.
constexpr double kScaleRoundings = 8;
// Of rows: the floor of the limits for A and B.
constexpr double kRowFloor = 2;
// A common error explains the errors if what is left of R is below this share.
constexpr double kExplained = 0.5;
// Statistics of a user's tensors fail beyond so many times their limit.
constexpr double kReceivedMargin = 2;

// The statistics of fewer elements say nothing.
constexpr std::int64_t kLeastElements = 64;

// t of a Student distribution with so many degrees of freedom, which random values exceed with a
// chance of 1e-9 on both sides together. Wallace's approximation from the normal's 6.11.
double StudentLimit(double freedom) {
  constexpr double kNormal = 6.11;
  return std::sqrt(freedom * std::expm1(kNormal * kNormal / freedom));
}

double Rms(double sum_squared, std::int64_t count) {
  if (count == 0 || sum_squared < 0) return 0;  // a NaN stays one
  return std::sqrt(sum_squared / static_cast<double>(count));
}

class Reader {
 public:
  Reader(const ResidualModel& model, const Plan& plan, const ResidualSums& sums,
         const PrecisionGate& gate)
      : model_(model), plan_(plan), sums_(sums), gate_(gate) {}

  PrecisionReading Read() {
    if (sums_.count < kLeastElements || (model_.rows && sums_.rows == 0)) return {};
    Precision& p = reading_.precision.emplace();
    p.declared_bits =
        std::min(-std::log2(model_.roundoff), 1.0 + Info(plan_.output.dtype).mantissa_bits);
    if (model_.direction) Direction();
    if (model_.rows) {
      Rows(p);
    } else {
      Elements(p);
    }
    p.bits =
        p.rms <= kRightRms ? p.declared_bits : std::max(0.0, p.declared_bits - std::log2(p.rms));
    // The kind of error comes before its size.
    std::stable_sort(reading_.findings.begin(), reading_.findings.end(),
                     [](const PrecisionFinding& a, const PrecisionFinding& b) {
                       return a.verdict == Verdict::kFailed && b.verdict != Verdict::kFailed;
                     });
    return std::move(reading_);
  }

 private:
  // Adds a finding if `value` is so many times its limit that the gate says so. `orders` is for
  // what the order of sums moves.
  bool Hold(double value, double limit, Reason reason, const std::string& message,
            double orders = 1) {
    // A NaN is beyond every limit.
    const bool fails = !(value <= gate_.fails * orders * limit);
    const bool doubtful = !(value <= gate_.doubtful * limit);
    if (fails) {
      reading_.findings.push_back({Verdict::kFailed, {reason, message}});
    } else if (doubtful) {
      reading_.findings.push_back({Verdict::kInconclusive, {Reason::kSuspect, message}});
    }
    return fails || doubtful;
  }

  void Elements(Precision& p) {
    p.rms = Rms(sums_.sum_squared, sums_.count);
    const double rms_limit = RmsLimit(model_.largest_rms, sums_.count, 1);
    if (sums_.reference_squared > 0) {
      const double gain = sums_.error_reference / sums_.reference_squared;
      const double deviation = 1 / std::sqrt(sums_.reference_squared);
      p.gain = gain;
      // Errors larger than the model's make the gain less certain.
      p.gain_error = std::max(1.0, p.rms) * deviation;
      const double left = Rms(sums_.sum_squared - gain * sums_.error_reference, sums_.count);
      const bool explained = left < std::max(1.0, kExplained * p.rms);
      if (explained || p.rms <= rms_limit) {
        const std::string message = absl::StrFormat(
            "all elements are too %s by a factor of 1 %c %.3g (± %.2g)",
            gain > 0 ? "large" : "small", gain > 0 ? '+' : '-', std::abs(gain), *p.gain_error);
        const bool found =
            Hold(std::abs(gain), GainLimit(*p.gain_error), Reason::kStructure, message);
        if (found && explained) return;
      }
    }
    // A place where all errors are says more than their size.
    const std::size_t before = reading_.findings.size();
    const bool large = !(p.rms <= rms_limit);
    if (!large || IsInOnePlace(rms_limit)) Groups();
    if (reading_.findings.size() > before) return;
    Hold(p.rms, rms_limit, Reason::kPrecision, Size(p.rms, p.declared_bits));
  }

  // A row counts as far as its elements do. Rows of a user's tensors may be equal.
  double GainLimit(double error) const {
    const double rows = gate_.places ? static_cast<double>(sums_.count) /
                                           static_cast<double>(plan_.output.extents.cols)
                                     : 1;
    // Hold multiplies the limit by what the order of the terms does to R. It is known what it does
    // to the gain.
    const double of_orders = gate_.order_gain / gate_.doubtful;
    return model_.gain_floor + model_.gain_of_row / std::sqrt(rows) + kGainErrors * error +
           of_orders;
  }

  // Whether R is that of a right kernel without one row, column, tile or element.
  bool IsInOnePlace(double limit) const {
    const auto without = [&](std::int64_t count, double sum_squared) {
      return count < sums_.count &&
             Rms(sums_.sum_squared - sum_squared, sums_.count - count) <= limit;
    };
    const ResidualGroup* const groups[] = {&sums_.row, &sums_.column, &sums_.tile};
    return without(1, sums_.largest * sums_.largest) ||
           std::any_of(std::begin(groups), std::end(groups), [&](const ResidualGroup* g) {
             return g->index >= 0 && without(g->count, g->sum_squared);
           });
  }

  std::string Size(double rms, double declared) const {
    return absl::StrFormat(
        "residuals are %.3g times what sums of %.0f bits give (at most %.3g): the effective "
        "precision is %.1f of %.0f bits",
        rms, -std::log2(model_.roundoff), RmsLimit(model_.largest_rms, sums_.count, 1),
        std::max(0.0, declared - std::log2(rms)), declared);
  }

  void Groups() {
    const Extents& x = plan_.output.extents;
    const auto hold = [&](const ResidualGroup& g, const std::string& name) {
      if (g.index < 0 || g.groups < 2) return;
      const double rms = Rms(g.sum_squared, g.count);
      const double limit =
          RmsLimit(std::max(kGroupFloor, 1.5 * model_.largest_rms), g.count, g.groups);
      Hold(rms, limit, Reason::kStructure,
           absl::StrFormat("%s has residuals of %.3g times what rounding gives (at most %.3g); all "
                           "elements together have %.3g",
                           name, rms, limit, Rms(sums_.sum_squared, sums_.count)),
           gate_.group_orders);
    };
    hold(sums_.row, Cat("the row at ", At(sums_.row.index * x.cols)));
    hold(sums_.column, Cat("column ", sums_.column.index));
    if (!gate_.places) return;
    if (sums_.tile.index >= 0) {
      const std::int64_t across = (x.cols + kResidualTile - 1) / kResidualTile;
      const std::int64_t bands = (x.rows + kResidualTile - 1) / kResidualTile;
      const std::int64_t band = sums_.tile.index / across;
      const std::int64_t row = band / bands * x.rows + band % bands * kResidualTile;
      hold(sums_.tile,
           Cat("the 16x16 tile at ", At(row * x.cols + sums_.tile.index % across * kResidualTile)));
    }
    if (sums_.largest_index < 0) return;
    const double limit =
        std::max(model_.largest_z, (kRare + std::log(static_cast<double>(sums_.count))) / kTail);
    Hold(sums_.largest, limit, Reason::kStructure,
         absl::StrFormat("element %s is %.3g deviations of rounding away (at most %.3g)",
                         At(sums_.largest_index), sums_.largest, limit));
  }

  void Rows(Precision& p) {
    const double limit = RmsLimit(kRowFloor, sums_.rows, 1);
    const auto rows = static_cast<double>(sums_.rows);
    const double offset = Rms(sums_.offset_squared, sums_.rows);
    const double gain = Rms(sums_.gain_squared, sums_.rows);
    const double rest = Rms(sums_.rest_squared, sums_.rest_count);
    p.rms = std::max({offset, gain, rest});
    p.gain = sums_.gain / rows;
    if (sums_.offset_squared > 0) p.offset = sums_.offset / rows;
    Hold(gain, limit, Reason::kStructure,
         absl::StrFormat("rows are too %s by a factor of 1 %c %.3g in the mean, %.3g times what "
                         "rounding gives (at most %.3g)",
                         *p.gain > 0 ? "large" : "small", *p.gain > 0 ? '+' : '-',
                         std::abs(*p.gain), gain, limit),
         gate_.row_orders.gain);
    Hold(offset, limit, Reason::kStructure,
         absl::StrFormat("rows have an offset of %.3g in the mean, %.3g times what rounding gives "
                         "(at most %.3g)",
                         p.offset.value_or(0), offset, limit),
         gate_.row_orders.offset);
    const double rest_limit = RmsLimit(model_.largest_rest, sums_.rest_count, 1);
    Hold(rest, rest_limit, Reason::kPrecision,
         absl::StrFormat("beside what each row shares, residuals are %.3g times what arithmetic of "
                         "%.0f bits gives (at most %.3g)",
                         rest, -std::log2(model_.roundoff), rest_limit));
  }

  // Two limits, of which one is enough. σ of the elements alone must be far away, because elements
  // of a row share the errors of its weights. If the rows agree on the scale, less is enough. Rows
  // of a user's tensors may be equal, so they count for drawn data only.
  void Direction() {
    const double weight = sums_.direction_squared;
    if (!(weight > 0)) return;
    const double scale = sums_.error_direction / weight;
    const double deviation = 1 / std::sqrt(weight);
    double limit = kDirectionErrors * deviation;
    if (gate_.places) {
      limit = std::min(limit, std::max(kScatteredErrors * deviation, Scatter(scale)));
    }
    const double floor = std::max(kScaleRoundings * model_.roundoff, model_.direction_floor);
    Hold(std::abs(scale), floor + limit + gate_.row_orders.scale, Reason::kStructure,
         absl::StrFormat("%s is off by %.3g (± %.2g)", model_.direction_name, scale, deviation));
  }

  // How far the scale may be off if rows err independently, from how far they differ. Infinite if
  // there are too few rows.
  double Scatter(double scale) const {
    const double weight = sums_.direction_squared;
    // The number of rows, if they had the same weight.
    const double rows = weight * weight / sums_.direction_weights;
    if (!(rows > 2 && std::isfinite(rows))) return std::numeric_limits<double>::infinity();
    const double left = sums_.direction_errors - 2 * scale * sums_.direction_products +
                        scale * scale * sums_.direction_weights;
    const double variance = std::max(0.0, left) * rows / (rows - 1);
    return StudentLimit(rows - 1) * std::sqrt(variance) / weight;
  }

  std::string At(std::int64_t index) const { return Coordinates(index, plan_.output.dims); }

  const ResidualModel& model_;
  const Plan& plan_;
  const ResidualSums& sums_;
  const PrecisionGate& gate_;
  PrecisionReading reading_;
};

}  // namespace

double RmsLimit(double floor, std::int64_t count, std::int64_t groups) {
  const double n = static_cast<double>(std::max<std::int64_t>(1, count));
  const double g = static_cast<double>(std::max<std::int64_t>(1, groups));
  return std::max(floor, (kRare + std::log(g)) / (kTail * std::sqrt(n)));
}

PrecisionGate GateOfGenerated(const ResidualModel& model) {
  PrecisionGate gate;
  if (model.gates) gate.fails = 1;
  return gate;
}

PrecisionGate GateOfReceived(const Case& c, double order_factor) {
  PrecisionGate gate;
  gate.places = false;
  gate.doubtful = std::max(1.0, order_factor);
  const bool plain = c.dtype == DType::kF32 || c.dtype == DType::kTF32;
  if (plain) gate.fails = kReceivedMargin * gate.doubtful;
  return gate;
}

PrecisionReading ReadPrecision(const ResidualModel& model, const Plan& plan,
                               const ResidualSums& sums, const PrecisionGate& gate) {
  return Reader(model, plan, sums, gate).Read();
}

void AddNarrowing(const Narrowing& narrowing, PrecisionReading& reading) {
  if (narrowing.name.empty() || !reading.precision) return;
  reading.precision->looks_like = narrowing.name;
  std::string errors = Cat("the residuals are those of ", narrowing.name);
  if (narrowing.z > 0) {
    errors += absl::StrFormat(" (s = %.2f, z = %.0f)", narrowing.share, narrowing.z);
  }
  for (PrecisionFinding& f : reading.findings) {
    if (f.finding.reason != Reason::kPrecision && f.finding.reason != Reason::kSuspect) continue;
    // Neither the order of the terms nor the hardware explains a format.
    f.verdict = Verdict::kFailed;
    f.names_format = true;
    f.finding.reason = Reason::kPrecision;
    f.finding.blame = UsualBlame(Reason::kPrecision);
    Append(&f.finding.message, "; ", errors);
    return;
  }
  reading.findings.insert(reading.findings.begin(),
                          {Verdict::kFailed, {Reason::kPrecision, errors}, true});
}

}  // namespace assay::kernels
