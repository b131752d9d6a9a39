#include "server/store/store_backup.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>

#include "absl/cleanup/cleanup.h"
#include "absl/status/statusor.h"
#include "kernels/text/cat.h"
#include "server/store/sqlite.h"
#include "server/store/store_file.h"

namespace assay::server {
namespace {

constexpr std::size_t kPieceBytes = 1 << 20;

}  // namespace

absl::Status BackupStore(const std::string& folder,
                         absl::FunctionRef<absl::Status(std::string_view, std::int64_t)> write) {
  const std::string path = folder + "/assay.db.backup";
  const auto remove = [&path] {
    std::error_code error;
    for (const char* suffix : {"", "-journal"}) std::filesystem::remove(path + suffix, error);
  };
  remove();  // what a daemon left that was killed
  const absl::Cleanup cleanup = remove;
  {
    const absl::StatusOr<std::unique_ptr<Database>> database = OpenStoreReader(folder);
    if (!database.ok()) return database.status();
    absl::StatusOr<Statement> into = (*database)->Prepare("VACUUM INTO ?1");
    if (!into.ok()) return into.status();
    if (absl::Status s = into->BindText(1, path).Run(); !s.ok()) return s;
  }
  std::error_code error;
  const auto bytes = static_cast<std::int64_t>(std::filesystem::file_size(path, error));
  std::ifstream file(path, std::ios::binary);
  std::string piece(kPieceBytes, '\0');
  std::int64_t left = bytes;
  while (left > 0) {
    file.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    if (file.gcount() <= 0) {
      return absl::InternalError(Cat("cannot read ", path, ": ", std::strerror(errno)));
    }
    left -= file.gcount();
    const std::string_view read(piece.data(), static_cast<std::size_t>(file.gcount()));
    if (absl::Status s = write(read, bytes); !s.ok()) return s;
  }
  return absl::OkStatus();
}

}  // namespace assay::server
