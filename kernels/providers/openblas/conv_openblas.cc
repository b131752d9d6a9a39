// conv with im2col and cblas_?gemm. For one image and group, the patches for a run of output
// positions are written as a matrix. Then the convolution is one product:
//
//   nchw: y[filter, position] = w[filter, channel·kernel] · patches[channel·kernel, position]
//   nhwc: y[position, filter] = patches[position, kernel·channel] · w[filter, kernel·channel]ᵀ
//
// A run is as long as its patches fit into 16 MiB.
#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <variant>

#include "kernels/providers/openblas/blas.h"
#include "kernels/providers/openblas/openblas.h"
#include "kernels/runtime/cpu/parallel.h"

namespace assay::inline kernels {
namespace {

constexpr std::int64_t kPatchBytes = std::int64_t{16} << 20;

// Three spatial axes. Missing outer axes have extent 1.
struct Geometry {
  std::array<std::int64_t, 3> in{1, 1, 1}, out{1, 1, 1}, kernel{1, 1, 1};
  std::array<std::int64_t, 3> stride{1, 1, 1}, padding{0, 0, 0}, dilation{1, 1, 1};
  std::int64_t channels = 0;  // of a group
  std::int64_t filters = 0;   // of a group

  explicit Geometry(const ConvProblem& p)
      : channels(p.channels / p.groups), filters(p.filters / p.groups) {
    const int n = p.spatial();
    for (int d = 0; d < n; ++d) {
      const auto from = static_cast<std::size_t>(d);
      const std::size_t to = 3 - static_cast<std::size_t>(n) + from;
      in[to] = p.input[from];
      out[to] = p.Output(d);
      kernel[to] = p.kernel[from];
      stride[to] = p.Stride(d);
      padding[to] = p.Padding(d);
      dilation[to] = p.Dilation(d);
    }
  }

  static std::int64_t Product(const std::array<std::int64_t, 3>& a) { return a[0] * a[1] * a[2]; }
  std::int64_t positions() const { return Product(out); }
  std::int64_t taps() const { return Product(kernel); }
  std::int64_t depth() const { return channels * taps(); }

  // The input coordinate in axis `d` under `tap` of the output coordinate `o`. It may lie in the
  // padding.
  std::int64_t Under(std::size_t d, std::int64_t o, std::int64_t tap) const {
    return o * stride[d] + tap * dilation[d] - padding[d];
  }
  bool Inside(std::size_t d, std::int64_t i) const { return i >= 0 && i < in[d]; }
};

// The coordinates of a flat index.
std::array<std::int64_t, 3> Coordinates(std::int64_t i, const std::array<std::int64_t, 3>& extent) {
  return {i / (extent[1] * extent[2]), i / extent[2] % extent[1], i % extent[2]};
}

// Writes one row of the patches: `plane` under tap `tap` of the output positions [first, first +
// count), one output line at a time.
template <class T>
void PatchRow(const Geometry& g, const T* plane, std::int64_t tap, std::int64_t first,
              std::int64_t count, T* out) {
  const auto t = Coordinates(tap, g.kernel);
  for (std::int64_t done = 0; done < count;) {
    const auto o = Coordinates(first + done, g.out);
    const std::int64_t line = std::min(g.out[2] - o[2], count - done);
    const std::int64_t i0 = g.Under(0, o[0], t[0]);
    const std::int64_t i1 = g.Under(1, o[1], t[1]);
    if (g.Inside(0, i0) && g.Inside(1, i1)) {
      const T* from = plane + (i0 * g.in[1] + i1) * g.in[2];
      std::int64_t i2 = g.Under(2, o[2], t[2]);
      for (std::int64_t i = 0; i < line; ++i, i2 += g.stride[2]) {
        out[done + i] = g.Inside(2, i2) ? from[i2] : T{0};
      }
    } else {
      std::fill_n(out + done, line, T{0});
    }
    done += line;
  }
}

template <class T>
class ConvKernel : public Kernel {
 public:
  ConvKernel(const ConvProblem& p, std::int64_t run, T* patches)
      : p_(p), g_(p), run_(run), patches_(patches) {}

  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    for (std::int64_t n = 0; n < p_.batch; ++n) {
      for (std::int64_t group = 0; group < p_.groups; ++group) {
        for (std::int64_t first = 0; first < g_.positions(); first += run_) {
          const std::int64_t count = std::min(run_, g_.positions() - first);
          if (p_.layout == "nhwc") {
            ChannelsLast(n, group, first, count, inputs, output);
          } else {
            ChannelsFirst(n, group, first, count, inputs, output);
          }
        }
      }
    }
    return absl::OkStatus();
  }

  std::string implementation() const override { return "im2col, gemm " + blas::Implementation(); }

 private:
  void ChannelsFirst(std::int64_t n, std::int64_t group, std::int64_t first, std::int64_t count,
                     std::span<const TensorView> inputs, const TensorView& output) {
    const std::int64_t plane = Geometry::Product(g_.in);
    const T* x = inputs[0].as<const T>() + (n * p_.channels + group * g_.channels) * plane;
    ParallelFor(g_.depth(), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        PatchRow(g_, x + row / g_.taps() * plane, row % g_.taps(), first, count,
                 patches_ + row * count);
      }
    });
    blas::Gemm(blas::GemmArgs<T>{
        .m = g_.filters,
        .n = count,
        .k = g_.depth(),
        .a = inputs[1].as<const T>() + group * g_.filters * g_.depth(),
        .lda = g_.depth(),
        .b = patches_,
        .ldb = count,
        .c = output.as<T>() + (n * p_.filters + group * g_.filters) * g_.positions() + first,
        .ldc = g_.positions()});
  }

  void ChannelsLast(std::int64_t n, std::int64_t group, std::int64_t first, std::int64_t count,
                    std::span<const TensorView> inputs, const TensorView& output) {
    const T* x =
        inputs[0].as<const T>() + n * Geometry::Product(g_.in) * p_.channels + group * g_.channels;
    ParallelFor(count, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        T* out = patches_ + i * g_.depth();
        const auto o = Coordinates(first + i, g_.out);
        for (std::int64_t tap = 0; tap < g_.taps(); ++tap, out += g_.channels) {
          const auto t = Coordinates(tap, g_.kernel);
          const std::int64_t i0 = g_.Under(0, o[0], t[0]);
          const std::int64_t i1 = g_.Under(1, o[1], t[1]);
          const std::int64_t i2 = g_.Under(2, o[2], t[2]);
          if (g_.Inside(0, i0) && g_.Inside(1, i1) && g_.Inside(2, i2)) {
            const std::int64_t at = (i0 * g_.in[1] + i1) * g_.in[2] + i2;
            std::copy_n(x + at * p_.channels, g_.channels, out);
          } else {
            std::fill_n(out, g_.channels, T{0});
          }
        }
      }
    });
    blas::Gemm(blas::GemmArgs<T>{
        .trans_b = true,
        .m = count,
        .n = g_.filters,
        .k = g_.depth(),
        .a = patches_,
        .lda = g_.depth(),
        .b = inputs[1].as<const T>() + group * g_.filters * g_.depth(),
        .ldb = g_.depth(),
        .c = output.as<T>() + (n * g_.positions() + first) * p_.filters + group * g_.filters,
        .ldc = p_.filters});
  }

  ConvProblem p_;
  Geometry g_;
  std::int64_t run_;  // output positions at a time
  T* patches_;        // [depth, run] or [run, depth]
};

template <class T>
absl::StatusOr<std::unique_ptr<Kernel>> MakeAs(const ConvProblem& p, Device& device) {
  const Geometry g(p);
  const auto size = static_cast<std::int64_t>(sizeof(T));
  const std::int64_t run =
      std::clamp<std::int64_t>(kPatchBytes / size / g.depth(), 1, g.positions());
  const auto patches = device.arena().Allocate(run * g.depth() * size, /*guarded=*/false);
  if (!patches.ok()) return patches.status();
  return std::make_unique<ConvKernel<T>>(p, run, static_cast<T*>(patches->data));
}

absl::StatusOr<std::unique_ptr<Kernel>> Make(const Case& c, const Plan& plan, Device& device) {
  const auto& p = std::get<ConvProblem>(c.problem);
  const Geometry g(p);
  const DType format = plan.inputs[0].dtype;
  absl::Status ok = blas::CheckFormats(format, plan.output.dtype);
  if (ok.ok()) ok = blas::CheckExtents({p.filters, g.positions(), g.depth()});
  if (!ok.ok()) return ok;
  return format == DType::kF32 ? MakeAs<float>(p, device) : MakeAs<double>(p, device);
}

}  // namespace

KernelEntry OpenblasConv() { return blas::Entry("conv", &Make); }

}  // namespace assay::kernels
