#include "server/base/compare_header.h"

#include <string>
#include <utility>

#include "kernels/ops/refusal.h"
#include "kernels/text/cat.h"
#include "server/base/wire.h"

namespace assay::server {
namespace {

TensorSpec ReadTensor(const v1::TensorHeader& header, const std::string& field,
                      std::vector<FieldError>& errors) {
  TensorSpec tensor;
  if (v1::DType_IsValid(header.dtype())) {
    tensor.dtype = static_cast<DType>(header.dtype());
  } else {
    errors.push_back({field + ".dtype", Cat("unknown value ", static_cast<int>(header.dtype()))});
  }
  tensor.shape.assign(header.shape().begin(), header.shape().end());
  return tensor;
}

}  // namespace

Comparison FromProto(const v1::CompareHeader& header, std::vector<FieldError>& errors) {
  Comparison c;
  c.actual = ReadTensor(header.actual(), "actual", errors);
  if (header.has_expected()) c.expected = ReadTensor(header.expected(), "expected", errors);
  for (int i = 0; i < header.inputs_size(); ++i) {
    c.inputs.push_back(ReadTensor(header.inputs(i), Cat("inputs[", i, "]"), errors));
  }
  c.has_operation = header.has_operation();
  if (c.has_operation) {
    std::vector<FieldError> found;
    c.rule = FromProto(header.operation(), found);
    // Without a comparison the operation does not matter.
    if (!c.empty()) {
      for (FieldError& e : found) {
        errors.push_back({Cat("operation.", e.field), std::move(e.message)});
      }
    }
  }
  c.rule.criterion = Criterion::kUnspecified;
  if (v1::Criterion_IsValid(header.criterion())) {
    c.rule.criterion = static_cast<Criterion>(header.criterion());
  } else {
    errors.push_back({"criterion", Cat("unknown value ", static_cast<int>(header.criterion()))});
  }
  const auto optional = [](bool has, double value) {
    return has ? std::optional<double>(value) : std::nullopt;
  };
  c.rule.atol = optional(header.has_atol(), header.atol());
  c.rule.rtol = optional(header.has_rtol(), header.rtol());
  c.rule.max_ulp = optional(header.has_max_ulp(), header.max_ulp());
  c.rule.accumulations = header.accumulations();
  c.rule.split_k = header.split_k();
  c.expected_digest = header.expected_digest();
  std::vector<FieldError> found = Check(c);
  errors.insert(errors.end(), std::make_move_iterator(found.begin()),
                std::make_move_iterator(found.end()));
  return c;
}

FieldError ErrorInHeader(const absl::Status& refusal) {
  FieldError error = FieldErrorOf(refusal);
  error.field = error.field.empty() ? "header" : Cat("header.", error.field);
  return error;
}

v1::CaseSpec SpecOf(const Comparison& comparison) {
  Case judged = JudgedCase(comparison);
  judged.name = DefaultName(comparison);
  v1::CaseSpec spec = ToProto(judged);
  if (!comparison.has_operation) {
    spec.clear_problem();
    spec.set_dtype(static_cast<v1::DType>(comparison.actual.dtype));
    spec.set_out_dtype(v1::DTYPE_UNSPECIFIED);
  }
  return spec;
}

v1::CaseResult ComparisonWithoutRun(const v1::CompareHeader& header, std::string_view device,
                                    v1::Finding finding) {
  std::vector<FieldError> none;
  const Comparison comparison = FromProto(header, none);
  v1::CaseResult result =
      ResultWithoutRun(SpecOf(comparison), device, v1::VERDICT_ERROR, std::move(finding));
  result.set_criterion(static_cast<v1::Criterion>(comparison.criterion()));
  result.clear_repro();
  return result;
}

}  // namespace assay::server
