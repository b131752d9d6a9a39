// Scores and values of rows of an attention case, for suspects that compute elements again.
#ifndef ASSAY_KERNELS_OPS_ATTENTION_ATTENTION_ROWS_H_
#define ASSAY_KERNELS_OPS_ATTENTION_ATTENTION_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <variant>
#include <vector>

#include "kernels/ops/case.h"
#include "kernels/ops/suspect.h"

namespace assay::inline kernels {

// Each is made once. The scene must outlive the object. For one thread.
class AttentionRows {
 public:
  explicit AttentionRows(const Scene& scene)
      : scene_(scene), p_(std::get<AttentionProblem>(scene.c.problem)) {}

  std::int64_t keys() const { return p_.KvSeq(); }
  // Row of an output element, and its query within the head.
  std::int64_t RowOf(std::int64_t index) const { return index / p_.dim; }
  std::int64_t QueryOf(std::int64_t row) const { return row % p_.seq; }
  std::int64_t queries() const { return p_.seq; }
  std::int64_t ColumnOf(std::int64_t index) const { return index % p_.dim; }

  // −Inf where the key is hidden.
  const std::vector<double>& Scores(std::int64_t row) {
    std::vector<double>& s = scores_[row];
    if (!s.empty()) return s;
    const std::int64_t query = QueryOf(row);
    const Head& head = HeadOf(row);
    std::vector<double> q(static_cast<std::size_t>(p_.dim));
    scene_.inputs.Read(0, row * p_.dim, p_.dim, q.data());
    std::vector<double> mask(static_cast<std::size_t>(keys()), 1.0);
    if (p_.masked()) scene_.inputs.Read(3, query * keys(), keys(), mask.data());
    const double scale = p_.Scale(scene_.c.dtype) * p_.scale_q * p_.scale_k;
    s.assign(static_cast<std::size_t>(keys()), -std::numeric_limits<double>::infinity());
    for (std::int64_t j = 0; j < keys(); ++j) {
      if (p_.causal && j > query + keys() - p_.seq) break;
      const auto at = static_cast<std::size_t>(j);
      if (mask[at] == 0.0) continue;
      double sum = 0;
      for (std::int64_t d = 0; d < p_.dim; ++d) {
        sum += q[static_cast<std::size_t>(d)] * head.k[static_cast<std::size_t>(j * p_.dim + d)];
      }
      s[at] = scale * sum;
    }
    return s;
  }

  // The values of a column, `dim` apart.
  const double* Values(std::int64_t row, std::int64_t column) {
    return HeadOf(row).v.data() + column;
  }
  std::int64_t dim() const { return p_.dim; }

 private:
  struct Head {
    std::vector<double> k, v;  // [keys, dim]
  };

  const Head& HeadOf(std::int64_t row) {
    const std::int64_t head = row / p_.seq;
    const std::int64_t kv =
        head / p_.heads * p_.KvHeads() + head % p_.heads / (p_.heads / p_.KvHeads());
    Head& h = heads_[kv];
    if (!h.k.empty()) return h;
    const std::int64_t size = keys() * p_.dim;
    h.k.resize(static_cast<std::size_t>(size));
    h.v.resize(h.k.size());
    scene_.inputs.Read(1, kv * size, size, h.k.data());
    scene_.inputs.Read(2, kv * size, size, h.v.data());
    for (double& v : h.v) v *= p_.scale_v;
    return h;
  }

  const Scene& scene_;
  const AttentionProblem& p_;
  std::map<std::int64_t, Head> heads_;
  std::map<std::int64_t, std::vector<double>> scores_;
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_ATTENTION_ATTENTION_ROWS_H_
