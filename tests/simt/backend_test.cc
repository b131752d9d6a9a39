// A GPU backend whole, under the emulator: its device, references and built-in kernels
// behind the same runner, cases and verdicts as any other device. What is proven here is
// everything but the toolkit.
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/backends/backend.h"
#include "kernels/backends/gpu_backend.h"
#include "kernels/numerics/convert.h"
#include "kernels/providers/provider.h"
#include "kernels/simt/engine.h"
#include "kernels/text/cat.h"
#include "kernels/validate/runner.h"
#include "tests/outcome_text.h"
#include "tests/sample_problems.h"
#include "tests/unit/runtime/residuals_testing.h"

namespace assay {
namespace {

constexpr std::int64_t kArena = std::int64_t{64} << 20;

// One device of a backend with its kernels.
class Desk {
 public:
  explicit Desk(const Backend& backend) {
    absl::StatusOr<std::unique_ptr<Device>> made =
        backend.MakeDevice(0, ArenaOptions{.max_bytes = kArena});
    EXPECT_TRUE(made.ok()) << made.status();
    device_ = *std::move(made);
    backend.Register(registry_);
  }
  CaseOutcome Run(const Case& c) {
    PhaseObserver observer;
    return CaseRunner(*device_, registry_, nullptr).Run(c, observer);
  }
  const Registry& registry() const { return registry_; }
  Device& device() { return *device_; }

 private:
  std::unique_ptr<Device> device_;
  Registry registry_;
};

// Small, with extents that are no multiple of a tile or a wave.
std::vector<Problem> ProblemsOf(std::string_view op) {
  if (op == "gemm") {
    return {GemmProblem{.m = 33, .n = 29, .k = 65},
            GemmProblem{.m = 17, .n = 24, .k = 40, .batch = 2, .trans_b = true, .beta = 1}};
  }
  if (op == "conv") {
    ConvProblem p;
    p.channels = 4;
    p.filters = 5;
    p.input = {7, 9};
    p.kernel = {3, 3};
    p.padding = {1};
    return {p};
  }
  if (op == "attention") {
    AttentionProblem p;
    p.heads = 2;
    p.kv_heads = 1;
    p.seq = 37;
    p.kv_seq = 45;
    p.dim = 16;
    AttentionProblem causal = p;
    causal.causal = true;
    return {p, causal};
  }
  if (op == "softmax") return {SoftmaxProblem{.rows = 5, .cols = 143}};
  if (op == "layer_norm") return {LayerNormProblem{.rows = 5, .cols = 143}};
  if (op == "dequant_softmax") return {DequantSoftmaxProblem{.m = 5, .n = 143, .k = 65}};
  return SampleProblems(op);
}

class GpuBackendTest : public ::testing::TestWithParam<int> {
 protected:
  GpuBackendTest() {
    simt::CurrentConfig() = simt::Config{};
    simt::CurrentConfig().wave_width = GetParam();
    simt::TakeFaults();
  }
  ~GpuBackendTest() override {
    for (const simt::Fault& fault : simt::TakeFaults()) ADD_FAILURE() << fault.message;
    simt::CurrentConfig() = simt::Config{};
  }
};

// Launches that take the host as long as the device are recorded, and done as one.
TEST_P(GpuBackendTest, TinyCasesAreTimedByReplay) {
  Desk desk(GpuBackend());
  Case c;
  c.problem = CopyProblem{.count = 257};
  c.dtype = DType::kF32;
  c.provider = "builtin";
  c.seed = 7;
  c.mode = Mode::kBenchmark;
  const CaseOutcome outcome = desk.Run(c);
  EXPECT_EQ(outcome.verdict, Verdict::kPassed) << Describe(outcome);
  ASSERT_TRUE(outcome.bench.has_value());
  EXPECT_TRUE(outcome.bench->replayed);
  EXPECT_GE(outcome.bench->samples, 10);
  EXPECT_NE(outcome.implementation.find("as one graph"), std::string::npos)
      << outcome.implementation;
}

// Every built-in kernel in every format it takes passes, probes and identities too, and
// its exact cases have the CPU's digests.
TEST_P(GpuBackendTest, BuiltInKernelsPassWithTheDigestsOfTheCpu) {
  Desk desk(GpuBackend());
  Desk cpu(CpuBackend());
  int runs = 0, digests = 0;
  for (const KernelEntry& entry : desk.registry().entries()) {
    if (entry.provider.starts_with(kPlantedPrefix)) continue;  // planted_test.cc
    for (const DType dtype : entry.dtypes) {
      for (const Problem& problem : ProblemsOf(entry.op)) {
        Case c;
        c.problem = problem;
        c.dtype = dtype;
        c.provider = std::string(entry.provider);
        c.seed = 7;
        const CaseOutcome outcome = desk.Run(c);
        const std::string what = Cat(entry.op, " ", Name(dtype), ": ", Describe(outcome));
        EXPECT_EQ(outcome.verdict, Verdict::kPassed) << what;
        ++runs;
        const CaseOutcome peer = cpu.Run(c);
        ASSERT_TRUE(outcome.compare && peer.compare) << what;
        EXPECT_NEAR(outcome.compare->max_abs_expected, peer.compare->max_abs_expected,
                    1e-9 * peer.compare->max_abs_expected)
            << what;
        std::map<std::string, std::string> theirs;
        for (const ProbeOutcome& p : peer.probes) theirs[p.name] = p.digest;
        for (const ProbeOutcome& p : outcome.probes) {
          if (p.digest.empty() || !theirs.contains(p.name)) continue;
          EXPECT_EQ(p.digest, theirs[p.name]) << what << " " << p.name;
          ++digests;
        }
      }
    }
  }
  EXPECT_GE(runs, 20);
  EXPECT_GE(digests, 10);
}

// Inputs are the CPU's bits, so that a case is the same case everywhere.
TEST_P(GpuBackendTest, FillsAndDigestsAreTheCpus) {
  Desk desk(GpuBackend());
  Desk cpu(CpuBackend());
  for (const char* text : {"normal:0.5", "uniform:-1:1", "one-hot:3", "extremes:100", "denormal"}) {
    const std::optional<Pattern> pattern = ParsePattern(text, nullptr);
    ASSERT_TRUE(pattern) << text;
    for (int t = static_cast<int>(DType::kF64); t < kDTypeCount; ++t) {
      const auto dtype = static_cast<DType>(t);
      const Extents extents{2, 3, 31, 40, 150};
      TensorDigest digest[2];
      Fingerprint fingerprint[2];
      int i = 0;
      for (Desk* d : {&desk, &cpu}) {
        Device& device = d->device();
        device.arena().Reset();
        TensorView view{nullptr, dtype, extents};
        const auto block = device.arena().Allocate(view.bytes(), true);
        ASSERT_TRUE(block.ok());
        view.data = block->data;
        ASSERT_TRUE(device.Fill(FillSpec{*pattern, 11, 1, 0}, view).ok());
        const auto got = device.Digest(view);
        ASSERT_TRUE(got.ok());
        const TensorView twice[] = {view, view};
        const auto both = device.FingerprintOf(twice);
        ASSERT_TRUE(both.ok());
        fingerprint[i] = *both;
        digest[i++] = *got;
      }
      EXPECT_EQ(digest[0], digest[1]) << text << " " << Name(dtype);
      EXPECT_EQ(fingerprint[0], fingerprint[1]) << text << " " << Name(dtype);
    }
  }
}

// The outputs of these seeds, one after the other.
constexpr std::uint64_t kWatched[] = {1, 1, 2, 1, 3, 4, 5, 2, 5};

TEST_P(GpuBackendTest, AWatchTellsOutputsApartWithoutTheHost) {
  Desk desk(GpuBackend());
  Device& device = desk.device();
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kI8, DType::kE2M1}) {
    for (const Extents& extents : {Extents{2, 3, 31, 40, 150}, Extents::Dense(1, 5, 33)}) {
      for (const bool known : {false, true}) {
        device.arena().Reset();
        TensorView view{nullptr, dtype, extents};
        view.data = device.arena().Allocate(view.bytes(), true)->data;
        const auto fill = [&](std::uint64_t seed) {
          const Pattern pattern = *ParsePattern("uniform:-8:8", nullptr);
          ASSERT_TRUE(device.Fill(FillSpec{pattern, seed, 1, 0}, view).ok());
        };
        const auto digest_of = [&](std::uint64_t seed) {
          fill(seed);
          return *device.Digest(view);
        };
        std::optional<TensorDigest> first;
        if (known) first = digest_of(1);
        auto watch = device.WatchOutputs(view, first);
        ASSERT_TRUE(watch.ok()) << watch.status();
        const Traffic before = device.traffic();
        for (const std::uint64_t seed : kWatched) {
          fill(seed);
          ASSERT_TRUE((*watch)->Look(view).ok());
        }
        EXPECT_EQ(device.traffic().bytes_off, before.bytes_off);
        const absl::StatusOr<WatchFindings> found = (*watch)->Findings();
        ASSERT_TRUE(found.ok()) << found.status();
        EXPECT_LE(device.traffic().bytes_off - before.bytes_off, 128);
        EXPECT_EQ(device.traffic().allocations, before.allocations);
        EXPECT_EQ(found->looks, 9);
        EXPECT_EQ(found->others, 6);
        EXPECT_EQ(found->unkept, known ? 2 : 3);
        ASSERT_EQ(found->kept.size(), 3U);
        for (std::size_t i = 0; i < 3; ++i) {
          const auto kept = device.Digest(found->kept[i]);
          ASSERT_TRUE(kept.ok());
          EXPECT_EQ(*kept, digest_of(i + (known ? 2 : 1))) << Name(dtype) << " " << i;
        }
      }
    }
  }
}

TEST_P(GpuBackendTest, AWatchWithoutRoomCounts) {
  for (const Backend* backend : {&GpuBackend(), &CpuBackend()}) {
    Desk desk(*backend);
    Device& device = desk.device();
    TensorView view{nullptr, DType::kF32, Extents::Dense(1, 1, 1000)};
    view.data = device.arena().Allocate(view.bytes(), true)->data;
    const std::int64_t rest = device.arena().available_bytes(1) - 6000;
    ASSERT_TRUE(device.arena().Allocate(rest, false).ok());
    auto watch = device.WatchOutputs(view, std::nullopt);
    ASSERT_TRUE(watch.ok()) << watch.status();
    for (const std::uint64_t seed : kWatched) {
      ASSERT_TRUE(device.Fill(FillSpec{*ParsePattern("normal:1", nullptr), seed, 1, 0}, view).ok());
      ASSERT_TRUE((*watch)->Look(view).ok());
    }
    const absl::StatusOr<WatchFindings> found = (*watch)->Findings();
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->others, 6);
    EXPECT_EQ(found->unkept, 7) << "the first one is not kept either";
    EXPECT_TRUE(found->kept.empty());
  }
}

int g_launches = 0;
int g_undone = 0;  // the launch whose output is poison

class UndoneOnce : public Kernel {
 public:
  UndoneOnce(std::unique_ptr<Kernel> real, Device& device)
      : real_(std::move(real)), device_(device) {}
  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    // Launches are timed for two seconds, and what is done between them takes longer here.
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    absl::Status status = real_->Launch(inputs, output);
    if (++g_launches != g_undone || !status.ok()) return status;
    return device_.PoisonTensor(Poison::kFirst, output);
  }

 private:
  const std::unique_ptr<Kernel> real_;
  Device& device_;
};

TEST_P(GpuBackendTest, ATimedLaunchThatDidNoWorkIsFound) {
  Desk desk(GpuBackend());
  Registry registry;
  registry.Add(KernelEntry{
      .op = "copy",
      .provider = "undone",
      .backend = desk.device().info().backend,
      .dtypes = {DType::kF32},
      .make = [](const Case& c, const Plan& plan,
                 Device& device) -> absl::StatusOr<std::unique_ptr<Kernel>> {
        Registry all;
        GpuBackend().Register(all);
        auto real = all.Find("copy", "builtin", device.info().backend)->make(c, plan, device);
        if (!real.ok()) return real.status();
        return std::make_unique<UndoneOnce>(*std::move(real), device);
      },
      .version = {},
      .unavailable_reason = {}});
  Case c;
  c.problem = CopyProblem{.count = 9000};  // more than is timed many at once
  c.dtype = DType::kF32;
  c.provider = "undone";
  c.probes = false;
  for (const Mode mode : {Mode::kBenchmark, Mode::kBoth}) {
    c.mode = mode;
    g_launches = 0;
    g_undone = mode == Mode::kBoth ? 9 : 4;
    PhaseObserver observer;
    const CaseOutcome outcome = CaseRunner(desk.device(), registry, nullptr).Run(c, observer);
    EXPECT_GT(g_launches, g_undone);
    EXPECT_EQ(outcome.verdict, Verdict::kFailed) << Describe(outcome);
    EXPECT_EQ(ReasonWord(outcome.findings.at(0).reason), "unwritten") << Describe(outcome);
  }
}

// A kernel that writes outside its operand, or leaves one element out, is found by the
// device's guards and poison.
TEST_P(GpuBackendTest, GuardsAndPoisonShowOnTheDevice) {
  Desk desk(GpuBackend());
  Device& device = desk.device();
  TensorView view{nullptr, DType::kF32, Extents{1, 3, 5, 8, 24}};
  const auto block = device.arena().Allocate(view.bytes(), true);
  ASSERT_TRUE(block.ok());
  view.data = block->data;
  ASSERT_TRUE(device.PoisonTensor(Poison::kFirst, view).ok());
  ASSERT_TRUE(device.GuardPadding(Poison::kFirst, view).ok());
  ASSERT_TRUE(device.WriteGuards(Poison::kFirst).ok());
  EXPECT_EQ(*device.CheckGuards(Poison::kFirst), 0);
  EXPECT_EQ(*device.CheckPadding(Poison::kFirst, view), 0);
  const unsigned char byte = 1;
  auto* bytes = static_cast<unsigned char*>(view.data);
  ASSERT_TRUE(device.FromHost(&byte, 1, bytes + view.bytes()).ok());
  ASSERT_TRUE(device.FromHost(&byte, 1, bytes - 1).ok());
  ASSERT_TRUE(device.FromHost(&byte, 1, bytes + 6 * sizeof(float)).ok());
  EXPECT_EQ(*device.CheckGuards(Poison::kFirst), 2);
  EXPECT_EQ(*device.CheckPadding(Poison::kFirst, view), 1);
  EXPECT_EQ(*device.CountDamage(Poison::kFirst, {&view, 1}), 3);
}

// An output with its reference, equal at first, and what is found of 3000 elements of it.
struct Judged {
  Judged(Device& on, bool reading) : device(on), by_reading(reading) {
    device.arena().Reset();
    const Extents extents{1, 50, 100, 103, 5150};
    output = Filled({nullptr, DType::kF16, extents}, 0);
    other = Filled({nullptr, DType::kF16, extents}, 0);
    reference = Filled({nullptr, DType::kF64, Extents::Dense(1, 50, 100)}, 1);
    std::vector<double> values(5000);
    std::vector<std::uint16_t> codes(5000);
    EXPECT_TRUE(device.ToHost(output, 0, 5000, codes.data()).ok());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = ToDouble(DType::kF16, codes[i]);
    for (std::int64_t i = 0; i < 3000; ++i) {
      const std::int64_t index = i * 5 / 3;
      const double value = values[static_cast<std::size_t>(index)];
      elements.push_back({index, value, value, 0.5, 0, false, 0.5});
      at.push_back(index);
    }
    EXPECT_TRUE(device.FromHost(values.data(), 5000 * 8, reference.data).ok());
  }

  TensorView Filled(TensorView view, std::uint32_t id) {
    view.data = device.arena().Allocate(view.bytes(), false)->data;
    const FillSpec spec{*ParsePattern("uniform:-1:1", nullptr), 5, id, 0};
    EXPECT_TRUE(device.Fill(spec, view).ok());
    return view;
  }
  RecheckFindings Recheck() {
    RecheckRequest request;
    request.output = output;
    request.reference = reference.as<double>();
    request.elements = elements;
    return by_reading ? *device.Device::Recheck(request) : *device.Recheck(request);
  }
  HeldFindings Hold() {
    KeepRequest request{output, reference.as<double>(), nullptr, {}, at};
    request.rule = {OutputRounding{0, 0.25}, 1, 60000};
    const KeptElements kept =
        by_reading ? *device.Device::KeepElements(request) : *device.KeepElements(request);
    return *device.HoldAgainst(kept, other);
  }

  Device& device;
  const bool by_reading;
  TensorView output, other, reference;
  std::vector<HostElement> elements;
  std::vector<std::int64_t> at;
};

// On the device, by reading from it, and on the CPU.
TEST_P(GpuBackendTest, FindingsOnTheDeviceAreThoseByReading) {
  Desk gpu(GpuBackend());
  Desk cpu(CpuBackend());
  const double far = 10;
  const std::uint16_t ten = 0x4900;
  for (const auto& [desk, by_reading] : {std::pair(&gpu, false), {&gpu, true}, {&cpu, false}}) {
    Judged judged(desk->device(), by_reading);
    EXPECT_EQ(judged.Recheck().disagreements, 0);
    EXPECT_EQ(judged.Hold().mismatches, 0);
    EXPECT_EQ(judged.Hold().compared, 3000);
    // Rows are 103 apart: index 2915 is place 1749.
    auto* codes = judged.output.as<std::uint16_t>() + 29 * 103 + 15;
    ASSERT_TRUE(judged.device.FromHost(&ten, sizeof ten, codes).ok());
    ASSERT_TRUE(
        judged.device.FromHost(&far, sizeof far, judged.reference.as<double>() + 4998).ok());
    const RecheckFindings found = judged.Recheck();
    EXPECT_EQ(found.disagreements, 2);
    EXPECT_EQ(found.first, 1749);
    EXPECT_EQ(found.what, Disagreement::kOutput);
    EXPECT_EQ(found.got, 10);
    const HeldFindings held = judged.Hold();
    EXPECT_EQ(held.compared, 3000);
    EXPECT_EQ(held.mismatches, 1);
    EXPECT_EQ(held.first, 1749);
    EXPECT_EQ(held.kept.index, 2915);
    EXPECT_EQ(held.kept.value, 10);
    EXPECT_EQ(held.kept.bound, 0.5);
    // More than the device takes at once.
    judged.elements.insert(judged.elements.begin(), 87400, judged.elements[0]);
    EXPECT_EQ(judged.Recheck().disagreements, 2);
    EXPECT_EQ(judged.Recheck().first, 87400 + 1749);
  }
}

// One copy brings the sums, whatever the size.
TEST_P(GpuBackendTest, ResidualsOnTheDeviceAreThoseOnTheCpu) {
  Desk desk(GpuBackend());
  Device& device = desk.device();
  const ResidualData data(DType::kF32, Extents{2, 40, 70, 73, 3000}, 3);
  const auto sent = [&device](const void* from, std::size_t bytes) {
    const auto size = static_cast<std::int64_t>(bytes);
    void* to = device.arena().Allocate(size, false)->data;
    EXPECT_TRUE(device.FromHost(from, size, to).ok());
    return to;
  };
  const auto floats = [&](const std::vector<float>& v) {
    return static_cast<const float*>(sent(v.data(), v.size() * sizeof(float)));
  };
  ResidualRequest there = data.request;
  there.output.data = sent(data.storage.data(), data.storage.size());
  there.reference = static_cast<const double*>(
      sent(data.reference.data(), data.reference.size() * sizeof(double)));
  there.deviation = floats(data.deviation);
  there.direction = floats(data.direction);
  there.row_offset = floats(data.row_offset);
  there.row_gain = floats(data.row_gain);
  const Traffic before = device.traffic();
  const absl::StatusOr<ResidualSums> sums = device.Residuals(there);
  const Traffic after = device.traffic();
  ASSERT_TRUE(sums.ok()) << sums.status();
  ExpectSameSums(*sums, PlainResiduals(data.request));
  EXPECT_EQ(after.copies_off - before.copies_off, 1);
  EXPECT_EQ(after.bytes_off - before.bytes_off, static_cast<std::int64_t>(sizeof(ResidualSums)));
  EXPECT_EQ(after.allocations, before.allocations);
  there.deviation = nullptr;
  EXPECT_EQ(device.Residuals(there).status().code(), absl::StatusCode::kInvalidArgument);
}

// Precision is told where the device's references fill deviations, and as on the CPU.
TEST_P(GpuBackendTest, ThePrecisionIsTold) {
  Desk desk(GpuBackend());
  Case c;
  c.provider = "builtin";
  c.seed = 7;
  c.dtype = DType::kF32;
  for (const std::string_view op :
       {"gemm", "conv", "attention", "softmax", "layer_norm", "dequant_softmax"}) {
    for (const Problem& problem : ProblemsOf(op)) {
      c.problem = problem;
      const CaseOutcome outcome = desk.Run(c);
      EXPECT_EQ(outcome.verdict, Verdict::kPassed) << Describe(outcome);
      ASSERT_TRUE(outcome.precision.has_value()) << op;
    }
  }
  c.problem = ProblemsOf("rope").front();
  EXPECT_FALSE(desk.Run(c).precision.has_value());
}

// As on AMD: heads that fill the shared memory still fit, and wider ones are refused before any
// launch.
TEST_P(GpuBackendTest, AttentionFitsTheSharedMemoryOrIsRefused) {
  simt::CurrentConfig().shared_bytes = 64 << 10;
  Desk desk(GpuBackend());
  AttentionProblem p;
  p.heads = 2;
  p.seq = p.kv_seq = 16;
  Case c;
  c.provider = "builtin";
  c.seed = 7;
  const auto run = [&](DType dtype, std::int64_t dim) {
    p.dim = dim;
    c.problem = p;
    c.dtype = dtype;
    return desk.Run(c);
  };
  for (const std::int64_t dim : {128, 256}) {
    const CaseOutcome fits = run(DType::kBF16, dim);
    EXPECT_EQ(fits.verdict, Verdict::kPassed) << Describe(fits);
  }
  const CaseOutcome refused = run(DType::kF64, 256);
  EXPECT_EQ(refused.verdict, Verdict::kUnsupported) << Describe(refused);
  EXPECT_NE(Describe(refused).find("67968 bytes of shared memory"), std::string::npos)
      << Describe(refused);
}

TEST_P(GpuBackendTest, ADeviceThatIsNotThereSaysSo) {
  const auto made = GpuBackend().MakeDevice(7, ArenaOptions{});
  EXPECT_EQ(made.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(made.status().message().find("simt:7"), std::string::npos) << made.status();
}

INSTANTIATE_TEST_SUITE_P(Waves, GpuBackendTest, ::testing::Values(32, 64));

}  // namespace
}  // namespace assay
