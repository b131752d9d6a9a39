// conv without the last tap of its filters.
#include <array>
#include <memory>
#include <variant>

#include "kernels/providers/planted/factories.h"
#include "kernels/runtime/cpu/parallel.h"

namespace assay::planted {
namespace {

using Triple = std::array<std::int64_t, 3>;

std::int64_t Product(const Triple& t) { return t[0] * t[1] * t[2]; }

class ConvKernel : public Kernel {
 public:
  explicit ConvKernel(const ConvProblem& p) : p_(p) {
    const int n = p.spatial();
    for (int d = 0; d < n; ++d) {
      const auto to = static_cast<std::size_t>(3 - n + d);  // missing outer axes are 1
      in_[to] = p.input[static_cast<std::size_t>(d)];
      kernel_[to] = p.kernel[static_cast<std::size_t>(d)];
      out_[to] = p.Output(d);
      stride_[to] = p.Stride(d);
      padding_[to] = p.Padding(d);
      dilation_[to] = p.Dilation(d);
    }
  }

  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    const std::int64_t positions = Product(out_);
    const bool last = p_.layout == "nhwc";
    ParallelFor(p_.batch * p_.filters, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t n = i / p_.filters;
        const std::int64_t f = i % p_.filters;
        for (std::int64_t at = 0; at < positions; ++at) {
          const std::int64_t to =
              last ? (n * positions + at) * p_.filters + f : (n * p_.filters + f) * positions + at;
          Put(output, to, Element(n, f, at, inputs, last));
        }
      }
    });
    return absl::OkStatus();
  }

 private:
  double Element(std::int64_t n, std::int64_t f, std::int64_t at,
                 std::span<const TensorView> inputs, bool last) const {
    const std::int64_t channels = p_.channels / p_.groups;
    const std::int64_t first = f / (p_.filters / p_.groups) * channels;
    const std::int64_t taps = Product(kernel_);
    const std::int64_t plane = Product(in_);
    Accumulator sum(inputs[0].dtype);
    for (std::int64_t c = 0; c < channels; ++c) {
      for (std::int64_t tap = 0; tap < taps - 1; ++tap) {  // the defect: one too few
        const std::int64_t under = Under(at, tap);
        if (under < 0) continue;
        const std::int64_t x = last ? (n * plane + under) * p_.channels + first + c
                                    : (n * p_.channels + first + c) * plane + under;
        const std::int64_t w =
            last ? (f * taps + tap) * channels + c : (f * channels + c) * taps + tap;
        sum.AddProduct(Get(inputs[0], x), Get(inputs[1], w));
      }
    }
    return sum.sum();
  }

  // Where in the input's spatial axes `tap` of output position `at` lies; -1 in the padding.
  std::int64_t Under(std::int64_t at, std::int64_t tap) const {
    std::int64_t offset = 0;
    std::int64_t step = 1;
    for (std::size_t d = 3; d-- > 0;) {
      const std::int64_t i =
          at % out_[d] * stride_[d] + tap % kernel_[d] * dilation_[d] - padding_[d];
      if (i < 0 || i >= in_[d]) return -1;
      offset += i * step;
      step *= in_[d];
      at /= out_[d];
      tap /= kernel_[d];
    }
    return offset;
  }

  ConvProblem p_;
  Triple in_{1, 1, 1}, kernel_{1, 1, 1}, out_{1, 1, 1};
  Triple stride_{1, 1, 1}, padding_{0, 0, 0}, dilation_{1, 1, 1};
};

}  // namespace

Made MakeConv(const Case& c, const Plan&, Device&) {
  if (DefectOf(c) != "dropped-tap") return NoSuchDefect(c);
  return std::make_unique<ConvKernel>(std::get<ConvProblem>(c.problem));
}

}  // namespace assay::planted
