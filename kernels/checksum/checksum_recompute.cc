#include "kernels/checksum/checksum_recompute.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/judge/overflow.h"
#include "kernels/judge/verdict.h"
#include "kernels/numerics/bound.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

// Elements of a line that the host recomputes beside those that are wrong.
constexpr std::int64_t kHostElements = 32;
// As in the recheck of whole outputs: more would be a device that forgives itself.
constexpr double kAllowanceSlack = 1.01;

std::int64_t Even(std::int64_t n) { return (n + 1) / 2 * 2; }

// A part of a tensor that begins `offset` elements into it, at a whole byte.
TensorView Part(const TensorView& view, std::int64_t offset, const Extents& extents) {
  auto* data = static_cast<unsigned char*>(view.data);
  return {data + offset * Info(view.dtype).storage_bits / 8, view.dtype, extents};
}

// One matrix of a batch.
TensorView Matrix(const TensorView& view, std::int64_t batch) {
  Extents e = view.extents;
  e.batch = 1;
  return Part(view, batch * e.batch_stride, e);
}

}  // namespace

LineRecompute::LineRecompute(const Case& c, const Op& op, const Plan& plan, Device& device)
    : case_(c), p_(std::get<GemmProblem>(c.problem)), op_(op), plan_(plan), device_(device) {}

absl::StatusOr<void*> LineRecompute::Room(DType dtype, std::int64_t count) {
  absl::StatusOr<Block> room =
      device_.arena().Allocate(StorageBytes(dtype, count), /*guarded=*/false);
  if (!room.ok()) return room.status();
  return room->data;
}

absl::Status LineRecompute::Reserve() {
  const std::int64_t rows = std::min(kRecomputedRows, p_.batch * p_.m);
  const std::int64_t columns = std::min(kRecomputedColumns, p_.batch * p_.n);
  const std::int64_t count = std::max(rows * p_.n, columns * p_.m);
  const DType in = plan_.inputs[0].dtype, out = plan_.output.dtype;
  absl::Status status;
  const auto take = [&](DType dtype, std::int64_t n) -> void* {
    if (!status.ok()) return nullptr;
    absl::StatusOr<void*> room = Room(dtype, n);
    if (!room.ok()) status = room.status();
    return room.ok() ? *room : nullptr;
  };
  operand_ = take(in, Even(std::max(rows, columns)) * Even(p_.k));
  if (p_.beta != 0.0) addend_ = take(out, count);
  columns_ = take(DType::kF64, 2 * columns);
  actual_ = take(out, count);
  value_ = static_cast<double*>(take(DType::kF64, count));
  if (!plan_.exact) allowance_ = static_cast<double*>(take(DType::kF64, count));
  return status;
}

absl::StatusOr<CompareResult> LineRecompute::Compare(std::vector<LineId> lines, bool columns,
                                                     std::span<const TensorView> inputs,
                                                     const TensorView& output,
                                                     CompareRequest request) {
  by_columns_ = columns;
  const std::int64_t of_matrix = columns ? p_.n : p_.m;
  const auto most = static_cast<std::size_t>(columns ? kRecomputedColumns : kRecomputedRows);
  // Two e2m1 elements share a byte: lines that cut through bytes come in pairs.
  const bool pairs = plan_.inputs[0].dtype == DType::kE2M1 && (columns ? !p_.trans_b : p_.trans_a);
  if (lines.size() > (pairs ? most / 2 : most)) lines.resize(pairs ? most / 2 : most);
  if (pairs) {
    for (const LineId& line : std::vector<LineId>(lines)) {
      const LineId other{line.batch, line.index ^ 1};
      if (other.index < of_matrix) lines.push_back(other);
    }
  }
  std::sort(lines.begin(), lines.end());
  lines.erase(std::unique(lines.begin(), lines.end()), lines.end());

  groups_.clear();
  count_ = 0;
  for (std::size_t i = 0; i < lines.size();) {
    Group group{lines[i].batch, count_, {}};
    for (; i < lines.size() && lines[i].batch == group.batch; ++i) {
      group.ids.push_back(lines[i].index);
    }
    count_ += Elements(group);
    if (absl::Status s = AddGroup(std::move(group), inputs, output); !s.ok()) return s;
  }
  request.output = {actual_, plan_.output.dtype, Extents::Dense(1, 1, count_)};
  request.reference = value_;
  request.allowance = plan_.exact ? nullptr : allowance_;
  request.digests = false;
  absl::StatusOr<CompareResult> result = device_.Compare(request);
  if (!result.ok()) return result;
  const absl::StatusOr<std::int64_t> unbounded = CountUnbounded(case_, device_, request);
  if (!unbounded.ok()) return unbounded.status();
  unbounded_ = *unbounded;
  const auto place = [&](std::int64_t& index) {
    if (index >= 0) index = OutputIndex(index);
  };
  for (ElementSample& s : result->samples) place(s.index);
  for (std::int64_t* index :
       {&result->worst.index, &result->first_nan, &result->first_inf, &result->first_unwritten,
        &result->first_unexpected_nan, &result->first_unexpected_inf}) {
    place(*index);
  }
  return result;
}

std::int64_t LineRecompute::Elements(const Group& group) const {
  return static_cast<std::int64_t>(group.ids.size()) * (by_columns_ ? p_.m : p_.n);
}

absl::Status LineRecompute::AddGroup(Group group, std::span<const TensorView> inputs,
                                     const TensorView& output) {
  const auto lines = static_cast<std::int64_t>(group.ids.size());
  Case c = case_;
  auto& p = std::get<GemmProblem>(c.problem);
  p.batch = 1;
  // Leading dimensions and strides stay those of the whole product: the views have the lines' own.
  (by_columns_ ? p.n : p.m) = lines;
  std::vector<TensorView> views(inputs.begin(), inputs.end());
  views[0] = Matrix(inputs[0], group.batch);
  views[1] = Matrix(inputs[1], group.batch);

  // Lines of the operand: stored as rows, or across the rows.
  const bool rows = by_columns_ ? p_.trans_b : !p_.trans_a;
  const std::size_t operand = by_columns_ ? 1 : 0;
  const Extents stored = rows ? Extents{1, lines, p_.k, Even(p_.k), lines * Even(p_.k)}
                              : Extents{1, p_.k, lines, Even(lines), p_.k * Even(lines)};
  const TensorView gathered{operand_, inputs[operand].dtype, stored};
  absl::Status status = Gather(inputs[operand], group.batch, group.ids, rows, gathered);
  views[operand] = gathered;

  const Extents part = Extents::Dense(1, p.m, p.n);
  if (status.ok() && p_.beta != 0.0) {
    views[2] = {addend_, inputs[2].dtype, part};
    status = Gather(inputs[2], group.batch, group.ids, !by_columns_, views[2]);
  }
  auto* place = static_cast<unsigned char*>(columns_);
  for (int i = p_.channel_scale_operand(); by_columns_ && i < static_cast<int>(inputs.size());
       ++i) {
    const TensorView& from = inputs[static_cast<std::size_t>(i)];
    TensorView& to = views[static_cast<std::size_t>(i)];
    to = {place, from.dtype, Extents::Dense(1, 1, lines)};
    place += static_cast<std::int64_t>(sizeof(double)) * lines;
    if (status.ok()) status = Gather(from, 0, group.ids, /*rows=*/false, to);
  }
  const TensorView actual = Part({actual_, output.dtype, {}}, group.begin, part);
  if (status.ok()) status = Gather(output, group.batch, group.ids, !by_columns_, actual);
  if (!status.ok()) return status;

  Plan plan = plan_;
  for (std::size_t i = 0; i < views.size(); ++i) plan.inputs[i].extents = views[i].extents;
  plan.output.extents = part;
  plan.output.dims = {p.m, p.n};
  ReferenceBuffers out;
  out.value = value_ + group.begin;
  out.allowance = allowance_ == nullptr ? nullptr : allowance_ + group.begin;
  groups_.push_back(std::move(group));
  return op_.Reference(c, plan, device_, views, out);
}

absl::Status LineRecompute::Gather(const TensorView& from, std::int64_t batch,
                                   const std::vector<std::int64_t>& ids, bool rows,
                                   const TensorView& to) {
  const Extents& e = from.extents;
  for (std::size_t i = 0; i < ids.size();) {
    std::size_t run = 1;
    while (i + run < ids.size() && ids[i + run] == ids[i] + static_cast<std::int64_t>(run)) ++run;
    const auto n = static_cast<std::int64_t>(run);
    const auto at = static_cast<std::int64_t>(i);
    const std::int64_t begin = batch * e.batch_stride;
    absl::Status status =
        rows ? device_.Copy(
                   Part(from, begin + ids[i] * e.ld, {1, n, e.cols, e.ld, n * e.ld}),
                   Part(to, at * to.extents.ld, {1, n, e.cols, to.extents.ld, n * to.extents.ld}))
             : device_.Copy(Part(from, begin + ids[i], {1, e.rows, n, e.ld, e.rows * e.ld}),
                            Part(to, at, {1, e.rows, n, to.extents.ld, e.rows * to.extents.ld}));
    if (!status.ok()) return status;
    i += run;
  }
  return absl::OkStatus();
}

std::int64_t LineRecompute::OutputIndex(std::int64_t i) const {
  const auto after =
      std::upper_bound(groups_.begin(), groups_.end(), i,
                       [](std::int64_t at, const Group& group) { return at < group.begin; });
  const Group& group = *std::prev(after);
  const auto lines = static_cast<std::int64_t>(group.ids.size());
  const std::int64_t local = i - group.begin;
  const auto id = [&](std::int64_t line) { return group.ids[static_cast<std::size_t>(line)]; };
  const std::int64_t row = by_columns_ ? local / lines : id(local / p_.n);
  const std::int64_t col = by_columns_ ? id(local % lines) : local % p_.n;
  return (group.batch * p_.m + row) * p_.n + col;
}

absl::StatusOr<std::string> LineRecompute::RecheckOnHost(const HostInputs& inputs,
                                                         const CompareResult& compare,
                                                         bool flushes) {
  // The output's index, and where the device has it; both ascend.
  std::vector<std::pair<std::int64_t, std::int64_t>> at;
  std::vector<std::int64_t> wrong = {compare.worst.index};
  for (const ElementSample& s : compare.samples) wrong.push_back(s.index);
  for (std::int64_t i = 0; i < count_; ++i) {
    const std::int64_t index = OutputIndex(i);
    const bool found = std::find(wrong.begin(), wrong.end(), index) != wrong.end();
    if (i < kHostElements || found) at.emplace_back(index, i);
  }
  std::vector<std::int64_t> indices;
  indices.reserve(at.size());
  for (const auto& [index, i] : at) indices.push_back(index);
  std::vector<double> value(at.size()), allowance(at.size());
  op_.ReferenceAt(case_, plan_, inputs, indices, value.data(), allowance.data());

  const OutputRounding rounding = OutputRoundingOf(plan_.output.dtype, flushes);
  const auto read = [&](double* data, std::int64_t i, double* out) {
    return device_.ToHost({data, DType::kF64, Extents::Dense(1, 1, count_)}, i, 1, out);
  };
  for (std::size_t k = 0; k < at.size(); ++k) {
    double device_value = 0, device_allowance = 0;
    absl::Status status = read(value_, at[k].second, &device_value);
    if (status.ok() && !plan_.exact) status = read(allowance_, at[k].second, &device_allowance);
    if (!status.ok()) return status;
    const double bound =
        plan_.exact ? 0.0 : TBound(rounding, value[k], plan_.proven_factor * allowance[k]);
    const bool same = std::isfinite(value[k])
                          ? std::abs(device_value - value[k]) <= bound &&
                                device_allowance <= kAllowanceSlack * allowance[k] + 1e-300
                          : !std::isfinite(device_value);
    if (same) continue;
    const auto [of_device, of_host] = ToldApart(device_value, value[k]);
    return Cat("host and device disagree at ", Coordinates(at[k].first, plan_.output.dims),
               ": the device's reference is ", of_device, " with allowance ",
               Digits(device_allowance, 3), ", the host's ", of_host, " with ",
               Digits(allowance[k], 3));
  }
  return std::string();
}

}  // namespace assay::kernels
