/* The interface between Assay and a kernel of yours. C11 and C++.
 *
 * A kernel is a shared library that exports one function, assay_kernel_v1. It returns a description
 * of the kernel: a name, the operator that it computes, and three functions. Assay calls `prepare`
 * once for a problem, then `launch` as often as it likes, then `destroy`. All calls come from one
 * thread. Assay judges each launch by what lies in the output when `launch` returns.
 *
 * Each struct has its size first. A later version may append members. So read a member that this
 * header does not have only if struct_size says that it is there, and never copy a struct by its
 * size here. Assay owns what the structs point to. It stays valid until `destroy` returns; what an
 * assay_launch points to stays valid until `launch` returns.
 *
 * On a CPU the library runs in a process of its own: it has no network, starts no process, writes
 * no file and reads only the system's libraries. It may start threads. */
#ifndef ASSAY_KERNEL_H_
#define ASSAY_KERNEL_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ASSAY_KERNEL_ABI_VERSION 1

/* Marks assay_kernel_v1 as visible, whatever -fvisibility says. */
#define ASSAY_KERNEL_EXPORT __attribute__((visibility("default")))

#define ASSAY_MAX_RANK 8

/* The format of an element. */
enum {
  ASSAY_F64 = 1,
  ASSAY_F32 = 2,
  ASSAY_TF32 = 3, /* stored as fp32, with 10 bits of mantissa */
  ASSAY_F16 = 4,
  ASSAY_BF16 = 5,
  ASSAY_E4M3FN = 6,
  ASSAY_E4M3FNUZ = 7,
  ASSAY_E5M2 = 8,
  ASSAY_E5M2FNUZ = 9,
  ASSAY_E2M1 = 10, /* two elements in a byte, the first one in the lower half */
  ASSAY_I8 = 11,
  ASSAY_I32 = 12
};

/* What prepare and launch return. */
enum {
  ASSAY_OK = 0,
  ASSAY_UNSUPPORTED = 1, /* from prepare: the kernel does not do this problem; say why */
  ASSAY_NO_MEMORY = 2,
  ASSAY_FAILED = 3,
  /* From launch, of a kernel that checks itself: */
  ASSAY_OUT_OF_BOUNDS = 4, /* it accesses memory outside its operands, or an array out of bounds */
  ASSAY_RACE = 5           /* its result depends on the order in which its threads run */
};

/* Which member of an assay_parameter holds the value. */
enum {
  ASSAY_INTEGER = 1,  /* integer */
  ASSAY_REAL = 2,     /* real */
  ASSAY_BOOLEAN = 3,  /* integer: 0 or 1 */
  ASSAY_INTEGERS = 4, /* integers, integer_count of them */
  ASSAY_TEXT = 5      /* text */
};

/* A parameter of the operator, such as gemm's "m" or "alpha". `assay run OP --help` lists them. */
typedef struct assay_parameter {
  uint32_t struct_size;
  uint32_t kind;
  const char* name;
  int64_t integer;
  double real;
  const char* text;
  const int64_t* integers;
  uint32_t integer_count;
  uint32_t reserved;
} assay_parameter;

/* A tensor. Element (i, j, …) lies at (i * strides[0] + j * strides[1] + …) elements from the
 * first. */
typedef struct assay_tensor {
  uint32_t struct_size;
  uint32_t dtype; /* ASSAY_F32, … */
  const char* name;
  uint32_t rank; /* at most ASSAY_MAX_RANK */
  uint32_t reserved;
  int64_t shape[ASSAY_MAX_RANK];   /* outermost first */
  int64_t strides[ASSAY_MAX_RANK]; /* [elements] */
  int64_t bytes;                   /* from the first element to the end of the last */
} assay_tensor;

typedef struct assay_problem {
  uint32_t struct_size;
  uint32_t abi_version; /* ASSAY_KERNEL_ABI_VERSION of the caller */
  const char* op;       /* "gemm", … */
  uint32_t parameter_count;
  uint32_t input_count;
  const assay_parameter* const* parameters;
  const assay_tensor* const* inputs;
  const assay_tensor* output;
  uint32_t thread_count; /* threads that the kernel may use */
  uint32_t reserved;
} assay_problem;

typedef struct assay_launch {
  uint32_t struct_size;
  uint32_t thread_count;
  const void* const* inputs; /* in the problem's order; the kernel must not write them */
  void* output;
  /* What prepare asked for; 64-byte aligned. Its content is undefined in every launch, also where
   * an earlier launch wrote it. */
  void* workspace;
  uint64_t workspace_bytes; /* as prepare said; the kernel must not write around them */
  void* stream; /* NULL: libraries run on a CPU, and the judge itself launches device code */
  /* Only of a reference (`assay run custom --reference FILE`); NULL for a kernel under test. It has
   * the output's shape. For each element of the output it takes the sum of the magnitudes of the
   * terms that are summed there. Write all of it or none. */
  double* magnitude;
  /* For your notes while you look for a mistake: `assay show JOB CASE --debug-buffer` runs the case
   * again with this buffer, and shows its bytes. It holds zeros before each launch. NULL and 0 in
   * every other run. */
  void* debug;
  uint64_t debug_bytes;
  /* If launch returns another value than ASSAY_OK, it may write the reason here. There is room for
   * message_bytes. */
  char* message;
  size_t message_bytes;
} assay_launch;

typedef struct assay_kernel {
  uint32_t struct_size; /* sizeof(assay_kernel) */
  uint32_t abi_version; /* ASSAY_KERNEL_ABI_VERSION */
  const char* name;     /* shown with each result */
  const char* op;       /* the operator that it computes; NULL: it looks at problem->op itself */

  /* Gets ready for a problem. Sets *state, which the other two get, and *workspace_bytes, if the
   * kernel needs any. If it returns another value than ASSAY_OK, it may write the reason into
   * `message`, which has room for message_bytes. NULL: there is nothing to prepare, and state is
   * NULL. No clock runs. */
  int (*prepare)(const assay_problem* problem, void** state, uint64_t* workspace_bytes,
                 char* message, size_t message_bytes);
  /* Computes the output. All of it must be written before the function returns. */
  int (*launch)(void* state, const assay_launch* launch);
  /* Frees the state. NULL: there is nothing to free. */
  void (*destroy)(void* state);
} assay_kernel;

/* What the library exports. The description must stay valid. */
ASSAY_KERNEL_EXPORT const assay_kernel* assay_kernel_v1(void);

#ifdef __cplusplus
}
#endif

#endif /* ASSAY_KERNEL_H_ */
