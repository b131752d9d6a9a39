// A small layer over SQLite: errors are absl::Status, handles have owners, and a statement is
// prepared once and run many times.
//
// Not thread-safe: a connection and its statements belong to one thread at a time.
#ifndef ASSAY_SERVER_STORE_SQLITE_H_
#define ASSAY_SERVER_STORE_SQLITE_H_

#include <sqlite3.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace assay::server {

class Database;

// A prepared statement. Parameters and columns count from 1 and from 0, as SQLite
// counts them. Bound text and blobs must live until the statement is reset.
class Statement {
 public:
  Statement() = default;

  Statement& Bind(int parameter, std::int64_t value);
  Statement& BindText(int parameter, std::string_view value);
  Statement& BindBlob(int parameter, std::string_view value);
  Statement& BindNull(int parameter);

  // True: a row can be read. False: done, and the statement is reset.
  absl::StatusOr<bool> Step();
  // Steps to the end and resets.
  absl::Status Run();
  void Reset();

  std::int64_t Int(int column) const;
  std::string_view Bytes(int column) const;  // text or blob; until the next step
  bool IsNull(int column) const;

 private:
  friend class Database;
  struct Finalize {
    void operator()(sqlite3_stmt* s) const { sqlite3_finalize(s); }
  };
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  const Database* database_ = nullptr;
};

// Resets a statement when a scope that reads from it is left.
class ScopedReset {
 public:
  explicit ScopedReset(Statement& statement) : statement_(statement) {}
  ~ScopedReset() { statement_.Reset(); }
  ScopedReset(const ScopedReset&) = delete;
  ScopedReset& operator=(const ScopedReset&) = delete;

 private:
  Statement& statement_;
};

class Database {
 public:
  static absl::StatusOr<std::unique_ptr<Database>> Open(const std::string& path, int flags);

  absl::Status Exec(const char* sql);
  absl::StatusOr<Statement> Prepare(std::string_view sql);
  // Prepares each statement. Returns the first failure.
  absl::Status PrepareAll(std::initializer_list<std::pair<Statement*, const char*>> statements);
  // The one number a query gives, such as that of a pragma.
  absl::StatusOr<std::int64_t> Number(std::string_view sql);

  // How long a statement waits for another connection of this process.
  static constexpr std::chrono::milliseconds kPatience{10'000};
  void SetPatience(std::chrono::milliseconds patience);

  // From now on a statement ends with CANCELLED soon after `*stop` has become true. It must outlive
  // the database.
  void EndWhen(std::atomic<bool>* stop);

  bool in_transaction() const { return sqlite3_get_autocommit(db_.get()) == 0; }

  // The status of the last failure: RESOURCE_EXHAUSTED where the disk is full,
  // PERMISSION_DENIED, ALREADY_EXISTS for a constraint, DATA_LOSS for a damaged
  // file, CANCELLED (EndWhen), else INTERNAL; the message has the path and SQLite's reason.
  absl::Status Error(int code) const;

 private:
  struct Close {
    void operator()(sqlite3* db) const { sqlite3_close_v2(db); }
  };
  Database(std::string path, sqlite3* db) : path_(std::move(path)), db_(db) {}

  std::string path_;
  std::unique_ptr<sqlite3, Close> db_;
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_STORE_SQLITE_H_
