#include "tests/fuzz/sqlite_pool.h"

#include <sanitizer/asan_interface.h>
#include <sqlite3.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "tests/fuzz/fuzz.h"

#if defined(__clang__)
#define ASSAY_SEES_POISON __attribute__((no_sanitize("address")))
#else
#define ASSAY_SEES_POISON
#endif

namespace assay::fuzz {
namespace {

constexpr std::size_t kPoolBytes = std::size_t{64} << 20;
constexpr std::size_t kLeast = 64;                     // of a block, with its head
constexpr std::size_t kMost = std::size_t{256} << 10;  // larger ones are malloc's
constexpr std::size_t kSizes = 13;                     // powers of two from kLeast to kMost

// Before each block's bytes. Poisoned, and so the gap behind the bytes of the block before it.
struct Head {
  Head* next;  // while it is free
  std::size_t bytes;
};

struct Queue {
  Head* first = nullptr;
  Head* last = nullptr;
};

// SQLite holds its own lock for each call but that of Size.
std::byte* pool = nullptr;
std::size_t used = 0;
std::array<Queue, kSizes> queues;

std::size_t SizeOf(std::size_t bytes) {
  return std::max(kLeast, std::bit_ceil(bytes + sizeof(Head)));
}

Queue& QueueOf(std::size_t size) {
  return queues[static_cast<std::size_t>(std::countr_zero(size) - std::countr_zero(kLeast))];
}

bool IsOurs(const void* block) { return block >= pool && block < pool + kPoolBytes; }

Head* HeadOf(void* block) { return static_cast<Head*>(block) - 1; }

ASSAY_SEES_POISON void* Allocate(int asked) {
  const auto bytes = static_cast<std::size_t>(asked);
  const std::size_t size = SizeOf(bytes);
  Head* head = nullptr;
  if (size <= kMost) {
    Queue& queue = QueueOf(size);
    head = queue.first;
    if (head != nullptr) {
      queue.first = head->next;
    } else if (used + size <= kPoolBytes) {
      head = reinterpret_cast<Head*>(pool + used);
      used += size;
    }
  }
  if (head == nullptr) {
    head = static_cast<Head*>(std::malloc(sizeof(Head) + bytes));
    if (head == nullptr) return nullptr;
  }
  head->bytes = bytes;
  ASAN_UNPOISON_MEMORY_REGION(head + 1, bytes);
  return head + 1;
}

ASSAY_SEES_POISON int Size(void* block) {
  return block == nullptr ? 0 : static_cast<int>(HeadOf(block)->bytes);
}

ASSAY_SEES_POISON void Free(void* block) {
  if (block == nullptr) return;
  Head* const head = HeadOf(block);
  if (!IsOurs(block)) return std::free(head);
  const std::size_t size = SizeOf(head->bytes);
  ASAN_POISON_MEMORY_REGION(block, size - sizeof(Head));
  head->next = nullptr;
  Queue& queue = QueueOf(size);
  (queue.first == nullptr ? queue.first : queue.last->next) = head;
  queue.last = head;
}

void* Reallocate(void* block, int bytes) {
  void* const moved = Allocate(bytes);
  if (moved == nullptr) return nullptr;
  std::memcpy(moved, block, static_cast<std::size_t>(std::min(Size(block), bytes)));
  Free(block);
  return moved;
}

// Sizes are exact, so that a read behind the end is seen. SQLite asks for multiples of 8.
int RoundUp(int bytes) { return (bytes + 7) & ~7; }
int Begin(void*) { return SQLITE_OK; }
void End(void*) {}

}  // namespace

void PoolSqliteMemory() {
  void* const mapped = mmap(nullptr, kPoolBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  Require(mapped != MAP_FAILED, "no memory for SQLite");
  pool = static_cast<std::byte*>(mapped);
  ASAN_POISON_MEMORY_REGION(pool, kPoolBytes);
  static sqlite3_mem_methods methods = {Allocate, Free,  Reallocate, Size,
                                        RoundUp,  Begin, End,        nullptr};
  Require(sqlite3_config(SQLITE_CONFIG_MALLOC, &methods) == SQLITE_OK, "SQLite has begun");
}

}  // namespace assay::fuzz
