// How fast the comparison is, against a plain read of the same memory. Every figure is the median
// over rounds in which both sides run one after the other, so that a drift of the machine hits
// both.
//
//   compare_bench [--json] [--rounds N] [--mi N] [--target avx2] [--only NAME]
//
// Lines: name, ours, peer [GB/s read], ours / peer.
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "hwy/targets.h"
#include "kernels/numerics/convert.h"
#include "kernels/runtime/cpu/compare_cpu.h"
#include "kernels/runtime/cpu/parallel.h"
#include "tests/bench/stream_read.h"

namespace assay {
namespace {

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Memory in huge pages where the system gives them.
class HugeBuffer {
 public:
  explicit HugeBuffer(std::int64_t bytes) : bytes_(static_cast<std::size_t>(bytes)) {
    constexpr std::size_t kHuge = std::size_t{2} << 20;
    bytes_ = (bytes_ + kHuge - 1) / kHuge * kHuge;
    mapped_ = bytes_ + kHuge;
    base_ = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base_ == MAP_FAILED) {
      std::fprintf(stderr, "compare_bench: no memory for %zu bytes\n", mapped_);
      std::exit(1);
    }
    const auto address = reinterpret_cast<std::uintptr_t>(base_);
    data_ = reinterpret_cast<void*>((address + kHuge - 1) / kHuge * kHuge);
    madvise(data_, bytes_, MADV_HUGEPAGE);
  }
  ~HugeBuffer() { munmap(base_, mapped_); }
  HugeBuffer(const HugeBuffer&) = delete;
  HugeBuffer& operator=(const HugeBuffer&) = delete;

  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  std::size_t bytes_;
  std::size_t mapped_ = 0;
  void* base_ = nullptr;
  void* data_ = nullptr;
};

double Median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

struct Options {
  bool json = false;
  int rounds = 11;
  std::int64_t elements = std::int64_t{64} << 20;
  std::string only;
};

struct Line {
  std::string name;
  double ours;
  double peer;
  double ratio;
};

struct Report {
  const Options& options;
  std::vector<Line> lines;

  void Add(Line line) {
    if (!options.json) {
      std::printf("%-28s %10.4g %10.4g %8.3f\n", line.name.c_str(), line.ours, line.peer,
                  line.ratio);
      std::fflush(stdout);
    }
    lines.push_back(std::move(line));
  }
  void Print() const {
    if (!options.json) return;
    std::printf("[");
    for (std::size_t i = 0; i < lines.size(); ++i) {
      std::printf("%s\n  {\"name\": \"%s\", \"ours\": %.6g, \"peer\": %.6g, \"ratio\": %.4f}",
                  i == 0 ? "" : ",", lines[i].name.c_str(), lines[i].ours, lines[i].peer,
                  lines[i].ratio);
    }
    std::printf("\n]\n");
  }
};

// A cheap normal-like number of an index: enough that no two elements are alike.
double Noise(std::uint64_t i) {
  double sum = -6.0;
  std::uint64_t z = (i + 1) * 0x9e3779b97f4a7c15;
  for (int k = 0; k < 3; ++k) {
    z = (z ^ (z >> 29)) * 0xbf58476d1ce4e5b9;
    for (int at = 0; at < 64; at += 16) sum += static_cast<double>((z >> at) & 0xffff) * 0x1p-16;
  }
  return sum;
}

// What a correct kernel leaves: errors inside the bound, and more by rounding.
void FillRange(const CompareRequest& request, double* reference, double* allowance,
               std::int64_t begin, std::int64_t end) {
  const DType t = request.output.dtype;
  for (std::int64_t i = begin; i < end; ++i) {
    const double noise = Noise(static_cast<std::uint64_t>(i));
    const double r = Info(t).is_integer ? std::nearbyint(noise * 30.0) : noise;
    reference[i] = r;
    allowance[i] = std::abs(noise) * 0x1p-22 + 0x1p-20;
    const double error = Noise(~static_cast<std::uint64_t>(i)) * 0x1p-24;
    StoreBits(t, request.output.data, i, RoundToFormat(r + error, t));
  }
}

void BenchFormat(DType t, bool with_allowance, Gate gate, const std::string& suffix,
                 Report* report) {
  const Options& options = report->options;
  const std::string name = "compare_" + std::string(Name(t)) + suffix;
  if (!options.only.empty() && name.find(options.only) == std::string::npos) return;
  const std::int64_t n = options.elements;
  const HugeBuffer output(StorageBytes(t, n));
  const HugeBuffer reference(8 * n);
  const HugeBuffer allowance(8 * n);
  CompareRequest request;
  request.output = TensorView{output.as<void>(), t, Extents::Dense(1, 1, n)};
  request.reference = reference.as<double>();
  request.allowance = with_allowance ? allowance.as<double>() : nullptr;
  request.proven_factor = 4.0;
  request.exact = Info(t).is_integer;
  request.gate = gate;
  request.atol = request.rtol = 1e-2;
  ParallelFor(n, 16, [&](std::int64_t begin, std::int64_t end) {
    // e2m1 has two elements to a byte.
    const std::int64_t from = begin % 2 == 0 ? begin : begin + 1;
    const std::int64_t to = end % 2 == 0 ? end : end + 1;
    FillRange(request, reference.as<double>(), allowance.as<double>(), from, std::min(to, n));
  });

  std::vector<Stream> streams = {{output.as<void>(), StorageBytes(t, n)},
                                 {reference.as<void>(), 8 * n}};
  if (with_allowance) streams.push_back({allowance.as<void>(), 8 * n});
  double bytes = 0;
  for (const Stream& s : streams) bytes += static_cast<double>(s.bytes);

  std::vector<double> ours, peer, ratio;
  std::uint64_t guard = 0;
  for (int round = -1; round < options.rounds; ++round) {
    const double t0 = Now();
    guard += ReadStreams(streams, n / 4096);
    const double t1 = Now();
    const auto result = CompareCpu(request);
    const double t2 = Now();
    guard += result->digest_raw[0];
    if (with_allowance && result->mismatches != 0) {
      std::fprintf(stderr, "compare_bench: %s: %lld mismatches in right data\n", name.c_str(),
                   static_cast<long long>(result->mismatches));
      std::exit(1);
    }
    if (round < 0) continue;  // warm-up
    peer.push_back(bytes / (t1 - t0) * 1e-9);
    ours.push_back(bytes / (t2 - t1) * 1e-9);
    ratio.push_back((t1 - t0) / (t2 - t1));
  }
  if (guard == 42) std::fprintf(stderr, " ");  // the reads must not be dropped
  report->Add({name, Median(ours), Median(peer), Median(ratio)});
}

int Run(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    const auto value = [&]() -> const char* {
      if (++i < argc) return argv[i];
      std::fprintf(stderr, "compare_bench: %s needs a value\n", argv[argc - 1]);
      std::exit(2);
    };
    if (arg == "--json") {
      options.json = true;
    } else if (arg == "--rounds") {
      options.rounds = std::max(1, std::atoi(value()));
    } else if (arg == "--mi") {
      options.elements = std::max<std::int64_t>(1, std::atoll(value())) << 20;
    } else if (arg == "--only") {
      options.only = value();
    } else if (arg == "--target" && std::strcmp(value(), "avx2") == 0) {
      hwy::DisableTargets(HWY_AVX3 | HWY_AVX3_DL);
    } else {
      std::fprintf(stderr,
                   "usage: compare_bench [--json] [--rounds N] [--mi N] [--target avx2] "
                   "[--only NAME]\n");
      return 2;
    }
  }
  Report report{options, {}};
  BenchFormat(DType::kF32, true, Gate::kBoundProbable, "", &report);
  BenchFormat(DType::kF64, true, Gate::kBoundProbable, "", &report);
  BenchFormat(DType::kF16, true, Gate::kBoundProbable, "", &report);
  BenchFormat(DType::kBF16, true, Gate::kBoundProbable, "", &report);
  BenchFormat(DType::kE4M3FN, true, Gate::kBoundProbable, "", &report);
  BenchFormat(DType::kE5M2, true, Gate::kBoundProbable, "", &report);
  BenchFormat(DType::kI8, false, Gate::kBoundProbable, "_exact", &report);
  BenchFormat(DType::kI32, false, Gate::kBoundProbable, "_exact", &report);
  BenchFormat(DType::kF32, false, Gate::kAllClose, "_allclose", &report);
  report.Print();
  return 0;
}

}  // namespace
}  // namespace assay

int main(int argc, char** argv) { return assay::Run(argc, argv); }
