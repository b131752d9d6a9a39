#include "kernels/providers/user/code_object.h"

#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>

#include "absl/status/status.h"
#include "kernels/providers/user/demangle.h"
#include "kernels/providers/user/elf_file.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

constexpr std::size_t kMostKernels = 1'000;
constexpr std::size_t kMostListed = 8;  // in a message

bool IsWord(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '$' || c == '%';
}

bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// PTX without its comments, word by word.
class PtxWords {
 public:
  explicit PtxWords(std::string_view text) : rest_(text) {}

  // A word, which may begin with '.', or one other character. Empty at the end.
  std::string_view Next() {
    SkipBlanksAndComments();
    std::size_t end = 0;
    if (end < rest_.size() && rest_[end] == '.') ++end;
    while (end < rest_.size() && IsWord(rest_[end])) ++end;
    return Take(std::min(std::max<std::size_t>(end, 1), rest_.size()));
  }

 private:
  std::string_view Take(std::size_t n) {
    const std::string_view taken = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return taken;
  }
  void SkipTo(std::string_view end) {
    const std::size_t at = rest_.find(end);
    rest_.remove_prefix(at == rest_.npos ? rest_.size() : at + end.size());
  }
  void SkipBlanksAndComments() {
    for (;;) {
      while (!rest_.empty() && IsBlank(rest_.front())) rest_.remove_prefix(1);
      if (rest_.starts_with("//")) {
        SkipTo("\n");
      } else if (rest_.starts_with("/*")) {
        SkipTo("*/");
      } else {
        return;
      }
    }
  }

  std::string_view rest_;
};

absl::Status NoCubin(std::string_view why) {
  return absl::InvalidArgumentError(
      Cat("the file is no cubin: ", why, "; make one with nvcc -cubin -arch=sm_90"));
}

// Names of sections are text that ends with 0.
std::optional<std::string_view> NameAt(const ElfFile& file, const Elf64_Shdr& names,
                                       std::uint64_t at) {
  if (at >= names.sh_size || !file.Holds(names.sh_offset, names.sh_size)) return std::nullopt;
  const std::string_view rest = file.bytes().substr(names.sh_offset + at, names.sh_size - at);
  const std::size_t end = rest.find('\0');
  return end == rest.npos ? std::nullopt : std::optional(rest.substr(0, end));
}

// The name as the source has it, without return type, parameters and blanks.
std::string NameInSource(const std::string& symbol) {
  const std::optional<std::string> text = Demangled(symbol);
  if (!text) return symbol;
  std::string_view name = *text;
  int depth = 0;
  for (std::size_t i = name.size(); i-- > 0 && name.ends_with(')');) {
    if (name[i] == ')') ++depth;
    if (name[i] == '(' && --depth == 0) name = name.substr(0, i);
  }
  if (name.starts_with("void ")) name.remove_prefix(5);
  std::string plain;
  std::copy_if(name.begin(), name.end(), std::back_inserter(plain),
               [](char c) { return c != ' '; });
  return plain;
}

}  // namespace

bool IsSymbol(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), IsWord);
}

absl::StatusOr<std::vector<std::string>> KernelsOfPtx(std::string_view text) {
  PtxWords words(text);
  if (words.Next() != ".version") {
    return absl::InvalidArgumentError(
        "the file is no PTX: it must begin with .version; make it with nvcc -ptx");
  }
  std::vector<std::string> found;
  for (std::string_view word = words.Next(); !word.empty(); word = words.Next()) {
    if (word != ".entry") continue;
    const std::string_view name = words.Next();
    if (!IsSymbol(name) || found.size() == kMostKernels) {
      return absl::InvalidArgumentError("the file is no PTX: .entry without a name, or too many");
    }
    found.emplace_back(name);
  }
  return found;
}

absl::StatusOr<std::vector<std::string>> KernelsOfCubin(std::string_view bytes) {
  const ElfFile file(bytes);
  const auto header = file.At<Elf64_Ehdr>(0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return NoCubin("it is no ELF");
  if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_machine != EM_CUDA) {
    return NoCubin("it is for another processor");
  }
  if (header->e_shentsize != sizeof(Elf64_Shdr)) return NoCubin("its sections are malformed");
  const auto names = file.Section(*header, header->e_shstrndx);
  if (!names || !file.IsWhole(*header)) return NoCubin("it is truncated");
  std::vector<std::string> found;
  // Every kernel has such a section for its parameters; functions that kernels call have none.
  constexpr std::string_view kOfKernel = ".nv.constant0.";
  for (std::uint64_t i = 0; i < header->e_shnum; ++i) {
    const auto one = file.Section(*header, i);
    const auto name = one ? NameAt(file, *names, one->sh_name) : std::nullopt;
    if (!name) return NoCubin("it is truncated");
    if (one->sh_type != SHT_PROGBITS || !name->starts_with(kOfKernel)) continue;
    const std::string_view symbol = name->substr(kOfKernel.size());
    if (!IsSymbol(symbol)) return NoCubin("it has a function without a name");
    if (found.size() == kMostKernels) return NoCubin("it has too many kernels");
    found.emplace_back(symbol);
  }
  return found;
}

absl::StatusOr<std::string> ChooseKernel(const std::vector<std::string>& symbols,
                                         std::string_view entry) {
  if (symbols.empty()) return absl::InvalidArgumentError("the file has no kernel");
  if (entry.empty() && symbols.size() == 1) return symbols.front();
  std::string plain;
  std::copy_if(entry.begin(), entry.end(), std::back_inserter(plain),
               [](char c) { return c != ' '; });
  for (const std::string& symbol : symbols) {
    if (symbol == entry || (!plain.empty() && NameInSource(symbol) == plain)) return symbol;
  }
  std::vector<std::string> listed;
  for (const std::string& symbol : symbols) {
    if (listed.size() == kMostListed) break;
    listed.push_back(NameInSource(symbol));
  }
  const char* const more = symbols.size() > kMostListed ? ", …" : "";
  return absl::InvalidArgumentError(
      entry.empty() ? Cat("the file has several kernels (", Join(listed, ", "), more,
                          "); say which one: --kernel-entry NAME, or the key entry of the launch "
                          "description")
                    : Cat("the file has no kernel ", entry, "; it has ", Join(listed, ", "), more));
}

}  // namespace assay::kernels
