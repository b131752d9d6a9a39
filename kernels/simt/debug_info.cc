#include "kernels/simt/debug_info.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string_view>
#include <vector>

namespace assay::inline kernels::simt {
namespace {

const char marker = 0;

const Dl_info& OwnLibrary() {
  static const Dl_info info = [] {
    Dl_info found{};
    dladdr(&marker, &found);
    return found;
  }();
  return info;
}

// The sections of the library's file.
class Library {
 public:
  Library() {
    if (OwnLibrary().dli_fname == nullptr) return;
    std::ifstream file(OwnLibrary().dli_fname, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    header_ = At<Elf64_Ehdr>(0);
  }

  // Empty if there is no such section, or if it is compressed.
  std::string_view Section(std::string_view name) const {
    const Elf64_Shdr names = Header(header_.e_shstrndx);
    for (std::size_t i = 0; i < header_.e_shnum; ++i) {
      const Elf64_Shdr section = Header(i);
      const std::string_view text = Piece(names.sh_offset, names.sh_size);
      if (section.sh_name >= text.size() || (section.sh_flags & SHF_COMPRESSED) != 0) continue;
      if (text.data() + section.sh_name == name) return Piece(section.sh_offset, section.sh_size);
    }
    return {};
  }

 private:
  template <class T>
  T At(std::uint64_t offset) const {
    T value{};
    if (offset <= bytes_.size() && sizeof(T) <= bytes_.size() - offset) {
      std::memcpy(&value, bytes_.data() + offset, sizeof(T));
    }
    return value;
  }
  Elf64_Shdr Header(std::size_t i) const {
    return At<Elf64_Shdr>(header_.e_shoff + i * sizeof(Elf64_Shdr));
  }
  std::string_view Piece(std::uint64_t offset, std::uint64_t size) const {
    if (offset > bytes_.size() || size > bytes_.size() - offset) return {};
    return {bytes_.data() + offset, size};
  }

  std::vector<char> bytes_;
  Elf64_Ehdr header_ = {};
};

// Reads numbers one after the other. Behind the end all are 0.
class Numbers {
 public:
  explicit Numbers(std::string_view bytes) : bytes_(bytes) {}

  bool ended() const { return at_ >= bytes_.size(); }
  std::size_t at() const { return at_; }
  void GoTo(std::size_t at) { at_ = at; }
  void Skip(std::uint64_t count) {
    at_ = count > bytes_.size() - at_ ? bytes_.size() : at_ + count;
  }

  template <class T>
  T Next() {
    T value{};
    if (at_ <= bytes_.size() && sizeof(T) <= bytes_.size() - at_) {
      std::memcpy(&value, bytes_.data() + at_, sizeof(T));
    }
    at_ += sizeof(T);
    return value;
  }
  std::uint64_t Unsigned() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; !ended(); shift += 7) {
      const auto byte = Next<std::uint8_t>();
      if (shift < 64) value |= std::uint64_t{byte & 0x7fU} << shift;
      if ((byte & 0x80) == 0) break;
    }
    return value;
  }
  std::int64_t Signed() {
    std::uint64_t value = 0;
    unsigned shift = 0;
    for (std::uint8_t byte = 0x80; (byte & 0x80) != 0 && !ended();) {
      byte = Next<std::uint8_t>();
      if (shift < 64) value |= std::uint64_t{byte & 0x7fU} << shift;
      shift += 7;
      if ((byte & 0xc0) == 0x40 && shift < 64) value |= ~std::uint64_t{0} << shift;
    }
    return static_cast<std::int64_t>(value);
  }
  std::string_view Text() {
    const std::size_t begin = at_;
    while (!ended() && bytes_[at_] != 0) ++at_;
    const std::string_view text = bytes_.substr(begin, at_ - begin);
    ++at_;
    return text;
  }

 private:
  const std::string_view bytes_;
  std::size_t at_ = 0;
};

// The table of lines of one compilation, a small program (DWARF 4, 6.2).
class LineProgram {
 public:
  // `unit` begins behind its version.
  explicit LineProgram(std::string_view unit) : numbers_(unit) {
    const auto header_bytes = numbers_.Next<std::uint32_t>();
    const std::size_t begin = numbers_.at() + header_bytes;
    step_ = numbers_.Next<std::uint8_t>();
    numbers_.Skip(2);  // operations an instruction, and where statements begin
    line_base_ = numbers_.Next<std::int8_t>();
    line_range_ = numbers_.Next<std::uint8_t>();
    const auto opcode_base = numbers_.Next<std::uint8_t>();
    for (int i = 1; i < opcode_base; ++i) lengths_.push_back(numbers_.Next<std::uint8_t>());
    while (!numbers_.Text().empty()) {  // folders
    }
    for (std::string_view name = numbers_.Text(); !name.empty(); name = numbers_.Text()) {
      files_.push_back(name);
      for (int i = 0; i < 3; ++i) numbers_.Unsigned();
    }
    numbers_.GoTo(begin);
  }

  // "my_gemm.cu:18" of the instruction that holds the address. Empty: it is of another unit.
  std::string Find(std::uint64_t address) {
    while (!numbers_.ended() && line_range_ != 0) {
      const auto opcode = numbers_.Next<std::uint8_t>();
      bool ends = false;
      const bool emits = Do(opcode, ends);
      if (!emits) continue;
      if (last_set_ && last_.address <= address && address < row_.address) return Text(last_);
      last_ = row_;
      last_set_ = !ends;
      if (ends) row_ = Row{};
    }
    return "";
  }

 private:
  struct Row {
    std::uint64_t address = 0;
    std::uint64_t file = 1;
    std::int64_t line = 1;
  };

  // Whether the operation makes a row.
  bool Do(unsigned opcode, bool& ends) {
    if (opcode > lengths_.size()) {
      const unsigned special = opcode - static_cast<unsigned>(lengths_.size()) - 1;
      row_.address += special / line_range_ * step_;
      row_.line += line_base_ + static_cast<int>(special % line_range_);
      return true;
    }
    switch (opcode) {
      case 0:
        return Extended(ends);
      case 1:  // copy
        return true;
      case 2:
        row_.address += numbers_.Unsigned() * step_;
        return false;
      case 3:
        row_.line += numbers_.Signed();
        return false;
      case 4:
        row_.file = numbers_.Unsigned();
        return false;
      case 8:  // adds the address of the last special operation
        row_.address += (254 - lengths_.size()) / line_range_ * step_;
        return false;
      case 9:
        row_.address += numbers_.Next<std::uint16_t>();
        return false;
      default:
        for (int i = 0; i < lengths_[opcode - 1]; ++i) numbers_.Unsigned();
        return false;
    }
  }

  bool Extended(bool& ends) {
    const std::uint64_t length = numbers_.Unsigned();
    const std::size_t next = numbers_.at() + length;
    const auto opcode = numbers_.Next<std::uint8_t>();
    if (opcode == 2) row_.address = numbers_.Next<std::uint64_t>();
    ends = opcode == 1;
    numbers_.GoTo(next);
    return ends;
  }

  std::string Text(const Row& row) const {
    if (row.file == 0 || row.file > files_.size()) return "";
    return std::string(files_[row.file - 1]) + ":" + std::to_string(row.line);
  }

  Numbers numbers_;
  unsigned step_ = 1;
  int line_base_ = 0;
  unsigned line_range_ = 0;
  std::vector<std::uint8_t> lengths_;  // operands of the standard operations
  std::vector<std::string_view> files_;
  Row row_, last_;
  bool last_set_ = false;
};

}  // namespace

std::uint32_t OffsetInLibrary(const void* address) {
  return static_cast<std::uint32_t>(static_cast<const char*>(address) -
                                    static_cast<const char*>(OwnLibrary().dli_fbase));
}

std::string SourceLineOf(std::uint32_t return_offset) {
  if (return_offset == 0) return "";
  const Library library;
  Numbers units(library.Section(".debug_line"));
  while (!units.ended()) {
    const auto length = units.Next<std::uint32_t>();
    const std::size_t begin = units.at();
    const std::string_view all = library.Section(".debug_line");
    if (length == 0xffffffff || begin + length > all.size()) return "";
    if (units.Next<std::uint16_t>() == 4) {
      // The call stands before the place to which it returns.
      const std::string found =
          LineProgram(all.substr(begin + 2, length - 2)).Find(return_offset - 1);
      if (!found.empty()) return " at " + found;
    }
    units.GoTo(begin + length);
  }
  return "";
}

ArrayByte SharedArrayAt(std::uint64_t offset) {
  const Library library;
  const std::string_view symbols = library.Section(".symtab"), names = library.Section(".strtab");
  for (std::size_t at = 0; at + sizeof(Elf64_Sym) <= symbols.size(); at += sizeof(Elf64_Sym)) {
    Elf64_Sym symbol;
    std::memcpy(&symbol, symbols.data() + at, sizeof symbol);
    if (ELF64_ST_TYPE(symbol.st_info) != STT_TLS || offset < symbol.st_value ||
        offset - symbol.st_value >= symbol.st_size || symbol.st_name >= names.size()) {
      continue;
    }
    const char* const mangled = names.data() + symbol.st_name;
    const std::unique_ptr<char, void (*)(void*)> plain(
        abi::__cxa_demangle(mangled, nullptr, nullptr, nullptr), std::free);
    const std::string name = plain == nullptr ? mangled : plain.get();
    const std::size_t scope = name.rfind("::");
    return {scope == std::string::npos ? name : name.substr(scope + 2), offset - symbol.st_value,
            symbol.st_size};
  }
  return {};
}

}  // namespace assay::kernels::simt
