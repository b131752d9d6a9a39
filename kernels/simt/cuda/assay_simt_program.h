// A CUDA kernel and its launch description, as the daemon writes them into the kernel's library.
#ifndef ASSAY_SIMT_PROGRAM_H_
#define ASSAY_SIMT_PROGRAM_H_

#include <assay/kernel.h>

namespace assay::inline kernels::simt {

enum class ParameterKind : unsigned char { kPointer, kInteger, kReal };

struct Parameter {
  ParameterKind kind;
  unsigned dtype;     // of a pointer: what it points to, ASSAY_F32, …; 0: of any type
  unsigned bits = 0;  // of a whole number, without its sign
  bool has_sign = false;
};

union Value {
  void* pointer;
  long long integer;
  double real;
};

// A kernel and its launch description. All texts stay valid.
struct ProgramText {
  const char* name;              // of the kernel
  const char* grid[3];           // expressions
  const char* block[3];          // expressions
  const char* shared;            // an expression [bytes]
  const char* const* arguments;  // expressions, or names of operands and parameters
  unsigned argument_count;       // as the description has them
  const Parameter* parameters;   // of the kernel
  unsigned parameter_count;
  void (*call)(const Value* values);  // of one thread
};

// What assay_kernel_v1 returns. At most one program in a process.
const assay_kernel* Describe(const ProgramText& text);

}  // namespace assay::kernels::simt

#endif  // ASSAY_SIMT_PROGRAM_H_
