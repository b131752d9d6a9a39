// Keeps workers, and the kernels that they run, from the rest of the node.
//
// A thread of the daemon gives up its own rights, and starts the workers. What a thread has given
// up (no_new_privs, landlock, seccomp), its children lack from their first instruction, so it holds
// before any library or kernel is loaded. The rest of the daemon keeps its rights. What the
// platform does not allow is left out and told: see measures().
//
// The parent-death signal of a worker fires when the thread that started it ends. So the object
// must outlive its workers.
//
// Thread-safe.
#ifndef ASSAY_SERVER_CONTAINMENT_CONTAINMENT_H_
#define ASSAY_SERVER_CONTAINMENT_CONTAINMENT_H_

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/containment/measure.h"

namespace assay::server {

struct ContainmentOptions {
  std::string worker;                  // path of the program
  bool accelerators = false;           // the workers use GPUs
  std::vector<std::string> readable;   // beside the system's folders: files and folders to read
  std::vector<std::string> forbidden;  // the store, keys, configuration; wherever they lie
  // To read although they lie in a forbidden folder: the users' kernels in the state folder.
  std::vector<std::string> granted;
  // `worker` is a compiler. It reads the system's programs, libraries and headers, and `readable`.
  bool compiler = false;
  bool off = false;  // an administrator switched the restrictions off
};

class Containment {
 public:
  // std::system_error if the machine has no room for a thread.
  static std::unique_ptr<Containment> Make(const ContainmentOptions& options);
  virtual ~Containment() = default;

  // Runs `start` on the thread with fewer rights. `start` starts a process and returns its id, or
  // -1. The process gets the limits of process_limits.h.
  virtual void Start(const std::function<pid_t()>& start) = 0;

  // Variables that the workers get: their private folder.
  virtual const std::vector<std::string>& environment() const = 0;
  // The private folder. Empty if it could not be made.
  virtual std::string folder() const = 0;

  // All measures of kMeasures, in that order.
  virtual const std::vector<Measure>& measures() const = 0;

  // Calls `tell` with each call that a worker tried and was refused, such as "socket(AF_INET)". The
  // worker waits meanwhile. Another thread calls it. Empty: nobody is told. When the function
  // returns, the old `tell` is no longer called.
  virtual void TellOfRefused(std::function<void(const std::string&)> tell) = 0;
};

// Makes this process, the daemon, one that no other process of its user may trace or read, and one
// that gets the processes that workers leave behind. Called once, early.
void ContainDaemon();

}  // namespace assay::server

#endif  // ASSAY_SERVER_CONTAINMENT_CONTAINMENT_H_
