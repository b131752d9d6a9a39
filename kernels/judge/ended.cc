#include "kernels/judge/ended.h"

#include "kernels/text/cat.h"

namespace assay {

Ended EndedBy(const absl::Status& status, std::string_view what) {
  const bool memory = status.code() == absl::StatusCode::kResourceExhausted;
  return {memory ? Verdict::kInconclusive : Verdict::kError,
          {memory ? Reason::kMemory : Reason::kFault, Cat(what, ": ", status.message())}};
}

Ended RefusedBy(const absl::Status& status, std::string_view what) {
  if (status.code() == absl::StatusCode::kUnimplemented) {
    return {Verdict::kUnsupported, {Reason::kUnsupported, Cat(status.message())}};
  }
  return EndedBy(status, what);
}

}  // namespace assay
