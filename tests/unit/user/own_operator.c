/* RMS norm, y = x * w / sqrt(mean(x^2) + eps), as an operator of one's own: the kernel in fp32,
 * fp16 and bf16, the reference in FP64, and both with the defects of own_operator_test.cc. DEFECT
 * names the one that this library has. */
#include <assay/kernel.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* In the kernel. */
#define NONE 0
#define TILE 1         /* a tile of 8 by 8 has the weights of the next tile */
#define GAIN 2         /* every element is 1.001 times too large */
#define TAIL 3         /* the last 5 elements are left unwritten */
#define NOT_A_NUMBER 4 /* one element is NaN */
#define NARROW 5       /* the output is rounded to a narrower format on its way, or cut off */
#define INPUTS 6       /* it changes an input */
#define CRASH 7        /* it ends with a signal */
/* In the reference. */
#define PLAIN 20   /* it gives no magnitudes, which is no defect */
#define HALF 21    /* it gives half of the magnitudes */
#define SMALL 22   /* it gives magnitudes that are too small */
#define VARIES 23  /* it counts its runs */
#define REFUSES 24 /* prepare refuses */
#define NO_EPS 25  /* it needs a scalar that is not there */
#define ADDS 26    /* it adds to what the output holds */

#ifndef DEFECT
#define DEFECT NONE
#endif

typedef struct problem {
  int64_t rows, cols;
  double eps;
  uint32_t dtype;
} problem;

static float load(uint32_t dtype, const void* from, int64_t i) {
  if (dtype == ASSAY_F32) return ((const float*)from)[i];
  if (dtype == ASSAY_F16) return (float)((const _Float16*)from)[i];
  const uint32_t bits = (uint32_t)((const uint16_t*)from)[i] << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static uint16_t to_bf16(float value, int nearest) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  if (nearest) bits += 0x7fff + (bits >> 16 & 1);
  return (uint16_t)(bits >> 16);
}

static void store(uint32_t dtype, void* to, int64_t i, float value) {
  const int narrow = DEFECT == NARROW;
  if (dtype == ASSAY_F32) {
    ((float*)to)[i] = narrow ? (float)(_Float16)value : value;
  } else if (dtype == ASSAY_F16) {
    const uint32_t bits = (uint32_t)to_bf16(value, 1) << 16;
    float rounded;
    memcpy(&rounded, &bits, sizeof rounded);
    ((_Float16*)to)[i] = (_Float16)(narrow ? rounded : value);
  } else {
    ((uint16_t*)to)[i] = to_bf16(value, !narrow);
  }
}

static int prepare(const assay_problem* p, void** state, uint64_t* workspace_bytes, char* message,
                   size_t message_bytes) {
  (void)workspace_bytes, (void)message_bytes;
  problem* const s = malloc(sizeof *s);
  if (s == NULL) return ASSAY_NO_MEMORY;
  *s = (problem){p->output->shape[0], p->output->shape[1], -1, p->output->dtype};
  for (uint32_t i = 0; i < p->parameter_count; ++i) {
    const char* const wanted = DEFECT == NO_EPS ? "epsilon" : "eps";
    if (strcmp(p->parameters[i]->name, wanted) == 0 && p->parameters[i]->kind == ASSAY_REAL) {
      s->eps = p->parameters[i]->real;
    }
  }
  *state = s;
  if (DEFECT == REFUSES || s->eps < 0 || p->input_count != 2 ||
      strcmp(p->inputs[0]->name, "x") != 0 || strcmp(p->inputs[1]->name, "w") != 0) {
    strcpy(message, "needs x, w and the scalar eps");
    return ASSAY_UNSUPPORTED;
  }
  return ASSAY_OK;
}

static void destroy(void* state) { free(state); }

static void reference(const problem* s, const assay_launch* l) {
  static int runs;
  const double *x = l->inputs[0], *w = l->inputs[1];
  double* const y = l->output;
  ++runs;
  for (int64_t r = 0; r < s->rows; ++r) {
    double sum = 0;
    for (int64_t c = 0; c < s->cols; ++c) sum += x[r * s->cols + c] * x[r * s->cols + c];
    const double scale = 1 / sqrt(sum / (double)s->cols + s->eps);
    for (int64_t c = 0; c < s->cols; ++c) {
      const int64_t at = r * s->cols + c;
      const double value = x[at] * scale * w[c];
      if (DEFECT == TAIL && at >= s->rows * s->cols - 5) continue;
      y[at] = DEFECT == ADDS ? y[at] + value : value;
      if (DEFECT == VARIES && at == 17) y[at] += 1e-12 * runs;
      if (DEFECT == NOT_A_NUMBER && at == 9) y[at] = NAN;
      if (DEFECT == PLAIN || (DEFECT == HALF && at % 2 == 1)) continue;
      l->magnitude[at] = fabs(value) * (DEFECT == SMALL ? 0.5 : 1);
    }
  }
}

static void kernel(const problem* s, const assay_launch* l) {
  const void *x = l->inputs[0], *w = l->inputs[1];
  for (int64_t r = 0; r < s->rows; ++r) {
    float sum = 0;
    for (int64_t c = 0; c < s->cols; ++c) {
      const float v = load(s->dtype, x, r * s->cols + c);
      sum += v * v;
    }
    const float scale = 1.0f / sqrtf(sum / (float)s->cols + (float)s->eps);
    for (int64_t c = 0; c < s->cols; ++c) {
      const int64_t at = r * s->cols + c;
      const int moved = DEFECT == TILE && r < 8 && c < 8;
      float y = load(s->dtype, x, at) * scale * load(s->dtype, w, moved ? c + 8 : c);
      if (DEFECT == GAIN) y *= 1.001f;
      if (DEFECT == NOT_A_NUMBER && at == 9) y = NAN;
      if (DEFECT == TAIL && at >= s->rows * s->cols - 5) continue;
      store(s->dtype, l->output, at, y);
    }
  }
  if (l->debug_bytes >= 8) {
    const uint32_t words[2] = {0x7fa00001, ++*(uint32_t*)l->debug};
    memcpy(l->debug, words, sizeof words);
  }
  if (DEFECT == INPUTS) memset((void*)(intptr_t)w, 0, 4);
}

static int launch(void* state, const assay_launch* l) {
  const problem* const s = state;
  if (DEFECT == CRASH) abort();
  if (s->dtype == ASSAY_F64) {
    if (l->magnitude == NULL) return ASSAY_FAILED;
    reference(s, l);
  } else {
    if (l->magnitude != NULL) return ASSAY_FAILED;
    kernel(s, l);
  }
  return ASSAY_OK;
}

const assay_kernel* assay_kernel_v1(void) {
  static const assay_kernel described = {sizeof(assay_kernel),
                                         ASSAY_KERNEL_ABI_VERSION,
                                         "rms_norm",
                                         "custom",
                                         prepare,
                                         launch,
                                         destroy};
  return &described;
}
