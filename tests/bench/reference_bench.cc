// The fast references against what this machine can do: matrix products against
// the FP64 multiply-add peak of all cores, measured in the same run and
// alternating, row operators against the plain loops, and reference and
// comparison with the statistics of the residuals against those without. Prints
// `name ours peer ratio` lines; with --json the same as one document.
//
//   reference_bench [--json] [--seconds S a line] [--cpu-time] [substring of the names to run]
//
// --cpu-time counts processor time: with OMP_NUM_THREADS=1, the rates of one core
// on a machine that others use.
#include <immintrin.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/numerics/convert.h"
#include "kernels/ops/common/sampling.h"
#include "kernels/ops/common/view_inputs.h"
#include "kernels/ops/op.h"
#include "kernels/runtime/cpu/parallel.h"
#include "kernels/runtime/device.h"

namespace assay {
namespace {

bool cpu_time = false;

double Now() {
  if (cpu_time) return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Multiply-adds of one call of a peak loop on one core.
constexpr std::int64_t kPeakSteps = 200000;
constexpr int kChains = 12;  // latency 4 or 5 by two pipes, with room

__attribute__((target("avx512f"))) double Peak512() {
  __m512d sum[kChains];
  const __m512d a = _mm512_set1_pd(0.999999), b = _mm512_set1_pd(1e-9);
  for (int c = 0; c < kChains; ++c) sum[c] = _mm512_set1_pd(c);
  for (std::int64_t i = 0; i < kPeakSteps; ++i) {
#pragma GCC unroll 12
    for (int c = 0; c < kChains; ++c) sum[c] = _mm512_fmadd_pd(sum[c], a, b);
  }
  for (int c = 1; c < kChains; ++c) sum[0] = _mm512_add_pd(sum[0], sum[c]);
  double lanes[8];
  _mm512_storeu_pd(lanes, sum[0]);
  return lanes[0];
}

__attribute__((target("avx2,fma"))) double Peak256() {
  __m256d sum[kChains];
  const __m256d a = _mm256_set1_pd(0.999999), b = _mm256_set1_pd(1e-9);
  for (int c = 0; c < kChains; ++c) sum[c] = _mm256_set1_pd(c);
  for (std::int64_t i = 0; i < kPeakSteps; ++i) {
#pragma GCC unroll 12
    for (int c = 0; c < kChains; ++c) sum[c] = _mm256_fmadd_pd(sum[c], a, b);
  }
  for (int c = 1; c < kChains; ++c) sum[0] = _mm256_add_pd(sum[0], sum[c]);
  double lanes[4];
  _mm256_storeu_pd(lanes, sum[0]);
  return lanes[0];
}

// Operations of one call on all cores.
double RunPeak() {
  const bool wide = __builtin_cpu_supports("avx512f") != 0;
  std::atomic<int> wrong = 0;
  ParallelFor(ParallelWidth(), 1, [&](std::int64_t, std::int64_t) {
    // The sums stay finite; asking keeps the loop.
    if (!((wide ? Peak512() : Peak256()) < 1e9)) ++wrong;
  });
  if (wrong != 0) std::abort();
  return 2.0 * static_cast<double>(kPeakSteps) * kChains * (wide ? 8 : 4) * ParallelWidth();
}

// Operands of a case on the heap.
class Data {
 public:
  explicit Data(const Case& c) : op_(*FindOp(OpName(c.problem))), case_(c) {
    plan_ = op_.MakePlan(c).value();
    std::mt19937_64 engine(1);
    std::normal_distribution<double> normal;
    std::vector<double> some(4096);
    for (double& v : some)
      v = plan_.inputs[0].dtype == DType::kI8 ? normal(engine) * 4 : normal(engine);
    for (const Operand& operand : plan_.inputs) {
      storage_.emplace_back(
          static_cast<std::size_t>(StorageBytes(operand.dtype, operand.extents.span())) / 8 + 8);
      for (std::int64_t i = 0; i < operand.extents.span(); ++i) {
        StoreBits(operand.dtype, storage_.back().data(), i,
                  RoundToFormat(some[static_cast<std::size_t>((i * 31 + i / 4096) % 4096)],
                                operand.dtype));
      }
      views_.push_back({storage_.back().data(), operand.dtype, operand.extents});
    }
    value_.resize(static_cast<std::size_t>(plan_.output.extents.count()));
    allowance_.resize(value_.size());
    device_ = MakeCpuDevice(0, ArenaOptions{.max_bytes = 1 << 20});
  }

  void Fast() {
    ReferenceBuffers out{value_.data(), allowance_.data()};
    if (!op_.Reference(case_, plan_, *device_, views_, out).ok()) std::abort();
  }
  // The reference and the comparison of an output that is the rounded reference; with or without
  // the deviations and the pass that sums the residuals.
  void Judge(bool residuals) {
    const std::size_t count = value_.size();
    ReferenceBuffers out{value_.data(), allowance_.data()};
    const ResidualModel model = op_.Residuals(case_, plan_);
    const Extents& x = plan_.output.extents;
    if (residuals) {
      deviation_.resize(count);
      out.deviation = deviation_.data();
      if (model.direction) {
        direction_.resize(count);
        out.direction = direction_.data();
      }
      if (model.rows) {
        row_.resize(2 * static_cast<std::size_t>(x.batch * x.rows));
        out.row_offset = row_.data();
        out.row_gain = row_.data() + row_.size() / 2;
      }
    }
    if (!op_.Reference(case_, plan_, *device_, views_, out).ok()) std::abort();
    const TensorView output = Output();
    CompareRequest request;
    request.output = output;
    request.reference = out.value;
    request.allowance = out.allowance;
    if (!device_->Compare(request).ok()) std::abort();
    if (!residuals) return;
    const ResidualRequest residual = {output,        out.value,      out.deviation,
                                      out.direction, out.row_offset, out.row_gain};
    if (!model.known || !device_->Residuals(residual).ok()) std::abort();
  }
  void At(const std::vector<std::int64_t>& indices) {
    op_.ReferenceAt(case_, plan_, ViewInputs(views_), indices, value_.data(), allowance_.data());
  }
  std::vector<std::int64_t> Samples() { return op_.Samples(case_, plan_, 1, 1024); }
  const Plan& plan() const { return plan_; }

 private:
  TensorView Output() {
    const DType dtype = plan_.output.dtype;
    if (output_.empty()) {
      output_.resize(
          static_cast<std::size_t>(StorageBytes(dtype, plan_.output.extents.span())) / 8 + 8);
      Fast();
      for (std::size_t i = 0; i < value_.size(); ++i) {
        StoreBits(dtype, output_.data(), static_cast<std::int64_t>(i),
                  RoundToFormat(value_[i], dtype));
      }
    }
    return {output_.data(), dtype, plan_.output.extents};
  }

  const Op& op_;
  Case case_;
  Plan plan_;
  std::vector<std::vector<std::uint64_t>> storage_;
  std::vector<TensorView> views_;
  std::vector<double> value_, allowance_;
  std::vector<std::uint64_t> output_;
  std::vector<float> deviation_, direction_, row_;
  std::unique_ptr<Device> device_;
};

struct Row {
  std::string name;
  double ours, peer;
};

double Median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

// Medians of rates that alternate.
Row Measure(const std::string& name, double seconds, const std::function<double()>& ours,
            const std::function<double()>& peer) {
  std::vector<double> a, b;
  const auto rate = [](const std::function<double()>& f) {
    const double begin = Now();
    const double work = f();
    return work / (Now() - begin);
  };
  rate(ours);
  rate(peer);
  for (const double end = Now() + seconds; Now() < end || a.size() < 5;) {
    a.push_back(rate(ours));
    b.push_back(rate(peer));
  }
  return {name, Median(a), Median(b)};
}

Case Make(const Problem& problem, DType dtype) {
  Case c;
  c.problem = problem;
  c.dtype = dtype;
  return c;
}

ConvProblem Conv3x3() {
  ConvProblem p;
  p.channels = p.filters = 64;
  p.input = {56, 56};
  p.kernel = {3, 3};
  p.padding = {1};
  return p;
}

AttentionProblem Attention(std::int64_t batch, std::int64_t heads, std::int64_t seq,
                           std::int64_t dim, bool causal) {
  AttentionProblem p;
  p.batch = batch;
  p.heads = heads;
  p.seq = seq;
  p.dim = dim;
  p.causal = causal;
  return p;
}

int Main(int argc, char** argv) {
  bool json = false;
  double seconds = 2;
  std::string only;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--json") == 0) {
      json = true;
    } else if (std::strcmp(argv[i], "--cpu-time") == 0) {
      cpu_time = true;
    } else if (std::strcmp(argv[i], "--seconds") == 0 && i + 1 < argc) {
      seconds = std::atof(argv[++i]);
    } else {
      only = argv[i];
    }
  }
  std::vector<Row> rows;
  const auto wanted = [&](const std::string& name) { return name.find(only) != std::string::npos; };
  const auto show = [&](const Row& row) {
    rows.push_back(row);
    if (json) return;
    std::printf("%s %.4g %.4g %.3f\n", row.name.c_str(), row.ours, row.peer, row.ours / row.peer);
    std::fflush(stdout);
  };

  // Useful operations of both products: 2·flops, of integers (no |A||B|) flops.
  if (!json) std::printf("# operations/s against the FP64 peak of all cores\n");
  const std::vector<std::pair<Problem, DType>> products = {
      {GemmProblem{.m = 64, .n = 64, .k = 64}, DType::kF16},
      {GemmProblem{.m = 256, .n = 256, .k = 256}, DType::kF32},
      {GemmProblem{.m = 1024, .n = 1024, .k = 1024}, DType::kF32},
      {GemmProblem{.m = 1024, .n = 1024, .k = 1024, .trans_b = true}, DType::kBF16},
      {GemmProblem{.m = 2048, .n = 2048, .k = 2048}, DType::kF16},
      {GemmProblem{.m = 1024, .n = 1024, .k = 1024}, DType::kI8},
      {GemmProblem{.m = 128, .n = 128, .k = 64, .batch = 64}, DType::kF32},
      {Conv3x3(), DType::kF32},
      {Attention(1, 16, 2048, 64, true), DType::kF32},
      {Attention(1, 16, 2048, 64, true), DType::kBF16},
      {Attention(1, 32, 512, 128, false), DType::kF16},
  };
  for (const auto& [problem, dtype] : products) {
    const Case c = Make(problem, dtype);
    if (!wanted(DefaultName(c))) continue;
    Data data(c);
    const double work = data.plan().flops * (data.plan().exact ? 1 : 2);
    const int launches = std::max(1, static_cast<int>(2e7 / work));
    show(Measure(
        DefaultName(c), seconds,
        [&] {
          for (int i = 0; i < launches; ++i) data.Fast();
          return work * launches;
        },
        RunPeak));
  }
  if (!json) std::printf("# elements/s against the plain loops\n");
  const std::vector<std::pair<Problem, DType>> row_cases = {
      {SoftmaxProblem{.rows = 1024, .cols = 4096}, DType::kF32},
      {LayerNormProblem{.rows = 1024, .cols = 4096, .affine = true}, DType::kBF16},
  };
  for (const auto& [problem, dtype] : row_cases) {
    const Case c = Make(problem, dtype);
    if (!wanted(DefaultName(c))) continue;
    Data data(c);
    const std::vector<std::int64_t> all = AllIndices(data.plan().output.extents.count());
    const double count = static_cast<double>(all.size());
    show(Measure(
        DefaultName(c), seconds,
        [&] {
          data.Fast();
          return count;
        },
        [&] {
          data.At(all);
          return count;
        }));
  }
  if (!json) std::printf("# judgements/s with the statistics of residuals against those without\n");
  const std::vector<std::pair<Problem, DType>> judged = {
      {GemmProblem{.m = 64, .n = 64, .k = 64}, DType::kF16},
      {GemmProblem{.m = 256, .n = 256, .k = 256}, DType::kF32},
      {GemmProblem{.m = 1024, .n = 1024, .k = 1024}, DType::kF32},
      {GemmProblem{.m = 2048, .n = 2048, .k = 64}, DType::kF16},
      {Conv3x3(), DType::kF32},
      {Attention(1, 16, 2048, 64, true), DType::kF32},
      {Attention(1, 32, 512, 128, false), DType::kF16},
      {SoftmaxProblem{.rows = 1024, .cols = 4096}, DType::kF32},
      {LayerNormProblem{.rows = 1024, .cols = 4096, .affine = true}, DType::kBF16},
  };
  for (const auto& [problem, dtype] : judged) {
    const Case c = Make(problem, dtype);
    const std::string name = "judged " + DefaultName(c);
    if (!wanted(name)) continue;
    Data data(c);
    if (!FindOp(OpName(problem))->Residuals(c, data.plan()).known) continue;
    const auto judge = [&](bool residuals) {
      return [&data, residuals] {
        data.Judge(residuals);
        return 1.0;
      };
    };
    show(Measure(name, seconds, judge(true), judge(false)));
  }
  if (!json) std::printf("# rechecks/s of 1024 samples on the host against one in 20 ms\n");
  const std::vector<std::pair<Problem, DType>> rechecks = {
      {GemmProblem{.m = 64, .n = 64, .k = 64}, DType::kF16},
      {GemmProblem{.m = 4096, .n = 4096, .k = 4096}, DType::kF16},
      {Conv3x3(), DType::kF32},
      {Attention(1, 16, 2048, 64, true), DType::kBF16},
  };
  for (const auto& [problem, dtype] : rechecks) {
    const Case c = Make(problem, dtype);
    const std::string name = "recheck " + DefaultName(c);
    if (!wanted(name)) continue;
    Data data(c);
    const Row row = Measure(
        name, seconds / 4,
        [&] {
          data.At(data.Samples());
          return 1.0;
        },
        [] { return 1.0; });
    show({name, row.ours, 50.0});
  }
  if (json) {
    std::printf("[");
    for (std::size_t i = 0; i < rows.size(); ++i) {
      std::printf("%s\n {\"name\": \"%s\", \"ours\": %.6g, \"peer\": %.6g, \"ratio\": %.4f}",
                  i == 0 ? "" : ",", rows[i].name.c_str(), rows[i].ours, rows[i].peer,
                  rows[i].ours / rows[i].peer);
    }
    std::printf("\n]\n");
  }
  return 0;
}

}  // namespace
}  // namespace assay

int main(int argc, char** argv) { return assay::Main(argc, argv); }
