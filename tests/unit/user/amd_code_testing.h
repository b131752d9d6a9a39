// Code objects of AMD's as far as Assay reads them, for tests: the ELF, and the description of the
// kernels in it.
#ifndef ASSAY_TESTS_UNIT_USER_AMD_CODE_TESTING_H_
#define ASSAY_TESTS_UNIT_USER_AMD_CODE_TESTING_H_

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace assay {

// MessagePack, in the shortest form of each.
inline std::string PackText(std::string_view text) {
  std::string head(1, static_cast<char>(0xa0 | text.size()));
  if (text.size() > 31) head = {'\xd9', static_cast<char>(text.size())};
  return head + std::string(text);
}
inline std::string PackMap(const std::vector<std::pair<std::string, std::string>>& pairs) {
  std::string all(1, static_cast<char>(0x80 | pairs.size()));
  for (const auto& [key, packed] : pairs) all += PackText(key) + packed;
  return all;
}
inline std::string PackArray(const std::vector<std::string>& packed) {
  std::string all(1, static_cast<char>(0x90 | packed.size()));
  for (const std::string& one : packed) all += one;
  return all;
}
inline std::string PackSmall(unsigned number) { return std::string(1, static_cast<char>(number)); }

inline std::string PackedKernel(std::string_view symbol, const std::vector<unsigned>& parameters) {
  std::vector<std::string> packed;
  for (const unsigned bytes : parameters) {
    packed.push_back(PackMap({{".name", PackText("x")},
                              {".offset", std::string("\xcd\x01\x00", 3)},
                              {".size", PackSmall(bytes)},
                              {".value_kind", PackText("by_value")}}));
  }
  packed.push_back(
      PackMap({{".size", PackSmall(8)}, {".value_kind", PackText("hidden_global_offset_x")}}));
  return PackMap({{".args", PackArray(packed)},
                  {".language_version", PackArray({PackSmall(2), PackSmall(0)})},
                  {".name", PackText(symbol)},
                  {".uses_dynamic_stack", "\xc2"}});
}

inline std::string AmdDescription(std::string_view target,
                                  const std::vector<std::string>& packed_kernels) {
  return PackMap(
      {{"amdhsa.kernels", PackArray(packed_kernels)}, {"amdhsa.target", PackText(target)}});
}

// An ELF with a section for the note that holds the description.
inline std::string AmdElf(const std::string& description) {
  Elf64_Nhdr note{};
  note.n_namesz = 7;
  note.n_descsz = static_cast<Elf64_Word>(description.size());
  note.n_type = 32;
  std::string text(reinterpret_cast<const char*>(&note), sizeof note);
  text += std::string("AMDGPU\0\0", 8) + description;
  text.resize((text.size() + 3) / 4 * 4);
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_machine = 224;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shoff = sizeof header;
  header.e_shnum = 2;
  Elf64_Shdr sections[2] = {};
  sections[1].sh_type = SHT_NOTE;
  sections[1].sh_offset = sizeof header + sizeof sections;
  sections[1].sh_size = text.size();
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  bytes.append(reinterpret_cast<const char*>(sections), sizeof sections);
  return bytes + text;
}

inline std::string AmdCode(std::string_view architecture, std::string_view symbol,
                           const std::vector<unsigned>& parameters) {
  return AmdElf(AmdDescription("amdgcn-amd-amdhsa--" + std::string(architecture),
                               {PackedKernel(symbol, parameters)}));
}

// As hipcc --genco puts them together: the host's part, which is empty, and one for each.
inline std::string AmdBundle(const std::vector<std::pair<std::string, std::string>>& parts) {
  std::vector<std::pair<std::string, std::string>> all = {{"host-x86_64-unknown-linux", ""}};
  for (const auto& [architecture, code] : parts) {
    all.emplace_back("hipv4-amdgcn-amd-amdhsa--" + architecture, code);
  }
  const auto word = [](std::uint64_t number) {
    return std::string(reinterpret_cast<const char*>(&number), sizeof number);
  };
  std::uint64_t at = 24 + 8;
  for (const auto& [name, code] : all) at += 24 + name.size();
  std::string head = "__CLANG_OFFLOAD_BUNDLE__", codes;
  head += word(all.size());
  for (const auto& [name, code] : all) {
    for (const std::uint64_t number : {at + codes.size(), code.size(), name.size()}) {
      head += word(number);
    }
    head += name;
    codes += code;
  }
  return head + codes;
}

}  // namespace assay

#endif  // ASSAY_TESTS_UNIT_USER_AMD_CODE_TESTING_H_
