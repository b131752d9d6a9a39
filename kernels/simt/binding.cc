#include "kernels/simt/binding.h"

#include <cstdlib>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "kernels/simt/expression.h"

namespace assay::inline kernels::simt {
namespace {

constexpr std::int64_t kMostThreads = 1024;               // of a block
constexpr std::int64_t kMostBlock[3] = {1024, 1024, 64};  // in x, y, z
constexpr std::int64_t kMostGrid[3] = {2147483647, 65535, 65535};
constexpr char kAxes[] = "xyz";

const char* Word(std::uint32_t dtype) {
  constexpr const char* kWords[] = {"?",    "fp64",   "fp32",     "tf32", "fp16",
                                    "bf16", "e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz",
                                    "e2m1", "int8",   "int32"};
  return dtype < std::size(kWords) ? kWords[dtype] : "?";
}

class Binder {
 public:
  Binder(const assay_problem& problem, const ProgramText& text, const LaunchLimits& limits,
         BoundLaunch& launch)
      : problem_(problem), text_(text), limits_(limits), launch_(launch) {}

  Refusal Bind() {
    Extents("grid", text_.grid, kMostGrid, launch_.grid);
    Extents("block", text_.block, kMostBlock, launch_.block);
    CheckThreads();
    if (std::int64_t shared = 0; Number("shared", text_.shared, &shared)) {
      if (shared < 0 || shared > limits_.shared_bytes) {
        Refuse(ASSAY_FAILED, Key("shared", text_.shared) + " is " + std::to_string(shared) +
                                 " bytes here, and a block has 0 to " +
                                 std::to_string(limits_.shared_bytes));
      }
      launch_.shared_bytes = static_cast<std::size_t>(shared);
    }
    CheckOperands();
    Arguments();
    return refusal_;
  }

 private:
  void Refuse(int status, std::string message) {
    if (refusal_.status == ASSAY_OK) refusal_ = {status, std::move(message)};
  }
  static std::string Key(std::string_view key, std::string_view text) {
    return "launch description: " + std::string(key) + " = " + Quoted(text);
  }

  const assay_parameter* ParameterNamed(std::string_view name) const {
    for (std::uint32_t i = 0; i < problem_.parameter_count; ++i) {
      if (name == problem_.parameters[i]->name) return problem_.parameters[i];
    }
    return nullptr;
  }
  const assay_tensor* Tensor(std::uint32_t i) const {
    return i < problem_.input_count ? problem_.inputs[i] : problem_.output;
  }
  int OperandNamed(std::string_view name) const {
    for (std::uint32_t i = 0; i <= problem_.input_count; ++i) {
      if (name == Tensor(i)->name) return static_cast<int>(i);
    }
    return -1;
  }

  // "m": a parameter. "a_dim0", "a_stride1": of the tensor a. "stride_0": of a list.
  std::optional<std::int64_t> Find(std::string_view name) const {
    if (const assay_parameter* p = ParameterNamed(name)) {
      const bool whole = p->kind == ASSAY_INTEGER || p->kind == ASSAY_BOOLEAN;
      return whole ? std::optional(p->integer) : std::nullopt;
    }
    const std::size_t digits = name.find_last_not_of("0123456789") + 1;
    if (digits == 0 || digits == name.size() || name.size() - digits > 2) return std::nullopt;
    const auto at = static_cast<std::uint32_t>(std::atoi(std::string(name.substr(digits)).c_str()));
    const std::string_view stem = name.substr(0, digits);
    for (std::uint32_t i = 0; i <= problem_.input_count; ++i) {
      const assay_tensor& tensor = *Tensor(i);
      if (at >= tensor.rank) continue;
      if (stem == std::string(tensor.name) + "_dim") return tensor.shape[at];
      if (stem == std::string(tensor.name) + "_stride") return tensor.strides[at];
    }
    if (stem.back() != '_') return std::nullopt;
    const assay_parameter* const list = ParameterNamed(stem.substr(0, stem.size() - 1));
    if (list == nullptr || list->kind != ASSAY_INTEGERS || at >= list->integer_count) {
      return std::nullopt;
    }
    return list->integers[at];
  }

  std::string Known() const {
    std::string known;
    for (std::uint32_t i = 0; i < problem_.parameter_count; ++i) {
      const assay_parameter& p = *problem_.parameters[i];
      if (p.kind == ASSAY_TEXT || p.kind == ASSAY_INTEGERS) continue;
      known += std::string(known.empty() ? "" : ", ") + p.name;
    }
    for (std::uint32_t i = 0; i <= problem_.input_count; ++i) {
      known += std::string(known.empty() ? "" : ", ") + Tensor(i)->name;
    }
    return "; known here: " + known + ", " + std::string(kDebugName);
  }

  bool Number(std::string_view key, const char* text, std::int64_t* value) {
    const Evaluated result = Evaluate(text, [this](std::string_view n) { return Find(n); });
    *value = result.value;
    if (result.error.empty()) return true;
    Refuse(ASSAY_FAILED,
           Key(key, text) + ": " + result.error + (result.unknown_name ? Known() : ""));
    return false;
  }

  void Extents(const char* key, const char* const (&texts)[3], const std::int64_t (&most)[3],
               std::array<unsigned, 3>& extents) {
    for (std::size_t i = 0; i < 3; ++i) {
      std::int64_t value = 0;
      if (!Number(std::string(key) + "[" + std::to_string(i) + "]", texts[i], &value)) return;
      if (value < 1 || value > most[i]) {
        return Refuse(ASSAY_FAILED,
                      Key(std::string(key) + "[" + std::to_string(i) + "]", texts[i]) + " is " +
                          std::to_string(value) + " here, and must be 1 to " +
                          std::to_string(most[i]) + " in " + kAxes[i]);
      }
      extents[i] = static_cast<unsigned>(value);
    }
  }

  void CheckThreads() {
    if (refusal_.status != ASSAY_OK) return;
    const auto count = [](const std::array<unsigned, 3>& of) {
      return std::uint64_t{of[0]} * of[1] * of[2];
    };
    const auto threads = static_cast<std::int64_t>(count(launch_.block));
    if (threads > kMostThreads) {
      return Refuse(ASSAY_FAILED, "launch description: block has " + std::to_string(threads) +
                                      " threads here, and must have at most " +
                                      std::to_string(kMostThreads));
    }
    if (limits_.launch_threads > 0 &&
        count(launch_.grid) > static_cast<std::uint64_t>(limits_.launch_threads / threads)) {
      Refuse(ASSAY_UNSUPPORTED, std::string(limits_.who) + " takes launches of at most " +
                                    std::to_string(limits_.launch_threads) +
                                    " threads; take a smaller problem");
    }
  }

  void CheckOperands() {
    std::int64_t bytes = 0;
    for (std::uint32_t i = 0; i <= problem_.input_count; ++i) {
      bytes += Tensor(i)->bytes;
    }
    if (limits_.operand_bytes == 0 || bytes <= limits_.operand_bytes) return;
    Refuse(ASSAY_UNSUPPORTED, std::string(limits_.who) + " takes operands of at most " +
                                  std::to_string(limits_.operand_bytes) +
                                  " bytes, and these have " + std::to_string(bytes) +
                                  "; take a smaller problem");
  }

  void Arguments() {
    if (text_.argument_count != text_.parameter_count) {
      return Refuse(ASSAY_FAILED, "launch description: args has " +
                                      std::to_string(text_.argument_count) + " arguments, and " +
                                      text_.name + " takes " +
                                      std::to_string(text_.parameter_count));
    }
    for (unsigned i = 0; i < text_.parameter_count; ++i) {
      launch_.arguments.push_back(
          Argument("args[" + std::to_string(i) + "]", text_.arguments[i], text_.parameters[i]));
    }
  }

  Bound Argument(const std::string& key, const char* text, const Parameter& parameter) {
    Bound bound;
    bound.operand = OperandNamed(text);
    if (parameter.kind == ParameterKind::kPointer) {
      if (bound.operand < 0 && text == kDebugName) {
        bound.operand = kDebugBuffer;
      } else if (bound.operand < 0) {
        Refuse(ASSAY_FAILED, Key(key, text) + ": the kernel takes a pointer here, and no operand " +
                                 "is called so" + Known());
      } else {
        CheckFormat(*Tensor(static_cast<std::uint32_t>(bound.operand)), parameter.dtype);
      }
      return bound;
    }
    const bool real = parameter.kind == ParameterKind::kReal;
    if (bound.operand >= 0 && ParameterNamed(text) == nullptr) {
      Refuse(ASSAY_FAILED, Key(key, text) + ": is an operand, and the kernel takes a number here");
      return bound;
    }
    bound.operand = -1;
    if (const assay_parameter* p = ParameterNamed(text); p != nullptr && p->kind == ASSAY_REAL) {
      if (!real) {
        Refuse(ASSAY_FAILED,
               Key(key, text) + ": is a real number, and the kernel takes a whole number here");
      }
      bound.value.real = p->real;
      return bound;
    }
    char* end = nullptr;
    const double literal = std::strtod(text, &end);
    if (real && end != text && *end == 0) {
      bound.value.real = literal;
      return bound;
    }
    std::int64_t whole = 0;
    if (Number(key, text, &whole) && !real) CheckRange(key, text, parameter, whole);
    if (real) {
      bound.value.real = static_cast<double>(whole);
    } else {
      bound.value.integer = whole;
    }
    return bound;
  }

  void CheckRange(const std::string& key, const char* text, const Parameter& parameter,
                  std::int64_t value) {
    const std::int64_t most = parameter.bits >= 63 ? std::numeric_limits<std::int64_t>::max()
                                                   : (std::int64_t{1} << parameter.bits) - 1;
    const std::int64_t least = parameter.has_sign ? -most - 1 : 0;
    if (value >= least && value <= most) return;
    Refuse(ASSAY_FAILED, Key(key, text) + " is " + std::to_string(value) +
                             " here, and the kernel's parameter holds " + std::to_string(least) +
                             " to " + std::to_string(most));
  }

  // A kernel for one format does not do cases of another.
  void CheckFormat(const assay_tensor& tensor, unsigned wanted) {
    const bool fits = wanted == 0 || wanted == tensor.dtype ||
                      (wanted == ASSAY_F32 && tensor.dtype == ASSAY_TF32);
    if (fits) return;
    Refuse(ASSAY_UNSUPPORTED, std::string(text_.name) + " takes " + tensor.name + " in " +
                                  Word(wanted) + ", and the case has it in " + Word(tensor.dtype));
  }

  const assay_problem& problem_;
  const ProgramText& text_;
  const LaunchLimits& limits_;
  BoundLaunch& launch_;
  Refusal refusal_;
};

}  // namespace

Refusal Bind(const assay_problem& problem, const ProgramText& text, const LaunchLimits& limits,
             BoundLaunch* launch) {
  return Binder(problem, text, limits, *launch).Bind();
}

}  // namespace assay::kernels::simt
