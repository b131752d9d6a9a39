#include "client/lint/amd.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "client/lint/kernel_name.h"
#include "client/lint/tools.h"

namespace assay::client {
namespace {

// What the hardware of a target has. From the AMDGPU page of LLVM's documentation.
struct AmdTarget {
  bool unified = false;               // vector and accumulator registers share one file
  int registers_a_lane = 256;         // of a SIMD, for all its waves
  int wave = 64;                      // lanes; 0: 32 or 64, as the descriptor says
  bool all_scalars = false;           // every wave has all scalar registers
  std::int64_t lds_bytes = 64 << 10;  // 0: not known
};

// "gfx942", or of a target for a whole family "gfx11-generic". Another name: LLVM does not know it.
bool IsKnown(const std::string& target) { return target.starts_with("gfx"); }

// How the names of the cards begin that run a target's code: "gfx11", "gfx103", "gfx942".
std::string FamilyOf(const std::string& target) {
  constexpr absl::string_view kGeneric = "-generic";
  return absl::EndsWith(target, kGeneric)
             ? absl::StrReplaceAll(target.substr(0, target.size() - kGeneric.size()), {{"-", ""}})
             : target;
}

AmdTarget TargetOf(const std::string& target_name) {
  const std::string name = FamilyOf(target_name);
  AmdTarget target;
  const bool gfx9 = name.starts_with("gfx9");
  target.unified =
      name.starts_with("gfx90a") || name.starts_with("gfx94") || name.starts_with("gfx95");
  target.registers_a_lane = gfx9 && !target.unified ? 256 : 512;
  if (!gfx9) target.wave = 0;
  target.all_scalars = !gfx9;
  if (name == "gfx950") target.lds_bytes = 160 << 10;
  if (!IsKnown(target_name)) target.lds_bytes = 0;
  return target;
}

// The rules for one kernel. They add to its findings.
class AmdRules {
 public:
  AmdRules(const FunctionCode& code, const std::map<std::string, std::int64_t>& descriptor,
           const nlohmann::json& metadata, const AmdTarget& target, LintedKernel& kernel)
      : code_(code),
        descriptor_(descriptor),
        metadata_(metadata),
        target_(target),
        kernel_(kernel) {}

  void Hold() {
    VectorRegisters();
    // From gfx10 on every wave has all of them, and the descriptor's number means nothing.
    HoldFile("sgprs", "SGPRs", 's', code_.scalar,
             target_.all_scalars ? std::optional<std::int64_t>() : Granted("next_free_sgpr"),
             "set .amdhsa_next_free_sgpr ");
    WorkGroup();
    Lds();
    Scratch();
    Wave();
    Arguments();
    if (code_.calls) {
      Add(LintSeverity::kNote, "calls", "it calls functions; their registers are not counted here");
    }
  }

 private:
  std::optional<std::int64_t> Granted(const std::string& directive) const {
    const auto found = descriptor_.find(directive);
    if (found == descriptor_.end()) return std::nullopt;
    return found->second;
  }
  std::optional<std::int64_t> Said(const char* key) const {
    const auto found = metadata_.find(key);
    if (found == metadata_.end() || !found->is_number_integer()) return std::nullopt;
    return found->get<std::int64_t>();
  }
  void Add(LintSeverity severity, const std::string& rule, std::string message) {
    kernel_.findings.push_back({severity, rule, std::move(message)});
  }

  // A file of registers that grants [0, granted).
  void HoldFile(const std::string& rule, const std::string& name, char letter,
                const RegisterUses& uses, std::optional<std::int64_t> granted,
                const std::string& advice) {
    const int highest = Highest(uses);
    kernel_.resources[rule + "_used"] = highest + 1;
    if (!granted) return;
    kernel_.resources[rule + "_granted"] = *granted;
    const auto beyond = std::find_if(
        uses.begin(), uses.end(), [&](const RegisterUse& use) { return use.highest >= *granted; });
    if (beyond == uses.end()) return;
    const std::string letters(1, letter);
    Add(LintSeverity::kError, rule,
        absl::StrCat("descriptor grants ", *granted, " ", name, ", the code uses ", letters,
                     "0 to ", letters, highest, " (first beyond at +0x", absl::Hex(beyond->offset),
                     " ", beyond->instruction, "): ", advice, highest + 1));
  }

  void VectorRegisters() {
    const std::optional<std::int64_t> all = Granted("next_free_vgpr");
    if (!target_.unified) {
      HoldFile("vgprs", "VGPRs", 'v', code_.vector, all, "set .amdhsa_next_free_vgpr ");
      if (!code_.accumulator.empty()) {
        HoldFile("agprs", "AGPRs", 'a', code_.accumulator, all, "set .amdhsa_next_free_vgpr ");
      }
      return;
    }
    const std::optional<std::int64_t> offset = Granted("accum_offset");
    HoldFile("vgprs", "VGPRs", 'v', code_.vector, offset && all ? std::min(*offset, *all) : all,
             "set .amdhsa_accum_offset, a multiple of 4, and .amdhsa_next_free_vgpr to at least ");
    if (code_.accumulator.empty() || !offset || !all) return;
    HoldFile("agprs", "AGPRs", 'a', code_.accumulator, std::max<std::int64_t>(*all - *offset, 0),
             "set .amdhsa_next_free_vgpr to at least .amdhsa_accum_offset + ");
  }

  // A work-group is on one compute unit, whose four SIMDs hold its waves.
  void WorkGroup() {
    const std::optional<std::int64_t> threads = Said(".max_flat_workgroup_size");
    const std::optional<std::int64_t> all = Granted("next_free_vgpr");
    if (!threads || !all || *all <= 0 || target_.wave == 0) return;
    kernel_.resources["threads"] = *threads;
    const std::int64_t most = target_.registers_a_lane / *all * target_.wave * 4;
    if (*threads <= most) return;
    Add(LintSeverity::kWarning, "work_group",
        absl::StrCat(
            "with ", *all, " registers granted, at most ", most,
            " threads of a work-group fit on a compute unit; .max_flat_workgroup_size says ",
            *threads, ": a launch of more than ", most, " fails"));
  }

  void Lds() {
    const std::optional<std::int64_t> granted = Granted("group_segment_fixed_size");
    if (!granted) return;
    kernel_.resources["lds_bytes"] = *granted;
    if (target_.lds_bytes > 0 && *granted > target_.lds_bytes) {
      Add(LintSeverity::kError, "lds",
          absl::StrCat("descriptor asks for ", *granted, " bytes of LDS; ", kernel_.target, " has ",
                       target_.lds_bytes));
    }
    Differs("lds", "group_segment_fixed_size", *granted, Said(".group_segment_fixed_size"),
            LintSeverity::kError);
  }

  void Scratch() {
    const std::int64_t granted = Granted("private_segment_fixed_size").value_or(0);
    kernel_.resources["scratch_bytes"] = granted;
    const bool dynamic = Granted("uses_dynamic_stack").value_or(0) != 0;
    if (granted == 0 && !dynamic && !code_.scratch.empty()) {
      Add(LintSeverity::kError, "scratch",
          absl::StrCat(
              "the code uses scratch (", code_.scratch,
              "), and the descriptor grants none: set .amdhsa_private_segment_fixed_size"));
    }
    if (granted > 0) {
      Add(LintSeverity::kWarning, "scratch",
          absl::StrCat(granted,
                       " bytes of scratch a thread: registers are spilt, or an array is "
                       "indexed by a variable; scratch is device memory"));
    }
    Differs("scratch", "private_segment_fixed_size", granted, Said(".private_segment_fixed_size"),
            LintSeverity::kError);
  }

  void Wave() {
    const std::int64_t granted = Granted("wavefront_size32").value_or(0) != 0 ? 32 : 64;
    kernel_.resources["wave"] = granted;
    Differs("wave", "the size of a wave", granted, Said(".wavefront_size"), LintSeverity::kError);
  }

  void Differs(const char* rule, const std::string& what, std::int64_t granted,
               std::optional<std::int64_t> said, LintSeverity severity) {
    if (!said || *said == granted) return;
    Add(severity, rule,
        absl::StrCat(what, " is ", granted, " in the descriptor and ", *said,
                     " in the metadata: they must be equal"));
  }

  void Arguments() {
    const std::optional<std::int64_t> bytes = Said(".kernarg_segment_size");
    if (!bytes) return;
    kernel_.resources["argument_bytes"] = *bytes;
    if (const auto granted = Granted("kernarg_size"); granted && *granted != *bytes) {
      Differs("arguments", "kernarg_size", *granted, bytes, LintSeverity::kWarning);
    }
    const auto arguments = metadata_.find(".args");
    if (arguments == metadata_.end() || !arguments->is_array()) return;
    std::int64_t end = 0;
    int place = 0;
    for (const nlohmann::json& argument : *arguments) {
      const std::int64_t offset = argument.value(".offset", std::int64_t{0});
      const std::int64_t size = argument.value(".size", std::int64_t{0});
      ++place;
      if (offset < end) {
        Add(LintSeverity::kError, "arguments",
            absl::StrCat("argument ", place, " begins at byte ", offset,
                         " of the arguments, inside the one before, which ends at ", end));
      }
      end = std::max(end, offset + size);
      if (offset + size <= *bytes) continue;
      Add(LintSeverity::kError, "arguments",
          absl::StrCat("argument ", place, " ends at byte ", offset + size, " of ", *bytes,
                       ": set .kernarg_segment_size to at least ", offset + size));
    }
  }

  const FunctionCode& code_;
  const std::map<std::string, std::int64_t>& descriptor_;
  const nlohmann::json& metadata_;
  const AmdTarget& target_;
  LintedKernel& kernel_;
};

std::uint32_t WordAt(const std::string& bytes, std::size_t at) {
  std::uint32_t word = 0;
  std::memcpy(&word, bytes.data() + at, sizeof word);
  return word;
}

// The metadata of all kernels: MessagePack in a note of AMDGPU, type 32. Null where there is none.
nlohmann::json MetadataOf(const ElfView& elf) {
  constexpr std::uint32_t kMetadata = 32;
  const ElfSection* const note = elf.Find(".note");
  if (note == nullptr) return nullptr;
  const auto padded = [](std::size_t n) { return (n + 3) / 4 * 4; };
  std::size_t at = 0;
  while (at + 12 <= note->bytes.size()) {
    const std::size_t name = padded(WordAt(note->bytes, at));
    const std::size_t size = WordAt(note->bytes, at + 4);
    const std::uint32_t type = WordAt(note->bytes, at + 8);
    const std::size_t begin = at + 12 + name;
    if (begin > note->bytes.size() || size > note->bytes.size() - begin) break;
    if (type == kMetadata) {
      const nlohmann::json all =
          nlohmann::json::from_msgpack(note->bytes.substr(begin, size), true, false);
      return all.is_object() ? all.value("amdhsa.kernels", nlohmann::json(nullptr))
                             : nlohmann::json(nullptr);
    }
    at = begin + padded(size);
  }
  return nullptr;
}

std::string TargetName(const ElfView& elf) {
  for (const std::string& name : elf.flag_names) {
    absl::string_view text = name;
    if (!absl::ConsumePrefix(&text, "EF_AMDGPU_MACH_AMDGCN_")) continue;
    return absl::StrReplaceAll(absl::AsciiStrToLower(text), {{"_", "-"}});
  }
  return absl::StrCat("AMDGPU target 0x", absl::Hex(elf.flags & 0xff));
}

}  // namespace

std::vector<LintedKernel> HoldAmd(const AmdCode& code, const nlohmann::json& metadata,
                                  const std::string& target) {
  const AmdTarget hardware = TargetOf(target);
  std::vector<LintedKernel> kernels;
  for (const auto& [name, descriptor] : code.descriptors) {
    LintedKernel& kernel = kernels.emplace_back();
    kernel.name = KernelName(name);
    kernel.target = target;
    nlohmann::json said = nlohmann::json::object();
    if (metadata.is_array()) {
      for (const nlohmann::json& entry : metadata) {
        if (entry.is_object() && entry.value(".symbol", "") == name + ".kd") said = entry;
      }
    }
    const auto function = code.functions.find(name);
    if (function == code.functions.end()) {
      kernel.findings.push_back(
          {LintSeverity::kError, "code", "there is a descriptor, and no code of this name"});
      continue;
    }
    if (said.empty()) {
      kernel.findings.push_back({LintSeverity::kError, "metadata",
                                 "no metadata name this kernel: no runtime can launch it"});
    }
    AmdRules(function->second, descriptor, said, hardware, kernel).Hold();
  }
  for (const auto& [name, why] : code.undecoded) {
    LintedKernel& kernel = kernels.emplace_back();
    kernel.name = KernelName(name);
    kernel.target = target;
    kernel.findings.push_back(
        {LintSeverity::kWarning, "descriptor",
         absl::StrCat("not checked: llvm-objdump cannot decode the descriptor (", why, ")")});
  }
  return kernels;
}

absl::StatusOr<std::vector<LintedKernel>> LintAmd(const std::string& path,
                                                  const std::string& arch) {
  const absl::StatusOr<ElfView> elf = ReadElf(path);
  if (!elf.ok()) return elf.status();
  const absl::StatusOr<std::string> text = Disassemble(path);
  if (!text.ok()) return text.status();
  const std::string target = TargetName(*elf);
  std::vector<LintedKernel> kernels;
  try {
    kernels = HoldAmd(ReadAmdCode(*text), MetadataOf(*elf), target);
  } catch (const nlohmann::json::exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat("the metadata of its kernels are malformed: ", error.what()));
  }
  // "gfx942:sramecc+" is a card with a setting.
  const std::string card = arch.substr(0, arch.find(':'));
  if (card.empty() || (IsKnown(target) && card.starts_with(FamilyOf(target)))) return kernels;
  for (LintedKernel& kernel : kernels) {
    kernel.findings.push_back(
        IsKnown(target)
            ? LintFinding{LintSeverity::kError, "target",
                          absl::StrCat("compiled for ", target, ", which does not run on ", card)}
            : LintFinding{LintSeverity::kWarning, "target",
                          absl::StrCat("not checked: LLVM here does not know the ", target)});
  }
  return kernels;
}

}  // namespace assay::client
