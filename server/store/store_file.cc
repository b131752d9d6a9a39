#include "server/store/store_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "kernels/text/cat.h"
#include "server/base/log.h"

namespace assay::server {
namespace {

namespace fs = std::filesystem;

// A job's results and events are keyed by row << 24 | index or sequence: one
// B-tree each, appended in order, read in ranges.
constexpr char kSchema[] = R"sql(
CREATE TABLE jobs(
  row INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL UNIQUE,
  request_id TEXT UNIQUE,
  suite TEXT NOT NULL,
  state INTEGER NOT NULL,
  verdict INTEGER NOT NULL,
  start_time INTEGER,
  end_time INTEGER,
  last_sequence INTEGER NOT NULL DEFAULT 0,
  total INTEGER NOT NULL,
  passed INTEGER NOT NULL DEFAULT 0,
  failed INTEGER NOT NULL DEFAULT 0,
  inconclusive INTEGER NOT NULL DEFAULT 0,
  unsupported INTEGER NOT NULL DEFAULT 0,
  errors INTEGER NOT NULL DEFAULT 0,
  skipped INTEGER NOT NULL DEFAULT 0,
  findings BLOB NOT NULL,
  summary BLOB NOT NULL,
  spec BLOB);
CREATE INDEX jobs_by_state ON jobs(state);
CREATE TABLE labels(job INTEGER NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL,
  PRIMARY KEY(job, key)) WITHOUT ROWID;
CREATE TABLE plans(key INTEGER PRIMARY KEY, device TEXT NOT NULL, first_index INTEGER NOT NULL,
  required TEXT NOT NULL, cases BLOB NOT NULL);
CREATE TABLE results(key INTEGER PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE events(key INTEGER PRIMARY KEY, time INTEGER NOT NULL, result INTEGER,
  data BLOB NOT NULL);
CREATE TABLE openings(only INTEGER PRIMARY KEY CHECK(only = 1), time INTEGER NOT NULL);
PRAGMA user_version = 1;
)sql";

// From version n to n + 1, in order from 1; a new file takes them all.
constexpr const char* kMigrations[] = {
    R"sql(
CREATE TABLE baselines(row INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE,
  summary BLOB NOT NULL, results BLOB NOT NULL);
PRAGMA user_version = 2;
)sql",
};
static_assert(std::size(kMigrations) + 1 == kSchemaVersion);

// Above this a check of the file's form at every start would be felt: StoreCheck looks through it
// while the daemon serves.
constexpr std::uintmax_t kCheckedBytes = std::uintmax_t{256} << 20;

// Space for the store's journal and its index, and for the deletion of many jobs.
constexpr off_t kRoomBytes = 4 << 20;
// The disk must have this many times as much before any is set aside.
constexpr std::uintmax_t kFarMore = 16;

std::string DatabasePath(const std::string& folder) { return folder + "/assay.db"; }

absl::Status CheckWhole(Database& database, const std::string& path) {
  std::error_code error;
  if (fs::file_size(path, error) > kCheckedBytes && !error) return absl::OkStatus();
  absl::StatusOr<Statement> check = database.Prepare("PRAGMA quick_check(1)");
  if (!check.ok()) return check.status();
  const absl::StatusOr<bool> row = check->Step();
  if (!row.ok()) return row.status();
  if (*row && check->Bytes(0) == "ok") return absl::OkStatus();
  return absl::DataLossError(Cat(path, ": ", *row ? check->Bytes(0) : "no answer"));
}

// A copy of the file as the earlier version left it, unless there is one.
absl::Status CopyBefore(Database& database, std::int64_t version, const std::string& path) {
  const std::string copy = Cat(path, ".v", version);
  if (fs::exists(copy)) return absl::OkStatus();
  const std::string half = copy + ".part";
  std::error_code error;
  fs::remove(half, error);
  absl::StatusOr<Statement> into = database.Prepare("VACUUM INTO ?1");
  if (!into.ok()) return into.status();
  if (absl::Status s = into->BindText(1, half).Run(); !s.ok()) {
    fs::remove(half, error);
    return absl::Status(s.code(), Cat("cannot copy the store to ", copy,
                                      " before it is brought up to date: ", s.message()));
  }
  fs::rename(half, copy, error);
  if (error) {
    return absl::PermissionDeniedError(
        Cat("cannot rename ", half, " to ", copy, ": ", error.message()));
  }
  Log(LogLevel::kInfo, "store.copied", {{"to", copy}, {"schema", version}});
  return absl::OkStatus();
}

absl::Status BringUpToDate(Database& database, const std::string& path) {
  const absl::StatusOr<std::int64_t> version = database.Number("PRAGMA user_version");
  if (!version.ok()) return version.status();
  if (*version == kSchemaVersion) return absl::OkStatus();
  if (*version > kSchemaVersion) {
    return absl::FailedPreconditionError(
        Cat(path, " was written by a newer version (schema ", *version, ", this one knows up to ",
            kSchemaVersion, "): run the newer assayd, or choose another --state-dir"));
  }
  const absl::StatusOr<std::int64_t> tables = database.Number("SELECT count(*) FROM sqlite_master");
  if (!tables.ok()) return tables.status();
  if (*version < 0 || (*version == 0 && *tables != 0)) {
    return absl::FailedPreconditionError(
        Cat(path, " is a database, but no store of assayd: choose another --state-dir"));
  }
  if (*version > 0) {
    if (absl::Status s = CopyBefore(database, *version, path); !s.ok()) return s;
  }
  if (absl::Status s = database.Exec("BEGIN IMMEDIATE"); !s.ok()) return s;
  if (*version == 0) {
    if (absl::Status s = database.Exec(kSchema); !s.ok()) return s;
  }
  for (std::int64_t from = std::max<std::int64_t>(*version, 1); from < kSchemaVersion; ++from) {
    if (absl::Status s = database.Exec(kMigrations[from - 1]); !s.ok()) return s;
  }
  return database.Exec("COMMIT");
}

absl::StatusOr<std::unique_ptr<Database>> OpenOnce(const StoreOptions& options,
                                                   const std::string& path) {
  absl::StatusOr<std::unique_ptr<Database>> opened =
      Database::Open(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX);
  if (!opened.ok()) return opened.status();
  Database& database = **opened;
  const std::string settings =
      // The first counts for a new file only: an earlier one would have to be written anew.
      Cat("PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL; PRAGMA journal_size_limit "
          "= 67108864; PRAGMA synchronous = ",
          options.sync == StoreSync::kFull ? "FULL" : "NORMAL", ";",
          options.max_bytes > 0
              ? Cat("PRAGMA max_page_count = ", std::max<std::int64_t>(1, options.max_bytes / 4096))
              : "");
  // The version first: a newer file must not be touched, not even its journal mode.
  const absl::StatusOr<std::int64_t> version = database.Number("PRAGMA user_version");
  if (!version.ok()) return version.status();
  if (*version <= kSchemaVersion) {
    if (absl::Status s = database.Exec(settings.c_str()); !s.ok()) return s;
    if (absl::Status s = CheckWhole(database, path); !s.ok()) return s;
  }
  if (absl::Status s = BringUpToDate(database, path); !s.ok()) return s;
  absl::StatusOr<Statement> probe =
      database.Prepare("INSERT OR REPLACE INTO openings(only, time) VALUES(1, ?1)");
  if (!probe.ok()) return probe.status();
  if (absl::Status s = probe->Bind(1, absl::GetCurrentTimeNanos()).Run(); !s.ok()) return s;
  return opened;
}

constexpr std::string_view kAside = ".corrupt-";

// Whether a damaged file lies there that an earlier start moved aside. Nobody has looked at it, or
// it would be gone.
bool LiesAside(const std::string& folder) {
  const std::string prefix = Cat(fs::path(DatabasePath(folder)).filename().string(), kAside);
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix) || name.ends_with("-wal") || name.ends_with("-shm")) continue;
    Log(LogLevel::kWarn, "store.damaged_aside",
        {{"file", entry.path().string()}, {"advice", "remove it when nobody needs it"}});
    return true;
  }
  return false;
}

// Renames the file and its journal; returns the new name.
absl::StatusOr<std::string> MoveAside(const std::string& path) {
  const std::string stem =
      Cat(path, kAside, absl::FormatTime("%Y%m%dT%H%M%SZ", absl::Now(), absl::UTCTimeZone()));
  std::string target = stem;
  for (int n = 2; fs::exists(target); ++n) target = Cat(stem, "-", n);
  for (const char* suffix : {"-wal", "-shm", ""}) {
    std::error_code error;
    fs::rename(path + suffix, target + suffix, error);
    if (error && error != std::errc::no_such_file_or_directory) {
      return absl::PermissionDeniedError(Cat("cannot move the damaged ", path, suffix, " aside to ",
                                             target, suffix, ": ", error.message()));
    }
  }
  return target;
}

}  // namespace

absl::StatusOr<std::unique_ptr<FolderLock>> FolderLock::Take(const std::string& folder) {
  const std::string path = folder + "/assay.lock";
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) {
    return absl::PermissionDeniedError(Cat("cannot write in the state folder ", folder, ": ",
                                           std::generic_category().message(errno)));
  }
  std::unique_ptr<FolderLock> lock(new FolderLock(fd));
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    char text[32] = {};
    const ssize_t size = pread(fd, text, sizeof text - 1, 0);
    std::int64_t pid = 0;
    const bool known = size > 0 && absl::SimpleAtoi(text, &pid);
    return absl::FailedPreconditionError(Cat("the state folder ", folder,
                                             " is in use by another assayd (pid ",
                                             known ? Cat(pid) : "unknown", ")"));
  }
  // For the message above only: the lock is flock's, and a failure here changes nothing.
  const std::string pid = Cat(getpid(), "\n");
  if (ftruncate(fd, 0) != 0 || pwrite(fd, pid.data(), pid.size(), 0) < 0) {
    Log(LogLevel::kWarn, "store.lock_unsigned",
        {{"path", path}, {"reason", std::generic_category().message(errno)}});
  }
  return lock;
}

FolderLock::~FolderLock() { close(fd_); }

Room::Room(const std::string& folder) : path_(folder + "/assay.reserve") {
  std::error_code error;
  kept_ = fs::file_size(path_, error) >= kRoomBytes && !error;
  if (kept_) return;
  struct statvfs disk {};
  if (statvfs(folder.c_str(), &disk) != 0) return;
  const std::uintmax_t free = std::uintmax_t{disk.f_bavail} * disk.f_frsize;
  if (free < kFarMore * kRoomBytes) return;
  given_ = true;
  if (!Take()) given_ = false;  // a file system that cannot set space aside
}

bool Room::Give() {
  if (!kept_) return false;
  std::error_code error;
  kept_ = !fs::remove(path_, error);
  given_ = !kept_;
  return given_;
}

bool Room::Take() {
  if (!given_) return true;
  const int fd = open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  const bool taken = fd >= 0 && fallocate(fd, 0, 0, kRoomBytes) == 0;
  if (fd >= 0) close(fd);
  if (!taken) {
    std::error_code error;
    fs::remove(path_, error);
    return false;
  }
  given_ = false;
  return kept_ = true;
}

absl::StatusOr<std::unique_ptr<Database>> OpenStoreFile(const StoreOptions& options, Room& room,
                                                        std::vector<std::string>& notices,
                                                        StoreState& state) {
  const std::string path = DatabasePath(options.folder);
  absl::StatusOr<std::unique_ptr<Database>> opened = OpenOnce(options, path);
  if (absl::IsResourceExhausted(opened.status()) && room.Give()) {
    state.full = std::string(opened.status().message());
    Log(LogLevel::kError, "store.full", {{"reason", state.full}});
    opened = OpenOnce(options, path);
  }
  if (opened.ok()) state.damaged = LiesAside(options.folder);
  if (opened.ok() || !absl::IsDataLoss(opened.status())) return opened;
  const std::string damage(opened.status().message());
  absl::StatusOr<std::string> aside = MoveAside(path);
  if (!aside.ok()) return aside.status();
  state.damaged = true;
  notices.push_back(Cat("the store was damaged (", damage, "); it was moved to ", *aside,
                        " and an empty one begun: earlier jobs are only in that file"));
  Log(LogLevel::kError, "store.damaged", {{"message", notices.back()}});
  return OpenOnce(options, path);
}

absl::StatusOr<std::unique_ptr<Database>> OpenStoreReader(const std::string& folder) {
  return Database::Open(DatabasePath(folder), SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX);
}

}  // namespace assay::server
