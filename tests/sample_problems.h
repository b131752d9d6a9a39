// Small problems of an operator, with extents that are no multiple of a vector, a wave or a tile,
// for tests that run every kernel.
#ifndef ASSAY_TESTS_SAMPLE_PROBLEMS_H_
#define ASSAY_TESTS_SAMPLE_PROBLEMS_H_

#include <string_view>
#include <vector>

#include "kernels/ops/case.h"

namespace assay {

// Of the operators that a test has no problems of its own for. Empty for others.
inline std::vector<Problem> SampleProblems(std::string_view op) {
  if (op == "reduce") {
    return {ReduceProblem{.extents = {5, 143}, .kind = "sum"},
            ReduceProblem{.extents = {3, 37, 19}, .axis = 1, .kind = "sum"},
            ReduceProblem{.extents = {7, 29, 3}, .axis = 0, .kind = "max"},
            ReduceProblem{.extents = {5, 143}, .kind = "argmax"},
            ReduceProblem{.extents = {143, 5}, .axis = 0, .kind = "argmax", .ties = "any"}};
  }
  if (op == "elementwise") {
    return {ElementwiseProblem{.rows = 5, .cols = 143, .kind = "silu_mul"},
            ElementwiseProblem{.rows = 5, .cols = 143, .kind = "add", .broadcast = true},
            ElementwiseProblem{.rows = 3, .cols = 37, .kind = "gelu"},
            ElementwiseProblem{.rows = 3, .cols = 37, .kind = "gelu_tanh"}};
  }
  if (op == "rope") {
    return {RopeProblem{.batch = 2, .seq = 5, .heads = 3, .dim = 26},
            RopeProblem{.seq = 7, .heads = 2, .dim = 32, .interleaved = true, .start = 1000}};
  }
  if (op == "copy") return {CopyProblem{.count = 257}};
  return {};
}

}  // namespace assay

#endif  // ASSAY_TESTS_SAMPLE_PROBLEMS_H_
