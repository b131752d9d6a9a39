// attention with two cblas_?gemm and a plain softmax, for some rows of one head at a time:
//
//   S = scale·Q·Kᵀ,  P = softmax of the visible keys of each row,  O = P·V
//
// BLAS has no attention; a program that has only BLAS does this. Everything is in the inputs'
// format, and exp is the C library's.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "kernels/providers/openblas/blas.h"
#include "kernels/providers/openblas/openblas.h"
#include "kernels/providers/refusals.h"
#include "kernels/runtime/cpu/parallel.h"

namespace assay::inline kernels {
namespace {

constexpr std::int64_t kScoreBytes = std::int64_t{8} << 20;  // scores of a block of rows

template <class T>
class AttentionKernel : public Kernel {
 public:
  AttentionKernel(const AttentionProblem& p, std::int64_t row_block, T* scores)
      : p_(p),
        row_block_(row_block),
        scores_(scores),
        empty_(static_cast<std::size_t>(row_block)) {}

  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    const std::int64_t keys = p_.KvSeq();
    const std::int64_t group = p_.heads / p_.KvHeads();
    const std::int8_t* keep = p_.masked() ? inputs[3].as<const std::int8_t>() : nullptr;
    for (std::int64_t head = 0; head < p_.batch * p_.heads; ++head) {
      const T* k = inputs[1].as<const T>() + head / group * keys * p_.dim;
      const T* v = inputs[2].as<const T>() + head / group * keys * p_.dim;
      for (std::int64_t row = 0; row < p_.seq; row += row_block_) {
        const std::int64_t rows = std::min(row_block_, p_.seq - row);
        const std::int64_t first = (head * p_.seq + row) * p_.dim;
        blas::Gemm(blas::GemmArgs<T>{.trans_b = true,
                                     .m = rows,
                                     .n = keys,
                                     .k = p_.dim,
                                     .alpha = static_cast<T>(p_.Scale(inputs[0].dtype)),
                                     .a = inputs[0].as<const T>() + first,
                                     .lda = p_.dim,
                                     .b = k,
                                     .ldb = p_.dim,
                                     .c = scores_,
                                     .ldc = keys});
        ParallelFor(rows, 4, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t r = begin; r < end; ++r) {
            empty_[static_cast<std::size_t>(r)] =
                SoftmaxRow(row + r, keep, scores_ + r * keys) ? 1 : 0;
          }
        });
        blas::Gemm(blas::GemmArgs<T>{.m = rows,
                                     .n = p_.dim,
                                     .k = keys,
                                     .a = scores_,
                                     .lda = keys,
                                     .b = v,
                                     .ldb = p_.dim,
                                     .c = output.as<T>() + first,
                                     .ldc = p_.dim});
        WriteEmptyRows(rows, output.as<T>() + first);
      }
    }
    return absl::OkStatus();
  }

  std::string implementation() const override {
    return "gemm, softmax loop, gemm " + blas::Implementation();
  }

 private:
  // Writes rows without a visible key. They follow the policy of the case and not the contents of
  // V, because 0·Inf is NaN.
  void WriteEmptyRows(std::int64_t rows, T* out) const {
    const T value = p_.masked_rows == "zero" ? T{0} : std::numeric_limits<T>::quiet_NaN();
    for (std::int64_t r = 0; r < rows; ++r) {
      if (empty_[static_cast<std::size_t>(r)] != 0) std::fill_n(out + r * p_.dim, p_.dim, value);
    }
  }

  // Turns the scores of query `query` into probabilities, in place. A hidden key gets 0. Returns
  // whether all keys are hidden.
  bool SoftmaxRow(std::int64_t query, const std::int8_t* keep, T* s) const {
    const std::int64_t keys = p_.KvSeq();
    const std::int64_t visible =
        p_.causal ? std::clamp<std::int64_t>(query + keys - p_.seq + 1, 0, keys) : keys;
    const std::int8_t* row_keep = keep == nullptr ? nullptr : keep + query * keys;
    const auto sees = [&](std::int64_t j) {
      return j < visible && (row_keep == nullptr || row_keep[j] != 0);
    };
    T max = -std::numeric_limits<T>::infinity();
    bool empty = true;
    bool nan = false;
    for (std::int64_t j = 0; j < keys; ++j) {
      if (!sees(j)) continue;
      empty = false;
      nan = nan || std::isnan(s[j]);
      max = std::max(max, s[j]);
    }
    if (empty || nan) {
      std::fill_n(s, keys, empty ? T{0} : std::numeric_limits<T>::quiet_NaN());
      return empty;
    }
    T sum = 0;
    for (std::int64_t j = 0; j < keys; ++j) {
      s[j] = sees(j) ? std::exp(s[j] - max) : T{0};
      sum += s[j];
    }
    const T scale = T{1} / sum;
    for (std::int64_t j = 0; j < keys; ++j) s[j] *= scale;
    return false;
  }

  AttentionProblem p_;
  std::int64_t row_block_;
  T* scores_;                // [row_block, keys]
  std::vector<char> empty_;  // [row_block]
};

template <class T>
absl::StatusOr<std::unique_ptr<Kernel>> MakeAs(const AttentionProblem& p, Device& device) {
  const auto size = static_cast<std::int64_t>(sizeof(T));
  const std::int64_t rows = std::clamp<std::int64_t>(kScoreBytes / size / p.KvSeq(), 1, p.seq);
  const auto scores = device.arena().Allocate(rows * p.KvSeq() * size, /*guarded=*/false);
  if (!scores.ok()) return scores.status();
  return std::make_unique<AttentionKernel<T>>(p, rows, static_cast<T*>(scores->data));
}

absl::StatusOr<std::unique_ptr<Kernel>> Make(const Case& c, const Plan& plan, Device& device) {
  const auto& p = std::get<AttentionProblem>(c.problem);
  if (absl::Status s = RefuseAttentionScales(p, "OpenBLAS attention"); !s.ok()) return s;
  const DType format = plan.inputs[0].dtype;
  absl::Status ok = blas::CheckFormats(format, plan.output.dtype);
  if (ok.ok()) ok = blas::CheckExtents({p.seq, p.KvSeq(), p.dim});
  if (!ok.ok()) return ok;
  return format == DType::kF32 ? MakeAs<float>(p, device) : MakeAs<double>(p, device);
}

}  // namespace

KernelEntry OpenblasAttention() { return blas::Entry("attention", &Make); }

}  // namespace assay::kernels
