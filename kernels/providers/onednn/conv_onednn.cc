// conv with oneDNN's forward convolution. The primitive gets x and y in the layout of the case and
// chooses its own layout for the weights. If it has no fast implementation for these, it chooses
// all three layouts. The reorders between are part of the launch, because the operands may hold new
// data each time.
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "kernels/providers/onednn/onednn.h"
#include "kernels/providers/onednn/primitives.h"
#include "kernels/providers/refusals.h"

namespace assay::inline kernels {
namespace {

using dnnl::memory;
using onednn::Compiled;
using onednn::Desc;
using onednn::Dims;

// Describes `dims`, in the library's order of axes, as dense memory. If `channels_last`, the
// channel axis at position `channel` is the innermost one.
Desc DenseDesc(memory::data_type type, const Dims& dims, std::size_t channel, bool channels_last) {
  std::vector<std::size_t> order;  // outermost first
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (!channels_last || i != channel) order.push_back(i);
  }
  if (channels_last) order.push_back(channel);
  Dims strides(dims.size());
  memory::dim step = 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = step;
    step *= dims[order[i]];
  }
  return Desc(dims, type, strides);
}

// The operands in the layout of the case.
struct Layouts {
  Desc x, w, y;
};

Layouts CaseLayouts(const ConvProblem& p, memory::data_type in, memory::data_type out) {
  const bool last = p.layout == "nhwc";
  Dims x{p.batch, p.channels};
  Dims y{p.batch, p.filters};
  Dims w;
  if (p.groups > 1) {
    w = {p.groups, p.filters / p.groups, p.channels / p.groups};
  } else {
    w = {p.filters, p.channels};
  }
  const std::size_t w_channel = w.size() - 1;
  for (int d = 0; d < p.spatial(); ++d) {
    x.push_back(p.input[static_cast<std::size_t>(d)]);
    w.push_back(p.kernel[static_cast<std::size_t>(d)]);
    y.push_back(p.Output(d));
  }
  return Layouts{DenseDesc(in, x, 1, last), DenseDesc(in, w, w_channel, last),
                 DenseDesc(out, y, 1, last)};
}

Desc AnyLayout(const Desc& d) { return Desc(d.dims(), d.data_type(), memory::format_tag::any); }

Compiled CompileConv(const ConvProblem& p, const Layouts& layouts) {
  Dims strides, dilates, padding;
  for (int d = 0; d < p.spatial(); ++d) {
    strides.push_back(p.Stride(d));
    dilates.push_back(p.Dilation(d) - 1);  // the library counts the gaps
    padding.push_back(p.Padding(d));
  }
  const auto make = [&](const Desc& x, const Desc& w, const Desc& y) {
    const dnnl::convolution_forward::desc desc(dnnl::prop_kind::forward_inference,
                                               dnnl::algorithm::convolution_direct, x, w, y,
                                               strides, dilates, padding, padding);
    return dnnl::convolution_forward::primitive_desc(desc, onednn::UserScratchpad(),
                                                     onednn::CpuEngine(), /*allow_empty=*/true);
  };
  auto pd = make(layouts.x, AnyLayout(layouts.w), layouts.y);
  const std::string_view chosen = pd ? pd.impl_info_str() : "";
  // Patches in memory with a product (gemm) are 1.3 to 2 times slower than the blocked kernels with
  // their reorders, and 5 times slower for depthwise convolutions. For 1x1 kernels, which have no
  // patches, they are faster.
  bool one_by_one = true;
  for (const std::int64_t k : p.kernel) one_by_one = one_by_one && k == 1;
  const bool patches = chosen.find("gemm:") != std::string_view::npos && !one_by_one;
  if (!pd || chosen.starts_with("ref") || patches) {
    auto free = make(AnyLayout(layouts.x), AnyLayout(layouts.w), AnyLayout(layouts.y));
    if (free) pd = free;
  }
  if (!pd) throw dnnl::error(dnnl_unimplemented, "no implementation");
  Compiled compiled = onednn::Finish<dnnl::convolution_forward>(pd);
  compiled.layouts = {pd.src_desc(), pd.weights_desc(), pd.dst_desc()};
  return compiled;
}

// A reorder between the layout of the case and the one that the primitive chose; none if they are
// the same. `key` names the primitive and the operand.
std::optional<onednn::Step> Reorder(const std::string& key, const Desc& from, const Desc& to) {
  if (from == to) return std::nullopt;
  onednn::Step step(onednn::Compile(key, [&] {
    return onednn::Finish<dnnl::reorder>(dnnl::reorder::primitive_desc(
        onednn::CpuEngine(), from, onednn::CpuEngine(), to, onednn::UserScratchpad()));
  }));
  step.Bind(DNNL_ARG_FROM, from);
  step.Bind(DNNL_ARG_TO, to);
  return step;
}

class ConvKernel : public Kernel {
 public:
  ConvKernel(DType input, onednn::Step conv)
      : flushes_subnormals_(onednn::FlushesSubnormals(input)),
        of_integers_(input == DType::kI8),
        conv_(std::move(conv)) {}

  // Makes the reorders that `layouts` needs, with their memory. `key` is that of the convolution.
  absl::Status Connect(const std::string& key, const Layouts& layouts, Device& device) {
    const std::vector<Desc>& chosen = conv_.compiled().layouts;
    move_x_ = Reorder(key + " x", layouts.x, chosen[0]);
    move_w_ = Reorder(key + " w", layouts.w, chosen[1]);
    move_y_ = Reorder(key + " y", chosen[2], layouts.y);
    absl::Status status = BindEnd(DNNL_ARG_SRC, chosen[0], move_x_, DNNL_ARG_TO, device);
    if (status.ok()) {
      status = BindEnd(DNNL_ARG_WEIGHTS, chosen[1], move_w_, DNNL_ARG_TO, device);
    }
    if (status.ok()) status = BindEnd(DNNL_ARG_DST, chosen[2], move_y_, DNNL_ARG_FROM, device);
    if (!status.ok()) return status;
    return onednn::AllocateScratchpad(
        device, {&conv_, Pointer(move_x_), Pointer(move_w_), Pointer(move_y_)});
  }

  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    return onednn::Guarded("convolution", [&] {
      Feed(move_x_, DNNL_ARG_SRC, inputs[0].data);
      Feed(move_w_, DNNL_ARG_WEIGHTS, inputs[1].data);
      if (!move_y_.has_value()) conv_.Set(DNNL_ARG_DST, output.data);
      conv_.Run();
      if (move_y_.has_value()) {
        move_y_->Set(DNNL_ARG_TO, output.data);
        move_y_->Run();
      }
      return absl::OkStatus();
    });
  }

  bool flushes_subnormals() const override { return flushes_subnormals_; }
  // Sums of int8 go through fp32 on their way to int32. Measured: beyond 2^24 half of them are off
  // by one.
  double intermediate_roundoff() const override {
    return of_integers_ ? Info(DType::kF32).unit_roundoff : 0.0;
  }

  std::string implementation() const override {
    return Cat(conv_.compiled().implementation, move_x_.has_value() ? " +reorder x" : "",
               move_w_.has_value() ? " +reorder w" : "", move_y_.has_value() ? " +reorder y" : "",
               of_integers_ ? ", sums pass through fp32" : "");
  }

 private:
  static onednn::Step* Pointer(std::optional<onednn::Step>& s) {
    return s.has_value() ? &*s : nullptr;
  }

  // Binds an argument of the convolution. If it has a reorder, both share the memory.
  absl::Status BindEnd(int arg, const Desc& desc, std::optional<onednn::Step>& move, int move_arg,
                       Device& device) {
    if (!move.has_value()) {
      conv_.Bind(arg, desc);
      return absl::OkStatus();
    }
    const absl::StatusOr<Block> block =
        device.arena().Allocate(static_cast<std::int64_t>(desc.get_size()), /*guarded=*/false);
    if (!block.ok()) return block.status();
    conv_.Bind(arg, desc, block->data);
    move->Bind(move_arg, desc, block->data);
    return absl::OkStatus();
  }

  void Feed(std::optional<onednn::Step>& move, int arg, void* data) {
    if (!move.has_value()) {
      conv_.Set(arg, data);
      return;
    }
    move->Set(DNNL_ARG_FROM, data);
    move->Run();
  }

  bool flushes_subnormals_;
  bool of_integers_;
  onednn::Step conv_;
  std::optional<onednn::Step> move_x_, move_w_, move_y_;
};

std::string ProblemKey(const ConvProblem& p) {
  std::string key = Cat(p.batch, ",", p.channels, ",", p.filters, ",", p.groups, ",", p.layout);
  for (int d = 0; d < p.spatial(); ++d) {
    const auto i = static_cast<std::size_t>(d);
    key += Cat(";", p.input[i], ",", p.kernel[i], ",", p.Stride(d), ",", p.Padding(d), ",",
               p.Dilation(d));
  }
  return key;
}

absl::StatusOr<std::unique_ptr<Kernel>> Make(const Case& c, const Plan& plan, Device& device) {
  const auto& p = std::get<ConvProblem>(c.problem);
  if (absl::Status s = RefuseInfiniteBf16(plan, "oneDNN conv"); !s.ok()) return s;
  const DType in = plan.inputs[0].dtype;
  const DType out = plan.output.dtype;
  const auto in_type = onednn::TypeOf(in);
  const auto out_type = onednn::TypeOf(out);
  if (!in_type.ok()) return in_type.status();
  if (!out_type.ok()) return out_type.status();
  if (in == DType::kI8 && !onednn::HasExactInt8()) {
    return absl::UnimplementedError("oneDNN sums int8 products exactly only with VNNI");
  }
  const std::string what = Cat(Name(in), " convolution to ", Name(out));
  return onednn::Guarded(what, [&]() -> absl::StatusOr<std::unique_ptr<Kernel>> {
    const Layouts layouts = CaseLayouts(p, *in_type, *out_type);
    const std::string key = Cat(what, ";", ProblemKey(p));
    auto kernel = std::make_unique<ConvKernel>(
        in, onednn::Step(onednn::Compile(key, [&] { return CompileConv(p, layouts); })));
    const absl::Status status = kernel->Connect(key, layouts, device);
    if (!status.ok()) return status;
    return kernel;
  });
}

}  // namespace

KernelEntry OnednnConv() {
  return onednn::Entry("conv", {DType::kF32, DType::kBF16, DType::kI8}, &Make);
}

}  // namespace assay::kernels
