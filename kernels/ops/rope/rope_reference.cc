#include "kernels/ops/rope/rope_reference.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/ops/common/load.h"
#include "kernels/ops/common/planning.h"
#include "kernels/runtime/cpu/parallel.h"

namespace assay::inline kernels {
namespace {

// The rotations of a position, one a pair.
class Rotations {
 public:
  Rotations(const RopeProblem& problem, const RopeTerms& terms) : problem_(problem), terms_(terms) {
    for (std::int64_t i = 0; i < problem.dim / 2; ++i)
      frequency_.push_back(RopeFrequency(terms, i));
    rotation_.resize(frequency_.size());
  }

  // Turns a row of the position; x, value and allowance are [dim].
  void Turn(std::int64_t position, const double* x, double* value, double* allowance) {
    MoveTo(position);
    for (std::size_t i = 0; i < rotation_.size(); ++i) {
      const RopePlace at =
          PlaceOfPair(static_cast<std::int64_t>(i), problem_.dim, problem_.interleaved);
      const std::int64_t second = at.first + at.distance;
      const Rotation& by = rotation_[i];
      const RopePair pair =
          MakeRopePair(terms_, by.error, by.cosine, by.sine, x[at.first], x[second]);
      value[at.first] = pair.first;
      value[second] = pair.second;
      if (allowance != nullptr) allowance[at.first] = allowance[second] = pair.allowance;
    }
  }

 private:
  struct Rotation {
    double cosine = 1, sine = 0, error = 0;
  };

  // All heads of a position share its rotations.
  void MoveTo(std::int64_t position) {
    if (position == position_) return;
    position_ = position;
    for (std::size_t i = 0; i < rotation_.size(); ++i) {
      const double angle = static_cast<double>(position) * frequency_[i];
      rotation_[i] = {std::cos(angle), std::sin(angle),
                      RopeError(terms_, static_cast<std::int64_t>(i), angle)};
    }
  }

  const RopeProblem& problem_;
  const RopeTerms& terms_;
  std::vector<double> frequency_;
  std::vector<Rotation> rotation_;
  std::int64_t position_ = -1;
};

}  // namespace

RopeTerms MakeRopeTerms(const RopeProblem& problem, DType input, const Plan& plan) {
  const Arithmetic a = ArithmeticOf(input);
  const double lost = plan.flushes_subnormals ? a.min_normal : 0.5 * a.quantum;
  return {std::log(KernelScalar(input, problem.theta)), static_cast<double>(problem.dim),
          a.times * a.u, lost + plan.intermediate_step / 2, plan.intermediate_roundoff};
}

void RopeReferenceAt(const RopeProblem& problem, const RopeTerms& terms, const HostInputs& inputs,
                     std::span<const std::int64_t> indices, double* value, double* allowance) {
  const auto width = static_cast<std::size_t>(problem.dim);
  std::vector<double> x(width), r(width), e(width);
  Rotations rotations(problem, terms);
  for (std::size_t i = 0; i < indices.size();) {
    const std::int64_t row = indices[i] / problem.dim;
    inputs.Read(0, row * problem.dim, problem.dim, x.data());
    rotations.Turn(problem.PositionOf(row), x.data(), r.data(), e.data());
    for (; i < indices.size() && indices[i] / problem.dim == row; ++i) {
      const auto col = static_cast<std::size_t>(indices[i] % problem.dim);
      value[i] = r[col];
      if (allowance != nullptr) allowance[i] = e[col];
    }
  }
}

void RopeReferenceCpu(const RopeProblem& problem, const RopeTerms& terms, const TensorView& x,
                      double* value, double* allowance) {
  constexpr std::int64_t kGrain = 1 << 13;  // elements worth a thread
  const std::int64_t dim = problem.dim;
  ParallelFor(problem.rows(), std::max<std::int64_t>(1, kGrain / dim),
              [&](std::int64_t begin, std::int64_t end) {
                std::vector<double> row_of_x(static_cast<std::size_t>(dim));
                Rotations rotations(problem, terms);
                for (std::int64_t row = begin; row < end; ++row) {
                  LoadDoubles(x.dtype, x.data, row * x.extents.ld, dim, row_of_x.data());
                  rotations.Turn(problem.PositionOf(row), row_of_x.data(), value + row * dim,
                                 allowance == nullptr ? nullptr : allowance + row * dim);
                }
              });
}

}  // namespace assay::kernels
