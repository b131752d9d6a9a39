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
constexpr std::size_t kLeastRepeated = 8;
constexpr double kSlower = 1.5;
constexpr double kQuickestSlower = 1.25;

}  // namespace

std::uint32_t DrawRotation::Next() {
  ++launches_;
  const bool fresh = fresh_ < kDraws + kMostFresh && launches_ > kWarmUp &&
                     std::uniform_int_distribution<int>(1, kFreshEvery)(random_) == 1;
  epoch_ = fresh ? fresh_++ : std::uniform_int_distribution<std::uint32_t>(0, kDraws - 1)(random_);
  return epoch_;
}

DrawRotation::Output DrawRotation::Take(const TensorDigest& output, double seconds) {
  output_ = output;
  const bool unseen = seen_[epoch_]++ == 0;
  if (launches_ > kWarmUp) (unseen ? unseen_ : repeated_).push_back(seconds);
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
  if (unseen_.size() < kLeastUnseen || repeated_.size() < kLeastRepeated) return std::nullopt;
  const double quickest = *std::min_element(unseen_.begin(), unseen_.end());
  const double repeated = Quantile(repeated_, 0.5);
  const double ratio = Quantile(unseen_, 0.5) / repeated;
  if (quickest <= kQuickestSlower * repeated || ratio <= kSlower) return std::nullopt;
  return ratio;
}

}  // namespace assay
