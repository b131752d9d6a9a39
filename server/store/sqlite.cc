#include "server/store/sqlite.h"

#include <cerrno>
#include <system_error>
#include <utility>
#include "kernels/text/cat.h"

namespace assay::server {

Statement& Statement::Bind(int parameter, std::int64_t value) {
  sqlite3_bind_int64(statement_.get(), parameter, value);
  return *this;
}

Statement& Statement::BindText(int parameter, std::string_view value) {
  sqlite3_bind_text64(statement_.get(), parameter, value.data(), value.size(), SQLITE_STATIC,
                      SQLITE_UTF8);
  return *this;
}

Statement& Statement::BindBlob(int parameter, std::string_view value) {
  // A null pointer would bind NULL, not an empty blob.
  sqlite3_bind_blob64(statement_.get(), parameter, value.empty() ? "" : value.data(), value.size(),
                      SQLITE_STATIC);
  return *this;
}

Statement& Statement::BindNull(int parameter) {
  sqlite3_bind_null(statement_.get(), parameter);
  return *this;
}

absl::StatusOr<bool> Statement::Step() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  absl::Status status;
  if (code != SQLITE_DONE) status = database_->Error(code);
  Reset();
  if (!status.ok()) return status;
  return false;
}

absl::Status Statement::Run() {
  while (true) {
    const absl::StatusOr<bool> row = Step();
    if (!row.ok()) return row.status();
    if (!*row) return absl::OkStatus();
  }
}

void Statement::Reset() {
  sqlite3_reset(statement_.get());
  sqlite3_clear_bindings(statement_.get());
}

std::int64_t Statement::Int(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

std::string_view Statement::Bytes(int column) const {
  const void* data = sqlite3_column_blob(statement_.get(), column);
  const int size = sqlite3_column_bytes(statement_.get(), column);
  if (data == nullptr) return {};
  return {static_cast<const char*>(data), static_cast<std::size_t>(size)};
}

bool Statement::IsNull(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}

absl::StatusOr<std::unique_ptr<Database>> Database::Open(const std::string& path, int flags) {
  sqlite3* raw = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &raw, flags | SQLITE_OPEN_EXRESCODE, nullptr);
  std::unique_ptr<Database> database(new Database(path, raw));
  if (code != SQLITE_OK) return database->Error(code);
  // Readers and the writer are this process's own: a wait is a checkpoint's at most.
  database->SetPatience(kPatience);
  return database;
}

void Database::SetPatience(std::chrono::milliseconds patience) {
  sqlite3_busy_timeout(db_.get(), static_cast<int>(patience.count()));
}

void Database::EndWhen(std::atomic<bool>* stop) {
  constexpr int kSteps = 16;  // of SQLite's machine between two looks: a copy has some for each row
  sqlite3_progress_handler(
      db_.get(), kSteps,
      [](void* flag) { return static_cast<std::atomic<bool>*>(flag)->load() ? 1 : 0; }, stop);
}

absl::Status Database::Exec(const char* sql) {
  const int code = sqlite3_exec(db_.get(), sql, nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus() : Error(code);
}

absl::StatusOr<Statement> Database::Prepare(std::string_view sql) {
  sqlite3_stmt* raw = nullptr;
  const int code = sqlite3_prepare_v3(db_.get(), sql.data(), static_cast<int>(sql.size()),
                                      SQLITE_PREPARE_PERSISTENT, &raw, nullptr);
  if (code != SQLITE_OK) return Error(code);
  Statement statement;
  statement.statement_.reset(raw);
  statement.database_ = this;
  return statement;
}

absl::Status Database::PrepareAll(
    std::initializer_list<std::pair<Statement*, const char*>> statements) {
  for (const auto& [statement, sql] : statements) {
    absl::StatusOr<Statement> prepared = Prepare(sql);
    if (!prepared.ok()) return prepared.status();
    *statement = *std::move(prepared);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::int64_t> Database::Number(std::string_view sql) {
  absl::StatusOr<Statement> statement = Prepare(sql);
  if (!statement.ok()) return statement.status();
  const absl::StatusOr<bool> row = statement->Step();
  if (!row.ok()) return row.status();
  if (!*row) return absl::InternalError(Cat(path_, ": no answer to ", sql));
  return statement->Int(0);
}

absl::Status Database::Error(int code) const {
  const int system = db_ == nullptr ? 0 : sqlite3_system_errno(db_.get());
  std::string message =
      Cat(path_, ": ", db_ == nullptr ? sqlite3_errstr(code) : sqlite3_errmsg(db_.get()));
  if (system != 0) message += Cat(" (", std::generic_category().message(system), ")");
  const bool no_room = system == ENOSPC || system == EDQUOT;
  switch (code & 0xff) {
    case SQLITE_FULL:
      return absl::ResourceExhaustedError(message);
    case SQLITE_IOERR:
      return no_room ? absl::ResourceExhaustedError(message) : absl::InternalError(message);
    case SQLITE_PERM:
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
      if (no_room) return absl::ResourceExhaustedError(message);
      return absl::PermissionDeniedError(message);
    case SQLITE_CONSTRAINT:
      return absl::AlreadyExistsError(message);
    case SQLITE_INTERRUPT:
      return absl::CancelledError(message);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return absl::DataLossError(message);
    default:
      return absl::InternalError(message);
  }
}

}  // namespace assay::server
