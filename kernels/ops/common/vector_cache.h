// The vectors (rows of A, columns of B, patches, filters) that a list of sampled
// outputs needs, each kept once.
#ifndef ASSAY_KERNELS_OPS_COMMON_VECTOR_CACHE_H_
#define ASSAY_KERNELS_OPS_COMMON_VECTOR_CACHE_H_

#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

namespace assay::inline kernels {

class VectorCache {
 public:
  // wanted[i] names the vector that sample i needs, any number >= 0; each vector
  // has `length` elements.
  VectorCache(const std::vector<std::int64_t>& wanted, std::int64_t length) : length_(length) {
    // An open hash table: a search in a tree would cost more than a short sum.
    const std::size_t mask = std::bit_ceil(2 * wanted.size() + 1) - 1;
    std::vector<std::int64_t> table(mask + 1, -1);  // of slots
    slots_.reserve(wanted.size());
    for (std::int64_t id : wanted) {
      std::size_t at = static_cast<std::size_t>(id) * 0x9e3779b97f4a7c15 >> 20 & mask;
      while (table[at] >= 0 && ids_[static_cast<std::size_t>(table[at])] != id)
        at = (at + 1) & mask;
      if (table[at] < 0) {
        table[at] = static_cast<std::int64_t>(ids_.size());
        ids_.push_back(id);
      }
      slots_.push_back(table[at]);
    }
    data_.resize(ids_.size() * static_cast<std::size_t>(length));
  }

  // Without repeats, in the order of their first use.
  const std::vector<std::int64_t>& ids() const { return ids_; }
  // The vector of ids()[slot]; slots lie behind one another.
  double* vector(std::size_t slot) {
    return data_.data() + static_cast<std::int64_t>(slot) * length_;
  }
  // The slot of the vector that sample i needs.
  std::int64_t slot(std::size_t i) const { return slots_[i]; }
  // All vectors, in the order of their slots. The cache has none afterwards.
  std::vector<double> TakeVectors() { return std::move(data_); }
  // The vector that sample i needs.
  const double* of(std::size_t i) const { return data_.data() + slots_[i] * length_; }

 private:
  std::int64_t length_;
  std::vector<std::int64_t> ids_;
  std::vector<std::int64_t> slots_;
  std::vector<double> data_;
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_COMMON_VECTOR_CACHE_H_
