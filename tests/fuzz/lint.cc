#include "client/lint/amd.h"
#include "client/lint/amd_code.h"
#include "client/lint/nvidia.h"
#include "client/lint/offload_bundle.h"
#include "tests/fuzz/fuzz.h"

namespace {

// The sections of a cubin that lint reads, all with the same bytes.
assay::client::ElfView CubinOf(const std::string& bytes) {
  assay::client::ElfView elf;
  for (const char* name :
       {".symtab", ".strtab", ".nv.info", ".nv.info.k", ".text.k", ".nv.shared.k"}) {
    elf.sections.push_back({name, static_cast<std::int64_t>(bytes.size()), bytes});
  }
  return elf;
}

}  // namespace

// The first byte chooses what the others are: a bundle, a disassembly, the sections of a cubin, or
// what ptxas says.
void assay::fuzz::FuzzLint(std::string_view bytes) {
  if (bytes.empty()) return;
  const std::string rest(bytes.substr(1));
  switch (bytes[0] % 4) {
    case 0:
      if (client::IsOffloadBundle(rest)) client::UnpackOffloadBundle(rest).IgnoreError();
      break;
    case 1:
      for (const auto& kernel : client::HoldAmd(client::ReadAmdCode(rest), nullptr, "gfx942")) {
        Require(!kernel.findings.empty(), "no metadata, and no word of it");
      }
      break;
    case 2:
      client::HoldCubin(CubinOf(rest)).IgnoreError();
      break;
    default:
      client::HoldPtxas(rest, "sm_90");
      client::TargetFault(client::TargetOfPtx(rest), "sm_90", /*ptx=*/true);
  }
}
