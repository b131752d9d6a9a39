// The environment of the processes that the daemon starts. It is chosen by name: a variable that
// the table does not have stays in the daemon, whatever it holds. So a token or a key in the
// daemon's environment reaches no worker.
#ifndef ASSAY_SERVER_CONTAINMENT_ENVIRONMENT_H_
#define ASSAY_SERVER_CONTAINMENT_ENVIRONMENT_H_

#include <string>
#include <string_view>
#include <vector>

namespace assay::server {

// Whether a worker may have the variable of this name.
bool MayReachWorkers(std::string_view name);

// The variables "NAME=value" of `from` (as `environ` has them) that workers may have. Those of
// `extra` are added, and replace one of the same name.
std::vector<std::string> ChosenEnvironment(const char* const* from,
                                           const std::vector<std::string>& extra);

// The files and folders that variables of a worker's environment name: those of libraries, of
// caches that an administrator placed, and of sanitizers' lists. Only absolute paths.
struct NamedPaths {
  std::vector<std::string> readable;
  std::vector<std::string> writable;
};
NamedPaths PathsNamedBy(const std::vector<std::string>& environment);

}  // namespace assay::server

#endif  // ASSAY_SERVER_CONTAINMENT_ENVIRONMENT_H_
