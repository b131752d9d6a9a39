#include "kernels/ops/case.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "kernels/ops/criterion.h"
#include "kernels/ops/op.h"
#include "kernels/text/cat.h"
#include "kernels/text/shell_word.h"

namespace assay::inline kernels {
namespace {

std::string Text(std::int64_t value) { return Cat(value); }
std::string Text(double value) { return Shortest(value); }
std::string Text(const IntList& value) { return absl::StrJoin(value, "x"); }
std::string Text(const std::string& value) { return ShellWord(value); }
std::string Text(const WordList& value) { return ShellWord(absl::StrJoin(value, ",")); }

std::string Option(std::string_view name) {
  std::string option = Cat("--", name);
  std::replace(option.begin(), option.end(), '_', '-');
  return option;
}

// " --m 64" for each field that is not at its default.
template <class P>
void AppendFields(const P& problem, std::string* line) {
  const P fallback;
  for (const Field<P>& field : P::Fields()) {
    std::visit(
        [&](auto member) {
          const auto& value = problem.*member;
          if (value == fallback.*member) return;
          Append(line, " ", Option(field.name));
          if constexpr (!std::is_same_v<decltype(member), bool P::*>) {
            Append(line, " ", Text(value));
          }
        },
        field.member);
  }
}

// Whether the operator has an option --kernel of its own: the size of a filter.
bool HasKernelField(const Problem& problem) {
  return std::visit(
      [](const auto& p) {
        const auto fields = p.Fields();
        return std::any_of(fields.begin(), fields.end(),
                           [](const auto& field) { return field.name == "kernel"; });
      },
      problem);
}

void AppendOption(std::string_view option, const std::optional<double>& value, std::string* line) {
  if (value.has_value()) Append(line, " ", option, " ", Shortest(*value));
}

template <std::size_t... I>
std::optional<Problem> DefaultOf(std::string_view op, std::index_sequence<I...>) {
  std::optional<Problem> problem;
  ((std::variant_alternative_t<I, Problem>::kOp == op
        ? static_cast<void>(problem.emplace(std::in_place_index<I>))
        : static_cast<void>(0)),
   ...);
  return problem;
}

}  // namespace

DType OutputType(const Case& c) {
  if (c.out_dtype != DType::kUnspecified) return c.out_dtype;
  return OpOf(c).DefaultOutput(c);
}

std::optional<Problem> DefaultProblem(std::string_view op) {
  return DefaultOf(op, std::make_index_sequence<std::variant_size_v<Problem>>());
}

int DataOperands(const Problem& problem) { return OpOf(problem).DataOperands(problem); }

std::string_view OpName(const Problem& problem) {
  return std::visit([](const auto& p) { return std::decay_t<decltype(p)>::kOp; }, problem);
}

std::optional<std::vector<Pattern>> ParsePatterns(std::string_view text, std::string* error) {
  std::vector<Pattern> patterns;
  for (absl::string_view part : absl::StrSplit(absl::string_view(text.data(), text.size()), '/')) {
    const std::optional<Pattern> pattern = ParsePattern({part.data(), part.size()}, error);
    if (!pattern.has_value()) return std::nullopt;
    patterns.push_back(*pattern);
  }
  return patterns;
}

std::string DefaultName(const Case& c) {
  std::string name =
      Cat(OpName(c.problem), " ", std::visit([](const auto& p) { return p.Describe(); }, c.problem),
          " ", Name(c.dtype));
  Case plain = c;
  plain.out_dtype = DType::kUnspecified;
  if (OutputType(c) != OutputType(plain)) Append(&name, "->", Name(OutputType(c)));
  if (!c.provider.empty()) Append(&name, " ", c.provider);
  if (!c.pattern.empty()) Append(&name, " ", c.pattern);
  return name;
}

std::string ReproLine(const Case& c, std::string_view device) {
  const bool timed = c.mode == Mode::kBenchmark || c.mode == Mode::kBoth;
  const bool of_user = c.provider.starts_with("user/");
  const std::string provider =
      c.provider.empty() ? "" : Cat(of_user ? " --kernel " : " --provider ", ShellWord(c.provider));
  // Before the operator's name --kernel is the command's, behind it the operator's.
  const bool first = of_user && HasKernelField(c.problem);
  std::string line =
      Cat("assay ", timed ? "bench" : "run", first ? provider : "", " ", OpName(c.problem));
  std::visit([&](const auto& p) { AppendFields(p, &line); }, c.problem);
  if (c.mode == Mode::kBoth) Append(&line, " --mode both");
  Append(&line, " --dtype ", Name(c.dtype));
  Case plain = c;
  plain.out_dtype = DType::kUnspecified;
  if (OutputType(c) != OutputType(plain)) {
    Append(&line, " --out-dtype ", Name(OutputType(c)));
  }
  if (!first) line += provider;
  if (!c.reference.empty()) Append(&line, " --reference ", ShellWord(c.reference));
  AppendOption("--operand-roundoff", c.operand_roundoff, &line);
  if (c.flushes_subnormals) Append(&line, " --flushes-subnormals");
  if (c.cuts_off_sums) Append(&line, " --cuts-off-sums");
  if (c.intermediate_dtype != DType::kUnspecified) {
    Append(&line, " --intermediate-dtype ", Name(c.intermediate_dtype));
  }
  if (!device.empty()) Append(&line, " --device ", ShellWord(device));
  Append(&line, " --seed ", c.seed.value_or(1));
  if (!c.pattern.empty()) Append(&line, " --pattern ", ShellWord(c.pattern));
  if (c.criterion != Criterion::kUnspecified && c.criterion != Criterion::kBound) {
    Append(&line, " --criterion ", WordOf(c.criterion));
  }
  AppendOption("--atol", c.atol, &line);
  AppendOption("--rtol", c.rtol, &line);
  AppendOption("--max-abs-error", c.max_abs_error, &line);
  AppendOption("--max-rel-error", c.max_rel_error, &line);
  AppendOption("--max-ulp", c.max_ulp, &line);
  AppendOption("--min-efficiency", c.min_efficiency, &line);
  if (c.repeats > 1) Append(&line, " --repeat ", c.repeats);
  if (c.verify == Verification::kChecksum) Append(&line, " --verify checksum");
  if (c.checksum_probes > 0) Append(&line, " --checksum-probes ", c.checksum_probes);
  if (!c.probes) Append(&line, " --probes=false");
  if (c.accumulations > 0) Append(&line, " --accumulations ", c.accumulations);
  if (c.split_k > 1) Append(&line, " --split-k ", c.split_k);
  return line;
}

}  // namespace assay::kernels
