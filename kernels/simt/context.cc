#include "kernels/simt/context.h"

#include <cstdint>

namespace assay::inline kernels::simt {

#if defined(ASSAY_SIMT_OWN_SWITCH)

// Pushes the registers that the System V ABI lets a callee change only for its own time, exchanges
// the stacks, and pops the registers of the other side.
extern "C" void assay_simt_switch(void** from, void* to);
asm(R"(
.text
.p2align 4
.hidden assay_simt_switch
.globl assay_simt_switch
.type assay_simt_switch, @function
assay_simt_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size assay_simt_switch, .-assay_simt_switch
)");

void Context::Prepare(char* low, std::size_t bytes, void (*entry)()) {
  constexpr std::uintptr_t kAlignment = 16;
  constexpr int kRegisters = 6;
  const auto top = (reinterpret_cast<std::uintptr_t>(low) + bytes) / kAlignment * kAlignment;
  // As if a call had just pushed its return address, 0, where a debugger's walk ends.
  auto* word = reinterpret_cast<std::uintptr_t*>(top) - 1;
  *word-- = 0;
  *word-- = reinterpret_cast<std::uintptr_t>(entry);
  for (int i = 0; i < kRegisters; ++i) *word-- = 0;
  stack_ = word + 1;
}

void Context::Switch(Context& from, Context& to) { assay_simt_switch(&from.stack_, to.stack_); }

#else

void Context::Prepare(char* low, std::size_t bytes, void (*entry)()) {
  getcontext(&context_);
  context_.uc_stack.ss_sp = low;
  context_.uc_stack.ss_size = bytes;
  context_.uc_link = nullptr;
  makecontext(&context_, entry, 0);
}

void Context::Switch(Context& from, Context& to) { swapcontext(&from.context_, &to.context_); }

#endif

}  // namespace assay::kernels::simt
