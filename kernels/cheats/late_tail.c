/* Does all but the last row, and lets a thread that is running already do that one, some
 * seconds later. The twin waits for the thread. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>
#include "cheat.h"

static _Atomic(const assay_launch*) asked;
static const problem* the_problem;
static atomic_int done;

static void* background(void* unused) {
  (void)unused;
  for (;;) {
    const assay_launch* l = atomic_exchange(&asked, NULL);
    if (l == NULL) {
      sched_yield();
      continue;
    }
    if (!HONEST) sleep(5); /* longer than a busy machine keeps the judge waiting */
    gemm_rows(the_problem, l, the_problem->m - 1, the_problem->m);
    done = 1;
  }
  return NULL;
}

static int launch(void* state, const assay_launch* l) {
  static assay_launch copy;
  static const void* inputs[2];
  if (the_problem == NULL) {
    pthread_t thread;
    the_problem = state;
    if (pthread_create(&thread, NULL, background, NULL) != 0) return ASSAY_FAILED;
  }
  done = 0;
  gemm_rows(state, l, 0, the_problem->m - 1);
  inputs[0] = l->inputs[0];
  inputs[1] = l->inputs[1];
  copy = *l;
  copy.inputs = inputs;
  atomic_store(&asked, &copy);
  while (HONEST && !done) sched_yield();
  return ASSAY_OK;
}
