#include "kernels/ops/reduce/reduce_reference_cpu.h"

#include <algorithm>
#include <vector>

#include "kernels/numerics/convert.h"
#include "kernels/ops/common/load.h"
#include "kernels/runtime/cpu/parallel.h"

namespace assay::inline kernels {
namespace {

constexpr std::int64_t kPiece = 1024;     // elements that are converted at a time
constexpr std::int64_t kGrain = 1 << 14;  // elements worth a thread

// The parts of a slice's sum that do not wait for one another.
constexpr std::size_t kParts = 8;

struct Job {
  const ReduceProblem& problem;
  const ReduceShape s;
  const ReduceKind kind;
  const ProductBound& bound;
  const TensorView& x;
  const TensorView& output;
  double* value;
  double* allowance;

  void PutSum(std::int64_t at, const SliceSum& sum) const {
    value[at] = sum.sum;
    if (allowance != nullptr) allowance[at] = sum.Allowance(bound);
  }

  // `element` gives x at an index of the slice.
  template <class Element>
  void PutLargest(std::int64_t at, const SliceLargest& largest, const Element& element) const {
    value[at] = kind == ReduceKind::kMax ? largest.value : static_cast<double>(largest.index);
    if (kind != ReduceKind::kArgmax || !problem.any_tie() || output.data == nullptr) return;
    const double named = LoadDouble(output.dtype, output.data, at);
    const std::int64_t index = IndexNamed(named, s.length);
    if (index >= 0 && Ties(element(index), largest.value)) value[at] = named;
  }
};

// One slice that lies in one piece.
void ReduceRow(const Job& job, std::int64_t row) {
  const std::int64_t begin = row * job.x.extents.ld;
  SliceSum parts[kParts];
  SliceLargest largest;
  double piece[kPiece];
  for (std::int64_t l = 0; l < job.s.length; l += kPiece) {
    const std::int64_t n = std::min(kPiece, job.s.length - l);
    LoadDoubles(job.x.dtype, job.x.data, begin + l, n, piece);
    for (std::int64_t i = 0; i < n; ++i) {
      if (job.kind == ReduceKind::kSum) {
        parts[static_cast<std::size_t>(i) % kParts].Take(piece[i]);
      } else {
        largest.Take(piece[i], l + i);
      }
    }
  }
  if (job.kind != ReduceKind::kSum) {
    return job.PutLargest(row, largest, [&](std::int64_t l) {
      return LoadDouble(job.x.dtype, job.x.data, begin + l);
    });
  }
  for (std::size_t p = 1; p < kParts; ++p) {
    parts[0].sum += parts[p].sum;
    parts[0].absolute += parts[p].absolute;
  }
  job.PutSum(row, parts[0]);
}

// Columns [first, first + n) of one matrix, whose slices run across its rows; n <= kPiece.
void ReduceColumns(const Job& job, std::int64_t outer, std::int64_t first, std::int64_t n) {
  const auto at = [&](std::int64_t l) {
    return outer * job.x.extents.batch_stride + l * job.x.extents.ld + first;
  };
  std::vector<SliceSum> sums(static_cast<std::size_t>(n));
  std::vector<SliceLargest> largest(static_cast<std::size_t>(n));
  double piece[kPiece];
  for (std::int64_t l = 0; l < job.s.length; ++l) {
    LoadDoubles(job.x.dtype, job.x.data, at(l), n, piece);
    for (std::size_t j = 0; j < sums.size(); ++j) {
      if (job.kind == ReduceKind::kSum) {
        sums[j].Take(piece[j]);
      } else {
        largest[j].Take(piece[j], l);
      }
    }
  }
  for (std::int64_t j = 0; j < n; ++j) {
    const std::int64_t to = outer * job.s.inner + first + j;
    const auto column = static_cast<std::size_t>(j);
    if (job.kind == ReduceKind::kSum) {
      job.PutSum(to, sums[column]);
    } else {
      job.PutLargest(to, largest[column], [&](std::int64_t l) {
        return LoadDouble(job.x.dtype, job.x.data, at(l) + j);
      });
    }
  }
}

}  // namespace

void ReduceReferenceCpu(const ReduceProblem& problem, const ProductBound& bound,
                        const TensorView& x, const TensorView& output, double* value,
                        double* allowance) {
  const Job job{problem, problem.Split(), problem.kind_of(), bound, x, output, value, allowance};
  const ReduceShape& s = job.s;
  if (s.inner == 1) {
    ParallelFor(s.outer, std::max<std::int64_t>(1, kGrain / s.length),
                [&](std::int64_t begin, std::int64_t end) {
                  for (std::int64_t row = begin; row < end; ++row) ReduceRow(job, row);
                });
    return;
  }
  const std::int64_t width = std::min(kPiece, s.inner);
  const std::int64_t across = (s.inner + width - 1) / width;
  ParallelFor(s.outer * across, std::max<std::int64_t>(1, kGrain / s.length / width),
              [&](std::int64_t begin, std::int64_t end) {
                for (std::int64_t i = begin; i < end; ++i) {
                  const std::int64_t first = i % across * width;
                  ReduceColumns(job, i / across, first, std::min(width, s.inner - first));
                }
              });
}

}  // namespace assay::kernels
