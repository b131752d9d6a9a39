/* Writes one byte behind its workspace, as a kernel does that asks for too little. */
#define DESCRIBED_PREPARE own_prepare
#include "cheat.h"

static int own_prepare(const assay_problem* p, void** state, uint64_t* bytes, char* m, size_t n) {
  *bytes = 4000;
  return prepare(p, state, &(uint64_t){0}, m, n);
}

static int launch(void* state, const assay_launch* l) {
  ((char*)l->workspace)[l->workspace_bytes] = 42;
  gemm_all(state, l);
  return ASSAY_OK;
}
