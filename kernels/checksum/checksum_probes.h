// Multiplies matrices by random vectors. Verification by checksums reads the operands only in this
// form.
#ifndef ASSAY_KERNELS_CHECKSUM_CHECKSUM_PROBES_H_
#define ASSAY_KERNELS_CHECKSUM_CHECKSUM_PROBES_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/runtime/device.h"

namespace assay::inline kernels {

// [probes, n] of ±1, from words of Philox streams `stream`, `stream` + 1, …
std::vector<double> RandomSigns(std::uint64_t seed, std::uint32_t stream, int probes,
                                std::int64_t n);

// What a pass over op(M) shall give; see kernels/runtime/checksum.h. Null: not asked
// for. Vectors are one matrix's, which all of a batch share, or every matrix's.
struct ChecksumAsked {
  const std::vector<double>* right = nullptr;
  const std::vector<double>* left = nullptr;
  const std::vector<double>* row_weights = nullptr;
  const std::vector<double>* col_weights = nullptr;
  bool squares = false;
  bool counts = false;
};

// A batch of matrices op(M) on a device, stored transposed or not. Both must outlive it.
class ProbedMatrices {
 public:
  ProbedMatrices(Device& device, const TensorView& view, bool transposed, int probes)
      : device_(device), view_(view), transposed_(transposed), probes_(probes) {}

  std::int64_t bytes() const { return view_.bytes(); }
  // Rows and columns are op(M)'s.
  absl::StatusOr<ChecksumSums> Pass(const ChecksumAsked& asked) const;

 private:
  Device& device_;
  const TensorView& view_;
  const bool transposed_;
  const int probes_;
};

// A·B from both sides.
struct ProbedProduct {
  std::vector<double> rows;      // [batch, probes, m]  A·(B·x)
  std::vector<double> columns;   // [batch, probes, n]  Bᵀ·(Aᵀ·w)
  std::vector<double> row_norm;  // [batch, m]  Σ_k |a_ik|·‖B_k‖ >= norm of row i of |A||B|
  std::vector<double> col_norm;  // [batch, n]  Σ_k ‖A_k‖·|b_kj|
  double largest = 0;            // max ‖a_i‖·‖b_j‖: no partial sum of an element is larger
  bool finite = true;            // every element of both operands is, and its square
};

// x [probes, n] and w [probes, m]. Three passes: the larger operand is read once.
absl::StatusOr<ProbedProduct> ProbeProduct(const ProbedMatrices& a, const ProbedMatrices& b,
                                           const std::vector<double>& x,
                                           const std::vector<double>& w);

bool AllFinite(const std::vector<double>& v);
double Largest(const std::vector<double>& v);  // 0 where there are none; v >= 0

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_CHECKSUM_CHECKSUM_PROBES_H_
