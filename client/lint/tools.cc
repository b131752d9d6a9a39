#include "client/lint/tools.h"

#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/lib/program.h"

namespace assay::client {
namespace {

// The oldest that knows gfx942, and one that nobody has yet.
constexpr int kOldestLlvm = 17, kNewestLlvm = 40;
constexpr absl::Duration kWait = absl::Minutes(2);

std::vector<std::string> Folders(std::vector<std::string> further) {
  const char* path = std::getenv("PATH");
  std::vector<std::string> folders = absl::StrSplit(path == nullptr ? "" : path, ':');
  folders.insert(folders.end(), further.begin(), further.end());
  return folders;
}

// The first of the names that stands in one of the folders. Empty: none.
std::string FindProgram(const std::vector<std::string>& names,
                        const std::vector<std::string>& folders) {
  for (const std::string& name : names) {
    for (const std::string& folder : folders) {
      std::string path = absl::StrCat(folder.empty() ? "." : folder, "/", name);
      if (access(path.c_str(), X_OK) == 0) return path;
    }
  }
  return "";
}

// What JSON of llvm-readobj calls a name may be text, or an object with the text.
std::string NameOf(const nlohmann::json& name) {
  if (name.is_string()) return name.get<std::string>();
  return name.is_object() ? name.value("Name", "") : "";
}

ElfSection SectionOf(const nlohmann::json& json) {
  ElfSection section;
  section.name = NameOf(json.at("Name"));
  section.size = json.value("Size", std::int64_t{0});
  if (!json.contains("SectionData")) return section;
  for (const nlohmann::json& byte : json.at("SectionData").at("Bytes")) {
    section.bytes.push_back(static_cast<char>(byte.get<int>()));
  }
  return section;
}

}  // namespace

absl::StatusOr<std::string> FindLlvm(const std::string& name) {
  std::vector<std::string> names;
  for (int version = kNewestLlvm; version >= kOldestLlvm; --version) {
    names.push_back(absl::StrCat(name, "-", version));
  }
  names.push_back(name);
  std::string path = FindProgram(names, Folders({"/opt/rocm/llvm/bin"}));
  if (!path.empty()) return path;
  return absl::NotFoundError(absl::StrCat(
      name, " is not on this machine; it is in the package llvm (17 or newer), or in ROCm"));
}

absl::StatusOr<std::string> FindPtxas() {
  std::string path = FindProgram({"ptxas"}, Folders({"/usr/local/cuda/bin"}));
  if (!path.empty()) return path;
  return absl::NotFoundError("ptxas is not on this machine; it is in the CUDA toolkit");
}

absl::StatusOr<std::string> Disassemble(const std::string& path) {
  const absl::StatusOr<std::string> objdump = FindLlvm("llvm-objdump");
  if (!objdump.ok()) return objdump.status();
  return RunProgram({*objdump, "-D", "-j", ".text", "-j", ".rodata", path}, kWait);
}

const ElfSection* ElfView::Find(std::string_view name) const {
  for (const ElfSection& section : sections) {
    if (section.name == name) return &section;
  }
  return nullptr;
}

absl::StatusOr<ElfView> ReadElf(const std::string& path) {
  const absl::StatusOr<std::string> readobj = FindLlvm("llvm-readobj");
  if (!readobj.ok()) return readobj.status();
  const absl::StatusOr<std::string> text = RunProgram(
      {*readobj, "--elf-output-style=JSON", "-h", "--sections", "--section-data", path}, kWait);
  if (!text.ok()) return text.status();
  try {
    const nlohmann::json json = nlohmann::json::parse(*text).at(0);
    const nlohmann::json& header = json.at("ElfHeader");
    ElfView view;
    view.flags = header.at("Flags").at("Value").get<std::uint32_t>();
    for (const nlohmann::json& flag : header.at("Flags").at("Flags")) {
      view.flag_names.push_back(NameOf(flag.at("Name")));
    }
    view.abi_version = header.at("Ident").at("ABIVersion").get<std::uint32_t>();
    for (const nlohmann::json& entry : json.at("Sections")) {
      view.sections.push_back(SectionOf(entry.at("Section")));
    }
    return view;
  } catch (const nlohmann::json::exception& error) {
    return absl::UnavailableError(
        absl::StrCat(*readobj, " writes JSON of another form: ", error.what()));
  }
}

}  // namespace assay::client
