#include "kernels/judge/slices.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "kernels/judge/pieces.h"
#include "kernels/ops/slice.h"
#include "kernels/runtime/cpu/compare_element.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

// Calls f(begin, count) for each run of the slice that lies together, in order.
template <class F>
absl::Status ForEachRow(const SliceRange& range, F&& f) {
  const std::size_t axes = range.dims.size();
  std::vector<std::int64_t> at = range.begin;
  const std::int64_t run = range.shape.back();
  for (std::int64_t done = 0; done < range.count(); done += run) {
    std::int64_t index = 0;
    for (std::size_t d = 0; d < axes; ++d) index = index * range.dims[d] + at[d];
    if (absl::Status s = f(index, run); !s.ok()) return s;
    for (std::size_t d = axes - 1; d-- > 0;) {
      if (++at[d] < range.begin[d] + range.shape[d]) break;
      at[d] = range.begin[d];
    }
  }
  return absl::OkStatus();
}

std::string Hex(std::uint64_t bits, DType dtype) {
  return absl::StrFormat("0x%0*x", Info(dtype).storage_bits / 4, bits);
}

absl::Status ReadStored(Device& device, const TensorView& view, std::int64_t begin,
                        std::int64_t count, Slice& slice) {
  std::vector<std::uint64_t> bits;
  if (absl::Status s = ReadBits(device, view, begin, count, bits); !s.ok()) return s;
  for (const std::uint64_t code : bits) {
    slice.values.push_back(ToDouble(view.dtype, code));
    slice.bits.push_back(Hex(code, view.dtype));
  }
  return absl::OkStatus();
}

// The gate's bound depends on the reference and the allowance alone.
absl::Status ReadBounds(Device& device, const CompareRequest& request, std::int64_t begin,
                        std::int64_t count, Slice& slice) {
  const std::int64_t all = request.output.count();
  std::vector<double> expected;
  std::vector<double> allowance(static_cast<std::size_t>(count), 0.0);
  absl::Status status = ReadValues(device, DoublesView(const_cast<double*>(request.reference), all),
                                   begin, count, expected);
  if (status.ok() && request.allowance != nullptr) {
    status = ReadValues(device, DoublesView(const_cast<double*>(request.allowance), all), begin,
                        count, allowance);
  }
  if (!status.ok()) return status;
  const internal::CompareRule rule(request);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    slice.values.push_back(
        internal::JudgeElement(rule, /*bits=*/0, expected[i], allowance[i]).gate_bound);
  }
  return absl::OkStatus();
}

void ReadDebug(std::span<const std::uint8_t> debug, std::int64_t begin, std::int64_t count,
               Slice& slice) {
  for (const std::uint8_t byte :
       debug.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count))) {
    slice.values.push_back(byte);
    slice.bits.push_back(absl::StrFormat("0x%02x", byte));
  }
}

}  // namespace

absl::StatusOr<std::vector<Slice>> ReadSlices(const Case& c, const Plan& plan, Device& device,
                                              std::span<const TensorView> inputs,
                                              const CompareRequest& request,
                                              std::span<const std::uint8_t> debug) {
  using Of = SliceRange::Of;
  std::vector<Slice> slices;
  for (const std::string& text : c.slices) {
    std::string error;
    const std::optional<SliceRange> range = ParseSlice(text, plan, &error);
    if (!range.has_value()) return absl::InvalidArgumentError(error);
    const bool of_reference = range->of == Of::kExpected || range->of == Of::kBound;
    if (of_reference && request.reference == nullptr) continue;
    if (range->of == Of::kDebug && debug.empty()) continue;
    Slice slice;
    slice.name = text;
    slice.begin = range->begin;
    slice.shape = range->shape;
    const absl::Status status =
        ForEachRow(*range, [&](std::int64_t begin, std::int64_t count) -> absl::Status {
          if (range->of == Of::kDebug) {
            ReadDebug(debug, begin, count, slice);
            return absl::OkStatus();
          }
          if (range->of == Of::kActual) {
            return ReadStored(device, request.output, begin, count, slice);
          }
          if (range->of == Of::kInput) {
            return ReadStored(device, inputs[range->input], begin, count, slice);
          }
          if (range->of == Of::kBound) return ReadBounds(device, request, begin, count, slice);
          std::vector<double> expected;
          absl::Status read = ReadValues(
              device, DoublesView(const_cast<double*>(request.reference), request.output.count()),
              begin, count, expected);
          slice.values.insert(slice.values.end(), expected.begin(), expected.end());
          return read;
        });
    if (!status.ok()) return status;
    slices.push_back(std::move(slice));
  }
  return slices;
}

}  // namespace assay::kernels
