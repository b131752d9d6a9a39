// One of the defects that an operator's kernels have, known by its name.
//
// A file lists the names once. `Is("dropped-tile")` then compares two integers: the place of the
// name in the list is found when the file is compiled. A name that is not in the list does not
// compile.
#ifndef ASSAY_KERNELS_PROVIDERS_PLANTED_DEFECT_H_
#define ASSAY_KERNELS_PROVIDERS_PLANTED_DEFECT_H_

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>

namespace assay::inline kernels::planted {

// Another name of a defect, for a row of the table with another problem.
template <class Defect>
struct Alias {
  std::string_view name;
  Defect defect;
};

template <const auto& kNames>
class NamedDefect {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): a name in the code stands for its defect
  consteval NamedDefect(const char* name) : NamedDefect(Find(name).value()) {}

  // The defect with this name or alias, if there is one.
  static constexpr std::optional<NamedDefect> Find(
      std::string_view name, std::span<const Alias<NamedDefect>> aliases = {}) {
    const auto* const found = std::find(std::begin(kNames), std::end(kNames), name);
    if (found != std::end(kNames)) return NamedDefect(found - std::begin(kNames));
    for (const auto& alias : aliases) {
      if (alias.name == name) return alias.defect;
    }
    return std::nullopt;
  }

  bool operator==(const NamedDefect&) const = default;

 private:
  explicit constexpr NamedDefect(std::ptrdiff_t place) : place_(static_cast<int>(place)) {}

  // Not a byte: a compiler must read a byte again after every store of a kernel.
  int place_;
};

}  // namespace assay::kernels::planted

#endif  // ASSAY_KERNELS_PROVIDERS_PLANTED_DEFECT_H_
