// Reads TOML values. Every mistake is reported with file, line and column.
#ifndef ASSAY_KERNELS_SUITES_TOML_VALUES_H_
#define ASSAY_KERNELS_SUITES_TOML_VALUES_H_

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#define TOML_EXCEPTIONS 0
// In toml++ an assertion of what foreign text decides ("[%" breaks it) stands before the code that
// reports the same as an error. Without the assertion the error is reported.
#define TOML_ASSERT(expr) static_cast<void>(0)
#include <toml++/toml.h>

#include "absl/status/status.h"
#include "kernels/ops/field.h"
#include "kernels/text/cat.h"
#include "proto/near_name.h"

namespace assay::inline kernels::suites {

// The place of a node in its file: "kernel-lab.toml:12:7".
class Location {
 public:
  Location(std::string_view file, const toml::source_region& region)
      : text_(Cat(file, ":", region.begin.line, ":", region.begin.column)) {}
  absl::Status Error(std::string_view message) const {
    return absl::InvalidArgumentError(Cat(text_, ": ", message));
  }

 private:
  std::string text_;
};

// An empty list is a mistake: a sweep over nothing would drop its cases silently.
inline constexpr std::string_view kEmptyList =
    ": must not be an empty list; leave the key out for its default";

template <class Names>
bool Contains(const Names& names, std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

// The message for a key or word that is not in `known`.
template <class Names>
std::string Unknown(std::string_view what, std::string_view word, const Names& known) {
  const std::vector<std::string_view> names(std::begin(known), std::end(known));
  const std::string_view near = NearestName(word, names);
  std::string message = Cat("unknown ", what, " \"", word, "\"");
  if (near.empty()) return Cat(message, "; known: ", Join(names, ", "));
  return Cat(message, "; did you mean \"", near, "\"?");
}

// Reads one value from a node. The error says which type is expected.
template <class T>
absl::Status Get(const Location& at, std::string_view key, const toml::node& node, T* out) {
  if constexpr (std::is_same_v<T, IntList>) {
    const toml::array* array = node.as_array();
    if (array == nullptr) return at.Error(Cat(key, ": must be a list of integers"));
    if (array->empty()) return at.Error(Cat(key, kEmptyList));
    out->clear();
    for (const toml::node& element : *array) {
      const std::optional<std::int64_t> v = element.value_exact<std::int64_t>();
      if (!v) return at.Error(Cat(key, ": must be a list of integers"));
      out->push_back(*v);
    }
    return absl::OkStatus();
  } else if constexpr (std::is_same_v<T, WordList>) {
    const toml::array* array = node.as_array();
    if (array == nullptr) return at.Error(Cat(key, ": must be a list of strings"));
    if (array->empty()) return at.Error(Cat(key, kEmptyList));
    out->clear();
    for (const toml::node& element : *array) {
      const std::optional<std::string> v = element.value_exact<std::string>();
      if (!v) return at.Error(Cat(key, ": must be a list of strings"));
      out->push_back(*v);
    }
    return absl::OkStatus();
  } else if constexpr (std::is_same_v<T, double>) {
    const std::optional<double> v = node.value<double>();
    if (!v) return at.Error(Cat(key, ": must be a number"));
    *out = *v;
    return absl::OkStatus();
  } else {
    const std::optional<T> v = node.value_exact<T>();
    if (!v) {
      return at.Error(Cat(key, ": must be ",
                          std::is_same_v<T, std::string>    ? "a string"
                          : std::is_same_v<T, std::int64_t> ? "an integer"
                                                            : "true or false"));
    }
    *out = *v;
    return absl::OkStatus();
  }
}

}  // namespace assay::kernels::suites

#endif  // ASSAY_KERNELS_SUITES_TOML_VALUES_H_
