#include "kernels/suites/golden.h"
#include "tests/fuzz/fuzz.h"

// Digests that were read can be written and read again.
void assay::fuzz::FuzzGolden(std::string_view bytes) {
  const auto golden = ParseGolden(bytes, "suite.tsv");
  if (!golden.ok()) {
    Require(absl::IsInvalidArgument(golden.status()), golden.status().ToString());
    return;
  }
  const auto again = ParseGolden(GoldenText(*golden), "suite.tsv");
  Require(again.ok() && *again == *golden, "the written text says something else");
}
