#include "kernels/validate/repeats.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "absl/strings/str_format.h"
#include "kernels/judge/verdict.h"
#include "kernels/numerics/convert.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

constexpr std::int64_t kChunk = std::int64_t{1} << 20;  // [elements] read from the device at once

// The first `count` elements of either tensor from `begin` on.
class Reader {
 public:
  Reader(Device& device, const TensorView& view) : device_(device), view_(view) {
    bytes_.resize(static_cast<std::size_t>(StorageBytes(view.dtype, kChunk)));
  }
  absl::Status Read(std::int64_t begin, std::int64_t count) {
    return device_.ToHost(view_, begin, count, bytes_.data());
  }
  std::uint64_t Bits(std::int64_t i) const { return LoadBits(view_.dtype, bytes_.data(), i); }

 private:
  Device& device_;
  const TensorView view_;
  std::vector<unsigned char> bytes_;
};

void Include(std::int64_t index, const std::vector<std::int64_t>& dims, Deviation& deviation) {
  for (std::size_t d = dims.size(); d-- > 0;) {
    const std::int64_t at = index % dims[d];
    index /= dims[d];
    deviation.begin[d] = std::min(deviation.begin[d], at);
    deviation.end[d] = std::max(deviation.end[d], at + 1);
  }
}

std::string BlockText(const Deviation& deviation) {
  std::vector<std::string> ranges;
  for (std::size_t d = 0; d < deviation.begin.size(); ++d) {
    ranges.push_back(Cat(deviation.begin[d], ":", deviation.end[d]));
  }
  return Cat("[", Join(ranges, ","), "]");
}

}  // namespace

std::string Text(const Deviation& deviation, const Plan& plan) {
  const DType dtype = plan.output.dtype;
  const auto value = [dtype](const std::string& text, std::uint64_t bits) {
    const int digits = std::max(1, Info(dtype).storage_bits / 4);
    return absl::StrFormat("%s (0x%0*x)", text, digits, bits);
  };
  const auto [is, was] =
      ToldApart(ToDouble(dtype, deviation.deviating_bits), ToDouble(dtype, deviation.first_bits));
  const bool one = deviation.elements == 1;
  return Cat("launch ", Grouped(deviation.launch), " differs from the first in ",
             one ? "1 element, " : Cat(Grouped(deviation.elements), " elements, all in "),
             one ? "" : Cat(BlockText(deviation), ", the first "),
             Coordinates(deviation.first, plan.output.dims), ": ",
             value(is, deviation.deviating_bits), " instead of ", value(was, deviation.first_bits));
}

absl::StatusOr<std::optional<Deviation>> Locate(Device& device, const TensorView& kept,
                                                const TensorView& output,
                                                const std::vector<std::int64_t>& dims) {
  Deviation deviation;
  deviation.begin = dims;
  deviation.end.assign(dims.size(), 0);
  Reader was(device, kept), is(device, output);
  for (std::int64_t begin = 0; begin < output.count(); begin += kChunk) {
    const std::int64_t count = std::min(kChunk, output.count() - begin);
    absl::Status status = was.Read(begin, count);
    if (status.ok()) status = is.Read(begin, count);
    if (!status.ok()) return status;
    for (std::int64_t i = 0; i < count; ++i) {
      if (was.Bits(i) == is.Bits(i)) continue;
      if (deviation.elements++ == 0) {
        deviation.first = begin + i;
        deviation.first_bits = was.Bits(i);
        deviation.deviating_bits = is.Bits(i);
      }
      Include(begin + i, dims, deviation);
    }
  }
  if (deviation.elements == 0) return std::nullopt;
  return deviation;
}

absl::StatusOr<Repeated> LaunchRepeatedly(Launcher& launcher, Device& device, const Plan& plan,
                                          int repeats) {
  Repeated repeated;
  std::map<std::pair<std::uint64_t, std::uint64_t>, int> launches_of;
  std::optional<TensorDigest> first;
  const TensorView& output = launcher.output();
  const Extents& e = output.extents;
  const TensorView kept{launcher.reference().value, output.dtype,
                        Extents::Dense(e.batch, e.rows, e.cols)};
  int agreeing = 0;
  for (int i = 1; i <= repeats; ++i) {
    absl::StatusOr<double> seconds = launcher.Launch(Poison::kFirst);
    if (!seconds.ok()) return seconds.status();
    repeated.seconds.push_back(*seconds);
    if (repeats == 1) return repeated;
    absl::StatusOr<TensorDigest> digest = launcher.OutputDigest();
    if (!digest.ok()) return digest.status();
    agreeing = std::max(agreeing, ++launches_of[{digest->raw[0], digest->raw[1]}]);
    if (!first) {
      first = *digest;
      absl::Status status;
      if (kept.data != nullptr) status = device.Copy(output, kept);
      if (!status.ok()) return status;
    } else if (launches_of.size() > 1 && !repeated.deviation && kept.data != nullptr) {
      auto deviation = Locate(device, kept, output, plan.output.dims);
      if (!deviation.ok()) return deviation.status();
      repeated.deviation = *std::move(deviation);
      if (repeated.deviation) repeated.deviation->launch = i;
    }
  }
  repeated.variants = static_cast<int>(launches_of.size());
  repeated.odd_launches = repeats - agreeing;
  return repeated;
}

}  // namespace assay::kernels
