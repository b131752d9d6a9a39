#include "client/cli/qualify_nodes.h"

#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/fleet/targets.h"

namespace assay::client {

absl::StatusOr<std::vector<std::unique_ptr<Connection>>> ConnectNodes(const Context& context,
                                                                      QualificationReport& report) {
  std::vector<std::string> words;
  if (!context.globals.targets.targets.empty()) words.push_back(context.globals.targets.targets);
  auto found = FindFleet(words, context.globals.targets);
  if (!found.ok()) return found.status();
  const std::set<std::string> lines(found->duplicates.begin(), found->duplicates.end());
  for (const std::string& line : lines) context.Say(line);
  for (const MissingNode& node : found->missing) {
    report.missing.push_back({node.target, node.reason, {}, {}});
  }
  std::vector<std::unique_ptr<Connection>> connections;
  for (const Target& target : found->targets) {
    auto connection = Connection::Open(target);
    if (!connection.ok()) return connection.status();
    connections.push_back(*std::move(connection));
  }
  return connections;
}

void CountOnce(const Context& context, QualificationReport& report) {
  // Host, start, address and device -> target.
  std::map<std::tuple<std::string, std::int64_t, std::int32_t, std::string, std::string>,
           std::string>
      seen;
  std::erase_if(report.devices, [&](const DeviceFit& device) {
    const v1::ServerInfo& server = device.run.server;
    if (!server.has_start_time()) return false;  // who it is cannot be told
    const auto [first, fresh] =
        seen.try_emplace({server.host(), server.start_time().seconds(), server.start_time().nanos(),
                          server.address(), device.device},
                         device.target);
    if (fresh || first->second == device.target) return false;
    context.streams.err << absl::StrCat("assay: ", device.target, " ", device.device, " is ",
                                        first->second, " ", device.device,
                                        " by another address, counted once\n")
                        << std::flush;
    return true;
  });
}

void TellIgnoredNowhere(const Context& context, const std::set<std::string>& ignored,
                        const std::set<std::string>& seen) {
  for (const std::string& word : ignored) {
    if (word.find(':') == std::string::npos || seen.contains(word)) continue;
    context.Say(absl::StrCat("ignore: no target that answered has ", word));
  }
}

}  // namespace assay::client
