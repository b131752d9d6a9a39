/* The twin of huge_workspace: it wants a little, and uses it. */
#define DESCRIBED_PREPARE own_prepare
#include "cheat.h"

static int own_prepare(const assay_problem* p, void** state, uint64_t* bytes, char* m, size_t n) {
  *bytes = 4096;
  return prepare(p, state, &(uint64_t){0}, m, n);
}

static int launch(void* state, const assay_launch* l) {
  if (l->workspace == NULL || l->workspace_bytes != 4096) return ASSAY_FAILED;
  memset(l->workspace, 0, 4096);
  gemm_all(state, l);
  return ASSAY_OK;
}
