#include "kernels/validate/kept_draws.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace assay::inline kernels {
namespace {

constexpr std::int64_t kWord = 64;  // elements

std::size_t WordOf(std::int64_t at) { return static_cast<std::size_t>(at / kWord); }

bool FloatsHold(DType t) { return t != DType::kF64 && t != DType::kI32; }

// Four chains of multiplications, since one alone would wait for itself. A change of one word
// always changes the result: each step is a bijection.
class Chains {
 public:
  void Add(const std::byte* from, std::size_t bytes) {
    std::uint64_t words[4];
    for (; bytes >= sizeof words; bytes -= sizeof words, from += sizeof words) {
      std::memcpy(words, from, sizeof words);
      for (std::size_t i = 0; i < 4; ++i) lanes_[i] = (lanes_[i] ^ words[i]) * kOdd;
    }
    if (bytes == 0) return;
    std::fill_n(words, 4, std::uint64_t{0});
    std::memcpy(words, from, bytes);
    for (std::size_t i = 0; i < 4; ++i) lanes_[i] = (lanes_[i] ^ words[i]) * kOdd;
  }
  std::uint64_t Joined() const {
    std::uint64_t all = 0;
    for (const std::uint64_t lane : lanes_) all = (all ^ std::rotl(lane, 32)) * kOdd;
    return all;
  }

 private:
  static constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15;
  std::uint64_t lanes_[4] = {1, 2, 3, 4};
};

}  // namespace

DrawnElements::DrawnElements(std::int64_t size, DType dtype)
    : size_(size), narrow_(FloatsHold(dtype)), known_(WordOf(size + kWord - 1)) {
  const std::size_t width = narrow_ ? sizeof(float) : sizeof(double);
  values_.reset(new std::byte[static_cast<std::size_t>(size) * width]);
}

std::int64_t DrawnElements::bytes() const {
  const std::size_t width = narrow_ ? sizeof(float) : sizeof(double);
  return size_ * static_cast<std::int64_t>(width) +
         static_cast<std::int64_t>(known_.size() * sizeof(std::uint64_t));
}

bool DrawnElements::Knows(std::int64_t at) const {
  return (known_[WordOf(at)] >> at % kWord & 1) != 0;
}

std::int64_t DrawnElements::EndOfRun(std::int64_t at, std::int64_t end) const {
  const std::uint64_t same = Knows(at) ? ~std::uint64_t{0} : 0;
  while (at < end) {
    const std::uint64_t others = (known_[WordOf(at)] ^ same) >> at % kWord;
    if (others != 0) return std::min(end, at + std::countr_zero(others));
    at = (at / kWord + 1) * kWord;
  }
  return end;
}

void DrawnElements::Set(std::int64_t at, std::int64_t count, const double* from) {
  if (narrow_) {
    std::transform(from, from + count, reinterpret_cast<float*>(values_.get()) + at,
                   [](double v) { return static_cast<float>(v); });
  } else {
    std::copy_n(from, count, reinterpret_cast<double*>(values_.get()) + at);
  }
  for (const std::int64_t end = at + count; at < end;) {
    const std::int64_t low = at % kWord, here = std::min(kWord - low, end - at);
    known_[WordOf(at)] |= ~std::uint64_t{0} >> (kWord - here) << low;
    at += here;
  }
  grown_ = true;
}

void DrawnElements::Get(std::int64_t at, std::int64_t count, double* out) const {
  if (narrow_) {
    std::copy_n(reinterpret_cast<const float*>(values_.get()) + at, count, out);
  } else {
    std::copy_n(reinterpret_cast<const double*>(values_.get()) + at, count, out);
  }
}

std::uint64_t DrawnElements::Fingerprint() const {
  const std::size_t width = narrow_ ? sizeof(float) : sizeof(double);
  Chains chains;
  for (std::int64_t at = 0; at < size_;) {
    const std::int64_t end = EndOfRun(at, size_);
    if (Knows(at)) {
      chains.Add(values_.get() + static_cast<std::size_t>(at) * width,
                 static_cast<std::size_t>(end - at) * width);
    }
    at = end;
  }
  chains.Add(reinterpret_cast<const std::byte*>(known_.data()),
             known_.size() * sizeof(std::uint64_t));
  return chains.Joined();
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
  DrawnElements drawn = Remove(found->second);
  if (drawn.Fingerprint() != drawn.kept_) return {};
  return drawn;
}

void KeptDraws::Put(const DrawKey& key, DrawnElements drawn) {
  const std::int64_t bytes = drawn.bytes();
  if (drawn.size() < kFewest || bytes > most_bytes_) return;
  if (const auto other = by_key_.find(key); other != by_key_.end()) Remove(other->second);
  while (bytes_ + bytes > most_bytes_) Remove(entries_.begin());
  if (std::exchange(drawn.grown_, false)) drawn.kept_ = drawn.Fingerprint();
  by_key_[key] = entries_.insert(entries_.end(), {key, std::move(drawn)});
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
