#include "kernels/diagnose/displacement.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernels/judge/pieces.h"

namespace assay::inline kernels {
namespace {

// Expected values that are searched, at most: the output's first ones.
constexpr std::int64_t kMaxSearched = std::int64_t{1} << 22;
// Votes that a distance needs; with fewer samples chance could give it.
constexpr std::size_t kLeastVotes = 6;
constexpr std::size_t kMaxVoters = 16;
// Distances kept, at most: a format so coarse that there would be more tells nothing.
constexpr std::size_t kMaxDistances = std::size_t{1} << 20;

// A sample's value, and how near an expected one must be to be the same: the bound
// that the value has where it belongs is not known, its own is taken.
struct Voter {
  std::int64_t index = 0;
  double value = 0;
  double slack = 0;
};

std::vector<Voter> VotersOf(const Anatomy& a, double unit_roundoff) {
  std::vector<Voter> all;
  for (const WrongElement& s : a.samples) {
    const double slack = s.bound + 2 * unit_roundoff * std::abs(s.actual);
    // A value within its bound of 0 is found everywhere.
    if (!(std::abs(s.actual) > 16 * slack)) continue;
    all.push_back({s.index, s.actual, slack});
  }
  if (all.size() <= kMaxVoters) return all;
  std::vector<Voter> some;
  for (std::size_t i = 0; i < kMaxVoters; ++i) some.push_back(all[i * all.size() / kMaxVoters]);
  return some;
}

std::vector<std::int64_t> CoordinatesOf(std::int64_t index, const std::vector<std::int64_t>& dims) {
  std::vector<std::int64_t> at(dims.size());
  for (std::size_t d = dims.size(); d-- > 0;) {
    at[d] = index % dims[d];
    index /= dims[d];
  }
  return at;
}

// The distance as coordinates, where it is the same for all who voted for it: the same
// number of elements may lie around a row's end for some.
std::vector<std::int64_t> Distance(const std::vector<std::int64_t>& from,
                                   const std::vector<std::int64_t>& to,
                                   const std::vector<std::int64_t>& dims) {
  std::vector<std::int64_t> common;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const std::vector<std::int64_t> a = CoordinatesOf(from[i], dims);
    const std::vector<std::int64_t> b = CoordinatesOf(to[i], dims);
    std::vector<std::int64_t> step(dims.size());
    for (std::size_t d = 0; d < dims.size(); ++d) step[d] = b[d] - a[d];
    if (i == 0) common = step;
    if (step != common) return {};
  }
  return common;
}

}  // namespace

absl::Status FindDisplacement(const Plan& plan, Device& device, const CompareRequest& request,
                              Anatomy& anatomy) {
  const std::vector<std::int64_t>& dims = plan.output.dims;
  // Of 8 bits and fewer every value is everywhere.
  if (Info(plan.output.dtype).storage_bits < 16 || anatomy.constant) return absl::OkStatus();
  const std::vector<Voter> voters = VotersOf(anatomy, Info(plan.output.dtype).unit_roundoff);
  const std::size_t needed = std::max(kLeastVotes, voters.size() - voters.size() / 8);
  if (voters.size() < needed) return absl::OkStatus();

  const std::int64_t count = request.output.count();
  const TensorView reference = DoublesView(const_cast<double*>(request.reference), count);
  // distance -> the voters for it; a voter counts once a distance by its nature.
  std::unordered_map<std::int64_t, std::vector<std::int64_t>> votes;
  std::size_t exchanged = 0;
  const std::int64_t searched = std::min(count, kMaxSearched);
  std::vector<double> expected;
  const bool square = dims.size() > 1 && dims.back() == dims[dims.size() - 2];
  const auto transposed = [&](std::int64_t index) {
    const std::int64_t n = dims.back();
    const std::int64_t matrix = index / (n * n);
    return matrix * n * n + index % n * n + index / n % n;
  };
  for (std::int64_t begin = 0; begin < searched; begin += kPiece) {
    const std::int64_t n = std::min(kPiece, searched - begin);
    if (absl::Status s = ReadValues(device, reference, begin, n, expected); !s.ok()) return s;
    for (const Voter& v : voters) {
      for (std::int64_t i = 0; i < n; ++i) {
        if (!(std::abs(expected[static_cast<std::size_t>(i)] - v.value) <= v.slack)) continue;
        if (square && transposed(v.index) == begin + i) ++exchanged;
        if (votes.size() < kMaxDistances) votes[begin + i - v.index].push_back(v.index);
      }
    }
  }
  if (exchanged >= needed) {
    anatomy.transposed = true;
    return absl::OkStatus();
  }
  std::size_t best = 0;
  std::int64_t best_step = 0;
  for (const auto& [step, froms] : votes) {
    if (step == 0 || froms.size() < std::max(needed, best)) continue;
    // Of equals the nearest, so that it does not depend on the order of the table.
    const bool nearer =
        std::make_pair(std::abs(step), step) < std::make_pair(std::abs(best_step), best_step);
    if (froms.size() == best && !nearer) continue;
    std::vector<std::int64_t> tos;
    for (const std::int64_t from : froms) tos.push_back(from + step);
    const std::vector<std::int64_t> distance = Distance(froms, tos, dims);
    if (distance.empty()) continue;
    best = froms.size();
    best_step = step;
    anatomy.displaced = distance;
  }
  return absl::OkStatus();
}

}  // namespace assay::kernels
