// Device code of a user's, launched by the judge: what its arguments are, what it cannot find in
// the device's memory, and what is refused before a launch. The emulator loads functions of this
// test in the place of compiled code.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/backends/backend.h"
#include "kernels/backends/gpu_backend.h"
#include "kernels/ops/slice.h"
#include "kernels/providers/provider.h"
#include "kernels/providers/user/device_program.h"
#include "kernels/runtime/gpu/error_status.h"
#include "kernels/runtime/gpu/port.h"
#include "kernels/simt/engine.h"
#include "kernels/text/cat.h"
#include "kernels/validate/runner.h"
#include "simt/host_control.h"
#include "tests/outcome_text.h"

namespace assay {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr std::int64_t kArena = std::int64_t{64} << 20;
constexpr char kUser[] = "user/0123456789ab";

template <class T>
T Argument(void** arguments, int i) {
  T value;
  std::memcpy(&value, arguments[i], sizeof value);
  return value;
}

std::int64_t Thread() {
  return std::int64_t{gpu::Block().x} * gpu::BlockExtent().x + gpu::Thread().x;
}

// y = x, of fp32.
void CopyThread(void** arguments) {
  const std::int64_t i = Thread();
  if (i >= Argument<int>(arguments, 2)) return;
  Argument<float*>(arguments, 1)[i] = Argument<const float*>(arguments, 0)[i];
}

simt::EmulatedFunction Copy(std::function<void(void**)> thread = CopyThread) {
  return {.use = {.registers = 12, .most_threads = 1024, .parameter_bytes = {8, 8, 4}},
          .thread = std::move(thread)};
}

class DeviceKernelTest : public ::testing::Test {
 protected:
  DeviceKernelTest() {
    simt::CurrentConfig() = simt::Config{};
    simt::TakeFaults();
    simt::ResetHost();
    std::string path = (fs::temp_directory_path() / "assay-device-XXXXXX").string();
    EXPECT_NE(mkdtemp(path.data()), nullptr);
    folder_ = path;
    absl::StatusOr<std::unique_ptr<Device>> made =
        GpuBackend().MakeDevice(0, ArenaOptions{.max_bytes = kArena});
    EXPECT_TRUE(made.ok()) << made.status();
    device_ = *std::move(made);
    GpuBackend().Register(registry_);
    program_ = {.name = "mine",
                .symbol = "mine",
                .signature = "_Z4minePKfPfi",
                .grid = {"ceil_div(count, 64)", "1", "1"},
                .block = {"64", "1", "1"},
                .shared = "0",
                .args = {"x", "y", "count"},
                .image = "image"};
  }
  ~DeviceKernelTest() override {
    for (const simt::Fault& fault : simt::TakeFaults()) ADD_FAILURE() << fault.message;
    EXPECT_EQ(simt::InUse().modules, 0);
    device_.reset();
    fs::remove_all(folder_);
  }

  void Write() {
    std::ofstream(DeviceProgramFile((folder_ / "kernel.so").string(), "emulated"), std::ios::binary)
        << ToBytes(program_);
  }
  CaseOutcome Run(Case c) {
    Write();
    c.kernel_file = (folder_ / "kernel.so").string();
    PhaseObserver observer;
    return CaseRunner(*device_, registry_, nullptr).Run(c, observer);
  }
  CaseOutcome RunCopy(Mode mode = Mode::kValidate) {
    Case c;
    c.problem = CopyProblem{.count = 130};
    c.dtype = DType::kF32;
    c.provider = kUser;
    c.seed = 7;
    c.mode = mode;
    return Run(c);
  }
  fs::path folder_;
  std::unique_ptr<Device> device_;
  Registry registry_;
  DeviceProgram program_;
};

TEST_F(DeviceKernelTest, ARightKernelPassesAndIsTimed) {
  simt::AddFunction("image", program_.symbol, Copy());
  const CaseOutcome validated = RunCopy();
  EXPECT_EQ(validated.verdict, Verdict::kPassed) << Describe(validated);
  const CaseOutcome timed = RunCopy(Mode::kBoth);
  EXPECT_TRUE(timed.bench.has_value()) << Describe(timed);
}

TEST_F(DeviceKernelTest, AWrongOneFails) {
  simt::AddFunction("image", program_.symbol, Copy([](void** arguments) {
                      if (Thread() != 100) CopyThread(arguments);  // one element is not written
                    }));
  EXPECT_EQ(RunCopy().verdict, Verdict::kFailed);
  simt::AddFunction("image", program_.symbol, Copy([](void** arguments) {
                      CopyThread(arguments);
                      if (Thread() == 0) Argument<float*>(arguments, 1)[130] = 1;
                    }));
  const CaseOutcome outside = RunCopy();
  EXPECT_EQ(outside.verdict, Verdict::kFailed);
  EXPECT_THAT(Describe(outside), HasSubstr("guard"));
}

// A kernel that copies whatever stands behind its output in the arena: the reference of a case
// before, or of an earlier launch.
TEST_F(DeviceKernelTest, NothingThatWasComputedBeforeIsInMemory) {
  Case builtin;
  builtin.problem = CopyProblem{.count = 130};
  builtin.dtype = DType::kF32;
  builtin.provider = "builtin";
  builtin.seed = 7;
  PhaseObserver observer;
  ASSERT_EQ(CaseRunner(*device_, registry_, nullptr).Run(builtin, observer).verdict,
            Verdict::kPassed);
  std::int64_t found = 0, looked = 0;
  const char* end = nullptr;
  simt::AddFunction(
      "image", program_.symbol, Copy([&](void** arguments) {
        CopyThread(arguments);
        if (Thread() != 0) return;
        const char* at = reinterpret_cast<const char*>(Argument<float*>(arguments, 1) + 130);
        end = at + (std::int64_t{64} << 10);
        for (at += kGuardBytes; at < end; ++at, ++looked) {
          found += static_cast<unsigned char>(*at) != GuardByte(Poison::kFirst) && *at != 0 ? 1 : 0;
        }
      }));
  Case mine = builtin;
  mine.provider = kUser;
  mine.repeats = 1;
  const CaseOutcome outcome = Run(mine);
  EXPECT_EQ(outcome.verdict, Verdict::kPassed) << Describe(outcome);
  EXPECT_GT(looked, 0);
  EXPECT_EQ(found, 0);
}

TEST_F(DeviceKernelTest, WhatTheLaunchDescriptionHasWrongIsToldBeforeALaunch) {
  simt::AddFunction("image", program_.symbol, Copy([](void**) { FAIL() << "was launched"; }));
  const auto says = [this](const std::string& word) {
    const CaseOutcome outcome = RunCopy();
    EXPECT_EQ(outcome.verdict, Verdict::kError);
    EXPECT_THAT(Describe(outcome), HasSubstr(word));
  };
  program_.args = {"x", "y", "nothing"};
  says("nothing");
  program_.args = {"x", "y"};
  says("args has 2 arguments, and mine takes 3");
  program_.args = {"x", "y", "count"};
  program_.block = {"2048", "1", "1"};
  says("block");
  program_.block = {"64", "1", "1"};
  program_.shared = "1000000";
  says("shared");
  program_.shared = "0";
  program_.symbol = "other";
  const CaseOutcome absent = RunCopy();
  EXPECT_EQ(absent.verdict, Verdict::kError);
  EXPECT_EQ(absent.findings.front().blame, Blame::kKernel);
  program_.symbol = "mine";
  program_.image = "no image";
  const CaseOutcome invalid = RunCopy();
  EXPECT_EQ(invalid.verdict, Verdict::kError) << "broken code is no missing feature";
  EXPECT_EQ(invalid.findings.front().blame, Blame::kKernel);
}

TEST_F(DeviceKernelTest, AKernelOfAnotherFormatIsUnsupported) {
  program_.signature = "_Z4minePKdPdi";
  simt::AddFunction("image", program_.symbol, Copy());
  const CaseOutcome outcome = RunCopy();
  EXPECT_EQ(outcome.verdict, Verdict::kUnsupported);
  EXPECT_THAT(Describe(outcome), HasSubstr("fp64"));
}

// Of a kernel marked extern "C" that its author compiled, only the sizes are known.
class InC : public DeviceKernelTest {
 protected:
  InC() { program_.signature = program_.symbol; }

  // The third parameter's bytes, as the kernel gets them for the argument.
  CaseOutcome Third(const std::string& argument, std::int64_t bytes, void* got) {
    program_.args = {"x", "y", argument};
    simt::EmulatedFunction function = Copy([bytes, got](void** arguments) {
      if (Thread() == 0 && got != nullptr) {
        std::memcpy(got, arguments[2], static_cast<std::size_t>(bytes));
      }
      if (Thread() < 130) {
        Argument<float*>(arguments, 1)[Thread()] = Argument<const float*>(arguments, 0)[Thread()];
      }
    });
    function.use.parameter_bytes.back() = bytes;
    simt::AddFunction("image", program_.symbol, std::move(function));
    return RunCopy();
  }
};

TEST_F(InC, WholeAndRealNumbersAreToldApartByTheirText) {
  float real = 0;
  EXPECT_EQ(Third("1.0", 4, &real).verdict, Verdict::kPassed);
  EXPECT_EQ(real, 1.0F);
  double wide = 0;
  EXPECT_EQ(Third("-2.5e-3", 8, &wide).verdict, Verdict::kPassed);
  EXPECT_EQ(wide, -2.5e-3);
  int whole = 0;
  EXPECT_EQ(Third("count", 4, &whole).verdict, Verdict::kPassed);
  EXPECT_EQ(whole, 130);
  unsigned large = 0;
  EXPECT_EQ(Third("3000000000", 4, &large).verdict, Verdict::kPassed);
  EXPECT_EQ(large, 3'000'000'000U);
  std::int8_t small = 0;
  EXPECT_EQ(Third("-7", 1, &small).verdict, Verdict::kPassed);
  EXPECT_EQ(small, -7);
}

TEST_F(InC, WhatHasNoTypeIsUnsupported) {
  for (const std::int64_t bytes : {3, 5, 6, 7, 16, 4000}) {
    EXPECT_EQ(Third("count", bytes, nullptr).verdict, Verdict::kUnsupported) << bytes;
  }
  const CaseOutcome half = Third("1.0", 2, nullptr);
  EXPECT_EQ(half.verdict, Verdict::kUnsupported);
  EXPECT_THAT(Describe(half), HasSubstr("C++ linkage"));
  program_.args = {"x", "y"};
  EXPECT_THAT(Describe(RunCopy()), HasSubstr("args has 2 arguments"));
}

// What runs after a fault is another matter: the context is lost, and the worker with it.
TEST_F(DeviceKernelTest, AFaultIsTheKernelsAndNotTheDevices) {
  simt::AddFunction("image", program_.symbol, Copy([](void**) {
                      if (Thread() == 0) simt::InjectFault(700);  // an illegal address
                    }));
  const CaseOutcome outcome = RunCopy();
  EXPECT_EQ(outcome.verdict, Verdict::kError);
  EXPECT_EQ(outcome.findings.front().reason, Reason::kFault) << Describe(outcome);
  EXPECT_EQ(outcome.findings.front().blame, Blame::kKernel);
  EXPECT_FALSE(device_->health().ok());
  simt::ResetHost();
}

// The memory of an arena that was given back and taken again may hold what it held.
TEST_F(DeviceKernelTest, NothingIsInMemoryThatWasTakenAgain) {
  const absl::StatusOr<Block> block = device_->arena().Allocate(std::int64_t{1} << 20, true);
  ASSERT_TRUE(block.ok());
  std::memset(block->data, 0x5a, static_cast<std::size_t>(block->bytes));
  device_->arena().Release();
  ASSERT_TRUE(device_->arena().Allocate(1, true).ok());
  ASSERT_TRUE(device_->Forget().ok());
  const auto* bytes = static_cast<const unsigned char*>(device_->arena().blocks()[0].data);
  for (std::int64_t i = 0; i < (std::int64_t{2} << 20); ++i)
    ASSERT_EQ(bytes[i], GuardByte(Poison::kFirst)) << i;
}

// The bytes are zero before each launch, and come back as they were written: no number keeps the
// payload of this NaN.
TEST_F(DeviceKernelTest, TheDebugBufferComesBackAsBits) {
  constexpr std::uint32_t kPayload = 0x7fa00001;
  bool zeros = true;
  simt::EmulatedFunction function = Copy([&](void** arguments) {
    CopyThread(arguments);
    auto* const debug = Argument<std::uint32_t*>(arguments, 3);
    if (Thread() != 7 || debug == nullptr) return;
    zeros = zeros && debug[1] == 0;
    debug[1] = kPayload;
  });
  function.use.parameter_bytes = {8, 8, 4, 8};
  simt::AddFunction("image", program_.symbol, function);
  program_.signature = "_Z4minePKfPfiPj";
  program_.args = {"x", "y", "count", "debug"};
  Case c;
  c.problem = CopyProblem{.count = 130};
  c.dtype = DType::kF32;
  c.provider = kUser;
  c.slices = {"debug[0:8]"};
  const CaseOutcome outcome = Run(c);
  EXPECT_EQ(outcome.verdict, Verdict::kPassed) << Describe(outcome);
  EXPECT_TRUE(zeros);
  ASSERT_EQ(outcome.slices.size(), 1u);
  EXPECT_THAT(outcome.slices[0].bits, ::testing::ElementsAre("0x00", "0x00", "0x00", "0x00", "0x01",
                                                             "0x00", "0xa0", "0x7f"));
  // Who asks for none has none.
  c.slices = {};
  EXPECT_EQ(Run(c).verdict, Verdict::kPassed);
  EXPECT_TRUE(zeros);
}

TEST_F(DeviceKernelTest, WhatIsWrittenBehindTheDebugBufferIsSeen) {
  simt::EmulatedFunction function = Copy([](void** arguments) {
    CopyThread(arguments);
    auto* const debug = Argument<std::uint8_t*>(arguments, 3);
    if (Thread() == 0 && debug != nullptr) debug[kDebugBytes] = 1;
  });
  function.use.parameter_bytes = {8, 8, 4, 8};
  simt::AddFunction("image", program_.symbol, function);
  program_.signature = "_Z4minePKfPfiPh";
  program_.args = {"x", "y", "count", "debug"};
  Case c;
  c.problem = CopyProblem{.count = 130};
  c.dtype = DType::kF32;
  c.provider = kUser;
  c.slices = {"debug[0]"};
  const CaseOutcome outcome = Run(c);
  EXPECT_EQ(outcome.verdict, Verdict::kFailed) << Describe(outcome);
  EXPECT_EQ(outcome.findings.front().reason, Reason::kGuard) << Describe(outcome);
}

// A cubin for another card, and PTX of a later toolkit than the driver's.
TEST_F(DeviceKernelTest, CodeThatTheDriverDoesNotTakeIsUnsupported) {
  simt::AddFunction("image", program_.symbol, Copy());
  for (const gpu::ErrorCode code : {209, 222}) {
    simt::RefuseModules(code);
    const CaseOutcome outcome = RunCopy();
    EXPECT_EQ(outcome.verdict, Verdict::kUnsupported) << Describe(outcome);
    ASSERT_FALSE(outcome.findings.empty());
    EXPECT_THAT(outcome.findings.front().message,
                HasSubstr(Cat("mine on ", device_->info().id,
                              ", which is emulated: ", gpu::Describe(code))));
  }
  // An image that is none is the kernel's fault.
  simt::RefuseModules(200);
  const CaseOutcome outcome = RunCopy();
  EXPECT_EQ(outcome.verdict, Verdict::kError) << Describe(outcome);
  ASSERT_FALSE(outcome.findings.empty());
  EXPECT_EQ(outcome.findings.front().blame, Blame::kKernel);
  EXPECT_THAT(outcome.findings.front().message, HasSubstr("could not be prepared"));
  simt::RefuseModules(gpu::kOk);
}

TEST_F(DeviceKernelTest, ACardWithoutItsCodeIsUnsupported) {
  Case c;
  c.problem = CopyProblem{.count = 10};
  c.dtype = DType::kF32;
  c.provider = kUser;
  c.kernel_file = (folder_ / "kernel.so").string();
  PhaseObserver observer;
  const CaseOutcome outcome = CaseRunner(*device_, registry_, nullptr).Run(c, observer);
  EXPECT_EQ(outcome.verdict, Verdict::kUnsupported) << Describe(outcome);
}

TEST(DeviceProgram, IsReadAsItWasWritten) {
  const DeviceProgram program{.name = "lab::copy<float>",
                              .symbol = "_Z",
                              .signature = "_Y",
                              .grid = {"a", "b", "c"},
                              .block = {"1", "2", "3"},
                              .shared = "4 * n",
                              .args = {"x", "0.5"},
                              .image = std::string("\n\0bits", 6)};
  const absl::StatusOr<DeviceProgram> read = ReadDeviceProgram(ToBytes(program));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->name, program.name);
  EXPECT_EQ(read->signature, program.signature);
  EXPECT_EQ(read->grid, program.grid);
  EXPECT_EQ(read->block, program.block);
  EXPECT_EQ(read->shared, program.shared);
  EXPECT_EQ(read->args, program.args);
  EXPECT_EQ(read->image, program.image);
  const std::string bytes = ToBytes(program);
  for (const std::size_t cut : {std::size_t{0}, std::size_t{5}, std::size_t{40}, std::size_t{60}}) {
    EXPECT_FALSE(ReadDeviceProgram(bytes.substr(0, cut)).ok()) << cut;
  }
}

}  // namespace
}  // namespace assay
