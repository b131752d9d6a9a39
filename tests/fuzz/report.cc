#include "client/fleet/reader.h"
#include "tests/fuzz/fuzz.h"

void assay::fuzz::FuzzReport(std::string_view bytes) {
  const auto rows = client::ReadReport(bytes, "r.json");
  Require(rows.ok() || absl::IsInvalidArgument(rows.status()), rows.status().ToString());
}
