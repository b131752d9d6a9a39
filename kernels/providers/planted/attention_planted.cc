// attention with an online softmax, right but for one defect: for each query, keys in
// tiles; m is the running maximum of the scores, l the running sum, o the running
// output, the last two rescaled whenever m grows.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <variant>
#include <vector>

#include "kernels/providers/planted/factories.h"
#include "kernels/runtime/cpu/parallel.h"

namespace assay::planted {
namespace {

constexpr std::int64_t kTile = 16;  // keys

struct Defects {
  bool mask_off_by_one = false;
  bool no_max = false;
  bool missing_rescale = false;
};

// T: what scores and sums are held in.
template <class T>
class AttentionKernel : public Kernel {
 public:
  AttentionKernel(const AttentionProblem& p, Defects defects) : p_(p), defects_(defects) {}

  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    ParallelFor(p_.batch * p_.heads, 1, [&](std::int64_t begin, std::int64_t end) {
      std::vector<T> o(static_cast<std::size_t>(p_.dim));
      for (std::int64_t head = begin; head < end; ++head) {
        for (std::int64_t query = 0; query < p_.seq; ++query) {
          Row(head, query, inputs, o);
          for (std::int64_t d = 0; d < p_.dim; ++d) {
            Put(output, head, query, d, static_cast<double>(o[static_cast<std::size_t>(d)]));
          }
        }
      }
    });
    return absl::OkStatus();
  }

 private:
  bool Sees(std::int64_t query, std::int64_t key, std::span<const TensorView> inputs) const {
    const std::int64_t extra = defects_.mask_off_by_one ? 1 : 0;
    if (p_.causal && key > query + p_.KvSeq() - p_.seq + extra) return false;
    return !p_.masked() || Get(inputs[3], query * p_.KvSeq() + key) != 0.0;
  }

  T Score(std::int64_t head, std::int64_t kv, std::int64_t query, std::int64_t key,
          std::span<const TensorView> inputs) const {
    T s = 0;
    for (std::int64_t d = 0; d < p_.dim; ++d) {
      s += static_cast<T>(Get(inputs[0], head, query, d)) *
           static_cast<T>(Get(inputs[1], kv, key, d));
    }
    return s * static_cast<T>(p_.Scale(inputs[0].dtype));
  }

  void Row(std::int64_t head, std::int64_t query, std::span<const TensorView> inputs,
           std::vector<T>& o) const {
    const std::int64_t kv = head / (p_.heads / p_.KvHeads());
    constexpr T kNone = -std::numeric_limits<T>::infinity();
    std::fill(o.begin(), o.end(), T{0});
    T m = defects_.no_max ? T{0} : kNone;
    T l = 0;
    bool empty = true;
    T scores[kTile];
    for (std::int64_t first = 0; first < p_.KvSeq(); first += kTile) {
      const std::int64_t count = std::min(kTile, p_.KvSeq() - first);
      T tile_max = kNone;
      for (std::int64_t j = 0; j < count; ++j) {
        const bool sees = Sees(query, first + j, inputs);
        empty = empty && !sees;
        scores[j] = sees ? Score(head, kv, query, first + j, inputs) : kNone;
        tile_max = std::max(tile_max, scores[j]);
      }
      if (tile_max == kNone) continue;
      if (!defects_.no_max && tile_max > m) {
        const T rescale = std::exp(m - tile_max);
        l *= rescale;
        if (!defects_.missing_rescale) {
          for (T& v : o) v *= rescale;
        }
        m = tile_max;
      }
      for (std::int64_t j = 0; j < count; ++j) {
        const T e = std::exp(scores[j] - m);
        l += e;
        for (std::int64_t d = 0; d < p_.dim; ++d) {
          o[static_cast<std::size_t>(d)] += e * static_cast<T>(Get(inputs[2], kv, first + j, d));
        }
      }
    }
    if (empty) {
      const bool zero = p_.masked_rows == "zero";
      std::fill(o.begin(), o.end(), zero ? T{0} : std::numeric_limits<T>::quiet_NaN());
      return;
    }
    for (T& v : o) v /= l;
  }

  AttentionProblem p_;
  Defects defects_;
};

}  // namespace

Made MakeAttention(const Case& c, const Plan& plan, Device&) {
  const std::string_view name = DefectOf(c);
  const Defects defects{.mask_off_by_one = name == "mask-off-by-one",
                        .no_max = name == "no-max",
                        .missing_rescale = name == "missing-rescale"};
  if (!defects.mask_off_by_one && !defects.no_max && !defects.missing_rescale) {
    return NoSuchDefect(c);
  }
  const auto& p = std::get<AttentionProblem>(c.problem);
  if (plan.inputs[0].dtype == DType::kF64) {
    return std::make_unique<AttentionKernel<double>>(p, defects);
  }
  return std::make_unique<AttentionKernel<float>>(p, defects);
}

}  // namespace assay::planted
