// Reads the structures of a file in 64-bit ELF. Strangers make such files, so an offset or a size
// in one may be anything. Nothing outside the file's bytes is read.
//
// Any thread may use an object. It does not own the bytes.
#ifndef ASSAY_KERNELS_PROVIDERS_USER_ELF_FILE_H_
#define ASSAY_KERNELS_PROVIDERS_USER_ELF_FILE_H_

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

namespace assay::inline kernels {

class ElfFile {
 public:
  explicit ElfFile(std::string_view bytes) : bytes_(bytes) {}

  std::string_view bytes() const { return bytes_; }
  bool Holds(std::uint64_t offset, std::uint64_t size) const {
    return offset <= bytes_.size() && size <= bytes_.size() - offset;
  }
  // These give nothing if the file ends before the structure does.
  template <class T>
  std::optional<T> At(std::uint64_t offset) const {
    if (!Holds(offset, sizeof(T))) return std::nullopt;
    T value;
    std::memcpy(&value, bytes_.data() + offset, sizeof(T));
    return value;
  }
  std::optional<Elf64_Shdr> Section(const Elf64_Ehdr& header, std::uint64_t i) const {
    return At<Elf64_Shdr>(header.e_shoff + i * sizeof(Elf64_Shdr));
  }
  std::optional<Elf64_Phdr> Segment(const Elf64_Ehdr& header, std::uint64_t i) const {
    return At<Elf64_Phdr>(header.e_phoff + i * sizeof(Elf64_Phdr));
  }
  // Whether all that the header speaks of is in the file: a driver reads it, and is not told the
  // size.
  bool IsWhole(const Elf64_Ehdr& header) const {
    for (std::uint64_t i = 0; i < header.e_shnum; ++i) {
      const auto section = Section(header, i);
      if (!section) return false;
      if (section->sh_type == SHT_NOBITS || section->sh_type == SHT_NULL) continue;
      if (!Holds(section->sh_offset, section->sh_size)) return false;
    }
    if (header.e_phnum > 0 && header.e_phentsize != sizeof(Elf64_Phdr)) return false;
    for (std::uint64_t i = 0; i < header.e_phnum; ++i) {
      const auto segment = Segment(header, i);
      if (!segment || !Holds(segment->p_offset, segment->p_filesz)) return false;
    }
    return true;
  }

 private:
  const std::string_view bytes_;
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_PROVIDERS_USER_ELF_FILE_H_
