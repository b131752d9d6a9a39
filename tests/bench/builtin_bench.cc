// The built-in softmax, layer norm and gemm against oneDNN's on the same data, in
// one process and alternating, so that both see the same machine. Prints
// `name ours peer ratio` lines, throughputs in the unit that the first line says;
// with --json the same as one document.
//
//   builtin_bench [--json] [--seconds S a pair] [substring of the names to run]
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <dnnl.hpp>

#include "kernels/providers/builtin/builtin.h"
#include "kernels/runtime/device.h"

namespace assay {
namespace {

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Row {
  std::string name;
  double ours;
  double peer;
};

// The fastest of alternating runs [seconds]: where another process takes a core, a
// barrier waits out its time slice, and a median says more about that process.
struct Pair {
  double ours;
  double peer;
};

Pair Alternate(double seconds, const std::function<void()>& ours,
               const std::function<void()>& peer) {
  ours();
  peer();
  // Launches a sample, so that one sample lasts long against the clock.
  const double begin = Now();
  ours();
  const int launches = std::clamp(static_cast<int>(2e-4 / std::max(1e-7, Now() - begin)), 1, 1000);
  std::vector<double> a, b;
  const double end = Now() + seconds;
  while (Now() < end || a.size() < 7) {
    const double t0 = Now();
    for (int i = 0; i < launches; ++i) ours();
    const double t1 = Now();
    for (int i = 0; i < launches; ++i) peer();
    const double t2 = Now();
    a.push_back((t1 - t0) / launches);
    b.push_back((t2 - t1) / launches);
  }
  return {*std::min_element(a.begin(), a.end()), *std::min_element(b.begin(), b.end())};
}

class Bench {
 public:
  Bench(double seconds, std::string only)
      : seconds_(seconds), only_(std::move(only)), device_(MakeCpuDevice(0, ArenaOptions{})) {}

  void Softmax(std::int64_t rows, std::int64_t cols, DType t) {
    const std::string name = Label("softmax", rows, cols, t);
    if (!Wanted(name)) return;
    const auto md = Descriptor(rows, cols, t);
    const dnnl::softmax_forward::desc desc(dnnl::prop_kind::forward_inference, md, 1);
    const dnnl::softmax_forward primitive({desc, engine_});
    RowKernel(name, SoftmaxProblem{rows, cols}, BuiltinSoftmaxCpu(), rows, cols, t, 0,
              [&](std::vector<TensorView>& in, const TensorView& out) {
                return std::function<void()>(
                    [=, this, x = Memory(md, in[0]), y = Memory(md, out)]() mutable {
                      primitive.execute(stream_, {{DNNL_ARG_SRC, x}, {DNNL_ARG_DST, y}});
                      stream_.wait();
                    });
              });
  }

  void LayerNorm(std::int64_t rows, std::int64_t cols, DType t) {
    const std::string name = Label("layer_norm", rows, cols, t);
    if (!Wanted(name)) return;
    const auto md = Descriptor(rows, cols, t);
    // Weight and bias in one tensor, as this oneDNN takes them in every format.
    const dnnl::layer_normalization_forward::desc desc(
        dnnl::prop_kind::forward_inference, md, 1e-5f, dnnl::normalization_flags::use_scale_shift);
    const dnnl::layer_normalization_forward primitive({desc, engine_});
    LayerNormProblem problem{rows, cols, 1e-5, true, false};
    RowKernel(
        name, problem, BuiltinLayerNormCpu(), rows, cols, t, 2,
        [&](std::vector<TensorView>& in, const TensorView& out) {
          dnnl::memory scale_shift(
              {{2, cols}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::ab}, engine_);
          auto* to = static_cast<float*>(scale_shift.get_data_handle());
          std::memcpy(to, in[1].data, static_cast<std::size_t>(cols) * sizeof(float));
          std::memcpy(to + cols, in[2].data, static_cast<std::size_t>(cols) * sizeof(float));
          return std::function<void()>(
              [=, this, x = Memory(md, in[0]), y = Memory(md, out)]() mutable {
                primitive.execute(
                    stream_,
                    {{DNNL_ARG_SRC, x}, {DNNL_ARG_SCALE_SHIFT, scale_shift}, {DNNL_ARG_DST, y}});
                stream_.wait();
              });
        });
  }

  void Gemm(std::int64_t n, DType t) {
    const std::string name = Label("gemm_GFLOPs", n, n, t);
    if (!Wanted(name)) return;
    device_->arena().Reset();
    const TensorView a = Operand(n, n, t);
    const TensorView b = Operand(n, n, t);
    const TensorView d = Operand(n, n, t);
    Case c;
    c.problem = GemmProblem{.m = n, .n = n, .k = n};
    const auto kernel = Make(BuiltinGemmCpu(), c, t, d);
    const auto md = Descriptor(n, n, t);
    const dnnl::matmul primitive({dnnl::matmul::desc(md, md, md), engine_});
    auto x = Memory(md, a), w = Memory(md, b), y = Memory(md, d);
    const std::vector<TensorView> inputs{a, b};
    const Pair p = Alternate(
        seconds_, [&] { Check(kernel->Launch(inputs, d)); },
        [&] {
          primitive.execute(stream_, {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DST, y}});
          stream_.wait();
        });
    const double flops =
        2e-9 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
    rows_.push_back({name, flops / p.ours, flops / p.peer});
  }

  const std::vector<Row>& rows() const { return rows_; }

 private:
  static std::string Label(const char* op, std::int64_t rows, std::int64_t cols, DType t) {
    return std::string(op) + "_" + std::to_string(rows) + "x" + std::to_string(cols) + "_" +
           std::string(Name(t));
  }
  bool Wanted(const std::string& name) const {
    return only_.empty() || name.find(only_) != std::string::npos;
  }
  static void Check(const absl::Status& status) {
    if (status.ok()) return;
    std::fprintf(stderr, "builtin_bench: %s\n", status.ToString().c_str());
    std::exit(1);
  }

  static dnnl::memory::desc Descriptor(std::int64_t rows, std::int64_t cols, DType t) {
    return {{rows, cols},
            t == DType::kF32 ? dnnl::memory::data_type::f32 : dnnl::memory::data_type::bf16,
            dnnl::memory::format_tag::ab};
  }
  dnnl::memory Memory(const dnnl::memory::desc& md, const TensorView& v) const {
    return dnnl::memory(md, engine_, v.data);
  }

  // Standard normal data; bf16 by rounding the top half.
  TensorView Operand(std::int64_t rows, std::int64_t cols, DType t) {
    const auto block = device_->arena().Allocate(StorageBytes(t, rows * cols), false);
    Check(block.status());
    std::normal_distribution<float> normal;
    for (std::int64_t i = 0; i < rows * cols; ++i) {
      const float v = normal(rng_);
      std::uint32_t bits;
      std::memcpy(&bits, &v, sizeof(bits));
      if (t == DType::kF32) {
        static_cast<float*>(block->data)[i] = v;
      } else {
        static_cast<std::uint16_t*>(block->data)[i] =
            static_cast<std::uint16_t>((bits + 0x8000u) >> 16);
      }
    }
    return TensorView{block->data, t, Extents::Dense(1, rows, cols)};
  }

  std::unique_ptr<Kernel> Make(const KernelEntry& entry, Case& c, DType t, const TensorView& out) {
    c.dtype = c.out_dtype = t;
    Plan plan;
    plan.output.dtype = t;
    plan.output.extents = out.extents;
    auto kernel = entry.make(c, plan, *device_);
    Check(kernel.status());
    return std::move(*kernel);
  }

  template <class MakePeer>
  void RowKernel(const std::string& name, const Problem& problem, const KernelEntry& entry,
                 std::int64_t rows, std::int64_t cols, DType t, int parameters,
                 const MakePeer& make_peer) {
    device_->arena().Reset();
    std::vector<TensorView> inputs{Operand(rows, cols, t)};
    for (int i = 0; i < parameters; ++i) inputs.push_back(Operand(1, cols, DType::kF32));
    // One output each: a line of the other's output in a cache would be a gift.
    const TensorView ours = Operand(rows, cols, t);
    const TensorView theirs = Operand(rows, cols, t);
    Case c;
    c.problem = problem;
    const auto kernel = Make(entry, c, t, ours);
    const std::function<void()> peer = make_peer(inputs, theirs);
    const Pair p = Alternate(
        seconds_, [&] { Check(kernel->Launch(inputs, ours)); }, peer);
    const double bytes = 2e-9 * static_cast<double>(StorageBytes(t, rows * cols));
    rows_.push_back({name, bytes / p.ours, bytes / p.peer});
  }

  double seconds_;
  std::string only_;
  std::unique_ptr<Device> device_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::mt19937 rng_{1};
  std::vector<Row> rows_;
};

int Main(int argc, char** argv) {
  bool json = false;
  double seconds = 1.0;
  std::string only;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg == "--json") {
      json = true;
    } else if (arg == "--seconds" && i + 1 < argc) {
      seconds = std::atof(argv[++i]);
    } else {
      only = arg;
    }
  }
  Bench bench(seconds, only);
  constexpr std::int64_t kShapes[][2] = {{64, 512},    {64, 2048},   {256, 1000},
                                         {1024, 1024}, {4096, 4096}, {512, 32768}};
  for (const DType t : {DType::kF32, DType::kBF16}) {
    for (const auto& s : kShapes) bench.Softmax(s[0], s[1], t);
    for (const auto& s : kShapes) bench.LayerNorm(s[0], s[1], t);
  }
  bench.Gemm(16, DType::kF32);
  bench.Gemm(256, DType::kF32);
  bench.Gemm(1024, DType::kF32);
  bench.Gemm(1024, DType::kBF16);
  if (json) {
    std::printf("{\"bench\":\"builtin\",\"unit\":\"GB/s, GFLOP/s for gemm\",\"results\":[");
    const char* comma = "";
    for (const Row& r : bench.rows()) {
      std::printf("%s\n{\"name\":\"%s\",\"ours\":%.6g,\"peer\":%.6g,\"ratio\":%.4g}", comma,
                  r.name.c_str(), r.ours, r.peer, r.ours / r.peer);
      comma = ",";
    }
    std::printf("\n]}\n");
  } else {
    std::printf("# GB/s (GFLOP/s for gemm), peer oneDNN; ratio above 1: ours is faster\n");
    for (const Row& r : bench.rows()) {
      std::printf("%s %.4g %.4g %.3f\n", r.name.c_str(), r.ours, r.peer, r.ours / r.peer);
    }
  }
  return 0;
}

}  // namespace
}  // namespace assay

int main(int argc, char** argv) { return assay::Main(argc, argv); }
