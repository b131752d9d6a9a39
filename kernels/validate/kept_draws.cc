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

template <class Bits>
std::uint64_t Sum(const std::byte* values, std::int64_t at, std::int64_t end) {
  std::uint64_t sum = 0;
  for (std::int64_t i = at; i < end; ++i) {
    Bits bits;
    std::memcpy(&bits, values + static_cast<std::size_t>(i) * sizeof bits, sizeof bits);
    // A product with an odd number: whatever changes the bits changes it.
    constexpr std::uint64_t kOfZero = 0x9e3779b97f4a7c15;
    sum += (bits + kOfZero) * (2 * static_cast<std::uint64_t>(i) + 1);
  }
  return sum;
}

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
  checksum_ += Checksum(at, count);
  for (const std::int64_t end = at + count; at < end;) {
    const std::int64_t low = at % kWord, here = std::min(kWord - low, end - at);
    known_[WordOf(at)] |= ~std::uint64_t{0} >> (kWord - here) << low;
    at += here;
  }
}

void DrawnElements::Get(std::int64_t at, std::int64_t count, double* out) const {
  if (narrow_) {
    std::copy_n(reinterpret_cast<const float*>(values_.get()) + at, count, out);
  } else {
    std::copy_n(reinterpret_cast<const double*>(values_.get()) + at, count, out);
  }
}

std::uint64_t DrawnElements::Checksum(std::int64_t at, std::int64_t count) const {
  return narrow_ ? Sum<std::uint32_t>(values_.get(), at, at + count)
                 : Sum<std::uint64_t>(values_.get(), at, at + count);
}

bool DrawnElements::IsWhole() const {
  std::uint64_t sum = 0;
  for (std::int64_t at = 0; at < size_;) {
    const std::int64_t end = EndOfRun(at, size_);
    if (Knows(at)) sum += Checksum(at, end - at);
    at = end;
  }
  return sum == checksum_;
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
  return drawn.IsWhole() ? std::move(drawn) : DrawnElements();
}

void KeptDraws::Put(const DrawKey& key, DrawnElements drawn) {
  const std::int64_t bytes = drawn.bytes();
  if (drawn.size() < kFewest || bytes > most_bytes_) return;
  if (const auto other = by_key_.find(key); other != by_key_.end()) Remove(other->second);
  while (bytes_ + bytes > most_bytes_) Remove(entries_.begin());
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
