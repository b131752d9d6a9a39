// The program of libFuzzer. The environment variable ASSAY_FUZZ_TARGET names the target.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "google/protobuf/stubs/logging.h"
#include "tests/fuzz/fuzz.h"

namespace {

const assay::fuzz::Target* chosen = nullptr;

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  // A line for every string that is no UTF-8 would be gigabytes of a long run.
  google::protobuf::SetLogHandler(nullptr);
  assay::fuzz::CheckOnlySome();
  const char* name = std::getenv("ASSAY_FUZZ_TARGET");
  for (const assay::fuzz::Target& target : assay::fuzz::Targets()) {
    if (name != nullptr && target.name == name) chosen = &target;
  }
  if (chosen != nullptr) return 0;
  std::fprintf(stderr, "ASSAY_FUZZ_TARGET names no target; there are:\n");
  for (const assay::fuzz::Target& target : assay::fuzz::Targets()) {
    std::fprintf(stderr, "%.*s\n", static_cast<int>(target.name.size()), target.name.data());
  }
  std::exit(2);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  chosen->run({reinterpret_cast<const char*>(data), size});
  return 0;
}
