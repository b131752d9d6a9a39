// Computes suspicious rows and columns of a gemm again, element by element. It gathers them into a
// smaller gemm. The operator's own reference and the compare pass then judge that gemm.
#ifndef ASSAY_KERNELS_CHECKSUM_CHECKSUM_RECOMPUTE_H_
#define ASSAY_KERNELS_CHECKSUM_CHECKSUM_RECOMPUTE_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/ops/case.h"
#include "kernels/ops/op.h"
#include "kernels/runtime/device.h"

namespace assay::inline kernels {

// Most lines recomputed of one case: a few of a hundred of what a whole reference costs.
inline constexpr std::int64_t kRecomputedRows = 64;
inline constexpr std::int64_t kRecomputedColumns = 16;

// A row or column of one matrix of the output.
struct LineId {
  std::int64_t batch = 0;
  std::int64_t index = 0;

  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 takes the 0 of <=> for a pointer
  friend auto operator<=>(const LineId&, const LineId&) = default;
};

// Room for the lines of one case. One thread.
class LineRecompute {
 public:
  // The case is a gemm's. All must outlive it.
  LineRecompute(const Case& c, const Op& op, const Plan& plan, Device& device);

  // Takes its room from the arena: O((m + n + k)·lines).
  absl::Status Reserve();

  // Compares the output's lines with their reference by the rules of `request`, whose
  // views and pointers are set here: at most kRecomputedRows rows or kRecomputedColumns
  // columns, others are left out. Every index of the result is the output's.
  absl::StatusOr<CompareResult> Compare(std::vector<LineId> lines, bool columns,
                                        std::span<const TensorView> inputs,
                                        const TensorView& output, CompareRequest request);

  // Elements of the last lines compared of which the bound says nothing: see CountUnbounded.
  std::int64_t unbounded() const { return unbounded_; }

  // Elements of the last lines compared, the worst among them, recomputed on the host:
  // empty, or how its reference and the device's disagree.
  absl::StatusOr<std::string> RecheckOnHost(const HostInputs& inputs, const CompareResult& compare,
                                            bool flushes);

 private:
  // Lines of one matrix, and where its elements begin among all.
  struct Group {
    std::int64_t batch = 0;
    std::int64_t begin = 0;
    std::vector<std::int64_t> ids;
  };

  absl::StatusOr<void*> Room(DType dtype, std::int64_t count);
  absl::Status AddGroup(Group group, std::span<const TensorView> inputs, const TensorView& output);
  absl::Status Gather(const TensorView& from, std::int64_t batch,
                      const std::vector<std::int64_t>& ids, bool rows, const TensorView& to);
  std::int64_t Elements(const Group& group) const;
  // Index in the output of element i of all that were recomputed.
  std::int64_t OutputIndex(std::int64_t i) const;

  const Case& case_;
  const GemmProblem& p_;
  const Op& op_;
  const Plan& plan_;
  Device& device_;
  void* operand_ = nullptr;  // gathered lines of A or of B
  void* addend_ = nullptr;   // of C
  void* columns_ = nullptr;  // gathered scales and biases
  void* actual_ = nullptr;   // of D
  double* value_ = nullptr;
  double* allowance_ = nullptr;
  bool by_columns_ = false;
  std::vector<Group> groups_;
  std::int64_t count_ = 0;  // of all groups
  std::int64_t unbounded_ = 0;
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_CHECKSUM_CHECKSUM_RECOMPUTE_H_
