#include <cmath>

#include "server/worker/profiler_output.h"
#include "tests/fuzz/fuzz.h"

// The first byte chooses the profiler.
void assay::fuzz::FuzzProfiler(std::string_view bytes) {
  if (bytes.empty()) return;
  const auto which = static_cast<unsigned char>(bytes[0]) % server::kProfilers.size();
  const server::Profiler profiler = server::kProfilers[which];
  const std::string_view text = bytes.substr(1);
  const server::Profile profile = server::ReadProfile(profiler, text);
  for (const auto& [name, value] : profile.counters) {
    Require(std::isfinite(value), "a counter is no number");
  }
  Require(!profile.counters.empty() || !profile.note.empty(), "no counter, and no word why");
  server::Refusal(profiler, text, text.substr(0, 2));
  // A whole output is no name of a kernel: most inputs are read as one only in part.
  server::IsCheckingKernel(IsOneOf(16, bytes) ? text : text.substr(0, 512));
}
