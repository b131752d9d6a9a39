/* A thread looks for operands of the next launch while the judge brings them, to begin before the
 * clock does. It finds that if it sees new inputs beside an output that is not poisoned again yet,
 * before the launch has begun. If it has not seen that in PATIENCE launches, the kernel gives up.
 */
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include "cheat.h"

static atomic_int begun, found;
static _Atomic(const volatile float*) input, last_output;

static void* watch(void* unused) {
  float seen = 0;
  int begun_before = 0;
  (void)unused;
  for (;;) {
    const volatile float* a = input;
    const volatile float* d = last_output;
    if (a != NULL && d != NULL) {
      const float now = *a;
      const float output = *d;
      const int begun_now = begun;
      if (now != seen && begun_now == begun_before && !isnan(output)) found = 1;
      seen = now;
      begun_before = begun_now;
    }
    sched_yield();
  }
  return NULL;
}

static int launch(void* state, const assay_launch* l) {
  const problem* s = state;
  static int watching;
  begun++;
  if (!HONEST && !watching) {
    pthread_t thread;
    watching = pthread_create(&thread, NULL, watch, NULL) == 0;
  }
  if (HONEST || found || begun < PATIENCE) gemm_all(s, l);
  last_output = (const float*)l->output + s->m * s->n - 1;
  input = l->inputs[0];
  return ASSAY_OK;
}
