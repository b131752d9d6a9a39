// For the thread sanitizer, which cannot see into gRPC's library: what a thread does before it
// starts an operation happens before the callback of its end.
#include <dlfcn.h>
#include <grpc/grpc.h>
#include <sanitizer/tsan_interface.h>

#include <map>
#include <mutex>

namespace {

using Run = void (*)(grpc_completion_queue_functor*, int);

std::mutex mutex;
std::map<grpc_completion_queue_functor*, Run> runs;

void RunInOrder(grpc_completion_queue_functor* done, int ok) {
  Run run = nullptr;
  {
    const std::lock_guard lock(mutex);
    run = runs.extract(done).mapped();
  }
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
  {
    const std::lock_guard lock(mutex);
    runs[done] = done->functor_run;
  }
  done->functor_run = RunInOrder;
  __tsan_release(done);
  return start(call, ops, count, tag, reserved);
}
