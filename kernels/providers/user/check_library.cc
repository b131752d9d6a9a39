#include "kernels/providers/user/check_library.h"

#include <elf.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "kernels/providers/user/elf_file.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

#if defined(__x86_64__)
constexpr std::uint16_t kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr std::uint16_t kMachine = EM_AARCH64;
#elif defined(__powerpc64__)
constexpr std::uint16_t kMachine = EM_PPC64;
#elif defined(__riscv)
constexpr std::uint16_t kMachine = EM_RISCV;
#else
#error "add the ELF number of this processor"
#endif

std::string MachineName(std::uint16_t machine) {
  switch (machine) {
    case EM_X86_64:
      return "x86-64";
    case EM_AARCH64:
      return "aarch64";
    case EM_386:
      return "x86 (32 bit)";
    case EM_ARM:
      return "arm (32 bit)";
    case EM_PPC64:
      return "ppc64";
    case EM_RISCV:
      return "riscv";
    case EM_S390:
      return "s390";
    case EM_CUDA:
      return "NVIDIA's CUDA";
    case 224:
      return "AMD's GPUs";  // EM_AMDGPU, which Debian's elf.h lacks
    default:
      return Cat("processor number ", machine);
  }
}

absl::Status Wrong(std::string_view what) {
  return absl::InvalidArgumentError(Cat(what, "; build a shared library with cc -shared -fPIC"));
}

absl::Status Truncated(std::uint64_t needed, const ElfFile& file) {
  return Wrong(Cat("the file is truncated: it has ", file.bytes().size(), " bytes and must have ",
                   needed, " at least"));
}

absl::Status CheckHeader(const ElfFile& file, Elf64_Ehdr* header) {
  constexpr std::size_t kIdent = EI_NIDENT;
  const auto magic = file.At<std::array<char, SELFMAG>>(0);
  if (!magic || std::memcmp(magic->data(), ELFMAG, SELFMAG) != 0) {
    return Wrong("the file is not in the format ELF");
  }
  if (!file.Holds(0, kIdent)) return Truncated(sizeof(Elf64_Ehdr), file);
  if (file.At<std::uint8_t>(EI_CLASS) != ELFCLASS64) {
    return Wrong("it is a 32-bit file, and this machine takes 64-bit ones");
  }
  constexpr std::uint8_t kOrder =
      __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB;
  if (file.At<std::uint8_t>(EI_DATA) != kOrder) {
    return Wrong("its byte order is not this machine's");
  }
  const auto read = file.At<Elf64_Ehdr>(0);
  if (!read) return Truncated(sizeof(Elf64_Ehdr), file);
  *header = *read;
  if (header->e_machine != kMachine) {
    return Wrong(Cat("it is for ", MachineName(header->e_machine), ", and this machine is ",
                     MachineName(kMachine)));
  }
  if (header->e_type != ET_DYN) {
    return Wrong(header->e_type == ET_REL    ? "it is an object file that was not linked"
                 : header->e_type == ET_EXEC ? "it is a program"
                                             : "it is no shared library");
  }
  return absl::OkStatus();
}

absl::Status CheckSegments(const ElfFile& file, const Elf64_Ehdr& header) {
  bool dynamic = false, loads = false;
  if (header.e_phentsize != sizeof(Elf64_Phdr)) return Wrong("its program headers are malformed");
  for (std::uint64_t i = 0; i < header.e_phnum; ++i) {
    const auto segment = file.Segment(header, i);
    if (!segment) return Truncated(header.e_phoff + header.e_phnum * sizeof(Elf64_Phdr), file);
    loads = loads || segment->p_type == PT_LOAD;
    dynamic = dynamic || segment->p_type == PT_DYNAMIC;
    if (segment->p_type == PT_LOAD && !file.Holds(segment->p_offset, segment->p_filesz)) {
      return Truncated(segment->p_offset + segment->p_filesz, file);
    }
  }
  if (!loads || !dynamic) return Wrong("it has no code to load");
  return absl::OkStatus();
}

// Whether the text at `offset` is `wanted`, with its end.
bool IsText(const ElfFile& file, std::uint64_t offset, std::string_view wanted) {
  return file.Holds(offset, wanted.size() + 1) &&
         file.bytes().substr(offset, wanted.size()) == wanted &&
         file.bytes()[offset + wanted.size()] == '\0';
}

// Whether the symbol is among those that the table `symbols` defines.
bool Exports(const ElfFile& file, const Elf64_Shdr& symbols, const Elf64_Shdr& names,
             std::string_view wanted) {
  for (std::uint64_t at = 0; at + sizeof(Elf64_Sym) <= symbols.sh_size; at += sizeof(Elf64_Sym)) {
    const auto symbol = file.At<Elf64_Sym>(symbols.sh_offset + at);
    if (!symbol) return false;
    if (symbol->st_shndx == SHN_UNDEF || symbol->st_name >= names.sh_size) continue;
    if (IsText(file, names.sh_offset + symbol->st_name, wanted)) return true;
  }
  return false;
}

// Whether the file's first table of dynamic symbols defines the symbol. Nothing if there is none.
std::optional<bool> Exports(const ElfFile& file, const Elf64_Ehdr& header,
                            std::string_view wanted) {
  for (std::uint64_t i = 0; i < header.e_shnum; ++i) {
    const auto symbols = file.Section(header, i);
    if (!symbols || symbols->sh_type != SHT_DYNSYM) continue;
    const auto names = file.Section(header, symbols->sh_link);
    return names && Exports(file, *symbols, *names, wanted);
  }
  return std::nullopt;
}

absl::Status CheckSymbol(const ElfFile& file, const Elf64_Ehdr& header) {
  if (header.e_shoff == 0 || header.e_shnum == 0) return absl::OkStatus();
  const std::uint64_t table = std::uint64_t{header.e_shnum} * sizeof(Elf64_Shdr);
  if (!file.Holds(header.e_shoff, table)) return Truncated(header.e_shoff + table, file);
  if (Exports(file, header, kKernelSymbol).value_or(true)) return absl::OkStatus();
  return Wrong(Cat("it does not export ", kKernelSymbol,
                   " (in C++ it must be extern \"C\", which assay/kernel.h declares)"));
}

ElfFile FileOf(std::span<const std::byte> bytes) {
  return ElfFile({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

}  // namespace

bool ExportsSymbol(std::span<const std::byte> bytes, std::string_view symbol) {
  const ElfFile file = FileOf(bytes);
  const auto header = file.At<Elf64_Ehdr>(0);
  return header && Exports(file, *header, symbol).value_or(false);
}

absl::Status CheckLibrary(std::span<const std::byte> bytes) {
  const ElfFile file = FileOf(bytes);
  Elf64_Ehdr header{};
  absl::Status status = CheckHeader(file, &header);
  if (status.ok()) status = CheckSegments(file, header);
  if (status.ok()) status = CheckSymbol(file, header);
  return status;
}

}  // namespace assay::kernels
