// admin: what the operator of a daemon does with it.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "client/cli/context.h"
#include "client/cli/find.h"
#include "client/cli/listing.h"
#include "client/cli/whole_number.h"
#include "client/report/units.h"

namespace assay::client {
namespace {

// A file that takes its name when it is whole and durable. What is left of it before that is
// removed.
class NewFile {
 public:
  explicit NewFile(std::string path) : path_(std::move(path)), part_(path_ + ".part") {}
  ~NewFile() {
    if (fd_ < 0) return;
    close(fd_);
    unlink(part_.c_str());
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  absl::Status Open() {
    if (access(path_.c_str(), F_OK) == 0) {
      return absl::AlreadyExistsError(
          absl::StrCat(path_, " exists: name a file that does not, or remove it first"));
    }
    unlink(part_.c_str());  // of a run that was killed
    fd_ = open(part_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    return fd_ < 0 ? Failed() : absl::OkStatus();
  }
  absl::Status Write(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = write(fd_, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return Failed();
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
    return absl::OkStatus();
  }
  absl::Status Keep() {
    if (fsync(fd_) != 0) return Failed();
    int moved = renameat2(AT_FDCWD, part_.c_str(), AT_FDCWD, path_.c_str(), RENAME_NOREPLACE);
    if (moved != 0 && errno == EINVAL) moved = rename(part_.c_str(), path_.c_str());
    if (moved != 0) return Failed();
    close(std::exchange(fd_, -1));
    return absl::OkStatus();
  }

 private:
  absl::Status Failed() const {
    return absl::PermissionDeniedError(
        absl::StrCat("cannot write ", part_, ": ", std::generic_category().message(errno)));
  }

  const std::string path_;
  const std::string part_;
  int fd_ = -1;
};

ExitCode Backup(const Context& context, const std::string& path) {
  auto connections = context.Connect();
  if (!connections.ok()) return context.Fail(connections.status());
  if (connections->size() != 1) {
    return context.Fail(absl::InvalidArgumentError(absl::StrCat(
        "admin backup copies the store of one daemon, got ", connections->size(), " targets")));
  }
  Connection& connection = *connections->front();
  NewFile file(path);
  if (absl::Status s = file.Open(); !s.ok()) return context.Fail(s);
  grpc::ClientContext call;
  const auto reader = connection.stub().BackupStore(&call, v1::BackupStoreRequest());
  v1::BackupStoreResponse piece;
  std::int64_t bytes = 0;
  while (reader->Read(&piece)) {
    if (absl::Status s = file.Write(piece.data()); !s.ok()) {
      call.TryCancel();
      return context.Fail(s);
    }
    bytes += static_cast<std::int64_t>(piece.data().size());
  }
  if (const grpc::Status status = reader->Finish(); !status.ok()) {
    return context.Fail(Describe(status, connection.target()));
  }
  if (bytes != piece.total_bytes()) {
    return context.Fail(absl::DataLossError(
        absl::StrCat(connection.target(), " sent ", bytes, " bytes of ", piece.total_bytes())));
  }
  if (absl::Status s = file.Keep(); !s.ok()) return context.Fail(s);
  context.streams.out << path << ": " << BytesText(bytes) << '\n' << std::flush;
  return ExitCode::kPassed;
}

// Deletes each job on the daemon that has it. What cannot be read any more can be deleted, too, so
// nothing is asked about the job first.
ExitCode DeleteJobs(const Context& context, const std::vector<std::string>& names) {
  auto connections = context.Connect();
  if (!connections.ok()) return context.Fail(connections.status());
  ExitCode code = ExitCode::kPassed;
  for (const std::string& name : names) {
    v1::DeleteJobRequest request;
    request.set_name(JobName(name));
    Failure failure;
    bool deleted = false;
    for (const auto& connection : *connections) {
      google::protobuf::Empty nothing;
      const grpc::Status status = Ask(*connection, &Stub::DeleteJob, request, &nothing);
      deleted = status.ok();
      if (deleted) break;
      failure = Describe(status, connection->target());
      if (status.error_code() != grpc::StatusCode::NOT_FOUND) break;
    }
    if (deleted) {
      context.streams.out << request.name() << " is deleted\n" << std::flush;
    } else {
      code = context.Fail(failure);
    }
  }
  return code;
}

ExitCode ListAudit(const Context& context, int limit) {
  return List(context, "events", {"TIME", "WHO", "ROLE", "CALL", "TARGET", "RESULT", "FROM"},
              [&](Connection& connection, Listed& listed) {
                v1::ListAuditEventsRequest request;
                request.set_page_size(limit);
                v1::ListAuditEventsResponse response;
                grpc::Status status = Ask(connection, &Stub::ListAuditEvents, request, &response);
                for (const v1::AuditEvent& event : response.events()) {
                  listed.rows.push_back({absl::FormatTime("%Y-%m-%d %H:%M:%S", Time(event.time()),
                                                          absl::LocalTimeZone()),
                                         event.who(), event.role(), event.call(), event.target(),
                                         event.result(), event.peer()});
                  listed.items.push_back(MessageJson(event));
                }
                return status;
              });
}

}  // namespace

void AddAdminCommand(CLI::App& app, Context& context) {
  CLI::App* admin = app.add_subcommand("admin", "look after a daemon and its store");
  admin->require_subcommand(1);
  CLI::App* backup = admin->add_subcommand(
      "backup", "copy a daemon's store to a file on this machine, while the daemon works");
  const auto path = std::make_shared<std::string>();
  backup->add_option("file", *path, "the file to write, which must not exist yet")
      ->required()
      ->type_name("FILE");
  context.OnRun(backup, [path](const Context& c) { return Backup(c, *path); });
  CLI::App* audit = admin->add_subcommand(
      "audit", "the newest calls that changed something or used a device, and who made them");
  const auto limit = std::make_shared<int>(100);
  AddWholeNumber(*audit, "limit", *limit, "the most calls to list (default 100)", {1, 1000});
  context.OnRun(audit, [limit](const Context& c) { return ListAudit(c, *limit); });
  CLI::App* erase = admin->add_subcommand("delete", "delete ended jobs with their results");
  const auto names = std::make_shared<std::vector<std::string>>();
  erase->add_option("job", *names, "jobs/4f2k, or 4f2k")->required();
  context.OnRun(erase, [names](const Context& c) { return DeleteJobs(c, *names); });
}

}  // namespace assay::client
