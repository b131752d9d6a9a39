// Flash attention as the graph that the library recognises:
//   S = scale·Q·Kᵀ; if causal, S = select(row + kv_seq − seq ≥ column, S, −∞)
//   P = exp(S − max S) / Σ exp(S − max S), rounded to the inputs' format; O = P·V
// Intermediate tensors are fp32 and virtual; indices are int32. K is described transposed. If K and
// V have fewer heads than Q, groups of Q's heads share them.
//
// Rows and columns count from the first query and the first key. Adding kv_seq − seq aligns the
// last query with the last key, as the problem does. If they are equal, this step is left out.
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/providers/cudnn/operations.h"

namespace assay::inline kernels::cudnn {
namespace {

constexpr std::int64_t kFirstVirtual = 100;  // uids of intermediate tensors
constexpr std::int64_t kNoAxis = -1;
constexpr std::int64_t kRowAxis = 2, kColumnAxis = 3;

class Graph {
 public:
  explicit Graph(const AttentionProblem& p) : p_(p) {}

  // Virtual tensors, [batch, heads, seq, kv_seq] or [batch, heads, seq, 1].
  Descriptor Scores(cudnnDataType_t type = CUDNN_DATA_FLOAT) { return Virtual(type, p_.KvSeq()); }
  Descriptor Rows() { return Virtual(CUDNN_DATA_FLOAT, 1); }

  void Multiply(const Descriptor& a, const Descriptor& b, const Descriptor& c) {
    Descriptor how(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    how.Set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT).Finalize();
    Descriptor operation(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    operation.Set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, a)
        .Set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, b)
        .Set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, c)
        .Set(CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
    Add(std::move(operation));
  }

  void Reduce(cudnnReduceTensorOp_t op, const Descriptor& x, const Descriptor& y) {
    Descriptor how(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    how.Set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, op)
        .Set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT)
        .Finalize();
    Descriptor operation(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    operation.Set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x)
        .Set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y)
        .Set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
    Add(std::move(operation));
  }

  // y = mode(x) or mode(x, b). For a selection: x if t holds, otherwise b. `in` is the type of the
  // arithmetic.
  void Apply(cudnnPointwiseMode_t mode, const Descriptor& x, const Descriptor* b,
             const Descriptor& y, cudnnDataType_t in = CUDNN_DATA_FLOAT,
             const Descriptor* t = nullptr, std::int64_t axis = kNoAxis) {
    Descriptor how(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    how.Set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode)
        .Set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, in);
    if (axis != kNoAxis) how.Set(CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, axis);
    how.Finalize();
    Descriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how)
        .Set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x)
        .Set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    if (b != nullptr) operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *b);
    if (t != nullptr) operation.Set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, *t);
    Add(std::move(operation));
  }

  // Whether a query sees a key: 1 or 0 for each element.
  Descriptor Visible(const Descriptor& scores) {
    constexpr cudnnDataType_t kIndex = CUDNN_DATA_INT32;
    Descriptor row = Scores(kIndex), column = Scores(kIndex), visible = Scores(CUDNN_DATA_BOOLEAN);
    Apply(CUDNN_POINTWISE_GEN_INDEX, scores, nullptr, row, CUDNN_DATA_FLOAT, nullptr, kRowAxis);
    Apply(CUDNN_POINTWISE_GEN_INDEX, scores, nullptr, column, CUDNN_DATA_FLOAT, nullptr,
          kColumnAxis);
    if (p_.KvSeq() == p_.seq) {
      Apply(CUDNN_POINTWISE_CMP_GE, row, &column, visible, CUDNN_DATA_BOOLEAN);
      return visible;
    }
    const Descriptor keys = HostScalar(7, kIndex), queries = HostScalar(8, kIndex);
    const Descriptor later = Scores(kIndex), last = Scores(kIndex);
    Apply(CUDNN_POINTWISE_ADD, row, &keys, later, kIndex);
    Apply(CUDNN_POINTWISE_SUB, later, &queries, last, kIndex);
    Apply(CUDNN_POINTWISE_CMP_GE, last, &column, visible, CUDNN_DATA_BOOLEAN);
    return visible;
  }

  std::vector<Descriptor> Take() { return std::move(operations_); }

 private:
  Descriptor Virtual(cudnnDataType_t type, std::int64_t columns) {
    return Tensor(next_++, type, {p_.batch, p_.heads, p_.seq, columns},
                  {p_.heads * p_.seq * columns, p_.seq * columns, columns, 1}, Place::kVirtual);
  }
  void Add(Descriptor operation) {
    operation.Finalize();
    operations_.push_back(std::move(operation));
  }

  const AttentionProblem& p_;
  std::int64_t next_ = kFirstVirtual;
  std::vector<Descriptor> operations_;
};

}  // namespace

std::vector<Descriptor> AttentionGraph(const AttentionProblem& p, cudnnDataType_t type) {
  const std::int64_t kv = p.KvHeads(), keys = p.KvSeq(), dim = p.dim;
  const Descriptor q =
      Tensor(1, type, {p.batch, p.heads, p.seq, dim}, {p.heads * p.seq * dim, p.seq * dim, dim, 1});
  const Descriptor k_transposed =
      Tensor(2, type, {p.batch, kv, dim, keys}, {kv * keys * dim, keys * dim, 1, dim});
  const Descriptor v =
      Tensor(3, type, {p.batch, kv, keys, dim}, {kv * keys * dim, keys * dim, dim, 1});
  const Descriptor o =
      Tensor(4, type, {p.batch, p.heads, p.seq, dim}, {p.heads * p.seq * dim, p.seq * dim, dim, 1});
  const Descriptor scale = HostScalar(5);

  Graph graph(p);
  const Descriptor product = graph.Scores(), scaled = graph.Scores();
  graph.Multiply(q, k_transposed, product);
  graph.Apply(CUDNN_POINTWISE_MUL, product, &scale, scaled);
  const Descriptor masked = graph.Scores();
  if (p.causal) {
    const Descriptor visible = graph.Visible(scaled), minus_infinity = HostScalar(6);
    graph.Apply(CUDNN_POINTWISE_BINARY_SELECT, scaled, &minus_infinity, masked, CUDNN_DATA_FLOAT,
                &visible);
  }
  const Descriptor& scores = p.causal ? masked : scaled;
  const Descriptor most = graph.Rows(), below = graph.Scores(), power = graph.Scores(),
                   sum = graph.Rows(), weights = graph.Scores(type);
  graph.Reduce(CUDNN_REDUCE_TENSOR_MAX, scores, most);
  graph.Apply(CUDNN_POINTWISE_SUB, scores, &most, below);
  graph.Apply(CUDNN_POINTWISE_EXP, below, nullptr, power);
  graph.Reduce(CUDNN_REDUCE_TENSOR_ADD, power, sum);
  // The logarithm of each row's sum, which nobody reads. Without it the library runs short
  // sequences with its older attention, which has no engine for them.
  const Descriptor log_sum = graph.Rows(), statistics = graph.Rows();
  graph.Apply(CUDNN_POINTWISE_LOG, sum, nullptr, log_sum);
  graph.Apply(CUDNN_POINTWISE_ADD, most, &log_sum, statistics);
  graph.Apply(CUDNN_POINTWISE_DIV, power, &sum, weights);
  graph.Multiply(weights, v, o);
  return graph.Take();
}

}  // namespace assay::kernels::cudnn
