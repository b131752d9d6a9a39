#include "kernels/suites/suite.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <sstream>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_split.h"
#include "kernels/suites/case_values.h"
#include "kernels/suites/toml_values.h"
#include "kernels/text/cat.h"
#include "proto/near_name.h"

namespace assay::inline kernels {
namespace {

using suites::CaseKeys;
using suites::Contains;
using suites::FieldNames;
using suites::Get;
using suites::kEmptyList;
using suites::Location;
using suites::ReadDType;
using suites::SetCaseValue;
using suites::Unknown;

constexpr std::string_view kSuiteKeys[] = {"name",    "title", "version", "budget",
                                           "require", "case",  "fill"};
constexpr std::string_view kRequireKeys[] = {"op", "provider", "dtype", "backend"};
constexpr std::string_view kBackends[] = {"cpu", "cuda", "hip"};
constexpr std::size_t kMostFaults = 20;  // reported for one suite
// The most dots of a line. Each part of a dotted key is a table within the one before, and the
// library takes and frees them by recursion: a key of a hundred thousand parts would end the
// process. A key stands on one line. Values lie at most 256 deep, and each second one may have a
// key: 13,000 tables within one another, of which the process can hold several times as many.
constexpr std::ptrdiff_t kMostDots = 100;

// The number of the first line with more dots than that, from 1. 0: there is none.
std::size_t LineOfDots(std::string_view text) {
  for (std::size_t line = 1; !text.empty(); ++line) {
    const std::string_view first = text.substr(0, text.find('\n'));
    if (std::count(first.begin(), first.end(), '.') > kMostDots) return line;
    text.remove_prefix(std::min(text.size(), first.size() + 1));
  }
  return 0;
}

// Reads one suite file for one backend.
class Reader {
 public:
  Reader(std::string_view file, std::string_view backend) : file_(file), backend_(backend) {}

  absl::StatusOr<Suite> Read(std::string_view text) {
    if (const std::size_t line = LineOfDots(text); line > 0) {
      return absl::InvalidArgumentError(
          Cat(file_, ":", line, ":1: has more than ", kMostDots, " dots; break the line"));
    }
    const toml::parse_result parsed = toml::parse(text);
    if (!parsed) {
      return Location(file_, parsed.error().source()).Error(parsed.error().description());
    }
    suite_.text = std::string(text);
    const toml::table& root = parsed.table();
    for (const auto& [key, node] : root) {
      if (!Contains(kSuiteKeys, key.str()))
        return At(key).Error(Unknown("key", key.str(), kSuiteKeys));
    }
    for (const auto& [key, member] :
         {std::pair{"name", &suite_.name}, std::pair{"title", &suite_.title},
          std::pair{"version", &suite_.version}}) {
      const toml::node* node = root.get(key);
      if (node == nullptr) return At(root).Error(Cat("\"", key, "\" is missing"));
      if (absl::Status s = Get(At(*node), key, *node, member); !s.ok()) return s;
    }
    if (absl::Status s = Tables(root, "require", [&](const toml::table& t) { return Require(t); });
        !s.ok()) {
      return s;
    }
    for (const auto& [key, cases] : {std::pair{"case", &suite_.cases}, {"fill", &suite_.fill}}) {
      into_ = cases;
      if (absl::Status s = Tables(root, key, [&](const toml::table& t) { return Cases(t); });
          !s.ok()) {
        return s;
      }
    }
    if (absl::Status s = Budget(root); !s.ok()) Note(s);
    if (!faults_.empty()) return absl::InvalidArgumentError(Join(faults_, "\n"));
    return std::move(suite_);
  }

 private:
  Location At(const toml::node& node) const { return Location(file_, node.source()); }
  Location At(const toml::key& key) const { return Location(file_, key.source()); }

  absl::Status Budget(const toml::table& root) {
    const toml::node* node = root.get("budget");
    if (node == nullptr) {
      if (root.get("fill") == nullptr) return absl::OkStatus();
      return At(*root.get("fill"))
          .Error("[[fill]] needs a budget; add budget = <seconds> to the suite");
    }
    double seconds = 0;
    if (absl::Status s = Get(At(*node), "budget", *node, &seconds); !s.ok()) return s;
    if (!(seconds > 0) || seconds > kMaxBudgetSeconds) {
      return At(*node).Error(Cat("budget: must be above 0 and at most ", kMaxBudgetSeconds,
                                 " seconds, got ", Shortest(seconds)));
    }
    suite_.budget_seconds = seconds;
    return absl::OkStatus();
  }

  absl::Status Tables(const toml::table& root, std::string_view key,
                      const std::function<absl::Status(const toml::table&)>& read) {
    const toml::node* node = root.get(key);
    if (node == nullptr) return absl::OkStatus();
    const toml::array* array = node->as_array();
    if (array == nullptr || !array->is_array_of_tables()) {
      return At(*node).Error(Cat("\"", key, "\" must be an array of tables: [[", key, "]]"));
    }
    for (const toml::node& element : *array) {
      if (absl::Status s = read(*element.as_table()); !s.ok()) Note(s);
      if (faults_.size() >= kMostFaults) break;
    }
    return absl::OkStatus();
  }

  // Notes the mistakes of a table. The tables behind it are still read.
  void Note(const absl::Status& status) {
    for (const auto line : absl::StrSplit(status.message(), '\n'))
      faults_.push_back(std::string(line));
  }

  // A string or a list of strings.
  absl::StatusOr<std::vector<std::string>> Words(const toml::table& table, std::string_view key) {
    const toml::node* node = table.get(key);
    std::vector<std::string> words;
    if (node == nullptr) return words;
    const toml::array* array = node->as_array();
    std::string word;
    if (array == nullptr) {
      if (absl::Status s = Get(At(*node), key, *node, &word); !s.ok()) return s;
      return std::vector<std::string>{word};
    }
    if (array->empty()) return At(*node).Error(Cat(key, kEmptyList));
    for (const toml::node& element : *array) {
      if (absl::Status s = Get(At(element), key, element, &word); !s.ok()) return s;
      words.push_back(word);
    }
    return words;
  }

  // Whether a table is for this backend.
  absl::StatusOr<bool> ForThisBackend(const toml::table& table) {
    absl::StatusOr<std::vector<std::string>> backends = Words(table, "backend");
    if (!backends.ok()) return backends.status();
    for (const std::string& b : *backends) {
      if (!Contains(kBackends, b)) {
        return At(*table.get("backend")).Error(Unknown("backend", b, kBackends));
      }
    }
    return backends->empty() || Contains(*backends, backend_);
  }

  absl::Status Require(const toml::table& table) {
    for (const auto& [key, node] : table) {
      if (!Contains(kRequireKeys, key.str())) {
        return At(key).Error(Unknown("key", key.str(), kRequireKeys));
      }
    }
    absl::StatusOr<bool> ours = ForThisBackend(table);
    if (!ours.ok()) return ours.status();
    absl::StatusOr<std::vector<std::string>> ops = Words(table, "op");
    if (!ops.ok()) return ops.status();
    absl::StatusOr<std::vector<std::string>> providers = Words(table, "provider");
    if (!providers.ok()) return providers.status();
    absl::StatusOr<std::vector<std::string>> dtypes = Words(table, "dtype");
    if (!dtypes.ok()) return dtypes.status();
    if (ops->empty() || providers->empty() || dtypes->empty()) {
      return At(table).Error("a requirement must have op, provider and dtype");
    }
    for (const std::string& op : *ops) {
      if (!DefaultProblem(op)) return At(*table.get("op")).Error(Cat("unknown op \"", op, "\""));
      for (const std::string& provider : *providers) {
        Requirement requirement{op, provider, {}, std::string(backend_)};
        for (const std::string& word : *dtypes) {
          absl::StatusOr<DType> t = ReadDType(At(*table.get("dtype")), word);
          if (!t.ok()) return t.status();
          requirement.dtypes.push_back(*t);
        }
        if (*ours) suite_.requirements.push_back(std::move(requirement));
      }
    }
    return absl::OkStatus();
  }

  // A key and its values. The cases are all combinations of the values of all keys.
  struct Sweep {
    std::string key;
    std::vector<const toml::node*> values;
  };

  absl::Status Cases(const toml::table& table) {
    const toml::node* op_node = table.get("op");
    if (op_node == nullptr) return At(table).Error("\"op\" is missing");
    std::string op;
    if (absl::Status s = Get(At(*op_node), "op", *op_node, &op); !s.ok()) return s;
    const std::optional<Problem> problem = DefaultProblem(op);
    if (!problem) return At(*op_node).Error(Cat("unknown op \"", op, "\""));
    const std::vector<std::string_view> fields = FieldNames(*problem);
    std::vector<std::string_view> known(CaseKeys().begin(), CaseKeys().end());
    known.insert(known.end(), fields.begin(), fields.end());
    absl::StatusOr<bool> ours = ForThisBackend(table);
    if (!ours.ok()) return ours.status();

    std::vector<Sweep> sweeps;
    std::int64_t count = 1;
    for (const auto& [key, node] : table) {
      if (!Contains(known, key.str())) return At(key).Error(Unknown("key", key.str(), known));
      if (key.str() == "op" || key.str() == "backend") continue;
      sweeps.push_back(MakeSweep(*problem, key.str(), node));
      const auto values = static_cast<std::int64_t>(sweeps.back().values.size());
      if (values == 0) return At(node).Error(Cat(key.str(), kEmptyList));
      count = SaturatingMul(count, values);
    }
    // The cases are counted before any is expanded.
    if (count > kMaxSuiteCases - count_) {
      return At(table).Error(Cat("makes ", count, " cases", count_ > 0 ? " beside the " : "",
                                 count_ > 0 ? Cat(count_, " before it") : std::string(),
                                 "; a suite has at most ", kMaxSuiteCases));
    }
    count_ += count;
    // Shapes vary slowest and providers fastest, so that neighbours in a report are the same
    // problem.
    const auto rank = [](const Sweep& s) {
      if (s.key == "shape") return 0;
      if (s.key == "provider") return 3;
      return s.key == "dtype" ? 2 : 1;
    };
    std::stable_sort(sweeps.begin(), sweeps.end(),
                     [&](const Sweep& a, const Sweep& b) { return rank(a) < rank(b); });
    Case c;
    c.problem = *problem;
    c.provider = "all";
    return Expand(table, sweeps, 0, c, *ours);
  }

  static Sweep MakeSweep(const Problem& problem, std::string_view key, const toml::node& node) {
    Sweep sweep{std::string(key), {}};
    const toml::array* array = node.as_array();
    // A list is a sweep. If a field is a list itself, its sweep is a list of lists.
    const bool list_field = std::visit(
        [&](const auto& p) {
          using P = std::decay_t<decltype(p)>;
          for (const Field<P>& f : P::Fields()) {
            if (f.name != key) continue;
            return std::holds_alternative<IntList P::*>(f.member) ||
                   std::holds_alternative<WordList P::*>(f.member);
          }
          return false;
        },
        problem);
    const bool is_sweep =
        array != nullptr && (!list_field || (!array->empty() && array->get(0)->is_array()));
    if (!is_sweep) {
      sweep.values.push_back(&node);
      return sweep;
    }
    for (const toml::node& element : *array) sweep.values.push_back(&element);
    return sweep;
  }

  absl::Status Expand(const toml::table& table, const std::vector<Sweep>& sweeps, std::size_t at,
                      const Case& so_far, bool ours) {
    if (at == sweeps.size()) {
      const std::vector<FieldError> errors = Check(so_far);
      if (!errors.empty()) {
        std::vector<std::string> lines;
        lines.reserve(errors.size());
        for (const FieldError& e : errors) {
          lines.emplace_back(At(table).Error(Cat(e.field, ": ", e.message)).message());
        }
        return absl::InvalidArgumentError(Join(lines, "\n"));
      }
      if (ours) into_->push_back(so_far);
      return absl::OkStatus();
    }
    for (const toml::node* value : sweeps[at].values) {
      Case next = so_far;
      absl::Status s = SetCaseValue(file_, sweeps[at].key, *value, next);
      if (s.ok()) s = Expand(table, sweeps, at + 1, next, ours);
      if (!s.ok()) return s;
    }
    return absl::OkStatus();
  }

  std::string file_;
  std::string_view backend_;
  std::vector<Case>* into_ = nullptr;
  std::int64_t count_ = 0;  // cases so far, with those of other backends
  Suite suite_;
  std::vector<std::string> faults_;
};

}  // namespace

absl::StatusOr<Suite> ParseSuite(std::string_view text, std::string_view file_name,
                                 std::string_view backend) {
  return Reader(file_name, backend).Read(text);
}

std::vector<std::string> ListSuiteNames(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".toml") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

absl::StatusOr<std::string> ReadSuiteText(const std::string& folder, std::string_view name) {
  const std::vector<std::string> names = ListSuiteNames(folder);
  if (!Contains(names, name)) {
    const std::vector<std::string_view> views(names.begin(), names.end());
    const std::string_view near = NearestName(name, views);
    return absl::NotFoundError(
        Cat("no suite \"", name, "\"", near.empty() ? "" : Cat("; did you mean \"", near, "\"?")));
  }
  std::ifstream file(std::filesystem::path(folder) / Cat(name, ".toml"));
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) return absl::InternalError(Cat("cannot read suite \"", name, "\""));
  return text.str();
}

}  // namespace assay::kernels
