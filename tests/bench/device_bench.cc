// What a device reaches with everything but the toolkit hidden behind its interface:
// Assay's own passes and built-in kernels against ceilings measured in the same run. The
// same program serves every backend.
//
//   device_bench [--device ID] [--json] [--rounds N] [--scale N] [--only PART]
//
// --scale divides the sizes by N, for a device that is slow or small. PART is passes, rows,
// products, verification or cases. Lines: name ours peer ratio. GB/s for passes and kernels that
// move bytes, TFLOP/s for products, seconds for verification (ratio peer / ours), bytes for what
// leaves the device of a case. A ratio of a round is taken in the round; what is printed is the
// median.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "kernels/backends/backend.h"
#include "kernels/numerics/convert.h"
#include "kernels/ops/op.h"
#include "kernels/runtime/cpu/parallel.h"
#include "kernels/text/cat.h"
#include "kernels/validate/runner.h"

namespace assay {
namespace {

constexpr std::string_view kParts[] = {"passes", "rows", "products", "verification", "cases"};

struct Options {
  std::string device = "cuda:0";
  bool json = false;
  int rounds = 5;
  std::int64_t scale = 1;
  std::string only;  // empty: all parts
};

[[noreturn]] void Die(std::string_view what) {
  std::fprintf(stderr, "device_bench: %.*s\n", static_cast<int>(what.size()), what.data());
  std::exit(1);
}

void Check(const absl::Status& status) {
  if (!status.ok()) Die(std::string(status.message()));
}

template <class T>
T Take(absl::StatusOr<T> value) {
  if (!value.ok()) Die(std::string(value.status().message()));
  return *std::move(value);
}

double Median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

class DeviceBench {
 public:
  explicit DeviceBench(const Options& options) : o_(options) {
    const std::size_t colon = o_.device.find(':');
    if (colon == std::string::npos) Die("--device must be such as cuda:0");
    const Backend& backend = *Take(FindBackend(o_.device.substr(0, colon)));
    device_ = Take(backend.MakeDevice(std::atoi(o_.device.c_str() + colon + 1), ArenaOptions{}));
    backend.Register(registry_);
    ceilings_ = backend.MakeCeilings(*device_);
  }

  void Run() {
    std::fprintf(stderr, "%s %s\n", o_.device.c_str(), device_->info().model.c_str());
    if (Runs("passes")) Passes();
    if (Runs("rows")) AllRows();
    if (Runs("products")) Products();
    if (Runs("verification")) Verification();
    if (Runs("cases")) OrdinaryCases();
    if (o_.json) std::printf("%s\n]\n", first_ ? "[" : "");
  }

 private:
  bool Runs(std::string_view part) const { return o_.only.empty() || o_.only == part; }

  void AllRows() {
    for (const DType dtype : {DType::kF16, DType::kBF16}) {
      for (const std::int64_t n : {4096, 8192, 16384}) {
        const std::int64_t edge = n / o_.scale;
        Rows(SoftmaxProblem{.rows = edge, .cols = edge}, dtype);
        Rows(LayerNormProblem{.rows = edge, .cols = edge}, dtype);
        Rows(LayerNormProblem{.rows = edge, .cols = edge, .affine = true}, dtype);
      }
    }
  }

  void Print(std::string_view name, double ours, double peer, double ratio) {
    if (o_.json) {
      std::printf("%s\n  {\"name\": \"%.*s\", \"ours\": %.6g, \"peer\": %.6g, \"ratio\": %.4g}",
                  first_ ? "[" : ",", static_cast<int>(name.size()), name.data(), ours, peer,
                  ratio);
      first_ = false;
    } else {
      std::printf("%-34.*s %12.6g %12.6g %8.3f\n", static_cast<int>(name.size()), name.data(), ours,
                  peer, ratio);
    }
    std::fflush(stdout);
  }

  double Seconds(absl::FunctionRef<absl::Status()> launch) {
    return Take(device_->TimeLaunch(launch));
  }

  TensorView Allocate(DType dtype, const Extents& extents) {
    TensorView view{nullptr, dtype, extents};
    view.data = Take(device_->arena().Allocate(view.bytes(), false)).data;
    return view;
  }

  TensorView Filled(const Pattern& pattern, DType dtype, const Extents& extents, std::uint32_t id) {
    const TensorView view = Allocate(dtype, extents);
    Check(device_->Fill(FillSpec{pattern, 1, id, 0}, view));
    return view;
  }
  TensorView Normal(DType dtype, const Extents& extents, std::uint32_t id) {
    return Filled(Pattern{PatternKind::kNormal, 1, 0}, dtype, extents, id);
  }

  // A right kernel's output, its reference, and bounds that hold what filling loses beside
  // rounding: numbers below the format's least normal one.
  CompareRequest Judged(DType dtype, const Extents& extents) {
    CompareRequest request;
    request.output = Normal(dtype, extents, 0);
    request.reference = Normal(DType::kF64, extents, 0).as<double>();
    const double least = std::max(Info(dtype).min_normal, 0x1p-13);
    const Pattern bounds{PatternKind::kUniform, least, 2 * least};
    request.allowance = Filled(bounds, DType::kF64, extents, 1).as<double>();
    return request;
  }

  // Medians of `ours` against `peer`, both launched in every round; rates from `amount`s.
  void Compare(std::string_view name, double amount, absl::FunctionRef<absl::Status()> ours,
               double peer_amount, absl::FunctionRef<absl::Status()> peer) {
    std::vector<double> a, b, ratio;
    for (int round = 0; round <= o_.rounds; ++round) {
      const double x = amount / Seconds(ours);
      const double y = peer_amount / Seconds(peer);
      if (round == 0) continue;
      a.push_back(x / 1e9);
      b.push_back(y / 1e9);
      ratio.push_back(x / y);
    }
    Print(name, Median(a), Median(b), Median(ratio));
  }

  void Passes() {
    // So many that what the host takes for a result is a hundredth.
    const std::int64_t count = (std::int64_t{256} << 20) / o_.scale;
    const Extents extents = Extents::Dense(1, count / 4096, 4096);
    for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kE4M3FN}) {
      device_->arena().Reset();
      const CompareRequest request = Judged(dtype, extents);
      const TensorView& output = request.output;
      const TensorView from = Normal(DType::kF64, extents, 2);
      const TensorView to = Allocate(DType::kF64, extents);
      if (const CompareResult result = Take(device_->Compare(request)); result.mismatches > 0) {
        Die("the output is not its reference rounded");
      }
      const double read = static_cast<double>(output.bytes() + 2 * from.bytes());
      const double copied = 2.0 * static_cast<double>(from.bytes());
      const std::string type(Name(dtype));
      const auto copy = [&] { return device_->Copy(from, to); };
      Compare(
          "compare_" + type, read, [&] { return device_->Compare(request).status(); }, copied,
          copy);
      Compare(
          "digest_" + type, static_cast<double>(output.bytes()),
          [&] { return device_->Digest(output).status(); }, copied, copy);
      Compare(
          "fill_normal_" + type, static_cast<double>(output.bytes()),
          [&] {
            absl::Status s =
                device_->Fill(FillSpec{Pattern{PatternKind::kNormal, 1, 0}, 2, 0, 0}, output);
            // Fills wait for what comes next, which must not wait for the device: no block here
            // is guarded.
            return s.ok() ? device_->WriteGuards(Poison::kFirst) : s;
          },
          static_cast<double>(output.bytes()),
          [&] { return device_->PoisonTensor(Poison::kFirst, output); });
    }
  }

  // A built-in kernel's bytes against the copy bandwidth.
  void Rows(const Problem& problem, DType dtype) {
    Case c;
    c.problem = problem;
    c.dtype = dtype;
    c.provider = "builtin";
    const auto* const norm = std::get_if<LayerNormProblem>(&problem);
    const std::string op = Cat(OpName(problem), norm != nullptr && norm->affine ? "_affine" : "");
    Plan plan;
    device_->arena().Reset();
    if (!Prepare(c, &plan)) return;
    const TensorView from = Normal(dtype, plan.output.extents, 5);
    const TensorView to = Allocate(dtype, plan.output.extents);
    Compare(
        Cat(op, "_", Name(dtype), "_", plan.output.extents.cols), plan.bytes,
        [&] { return kernel_->Launch(inputs_, output_); }, 2.0 * static_cast<double>(from.bytes()),
        [&] { return device_->Copy(from, to); });
  }

  // Kernel, operands and their data; false where this backend has no such kernel.
  bool Prepare(const Case& c, Plan* plan) {
    const Op* op = FindOp(OpName(c.problem));
    *plan = Take(op->MakePlan(c));
    const KernelEntry* entry = registry_.Find(op->name(), c.provider, device_->info().backend);
    if (entry == nullptr || !entry->unavailable_reason.empty()) return false;
    absl::StatusOr<std::unique_ptr<Kernel>> kernel = entry->make(c, *plan, *device_);
    if (!kernel.ok()) return false;
    kernel_ = *std::move(kernel);
    inputs_.clear();
    std::uint32_t id = 0;
    for (const Operand& operand : plan->inputs) {
      inputs_.push_back(Allocate(operand.dtype, operand.extents));
      Check(device_->Fill(FillSpec{operand.pattern, 1, id++, 0}, inputs_.back()));
    }
    output_ = Allocate(plan->output.dtype, plan->output.extents);
    return true;
  }

  // Every provider's product of 4096 cubed, and attention of 4096 and two head widths, against
  // the ceiling.
  void Products() {
    const std::int64_t n = 4096 / o_.scale;
    AttentionProblem narrow, wide;
    for (AttentionProblem* p : {&narrow, &wide}) {
      p->heads = p->kv_heads = 16;
      p->seq = p->kv_seq = n;
      p->dim = p == &narrow ? 64 : 128;
    }
    for (const KernelEntry& entry : registry_.entries()) {
      if (entry.provider.starts_with(kPlantedPrefix)) continue;
      for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
        const auto& takes = entry.dtypes;
        if (std::find(takes.begin(), takes.end(), dtype) == takes.end()) continue;
        if (entry.op == "gemm") {
          Rate(entry, GemmProblem{.m = n, .n = n, .k = n}, dtype, Cat(n));
        } else if (entry.op == "attention") {
          for (const AttentionProblem& p : {narrow, wide})
            Rate(entry, p, dtype, Cat(n, "_", p.dim));
        }
      }
    }
  }

  void Rate(const KernelEntry& entry, const Problem& problem, DType dtype, std::string_view size) {
    Case c;
    c.problem = problem;
    c.dtype = dtype;
    c.provider = std::string(entry.provider);
    device_->arena().Reset();
    Plan plan;
    if (!Prepare(c, &plan)) return;
    std::vector<double> rates;
    for (int round = 0; round <= o_.rounds; ++round) {
      const double seconds = Seconds([&] { return kernel_->Launch(inputs_, output_); });
      if (round > 0) rates.push_back(plan.flops / seconds / 1e12);
    }
    const double ours = Median(rates);
    const double peer = ceilings_->FlopsPerSecond(dtype).value_or(0) / 1e12;
    Print(Cat(entry.op, "_", c.provider, "_", Name(dtype), "_", size), ours, peer,
          peer > 0 ? ours / peer : 0);
  }

  // An 8192x8192 fp16 output judged on the device with its bounds, against copying it and its
  // reference back to ordinary memory and comparing in one pass of all processors.
  void Verification() {
    device_->arena().Reset();
    const std::int64_t n = 8192 / o_.scale;
    const CompareRequest request = Judged(DType::kF16, Extents::Dense(1, n, n));
    const TensorView reference{const_cast<double*>(request.reference), DType::kF64,
                               request.output.extents};
    std::vector<double> ours, peers;
    std::vector<std::uint16_t> codes(static_cast<std::size_t>(n * n));
    std::vector<double> values(static_cast<std::size_t>(n * n));
    for (int round = 0; round <= std::min(o_.rounds, 3); ++round) {
      double begin = device_->Now();
      Check(device_->Compare(request).status());
      const double mine = device_->Now() - begin;
      begin = device_->Now();
      Check(device_->ToHost(request.output, 0, n * n, codes.data()));
      Check(device_->ToHost(reference, 0, n * n, values.data()));
      std::mutex both;
      double worst = 0, sum = 0;
      ParallelFor(n * n, 1 << 16, [&](std::int64_t first, std::int64_t last) {
        double largest = 0, errors = 0;
        for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(last); ++i) {
          const double error = std::abs(ToDouble(DType::kF16, codes[i]) - values[i]);
          largest = std::max(largest, error);
          errors += error;
        }
        const std::scoped_lock lock(both);
        worst = std::max(worst, largest);
        sum += errors;
      });
      const double theirs = device_->Now() - begin;
      if (!(worst <= 1.0) || !(sum >= 0)) Die("the output is not its reference rounded");
      if (round == 0) continue;
      ours.push_back(mine);
      peers.push_back(theirs);
    }
    Print(Cat("verify_fp16_", n), Median(ours), Median(peers), Median(peers) / Median(ours));
  }

  // What leaves the device of an ordinary case with its probes, against a KiB [bytes]; and
  // how often such cases take memory there, against never.
  void OrdinaryCases() {
    if (device_->references() == nullptr) return;  // its memory is this process's
    PhaseObserver observer;
    const std::int64_t n = 2048 / o_.scale;
    AttentionProblem attention;
    attention.heads = 8;
    attention.seq = n;
    attention.dim = 64;
    attention.causal = true;
    Take(device_->arena().Allocate(1, false));  // the arena itself is taken once
    const Traffic first = device_->traffic();
    for (const Problem& problem : std::vector<Problem>{
             GemmProblem{.m = n, .n = n, .k = n}, attention, SoftmaxProblem{.rows = n, .cols = n},
             LayerNormProblem{.rows = n, .cols = n}, DequantSoftmaxProblem{.m = 64, .n = n, .k = n},
             CopyProblem{.count = n * n}}) {
      Case c;
      c.problem = problem;
      c.dtype = DType::kF16;
      c.provider = "builtin";
      c.seed = 1;
      const Traffic before = device_->traffic();
      const CaseOutcome outcome = CaseRunner(*device_, registry_, nullptr).Run(c, observer);
      const std::string op(OpName(problem));
      if (outcome.verdict != Verdict::kPassed) {
        std::fprintf(stderr, "device_bench: the case of %s has not passed\n", op.c_str());
        continue;
      }
      const double bytes = static_cast<double>(device_->traffic().bytes_off - before.bytes_off);
      Print("bytes_off_" + op, bytes, 1024, 1024 / bytes);
    }
    const auto taken = static_cast<double>(device_->traffic().allocations - first.allocations);
    Print("allocations_in_cases", taken, 0, taken == 0 ? 1 : 0);
  }

  const Options o_;
  Registry registry_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Ceilings> ceilings_;
  std::unique_ptr<Kernel> kernel_;
  std::vector<TensorView> inputs_;
  TensorView output_;
  bool first_ = true;
};

Options Parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    const bool more = i + 1 < argc;
    if (arg == "--json") {
      o.json = true;
    } else if (arg == "--device" && more) {
      o.device = argv[++i];
    } else if (arg == "--rounds" && more) {
      o.rounds = std::max(1, std::atoi(argv[++i]));
    } else if (arg == "--only" && more) {
      o.only = argv[++i];
      const auto& all = kParts;
      if (std::find(std::begin(all), std::end(all), o.only) == std::end(all)) {
        Die(Cat("--only is passes, rows, products, verification or cases; got ", o.only));
      }
    } else if (arg == "--scale" && more) {
      o.scale = std::max(1, std::atoi(argv[++i]));
    } else {
      Die("usage: device_bench [--device ID] [--json] [--rounds N] [--scale N] [--only PART]");
    }
  }
  return o;
}

}  // namespace
}  // namespace assay

int main(int argc, char** argv) {
  assay::DeviceBench(assay::Parse(argc, argv)).Run();
  return 0;
}
