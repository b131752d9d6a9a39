// FleetScreen: shows how a fleet's run goes on. On a terminal it redraws its lines. Elsewhere it
// writes one line for each node that ends.
#ifndef ASSAY_CLIENT_FLEET_SCREEN_H_
#define ASSAY_CLIENT_FLEET_SCREEN_H_

#include <ostream>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/fleet/run.h"

namespace assay::client {

// "finished  a07:7575  120/120  PASSED".
std::string NodeLine(const NodeRun& node, std::size_t width);

class FleetScreen : public FleetWatcher {
 public:
  // Progress goes to `out`, of which `live` says that it is a terminal of `width` columns;
  // notes go to `err`.
  FleetScreen(std::ostream& out, std::ostream& err, bool live, int width)
      : out_(out), err_(err), live_(live), width_(width) {}

  void OnNode(const std::vector<NodeRun>& nodes, std::size_t node) override;
  void OnNote(const std::string& note) override;
  // Takes away what was drawn; the last call.
  void Clear();

 private:
  void Draw(const std::vector<NodeRun>& nodes);

  std::ostream& out_;
  std::ostream& err_;
  const bool live_;
  const int width_;
  std::size_t drawn_ = 0;  // lines
  absl::Duration last_ = -absl::InfiniteDuration();
  std::vector<bool> told_;         // nodes whose end was told
  std::vector<std::size_t> held_;  // those to be told if the request is right after all
};

}  // namespace assay::client

#endif  // ASSAY_CLIENT_FLEET_SCREEN_H_
