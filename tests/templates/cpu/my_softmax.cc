// A softmax over the last axis for fp32, in C++, with the threads of OpenMP.
#include <assay/kernel.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <new>

namespace {

struct Shape {
  int64_t rows, cols;
};

int Prepare(const assay_problem* problem, void** state, uint64_t*, char* message, size_t room) {
  const assay_tensor& x = *problem->inputs[0];
  if (x.dtype != ASSAY_F32 || problem->output->dtype != ASSAY_F32 || x.rank != 2) {
    std::snprintf(message, room, "only fp32 with two axes is done");
    return ASSAY_UNSUPPORTED;
  }
  *state = new (std::nothrow) Shape{x.shape[0], x.shape[1]};
  return *state == nullptr ? ASSAY_NO_MEMORY : ASSAY_OK;
}

int Launch(void* state, const assay_launch* launch) {
  const auto& shape = *static_cast<const Shape*>(state);
  const auto* x = static_cast<const float*>(launch->inputs[0]);
  auto* y = static_cast<float*>(launch->output);
#pragma omp parallel for num_threads(static_cast <int>(launch->thread_count))
  for (int64_t r = 0; r < shape.rows; ++r) {
    const float* in = x + r * shape.cols;
    float* out = y + r * shape.cols;
    const float most = *std::max_element(in, in + shape.cols);
    float sum = 0;
    for (int64_t c = 0; c < shape.cols; ++c) sum += out[c] = std::exp(in[c] - most);
    for (int64_t c = 0; c < shape.cols; ++c) out[c] /= sum;
  }
  return ASSAY_OK;
}

void Destroy(void* state) { delete static_cast<Shape*>(state); }

}  // namespace

const assay_kernel* assay_kernel_v1() {
  static const assay_kernel kernel = {sizeof(assay_kernel),
                                      ASSAY_KERNEL_ABI_VERSION,
                                      "my_softmax",
                                      "softmax",
                                      Prepare,
                                      Launch,
                                      Destroy};
  return &kernel;
}
