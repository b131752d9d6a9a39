#include "kernels/ops/slice.h"

#include <algorithm>
#include <charconv>

#include "kernels/ops/op.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

std::string_view Trimmed(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t at = text.find(separator);
    parts.push_back(Trimmed(text.substr(0, at)));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::optional<std::int64_t> Integer(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

// One axis's range; nothing, and *error, where it is none or selects nothing.
std::optional<Range> ParseRange(std::string_view text, std::int64_t extent, std::string* error) {
  const std::vector<std::string_view> ends = Split(text, ':');
  if (ends.size() > 2) {
    *error = Cat("\"", text, "\" has a step, and slices have none");
    return std::nullopt;
  }
  const auto place = [&](std::int64_t i) { return i < 0 ? i + extent : i; };
  std::optional<std::int64_t> values[2];
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (ends[i].empty() && ends.size() == 2) continue;
    values[i] = Integer(ends[i]);
    if (values[i].has_value()) continue;
    *error = Cat("\"", text, "\" is no range; say 3, 2:5, :4 or -2:");
    return std::nullopt;
  }
  if (ends.size() == 1) {
    const std::int64_t at = place(*values[0]);
    if (at >= 0 && at < extent) return Range{at, at + 1};
    *error = Cat("index ", *values[0], " is not in an axis of ", extent);
    return std::nullopt;
  }
  const auto cut = [&](std::int64_t i) { return std::clamp<std::int64_t>(place(i), 0, extent); };
  const Range range{values[0] ? cut(*values[0]) : 0, values[1] ? cut(*values[1]) : extent};
  if (range.begin < range.end) return range;
  *error = Cat("\"", text, "\" selects nothing of an axis of ", extent);
  return std::nullopt;
}

// The tensor of a name.
std::optional<SliceRange> FindTensor(std::string_view name, const Plan& plan, std::string* error) {
  using Of = SliceRange::Of;
  constexpr std::pair<std::string_view, Of> kOfOutput[] = {
      {"actual", Of::kActual}, {"expected", Of::kExpected}, {"bound", Of::kBound}};
  SliceRange range;
  std::vector<std::string_view> known;
  for (const auto& [word, of] : kOfOutput) {
    known.push_back(word);
    if (word != name) continue;
    range.of = of;
    range.dims = plan.output.dims;
    return range;
  }
  for (std::size_t i = 0; i < plan.inputs.size(); ++i) {
    known.push_back(plan.inputs[i].name);
    if (plan.inputs[i].name != name) continue;
    range.of = Of::kInput;
    range.input = i;
    range.dims = plan.inputs[i].dims;
    return range;
  }
  if (name == kDebugTensor) {
    range.of = Of::kDebug;
    range.dims = {kDebugBytes};
    return range;
  }
  *error = Cat("no tensor \"", name, "\"; known: ", Join(known, ", "));
  return std::nullopt;
}

bool MayHaveDebugBuffer(std::string_view provider) {
  return provider.starts_with("user/") || provider.starts_with("cheat/");
}

// The name of the tensor that a slice is of.
std::string_view NameIn(std::string_view text) {
  text = Trimmed(text);
  return Trimmed(text.substr(0, text.find('[')));
}

}  // namespace

bool AsksForDebugBuffer(const Case& c) {
  return std::any_of(c.slices.begin(), c.slices.end(),
                     [](const std::string& slice) { return NameIn(slice) == kDebugTensor; });
}

std::int64_t SliceRange::count() const {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return count;
}

std::optional<SliceRange> ParseSlice(std::string_view text, const Plan& plan, std::string* error) {
  text = Trimmed(text);
  const std::size_t open = text.find('[');
  if (open != std::string_view::npos && text.back() != ']') {
    *error = Cat("\"", text, "\" must be a name and ranges in brackets, as actual[0:8,0:8]");
    return std::nullopt;
  }
  std::optional<SliceRange> range = FindTensor(NameIn(text), plan, error);
  if (!range.has_value()) return std::nullopt;
  std::vector<std::string_view> ranges;
  if (open != std::string_view::npos) {
    const std::string_view inner = Trimmed(text.substr(open + 1, text.size() - open - 2));
    if (!inner.empty()) ranges = Split(inner, ',');
  }
  if (ranges.size() > range->dims.size()) {
    *error =
        Cat("\"", text, "\" has ", ranges.size(), " ranges and the tensor ", range->dims.size(),
            range->dims.size() == 1 ? " axis [" : " axes [", Join(range->dims, ","), "]");
    return std::nullopt;
  }
  std::int64_t count = 1;
  for (std::size_t d = 0; d < range->dims.size(); ++d) {
    const std::optional<Range> one =
        ParseRange(d < ranges.size() ? ranges[d] : ":", range->dims[d], error);
    if (!one.has_value()) return std::nullopt;
    range->begin.push_back(one->begin);
    range->shape.push_back(one->end - one->begin);
    // Saturates: extents may be large, and only "too many" is of interest.
    count = std::min(kMaxSliceElements + 1, range->shape.back()) *
            std::min(count, kMaxSliceElements + 1);
  }
  if (count > kMaxSliceElements) {
    *error = Cat("\"", text, "\" has more than ", kMaxSliceElements, " elements; the tensor is [",
                 Join(range->dims, ","), "]");
    return std::nullopt;
  }
  return range;
}

void CheckSlices(const Case& c, std::vector<FieldError>& errors) {
  if (c.slices.empty()) return;
  if (c.slices.size() > kMaxSlices) {
    errors.push_back({"slices", Cat("may be at most ", kMaxSlices, ", got ", c.slices.size())});
    return;
  }
  const Op* op = FindOp(OpName(c.problem));
  if (op == nullptr) return;
  const absl::StatusOr<Plan> plan = op->MakePlan(c);
  if (!plan.ok()) return;  // said when the case is planned
  for (std::size_t i = 0; i < c.slices.size(); ++i) {
    std::string error;
    const std::optional<SliceRange> range = ParseSlice(c.slices[i], *plan, &error);
    if (!range.has_value()) {
      errors.push_back({Cat("slices[", i, "]"), std::move(error)});
    } else if (range->of == SliceRange::Of::kDebug && !MayHaveDebugBuffer(c.provider)) {
      errors.push_back(
          {Cat("slices[", i, "]"),
           Cat("debug is a buffer that kernels of users have: --kernel FILE; got the provider \"",
               c.provider, "\"")});
    } else if (c.verify == Verification::kChecksum &&
               (range->of == SliceRange::Of::kExpected || range->of == SliceRange::Of::kBound)) {
      errors.push_back({Cat("slices[", i, "]"),
                        "checksums verify without a reference: there is no expected and no bound"});
    }
  }
}

}  // namespace assay::kernels
