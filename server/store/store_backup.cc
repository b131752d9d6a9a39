#include "server/store/store_backup.h"

#include <cerrno>
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
// What is left for the store itself while the copy is there [bytes].
constexpr std::uintmax_t kLeft = 16 << 20;

std::string PathIn(const std::string& folder) { return folder + "/assay.db.backup"; }

// A copy that does not fit would fill the disk before it fails.
absl::Status CheckRoom(Database& database, const std::string& folder) {
  const absl::StatusOr<std::int64_t> pages = database.Number("PRAGMA page_count");
  if (!pages.ok()) return pages.status();
  const absl::StatusOr<std::int64_t> bytes = database.Number("PRAGMA page_size");
  if (!bytes.ok()) return bytes.status();
  std::error_code error;
  const std::uintmax_t free = std::filesystem::space(folder, error).available;
  const auto needed = static_cast<std::uintmax_t>(*pages) * static_cast<std::uintmax_t>(*bytes);
  if (error || needed + kLeft <= free) return absl::OkStatus();
  return absl::ResourceExhaustedError(Cat("the disk of ", folder, " has ", free,
                                          " bytes free, and a copy of the store needs up to ",
                                          needed + kLeft));
}

}  // namespace

void RemoveBackup(const std::string& folder) {
  std::error_code error;
  for (const char* suffix : {"", "-journal"}) {
    std::filesystem::remove(PathIn(folder) + suffix, error);
  }
}

absl::Status BackupStore(const std::string& folder, std::atomic<bool>& stop,
                         absl::FunctionRef<absl::Status(std::string_view, std::int64_t)> write) {
  const std::string path = PathIn(folder);
  RemoveBackup(folder);
  const absl::Cleanup cleanup = [&folder] { RemoveBackup(folder); };
  {
    const absl::StatusOr<std::unique_ptr<Database>> database = OpenStoreReader(folder);
    if (!database.ok()) return database.status();
    if (absl::Status s = CheckRoom(**database, folder); !s.ok()) return s;
    (*database)->EndWhen(&stop);
    absl::StatusOr<Statement> into = (*database)->Prepare("VACUUM INTO ?1");
    if (!into.ok()) return into.status();
    absl::Status copied = into->BindText(1, path).Run();
    if (absl::IsCancelled(copied)) {
      return absl::UnavailableError("the daemon ends, and the copy of its store is not finished");
    }
    if (!copied.ok()) return copied;
  }
  std::error_code error;
  const auto bytes = static_cast<std::int64_t>(std::filesystem::file_size(path, error));
  std::ifstream file(path, std::ios::binary);
  std::string piece(kPieceBytes, '\0');
  std::int64_t left = bytes;
  while (left > 0) {
    file.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    if (file.gcount() <= 0) {
      return absl::InternalError(
          Cat("cannot read ", path, ": ", std::generic_category().message(errno)));
    }
    left -= file.gcount();
    const std::string_view read(piece.data(), static_cast<std::size_t>(file.gcount()));
    if (absl::Status s = write(read, bytes); !s.ok()) return s;
  }
  return absl::OkStatus();
}

}  // namespace assay::server
