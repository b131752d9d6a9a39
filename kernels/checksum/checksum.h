// Verification of a matrix product by random checksums: Freivalds' test, in O(n²).
//
// D = f·(A·B)·diag(s) + β·C + 1·bᵀ is held against its operands along random vectors
// x, w of ±1, P from each side, in FP64:
//
//   rows     d = D·x − [f·A·(B·(s∘x)) + β·C·x + 1·(b·x)]
//   columns  d = Dᵀw − [f·s∘(Bᵀ·(Aᵀw)) + β·Cᵀw + b·(1·w)]
//
// and each residual against two thresholds (of row i; columns likewise):
//   rigorous   t_i = 8·[u_o·‖D_i‖ + √n·η_o/2 + E_i] + own, E_i >= ‖E_i·‖ the norm of the
//              error allowances of the row's elements, from (|A|·b)_i with b_k = ‖B_k‖.
//              A row whose elements are all within their bounds exceeds it with a
//              chance below 3e-14 (Hoeffding: |Σ x_j·e_j| <= 8·‖e‖), so that one that
//              does is wrong. On data that is not zero-mean and random E_i is the proven
//              allowance's. `own` is what this arithmetic itself may err.
//   screening  6σ, with σ from the median of |d_i|/t_i over all rows, never less than
//              what rounding the output alone does. What exceeds it is suspicious, and is
//              recomputed element by element by the caller.
// Where every sum is exact (integers; whole numbers whose partial sums the accumulator
// and the output hold) every residual must be exactly 0; of fp64 outputs that shows an
// error down to the last bit of a row's sum.
//
// An error e in one element (i, j) leaves ±e in row i and in column j, with the signs of
// x_j and w_i. If a row and a column both show the same error, the wrong element is where they
// cross.
//
// What it cannot see: an error below the screening threshold, about 6 times the noise of
// a row's roundings; errors of a row that cancel along every probe (half of all pairs of
// equal size do along one of them); a bias of the rounding; a change that makes most
// rows wrong by less than t. It does not replace full verification.
//
// Sources: R. Freivalds, "Probabilistic machines can use less running time", IFIP 1977;
// K.-H. Huang, J. Abraham, "Algorithm-based fault tolerance for matrix operations", IEEE
// Trans. Comput. C-33 (1984); W. Hoeffding, J. Amer. Statist. Assoc. 58 (1963).
#ifndef ASSAY_KERNELS_CHECKSUM_CHECKSUM_H_
#define ASSAY_KERNELS_CHECKSUM_CHECKSUM_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/checksum/checksum_residuals.h"
#include "kernels/ops/case.h"
#include "kernels/ops/plan.h"
#include "kernels/runtime/device.h"

namespace assay::inline kernels {

struct ChecksumMeasures {
  int probes = 0;
  bool exact = false;  // residuals must be 0
  ChecksumSide rows;
  ChecksumSide columns;
  std::vector<std::int64_t> located;  // coordinates of the element where they meet
  ChecksumSums output;                // counts of D; its vectors are empty
  std::int64_t input_non_finite = 0;  // NaN and infinities in A, B, C
};

// Why a case cannot be verified by checksums; empty where it can.
std::string ChecksumRefusal(const Case& c, const Plan& plan);

// Views in the plan's order, on the device. `flushes`: subnormal outputs may be 0.
// UNIMPLEMENTED where the device has no checksums.
absl::StatusOr<ChecksumMeasures> MeasureChecksums(const Case& c, const Plan& plan, Device& device,
                                                  std::span<const TensorView> inputs,
                                                  const TensorView& output, bool flushes);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_CHECKSUM_CHECKSUM_H_
