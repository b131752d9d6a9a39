#include "kernels/judge/precision_evidence.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "kernels/judge/narrowing.h"
#include "kernels/judge/pieces.h"
#include "kernels/judge/rounded_reference.h"
#include "kernels/judge/row_orders.h"
#include "kernels/judge/summation_orders.h"
#include "kernels/ops/device_references.h"
#include "kernels/ops/products.h"

namespace assay::inline kernels {
namespace {

// Elements at some indices of a dense or strided tensor. Neighbours are read together.
absl::StatusOr<std::vector<double>> ValuesAt(Device& device, const TensorView& view,
                                             std::span<const std::int64_t> at) {
  // Between two indices that are read together lie at most so many elements.
  constexpr std::int64_t kGap = 4096;
  std::vector<double> values, run;
  values.reserve(at.size());
  for (std::size_t first = 0; first < at.size();) {
    std::size_t last = first + 1;
    while (last < at.size() && at[last] - at[last - 1] <= kGap) ++last;
    absl::Status s = ReadValues(device, view, at[first], at[last - 1] - at[first] + 1, run);
    if (!s.ok()) return s;
    for (std::size_t i = first; i < last; ++i) {
      values.push_back(run[static_cast<std::size_t>(at[i] - at[first])]);
    }
    first = last;
  }
  return values;
}

// What the sampled elements say.
struct Sample {
  Narrowing narrowing;
  double order_factor = 1, order_gain = 0;
  bool has_orders = false;  // both are measured
};

// Whether a format narrower than the inputs' can be told. 8-bit inputs have no narrower one, and
// 16-bit products are exact in fp32.
bool MayBeNarrowed(DType input) { return input == DType::kF32; }

// The largest R of a right kernel on random data of mean zero. On such data R shows every narrowing
// that the filter can name, so that a smaller R needs no sample.
constexpr double kUnsuspicious = 1;

// Places of the `count` largest values, which decide the factor that all elements share: they may
// be few, such as a diagonal.
std::vector<std::int64_t> LargestOf(std::span<const double> values, std::int64_t count) {
  std::vector<std::int64_t> at;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) at.push_back(static_cast<std::int64_t>(i));
  }
  const auto end = at.begin() + std::min(count, static_cast<std::int64_t>(at.size()));
  std::partial_sort(at.begin(), end, at.end(), [&](std::int64_t a, std::int64_t b) {
    return std::abs(values[static_cast<std::size_t>(a)]) >
           std::abs(values[static_cast<std::size_t>(b)]);
  });
  at.erase(end, at.end());
  return at;
}

absl::StatusOr<Sample> TakeSample(const PrecisionSubject& s, double rms) {
  Sample sample;
  const bool suspicious = !s.plan.zero_mean_random || !(rms <= kUnsuspicious);
  if (!s.received && !(suspicious && MayBeNarrowed(s.c.dtype))) return sample;
  std::vector<std::int64_t> at =
      s.op.Samples(s.c, s.plan, s.c.seed.value_or(1), NarrowingSamples(s.plan.accumulations));
  const std::optional<SampledProducts> products = s.op.Products(s.c, s.plan, s.inputs, at);
  if (!products) return sample;
  if (s.received) {
    const OrderEffect orders = EmulateOrders(*products, s.plan.output.dtype);
    sample.order_factor = orders.factor;
    sample.order_gain = orders.largest_gain;
    sample.has_orders = true;
  }
  if (!MayBeNarrowed(s.c.dtype)) return sample;
  absl::StatusOr<std::vector<double>> output = ValuesAt(s.device, s.output, at);
  if (!output.ok()) return output.status();
  const absl::StatusOr<std::vector<double>> reference =
      ValuesAt(s.device, DoublesView(s.reference.value, s.plan.output.extents.count()), at);
  if (!reference.ok()) return reference.status();
  if (s.received) {
    const std::vector<std::int64_t> large =
        LargestOf(*reference, std::min<std::int64_t>(OrderSamples(products->terms), 64));
    const OrderEffect orders = EmulateOrders(*products, s.plan.output.dtype, large);
    sample.order_gain = std::max(sample.order_gain, orders.largest_gain);
  }
  sample.narrowing = FindNarrowedOutput(s.plan.output.dtype, *output, *reference);
  if (sample.narrowing.name.empty()) {
    sample.narrowing =
        FindNarrowedInputs(*products, *output, *reference, {}, s.plan.operand_roundoff);
  }
  return sample;
}

}  // namespace

absl::Status AllocateDeviations(const Case& c, const ResidualModel& model, const Plan& plan,
                                Device& device, ReferenceBuffers& to) {
  if (!model.known || !device.tells_precision()) return absl::OkStatus();
  const DeviceReferences* references = device.references();
  if (references != nullptr && !references->FillsDeviations(c)) return absl::OkStatus();
  const Extents& x = plan.output.extents;
  const std::size_t before = device.arena().blocks().size();
  absl::Status room;
  const auto floats = [&](std::int64_t count) -> float* {
    absl::StatusOr<Block> block = device.arena().Allocate(
        count * static_cast<std::int64_t>(sizeof(float)), /*guarded=*/false);
    room.Update(block.status());
    return block.ok() ? static_cast<float*>(block->data) : nullptr;
  };
  ReferenceBuffers with = to;
  with.deviation = floats(x.count());
  if (model.direction && (references == nullptr || references->FillsDirection(c))) {
    with.direction = floats(x.count());
  }
  if (model.rows) {
    with.row_offset = floats(x.batch * x.rows);
    with.row_gain = floats(x.batch * x.rows);
  }
  if (room.ok()) {
    to = with;
  } else {
    device.arena().ResetTo(before);
  }
  return room;
}

namespace {

// Nobody declares how received tensors were computed. The errors of Winograd's F(4x4) are 5 times
// those of plain sums.
constexpr double kWinogradRms = 8;

bool AnyFails(const PrecisionReading& reading) {
  return std::any_of(reading.findings.begin(), reading.findings.end(),
                     [](const PrecisionFinding& f) { return f.verdict == Verdict::kFailed; });
}

// By how much the order of the terms moves the row and the column with the largest errors. A sample
// of all elements may have none of theirs, and one constant column is summed less exactly in order
// than all others.
double EmulateGroupOrders(const PrecisionSubject& s, const ResidualSums& sums) {
  constexpr std::int64_t kElements = 64;
  const Extents& x = s.plan.output.extents;
  const std::int64_t rows = x.batch * x.rows;
  double factor = 1;
  const auto add = [&](std::int64_t first, std::int64_t step, std::int64_t length) {
    std::vector<std::int64_t> at;
    const std::int64_t count = std::min(kElements, length);
    for (std::int64_t i = 0; i < count; ++i) at.push_back(first + i * length / count * step);
    const std::optional<SampledProducts> products = s.op.Products(s.c, s.plan, s.inputs, at);
    if (products) factor = std::max(factor, EmulateOrders(*products, s.plan.output.dtype).factor);
  };
  if (sums.row.index >= 0) add(sums.row.index * x.cols, 1, x.cols);
  if (sums.column.index >= 0) add(sums.column.index, x.cols, rows);
  return factor;
}

absl::StatusOr<PrecisionReading> Read(const PrecisionSubject& s) {
  ResidualModel model = s.op.Residuals(s.c, s.plan);
  if (s.received && s.op.traits().transforms_divide) {
    model.largest_rms = std::max(model.largest_rms, kWinogradRms);
  }
  if (!model.known || s.reference.deviation == nullptr) return PrecisionReading();
  ResidualRequest request;
  request.output = s.output;
  request.reference = s.reference.value;
  request.deviation = s.reference.deviation;
  request.direction = s.reference.direction;
  request.row_offset = s.reference.row_offset;
  request.row_gain = s.reference.row_gain;
  const absl::StatusOr<ResidualSums> sums = s.device.Residuals(request);
  if (!sums.ok()) return sums.status();
  if (sums->count == 0) return PrecisionReading();
  const double rms = std::sqrt(sums->sum_squared / static_cast<double>(sums->count));
  const absl::StatusOr<Sample> sample = TakeSample(s, rms);
  if (!sample.ok()) return sample.status();
  PrecisionGate gate =
      s.received ? GateOfReceived(s.c, sample->order_factor) : GateOfGenerated(model);
  // Received terms may repeat, and then their roundings do. By how much that raises a statistic,
  // a sample of orders tells. Without it, nothing of sums is certain but what a row shares.
  if (s.received && !sample->has_orders && !model.rows && s.plan.accumulations > 1) {
    gate.fails = std::numeric_limits<double>::infinity();
  }
  if (s.received) gate.order_gain = sample->order_gain;
  PrecisionReading reading = ReadPrecision(model, s.plan, *sums, gate);
  if (s.received && sample->has_orders && AnyFails(reading)) {
    // The gate's factor has the orders of the sample already.
    gate.group_orders = std::max(1.0, EmulateGroupOrders(s, *sums) / gate.doubtful);
    reading = ReadPrecision(model, s.plan, *sums, gate);
  }
  if (s.received && model.rows && AnyFails(reading)) {
    const absl::StatusOr<RowOrders> orders = EmulateRowOrders(s);
    if (!orders.ok()) return orders.status();
    gate.row_orders = *orders;
    reading = ReadPrecision(model, s.plan, *sums, gate);
  }
  AddNarrowing(sample->narrowing, reading);
  return reading;
}

// Removes what would be found of the right output, too.
absl::Status KeepWhatAccusesTheKernel(const PrecisionSubject& s,
                                      std::vector<PrecisionFinding>& findings) {
  const std::size_t before = s.device.arena().blocks().size();
  const absl::StatusOr<TensorView> right =
      MakeRoundedReference(s.device, s.output, s.reference.value);
  if (CannotHaveOne(right.status())) return absl::OkStatus();
  if (!right.ok()) return right.status();
  const absl::StatusOr<PrecisionReading> reading =
      Read({s.c, s.op, s.plan, s.device, *right, s.reference, s.inputs, s.received});
  s.device.arena().ResetTo(before);
  if (!reading.ok()) return reading.status();
  std::erase_if(findings, [&](const PrecisionFinding& found) {
    return std::any_of(reading->findings.begin(), reading->findings.end(),
                       [&](const PrecisionFinding& of_right) {
                         return of_right.finding.reason == found.finding.reason;
                       });
  });
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PrecisionReading> TellPrecision(const PrecisionSubject& s) {
  absl::StatusOr<PrecisionReading> reading = Read(s);
  if (!reading.ok() || reading->findings.empty()) return reading;
  const absl::Status status = KeepWhatAccusesTheKernel(s, reading->findings);
  if (!status.ok()) return status;
  return reading;
}

}  // namespace assay::kernels
