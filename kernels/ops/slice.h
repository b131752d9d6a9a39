// Slices: the elements of a case that somebody asked to see, such as "actual[0:8,0:8]".
//
// The name is actual, expected, bound, debug, or one of the case's inputs ("a", "q", "x"). The
// brackets hold one range for each axis of that tensor, outermost first, as in Python: 3, 2:5, :4,
// -2:, or : for all. A single index keeps its axis, with extent 1. A range that is too long is cut
// at the end of its axis. An axis without a range is taken whole, and so is a tensor without
// brackets. Pure functions, no device.
#ifndef ASSAY_KERNELS_OPS_SLICE_H_
#define ASSAY_KERNELS_OPS_SLICE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/ops/case.h"
#include "kernels/ops/plan.h"

namespace assay::inline kernels {

inline constexpr std::int64_t kMaxSliceElements = 4096;
inline constexpr std::size_t kMaxSlices = 16;  // of one case

// The bytes that a user's kernel writes for its author, in a buffer that is there only if the case
// asks for elements of it (assay_launch.debug).
inline constexpr std::string_view kDebugTensor = "debug";
inline constexpr std::int64_t kDebugBytes = 65'536;
bool AsksForDebugBuffer(const Case& c);

struct SliceRange {
  enum class Of : std::uint8_t { kActual, kExpected, kBound, kDebug, kInput };

  Of of = Of::kActual;
  std::size_t input = 0;            // of the plan, where of == kInput
  std::vector<std::int64_t> dims;   // extents of the tensor
  std::vector<std::int64_t> begin;  // first index of each axis
  std::vector<std::int64_t> shape;  // extents of the slice, each at least 1

  std::int64_t count() const;
};

// The elements `text` means in a case of that plan. On failure nothing, and *error
// says what is wrong and what would be right.
std::optional<SliceRange> ParseSlice(std::string_view text, const Plan& plan, std::string* error);

// What is wrong with the slices of a case in which Check found nothing else; fields
// are "slices[0]", ….
void CheckSlices(const Case& c, std::vector<FieldError>& errors);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_SLICE_H_
