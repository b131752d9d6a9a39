#include "server/base/wire.h"

#include <cmath>
#include <cstdint>
#include <iterator>
#include <optional>
#include <type_traits>
#include <variant>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "kernels/ops/op.h"
#include "kernels/text/cat.h"

namespace assay::server {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

template <class... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};
template <class... Fs>
Overloaded(Fs...) -> Overloaded<Fs...>;

// Whether the message sets the field. If not, the struct keeps its default.
bool Said(const Message& message, const FieldDescriptor* field) {
  const Reflection* reflection = message.GetReflection();
  if (field->is_repeated()) return reflection->FieldSize(message, field) > 0;
  return reflection->HasField(message, field);
}

template <class P>
void ReadProblem(const Message& message, P& problem) {
  const Reflection* reflection = message.GetReflection();
  for (const Field<P>& f : P::Fields()) {
    const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(std::string(f.name));
    if (field == nullptr || !Said(message, field)) continue;
    std::visit(
        Overloaded{[&](std::int64_t P::*m) { problem.*m = reflection->GetInt64(message, field); },
                   [&](double P::*m) { problem.*m = reflection->GetDouble(message, field); },
                   [&](bool P::*m) { problem.*m = reflection->GetBool(message, field); },
                   [&](std::string P::*m) { problem.*m = reflection->GetString(message, field); },
                   [&](WordList P::*m) {
                     const int size = reflection->FieldSize(message, field);
                     (problem.*m).clear();
                     for (int i = 0; i < size; ++i) {
                       (problem.*m).push_back(reflection->GetRepeatedString(message, field, i));
                     }
                   },
                   [&](IntList P::*m) {
                     const int size = reflection->FieldSize(message, field);
                     (problem.*m).clear();
                     for (int i = 0; i < size; ++i) {
                       (problem.*m).push_back(reflection->GetRepeatedInt64(message, field, i));
                     }
                   }},
        f.member);
  }
}

// `all`: also the fields that have their default.
template <class P>
void WriteProblem(const P& problem, bool all, Message* message) {
  const P defaults;
  const Reflection* reflection = message->GetReflection();
  for (const Field<P>& f : P::Fields()) {
    const FieldDescriptor* field = message->GetDescriptor()->FindFieldByName(std::string(f.name));
    if (field == nullptr) continue;
    std::visit(
        [&](auto member) {
          if (!all && problem.*member == defaults.*member) return;
          using T = std::decay_t<decltype(problem.*member)>;
          if constexpr (std::is_same_v<T, std::int64_t>) {
            reflection->SetInt64(message, field, problem.*member);
          } else if constexpr (std::is_same_v<T, double>) {
            reflection->SetDouble(message, field, problem.*member);
          } else if constexpr (std::is_same_v<T, bool>) {
            reflection->SetBool(message, field, problem.*member);
          } else if constexpr (std::is_same_v<T, std::string>) {
            reflection->SetString(message, field, problem.*member);
          } else if constexpr (std::is_same_v<T, WordList>) {
            for (const std::string& v : problem.*member) reflection->AddString(message, field, v);
          } else {
            for (const std::int64_t v : problem.*member) reflection->AddInt64(message, field, v);
          }
        },
        f.member);
  }
}

// The member of the spec's oneof that an operator's problem is: it has the operator's name.
const FieldDescriptor* ProblemField(std::string_view op) {
  return v1::CaseSpec::descriptor()->FindFieldByName(std::string(op));
}

void WriteProblemOf(const Problem& problem, bool all, v1::CaseSpec& spec) {
  Message* const message =
      spec.GetReflection()->MutableMessage(&spec, ProblemField(OpName(problem)));
  std::visit([&](const auto& p) { WriteProblem(p, all, message); }, problem);
}

void ReadProblemOf(const v1::CaseSpec& spec, Case& c, std::vector<FieldError>& errors) {
  for (const Op* op : AllOps()) {
    const FieldDescriptor* field = ProblemField(op->name());
    if (!spec.GetReflection()->HasField(spec, field)) continue;
    c.problem = *DefaultProblem(op->name());
    const Message& message = spec.GetReflection()->GetMessage(spec, field);
    std::visit([&](auto& problem) { ReadProblem(message, problem); }, c.problem);
    return;
  }
  std::vector<std::string_view> names;
  for (const Op* op : AllOps()) names.push_back(op->name());
  errors.push_back({"problem", Cat("is not set; set one of ", Join(names, ", "))});
}

// Turns an enum value of the wire into the struct's, or adds an error that names the field.
template <class To>
To ReadEnum(int value, bool known, std::string_view field, std::vector<FieldError>& errors) {
  if (known) return static_cast<To>(value);
  errors.push_back({std::string(field), absl::StrCat("unknown value ", value)});
  return To{};
}

std::optional<double> Seconds(const google::protobuf::Duration& d) {
  return static_cast<double>(d.seconds()) + static_cast<double>(d.nanos()) * 1e-9;
}

void SetSeconds(double seconds, google::protobuf::Duration* d) {
  const double whole = std::floor(seconds);
  d->set_seconds(static_cast<std::int64_t>(whole));
  d->set_nanos(static_cast<std::int32_t>((seconds - whole) * 1e9));
}

Published ReadPublished(const v1::Published& p) {
  Published published;
  published.name = p.name();
  if (p.has_max_abs_error()) published.max_abs_error = p.max_abs_error();
  if (p.has_limit()) published.limit = p.limit();
  published.passed = p.passed();
  published.source = p.source();
  return published;
}

void WritePublished(const Published& p, v1::Published* out) {
  out->set_name(p.name);
  if (p.max_abs_error) out->set_max_abs_error(*p.max_abs_error);
  if (p.limit) out->set_limit(*p.limit);
  out->set_passed(p.passed);
  out->set_source(p.source);
}

}  // namespace

Case FromProto(const v1::CaseSpec& spec, std::vector<FieldError>& errors) {
  Case c;
  ReadProblemOf(spec, c, errors);
  c.name = spec.name();
  c.dtype = ReadEnum<DType>(spec.dtype(), v1::DType_IsValid(spec.dtype()), "dtype", errors);
  c.out_dtype =
      ReadEnum<DType>(spec.out_dtype(), v1::DType_IsValid(spec.out_dtype()), "out_dtype", errors);
  c.provider = spec.provider();
  c.pattern = spec.pattern();
  if (spec.has_seed()) c.seed = spec.seed();
  c.criterion = ReadEnum<Criterion>(spec.criterion(), v1::Criterion_IsValid(spec.criterion()),
                                    "criterion", errors);
  if (spec.has_atol()) c.atol = spec.atol();
  if (spec.has_rtol()) c.rtol = spec.rtol();
  if (spec.has_max_abs_error()) c.max_abs_error = spec.max_abs_error();
  if (spec.has_max_rel_error()) c.max_rel_error = spec.max_rel_error();
  if (spec.has_max_ulp()) c.max_ulp = spec.max_ulp();
  if (spec.has_min_efficiency()) c.min_efficiency = spec.min_efficiency();
  c.repeats = spec.repeats();
  if (spec.has_deadline()) c.deadline_seconds = Seconds(spec.deadline());
  c.mode = ReadEnum<Mode>(spec.mode(), v1::Mode_IsValid(spec.mode()), "mode", errors);
  c.verify = ReadEnum<Verification>(spec.verify(), v1::Verification_IsValid(spec.verify()),
                                    "verify", errors);
  c.checksum_probes = spec.checksum_probes();
  if (spec.has_probes()) c.probes = spec.probes();
  c.accumulations = spec.accumulations();
  c.reference = spec.reference();
  if (spec.has_operand_roundoff()) c.operand_roundoff = spec.operand_roundoff();
  c.flushes_subnormals = spec.flushes_subnormals();
  c.cuts_off_sums = spec.cuts_off_sums();
  c.intermediate_dtype =
      ReadEnum<DType>(spec.intermediate_dtype(), v1::DType_IsValid(spec.intermediate_dtype()),
                      "intermediate_dtype", errors);
  c.split_k = spec.split_k();
  c.all_criteria = spec.all_criteria();
  c.golden.insert(spec.golden().begin(), spec.golden().end());
  c.slices.assign(spec.slices().begin(), spec.slices().end());
  if (spec.has_published()) c.published = ReadPublished(spec.published());
  if (spec.problem_case() != v1::CaseSpec::PROBLEM_NOT_SET) {
    std::vector<FieldError> found = Check(c);
    errors.insert(errors.end(), std::make_move_iterator(found.begin()),
                  std::make_move_iterator(found.end()));
  }
  return c;
}

v1::CaseSpec ToProto(const Case& c) {
  v1::CaseSpec spec;
  WriteProblemOf(c.problem, /*all=*/false, spec);
  spec.set_name(c.name);
  spec.set_dtype(static_cast<v1::DType>(c.dtype));
  spec.set_out_dtype(static_cast<v1::DType>(c.out_dtype));
  spec.set_provider(c.provider);
  spec.set_pattern(c.pattern);
  if (c.seed) spec.set_seed(*c.seed);
  spec.set_criterion(static_cast<v1::Criterion>(c.criterion));
  if (c.atol) spec.set_atol(*c.atol);
  if (c.rtol) spec.set_rtol(*c.rtol);
  if (c.max_abs_error) spec.set_max_abs_error(*c.max_abs_error);
  if (c.max_rel_error) spec.set_max_rel_error(*c.max_rel_error);
  if (c.max_ulp) spec.set_max_ulp(*c.max_ulp);
  if (c.min_efficiency) spec.set_min_efficiency(*c.min_efficiency);
  spec.set_repeats(c.repeats);
  if (c.deadline_seconds) SetSeconds(*c.deadline_seconds, spec.mutable_deadline());
  spec.set_mode(static_cast<v1::Mode>(c.mode));
  spec.set_verify(static_cast<v1::Verification>(c.verify));
  spec.set_checksum_probes(c.checksum_probes);
  if (!c.probes) spec.set_probes(false);
  spec.set_accumulations(c.accumulations);
  spec.set_reference(c.reference);
  if (c.operand_roundoff) spec.set_operand_roundoff(*c.operand_roundoff);
  spec.set_flushes_subnormals(c.flushes_subnormals);
  spec.set_cuts_off_sums(c.cuts_off_sums);
  spec.set_intermediate_dtype(static_cast<v1::DType>(c.intermediate_dtype));
  spec.set_split_k(c.split_k);
  spec.set_all_criteria(c.all_criteria);
  spec.mutable_golden()->insert(c.golden.begin(), c.golden.end());
  for (const std::string& slice : c.slices) spec.add_slices(slice);
  if (c.published) WritePublished(*c.published, spec.mutable_published());
  return spec;
}

v1::CaseSpec ToProtoResolved(const Case& c) {
  v1::CaseSpec spec = ToProto(c);
  spec.clear_problem();
  WriteProblemOf(OpOf(c).Resolved(c), /*all=*/true, spec);
  return spec;
}

}  // namespace assay::server
