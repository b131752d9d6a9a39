#include "kernels/simt/engine.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <random>
#include <utility>

#include "kernels/simt/context.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define SIMT_ASAN 1
#else
#define SIMT_ASAN 0
#endif
#if defined(ASSAY_SIMT_TSAN)  // this file itself is not instrumented
#include <sanitizer/tsan_interface.h>
#define SIMT_TSAN 1
#else
#define SIMT_TSAN 0
#endif

namespace assay::inline kernels::simt {
namespace {

// [bytes]; the sanitizers' frames are several times larger.
constexpr std::size_t kStack = SIMT_ASAN || SIMT_TSAN ? 512 << 10 : 256 << 10;
constexpr std::size_t kPage = 4096;
#if defined(ASSAY_SIMT_ONE_THREAD)
#define SIMT_THREAD_LOCAL  // thread-local memory of the library is the kernels' shared memory
#else
#define SIMT_THREAD_LOCAL thread_local
#endif
constexpr std::size_t kRedZone = 64;
constexpr unsigned char kPoison = 0xFF;  // NaN in every format that has one

enum class State : std::uint8_t { kReady, kWave, kBarrier, kDone };

bool Same(const Where& a, const Where& b) {
  return a.line() == b.line() && a.column() == b.column() &&
         (a.file_name() == b.file_name() || std::strcmp(a.file_name(), b.file_name()) == 0);
}

std::string Text(const Where& w) {
  const std::string path = w.file_name();
  return path.substr(path.rfind('/') + 1) + ":" + std::to_string(w.line());
}

std::string Text(const Dim3& d) {
  return "(" + std::to_string(d.x) + "," + std::to_string(d.y) + "," + std::to_string(d.z) + ")";
}

// A stack with a page behind it that no access may touch.
class Stack {
 public:
  Stack()
      : base_(static_cast<char*>(mmap(nullptr, kStack + kPage, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {
    mprotect(base_, kPage, PROT_NONE);
  }
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;
  ~Stack() { munmap(base_, kStack + kPage); }
  char* low() const { return base_ + kPage; }
  char* top() const { return base_ + kPage + kStack; }

 private:
  char* base_;
};

struct Fiber {
  Place place;
  State state = State::kReady;
  Where where;
  Context context;
  // The wave operation that this lane waits at.
  std::uint64_t mask = 0;
  std::uint64_t votes = 0;
  bool predicate = false;
  bool orders_memory = false;
  int source = 0;
  Exchanged given;
  Exchanged taken;
  Collective collective = nullptr;
  Record record = {};
  void* fake_stack = nullptr;  // of the address sanitizer
  void* sanitizer = nullptr;   // the thread sanitizer's own fiber
};

class Engine;
SIMT_THREAD_LOCAL Engine* current_engine = nullptr;

class Engine {
 public:
  Engine(const Config& config, std::vector<Fault>& faults)
      : config_(config), faults_(faults), random_(config.seed) {}

  bool Run(Dim3 grid, Dim3 block, std::size_t dynamic_bytes, const std::function<void()>& kernel) {
    kernel_ = &kernel;
    const std::uint64_t threads = block.count();
    if (threads == 0 || threads > 1024 || grid.count() == 0) {
      faults_.push_back({"a launch of " + Text(grid) + " blocks of " + Text(block) + " threads",
                         {0, 0, 0},
                         {0, 0, 0}});
      return false;
    }
    MakeStacks(threads);
    shared_.reset(static_cast<unsigned char*>(std::aligned_alloc(128, SharedCapacity())));
#if SIMT_TSAN
    __tsan_release(&launch_tag_);
    scheduler_sanitizer_ = __tsan_get_current_fiber();
#endif
    Engine* const outer = std::exchange(current_engine, this);
    for (unsigned z = 0; z < grid.z && !ended_; ++z) {
      for (unsigned y = 0; y < grid.y && !ended_; ++y) {
        for (unsigned x = 0; x < grid.x && !ended_; ++x) {
          RunBlock({x, y, z}, grid, block, dynamic_bytes);
        }
      }
    }
    current_engine = outer;
#if SIMT_ASAN
    __asan_unpoison_memory_region(shared_.get(), SharedCapacity());
#endif
#if SIMT_TSAN
    __tsan_acquire(&end_tag_);
#endif
    return !ended_;
  }

  Fiber& fiber() { return *running_; }
  int wave_width() const { return config_.wave_width; }

  void Barrier(const Where& where) {
    Fiber& f = *running_;
    f.where = where;
    f.state = State::kBarrier;
#if SIMT_TSAN
    __tsan_release(&barrier_tags_[generation_ & 1]);
    const std::size_t tag = generation_ & 1;
#endif
    Yield();
#if SIMT_TSAN
    __tsan_acquire(&barrier_tags_[tag]);
#endif
  }

  void Wave(std::uint64_t mask, const Where& where, bool orders_memory = false) {
    Fiber& f = *running_;
    f.orders_memory = orders_memory;
    if (((mask >> f.place.lane) & 1) == 0) {
      Fail("lane " + std::to_string(f.place.lane) + " is not in the mask of its own wave operation",
           where);
    }
    f.mask = mask;
    f.where = where;
    f.state = State::kWave;
#if SIMT_TSAN
    __tsan_release(&wave_tag_);
#endif
    Yield();
#if SIMT_TSAN
    __tsan_acquire(&wave_tag_);
#endif
  }

  // The fiber's stack is dropped without unwinding, so nothing on it may own memory.
  [[noreturn]] void Fail(std::string message, const Where& where) {
    message += " at " + Text(where);
    Fail(std::move(message));
  }
  [[noreturn]] void Fail(std::string message) {
    Report(std::exchange(message, {}), *running_);
    running_->state = State::kDone;
    Yield();
    std::abort();  // a fiber that failed is never resumed
  }

  void* Shared(std::size_t bytes, const Where& where) {
    for (const Array& a : arrays_) {
      if (Same(a.where, where)) {
        if (a.bytes != bytes) Fail("one shared array with two sizes", where);
        return shared_.get() + a.offset;
      }
    }
    const std::size_t offset = used_;
    const std::size_t padded = (bytes + kRedZone - 1) / kRedZone * kRedZone;
    taken_ += bytes;
    if (taken_ > config_.shared_bytes) {
      Fail(std::to_string(taken_) + " bytes of shared memory, more than the " +
               std::to_string(config_.shared_bytes) + " of a block",
           where);
    }
    arrays_.push_back({where, offset, bytes});
    used_ += padded + kRedZone;
#if SIMT_ASAN
    __asan_unpoison_memory_region(shared_.get() + offset, bytes);
#endif
    return shared_.get() + offset;
  }
  void* dynamic_shared() { return shared_.get(); }

 private:
  struct Array {
    Where where;
    std::size_t offset;
    std::size_t bytes;
  };
  struct Free {
    void operator()(unsigned char* p) const { std::free(p); }
  };

  // Room for the red zone of every array beside the memory that the block may take.
  std::size_t SharedCapacity() const {
    if (config_.shared_bytes == 0) return 128;  // the kernels have it elsewhere
    return (config_.shared_bytes + (64 << 10) + 127) / 128 * 128;
  }

  static std::vector<std::unique_ptr<Stack>>& Stacks() {
    static SIMT_THREAD_LOCAL std::vector<std::unique_ptr<Stack>> stacks;
    return stacks;
  }

  void MakeStacks(std::size_t threads) {
    while (stacks_.size() < threads) stacks_.push_back(std::make_unique<Stack>());
  }

  void RunBlock(Dim3 index, Dim3 grid, Dim3 block, std::size_t dynamic_bytes) {
    const auto threads = static_cast<std::size_t>(block.count());
    fibers_.assign(threads, Fiber{});
    arrays_.clear();
    used_ =
        (dynamic_bytes + kRedZone - 1) / kRedZone * kRedZone + (dynamic_bytes > 0 ? kRedZone : 0);
    taken_ = dynamic_bytes;
#if SIMT_TSAN
    // Each block gets memory that no earlier block has touched: nothing orders blocks, not even a
    // return.
    stacks_.clear();
    MakeStacks(threads);
    used_up_.push_back(std::move(shared_));
    shared_.reset(static_cast<unsigned char*>(std::aligned_alloc(128, SharedCapacity())));
#endif
#if SIMT_ASAN
    __asan_unpoison_memory_region(shared_.get(), SharedCapacity());
#endif
    std::memset(shared_.get(), kPoison, SharedCapacity());
#if SIMT_ASAN
    __asan_poison_memory_region(shared_.get() + dynamic_bytes, SharedCapacity() - dynamic_bytes);
#endif
    for (std::size_t i = 0; i < threads; ++i) {
      Fiber& f = fibers_[i];
      const auto t = static_cast<unsigned>(i);
      f.place.thread = {t % block.x, t / block.x % block.y, t / block.x / block.y};
      f.place.block = index;
      f.place.block_extent = block;
      f.place.grid_extent = grid;
      f.place.lane = static_cast<int>(t % static_cast<unsigned>(config_.wave_width));
#if SIMT_ASAN
      // The rest of the frames of a dropped fiber.
      __asan_unpoison_memory_region(stacks_[i]->low(), kStack);
#endif
      f.context.Prepare(stacks_[i]->low(), kStack, &Engine::Enter);
#if SIMT_TSAN
      f.sanitizer = __tsan_create_fiber(0);
#endif
    }
    if (config_.observer != nullptr) {
      const std::uint64_t before =
          index.x + std::uint64_t{grid.x} * (index.y + std::uint64_t{grid.y} * index.z);
      config_.observer->BlockBegins(before, threads);
    }
    while (!ended_ && Step()) {
    }
#if SIMT_TSAN
    for (Fiber& f : fibers_) __tsan_destroy_fiber(f.sanitizer);
#endif
  }

  // Runs every wave as far as it gets, then opens the barrier. False if all threads have ended.
  bool Step() {
    const auto width = static_cast<std::size_t>(config_.wave_width);
    for (const std::size_t wave : Order((fibers_.size() + width - 1) / width)) {
      RunWave(wave * width, std::min(fibers_.size(), (wave + 1) * width));
      if (ended_) return false;
    }
    const Fiber* waiting = nullptr;
    const Fiber* ended = nullptr;
    for (const Fiber& f : fibers_) {
      if (f.state == State::kDone) {
        ended = &f;
        continue;
      }
      if (waiting != nullptr && !Same(waiting->where, f.where)) {
        Report("divergent barrier: thread " + Text(waiting->place.thread) + " waits at " +
                   Text(waiting->where) + ", thread " + Text(f.place.thread) + " at " +
                   Text(f.where),
               f);
        return false;
      }
      waiting = &f;
    }
    if (waiting == nullptr) return false;
    if (ended != nullptr && !config_.ended_threads_leave) {
      Report("divergent barrier: thread " + Text(ended->place.thread) +
                 " has ended, others wait at " + Text(waiting->where),
             *ended);
      return false;
    }
    ++generation_;
    for (Fiber& f : fibers_) {
      if (f.state == State::kBarrier) f.state = State::kReady;
    }
    if (config_.observer != nullptr) config_.observer->BarrierOpens();
    return true;
  }

  void RunWave(std::size_t begin, std::size_t end) {
    do {
      for (const std::size_t i : Order(end - begin)) {
        Fiber& f = fibers_[begin + i];
        if (f.state == State::kReady) Resume(f, begin + i);
        if (ended_) return;
      }
    } while (CloseWaveOp(begin, end));
  }

  // Whether every lane of the operation that `first` waits at has come to it. If not, `missing` is
  // one that has not.
  bool AllCame(const Fiber& first, std::size_t begin, std::size_t end, const Fiber** missing) {
    for (std::size_t i = begin; i < end; ++i) {
      const Fiber& f = fibers_[i];
      if (((first.mask >> f.place.lane) & 1) == 0) continue;
      if (f.state == State::kDone && config_.ended_threads_leave) continue;
      if (f.state == State::kWave && Same(f.where, first.where) && f.mask == first.mask) continue;
      *missing = &f;
      return false;
    }
    return true;
  }

  // Carries out one wave operation that lanes wait at: lanes of a part of the wave may have more to
  // do before they come to the others. False if none wait.
  bool CloseWaveOp(std::size_t begin, std::size_t end) {
    Fiber* waiting = nullptr;  // the first that waits
    Fiber* first = nullptr;    // of an operation to which all have come
    const Fiber* missing = nullptr;
    for (std::size_t i = begin; i < end && first == nullptr; ++i) {
      Fiber& f = fibers_[i];
      if (f.state != State::kWave) continue;
      const Fiber* lacks = nullptr;
      if (AllCame(f, begin, end, &lacks)) first = &f;
      if (waiting == nullptr) {
        waiting = &f;
        missing = lacks;
      }
    }
    if (waiting == nullptr) return false;
    if (first == nullptr) {
      const std::string doing =
          missing->state == State::kDone ? "has ended" : "waits at " + Text(missing->where);
      Report("divergent wave operation at " + Text(waiting->where) + ": lane " +
                 std::to_string(missing->place.lane) + " " + doing,
             *missing);
      return false;
    }
    std::uint64_t votes = 0;
    for (std::size_t i = begin; i < end; ++i) {
      Fiber& f = fibers_[i];
      if (((first->mask >> f.place.lane) & 1) == 0) continue;
      if (f.state == State::kDone) {
        std::memset(f.given.words, kPoison, sizeof(f.given.words));  // nothing was given
      } else if (f.predicate) {
        votes |= std::uint64_t{1} << f.place.lane;
      }
    }
    const std::uint64_t mask = first->mask;
    const Where where = first->where;
    if (first->collective != nullptr) CarryOut(first->collective, begin, end);
    for (std::size_t i = begin; i < end; ++i) {
      Fiber& f = fibers_[i];
      if (f.state != State::kWave || f.mask != mask || !Same(f.where, where)) continue;
      const auto source = begin + static_cast<std::size_t>(std::max(f.source, 0));
      const bool held = f.source >= 0 && f.source < config_.wave_width && source < end &&
                        ((mask >> f.source) & 1) != 0;
      f.taken = held ? fibers_[source].given : f.given;
      // What a lane gives that takes no part is undefined.
      if (!held && f.source >= 0 && f.source < config_.wave_width && source < end) {
        std::memset(f.taken.words, kPoison, sizeof(f.taken.words));
      }
      f.votes = votes;
    }
    if (first->orders_memory && config_.observer != nullptr) {
      config_.observer->WaveSynced(begin, mask);
    }
    for (std::size_t i = begin; i < end; ++i) {
      Fiber& f = fibers_[i];
      if (f.state == State::kWave && f.mask == mask && Same(f.where, where)) {
        f.state = State::kReady;
      }
    }
    return true;
  }

  void CarryOut(Collective collective, std::size_t begin, std::size_t end) {
    constexpr std::size_t kLanes = 32;
    for (std::size_t group = begin; group < end; group += kLanes) {
      Record lanes[kLanes] = {};
      const std::size_t count = std::min(kLanes, end - group);
      for (std::size_t i = 0; i < count; ++i) lanes[i] = fibers_[group + i].record;
      collective(lanes);
      for (std::size_t i = 0; i < count; ++i) fibers_[group + i].record = lanes[i];
    }
  }

  std::vector<std::size_t> Order(std::size_t count) {
    std::vector<std::size_t> order(count);
    std::iota(order.begin(), order.end(), std::size_t{0});
    if (config_.order == WaveOrder::kRandom) std::shuffle(order.begin(), order.end(), random_);
    if (config_.order == WaveOrder::kDescending) std::reverse(order.begin(), order.end());
    return order;
  }

  void Report(std::string message, const Fiber& f) {
    faults_.push_back({std::move(message), f.place.block, f.place.thread});
    ended_ = true;
  }

  void Resume(Fiber& f, std::size_t index) {
    running_ = &f;
#if SIMT_ASAN
    void* fake = nullptr;
    __sanitizer_start_switch_fiber(&fake, stacks_[index]->low(), kStack);
#endif
#if SIMT_TSAN
    __tsan_switch_to_fiber(f.sanitizer, __tsan_switch_to_fiber_no_sync);
#endif
    if (config_.observer != nullptr) {
      config_.observer->ThreadRuns(index, stacks_[index]->low(), stacks_[index]->top());
    }
    Context::Switch(scheduler_, f.context);
#if SIMT_ASAN
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
  }

  // Returns to the scheduler. The call ends when the fiber is resumed.
  void Yield() {
    Fiber& f = *running_;
    if (config_.observer != nullptr) config_.observer->ThreadStops();
#if SIMT_ASAN
    __sanitizer_start_switch_fiber(f.state == State::kDone ? nullptr : &f.fake_stack,
                                   scheduler_low_, scheduler_size_);
#endif
#if SIMT_TSAN
    __tsan_release(&end_tag_);  // it may be the last of it, if the launch ends in a fault
    __tsan_switch_to_fiber(scheduler_sanitizer_, __tsan_switch_to_fiber_no_sync);
#endif
    Context::Switch(f.context, scheduler_);
#if SIMT_ASAN
    __sanitizer_finish_switch_fiber(f.fake_stack, &scheduler_low_, &scheduler_size_);
#endif
  }

  static void Enter() {
    Engine& engine = *current_engine;
#if SIMT_ASAN
    __sanitizer_finish_switch_fiber(nullptr, &engine.scheduler_low_, &engine.scheduler_size_);
#endif
#if SIMT_TSAN
    __tsan_acquire(&engine.launch_tag_);
#endif
    (*engine.kernel_)();
#if SIMT_TSAN
    __tsan_release(&engine.end_tag_);
#endif
    engine.running_->state = State::kDone;
    engine.Yield();
  }

  const Config config_;
  std::vector<Fault>& faults_;
  std::mt19937_64 random_;
  const std::function<void()>* kernel_ = nullptr;
  // Kept for all launches of this thread, because mapping the stacks again would take as long as
  // many a kernel.
  std::vector<std::unique_ptr<Stack>>& stacks_ = Stacks();
  std::vector<Fiber> fibers_;
  Fiber* running_ = nullptr;
  Context scheduler_;
  bool ended_ = false;  // by a fault
  std::size_t generation_ = 0;
  std::unique_ptr<unsigned char, Free> shared_;
  std::vector<Array> arrays_;
  std::size_t used_ = 0;   // of the buffer, red zones included [bytes]
  std::size_t taken_ = 0;  // by the block's arrays [bytes]
#if SIMT_ASAN
  const void* scheduler_low_ = nullptr;
  std::size_t scheduler_size_ = 0;
#endif
#if SIMT_TSAN
  std::vector<std::unique_ptr<unsigned char, Free>> used_up_;
  void* scheduler_sanitizer_ = nullptr;
  char launch_tag_ = 0;
  char end_tag_ = 0;
  char barrier_tags_[2] = {0, 0};
  char wave_tag_ = 0;
#endif
};

std::vector<Fault>& Faults() {
  static std::vector<Fault> faults;
  return faults;
}

std::atomic<std::int64_t> launches{0};

}  // namespace

Config& CurrentConfig() {
  static Config config;
  return config;
}

std::vector<Fault> TakeFaults() { return std::exchange(Faults(), {}); }
bool HasFaults() { return !Faults().empty(); }

bool Launch(Dim3 grid, Dim3 block, std::size_t dynamic_shared_bytes,
            const std::function<void()>& kernel) {
  ++launches;
  return Engine(CurrentConfig(), Faults()).Run(grid, block, dynamic_shared_bytes, kernel);
}

std::int64_t Launches() { return launches; }

const Place& Here() { return current_engine->fiber().place; }
int WaveWidth() { return current_engine->wave_width(); }

void SyncBlock(Where where) { current_engine->Barrier(where); }

void SyncWave(std::uint64_t mask, Where where) {
  current_engine->Wave(mask, where, /*orders_memory=*/true);
}

std::uint64_t Ballot(bool predicate, std::uint64_t mask, Where where) {
  Fiber& f = current_engine->fiber();
  f.predicate = predicate;
  current_engine->Wave(mask, where);
  return f.votes;
}

Exchanged Exchange(Exchanged value, int source_lane, std::uint64_t mask, Where where) {
  Fiber& f = current_engine->fiber();
  f.given = value;
  f.source = source_lane;
  current_engine->Wave(mask, where);
  return f.taken;
}

void Combine(Record& record, Collective combine, Where where) {
  Fiber& f = current_engine->fiber();
  f.record = record;
  f.collective = combine;
  current_engine->Wave(kFullWave, where);
  f.collective = nullptr;
  record = f.record;
}

void Fail(std::string message, Where where) { current_engine->Fail(std::move(message), where); }
void Fail(std::string message) { current_engine->Fail(std::move(message)); }

void* SharedBytes(std::size_t bytes, Where where) { return current_engine->Shared(bytes, where); }

void* DynamicShared() { return current_engine->dynamic_shared(); }

}  // namespace assay::kernels::simt
