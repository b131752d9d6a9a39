// What a worker that runs one case tells a profiler, and the memory that it takes under one.
#include "server/worker/once.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <memory>

namespace assay::server {
namespace {

TEST(DriverRange, IsTheFirstTimeThatTheKernelUnderTestRuns) {
  // The loader takes it for what its soname says.
  void* const driver = dlopen(FAKE_CUDA_DRIVER_PATH, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(driver, nullptr) << dlerror();
  const int& started = *static_cast<int*>(dlsym(driver, "started"));
  const int& stopped = *static_cast<int*>(dlsym(driver, "stopped"));
  {
    const std::unique_ptr<PhaseObserver> range = MakeDriverRange();
    range->Enter(Phase::kFill);
    EXPECT_EQ(started, 0);
    range->Enter(Phase::kKernel);
    EXPECT_EQ(started, 1);
    EXPECT_EQ(stopped, 0);
    range->Enter(Phase::kCompare);
    EXPECT_EQ(stopped, 1);
    range->Enter(Phase::kKernel);
    EXPECT_EQ(started, 1) << "short cases launch it again";
  }
  EXPECT_EQ(stopped, 1);
  MakeDriverRange()->Enter(Phase::kKernel);
  EXPECT_EQ(started, 2);
  EXPECT_EQ(stopped, 2) << "at its end, where the case ended meanwhile";
}

TEST(SmallArena, HasRoomForTheCaseAndItsChecksAndNoMoreThanThat) {
  v1::CaseSpec spec;
  spec.mutable_softmax()->set_rows(4096);
  spec.mutable_softmax()->set_cols(4096);
  spec.set_dtype(v1::DTYPE_FP16);
  spec.set_provider("builtin");
  const std::optional<std::int64_t> bytes = SmallArena(spec);
  ASSERT_TRUE(bytes.has_value());
  EXPECT_GE(*bytes, (std::int64_t{4096} * 4096) * (2 + 2 + 8 + 8));
  EXPECT_LE(*bytes, std::int64_t{2} << 30);
  spec.mutable_softmax()->set_rows(-1);
  EXPECT_EQ(SmallArena(spec), std::nullopt);
  EXPECT_EQ(SmallArena(v1::CaseSpec()), std::nullopt);
}

}  // namespace
}  // namespace assay::server
