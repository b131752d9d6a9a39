#include "client/fleet/screen.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/lib/steady.h"
#include "client/lib/words.h"
#include "client/report/units.h"

namespace assay::client {
namespace {

// Nodes that are drawn, whatever the terminal's height; the rest is counted.
constexpr std::size_t kMostLines = 20;
// Redrawn no more often than a person reads.
constexpr absl::Duration kPause = absl::Milliseconds(100);

bool Ended(const NodeRun& node) {
  return node.state != NodeRun::State::kWaiting && node.state != NodeRun::State::kRunning;
}

bool Bad(const NodeRun& node) {
  return node.state == NodeRun::State::kLost || node.state == NodeRun::State::kUnreachable ||
         node.state == NodeRun::State::kRefused || node.worst == v1::VERDICT_FAILED ||
         node.worst == v1::VERDICT_ERROR;
}

}  // namespace

std::string NodeLine(const NodeRun& node, std::size_t width) {
  std::string line =
      absl::StrCat(PadRight(StateWord(node.state), 12), PadRight(node.target.address, width));
  if (node.run.total > 0) {
    absl::StrAppend(&line, "  ", node.run.results.size(), "/", node.run.total);
  }
  if (node.worst != v1::VERDICT_UNSPECIFIED) absl::StrAppend(&line, "  worst ", Word(node.worst));
  if (node.problem.empty() && !node.run.job.findings().empty()) {
    absl::StrAppend(&line, "  ", node.run.job.findings(0).message());
  }
  if (!node.problem.empty()) absl::StrAppend(&line, "  ", node.problem);
  return line;
}

void FleetScreen::Draw(const std::vector<NodeRun>& nodes) {
  std::vector<const NodeRun*> order;
  std::size_t ended = 0, width = 0;
  for (const NodeRun& node : nodes) {
    order.push_back(&node);
    ended += Ended(node);
    width = std::max(width, DisplayWidth(node.target.address));
  }
  // What is wrong first, then what runs, then what waits; what is done goes last.
  const auto rank = [](const NodeRun* node) {
    return Bad(*node) ? 0 : node->state == NodeRun::State::kRunning ? 1 : Ended(*node) ? 3 : 2;
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](const NodeRun* a, const NodeRun* b) { return rank(a) < rank(b); });
  Clear();
  const std::size_t shown = std::min(order.size(), kMostLines);
  const auto columns = static_cast<std::size_t>(width_ > 0 ? width_ : 80);
  for (std::size_t i = 0; i < shown; ++i) {
    out_ << Shorten(NodeLine(*order[i], width), columns) << '\n';
  }
  std::string last = absl::StrCat(ended, " of ", order.size(), " nodes have ended");
  if (shown < order.size()) absl::StrAppend(&last, "; ", order.size() - shown, " are not shown");
  out_ << Shorten(last, columns) << '\n' << std::flush;
  drawn_ = shown + 1;
}

void FleetScreen::Clear() {
  for (; drawn_ > 0; --drawn_) out_ << "\x1b[1A\x1b[2K";
  out_ << std::flush;
}

void FleetScreen::OnNode(const std::vector<NodeRun>& nodes, std::size_t node) {
  if (live_) {
    const bool all = std::all_of(nodes.begin(), nodes.end(), Ended);
    if (!all && SteadyNow() - last_ < kPause) return;
    last_ = SteadyNow();
    Draw(nodes);
    return;
  }
  told_.resize(nodes.size());
  if (!Ended(nodes[node]) || told_[node]) return;
  told_[node] = true;
  std::size_t width = 0;
  for (const NodeRun& one : nodes) width = std::max(width, DisplayWidth(one.target.address));
  // Where all say that the request is wrong, that is said once, and not by each.
  if (nodes[node].request_refused) {
    held_.push_back(node);
  } else {
    out_ << NodeLine(nodes[node], width) << '\n';
  }
  if (std::any_of(nodes.begin(), nodes.end(), TookRequest)) {
    for (const std::size_t one : held_) out_ << NodeLine(nodes[one], width) << '\n';
    held_.clear();
  }
  out_ << std::flush;
}

void FleetScreen::OnNote(const std::string& note) {
  Clear();
  err_ << note << '\n' << std::flush;
}

}  // namespace assay::client
