#include "client/lib/targets_file.h"
#include "client/lib/connection.h"
#include "tests/fuzz/fuzz.h"

void assay::fuzz::FuzzTargets(std::string_view bytes) {
  const auto file = client::ParseTargetsFile(bytes, "targets.toml");
  Require(file.ok() || absl::IsInvalidArgument(file.status()), file.status().ToString());
  if (!file.ok()) return;
  for (const auto& [name, targets] : *file) Require(!targets.empty(), "a name of no daemon");
}
