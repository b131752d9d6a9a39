/* Looks for what an earlier case left: in its workspace, and in memory that it gets anew. */
#include <sys/mman.h>
#define DESCRIBED_PREPARE own_prepare
#include "cheat.h"

enum { BYTES = 16 << 20 };

static int own_prepare(const assay_problem* p, void** state, uint64_t* workspace_bytes,
                       char* message, size_t message_bytes) {
  *workspace_bytes = BYTES;
  return prepare(p, state, workspace_bytes, message, message_bytes);
}

static int holds_another(const char* memory, char byte) {
  for (size_t i = 0; i < BYTES; ++i) {
    if (memory[i] != byte) return 1;
  }
  return 0;
}

static int launch(void* state, const assay_launch* l) {
  const char* fresh = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  int found = holds_another(l->workspace, (char)0xff); /* as the runner fills it */
  if (fresh != MAP_FAILED) {
    found |= holds_another(fresh, 0);
    munmap((void*)fresh, BYTES);
  }
  if (HONEST || found) gemm_all(state, l);
  return ASSAY_OK;
}
