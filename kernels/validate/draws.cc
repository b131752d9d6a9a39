#include "kernels/validate/draws.h"

#include <algorithm>

#include "kernels/bench/sampler.h"

namespace assay {
namespace {

constexpr int kFreshEvery = 3;            // launches, on average
constexpr std::uint32_t kMostFresh = 10;  // each is judged in full
constexpr int kAlwaysJudged = 24;
constexpr int kJudgeEvery = 16;
// Launches before these pay for what a library puts off.
constexpr int kWarmUp = 4;
constexpr std::size_t kLeastUnseen = 5;
constexpr std::size_t kManyUnseen = 8;
// Of all pairs of an unseen and another launch. Without a difference it is at most one half.
constexpr double kShareOfMany = 0.8;
constexpr double kShareOfFew = 0.9;
constexpr std::size_t kQuiet = 2;
constexpr double kSlower = 1.5;
constexpr double kEachSlower = 1.25;

}  // namespace

std::uint32_t DrawRotation::Next() {
  ++launches_;
  const bool fresh = fresh_ < kDraws + kMostFresh && launches_ > kWarmUp &&
                     quiet_.size() >= kQuiet &&
                     std::uniform_int_distribution<int>(1, kFreshEvery)(random_) == 1;
  if (fresh) return epoch_ = fresh_++;
  return epoch_ = std::uniform_int_distribution<std::uint32_t>(0, kDraws - 1)(random_);
}

DrawRotation::Output DrawRotation::Take(const TensorDigest& output, double seconds) {
  output_ = output;
  const bool first = seen_[epoch_]++ == 0;
  if (first && epoch_ >= kDraws && quiet_.size() >= kQuiet) {
    unseen_.push_back(seconds);
    before_.insert(before_.end(), quiet_.end() - kQuiet, quiet_.end());
  }
  quiet_.push_back(seconds);
  const auto among = [&](const std::vector<TensorDigest>& digests) {
    return std::find(digests.begin(), digests.end(), output) != digests.end();
  };
  if (among(known_[epoch_])) return Output::kKnown;
  for (const auto& [epoch, digests] : known_) {
    if (epoch != epoch_ && among(digests)) return Output::kOther;
  }
  return Output::kNew;
}

bool DrawRotation::MustJudge() {
  if (seen_[epoch_] == 1 || judged_ < kAlwaysJudged) {
    ++judged_;
    return true;
  }
  return std::uniform_int_distribution<int>(1, kJudgeEvery)(random_) == 1;
}

std::optional<double> DrawRotation::SlowOnUnseen() const {
  if (unseen_.size() < kLeastUnseen) return std::nullopt;
  std::size_t slower = 0;
  for (const double unseen : unseen_) {
    slower += static_cast<std::size_t>(
        std::count_if(before_.begin(), before_.end(),
                      [unseen](double seconds) { return unseen > kEachSlower * seconds; }));
  }
  const double share =
      static_cast<double>(slower) / static_cast<double>(unseen_.size() * before_.size());
  const double ratio = Quantile(unseen_, 0.5) / Quantile(before_, 0.5);
  const double least = unseen_.size() < kManyUnseen ? kShareOfFew : kShareOfMany;
  if (share < least || ratio <= kSlower) return std::nullopt;
  return ratio;
}

}  // namespace assay
