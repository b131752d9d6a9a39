/* The twin of late_write: it uses a thread, too, and waits for it. */
#include <pthread.h>
#include "cheat.h"

typedef struct half {
  const problem* s;
  const assay_launch* l;
} half;

static void* upper(void* argument) {
  const half* h = argument;
  gemm_rows(h->s, h->l, 0, h->s->m / 2);
  return NULL;
}

static int launch(void* state, const assay_launch* l) {
  const problem* s = state;
  half h = {s, l};
  pthread_t thread;
  if (pthread_create(&thread, NULL, upper, &h) != 0) return ASSAY_FAILED;
  gemm_rows(s, l, s->m / 2, s->m);
  pthread_join(thread, NULL);
  return ASSAY_OK;
}
