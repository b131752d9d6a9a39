// Fields of a problem as data: suites, the wire and the reproducing line read and
// write a problem through its table, so that each field is named once.
#ifndef ASSAY_KERNELS_OPS_FIELD_H_
#define ASSAY_KERNELS_OPS_FIELD_H_

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

namespace assay::inline kernels {

// One thing that is wrong with a request: where, and what would be right.
struct FieldError {
  std::string field;    // "gemm.m", relative to the case
  std::string message;  // "must be at least 1, got 0"
};

using IntList = std::vector<std::int64_t>;
using WordList = std::vector<std::string>;

// A field of problem P; the member's type is the field's type.
template <class P>
struct Field {
  std::string_view name;  // as in the proto, suites and --options (with - for _)
  std::variant<std::int64_t P::*, double P::*, bool P::*, IntList P::*, std::string P::*,
               WordList P::*>
      member;
};

// Largest extent, and largest count of elements of one operand, that is taken
// for anything but a mistake.
inline constexpr std::int64_t kMaxExtent = std::int64_t{1} << 40;
inline constexpr std::int64_t kMaxElements = std::int64_t{1} << 46;

// a·b and a + b, saturated at INT64_MAX; both >= 0.
constexpr std::int64_t SaturatingMul(std::int64_t a, std::int64_t b) {
  std::int64_t r = 0;
  return __builtin_mul_overflow(a, b, &r) ? INT64_MAX : r;
}
constexpr std::int64_t SaturatingAdd(std::int64_t a, std::int64_t b) {
  std::int64_t r = 0;
  return __builtin_add_overflow(a, b, &r) ? INT64_MAX : r;
}

// Calls visit(name, value) for each field of a problem in the table's order; value
// is a reference to the member, const where the problem is.
template <class P, class Visitor>
void VisitFields(P& problem, Visitor&& visit) {
  using Plain = std::remove_const_t<P>;
  for (const Field<Plain>& field : Plain::Fields()) {
    std::visit([&](auto member) { visit(field.name, problem.*member); }, field.member);
  }
}

// Appends "must be at least <low>, got <value>" (or at most) where it is not.
void CheckRange(std::string_view field, std::int64_t value, std::int64_t low, std::int64_t high,
                std::vector<FieldError>& errors);

// Appends "makes <operand> larger than …" to `field` where the product of the
// extents is above kMaxElements; says nothing where an extent is below 1.
void CheckCount(std::string_view field, std::string_view operand,
                std::initializer_list<std::int64_t> extents, std::vector<FieldError>& errors);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_FIELD_H_
