// Keeps drawn elements of operands from one case for the next that draws the same ones.
//
// Cases of one problem and format judge different kernels by the same data. Exact cases always do,
// and so do cases of one seed. The key of an operand holds everything that decides its elements. So
// a kept operand has the elements that a new draw would give.
//
// Kernels run in this process, and a wrong kernel may write anywhere, these elements included. So
// every operand has a checksum, which grows with each element that is drawn. If the elements do not
// fit the checksum when the next case takes them, they are dropped, and that case draws its own.
// The data of kernels that are not trusted are secret and never kept.
//
// An operand is here, or in the hands of one case. One thread.
#ifndef ASSAY_KERNELS_VALIDATE_KEPT_DRAWS_H_
#define ASSAY_KERNELS_VALIDATE_KEPT_DRAWS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <vector>

#include "kernels/ops/plan.h"

namespace assay::inline kernels {

// The elements of an operand that were drawn.
class DrawnElements {
 public:
  DrawnElements() = default;  // of no operand
  // Of an operand of `size` elements, of which none is known. fp32 holds the values of all formats
  // but fp64 and int32.
  DrawnElements(std::int64_t size, DType dtype);

  bool empty() const { return values_ == nullptr; }
  std::int64_t size() const { return size_; }
  std::int64_t bytes() const;
  std::byte* data() { return values_.get(); }

  bool Knows(std::int64_t at) const;
  // The end of the elements from `at` that are all known or all unknown; at most `end`.
  std::int64_t EndOfRun(std::int64_t at, std::int64_t end) const;
  // Elements [at, at + count). Set makes unknown ones known. Get is for known ones.
  void Set(std::int64_t at, std::int64_t count, const double* from);
  void Get(std::int64_t at, std::int64_t count, double* out) const;

 private:
  friend class KeptDraws;

  // Of known elements. A change of one, or of what is known, always changes it.
  std::uint64_t Checksum(std::int64_t at, std::int64_t count) const;
  bool IsWhole() const;  // as it was drawn

  std::unique_ptr<std::byte[]> values_;  // floats or doubles; unknown ones are not initialised
  std::int64_t size_ = 0;
  bool narrow_ = false;               // floats
  std::vector<std::uint64_t> known_;  // a bit an element
  std::uint64_t checksum_ = 0;
};

// All that decides the elements of an operand: format, pattern, extents, seed, number.
using DrawKey = std::array<std::uint64_t, 8>;
DrawKey DrawKeyOf(const Operand& operand, std::uint64_t seed, std::uint32_t tensor);

class KeptDraws {
 public:
  static constexpr std::int64_t kMostBytes = std::int64_t{96} << 20;
  static constexpr std::int64_t kFewest = 1 << 10;  // elements: fewer are soon drawn

  explicit KeptDraws(std::int64_t most_bytes = kMostBytes) : most_bytes_(most_bytes) {}

  // Hands out what was kept of an operand: nothing if there is none, or if it has changed.
  DrawnElements Take(const DrawKey& key);
  // Keeps it, and drops what was put here longest ago if there is no room otherwise.
  void Put(const DrawKey& key, DrawnElements drawn);
  void Clear();

  std::int64_t bytes() const { return bytes_; }

 private:
  struct Entry {
    DrawKey key;
    DrawnElements drawn;
  };

  DrawnElements Remove(std::list<Entry>::iterator entry);

  std::int64_t most_bytes_;
  std::int64_t bytes_ = 0;
  std::list<Entry> entries_;  // the newest last
  std::map<DrawKey, std::list<Entry>::iterator> by_key_;
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_VALIDATE_KEPT_DRAWS_H_
