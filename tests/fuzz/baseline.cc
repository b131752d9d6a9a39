#include "client/report/baseline.h"
#include "tests/fuzz/fuzz.h"

// A baseline that was read can be written and read again.
void assay::fuzz::FuzzBaseline(std::string_view bytes) {
  const auto baseline = client::ParseBaseline(bytes, "b");
  if (!baseline.ok()) {
    Require(absl::IsInvalidArgument(baseline.status()), baseline.status().ToString());
    return;
  }
  const auto again = client::ParseBaseline(client::BaselineJson(*baseline).dump(), "b");
  Require(again.ok(), again.status().ToString());
  Require(again->results_size() == baseline->results_size(), "a result is lost");
}
