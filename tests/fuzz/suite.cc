#include <string>
#include <vector>

#include "kernels/suites/suite.h"
#include "server/base/wire.h"
#include "tests/fuzz/fuzz.h"

// A case of an accepted suite is a case that the daemon takes.
void assay::fuzz::FuzzSuite(std::string_view bytes) {
  for (const char* backend : {"cpu", "cuda"}) {
    const auto suite = ParseSuite(bytes, "suite.toml", backend);
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
