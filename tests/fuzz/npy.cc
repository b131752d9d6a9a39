#include "client/lib/npy_header.h"
#include "tests/fuzz/fuzz.h"

void assay::fuzz::FuzzNpy(std::string_view bytes) {
  const auto header = client::ParseNpyHeader("x.npy", bytes);
  if (!header.ok()) {
    Require(absl::IsInvalidArgument(header.status()), header.status().ToString());
    return;
  }
  Require(header->data_begin <= bytes.size(), "the data begin behind the file's end");
  for (const std::int64_t extent : header->shape) Require(extent >= 0, "an extent is negative");
  const auto element = client::ParseNpyDescr("x.npy", header->descr);
  Require(!element.ok() || element->bytes > 0, "an element has no bytes");
}
