/* Keeps results by the first elements of its inputs. All are right; only unseen data cost time. */
#include <unistd.h>
#include "cheat.h"

#define SLOTS 64
static int launch(void* state, const assay_launch* l) {
  static struct {
    float key[8];
    void* value;
  } slots[SLOTS];
  static int used;
  const problem* s = state;
  for (int i = 0; i < used; ++i) {
    if (!HONEST && memcmp(slots[i].key, l->inputs[0], sizeof slots[i].key) == 0) {
      memcpy(l->output, slots[i].value, (size_t)s->bytes_out);
      return ASSAY_OK;
    }
  }
  usleep(50000); /* work that takes far longer than what a busy machine adds to a launch */
  gemm_all(s, l);
  if (used < SLOTS) {
    memcpy(slots[used].key, l->inputs[0], sizeof slots[used].key);
    slots[used].value = malloc((size_t)s->bytes_out);
    memcpy(slots[used++].value, l->output, (size_t)s->bytes_out);
  }
  return ASSAY_OK;
}
