// The system calls that a worker may not make. A filter in the kernel of the system (seccomp)
// refuses them with EPERM, for the thread that installs it and for every process that it starts.
//
// It is a list of what is refused: calls that reach another process, the network, other files than
// those of kernels/confine/file_rights.h, or the machine itself. All others are allowed, because drivers and
// libraries need calls that nobody can list.
//
// Where Linux allows it, each refused call is first told to the process that installed the filter.
// So a case can say what its kernel tried.
#ifndef ASSAY_SERVER_CONTAINMENT_CALL_FILTER_H_
#define ASSAY_SERVER_CONTAINMENT_CALL_FILTER_H_

#include <sys/types.h>

#include <functional>
#include <string>

namespace assay::server {

struct CallFilterOptions {
  pid_t protect = 0;  // the process that may get no signal from a worker
  // Unix sockets may be made and bound, as CUDA does. They still cannot connect.
  bool unix_sockets = false;
};

struct CallFilter {
  std::string error;  // why there is no filter; empty if there is one
  int listener =
      -1;  // tells of refused calls; owned by the caller; -1: none, calls are refused all the same
};

// Installs the filter for the calling thread. Requires no_new_privs.
CallFilter FilterCalls(const CallFilterOptions& options);

// Takes one call from the listener, tells of it, such as "socket(AF_INET)", and then refuses it.
// The caller waits until then. Does nothing if the caller has ended meanwhile.
void RefuseNext(int listener, const std::function<void(const std::string&)>& tell);

}  // namespace assay::server

#endif  // ASSAY_SERVER_CONTAINMENT_CALL_FILTER_H_
