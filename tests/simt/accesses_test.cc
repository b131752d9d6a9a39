// What races and what does not: each kernel makes its accesses by hand, and is right, or wrong in
// one way.
#include "kernels/simt/accesses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "kernels/simt/engine.h"

namespace assay::inline kernels::simt {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr unsigned kThreads = 64;

class AccessesTest : public ::testing::Test {
 protected:
  AccessesTest() {
    TakeFaults();
    CurrentConfig() = Config{};
    CurrentConfig().ended_threads_leave = true;
    CurrentConfig().observer = &accesses_;
    std::vector<Memory> memory(2);
    memory[0].name = "a";
    memory[0].begin = reinterpret_cast<char*>(global_.data());
    memory[0].bytes = global_.size() * sizeof(int);
    memory[0].element_bytes = sizeof(int);
    memory[1].name = "tile";
    memory[1].begin = reinterpret_cast<char*>(shared_.data());
    memory[1].bytes = shared_.size() * sizeof(int);
    memory[1].of_block = true;
    EXPECT_TRUE(accesses_.SetMemory(memory));
  }
  ~AccessesTest() override { CurrentConfig() = Config{}; }

  int Read(const int& at) {
    accesses_.Make(&at, sizeof(int), Access::kRead);
    return at;
  }
  void Write(int& at, int value) {
    accesses_.Make(&at, sizeof(int), Access::kWrite);
    at = value;
  }
  int Add(int& at, int value) {
    accesses_.Make(&at, sizeof(int), Access::kAtomic);
    at += value;
    return at - value;
  }
  static unsigned Thread() { return Here().thread.x; }
  static unsigned Block() { return Here().block.x; }

  // The fault of a launch; empty if it has none.
  std::string Run(unsigned blocks, const std::function<void()>& kernel) {
    accesses_.BeginLaunch({kThreads});
    Launch({blocks}, {kThreads}, 0, kernel);
    const std::vector<Fault> faults = TakeFaults();
    return faults.empty() ? "" : faults.front().message;
  }

  std::vector<int> global_ = std::vector<int>(1024);
  std::vector<int> shared_ = std::vector<int>(kThreads);
  Accesses accesses_;
};

TEST_F(AccessesTest, ABarrierOrders) {
  for (const bool barrier : {true, false}) {
    const std::string fault = Run(3, [&] {
      Write(shared_[Thread()], static_cast<int>(Thread()));
      if (barrier) SyncBlock();
      Read(shared_[kThreads - 1 - Thread()]);
    });
    if (barrier) {
      EXPECT_THAT(fault, IsEmpty());
    } else {
      EXPECT_THAT(fault, HasSubstr("race: thread ("));
      EXPECT_THAT(fault, HasSubstr("of tile"));
      EXPECT_THAT(fault, HasSubstr("__syncthreads"));
      EXPECT_EQ(accesses_.fault(), AccessFault::kRace);
    }
  }
}

TEST_F(AccessesTest, AReadBeforeAWriteRacesToo) {
  EXPECT_THAT(Run(1,
                  [&] {
                    Write(shared_[Thread()], 1);
                    SyncBlock();
                    Read(shared_[(Thread() + 1) % kThreads]);
                    Write(shared_[Thread()], 2);
                  }),
              HasSubstr("race"));
}

TEST_F(AccessesTest, TwoValuesFromTwoThreadsRaceAndOneValueDoesNot) {
  EXPECT_THAT(Run(1, [&] { Write(global_[5], static_cast<int>(Thread())); }), HasSubstr("race"));
  EXPECT_THAT(Run(1, [&] { Write(global_[6], 7); }), IsEmpty());
  EXPECT_THAT(Run(2, [&] { Write(global_[8], static_cast<int>(Block())); }), HasSubstr("blocks"));
}

TEST_F(AccessesTest, ManyReadersAndALaterWriterOfAnotherWave) {
  // Whatever the order of the waves is, two waves have read.
  EXPECT_THAT(Run(1,
                  [&] {
                    Read(global_[0]);
                    if (Thread() == 40) Write(global_[0], 1);
                  }),
              HasSubstr("race"));
}

TEST_F(AccessesTest, LaunchesAndBlocksOfSharedMemoryAreOrdered) {
  EXPECT_THAT(Run(2, [&] { Write(shared_[Thread()], static_cast<int>(Block())); }), IsEmpty());
  EXPECT_THAT(Run(1, [&] { Write(global_[Thread()], 1); }), IsEmpty());
  EXPECT_THAT(Run(1, [&] { Write(global_[63 - Thread()], 2); }), IsEmpty());
}

TEST_F(AccessesTest, SyncWaveOrdersAWaveAndNoOther) {
  EXPECT_THAT(Run(1,
                  [&] {
                    Write(shared_[Thread()], 1);
                    SyncWave(0xffffffff);
                    Read(shared_[Thread() ^ 1]);
                  }),
              IsEmpty());
  EXPECT_THAT(Run(1,
                  [&] {
                    Write(shared_[Thread()], 2);
                    SyncWave(0xffffffff);
                    Read(shared_[Thread() ^ 32]);
                  }),
              HasSubstr("race"));
}

TEST_F(AccessesTest, AShuffleOrdersNothing) {
  EXPECT_THAT(Run(1,
                  [&] {
                    Write(shared_[Thread()], 1);
                    Shuffle(1, 0, 0xffffffff);
                    Read(shared_[Thread() ^ 1]);
                  }),
              HasSubstr("race"));
}

TEST_F(AccessesTest, AtomicsDoNotRaceWithOneAnotherButWithPlainAccesses) {
  EXPECT_THAT(Run(4, [&] { Add(global_[0], 1); }), IsEmpty());
  EXPECT_EQ(global_[0], 4 * static_cast<int>(kThreads));
  EXPECT_THAT(Run(1,
                  [&] {
                    Add(global_[1], 1);
                    if (Thread() == 0) Read(global_[1]);
                  }),
              HasSubstr("atomically"));
  EXPECT_THAT(Run(1,
                  [&] {
                    Add(global_[2], 1);
                    SyncBlock();
                    Read(global_[2]);
                  }),
              IsEmpty());
}

// The last block sums what the others wrote: a fence, then a counter.
TEST_F(AccessesTest, AFenceAndAnAtomicOrderBlocks) {
  for (const bool fence : {true, false}) {
    global_[0] = 0;
    int last = 0;
    const std::string fault = Run(4, [&] {
      Write(global_[100 + Block() * kThreads + Thread()], static_cast<int>(Thread()));
      SyncBlock();
      if (Thread() == 0) {
        if (fence) accesses_.Fence();
        last = Add(global_[0], 1);
      }
      SyncBlock();
      if (last != 3) return;
      for (unsigned b = 0; b < 4; ++b) Read(global_[100 + b * kThreads + Thread()]);
    });
    if (fence) {
      EXPECT_THAT(fault, IsEmpty());
    } else {
      EXPECT_THAT(fault, HasSubstr("race"));
    }
  }
}

TEST_F(AccessesTest, OutsideIsFoundAndNamed) {
  EXPECT_THAT(Run(1, [&] { Read(*(global_.data() + 1024 + Thread())); }),
              HasSubstr("of a, which has 1024 elements"));
  EXPECT_EQ(accesses_.fault(), AccessFault::kOutside);
  EXPECT_THAT(Run(1, [&] { Read(*(global_.data() - 1)); }), HasSubstr("element -1 of a"));
  EXPECT_THAT(Run(1, [&] { accesses_.Make(nullptr, 4, Access::kWrite); }),
              HasSubstr("no operand's"));
  // Half inside.
  EXPECT_THAT(Run(1,
                  [&] {
                    accesses_.Make(reinterpret_cast<char*>(global_.data() + 1023) + 2, 4,
                                   Access::kRead);
                  }),
              HasSubstr("out of bounds"));
}

TEST_F(AccessesTest, TheThreadsOwnStackIsItsOwn) {
  EXPECT_THAT(Run(1,
                  [&] {
                    int own = 0;
                    Write(own, 1);
                    SyncBlock();
                    Read(own);
                  }),
              IsEmpty());
}

TEST_F(AccessesTest, ThreadsThatHaveEndedAreNotWaitedFor) {
  EXPECT_THAT(Run(1,
                  [&] {
                    if (Thread() >= 40) return;
                    Write(shared_[Thread()], 1);
                    SyncBlock();
                    Read(shared_[39 - Thread()]);
                  }),
              IsEmpty());
}

}  // namespace
}  // namespace assay::kernels::simt
