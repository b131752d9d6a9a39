#include "kernels/suites/case_values.h"

#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

namespace assay::inline kernels::suites {
namespace {

constexpr std::string_view kCaseKeys[] = {"op",
                                          "backend",
                                          "shape",
                                          "dtype",
                                          "out_dtype",
                                          "provider",
                                          "pattern",
                                          "seed",
                                          "criterion",
                                          "atol",
                                          "rtol",
                                          "max_abs_error",
                                          "max_rel_error",
                                          "max_ulp",
                                          "min_efficiency",
                                          "repeats",
                                          "mode",
                                          "deadline",
                                          "name",
                                          "verify",
                                          "probes",
                                          "accumulations",
                                          "split_k",
                                          "published",
                                          "checksum_probes",
                                          "reference",
                                          "operand_roundoff",
                                          "flushes_subnormals",
                                          "cuts_off_sums",
                                          "intermediate_dtype"};
constexpr std::string_view kPublishedKeys[] = {"name", "max_abs_error", "limit", "passed",
                                               "source"};
constexpr std::string_view kCriteria[] = {"bound", "derived", "allclose",
                                          "ulp",   "bitwise", "legacy"};
constexpr std::string_view kModes[] = {"validate", "benchmark", "both"};
constexpr std::string_view kVerifications[] = {"full", "checksum"};

// Sets the values of cases from one file.
class Setter {
 public:
  explicit Setter(std::string_view file) : file_(file) {}

  absl::Status Set(std::string_view key, const toml::node& node, Case& c) {
    const Location at = At(node);
    if (key == "shape") return SetShape(node, c);
    const auto number = [&](std::optional<double>& out) {
      double v = 0;
      absl::Status s = Get(at, key, node, &v);
      if (s.ok()) out = v;
      return s;
    };
    if (key == "dtype" || key == "out_dtype" || key == "intermediate_dtype") {
      std::string word;
      if (absl::Status s = Get(at, key, node, &word); !s.ok()) return s;
      absl::StatusOr<DType> t = ReadDType(at, word);
      if (!t.ok()) return t.status();
      (key == "dtype" ? c.dtype : key == "out_dtype" ? c.out_dtype : c.intermediate_dtype) = *t;
      return absl::OkStatus();
    }
    if (key == "provider") return Get(at, key, node, &c.provider);
    if (key == "reference") return Get(at, key, node, &c.reference);
    if (key == "operand_roundoff") return number(c.operand_roundoff);
    if (key == "flushes_subnormals") return Get(at, key, node, &c.flushes_subnormals);
    if (key == "cuts_off_sums") return Get(at, key, node, &c.cuts_off_sums);
    if (key == "pattern") return Get(at, key, node, &c.pattern);
    if (key == "name") return Get(at, key, node, &c.name);
    if (key == "atol") return number(c.atol);
    if (key == "rtol") return number(c.rtol);
    if (key == "max_abs_error") return number(c.max_abs_error);
    if (key == "max_rel_error") return number(c.max_rel_error);
    if (key == "max_ulp") return number(c.max_ulp);
    if (key == "min_efficiency") return number(c.min_efficiency);
    if (key == "deadline") return number(c.deadline_seconds);
    if (key == "criterion") return Word(at, key, node, kCriteria, c.criterion);
    if (key == "mode") return Word(at, key, node, kModes, c.mode);
    if (key == "verify") return Word(at, key, node, kVerifications, c.verify);
    if (key == "probes") return Get(at, key, node, &c.probes);
    if (key == "published") return SetPublished(node, c);
    if (key == "accumulations") return Get(at, key, node, &c.accumulations);
    if (key == "seed" || key == "repeats" || key == "split_k" || key == "checksum_probes") {
      std::int64_t v = 0;
      if (absl::Status s = Get(at, key, node, &v); !s.ok()) return s;
      if (v < 0 || (key != "seed" && v > INT32_MAX)) {
        return at.Error(
            Cat(key, ": must be from 0 to ", key == "seed" ? INT64_MAX : INT32_MAX, ", got ", v));
      }
      if (key == "seed") c.seed = static_cast<std::uint64_t>(v);
      if (key == "repeats") c.repeats = static_cast<int>(v);
      if (key == "split_k") c.split_k = static_cast<int>(v);
      if (key == "checksum_probes") c.checksum_probes = static_cast<int>(v);
      return absl::OkStatus();
    }
    return SetField(key, node, c);
  }

 private:
  Location At(const toml::node& node) const { return Location(file_, node.source()); }
  Location At(const toml::key& key) const { return Location(file_, key.source()); }

  // Reads a word into an enum. The value of a word is its position in `words`, counted from 1.
  template <class Enum, std::size_t N>
  absl::Status Word(const Location& at, std::string_view key, const toml::node& node,
                    const std::string_view (&words)[N], Enum& out) {
    std::string word;
    if (absl::Status s = Get(at, key, node, &word); !s.ok()) return s;
    for (std::size_t i = 0; i < N; ++i) {
      if (words[i] == word) {
        out = static_cast<Enum>(i + 1);
        return absl::OkStatus();
      }
    }
    return at.Error(Unknown(key, word, words));
  }

  absl::Status SetShape(const toml::node& node, Case& c) {
    const toml::table* shape = node.as_table();
    if (shape == nullptr)
      return At(node).Error("shape: must be a table such as { m = 64, n = 64 }");
    const std::vector<std::string_view> fields = FieldNames(c.problem);
    for (const auto& [key, value] : *shape) {
      if (!Contains(fields, key.str())) return At(key).Error(Unknown("key", key.str(), fields));
      if (absl::Status s = SetField(key.str(), value, c); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

  absl::Status SetPublished(const toml::node& node, Case& c) {
    const toml::table* row = node.as_table();
    if (row == nullptr) {
      return At(node).Error("published: must be a table such as { name = \"…\", passed = true }");
    }
    Published published;
    const auto number = [&](const toml::key& key, const toml::node& value,
                            std::optional<double>& out) {
      return Get(At(value), key.str(), value, &out.emplace());
    };
    for (const auto& [key, value] : *row) {
      absl::Status s;
      if (key == "name") {
        s = Get(At(value), key.str(), value, &published.name);
      } else if (key == "source") {
        s = Get(At(value), key.str(), value, &published.source);
      } else if (key == "passed") {
        s = Get(At(value), key.str(), value, &published.passed);
      } else if (key == "max_abs_error") {
        s = number(key, value, published.max_abs_error);
      } else if (key == "limit") {
        s = number(key, value, published.limit);
      } else {
        s = At(key).Error(Unknown("key", key.str(), kPublishedKeys));
      }
      if (!s.ok()) return s;
    }
    c.published = std::move(published);
    return absl::OkStatus();
  }

  absl::Status SetField(std::string_view key, const toml::node& node, Case& c) {
    return std::visit(
        [&](auto& problem) -> absl::Status {
          using P = std::decay_t<decltype(problem)>;
          for (const Field<P>& f : P::Fields()) {
            if (f.name != key) continue;
            return std::visit(
                [&](auto member) { return Get(At(node), key, node, &(problem.*member)); },
                f.member);
          }
          return absl::InternalError(Cat("field ", key, " is not in its table"));
        },
        c.problem);
  }

  std::string_view file_;
};

}  // namespace

std::span<const std::string_view> CaseKeys() { return kCaseKeys; }

std::vector<std::string_view> FieldNames(const Problem& problem) {
  return std::visit(
      [](const auto& p) {
        std::vector<std::string_view> names;
        for (const auto& f : std::decay_t<decltype(p)>::Fields()) names.push_back(f.name);
        return names;
      },
      problem);
}

absl::Status SetCaseValue(std::string_view file, std::string_view key, const toml::node& node,
                          Case& c) {
  return Setter(file).Set(key, node, c);
}

absl::StatusOr<DType> ReadDType(const Location& at, std::string_view word) {
  const DType t = ParseDType(word);
  if (t != DType::kUnspecified) return t;
  std::vector<std::string_view> names;
  for (const FormatInfo& f : kFormats) {
    if (f.dtype != DType::kUnspecified) names.push_back(f.name);
  }
  return at.Error(Unknown("type", word, names));
}

}  // namespace assay::kernels::suites
