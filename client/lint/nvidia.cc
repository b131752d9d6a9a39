#include "client/lint/nvidia.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "client/lib/program.h"
#include "client/lint/kernel_name.h"

namespace assay::client {
namespace {

// Of every card from sm_50 on. From the CUDA programming guide, compute capabilities.
constexpr std::int64_t kRegistersABlock = 65536;
constexpr std::int64_t kStaticSharedBytes = 48 << 10;
constexpr std::int64_t kReservedSharedBytes = 1024;  // of the system, from sm_80 on
constexpr std::int64_t kRegisterGranule = 8;
constexpr std::int64_t kWarp = 32;

// Attributes of the sections .nv.info and .nv.info.KERNEL.
constexpr int kMaxThreads = 0x05, kRequiredThreads = 0x10, kFrameSize = 0x11,
              kParameterBytes = 0x19, kRegisterCount = 0x2f;

struct Attribute {
  int id = 0;
  std::vector<std::uint32_t> words;  // of its value
};

template <class T>
T At(absl::string_view bytes, std::size_t at) {
  T value{};
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// Form 4 has a size and a value; all others have their value in the two bytes after the id.
std::vector<Attribute> AttributesOf(absl::string_view bytes) {
  std::vector<Attribute> all;
  std::size_t at = 0;
  while (at + 4 <= bytes.size()) {
    Attribute attribute{static_cast<unsigned char>(bytes[at + 1]), {}};
    const auto half = At<std::uint16_t>(bytes, at + 2);
    const bool sized = bytes[at] == 4;
    at += 4;
    if (sized) {
      if (half > bytes.size() - at) break;
      for (std::size_t i = 0; i + 4 <= half; i += 4) {
        attribute.words.push_back(At<std::uint32_t>(bytes, at + i));
      }
      at += half;
    } else {
      attribute.words.push_back(half);
    }
    all.push_back(std::move(attribute));
  }
  return all;
}

// The names of the symbols, by their number.
std::vector<std::string> SymbolNames(const ElfView& elf) {
  constexpr std::size_t kEntryBytes = 24;
  const ElfSection* const symbols = elf.Find(".symtab");
  const ElfSection* const names = elf.Find(".strtab");
  std::vector<std::string> all;
  if (symbols == nullptr || names == nullptr) return all;
  for (std::size_t at = 0; at + kEntryBytes <= symbols->bytes.size(); at += kEntryBytes) {
    const auto name = At<std::uint32_t>(symbols->bytes, at);
    all.emplace_back(name < names->bytes.size() ? names->bytes.c_str() + name : "");
  }
  return all;
}

// Threads of a block at most, from a list of its three extents. Nothing where none is given. A
// damaged file may give any extents.
std::optional<std::int64_t> Threads(const std::vector<std::uint32_t>& extents) {
  constexpr std::int64_t kMost = std::int64_t{1} << 20;
  if (extents.size() < 3) return std::nullopt;
  std::int64_t threads = 1;
  for (std::size_t i = 0; i < 3; ++i) {
    threads = std::min(threads * std::min<std::int64_t>(extents[i], kMost), kMost);
  }
  return threads;
}

void Add(LintedKernel& kernel, LintSeverity severity, const char* rule, std::string message) {
  kernel.findings.push_back({severity, rule, std::move(message)});
}

// What holds for a kernel however its figures were read.
void HoldResources(LintedKernel& kernel) {
  const auto figure = [&](const char* name) {
    const auto found = kernel.resources.find(name);
    return found == kernel.resources.end() ? 0 : found->second;
  };
  const std::int64_t registers =
      (figure("registers") + kRegisterGranule - 1) / kRegisterGranule * kRegisterGranule;
  const std::int64_t threads = (figure("threads") + kWarp - 1) / kWarp * kWarp;
  if (registers * threads > kRegistersABlock) {
    Add(kernel, LintSeverity::kError, "registers",
        absl::StrCat("a block of ", figure("threads"), " threads with ", figure("registers"),
                     " registers each needs ", registers * threads, " of ", kRegistersABlock,
                     ": give the compiler __launch_bounds__ or -maxrregcount"));
  }
  if (figure("shared_bytes") > kStaticSharedBytes) {
    Add(kernel, LintSeverity::kError, "shared",
        absl::StrCat(figure("shared_bytes"), " bytes of static shared memory, of ",
                     kStaticSharedBytes, ": ask for more at the launch, as dynamic shared memory"));
  }
  const std::int64_t spilt = figure("spill_store_bytes") + figure("spill_load_bytes");
  if (spilt > 0) {
    Add(kernel, LintSeverity::kWarning, "spills",
        absl::StrCat("registers are spilt: ", figure("spill_store_bytes"), " bytes of stores and ",
                     figure("spill_load_bytes"), " of loads a thread, in device memory"));
  } else if (figure("local_bytes") > 0) {
    Add(kernel, LintSeverity::kWarning, "local",
        absl::StrCat(figure("local_bytes"),
                     " bytes of local memory a thread: an array is indexed by "
                     "a variable, or registers are spilt; it is device memory"));
  }
}

std::string CubinTarget(const ElfView& elf) {
  // From ABI 8 on the number of the architecture has moved up by a byte.
  const std::uint32_t number = elf.abi_version >= 8 ? elf.flags >> 8 & 0xff : elf.flags & 0xff;
  return absl::StrCat("sm_", number);
}

// "sm_90a" → 90. 0: it is none.
int NumberOf(const std::string& target) {
  absl::string_view text = target;
  int number = 0;
  if (!absl::ConsumePrefix(&text, "sm_")) return 0;
  while (!text.empty() && absl::ascii_isalpha(static_cast<unsigned char>(text.back()))) {
    text.remove_suffix(1);
  }
  return absl::SimpleAtoi(text, &number) ? number : 0;
}

// The number before a word: "96 bytes spill stores" has 96 before " bytes spill stores".
std::int64_t NumberBefore(absl::string_view line, absl::string_view word) {
  const std::size_t at = line.find(word);
  if (at == absl::string_view::npos) return 0;
  const std::vector<absl::string_view> words =
      absl::StrSplit(line.substr(0, at), absl::ByAnyChar(" ,"), absl::SkipEmpty());
  std::int64_t number = 0;
  if (!words.empty() && absl::SimpleAtoi(words.back(), &number)) return number;
  return 0;
}

}  // namespace

absl::StatusOr<std::vector<LintedKernel>> HoldCubin(const ElfView& elf) {
  constexpr absl::string_view kText = ".text.", kInfo = ".nv.info.", kShared = ".nv.shared.";
  std::map<std::string, LintedKernel> kernels;
  for (const ElfSection& section : elf.sections) {
    absl::string_view name = section.name;
    if (!absl::ConsumePrefix(&name, kText)) continue;
    LintedKernel& kernel = kernels[std::string(name)];
    kernel.name = KernelName(std::string(name));
    kernel.target = CubinTarget(elf);
  }
  const std::vector<std::string> symbols = SymbolNames(elf);
  if (const ElfSection* const all = elf.Find(".nv.info")) {
    for (const Attribute& attribute : AttributesOf(all->bytes)) {
      if (attribute.words.size() < 2 || attribute.words[0] >= symbols.size()) continue;
      const auto found = kernels.find(symbols[attribute.words[0]]);
      if (found == kernels.end()) continue;
      if (attribute.id == kRegisterCount) found->second.resources["registers"] = attribute.words[1];
      if (attribute.id == kFrameSize) found->second.resources["local_bytes"] = attribute.words[1];
    }
  }
  for (auto& [symbol, kernel] : kernels) {
    if (const ElfSection* const own = elf.Find(absl::StrCat(kInfo, symbol))) {
      for (const Attribute& attribute : AttributesOf(own->bytes)) {
        const bool bounds = attribute.id == kMaxThreads || attribute.id == kRequiredThreads;
        if (const auto threads = Threads(attribute.words); bounds && threads) {
          kernel.resources["threads"] = *threads;
        }
        if (attribute.id == kParameterBytes && !attribute.words.empty()) {
          kernel.resources["argument_bytes"] = attribute.words.front() & 0xffff;
        }
      }
    }
    if (const ElfSection* const shared = elf.Find(absl::StrCat(kShared, symbol))) {
      const bool reserves = NumberOf(kernel.target) >= 80;
      kernel.resources["shared_bytes"] =
          std::max<std::int64_t>(shared->size - (reserves ? kReservedSharedBytes : 0), 0);
    }
    HoldResources(kernel);
  }
  std::vector<LintedKernel> all;
  all.reserve(kernels.size());
  for (auto& [symbol, kernel] : kernels) all.push_back(std::move(kernel));
  return all;
}

std::vector<LintedKernel> HoldPtxas(absl::string_view said, const std::string& target) {
  constexpr absl::string_view kEntry = "entry function '", kProperties = "Function properties for ";
  std::vector<LintedKernel> kernels;
  std::string symbol;      // of the last kernel
  bool of_kernel = false;  // what follows is about it, and not about a function that it calls
  for (const absl::string_view line : absl::StrSplit(said, '\n')) {
    if (const std::size_t entry = line.find(kEntry); entry != absl::string_view::npos) {
      const absl::string_view name = line.substr(entry + kEntry.size());
      symbol = std::string(name.substr(0, name.find('\'')));
      LintedKernel& kernel = kernels.emplace_back();
      kernel.name = KernelName(symbol);
      kernel.target = target;
    }
    if (kernels.empty()) continue;
    std::map<std::string, std::int64_t>& figures = kernels.back().resources;
    if (const std::size_t at = line.find(kProperties); at != absl::string_view::npos) {
      of_kernel = absl::StripAsciiWhitespace(line.substr(at + kProperties.size())) == symbol;
    }
    if (of_kernel && line.find("bytes stack frame") != absl::string_view::npos) {
      figures["local_bytes"] = NumberBefore(line, " bytes stack frame");
      figures["spill_store_bytes"] = NumberBefore(line, " bytes spill stores");
      figures["spill_load_bytes"] = NumberBefore(line, " bytes spill loads");
    }
    if (line.find(" registers") == absl::string_view::npos) continue;
    figures["registers"] = NumberBefore(line, " registers");
    figures["shared_bytes"] = NumberBefore(line, " bytes smem");
  }
  for (LintedKernel& kernel : kernels) HoldResources(kernel);
  return kernels;
}

std::string TargetOfPtx(absl::string_view text) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (!absl::ConsumePrefix(&line, ".target")) continue;
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t,"), absl::SkipEmpty());
    return words.empty() ? "" : std::string(words.front());
  }
  return "";
}

std::string TargetFault(const std::string& target, const std::string& arch, bool ptx) {
  const int has = NumberOf(target), wants = NumberOf(arch);
  const bool only_there = !target.empty() && target.back() == 'a';
  const bool runs = only_there ? has == wants
                    : ptx      ? has <= wants
                               : has / 10 == wants / 10 && has <= wants;
  return runs ? "" : absl::StrCat("compiled for ", target, ", which does not run on ", arch);
}

absl::StatusOr<std::vector<LintedKernel>> LintCubin(const std::string& path,
                                                    const std::string& arch) {
  const absl::StatusOr<ElfView> elf = ReadElf(path);
  if (!elf.ok()) return elf.status();
  absl::StatusOr<std::vector<LintedKernel>> kernels = HoldCubin(*elf);
  if (!kernels.ok() || arch.empty()) return kernels;
  for (LintedKernel& kernel : *kernels) {
    std::string fault = TargetFault(kernel.target, arch, /*ptx=*/false);
    if (!fault.empty()) Add(kernel, LintSeverity::kError, "target", std::move(fault));
  }
  return kernels;
}

absl::StatusOr<std::vector<LintedKernel>> LintPtx(const std::string& path, const std::string& text,
                                                  const std::string& arch) {
  const std::string own = TargetOfPtx(text);
  if (own.empty()) return absl::InvalidArgumentError("the PTX has no line \".target sm_…\"");
  const std::string fault = arch.empty() ? "" : TargetFault(own, arch, /*ptx=*/true);
  const std::string target = arch.empty() || !fault.empty() ? own : arch;
  const absl::StatusOr<std::string> ptxas = FindPtxas();
  if (!ptxas.ok()) return ptxas.status();
  const absl::StatusOr<std::string> said =
      RunProgram({"/bin/sh", "-c", "exec \"$0\" -v \"-arch=$1\" -o /dev/null \"$2\" 2>&1", *ptxas,
                  target, path},
                 absl::Minutes(2));
  if (!said.ok()) {
    // Again, for the first line of what is wrong.
    const absl::Status wrong =
        RunProgram({*ptxas, absl::StrCat("-arch=", target), "-o", "/dev/null", path},
                   absl::Minutes(2))
            .status();
    return wrong.ok() ? said.status() : absl::InvalidArgumentError(wrong.message());
  }
  std::vector<LintedKernel> kernels = HoldPtxas(*said, target);
  if (!fault.empty()) {
    for (LintedKernel& kernel : kernels) Add(kernel, LintSeverity::kError, "target", fault);
  }
  return kernels;
}

}  // namespace assay::client
