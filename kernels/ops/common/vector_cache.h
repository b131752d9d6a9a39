// The vectors (rows of A, columns of B, patches, filters) that a list of sampled
// outputs needs, each read once.
#ifndef ASSAY_KERNELS_OPS_COMMON_VECTOR_CACHE_H_
#define ASSAY_KERNELS_OPS_COMMON_VECTOR_CACHE_H_

#include <algorithm>
#include <cstdint>
#include <vector>

namespace assay {

class VectorCache {
 public:
  // `ids` in any order, repeats allowed; each vector has `length` elements.
  VectorCache(std::vector<std::int64_t> ids, std::int64_t length)
      : ids_(std::move(ids)), length_(length) {
    std::sort(ids_.begin(), ids_.end());
    ids_.erase(std::unique(ids_.begin(), ids_.end()), ids_.end());
    data_.resize(ids_.size() * static_cast<std::size_t>(length));
  }

  // Sorted, without repeats.
  const std::vector<std::int64_t>& ids() const { return ids_; }
  // Vector of an id that was given.
  double* operator[](std::int64_t id) {
    const auto at = std::lower_bound(ids_.begin(), ids_.end(), id) - ids_.begin();
    return data_.data() + at * length_;
  }

 private:
  std::vector<std::int64_t> ids_;
  std::int64_t length_;
  std::vector<double> data_;
};

}  // namespace assay

#endif  // ASSAY_KERNELS_OPS_COMMON_VECTOR_CACHE_H_
