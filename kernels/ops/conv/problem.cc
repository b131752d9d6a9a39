#include "kernels/ops/conv/problem.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

constexpr Field<ConvProblem> kFields[] = {
    {"batch", &ConvProblem::batch},     {"channels", &ConvProblem::channels},
    {"filters", &ConvProblem::filters}, {"input", &ConvProblem::input},
    {"kernel", &ConvProblem::kernel},   {"stride", &ConvProblem::stride},
    {"padding", &ConvProblem::padding}, {"dilation", &ConvProblem::dilation},
    {"groups", &ConvProblem::groups},   {"layout", &ConvProblem::layout},
};

// Every number of a list in its range, the first wrong one named.
void CheckList(std::string_view field, const IntList& list, std::int64_t low,
               std::vector<FieldError>& errors) {
  for (std::int64_t value : list) {
    if (value >= low && value <= kMaxExtent) continue;
    CheckRange(field, value, low, kMaxExtent, errors);
    return;
  }
}

void CheckLength(std::string_view field, const IntList& list, std::size_t spatial,
                 std::vector<FieldError>& errors) {
  if (list.size() <= 1 || list.size() == spatial) return;
  errors.push_back(
      {std::string(field), Cat("must have none, one or ", spatial, " numbers, got ", list.size())});
}

bool AllSame(const IntList& list) {
  return std::all_of(list.begin(), list.end(), [&](std::int64_t v) { return v == list[0]; });
}

// " pad 1", " stride 1x2"; nothing where every number is the default.
void AppendList(std::string_view word, const IntList& list, std::int64_t fallback,
                std::string* text) {
  if (list.empty() || (AllSame(list) && list[0] == fallback)) return;
  Append(text, " ", word, " ", AllSame(list) ? Cat(list[0]) : absl::StrJoin(list, "x"));
}

}  // namespace

std::span<const Field<ConvProblem>> ConvProblem::Fields() { return kFields; }

std::vector<FieldError> ConvProblem::Check() const {
  std::vector<FieldError> errors;
  CheckRange("batch", batch, 1, kMaxExtent, errors);
  CheckRange("channels", channels, 1, kMaxExtent, errors);
  CheckRange("filters", filters, 1, kMaxExtent, errors);
  CheckRange("groups", groups, 1, kMaxExtent, errors);
  const std::size_t dims = input.size();
  if (dims < 1 || dims > 3) {
    errors.push_back({"input", Cat("must have 1 to 3 numbers, got ", dims)});
  }
  if (kernel.size() != dims) {
    errors.push_back(
        {"kernel", Cat("must have as many numbers as input, ", dims, ", got ", kernel.size())});
  }
  CheckLength("stride", stride, dims, errors);
  CheckLength("padding", padding, dims, errors);
  CheckLength("dilation", dilation, dims, errors);
  CheckList("input", input, 1, errors);
  CheckList("kernel", kernel, 1, errors);
  CheckList("stride", stride, 1, errors);
  CheckList("padding", padding, 0, errors);
  CheckList("dilation", dilation, 1, errors);
  if (layout != "nchw" && layout != "nhwc") {
    errors.push_back({"layout", Cat("must be nchw or nhwc, got \"", layout, "\"")});
  }
  if (groups >= 1 && channels >= 1 && channels % groups != 0) {
    errors.push_back({"groups", Cat("must divide channels, ", channels, ", got ", groups)});
  }
  if (groups >= 1 && filters >= 1 && filters % groups != 0) {
    errors.push_back({"groups", Cat("must divide filters, ", filters, ", got ", groups)});
  }
  if (!errors.empty()) return errors;

  std::int64_t in = 1, out = 1, taps = 1;
  for (int d = 0; d < spatial(); ++d) {
    const std::size_t i = static_cast<std::size_t>(d);
    const std::int64_t reach = SaturatingMul(Dilation(d), kernel[i] - 1);
    const std::int64_t padded = input[i] + 2 * Padding(d);
    if (reach >= padded) {
      errors.push_back({"kernel", Cat("reaches over ", reach, " + 1 elements in dimension ", d,
                                      ", more than the padded input's ", padded, ": no output")});
      return errors;
    }
    in = SaturatingMul(in, input[i]);
    out = SaturatingMul(out, Output(d));
    taps = SaturatingMul(taps, kernel[i]);
  }
  CheckCount("input", "x", {batch, channels, in}, errors);
  CheckCount("filters", "w", {filters, channels / groups, taps}, errors);
  CheckCount("filters", "y", {batch, filters, out}, errors);
  return errors;
}

std::string ConvProblem::Describe() const {
  std::string text = Cat(batch, "x", channels, "x", absl::StrJoin(input, "x"), " ", filters, "x",
                         absl::StrJoin(kernel, "x"));
  AppendList("stride", stride, 1, &text);
  AppendList("pad", padding, 0, &text);
  AppendList("dilation", dilation, 1, &text);
  if (groups != 1) Append(&text, " groups ", groups);
  if (layout != "nchw") Append(&text, " ", layout);
  return text;
}

}  // namespace assay::kernels
