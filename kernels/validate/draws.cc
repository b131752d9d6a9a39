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
constexpr double kSlower = 1.5;
constexpr double kNearlyAllSlower = 1.25;
constexpr std::ptrdiff_t kMostNotSlower = 5;  // one in so many

}  // namespace

std::uint32_t DrawRotation::Next() {
  ++launches_;
  // After one that nobody has seen comes one that the kernel knows.
  const bool fresh = fresh_ < kDraws + kMostFresh && launches_ > kWarmUp && !unseen_ &&
                     std::uniform_int_distribution<int>(1, kFreshEvery)(random_) == 1;
  if (fresh) return epoch_ = fresh_++;
  return epoch_ = std::uniform_int_distribution<std::uint32_t>(0, kDraws - 1)(random_);
}

DrawRotation::Output DrawRotation::Take(const TensorDigest& output, double seconds) {
  output_ = output;
  const bool first = seen_[epoch_]++ == 0;
  if (unseen_ && !first && seconds > 0) ratios_.push_back(*unseen_ / seconds);
  unseen_.reset();
  if (first && epoch_ >= kDraws) unseen_ = seconds;
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
  if (ratios_.size() < kLeastUnseen) return std::nullopt;
  const double median = Quantile(ratios_, 0.5);
  // One in five may be wrong: others' work may have held up the launch on known data.
  const auto not_slower = std::count_if(ratios_.begin(), ratios_.end(),
                                        [](double ratio) { return ratio <= kNearlyAllSlower; });
  const auto all = static_cast<std::ptrdiff_t>(ratios_.size());
  if (kMostNotSlower * not_slower > all || median <= kSlower) return std::nullopt;
  return median;
}

}  // namespace assay
