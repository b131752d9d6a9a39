#include "kernels/simt/accesses.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/simt/debug_info.h"

namespace assay::inline kernels::simt {
namespace {

// How far outside an operand an access still is said to be of that operand [bytes].
constexpr std::ptrdiff_t kNear = 1 << 20;
constexpr std::size_t kWord = 4;

std::string Verb(Access access) {
  return access == Access::kRead ? "reads" : access == Access::kWrite ? "writes" : "updates";
}

std::string Past(Access access) {
  return access == Access::kRead    ? "has read"
         : access == Access::kWrite ? "has written"
                                    : "has updated atomically";
}

// "element 7 of a", "byte 64 of tile".
std::string Element(const Memory& memory, std::size_t offset) {
  if (!memory.of_block) {
    return "element " + std::to_string(offset / memory.element_bytes) + " of " + memory.name;
  }
  if (memory.is_library) {
    const ArrayByte array = SharedArrayAt(memory.shared_offset + offset);
    if (!array.name.empty()) return "byte " + std::to_string(array.byte) + " of " + array.name;
  }
  return "byte " + std::to_string(offset) + " of " + memory.name;
}

void Raise(std::uint32_t& to, std::uint32_t by) { to = std::max(to, by); }

}  // namespace

void Accesses::Known::Join(const Known& other) {
  for (const auto& [block, time] : other.blocks) Raise(blocks[block], time);
  for (const auto& [thread, time] : other.threads) Raise(threads[thread], time);
}

bool Accesses::SetMemory(std::vector<Memory> memory) {
  bool room = true;
  // Pages that no access touches take no memory. The process ends with its kernel.
  const auto map = [&room](std::size_t bytes) {
    void* const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    room = room && mapped != MAP_FAILED;
    return mapped;
  };
  for (Memory& one : memory) {
    if (one.bytes == 0) continue;
    const std::size_t words = one.bytes / kWord + 2;
    Part part;
    part.memory = std::move(one);
    part.words = static_cast<Cell*>(map(words * sizeof(Cell)));
    part.bytes = static_cast<Cell*>(map(words * kWord * sizeof(Cell)));
    part.split = static_cast<unsigned char*>(map(words));
    parts_.push_back(std::move(part));
  }
  return room;
}

void Accesses::BeginLaunch(Dim3 block_extent) {
  extent_ = block_extent;
  threads_in_block_ = static_cast<std::uint32_t>(block_extent.count());
  fault_ = AccessFault::kNone;
  doubt_.at = nullptr;
  released_.clear();
  any_known_ = false;
  launch_ = now_++;
}

void Accesses::BlockBegins(std::uint64_t block, std::size_t threads) {
  block_number_ = static_cast<std::uint32_t>(block);
  first_ = static_cast<std::uint32_t>(block * threads);
  block_ = now_++;
  barrier_ = block_;
  if (threads_.size() < threads) threads_.resize(threads);
  for (Thread& thread : threads_) {
    thread.fence = 0;
    thread.fence_block = 0;
    thread.updated.clear();
    if (any_known_) thread.known = {};
  }
  if (any_known_) block_known_ = {};
  block_fenced_ = {};
  block_updated_.clear();
  released_in_block_.clear();
  for (const Part& part : parts_) {
    if (!part.memory.of_block) continue;
    std::memset(part.memory.begin, 0xff, part.memory.bytes);
    // Another block's shared memory has the same addresses.
    released_.erase(released_.lower_bound(part.memory.begin),
                    released_.lower_bound(part.memory.begin + part.memory.bytes));
  }
}

void Accesses::ThreadRuns(std::size_t thread, const char* stack_low, const char* stack_top) {
  thread_ = static_cast<std::uint32_t>(thread);
  stack_low_ = stack_low;
  stack_top_ = stack_top;
}

void Accesses::BarrierOpens() {
  barrier_ = now_++;
  for (std::size_t i = 0; i < threads_in_block_; ++i) {
    const Thread& thread = threads_[i];
    if (thread.fence != 0) {
      Raise(block_fenced_.threads[first_ + static_cast<std::uint32_t>(i)], thread.fence);
    }
    block_updated_.insert(thread.updated.begin(), thread.updated.end());
  }
  if (!any_known_) return;
  for (const Thread& thread : threads_) block_known_.Join(thread.known);
}

void Accesses::WaveSynced(std::size_t first, std::uint64_t lanes) {
  std::uint32_t over[kLanes] = {};
  const std::size_t count = std::min<std::size_t>(kLanes, threads_.size() - first);
  for (std::size_t lane = 0; lane < count; ++lane) {
    if (((lanes >> lane) & 1) == 0) continue;
    for (std::size_t other = 0; other < kLanes; ++other) {
      Raise(over[other], threads_[first + lane].lanes[other]);
    }
    over[lane] = now_;
  }
  Known known;
  for (std::size_t lane = 0; lane < count && any_known_; ++lane) {
    if (((lanes >> lane) & 1) != 0) known.Join(threads_[first + lane].known);
  }
  for (std::size_t lane = 0; lane < count; ++lane) {
    if (((lanes >> lane) & 1) == 0) continue;
    std::copy(std::begin(over), std::end(over), std::begin(threads_[first + lane].lanes));
    if (any_known_) threads_[first + lane].known = known;
  }
  ++now_;
}

void Accesses::Fence() {
  Settle();
  Thread& thread = threads_[thread_];
  thread.fence = now_++;
  thread.fence_block = thread.fence;
  thread.fence_barrier = barrier_;
}

void Accesses::FenceBlock() {
  Settle();
  threads_[thread_].fence_block = now_++;
}

// What the thread's fence has made visible goes with the address; what went there before, the
// thread knows from now on.
void Accesses::Release(const void* at) {
  Thread& thread = threads_[thread_];
  if (const auto found = released_.find(at); found != released_.end()) {
    thread.known.Join(found->second);
    any_known_ = true;
  }
  ReleaseInBlock(at);
  // A fence of every thread, a barrier, and an atomic operation of one thread.
  if (!block_fenced_.empty()) released_[at].Join(block_fenced_);
  if (thread.fence == 0) return;
  Known& to = released_[at];
  to.Join(thread.known);
  to.Join(block_known_);
  Raise(to.threads[first_ + thread_], thread.fence);
  Raise(to.blocks[block_number_], thread.fence_barrier);
  const std::uint32_t wave = thread_ / kLanes * kLanes;
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    if (thread.lanes[lane] > block_) Raise(to.threads[first_ + wave + lane], thread.lanes[lane]);
  }
}

void Accesses::ReleaseInBlock(const void* at) {
  Thread& thread = threads_[thread_];
  if (const auto found = released_in_block_.find(at); found != released_in_block_.end()) {
    thread.known.Join(found->second);
    any_known_ = true;
  }
  if (thread.fence_block == 0) return;
  Raise(released_in_block_[at].threads[first_ + thread_], thread.fence_block);
}

bool Accesses::Observed(const Making& making, const Made& made) const {
  if (made.thread >= first_ && made.thread - first_ < threads_in_block_) return false;
  return threads_[thread_].updated.contains(making.at) || block_updated_.contains(making.at);
}

bool Accesses::Ordered(const Made& made) const {
  if (made.thread == first_ + thread_) return true;
  const std::uint32_t other = made.thread - first_;
  if (made.thread >= first_ && other < threads_in_block_) {
    if (made.time <= barrier_) return true;
    if (other / kLanes == thread_ / kLanes &&
        made.time <= threads_[thread_].lanes[other % kLanes]) {
      return true;
    }
  }
  return any_known_ && OrderedByAtomics(made);
}

bool Accesses::OrderedByAtomics(const Made& made) const {
  const std::uint32_t block = made.thread / threads_in_block_;
  for (const Known* known : {&threads_[thread_].known, &block_known_}) {
    const auto of_block = known->blocks.find(block);
    if (of_block != known->blocks.end() && made.time <= of_block->second) return true;
    const auto of_thread = known->threads.find(made.thread);
    if (of_thread != known->threads.end() && made.time <= of_thread->second) return true;
  }
  return false;
}

// Takes the place of an access that is over for this one, or of its own. Of others it keeps two, of
// different waves if there are such.
void Accesses::Note(Made (&made)[2], const Made& now, bool first_is_over, bool second_is_over) {
  if (first_is_over) {
    made[0] = now;
  } else if (second_is_over || made[0].thread / kLanes == made[1].thread / kLanes) {
    made[1] = now;
  }
}

const Accesses::Part* Accesses::Find(const char* at, std::size_t bytes) {
  const auto holds = [at](const Part& part) {
    return at >= part.memory.begin && at < part.memory.begin + part.memory.bytes;
  };
  if (last_ == nullptr || !holds(*last_)) {
    const auto found = std::find_if(parts_.begin(), parts_.end(), holds);
    if (found == parts_.end()) return nullptr;
    last_ = &*found;
  }
  const char* const end = last_->memory.begin + last_->memory.bytes;
  return bytes <= static_cast<std::size_t>(end - at) ? last_ : nullptr;
}

void Accesses::Make(const void* address, std::size_t bytes, Access access, std::uint32_t place) {
  Settle();
  const char* const at = static_cast<const char*>(address);
  if (at >= stack_low_ && at + bytes <= stack_top_) return;
  const Part* const part = Find(at, bytes);
  if (part == nullptr) {
    for (const Range& range : unchecked_) {
      if (access == Access::kRead && at >= range.begin && at + bytes <= range.end) return;
    }
    Outside(at, bytes, access, place);
  }
  if (access == Access::kAtomic) {
    Release(address);
    threads_[thread_].updated.insert(address);
  }
  // Shared memory is the block's own, so what came before its barrier is over.
  const Making making{*part,
                      at,
                      bytes,
                      access,
                      part->memory.of_block ? barrier_ : launch_,
                      {first_ + thread_, now_, place}};
  const std::size_t before = reinterpret_cast<std::uintptr_t>(part->memory.begin) % kWord;
  const std::size_t begin = static_cast<std::size_t>(at - part->memory.begin) + before;
  for (std::size_t i = begin; i < begin + bytes;) {
    const std::size_t word = i / kWord;
    const bool whole = i % kWord == 0 && begin + bytes - i >= kWord;
    if (!whole && part->split[word] == 0) {
      part->split[word] = 1;
      std::fill_n(part->bytes + word * kWord, kWord, part->words[word]);
    }
    if (part->split[word] == 0) {
      Touch(making, part->words[word]);
      i += kWord;
    } else {
      Touch(making, part->bytes[i++]);
    }
  }
}

void Accesses::Touch(const Making& making, Cell& cell) {
  const auto over = [this, &making](const Made& made) {
    return made.time <= making.floor || Ordered(made);
  };
  const Access access = making.access;
  if (!over(cell.write)) Conflict(making, cell.write, Access::kWrite);
  const auto atomic_over = [this, &making, &over](const Made& made) {
    return over(made) || Observed(making, made);
  };
  const bool atomics_over[] = {atomic_over(cell.atomics[0]), atomic_over(cell.atomics[1])};
  if (access == Access::kAtomic) {
    Note(cell.atomics, making.now, atomics_over[0], atomics_over[1]);
  } else {
    for (const int i : {0, 1}) {
      if (!atomics_over[i]) Race(making, cell.atomics[i], Access::kAtomic);
    }
  }
  const bool reads_over[] = {over(cell.reads[0]), over(cell.reads[1])};
  if (access == Access::kRead) return Note(cell.reads, making.now, reads_over[0], reads_over[1]);
  for (const int i : {0, 1}) {
    if (!reads_over[i]) Conflict(making, cell.reads[i], Access::kRead);
  }
  if (access == Access::kWrite) cell.write = making.now;
}

// A plain write over another plain access only races if it changes the value. That shows after it.
void Accesses::Conflict(const Making& making, const Made& other, Access others) {
  if (making.access != Access::kWrite || making.bytes > sizeof(doubt_.old)) {
    Race(making, other, others);
  }
  if (doubt_.at != nullptr) return;  // about another byte of the same write
  doubt_.at = making.at;
  doubt_.bytes = making.bytes;
  std::memcpy(doubt_.old, making.at, making.bytes);
  doubt_.place = making.now.place;
  doubt_.other = other;
  doubt_.others = others;
  doubt_.part = &making.part;
}

void Accesses::Settle() {
  if (doubt_.at == nullptr) return;
  const char* const at = std::exchange(doubt_.at, nullptr);
  if (std::memcmp(at, doubt_.old, doubt_.bytes) == 0) return;
  const Making making{*doubt_.part,   at, doubt_.bytes,
                      Access::kWrite, 0,  {first_ + thread_, now_, doubt_.place}};
  Race(making, doubt_.other, doubt_.others);
}

std::string Accesses::ThreadText(std::uint32_t thread) const {
  const std::uint32_t t = thread % threads_in_block_;
  return "thread (" + std::to_string(t % extent_.x) + "," +
         std::to_string(t / extent_.x % extent_.y) + "," +
         std::to_string(t / extent_.x / extent_.y) + ") of block " +
         std::to_string(thread / threads_in_block_);
}

// A stack is dropped without unwinding when its launch ends. So texts are made by functions that
// have returned by then.
void Accesses::Race(const Making& making, const Made& other, Access others) {
  fault_ = AccessFault::kRace;
  Fail(RaceText(making, other, others));
}

std::string Accesses::RaceText(const Making& making, const Made& other, Access others) const {
  const Memory& memory = making.part.memory;
  const auto offset = static_cast<std::size_t>(making.at - memory.begin);
  const bool same_block = other.thread / threads_in_block_ == block_number_;
  return "race: " + ThreadText(first_ + thread_) + " " + Verb(making.access) + " " +
         Element(memory, offset) + " (" + std::to_string(making.bytes) + " bytes)" +
         SourceLineOf(making.now.place) + ", which " + ThreadText(other.thread) + " " +
         Past(others) + SourceLineOf(other.place) + ", and " +
         (same_block ? "no barrier (__syncthreads) stands between the two"
                     : "nothing orders the blocks of a launch");
}

void Accesses::Outside(const char* at, std::size_t bytes, Access access, std::uint32_t place) {
  fault_ = AccessFault::kOutside;
  Fail(OutsideText(at, bytes, access, place));
}

std::string Accesses::OutsideText(const char* at, std::size_t bytes, Access access,
                                  std::uint32_t place) const {
  const Part* nearest = nullptr;
  std::ptrdiff_t least = kNear;
  for (const Part& part : parts_) {
    const char* const begin = part.memory.begin;
    const std::ptrdiff_t distance =
        at < begin ? begin - at : std::max<std::ptrdiff_t>(at - (begin + part.memory.bytes), 0);
    if (distance >= least) continue;
    least = distance;
    nearest = &part;
  }
  std::string where = "memory that is no operand's";
  if (nearest != nullptr) {
    const Memory& memory = nearest->memory;
    const auto size = static_cast<std::ptrdiff_t>(memory.element_bytes);
    std::ptrdiff_t offset = at - memory.begin;
    if (offset < 0) offset -= size - 1;
    const std::string unit = memory.of_block ? "byte" : "element";
    where = unit + " " + std::to_string(offset / size) + " of " + memory.name + ", which has " +
            std::to_string(memory.bytes / memory.element_bytes) + " " + unit + "s";
  }
  return "out of bounds: " + ThreadText(first_ + thread_) + " " + Verb(access) + " " + where +
         " (" + std::to_string(bytes) + " bytes)" + SourceLineOf(place);
}

}  // namespace assay::kernels::simt
