#include "client/lib/operators.h"

namespace assay::client {
namespace {

using google::protobuf::FieldDescriptor;

const google::protobuf::OneofDescriptor* Problem() {
  return v1::CaseSpec::descriptor()->FindOneofByName("problem");
}

const v1::OperatorInfo& InfoOf(const FieldDescriptor* problem) {
  if (problem == nullptr) return v1::OperatorInfo::default_instance();
  return problem->message_type()->options().GetExtension(v1::operator_info);
}

}  // namespace

std::vector<std::string> OperatorNames() {
  const int count = Problem()->field_count();
  std::vector<std::string> names;
  names.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) names.push_back(Problem()->field(i)->name());
  return names;
}

const FieldDescriptor* ProblemField(std::string_view op) {
  const auto* field = v1::CaseSpec::descriptor()->FindFieldByName(std::string(op));
  return field != nullptr && field->containing_oneof() == Problem() ? field : nullptr;
}

std::string OpOf(const v1::CaseSpec& spec) {
  const auto* field = spec.GetReflection()->GetOneofFieldDescriptor(spec, Problem());
  return field == nullptr ? "" : field->name();
}

const v1::OperatorInfo& InfoOf(std::string_view op) { return InfoOf(ProblemField(op)); }

const v1::OperatorInfo& InfoOf(const v1::CaseSpec& spec) {
  return InfoOf(spec.GetReflection()->GetOneofFieldDescriptor(spec, Problem()));
}

}  // namespace assay::client
