#include "server/containment/containment.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "kernels/text/cat.h"
#include "server/base/task_thread.h"
#include "server/containment/call_filter.h"
#include "server/containment/environment.h"
#include "server/containment/file_rules.h"
#include "server/containment/orphans.h"
#include "server/containment/process_limits.h"
#include "server/containment/work_folder.h"

namespace assay::server {
namespace {

std::string g_not_subreaper = "the daemon did not ask for it";

void AddAll(const std::vector<std::string>& from, std::vector<std::string>* to) {
  to->insert(to->end(), from.begin(), from.end());
}

FileRules RulesFor(const ContainmentOptions& options, const WorkFolder* folder) {
  FileRules rules = options.compiler ? RulesForCompilers()
                                     : RulesForWorkers(options.worker, options.accelerators);
  const NamedPaths named = PathsNamedBy(ChosenEnvironment(environ, {}));
  AddAll(named.readable, &rules.readable);
  AddAll(named.writable, &rules.writable);
  AddAll(options.readable, &rules.readable);
  if (folder != nullptr) rules.writable.push_back(folder->path());
  rules.forbidden = options.forbidden;
  rules.granted = options.granted;
  return rules;
}

Measure CgroupMeasure() {
  // A daemon that owns its cgroup may make others below it.
  std::ifstream own("/proc/self/cgroup");
  std::string line, path;
  while (std::getline(own, line)) {
    if (line.starts_with("0::")) path = line.substr(3);
  }
  const std::string procs = Cat("/sys/fs/cgroup", path == "/" ? "" : path, "/cgroup.procs");
  const bool delegated = !path.empty() && access(procs.c_str(), W_OK) == 0;
  return {std::string(kCgroup), false,
          delegated ? "not used: processes and memory are bound by the limits and the subreaper"
                    : "this daemon may not make cgroups; what it would bound, the limits and the "
                      "subreaper bind"};
}

class ThreadContainment final : public Containment {
 public:
  ThreadContainment() : limits_(LimitsHere()) {
    absl::StatusOr<std::unique_ptr<WorkFolder>> folder = WorkFolder::Make();
    if (folder.ok()) {
      folder_ = *std::move(folder);
      environment_ = folder_->Environment();
    } else {
      no_folder_ = std::string(folder.status().message());
    }
  }

  // Starts the threads. std::system_error if there can be no more of them.
  void Begin(const ContainmentOptions& options) {
    thread_.emplace();
    thread_->RunAndWait([&] { GiveUpRights(options); });
    if (listener_ >= 0) listening_ = std::thread([this] { Listen(); });
  }

  ~ThreadContainment() override {
    thread_.reset();  // first: a process that it starts may wait for an answer of the other thread
    eventfd_write(wake_, 1);
    if (listening_.joinable()) listening_.join();
    if (listener_ >= 0) close(listener_);
    close(wake_);
  }

  void Start(const std::function<pid_t()>& start) override {
    pid_t pid = -1;
    thread_->RunAndWait([&] { pid = start(); });
    if (pid > 0) LimitProcess(pid, limits_);
  }

  const std::vector<std::string>& environment() const override { return environment_; }
  std::string folder() const override { return folder_ == nullptr ? "" : folder_->path(); }
  const std::vector<Measure>& measures() const override { return measures_; }

  void TellOfRefused(std::function<void(const std::string&)> tell) override {
    const std::lock_guard lock(tell_mutex_);
    tell_ = std::move(tell);
  }

 private:
  void Add(std::string_view name, const std::string& error, const std::string& detail) {
    measures_.push_back({std::string(name), error.empty(), error.empty() ? detail : error});
  }

  // Restricts this thread, and fills in the measures in the order of kMeasures.
  void GiveUpRights(const ContainmentOptions& options) {
    const std::string off = options.off ? "switched off by --no-containment" : "";
    std::string privileges = off;
    if (off.empty() && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
      privileges = Cat("PR_SET_NO_NEW_PRIVS: ", std::generic_category().message(errno));
    }
    std::string landlock_why;
    const int version = LandlockVersion(&landlock_why);
    std::string files = privileges;
    if (files.empty()) files = RestrictFiles(RulesFor(options, folder_.get()));
    CallFilter filter;
    filter.error = privileges;
    if (privileges.empty()) filter = FilterCalls({getpid(), options.accelerators});
    listener_ = filter.listener;

    Add(kNoNewPrivs, privileges, "a program that a kernel starts gains no rights");
    Add(kSeccomp, filter.error,
        listener_ >= 0 ? "calls that reach other processes, the network or the system are refused "
                         "and told"
                       : "calls that reach other processes, the network or the system are refused");
    Add(kLandlock, files,
        Cat("version ", version, ": reads the system's and Assay's own files, writes ",
            folder_ == nullptr ? Cat("nothing, because ", no_folder_) : folder_->path(),
            options.accelerators ? ", uses the cards' device files" : ""));
    AddNetwork(filter.error, files, version, options.accelerators);
    Add(kRlimits, "", LimitsText(limits_));
    Add(kEnvironment, "", "variables are chosen by name; tokens and keys stay in the daemon");
    Add(kSubreaper, g_not_subreaper, "processes that a kernel leaves behind end with its worker");
    Add(kDumpable, prctl(PR_GET_DUMPABLE) == 0 ? "" : "the daemon did not ask for it",
        "no process of the daemon's user may trace the daemon or read its memory");
    measures_.push_back(CgroupMeasure());
  }

  void AddNetwork(const std::string& filter, const std::string& files, int version,
                  bool accelerators) {
    if (filter.empty()) {
      Add(kNetwork, "",
          accelerators ? "no sockets but Unix sockets that connect to nothing" : "no sockets");
    } else if (files.empty() && version >= 4) {
      Add(kNetwork, "without seccomp only TCP is refused, by landlock", "");
    } else {
      Add(kNetwork, filter, "");
    }
  }

  void Listen() {
    for (;;) {
      std::array<pollfd, 2> fds = {{{listener_, POLLIN, 0}, {wake_, POLLIN, 0}}};
      if (poll(fds.data(), fds.size(), -1) < 0) continue;
      if (fds[1].revents != 0 || (fds[0].revents & (POLLHUP | POLLERR)) != 0) return;
      RefuseNext(listener_, [this](const std::string& call) {
        const std::lock_guard lock(tell_mutex_);
        if (tell_) tell_(call);
      });
    }
  }

  const ProcessLimits limits_;
  std::unique_ptr<WorkFolder> folder_;
  std::string no_folder_;
  std::vector<std::string> environment_;
  std::vector<Measure> measures_;
  int listener_ = -1;
  const int wake_ = eventfd(0, EFD_CLOEXEC);

  std::mutex tell_mutex_;
  std::function<void(const std::string&)> tell_;

  std::optional<TaskThread> thread_;  // that has given up its rights
  std::thread listening_;
};

}  // namespace

std::unique_ptr<Containment> Containment::Make(const ContainmentOptions& options) {
  auto containment = std::make_unique<ThreadContainment>();
  containment->Begin(options);
  return containment;
}

void ContainDaemon() {
  prctl(PR_SET_DUMPABLE, 0);
  g_not_subreaper = BecomeSubreaper();
}

}  // namespace assay::server
