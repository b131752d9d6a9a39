// The process of a worker: starts it, watches it, kills it and puts its death into words.
//
// A thread that outlives the process starts it, with posix_spawn: the containment's, or one that
// never ends. The parent-death signal (PR_SET_PDEATHSIG) fires when the thread that started the
// process ends, not only when the daemon ends. The environment is chosen (environment.h). A worker
// gets exactly five descriptors: /dev/null, stdout and stderr (a pipe of the caller's), the
// socket (3) and the phase page (4).
//
// Thread-safety: any thread may use Kill and pidfd while the object lives. All else is for one
// thread.
#ifndef ASSAY_SERVER_PROCESS_PROCESS_H_
#define ASSAY_SERVER_PROCESS_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/process/phase_page.h"

namespace assay::server {

class Containment;

struct ProcessOptions {
  std::string path;                      // of the binary
  std::vector<std::string> args;         // without argv[0]
  std::vector<std::string> environment;  // "NAME=value", beside those that workers may have
  int output_fd = -1;                    // the child's stdout and stderr; not owned; -1: /dev/null
  int stdout_fd = -1;                    // the child's stdout if it differs; not owned
  bool with_channel = true;              // socket on 3 and phase page on 4
  Containment* containment = nullptr;    // must outlive the process; nullptr: the daemon's rights
};

// The way in which a process ended.
struct ExitCause {
  int signal = 0;  // 0: it exited
  int status = 0;  // exit status
  LastWords last_words = LastWords::kNone;

  // "killed by SIGSEGV (segmentation fault)", "exited with status 3".
  std::string Text() const;
};

class WorkerProcess {
 public:
  // Starts a process. NOT_FOUND or PERMISSION_DENIED if the binary cannot run.
  static absl::StatusOr<std::unique_ptr<WorkerProcess>> Start(const ProcessOptions& options);
  // Kills and reaps the process if it still runs.
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  pid_t pid() const { return pid_; }
  // A descriptor that becomes readable when the process has ended.
  int pidfd() const { return pidfd_; }
  // The daemon's end of the socket pair. The first caller owns it.
  int TakeSocket();
  const PhasePage& page() const { return *page_; }

  // Kills the whole process group, with all processes that the worker started.
  void Kill();
  // Waits until the process has ended, reaps it and says how it ended. Then it ends what the
  // process left behind (orphans.h). Nothing if it still runs at `deadline`.
  std::optional<ExitCause> Wait(absl::Time deadline);
  // Whether the process is about to end, or has ended. A process closes its files only after this
  // has become true.
  bool Exiting() const;
  // The memory that the process holds in RAM [bytes]. 0 if it is not known.
  std::int64_t ResidentBytes() const;

 private:
  WorkerProcess() = default;

  pid_t pid_ = -1;
  int pidfd_ = -1;
  int socket_ = -1;
  PhasePage* page_ = nullptr;
  std::optional<ExitCause> cause_;
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_PROCESS_PROCESS_H_
