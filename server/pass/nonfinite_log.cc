#include "server/pass/nonfinite_log.h"

#include "kernels/numerics/dtype.h"
#include "kernels/text/cat.h"
#include "server/base/case_spec.h"
#include "server/base/log.h"

namespace assay::server {
namespace {

// Providers are names that a client may choose; so many lines tell enough.
constexpr std::size_t kMostLines = 4096;

std::string FirstText(const v1::Provenance& p) {
  std::string text = "[";
  for (int i = 0; i < p.first_index_size(); ++i) {
    Append(&text, i > 0 ? "," : "", p.first_index(i));
  }
  return text + "]";
}

}  // namespace

std::string InputsText(const v1::CaseResult& result) {
  std::string text;
  for (const v1::OperandStats& o : result.inputs()) {
    Append(&text, text.empty() ? "" : "; ", o.name());
    if (o.has_min()) {
      Append(&text, " min ", o.min(), " max ", o.max(), " mean ", o.mean(), " rms ", o.rms());
    }
    Append(&text, " zeros ", o.zero_count(), " nan ", o.nan_count(), " inf ", o.inf_count());
  }
  return text;
}

void NonFiniteLog::Saw(std::string_view job, const v1::CaseResult& result) {
  const v1::CaseSpec& spec = result.spec();
  for (const v1::Provenance& p : result.provenance()) {
    if (p.count() == 0) continue;
    const std::string_view dtype = Name(static_cast<DType>(spec.dtype()));
    const std::string key = Cat(result.device(), "|", OpOf(spec), "|", spec.provider(), "|", dtype,
                                "|", p.kind(), "|", p.origin(), "|", p.expected());
    {
      const std::lock_guard guard(mutex_);
      if (seen_.size() >= kMostLines || !seen_.insert(key).second) continue;
    }
    Log(p.expected() ? LogLevel::kInfo : LogLevel::kWarn, "nonfinite.first",
        {{"job", job},
         {"case", result.index()},
         {"device", result.device()},
         {"op", OpOf(spec)},
         {"provider", spec.provider()},
         {"dtype", dtype},
         {"kind", p.kind()},
         {"origin", p.origin()},
         {"expected", p.expected() ? "true" : "false"},
         {"count", p.count()},
         {"first", FirstText(p)},
         {"inputs", InputsText(result)},
         {"repro", result.repro()}});
  }
}

}  // namespace assay::server
