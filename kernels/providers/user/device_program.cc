#include "kernels/providers/user/device_program.h"

#include <filesystem>
#include <optional>
#include <system_error>

#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

class Lines {
 public:
  explicit Lines(std::string_view text) : rest_(text) {}

  std::optional<std::string> Next() {
    const std::size_t end = rest_.find('\n');
    if (end == rest_.npos) return std::nullopt;
    std::string line(rest_.substr(0, end));
    rest_.remove_prefix(end + 1);
    return line;
  }
  bool Take(std::string& into) {
    const std::optional<std::string> line = Next();
    if (line) into = *line;
    return line.has_value();
  }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

}  // namespace

std::string DeviceProgramFile(std::string_view library, std::string_view architecture) {
  return Cat(library.substr(0, library.rfind('/') + 1), kDeviceProgramPrefix, architecture);
}

bool HasDeviceProgram(std::string_view library) {
  std::error_code error;
  const std::filesystem::path folder(library.substr(0, library.rfind('/') + 1));
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().filename().string().starts_with(kDeviceProgramPrefix)) return true;
  }
  return false;
}

// A text a line, an empty line behind the arguments, then the image.
std::string ToBytes(const DeviceProgram& program) {
  std::string text = Cat(kDeviceProgramMark, "\n", program.name, "\n", program.symbol, "\n",
                         program.signature, "\n");
  for (const auto& extents : {program.grid, program.block}) {
    for (const std::string& extent : extents) Append(&text, extent, "\n");
  }
  Append(&text, program.shared, "\n");
  for (const std::string& argument : program.args) Append(&text, argument, "\n");
  Append(&text, "\n", program.image);
  return text;
}

absl::StatusOr<DeviceProgram> ReadDeviceProgram(std::string_view bytes) {
  Lines lines(bytes);
  DeviceProgram program;
  bool whole = lines.Next() == kDeviceProgramMark && lines.Take(program.name) &&
               lines.Take(program.symbol) && lines.Take(program.signature);
  for (std::array<std::string, 3>* extents : {&program.grid, &program.block}) {
    for (std::string& extent : *extents) whole = whole && lines.Take(extent);
  }
  whole = whole && lines.Take(program.shared);
  std::optional<std::string> argument = lines.Next();
  for (; whole && argument && !argument->empty(); argument = lines.Next()) {
    program.args.push_back(*std::move(argument));
  }
  if (!whole || !argument) {
    return absl::InvalidArgumentError("the file is no device program of this version");
  }
  program.image = std::string(lines.rest());
  return program;
}

}  // namespace assay::kernels
