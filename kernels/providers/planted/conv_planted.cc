// conv, correct except for one defect; see the table. Plain loops over channels and taps.
#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "kernels/providers/planted/defect.h"
#include "kernels/providers/planted/factories.h"
#include "kernels/providers/planted/site.h"
#include "kernels/runtime/cpu/parallel.h"

namespace assay::inline kernels::planted {
namespace {

constexpr std::string_view kNames[] = {"dropped-tap",     "flipped-filter",      "wrong-group",
                                       "clamped-padding", "short-element",       "doubled-product",
                                       "fp16-accumulate", "truncating-output",   "tf32-input",
                                       "tf32-weights",    "output-through-fp16", "bit-flip",
                                       "zero-output"};
using Defect = NamedDefect<kNames>;

constexpr std::int64_t kChannels = 8;  // channels that the short element leaves out

enum SiteDraw : std::uint32_t { kImageDraw, kFilterDraw, kPositionDraw, kChannelDraw };

using Triple = std::array<std::int64_t, 3>;

std::int64_t Product(const Triple& t) { return t[0] * t[1] * t[2]; }

// T is the accumulator. It is double for fp64 and for integers, whose sums it holds exactly.
template <class T>
class ConvKernel : public Kernel {
 public:
  ConvKernel(const ConvProblem& p, Defect defect, const Site& site) : p_(p), defect_(defect) {
    const int n = p.spatial();
    const std::size_t missing = 3 - static_cast<std::size_t>(n);  // outer axes, which are 1
    for (int d = 0; d < n; ++d) {
      const std::size_t to = missing + static_cast<std::size_t>(d);
      in_[to] = p.input[static_cast<std::size_t>(d)];
      kernel_[to] = p.kernel[static_cast<std::size_t>(d)];
      out_[to] = p.Output(d);
      stride_[to] = p.Stride(d);
      padding_[to] = p.Padding(d);
      dilation_[to] = p.Dilation(d);
    }
    image_ = site.Draw(kImageDraw, p.batch);
    filter_ = site.Draw(kFilterDraw, p.filters);
    position_ = site.Draw(kPositionDraw, Product(out_));
    channel_ = site.Draw(kChannelDraw, p.channels / p.groups);
    const std::int64_t taps = Product(kernel_);
    for (std::int64_t at = 0; at < Product(out_); ++at) {
      for (std::int64_t tap = 0; tap < taps; ++tap) under_.push_back(Under(at, tap));
    }
  }

  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    const std::vector<T> x = Load(inputs[0], Is("tf32-input"));
    const std::vector<T> w = Load(inputs[1], Is("tf32-weights"));
    const std::int64_t positions = Product(out_);
    const bool last = p_.layout == "nhwc";
    ParallelFor(p_.batch * p_.filters, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t n = i / p_.filters;
        const std::int64_t f = i % p_.filters;
        for (std::int64_t at = 0; at < positions; ++at) {
          const std::int64_t to =
              last ? (n * positions + at) * p_.filters + f : (n * p_.filters + f) * positions + at;
          auto value = static_cast<double>(Element(n, f, at, x, w, last));
          if (Is("output-through-fp16")) value = Quantise(value, DType::kF16);
          std::uint64_t bits = Is("truncating-output") ? Truncated(value, output.dtype)
                                                       : RoundToFormat(value, output.dtype);
          if (Is("bit-flip") && Here(n, f, at)) bits ^= 2;
          StoreBits(output.dtype, output.data, to, bits);
        }
      }
    });
    return absl::OkStatus();
  }

 private:
  bool Is(Defect defect) const { return defect_ == defect; }
  bool Here(std::int64_t n, std::int64_t f, std::int64_t at) const {
    return n == image_ && f == filter_ && at == position_;
  }

  static std::vector<T> Load(const TensorView& v, bool as_tf32) {
    std::vector<T> out(static_cast<std::size_t>(v.count()));
    for (std::size_t i = 0; i < out.size(); ++i) {
      const double element = Get(v, static_cast<std::int64_t>(i));
      out[i] = static_cast<T>(as_tf32 ? Quantise(element, DType::kTF32) : element);
    }
    return out;
  }

  T Element(std::int64_t n, std::int64_t f, std::int64_t at, const std::vector<T>& x,
            const std::vector<T>& w, bool last) const {
    if (Is("zero-output")) return T{0};
    const std::int64_t channels = p_.channels / p_.groups;
    const std::int64_t group = Is("wrong-group") ? 0 : f / (p_.filters / p_.groups);
    const std::int64_t taps = Product(kernel_);
    const std::int64_t summed = Is("dropped-tap") ? taps - 1 : taps;
    const std::int64_t plane = Product(in_);
    const std::int64_t* const under_taps = under_.data() + at * taps;
    const bool here = Here(n, f, at);
    T sum = 0;
    bool doubled = !(here && Is("doubled-product"));
    for (std::int64_t c = 0; c < channels; ++c) {
      if (here && Is("short-element") && c / kChannels == channel_ / kChannels) continue;
      const std::int64_t of = group * channels + c;
      for (std::int64_t tap = 0; tap < summed; ++tap) {
        const std::int64_t under = under_taps[tap];
        if (under < 0) continue;
        const std::int64_t from = Is("flipped-filter") ? taps - 1 - tap : tap;
        const std::int64_t xi =
            last ? (n * plane + under) * p_.channels + of : (n * p_.channels + of) * plane + under;
        const std::int64_t wi =
            last ? (f * taps + from) * channels + c : (f * channels + c) * taps + from;
        const T product = x[static_cast<std::size_t>(xi)] * w[static_cast<std::size_t>(wi)];
        sum += product;
        if (!doubled && c == channel_) {
          sum += product;
          doubled = true;
        }
        if (Is("fp16-accumulate")) sum = ToHalf(sum);
      }
    }
    return sum;
  }

  // The offset in the input's spatial axes under `tap` of output position `at`; -1 in the padding.
  std::int64_t Under(std::int64_t at, std::int64_t tap) const {
    std::int64_t offset = 0;
    std::int64_t step = 1;
    for (std::size_t d = 3; d-- > 0;) {
      std::int64_t i = at % out_[d] * stride_[d] + tap % kernel_[d] * dilation_[d] - padding_[d];
      if (Is("clamped-padding")) i = std::clamp<std::int64_t>(i, 0, in_[d] - 1);
      if (i < 0 || i >= in_[d]) return -1;
      offset += i * step;
      step *= in_[d];
      at /= out_[d];
      tap /= kernel_[d];
    }
    return offset;
  }

  ConvProblem p_;
  Defect defect_;
  Triple in_{1, 1, 1}, kernel_{1, 1, 1}, out_{1, 1, 1};
  Triple stride_{1, 1, 1}, padding_{0, 0, 0}, dilation_{1, 1, 1};
  // The element of the defect.
  std::int64_t image_, filter_, position_, channel_;
  std::vector<std::int64_t> under_;  // what Under gives for each tap of each position
};

}  // namespace

Made MakeConv(const Case& c, const Plan& plan, Device&) {
  const std::optional<Defect> defect = Defect::Find(DefectOf(c));
  if (!defect) return NoSuchDefect(c);
  const auto& p = std::get<ConvProblem>(c.problem);
  const DType dtype = plan.inputs[0].dtype;
  if (dtype == DType::kF64 || Info(dtype).is_integer) {
    return std::make_unique<ConvKernel<double>>(p, *defect, Site(c));
  }
  return std::make_unique<ConvKernel<float>>(p, *defect, Site(c));
}

}  // namespace assay::kernels::planted
