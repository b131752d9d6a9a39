#include "kernels/providers/user/check_library.h"

#include <elf.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "kernels/text/cat.h"

namespace assay {
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

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  // Whether the file holds these bytes. Offsets come from the file and may be anything.
  bool Holds(std::uint64_t offset, std::uint64_t size) const {
    return offset <= bytes_.size() && size <= bytes_.size() - offset;
  }
  template <class T>
  std::optional<T> At(std::uint64_t offset) const {
    if (!Holds(offset, sizeof(T))) return std::nullopt;
    T value;
    std::memcpy(&value, bytes_.data() + offset, sizeof(T));
    return value;
  }
  // Whether the text at `offset` is `wanted`, with its end.
  bool Is(std::uint64_t offset, std::string_view wanted) const {
    return Holds(offset, wanted.size() + 1) &&
           std::memcmp(bytes_.data() + offset, wanted.data(), wanted.size()) == 0 &&
           bytes_[offset + wanted.size()] == std::byte{0};
  }
  std::uint64_t size() const { return bytes_.size(); }

 private:
  std::span<const std::byte> bytes_;
};

absl::Status Wrong(std::string_view what) {
  return absl::InvalidArgumentError(Cat(what, "; build a shared library with cc -shared -fPIC"));
}

absl::Status Truncated(std::uint64_t needed, const Reader& file) {
  return Wrong(Cat("the file is truncated: it has ", file.size(), " bytes and must have ", needed,
                   " at least"));
}

absl::Status CheckHeader(const Reader& file, Elf64_Ehdr* header) {
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

absl::Status CheckSegments(const Reader& file, const Elf64_Ehdr& header) {
  bool dynamic = false, loads = false;
  if (header.e_phentsize != sizeof(Elf64_Phdr)) return Wrong("its program headers are malformed");
  for (std::uint64_t i = 0; i < header.e_phnum; ++i) {
    const auto segment = file.At<Elf64_Phdr>(header.e_phoff + i * sizeof(Elf64_Phdr));
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

// Whether the symbol is among those that the table of `section` defines.
bool Exports(const Reader& file, const Elf64_Shdr& symbols, const Elf64_Shdr& names,
             std::string_view wanted) {
  for (std::uint64_t at = 0; at + sizeof(Elf64_Sym) <= symbols.sh_size; at += sizeof(Elf64_Sym)) {
    const auto symbol = file.At<Elf64_Sym>(symbols.sh_offset + at);
    if (!symbol) return false;
    if (symbol->st_shndx == SHN_UNDEF || symbol->st_name >= names.sh_size) continue;
    if (file.Is(names.sh_offset + symbol->st_name, wanted)) return true;
  }
  return false;
}

absl::Status CheckSymbol(const Reader& file, const Elf64_Ehdr& header) {
  if (header.e_shoff == 0 || header.e_shnum == 0) return absl::OkStatus();
  const std::uint64_t table = std::uint64_t{header.e_shnum} * sizeof(Elf64_Shdr);
  if (!file.Holds(header.e_shoff, table)) return Truncated(header.e_shoff + table, file);
  const auto section = [&](std::uint64_t i) {
    return file.At<Elf64_Shdr>(header.e_shoff + i * sizeof(Elf64_Shdr));
  };
  for (std::uint64_t i = 0; i < header.e_shnum; ++i) {
    const auto symbols = section(i);
    if (!symbols || symbols->sh_type != SHT_DYNSYM) continue;
    const auto names = section(symbols->sh_link);
    if (names && Exports(file, *symbols, *names, kKernelSymbol)) return absl::OkStatus();
    return Wrong(Cat("it does not export ", kKernelSymbol,
                     " (in C++ it must be extern \"C\", which assay/kernel.h declares)"));
  }
  return absl::OkStatus();
}

}  // namespace

bool ExportsSymbol(std::span<const std::byte> bytes, std::string_view symbol) {
  const Reader file(bytes);
  const auto header = file.At<Elf64_Ehdr>(0);
  const auto section = [&](std::uint64_t i) {
    return file.At<Elf64_Shdr>(header->e_shoff + i * sizeof(Elf64_Shdr));
  };
  for (std::uint64_t i = 0; header && i < header->e_shnum; ++i) {
    const auto symbols = section(i);
    if (!symbols || symbols->sh_type != SHT_DYNSYM) continue;
    const auto names = section(symbols->sh_link);
    return names && Exports(file, *symbols, *names, symbol);
  }
  return false;
}

absl::Status CheckLibrary(std::span<const std::byte> bytes) {
  const Reader file(bytes);
  Elf64_Ehdr header{};
  absl::Status status = CheckHeader(file, &header);
  if (status.ok()) status = CheckSegments(file, header);
  if (status.ok()) status = CheckSymbol(file, header);
  return status;
}

}  // namespace assay
