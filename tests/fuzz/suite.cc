#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kernels/suites/suite.h"
#include "server/base/wire.h"
#include "tests/fuzz/fuzz.h"

// A case of an accepted suite is a case that the daemon takes. A suite is accepted for every
// backend or for none, and the reader says the same of it: most refused ones are read for one
// backend only.
void assay::fuzz::FuzzSuite(std::string_view bytes) {
  absl::Status first;
  for (const char* backend : {"cpu", "cuda"}) {
    const bool again = backend != std::string_view("cpu");
    if (again && !first.ok() && !IsOneOf(16, bytes)) return;
    const auto suite = ParseSuite(bytes, "suite.toml", backend);
    if (again) Require(suite.status() == first, "the backends do not agree about a suite");
    first = suite.status();
    if (!suite.ok()) {
      Require(absl::IsInvalidArgument(suite.status()), suite.status().ToString());
      continue;
    }
    for (const auto* cases : {&suite->cases, &suite->fill}) {
      for (std::size_t i = 0; i < cases->size() && i < 100; ++i) {
        std::vector<FieldError> errors;
        server::FromProto(server::ToProto((*cases)[i]), errors);
        Require(errors.empty(), errors.empty() ? "" : errors[0].field + ": " + errors[0].message);
      }
    }
  }
}
