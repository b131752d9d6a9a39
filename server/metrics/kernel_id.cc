#include "server/metrics/kernel_id.h"

#include <string_view>

#include "absl/strings/ascii.h"
#include "server/base/case_spec.h"

namespace assay::server {

std::string VerdictLabel(v1::Verdict verdict) {
  if (!v1::Verdict_IsValid(verdict)) verdict = v1::VERDICT_UNSPECIFIED;
  return v1::Verdict_Name(verdict).substr(std::string_view("VERDICT_").size());
}

std::string DTypeLabel(v1::DType dtype) {
  std::string name = v1::DType_Name(dtype);
  if (name.starts_with("DTYPE_")) name.erase(0, std::string_view("DTYPE_").size());
  return absl::AsciiStrToLower(name);
}

KernelId NamesOf(const v1::CaseSpec& spec) {
  return {OpOf(spec), spec.provider(), DTypeLabel(spec.dtype())};
}

bool IsBenchmark(const v1::CaseResult& result) {
  const v1::Mode mode = result.spec().mode();
  return mode == v1::MODE_BENCHMARK || mode == v1::MODE_BOTH;
}

bool HasSpeed(const v1::CaseResult& result) {
  const std::string reason = result.findings_size() > 0 ? result.findings(0).reason() : "";
  const bool slow_only =
      result.verdict() == v1::VERDICT_FAILED && (reason == "efficiency" || reason == "slower");
  return result.bench().samples() >= 2 && (result.verdict() == v1::VERDICT_PASSED || slow_only);
}

}  // namespace assay::server
