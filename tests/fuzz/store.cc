#include "server/store/store.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "kernels/text/cat.h"
#include "server/base/log.h"
#include "server/store/store_check.h"
#include "server/store/store_file.h"
#include "server/store/store_reader.h"
#include "tests/fuzz/fuzz.h"

namespace assay::fuzz {
namespace {

using namespace server;
namespace fs = std::filesystem;

std::string ReadFile(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Gives a file these bytes. Only blocks that differ are written: most inputs change few.
void WriteFile(const fs::path& path, std::string_view bytes) {
  constexpr std::size_t kBlock = 4096;
  static std::string held;  // keeps its memory
  held.resize(bytes.size());
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  Require(fd >= 0, "cannot open a file of the store");
  const ssize_t has = pread(fd, held.data(), held.size(), 0);
  Require(has >= 0 && ftruncate(fd, static_cast<off_t>(bytes.size())) == 0, "cannot read or cut");
  held.resize(static_cast<std::size_t>(has));
  for (std::size_t at = 0; at < bytes.size(); at += kBlock) {
    const std::string_view block = bytes.substr(at, kBlock);
    if (at < held.size() && std::string_view(held).substr(at, kBlock) == block) continue;
    Require(pwrite(fd, block.data(), block.size(), static_cast<off_t>(at)) ==
                static_cast<ssize_t>(block.size()),
            "cannot write a file of the store");
  }
  close(fd);
}

// Whether a connection that is opened has the files to itself.
bool alone = false;

// SQLite calls it for each connection. One that has the files to itself keeps the index of the
// journal in its own memory, locks the file once, and leaves the journal as it is when it ends:
// a third of the time and most system calls. What SQLite does there is SQLite's own, and Use does
// without.
int Connected(sqlite3* connection, char**, const sqlite3_api_routines*) {
  if (!alone) return SQLITE_OK;
  sqlite3_db_config(connection, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  return sqlite3_exec(connection, "PRAGMA locking_mode = EXCLUSIVE", nullptr, nullptr, nullptr);
}

NewJob JobNamed(const std::string& name) {
  NewJob job;
  job.job.set_name(name);
  job.job.set_state(v1::JOB_STATE_RUNNING);
  job.plans = {{.device = "cpu:0", .cases = std::vector<v1::CaseSpec>(1)}};
  return job;
}

// An empty file with the smallest pages that SQLite has, which is a store's as well as one with
// larger pages: each input reads and writes all of it.
void MakeSmallPages(const fs::path& folder) {
  fs::create_directories(folder);
  auto made = Database::Open(folder / "assay.db", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
  Require(made.ok() && (*made)
                           ->Exec("PRAGMA page_size = 512; PRAGMA auto_vacuum = INCREMENTAL; "
                                  "PRAGMA journal_mode = WAL")
                           .ok(),
          "cannot make a file");
}

// The files of a daemon that was killed: some of its writes are in the journal only.
struct Killed {
  std::string file, journal;

  Killed() {
    SetLogLevel("error");
    sqlite3_auto_extension(reinterpret_cast<void (*)()>(Connected));
    const fs::path folder = Cat(ScratchFolder(), "/killed");
    MakeSmallPages(folder);
    auto store = Store::Open({.folder = folder.string(), .sync = StoreSync::kNormal});
    Require(store.ok(), store.status().ToString());
    for (const char* name : {"jobs/a", "jobs/b"}) {
      Require((*store)->CreateJob(JobNamed(name)).ok(), "cannot make a job");
      JobUpdate update{.name = name};
      update.events.emplace_back().mutable_case_result()->set_verdict(v1::VERDICT_PASSED);
      Require((*store)->Apply(std::move(update)).ok(), "cannot keep a result");
    }
    file = ReadFile(folder / "assay.db");
    journal = ReadFile(folder / "assay.db-wal");
    Require(!journal.empty(), "the journal is empty");
  }
};

// Changes bytes of one of the two files, or cuts it. Four bytes a change: three of a place, one of
// a value. The first byte says which file, and whether it is cut at the first place.
void DamageFiles(std::string_view bytes, std::string& file, std::string& journal) {
  std::string& changed = (bytes[0] & 1) != 0 ? file : journal;
  bool cut = (bytes[0] & 2) != 0;
  for (std::size_t at = 1; at + 4 <= bytes.size() && !changed.empty(); at += 4) {
    const auto byte = [&](std::size_t i) {
      return static_cast<std::size_t>(static_cast<unsigned char>(bytes[at + i]));
    };
    const std::size_t place = (byte(0) << 16 | byte(1) << 8 | byte(2)) % changed.size();
    if (cut) changed.resize(place);
    if (!cut) changed[place] = bytes[at + 3];
    cut = false;
  }
}

// Removes what an earlier input left, except the two files, which are written again, and the space
// that a store sets aside: it has the same bytes for every input, and takes longer to make than all
// the rest.
void Clear(const fs::path& folder) {
  fs::create_directories(folder);
  for (const auto& entry : fs::directory_iterator(folder)) {
    const fs::path name = entry.path().filename();
    if (name != "assay.db" && name != "assay.db-wal" && name != "assay.reserve") {
      fs::remove_all(entry.path());
    }
  }
}

// The damaged files in the folder of a daemon that starts.
void Write(const fs::path& folder, const std::string& file, const std::string& journal) {
  Clear(folder);
  WriteFile(folder / "assay.db", file);
  WriteFile(folder / "assay.db-wal", journal);
}

void RequireRefusal(const absl::Status& status) {
  Require(absl::IsFailedPrecondition(status), status.ToString());
}

// What a daemon does when it starts, by this thread alone and on one connection. It writes only
// that it has opened the file.
void Open(const std::string& folder, bool all) {
  Room room(folder);
  std::vector<std::string> notices;
  StoreState state;
  auto file = OpenStoreFile({.folder = folder, .sync = StoreSync::kNormal}, room, notices, state);
  if (!file.ok()) return RequireRefusal(file.status());
  const auto reader = StoreReader::Make(*std::move(file));
  if (!reader.ok()) return RequireRefusal(reader.status());
  RequireNotInternal((*reader)->ListJobs({}).status());
  (*reader)->UnfinishedJobs().status().IgnoreError();
  if (all) CheckStore(**reader, std::stop_token(), [](const Damage&) {});
}

// The same by all of a store's threads. It takes far longer: they wait for one another.
void Use(const std::string& folder) {
  auto store = Store::Open({.folder = folder, .sync = StoreSync::kNormal});
  if (!store.ok()) return RequireRefusal(store.status());
  const auto listed = (*store)->ListJobs({});
  RequireNotInternal(listed.status());
  (*store)->UnfinishedJobs().status().IgnoreError();
  const absl::Status made = (*store)->CreateJob(JobNamed("jobs/new"));
  RequireNotInternal(made);
  if (made.ok()) Require((*store)->GetJob("jobs/new").ok(), "a job that was kept is not there");
}

}  // namespace

// Whatever was done to the files: the store opens, or refuses the folder for a stated reason. A
// store that opens takes a job and gives it back.
void FuzzStore(std::string_view bytes) {
  static const Killed killed;
  if (bytes.empty()) return;
  static std::string file, journal;  // keep their memory
  file = killed.file;
  journal = killed.journal;
  DamageFiles(bytes, file, journal);
  const fs::path folder = Cat(ScratchFolder(), "/store");
  Write(folder, file, journal);
  alone = true;
  Open(folder.string(), IsOneOf(8, bytes));
  alone = false;
  if (!IsOneOf(64, bytes)) return;
  Write(folder, file, journal);
  Use(folder.string());
}

}  // namespace assay::fuzz
