// Models the errors of right gemm and conv kernels: σ of their sums of products
// (kernels/numerics/deviation.h), and the data for which a verdict may follow.
//
// Q_ij = Σ_k a_ik²·b_kj² is not summed up for each element. Two substitutes cost little beside the
// product (tests/experiments holds them against Q):
//   by margins    Q ≈ R_i·C_j/M, with the exact sums R_i and C_j of Q over each row and each
//   column,
//                 and M over all. It is exact if Q has rank one, as it nearly has for random data.
//                 It may be far too small for blocks of very different sizes that never meet, so
//                 SumModel takes S²/K at least.
//   by powers     Q ≤ √(Σ_k a_ik⁴ · Σ_k b_kj⁴), by Cauchy and Schwarz: larger, and so safe for each
//                 element. Residuals look smaller by a factor of 1.5 on normal data.
#ifndef ASSAY_KERNELS_OPS_COMMON_PRODUCT_RESIDUALS_H_
#define ASSAY_KERNELS_OPS_COMMON_PRODUCT_RESIDUALS_H_

#include <cstdint>
#include <vector>

#include "kernels/numerics/deviation.h"
#include "kernels/ops/common/arithmetic.h"
#include "kernels/ops/common/packed_product.h"
#include "kernels/ops/op.h"

namespace assay::inline kernels {

// A stored matrix [row, k]: element (r, k) is element origin + r·row_stride + k·k_stride of `base`.
// One of the strides is 1.
struct StridedMatrix {
  DType dtype = DType::kUnspecified;
  const void* base = nullptr;
  std::int64_t origin = 0;
  std::int64_t row_stride = 1;
  std::int64_t k_stride = 1;
};

// The model of a sum of `terms` products of inputs of a format. `accumulator` is the plan's.
SumModel MakeSumModel(DType input, std::int64_t terms, const Accumulator& accumulator);

// The residual model of a case whose output elements are sums of plan.accumulations products of its
// first two inputs. Not known for exact sums, for fp64, whose reference rounds as well, for
// integers, and for short sums in formats of 8 and 4 bits.
ResidualModel ProductResiduals(const Case& c, const Plan& plan);

// Widens the model by what a kernel declares of its operands (Plan::operand_roundoff). `u` is the
// roundoff of its sums. Last, for it adds to what the model allows.
void AllowDeclaredOperands(const Plan& plan, double u, ResidualModel& model);

// The common relative error of sums of `terms` products that a unit may have by cutting off. 0 if
// it does not cut off.
double TruncatedGain(std::int64_t terms, const TruncatingUnit& unit);

// The same of sums in an accumulator that may have fewer bits than `u` says, and may cut off.
double AccumulatedGain(std::int64_t terms, const Accumulator& accumulator, double u);

// Whether the first `operands` inputs are drawn at random, in full precision and with a spread that
// is not small beside their magnitude, nor beside the steps of their format. Only then does the
// model hold for every usual order.
bool DrawnInFullPrecision(const Plan& plan, int operands);

// The margins of Q of one product of [m, k] by [n, k], scaled so that Q ≈ rows[i]·columns[j]. Runs
// on all cores. Elements are taken as fp32, which holds every format that has a model.
void SquareMargins(const StridedMatrix& a, std::int64_t m, const StridedMatrix& b, std::int64_t n,
                   std::int64_t k, double* rows, double* columns);

// σ of the elements of a tile of plain products, with Q = rows[i]·columns[j].
struct TileDeviations {
  SumModel sums;
  OutputSteps steps;
  const double* rows = nullptr;     // of the tile's first row
  const double* columns = nullptr;  // of its first column
  float* deviation = nullptr;       // laid out as the sums; nullptr: nobody asks for σ
};

// From the sums of a tile of plain products to what a reference fills, in place: r = Σp stays, and
// Σ|p| becomes E, which is 0 if r is not finite. Element (i, j) stands at i·ld + j.
void FinishTile(const ProductBound& bound, std::int64_t rows, std::int64_t cols, std::int64_t ld,
                const double* r, double* absolute, const TileDeviations& to);

// Σ_k x(row, k)⁴ of rows [0, rows), on the calling thread.
void SumFourthPowers(const PanelSource& source, std::int64_t rows, std::int64_t k, double* sums);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_COMMON_PRODUCT_RESIDUALS_H_
