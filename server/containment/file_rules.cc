#include "server/containment/file_rules.h"

#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

namespace assay::server {
namespace {

namespace fs = std::filesystem;

// The tree that the worker was installed in, or built in.
std::string TreeOf(const fs::path& worker) {
  const fs::path folder = worker.parent_path();
  const fs::path above = folder.parent_path();
  const bool tree = (folder.filename() == "assay" && above.filename() == "libexec") ||
                    (folder.filename() == "worker" && above.filename() == "server");
  if (tree && above.parent_path() != worker.root_path()) return above.parent_path().string();
  return folder.string();
}

void AddDevices(std::string_view prefix, std::vector<std::string>* to) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator("/dev", error)) {
    if (entry.path().filename().string().starts_with(prefix)) to->push_back(entry.path().string());
  }
}

}  // namespace

FileRules RulesForWorkers(std::string_view worker, bool accelerators) {
  FileRules rules;
  rules.readable = {"/usr", "/lib", "/lib32", "/lib64", "/libx32", "/bin", "/sbin", "/opt",
                    "/nix/store", "/gnu/store", "/proc", "/sys",
                    // Of /etc only what loaders and the C library read: keys lie there, too.
                    "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d",
                    "/etc/ld.so.preload", "/etc/localtime", "/etc/timezone", "/etc/locale.alias",
                    "/etc/nsswitch.conf", "/etc/passwd", "/etc/group", "/etc/os-release",
                    "/etc/alternatives"};
  std::error_code error;
  rules.readable.push_back(TreeOf(fs::weakly_canonical(worker, error)));
  rules.devices = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"};
  if (accelerators) {
    // CUDA does not begin if it cannot write /proc/PID/task/TID/comm. Those files belong to
    // processes that do not exist yet, so no rule can name them. The rest of /proc that a user may
    // write belongs to the user's own processes, and the daemon's files there are not the user's
    // (dumpable).
    rules.process_names = true;
    rules.readable.insert(rules.readable.end(), {"/etc/nvidia", "/etc/nv_tegra_release",
                                                 "/etc/OpenCL", "/run/opengl-driver"});
    rules.writable.emplace_back("/dev/shm");
    rules.devices.insert(rules.devices.end(), {"/dev/kfd", "/dev/dri", "/dev/nvgpu", "/dev/dxg"});
    AddDevices("nvidia", &rules.devices);
    AddDevices("nvmap", &rules.devices);
    AddDevices("nvhost", &rules.devices);
  }
  return rules;
}

FileRules RulesForCompilers() {
  FileRules rules;
  rules.readable = {"/usr",
                    "/lib",
                    "/lib32",
                    "/lib64",
                    "/libx32",
                    "/bin",
                    "/nix/store",
                    "/gnu/store",
                    "/etc/ld.so.cache",
                    "/etc/ld.so.preload",
                    "/etc/alternatives"};
  // A source may include any file that the compiler may read. One without an end takes all of the
  // compiler's memory and time. gcc needs no file of random bytes.
  rules.devices = {"/dev/null"};
  return rules;
}

}  // namespace assay::server
