#include "server/base/config.h"
#include "tests/fuzz/fuzz.h"

void assay::fuzz::FuzzConfig(std::string_view bytes) {
  server::Config config;
  const absl::Status read = server::ReadToml(bytes, "assayd.toml", config);
  Require(read.ok() || absl::IsInvalidArgument(read), read.ToString());
  server::Config now;
  server::ChangesTo(config, now);
}
