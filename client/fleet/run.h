// FleetRun: runs one job on every node at the same time and collects the results.
//
// Its threads call the watcher, one call at a time.
#ifndef ASSAY_CLIENT_FLEET_RUN_H_
#define ASSAY_CLIENT_FLEET_RUN_H_

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "client/fleet/judgement.h"
#include "client/fleet/missing.h"
#include "client/fleet/targets.h"
#include "client/lib/connection.h"
#include "client/lib/follow.h"
#include "client/report/report.h"

namespace assay::client {

// One node's share.
struct NodeRun {
  enum class State { kWaiting, kRunning, kFinished, kLost, kUnreachable, kRefused };

  Target target;
  std::unique_ptr<Connection> connection;
  Run run;
  State state = State::kWaiting;
  std::string problem;                          // why it is lost, unreachable or refused
  bool request_refused = false;                 // for the request's own mistake
  v1::Verdict worst = v1::VERDICT_UNSPECIFIED;  // of the results so far
  std::optional<absl::Duration> clock;          // its clock ahead of this machine's
};

const char* StateWord(NodeRun::State state);

// It answered, and not that the request is wrong.
bool TookRequest(const NodeRun& node);

// Told what happens, one call at a time.
class FleetWatcher {
 public:
  virtual ~FleetWatcher() = default;
  // A node has another state, or another result.
  virtual void OnNode(const std::vector<NodeRun>& nodes, std::size_t node) = 0;
  virtual void OnNote(const std::string& note) = 0;
};

struct FleetRunOptions {
  v1::JobSpec spec;
  FollowOptions follow;
  std::size_t limit = 256;  // nodes at once
};

// The jobs of a fleet, from creation to their ends. Leave and Cancel may be called from
// other threads.
class FleetRun {
 public:
  FleetRun(std::vector<Target> targets, FleetRunOptions options, FleetWatcher& watcher);

  // Creates a job on each node and follows it. INVALID_ARGUMENT where a certificate cannot
  // be read; whatever happens to a node is in its NodeRun.
  absl::Status Run();

  // Ends Run now; the jobs go on.
  void Leave();
  // Asks every node to end its job.
  void Cancel();

  std::vector<NodeRun>& nodes() { return nodes_; }
  // What every target that answered says is wrong with the request, each line once; empty
  // where one took it, or refused it for a reason of its own.
  std::vector<std::string> RequestMistakes() const;
  // Tells the watcher a line, between its other calls.
  void Say(const std::string& note);

 private:
  void RunOne(std::size_t node);
  // Adds names and versions. A report without them is still a report.
  void Adorn(NodeRun& node);
  void OnEvent(NodeRun& node, std::size_t index, const v1::JobEvent& event);

  FleetRunOptions options_;
  FleetWatcher& watcher_;
  std::mutex mutex_;  // guards what follows while Run runs
  std::vector<NodeRun> nodes_;
  std::vector<Follower*> followers_;
  bool left_ = false;
};

// Runs each accused device's worst cases (at most `most` of them) once more, there and on a
// sibling: another device of the node of the same model, else one of a node that nobody
// accuses. What came of it is added to the evidence.
void RerunAccused(const Fleet& fleet, std::vector<NodeRun>& nodes, const FollowOptions& follow,
                  std::size_t limit, std::size_t most, Judgement& judgement);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_FLEET_RUN_H_
