#include "kernels/providers/user/amd_code_object.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "kernels/providers/user/code_object.h"
#include "kernels/providers/user/elf_file.h"
#include "kernels/providers/user/message_pack.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

constexpr std::string_view kBundle = "__CLANG_OFFLOAD_BUNDLE__";
constexpr std::uint64_t kMostInBundle = 100;
constexpr std::uint64_t kMostKernels = 1'000, kMostParameters = 1'000;
constexpr std::string_view kTarget = "amdgcn-amd-amdhsa--";

absl::Status NoCodeObject(std::string_view why) {
  return absl::InvalidArgumentError(Cat("the file is no code object of AMD's: ", why,
                                        "; make one with hipcc --genco --offload-arch=gfx90a"));
}

// A note of the file: a structure that begins with the sizes of its name and of its text.
std::optional<std::string_view> Description(const ElfFile& file, const Elf64_Shdr& section) {
  constexpr std::uint32_t kMetadata = 32;
  constexpr std::string_view kName("AMDGPU\0", 7);
  const auto padded = [](std::uint64_t size) { return (size + 3) / 4 * 4; };
  const std::uint64_t end = section.sh_offset + section.sh_size;
  for (std::uint64_t at = section.sh_offset; at < end;) {
    const auto note = file.At<Elf64_Nhdr>(at);
    if (!note) return std::nullopt;
    const std::uint64_t name = at + sizeof *note, text = name + padded(note->n_namesz);
    if (!file.Holds(name, note->n_namesz) || !file.Holds(text, note->n_descsz)) return std::nullopt;
    if (note->n_type == kMetadata && file.bytes().substr(name, note->n_namesz) == kName) {
      return file.bytes().substr(text, note->n_descsz);
    }
    at = text + padded(note->n_descsz);
  }
  return std::nullopt;
}

// Calls take(key) for each pair of a map. It goes over the value, and says whether it could.
template <class Take>
bool ForEachPair(MessagePack& in, Take&& take) {
  const std::optional<std::uint64_t> pairs = in.Map();
  for (std::uint64_t i = 0; pairs && i < *pairs; ++i) {
    const std::optional<std::string_view> key = in.Text();
    if (!key || !take(*key)) return false;
  }
  return pairs.has_value();
}

template <class Take>
bool ForEachValue(MessagePack& in, std::uint64_t most, Take&& take) {
  const std::optional<std::uint64_t> values = in.Array();
  if (!values || *values > most) return false;
  for (std::uint64_t i = 0; i < *values; ++i) {
    if (!take()) return false;
  }
  return true;
}

bool TakeParameter(MessagePack& in, AmdKernel* kernel) {
  std::optional<std::uint64_t> bytes;
  std::optional<std::string_view> kind;
  const bool whole = ForEachPair(in, [&](std::string_view key) {
    if (key == ".size") return (bytes = in.Number()).has_value();
    if (key == ".value_kind") return (kind = in.Text()).has_value();
    return in.Skip();
  });
  if (!whole || !bytes || !kind || *bytes > kMostParameters) return false;
  // The compiler adds parameters of its own, which the runtime gives: sizes of the grid and such.
  if (!kind->starts_with("hidden_")) {
    kernel->parameter_bytes.push_back(static_cast<std::int64_t>(*bytes));
  }
  return true;
}

bool TakeKernel(MessagePack& in, AmdCodeObject* code) {
  AmdKernel kernel;
  const bool whole = ForEachPair(in, [&](std::string_view key) {
    if (key == ".args") {
      if (!kernel.parameter_bytes.empty()) return false;  // it is there twice
      return ForEachValue(in, kMostParameters, [&] { return TakeParameter(in, &kernel); });
    }
    if (key != ".name") return in.Skip();
    const std::optional<std::string_view> name = in.Text();
    if (name) kernel.symbol = *name;
    return name && IsSymbol(*name);
  });
  if (!whole || kernel.symbol.empty()) return false;
  code->kernels.push_back(std::move(kernel));
  return true;
}

absl::StatusOr<AmdCodeObject> CodeObject(std::string_view bytes) {
  const ElfFile file(bytes);
  const auto header = file.At<Elf64_Ehdr>(0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) {
    return NoCodeObject("it is no ELF");
  }
  constexpr Elf64_Half kAmdGpu = 224;
  if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_machine != kAmdGpu) {
    return NoCodeObject("it is for another processor");
  }
  if (header->e_shentsize != sizeof(Elf64_Shdr)) {
    return NoCodeObject("its sections are malformed");
  }
  if (!file.IsWhole(*header)) return NoCodeObject("it is truncated");
  AmdCodeObject code{.architecture = {}, .image = bytes, .kernels = {}};
  // Sections that overlap would cost more time than the file is worth.
  std::uint64_t notes = 0;  // [bytes]
  for (std::uint64_t i = 0; i < header->e_shnum; ++i) {
    const auto section = file.Section(*header, i);
    if (!section || section->sh_type != SHT_NOTE) continue;
    notes += section->sh_size;
    if (notes > bytes.size()) return NoCodeObject("its sections overlap");
    const std::optional<std::string_view> text = Description(file, *section);
    if (!text) continue;
    MessagePack in(*text);
    const bool whole = ForEachPair(in, [&](std::string_view key) {
      if (key == "amdhsa.kernels") {
        if (!code.kernels.empty()) return false;  // it is there twice
        return ForEachValue(in, kMostKernels, [&] { return TakeKernel(in, &code); });
      }
      if (key != "amdhsa.target") return in.Skip();
      const std::optional<std::string_view> target = in.Text();
      if (target && target->starts_with(kTarget))
        code.architecture = target->substr(kTarget.size());
      return target.has_value();
    });
    if (!whole) return NoCodeObject("the description of its kernels is malformed");
    if (code.architecture.empty() || code.architecture.size() > kMostParameters) {
      return NoCodeObject("it does not say for which device it is (code objects before version 4)");
    }
    return code;
  }
  return NoCodeObject("it has no description of its kernels");
}

// Of "gfx90a:xnack+": the processor and each feature.
std::set<std::string_view> PartsOf(std::string_view architecture) {
  std::set<std::string_view> parts;
  for (;;) {
    const std::size_t end = architecture.find(':');
    parts.insert(architecture.substr(0, end));
    if (end == architecture.npos) return parts;
    architecture.remove_prefix(end + 1);
  }
}

}  // namespace

absl::StatusOr<std::vector<AmdCodeObject>> AmdCodeObjects(std::string_view bytes) {
  std::vector<AmdCodeObject> found;
  const auto take = [&](std::string_view part) {
    absl::StatusOr<AmdCodeObject> code = CodeObject(part);
    if (!code.ok()) return code.status();
    found.push_back(*std::move(code));
    return absl::OkStatus();
  };
  if (bytes.starts_with("CCOB")) {
    return absl::InvalidArgumentError(
        "the file is a compressed bundle: compile with --no-offload-compress");
  }
  if (!bytes.starts_with(kBundle)) {
    const absl::Status status = take(bytes);
    return status.ok() ? absl::StatusOr<std::vector<AmdCodeObject>>(std::move(found)) : status;
  }
  struct Entry {
    std::uint64_t offset, size, name_size;
  };
  const ElfFile file(bytes);  // for its limits
  const auto entries = file.At<std::uint64_t>(kBundle.size());
  if (!entries || *entries > kMostInBundle) return NoCodeObject("its bundle is malformed");
  std::uint64_t at = kBundle.size() + sizeof *entries, taken = 0;
  for (std::uint64_t i = 0; i < *entries; ++i) {
    const auto entry = file.At<Entry>(at);
    if (!entry || !file.Holds(at + sizeof *entry, entry->name_size) ||
        !file.Holds(entry->offset, entry->size)) {
      return NoCodeObject("its bundle is truncated");
    }
    const std::string_view name = bytes.substr(at + sizeof *entry, entry->name_size);
    at += sizeof *entry + entry->name_size;
    if (name.find(kTarget) == name.npos) continue;  // the host's part
    taken += entry->size;
    if (taken > bytes.size()) return NoCodeObject("the parts of its bundle overlap");
    if (absl::Status s = take(bytes.substr(entry->offset, entry->size)); !s.ok()) return s;
  }
  if (found.empty()) return NoCodeObject("its bundle has none");
  return found;
}

bool IsFor(std::string_view architecture, std::string_view device) {
  // "gfx90a:xnack+" is not for "gfx90a:sramecc+:xnack-", and "gfx90a" is for both.
  const std::set<std::string_view> named = PartsOf(architecture), had = PartsOf(device);
  return std::includes(had.begin(), had.end(), named.begin(), named.end());
}

}  // namespace assay::kernels
