// For the thread sanitizer, which cannot see into gRPC's library: what a thread does before it
// starts an operation happens before the callback of its end. This file is not instrumented itself,
// so its lock puts nothing in order.
#include <dlfcn.h>
#include <grpc/grpc.h>
#include <sanitizer/tsan_interface.h>
#include <sched.h>

#include <atomic>
#include <cstdlib>
#include <iterator>

namespace {

using Run = void (*)(grpc_completion_queue_functor*, int);

// What the callbacks do whose operations are under way. No container: its code would be that of the
// program's other containers, which is instrumented.
struct Operation {
  grpc_completion_queue_functor* done;
  Run run;
};
Operation operations[256];
std::atomic_flag locked;

// Puts `to` where `from` is.
Operation Exchange(const grpc_completion_queue_functor* from, Operation to) {
  while (locked.test_and_set(std::memory_order_acquire)) sched_yield();
  Operation* at = operations;
  while (at->done != from) {
    if (++at == std::end(operations)) std::abort();
  }
  const Operation before = *at;
  *at = to;
  locked.clear(std::memory_order_release);
  return before;
}

void RunInOrder(grpc_completion_queue_functor* done, int ok) {
  const Run run = Exchange(done, {}).run;
  __tsan_acquire(done);
  done->functor_run = run;
  run(done, ok);
}

}  // namespace

extern "C" const char* __tsan_default_options() {
  return "ignore_noninstrumented_modules=1:die_after_fork=0";
}

// Instead of the library's. The tag of a call with callbacks is a functor.
extern "C" grpc_call_error grpc_call_start_batch(grpc_call* call, const grpc_op* ops, size_t count,
                                                 void* tag, void* reserved) {
  static const auto start =
      reinterpret_cast<decltype(&grpc_call_start_batch)>(dlsym(RTLD_NEXT, "grpc_call_start_batch"));
  auto* const done = static_cast<grpc_completion_queue_functor*>(tag);
  Exchange(nullptr, {done, done->functor_run});
  done->functor_run = RunInOrder;
  __tsan_release(done);
  return start(call, ops, count, tag, reserved);
}
