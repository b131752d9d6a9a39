// A worker as a process: started, watched, killed, and its death put into words.
//
// A worker is started by posix_spawn from one thread that never ends, because its
// parent-death signal (PR_SET_PDEATHSIG) fires when the thread that spawned it
// ends. It gets exactly five descriptors: /dev/null, stdout and stderr (a pipe of
// the caller's), the socket (3), the phase page (4).
//
// Thread-safety: none but for Kill and pidfd, which any thread may use while the
// object lives.
#ifndef ASSAY_SERVER_WORKER_PROCESS_H_
#define ASSAY_SERVER_WORKER_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/worker/phase_page.h"

namespace assay {

struct ProcessOptions {
  std::string path;                      // of the binary
  std::vector<std::string> args;         // without argv[0]
  std::vector<std::string> environment;  // "NAME=value"; replaces the parent's of the same name
  int output_fd = -1;                    // the child's stdout and stderr; not owned; -1: /dev/null
  int stdout_fd = -1;                    // the child's stdout where it differs; not owned
  bool with_channel = true;              // socket on 3 and phase page on 4
};

// How a process ended.
struct ExitCause {
  int signal = 0;  // 0: it exited
  int status = 0;  // exit status
  LastWords last_words = LastWords::kNone;

  // "killed by SIGSEGV (segmentation fault)", "exited with status 3".
  std::string Text() const;
};

class WorkerProcess {
 public:
  // NOT_FOUND or PERMISSION_DENIED where the binary cannot be run.
  static absl::StatusOr<std::unique_ptr<WorkerProcess>> Start(const ProcessOptions& options);
  // Kills and reaps it if it still runs.
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  pid_t pid() const { return pid_; }
  // Readable once the process has ended.
  int pidfd() const { return pidfd_; }
  // The daemon's end of the socket pair; the first caller owns it.
  int TakeSocket();
  const PhasePage& page() const { return *page_; }

  // Its whole process group: what it forked dies with it.
  void Kill();
  // How it ended, reaping it; nothing if it still runs at `deadline`.
  std::optional<ExitCause> Wait(absl::Time deadline);
  // Memory it holds in RAM; 0 where that is unknown [bytes].
  std::int64_t ResidentBytes() const;

 private:
  WorkerProcess() = default;

  pid_t pid_ = -1;
  int pidfd_ = -1;
  int socket_ = -1;
  PhasePage* page_ = nullptr;
  std::optional<ExitCause> cause_;
};

}  // namespace assay

#endif  // ASSAY_SERVER_WORKER_PROCESS_H_
