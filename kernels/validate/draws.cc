#include "kernels/validate/draws.h"

#include <algorithm>

#include "kernels/bench/sampler.h"

namespace assay::inline kernels {
namespace {

constexpr std::uint64_t kLargestSeed = (std::uint64_t{1} << 52) - 1;  // exact in JSON's numbers
constexpr int kFreshEvery = 2;  // launches that may be on an unseen draw, on average
constexpr int kMostFresh = 10;  // each is judged in full
constexpr int kAlwaysJudged = 24;
constexpr int kJudgeEvery = 16;
// Launches before these pay for what a library puts off.
constexpr int kWarmUp = 4;
constexpr std::size_t kLeastUnseen = 8;
constexpr std::size_t kQuiet = 2;
// Without a difference, of all pairs of an unseen and another launch at most one half is slower.
// The share that is needed leaves room for a kernel that is slow on some of the known draws, too.
constexpr double kLeastShare = 0.6;
constexpr double kEachSlower = 1.25;
// Nearly all unseen launches must be slower by this factor than the median of the others. A kernel
// that has to compute is never quick on unseen data. On a busy machine an honest one sometimes is.
// A simulation (times log-normal with deviation s, some 20 times as long) accused honest kernels in
// none of 10000 runs with s = 0.3 and 5 % stalls, and in 8 with s = 0.5 and 10 % stalls. It found
// 92 % of the kernels that are three times as slow on unseen data and on a quarter of the others.
constexpr double kSlower = 1.5;
constexpr double kFastTenth = 0.1;

}  // namespace

DrawRotation::DrawRotation(std::uint64_t own, std::uint64_t order) : random_(order), seeds_{own} {
  for (std::size_t i = 0; i + 1 < kDraws; ++i) known_draws_[i] = NewSeed();
  known_draws_.back() = own;
}

std::uint64_t DrawRotation::NewSeed() {
  std::random_device secret;
  std::uniform_int_distribution<std::uint64_t> any(0, kLargestSeed);
  while (true) {
    const std::uint64_t seed = any(secret);
    if (seeds_.insert(seed).second) return seed;
  }
}

std::uint64_t DrawRotation::Next() {
  const auto launch = static_cast<std::size_t>(launches_++);
  unseen_now_ = fresh_ < kMostFresh && launches_ > kWarmUp && quiet_.size() >= kQuiet &&
                std::uniform_int_distribution<int>(1, kFreshEvery)(random_) == 1;
  if (unseen_now_) {
    ++fresh_;
    return seed_ = NewSeed();
  }
  if (launch < kDraws) return seed_ = known_draws_[launch];
  return seed_ = known_draws_[std::uniform_int_distribution<std::size_t>(0, kDraws - 1)(random_)];
}

DrawRotation::Output DrawRotation::Take(const TensorDigest& output, double seconds) {
  output_ = output;
  ++seen_[seed_];
  if (unseen_now_) {
    unseen_.push_back(seconds);
    before_.insert(before_.end(), quiet_.end() - kQuiet, quiet_.end());
    quiet_.clear();
  } else {
    quiet_.push_back(seconds);
    if (launches_ > kWarmUp) others_.push_back(seconds);
  }
  const auto among = [&](const std::vector<TensorDigest>& digests) {
    return std::find(digests.begin(), digests.end(), output) != digests.end();
  };
  if (among(known_[seed_])) return Output::kKnown;
  for (const auto& [seed, digests] : known_) {
    if (seed != seed_ && among(digests)) return Output::kOther;
  }
  return Output::kNew;
}

bool DrawRotation::MustJudge() {
  ++varying_;
  const bool must = seen_[seed_] == 1 || judged_ < kAlwaysJudged ||
                    std::uniform_int_distribution<int>(1, kJudgeEvery)(random_) == 1;
  if (must) ++judged_;
  return must;
}

bool DrawRotation::EnoughUnseen() const { return unseen_.size() >= kLeastUnseen; }

std::optional<double> DrawRotation::SlowOnUnseen() const {
  if (!EnoughUnseen()) return std::nullopt;
  std::size_t slower = 0;
  for (const double unseen : unseen_) {
    slower += static_cast<std::size_t>(
        std::count_if(before_.begin(), before_.end(),
                      [unseen](double seconds) { return unseen > kEachSlower * seconds; }));
  }
  const double share =
      static_cast<double>(slower) / static_cast<double>(unseen_.size() * before_.size());
  if (others_.empty() || share < kLeastShare) return std::nullopt;
  const double median = Quantile(others_, 0.5);
  if (Quantile(unseen_, kFastTenth) <= kSlower * median) return std::nullopt;
  return Quantile(unseen_, 0.5) / median;
}

}  // namespace assay::kernels
