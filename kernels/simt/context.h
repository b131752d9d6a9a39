// A place where a thread of control stands: a stack and the registers that a call keeps. Switching
// from one to another is a function call, and no system call. So a kernel with a thousand threads
// and many barriers runs in milliseconds.
//
// Why not a library: the code that runs users' kernels is linked on their nodes, where no library
// for this can be expected.
#ifndef ASSAY_KERNELS_SIMT_CONTEXT_H_
#define ASSAY_KERNELS_SIMT_CONTEXT_H_

#include <cstddef>

// Elsewhere than on x86-64 the C library switches: 20 times slower, for it asks the system.
#if defined(__x86_64__) && !defined(ASSAY_SIMT_UCONTEXT)
#define ASSAY_SIMT_OWN_SWITCH 1
#else
#include <ucontext.h>
#endif

namespace assay::inline kernels::simt {

class Context {
 public:
  // Makes the context call `entry` on the stack when it is first switched to. `entry` must not
  // return. The stack's bytes are [low, low + bytes).
  void Prepare(char* low, std::size_t bytes, void (*entry)());

  // Keeps where the caller stands in `from`, and goes on at `to`. Returns when somebody switches to
  // `from`.
  static void Switch(Context& from, Context& to);

 private:
#if defined(ASSAY_SIMT_OWN_SWITCH)
  void* stack_ = nullptr;
#else
  ucontext_t context_ = {};
#endif
};

}  // namespace assay::kernels::simt

#endif  // ASSAY_KERNELS_SIMT_CONTEXT_H_
