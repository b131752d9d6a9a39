/* Says that it is done, and lets a thread do the work afterwards. The twin waits for its thread. */
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>
#include "cheat.h"

static sem_t work, done;
static const problem* the_problem;
static assay_launch the_launch;
static const void* the_inputs[2];

static void* background(void* unused) {
  (void)unused;
  for (;;) {
    sem_wait(&work);
    if (!HONEST) sleep(5); /* longer than a busy machine keeps the judge waiting */
    gemm_all(the_problem, &the_launch);
    sem_post(&done);
  }
  return NULL;
}

static int launch(void* state, const assay_launch* l) {
  if (the_problem == NULL) {
    pthread_t thread;
    sem_init(&work, 0, 0);
    sem_init(&done, 0, 0);
    if (pthread_create(&thread, NULL, background, NULL) != 0) return ASSAY_FAILED;
  }
  the_problem = state;
  the_inputs[0] = l->inputs[0];
  the_inputs[1] = l->inputs[1];
  the_launch = *l;
  the_launch.inputs = the_inputs;
  sem_post(&work);
  if (HONEST) sem_wait(&done);
  return ASSAY_OK;
}
