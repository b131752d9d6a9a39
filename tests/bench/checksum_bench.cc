// What verification by checksums costs, how near it comes to the memory's speed, and
// how small an error it finds.
//
//   checksum_bench [--json] [--rounds N] [--n N] [--trials N] [--only NAME]
//
// Lines: name ours peer ratio.
//   cost_*       seconds of a verification against those of the gemm it verifies, by the
//                fastest provider, alternating (ratio ours / peer; the whole first, then
//                its phases)
//   read_*       GB/s of a pass against a plain read of the same matrix (ours / peer)
//   detect_*     smallest error of one element, in units of rms|C|, found 99 times of
//                100 at n = 1024, against the figures of the specification (ours / peer)
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/checksum/checksum_verifier.h"
#include "kernels/numerics/convert.h"
#include "kernels/numerics/philox.h"
#include "kernels/text/cat.h"
#include "kernels/validate/host_inputs.h"
#include "kernels/validate/launcher.h"
#include "tests/bench/stream_read.h"

namespace assay {
namespace {

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double Median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

struct Options {
  bool json = false;
  int rounds = 7;
  int trials = 200;
  std::int64_t n = 4096;
  std::string only;

  bool wants(const std::string& name) const {
    return only.empty() || name.find(only) != std::string::npos;
  }
};

struct Line {
  std::string name;
  double ours, peer, ratio;
};

struct Report {
  const Options& options;
  std::vector<Line> lines;

  void Add(Line line) {
    if (!options.json) {
      std::printf("%-36s %10.4g %10.4g %8.4f\n", line.name.c_str(), line.ours, line.peer,
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

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "checksum_bench: %s\n", what.c_str());
  std::exit(1);
}

const Registry& Kernels() {
  static const Registry* const registry = [] {
    auto* r = new Registry;
    RegisterAll(*r);
    return r;
  }();
  return *registry;
}

Device& TheDevice() {
  static Device* const device =
      MakeCpuDevice(0, ArenaOptions{.max_bytes = std::int64_t{2} << 30}).release();
  return *device;
}

// A gemm, its operands on the device, and what verifies it.
class Subject {
 public:
  Subject(std::int64_t n, DType dtype, const std::string& provider, int probes)
      : case_(MakeCase(n, dtype, provider, probes)),
        plan_(GemmOp().MakePlan(case_).value()),
        host_(plan_, 1),
        clock_(TheDevice(), observer_),
        launcher_(case_, TheDevice(), clock_),
        verifier_(case_, TheDevice(), clock_) {}

  // False where the provider has no such kernel.
  bool Prepare() {
    const KernelEntry* entry = Kernels().Find("gemm", case_.provider, "cpu");
    if (launcher_.Prepare(*entry, plan_) || verifier_.Prepare(GemmOp(), plan_)) return false;
    return !launcher_.Fill();
  }
  double Launch() {
    const absl::StatusOr<double> seconds = launcher_.Launch(Poison::kFirst);
    if (!seconds.ok()) Fail(seconds.status().ToString());
    return *seconds;
  }
  ChecksumFindings Verify() {
    ChecksumFindings findings;
    if (verifier_.Verify(launcher_.inputs(), launcher_.output(), host_, false, findings) ||
        !findings.wrong.empty() || !findings.fault.empty()) {
      Fail("a correct gemm is refused: " + findings.wrong + findings.fault);
    }
    return findings;
  }
  absl::StatusOr<ChecksumMeasures> Measure() {
    return MeasureChecksums(case_, plan_, TheDevice(), launcher_.inputs(), launcher_.output(),
                            false);
  }
  Launcher& launcher() { return launcher_; }
  const std::string& provider() const { return case_.provider; }
  Case& test_case() { return case_; }

 private:
  static Case MakeCase(std::int64_t n, DType dtype, const std::string& provider, int probes) {
    Case c;
    c.problem = GemmProblem{.m = n, .n = n, .k = n};
    c.dtype = dtype;
    c.out_dtype = DefaultOutput(dtype);
    c.provider = provider;
    c.seed = 1;
    c.verify = Verification::kChecksum;
    c.checksum_probes = probes;
    return c;
  }

  Case case_;
  Plan plan_;
  RegeneratedInputs host_;
  PhaseObserver observer_;
  PhaseClock clock_;
  Launcher launcher_;
  ChecksumVerifier verifier_;
};

std::string FastestProvider(std::int64_t n, DType dtype) {
  std::string fastest;
  double least = 0;
  for (const KernelEntry& entry : Kernels().entries()) {
    if (entry.op != "gemm" || entry.provider.starts_with(kPlantedPrefix)) continue;
    if (entry.backend != "cpu" || !entry.unavailable_reason.empty()) continue;
    Subject subject(n, dtype, std::string(entry.provider), kDefaultChecksumProbes);
    if (!subject.Prepare()) continue;
    subject.Launch();
    const double seconds = std::min(subject.Launch(), subject.Launch());
    if (!fastest.empty() && seconds >= least) continue;
    fastest = entry.provider;
    least = seconds;
  }
  if (fastest.empty()) Fail("no provider");
  return fastest;
}

void BenchCost(DType dtype, int probes, Report* report) {
  const Options& options = report->options;
  const std::string name =
      Cat("cost_", Name(dtype), "_", options.n, probes == 4 ? "" : Cat("_probes", probes));
  if (!options.wants(name)) return;
  const std::string provider = FastestProvider(std::min<std::int64_t>(options.n, 2048), dtype);
  Subject subject(options.n, dtype, provider, probes);
  if (!subject.Prepare()) Fail(name + ": no kernel");
  std::vector<double> gemm, whole, passes, digest, ratio, passes_ratio, digest_ratio;
  for (int round = -1; round < options.rounds; ++round) {
    const double launch = subject.Launch();
    const double t0 = Now();
    subject.Verify();
    const double t1 = Now();
    if (!TheDevice().Digest(subject.launcher().output()).ok()) Fail("digest");
    const double t2 = Now();
    if (!subject.Measure().ok()) Fail("checksums");
    const double t3 = Now();
    if (round < 0) continue;
    gemm.push_back(launch);
    whole.push_back(t1 - t0);
    digest.push_back(t2 - t1);
    passes.push_back(t3 - t2);
    ratio.push_back((t1 - t0) / launch);
    digest_ratio.push_back((t2 - t1) / launch);
    passes_ratio.push_back((t3 - t2) / launch);
  }
  report->Add({Cat(name, "_", provider), Median(whole), Median(gemm), Median(ratio)});
  report->Add({name + "_passes", Median(passes), Median(gemm), Median(passes_ratio)});
  report->Add({name + "_host_samples", Median(whole) - Median(passes), Median(gemm),
               Median(ratio) - Median(passes_ratio)});
  report->Add({name + "_digest", Median(digest), Median(gemm), Median(digest_ratio)});
}

void BenchRead(DType dtype, Report* report) {
  const Options& options = report->options;
  const std::string name = Cat("read_", Name(dtype));
  if (!options.wants(name)) return;
  const std::int64_t n = options.n;
  Device& device = TheDevice();
  device.arena().Reset();
  TensorView m{nullptr, dtype, Extents::Dense(1, n, n)};
  const auto block = device.arena().Allocate(m.bytes(), false);
  if (!block.ok()) Fail(block.status().ToString());
  m.data = block->data;
  if (!device.Fill(FillSpec{}, m).ok()) Fail("fill");
  std::vector<double> signs(static_cast<std::size_t>(4 * n)), ones(static_cast<std::size_t>(n), 1);
  for (std::size_t i = 0; i < signs.size(); ++i) {
    signs[i] = PhiloxWord(1, 0, 0, static_cast<std::int64_t>(i)) % 2 == 0 ? 1 : -1;
  }
  ChecksumRequest rows, columns;
  rows.matrix = columns.matrix = m;
  rows.probes = columns.probes = 4;
  rows.right = {signs.data(), 0};
  rows.squares = true;
  columns.left = {signs.data(), 0};
  columns.col_weights = {ones.data(), 0};
  ChecksumRequest both = rows;
  both.left = columns.left;
  ChecksumRequest operand = both;
  operand.row_weights = {ones.data(), 0};
  both.counts = true;
  for (const auto& [suffix, request] : {std::pair{"_rows", &rows},
                                        {"_columns", &columns},
                                        {"_output", &both},
                                        {"_operand", &operand}}) {
    std::vector<double> ours, peer, ratio;
    std::uint64_t guard = 0;
    for (int round = -1; round < options.rounds; ++round) {
      const double t0 = Now();
      guard += ReadStreams(std::vector<Stream>{{m.data, m.bytes()}}, 256);
      const double t1 = Now();
      if (!device.Checksum(*request).ok()) Fail("checksum");
      const double t2 = Now();
      if (round < 0) continue;
      peer.push_back(1e-9 * static_cast<double>(m.bytes()) / (t1 - t0));
      ours.push_back(1e-9 * static_cast<double>(m.bytes()) / (t2 - t1));
      ratio.push_back((t1 - t0) / (t2 - t1));
    }
    if (guard == 42) std::fprintf(stderr, " ");  // the reads must not be dropped
    report->Add({name + suffix, Median(ours), Median(peer), Median(ratio)});
  }
}

// Whether an element of the output that is off by about `error` is found; sets the error
// that the format's rounding made of it.
struct Finder {
  Subject& subject;
  bool rigorous;

  bool operator()(std::int64_t at, double error, double* made) const {
    const TensorView& d = subject.launcher().output();
    const std::uint64_t bits = LoadBits(d.dtype, d.data, at);
    const double right = ToDouble(d.dtype, bits);
    StoreBits(d.dtype, d.data, at, RoundToFormat(right + error, d.dtype));
    *made = std::abs(LoadDouble(d.dtype, d.data, at) - right);
    const auto m = subject.Measure();
    StoreBits(d.dtype, d.data, at, bits);
    if (!m.ok()) Fail(m.status().ToString());
    const std::int64_t n = d.extents.cols;
    const auto found = [&](const ChecksumSide& side, std::int64_t index) {
      return std::any_of(side.lines.begin(), side.lines.end(), [&](const ChecksumLine& line) {
        return line.index == index && (!rigorous || line.beyond);
      });
    };
    return found(m->rows, at / n) || found(m->columns, at % n);
  }
};

// The error from which on `finder` finds element `at`, between 1e-6 and 100 of `rms`.
double LeastError(const Finder& finder, std::int64_t at, double rms) {
  double low = 1e-6 * rms, high = 100 * rms, made = 0, least = high;
  for (int step = 0; step < 14; ++step) {
    const double middle = std::sqrt(low * high);
    if (finder(at, middle, &made)) {
      high = middle;
      least = made;
    } else {
      low = middle;
    }
  }
  return least / rms;
}

void BenchDetection(DType dtype, bool rigorous, double specified, int probes, Report* report) {
  const Options& options = report->options;
  const std::string name = Cat("detect_", Name(dtype), rigorous ? "_rigorous" : "_screening",
                               probes == 4 ? "" : Cat("_probes", probes));
  if (!options.wants(name)) return;
  constexpr std::int64_t kSize = 1024;
  Subject subject(kSize, dtype, "builtin", probes);
  if (!subject.Prepare()) Fail(name + ": no kernel");
  subject.Launch();
  const double rms = std::sqrt(static_cast<double>(kSize));  // of sums of normal products
  const Finder finder{subject, rigorous};
  std::vector<double> least;
  for (int trial = 0; trial < options.trials; ++trial) {
    // Other probes for every element.
    subject.test_case().seed = static_cast<std::uint64_t>(trial + 1);
    const std::int64_t at = PhiloxWord(7, 0, 0, trial) % (kSize * kSize);
    least.push_back(LeastError(finder, at, rms));
  }
  std::sort(least.begin(), least.end());
  const auto rank = static_cast<std::size_t>(std::ceil(0.99 * options.trials)) - 1;
  report->Add({name, least[rank], specified, least[rank] / specified});
}

int Run(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    const auto value = [&]() -> const char* {
      if (++i < argc) return argv[i];
      Fail("an option needs a value");
    };
    if (arg == "--json") {
      options.json = true;
    } else if (arg == "--rounds") {
      options.rounds = std::max(1, std::atoi(value()));
    } else if (arg == "--trials") {
      options.trials = std::max(1, std::atoi(value()));
    } else if (arg == "--n") {
      options.n = std::max(64, std::atoi(value()));
    } else if (arg == "--only") {
      options.only = value();
    } else {
      std::fprintf(stderr,
                   "usage: checksum_bench [--json] [--rounds N] [--n N] [--trials N] "
                   "[--only NAME]\n");
      return 2;
    }
  }
  Report report{options, {}};
  BenchCost(DType::kF32, 4, &report);
  BenchCost(DType::kBF16, 4, &report);
  BenchCost(DType::kF32, 20, &report);
  for (const DType t : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16}) BenchRead(t, &report);
  const struct {
    DType dtype;
    double screening, rigorous;
  } kSpecified[] = {{DType::kF16, .056, .24}, {DType::kBF16, .44, 1.2}, {DType::kF32, 8e-5, .10}};
  for (const auto& s : kSpecified) {
    BenchDetection(s.dtype, /*rigorous=*/false, s.screening, 4, &report);
    BenchDetection(s.dtype, /*rigorous=*/false, s.screening, 1, &report);
    BenchDetection(s.dtype, /*rigorous=*/true, s.rigorous, 4, &report);
  }
  report.Print();
  return 0;
}

}  // namespace
}  // namespace assay

int main(int argc, char** argv) { return assay::Run(argc, argv); }
