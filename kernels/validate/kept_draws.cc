#include "kernels/validate/kept_draws.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace assay::inline kernels {
namespace {

constexpr std::int64_t kWord = 64;  // elements

std::size_t WordOf(std::int64_t at) { return static_cast<std::size_t>(at / kWord); }

// Of the known elements. A change of one element always changes it: each step is a bijection. Four
// chains of multiplications, since one alone would wait for itself.
std::uint64_t FingerprintOf(const DrawnElements& drawn) {
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15;
  std::uint64_t lanes[4] = {1, 2, 3, 4};
  const auto add = [&](std::size_t lane, double v) {
    lanes[lane] = (lanes[lane] ^ std::bit_cast<std::uint64_t>(v)) * kOdd;
  };
  for (std::int64_t at = 0; at < drawn.size;) {
    const std::int64_t end = drawn.EndOfRun(at, drawn.size);
    if (drawn.Knows(at)) {
      const double* from = drawn.values.get();
      std::int64_t i = at;
      for (; i + 4 <= end; i += 4) {
        for (std::size_t lane = 0; lane < 4; ++lane) {
          add(lane, from[i + static_cast<std::int64_t>(lane)]);
        }
      }
      for (; i < end; ++i) add(0, from[i]);
    }
    at = end;
  }
  std::uint64_t all = 0;
  for (const std::uint64_t lane : lanes) all = (all ^ std::rotl(lane, 32)) * kOdd;
  for (const std::uint64_t word : drawn.known) all = (all ^ word) * kOdd;
  return all;
}

}  // namespace

DrawnElements MakeDrawn(std::int64_t size) {
  DrawnElements drawn;
  drawn.values.reset(new double[static_cast<std::size_t>(size)]);
  drawn.size = size;
  drawn.known.resize(WordOf(size + kWord - 1));
  return drawn;
}

std::int64_t DrawnElements::bytes() const {
  return size * static_cast<std::int64_t>(sizeof(double)) +
         static_cast<std::int64_t>(known.size() * sizeof(std::uint64_t));
}

bool DrawnElements::Knows(std::int64_t at) const {
  return (known[WordOf(at)] >> at % kWord & 1) != 0;
}

std::int64_t DrawnElements::EndOfRun(std::int64_t at, std::int64_t end) const {
  const std::uint64_t same = Knows(at) ? ~std::uint64_t{0} : 0;
  while (at < end) {
    const std::uint64_t others = (known[WordOf(at)] ^ same) >> at % kWord;
    if (others != 0) return std::min(end, at + std::countr_zero(others));
    at = (at / kWord + 1) * kWord;
  }
  return end;
}

void DrawnElements::SetKnown(std::int64_t at, std::int64_t end) {
  while (at < end) {
    const std::int64_t from = at % kWord, count = std::min(kWord - from, end - at);
    known[WordOf(at)] |= ~std::uint64_t{0} >> (kWord - count) << from;
    at += count;
  }
}

DrawKey DrawKeyOf(const Operand& o, std::uint64_t seed, std::uint32_t tensor) {
  return {static_cast<std::uint64_t>(o.dtype),
          static_cast<std::uint64_t>(o.pattern.kind) << 32 | tensor,
          std::bit_cast<std::uint64_t>(o.pattern.a),
          std::bit_cast<std::uint64_t>(o.pattern.b),
          static_cast<std::uint64_t>(o.extents.batch),
          static_cast<std::uint64_t>(o.extents.rows),
          static_cast<std::uint64_t>(o.extents.cols),
          seed};
}

DrawnElements KeptDraws::Take(const DrawKey& key) {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return {};
  const std::uint64_t fingerprint = found->second->fingerprint;
  DrawnElements drawn = Remove(found->second);
  if (FingerprintOf(drawn) != fingerprint) return {};
  return drawn;
}

void KeptDraws::Put(const DrawKey& key, DrawnElements drawn) {
  const std::int64_t bytes = drawn.bytes();
  if (drawn.size < kFewest || bytes > most_bytes_) return;
  if (const auto other = by_key_.find(key); other != by_key_.end()) Remove(other->second);
  while (bytes_ + bytes > most_bytes_) Remove(entries_.begin());
  const std::uint64_t fingerprint = FingerprintOf(drawn);
  by_key_[key] = entries_.insert(entries_.end(), {key, std::move(drawn), fingerprint});
  bytes_ += bytes;
}

void KeptDraws::Clear() {
  by_key_.clear();
  entries_.clear();
  bytes_ = 0;
}

DrawnElements KeptDraws::Remove(std::list<Entry>::iterator entry) {
  DrawnElements drawn = std::move(entry->drawn);
  bytes_ -= drawn.bytes();
  by_key_.erase(entry->key);
  entries_.erase(entry);
  return drawn;
}

}  // namespace assay::kernels
