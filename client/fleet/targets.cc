#include "client/fleet/targets.h"

#include <netdb.h>
#include <sys/socket.h>

#include <cstdlib>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/fleet/listings.h"
#include "client/lib/parse.h"
#include "client/lib/program.h"
#include "client/lib/text.h"

namespace assay::client {
namespace {

// How long a scheduler may take to answer.
constexpr absl::Duration kToolWait = absl::Seconds(30);

// Addresses as ResolveTargets takes them.
struct Found {
  std::vector<std::string> addresses;
  std::vector<MissingNode> missing;
};

absl::Status FindByDns(const std::string& name, Found& found) {
  const std::vector<std::string> parts = absl::StrSplit(name, ':');
  if (parts.empty() || parts.size() > 2 || parts[0].empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("target: \"dns:", name, "\": write dns:NAME or dns:NAME:PORT"));
  }
  const std::string port = parts.size() == 2 ? parts[1] : kDefaultPort;
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (const int error = getaddrinfo(parts[0].c_str(), nullptr, &hints, &list); error != 0) {
    found.missing.push_back({absl::StrCat("dns:", name),
                             absl::StrCat("cannot resolve ", parts[0], ": ", gai_strerror(error))});
    return absl::OkStatus();
  }
  for (const addrinfo* at = list; at != nullptr; at = at->ai_next) {
    char host[NI_MAXHOST];
    if (getnameinfo(at->ai_addr, at->ai_addrlen, host, sizeof(host), nullptr, 0, NI_NUMERICHOST) !=
        0) {
      continue;
    }
    found.addresses.push_back(at->ai_family == AF_INET6 ? absl::StrCat("[", host, "]:", port)
                                                        : absl::StrCat(host, ":", port));
  }
  freeaddrinfo(list);
  return absl::OkStatus();
}

absl::Status FindBySlurm(const std::string& word, Found& found) {
  const std::vector<std::string> parts = absl::StrSplit(word, ':');
  if (parts.size() > 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        "target: \"slurm:", word, "\": write slurm:PARTITION or slurm:PARTITION:PORT"));
  }
  const std::string& partition = parts[0];
  const std::string port = parts.size() == 2 ? parts[1] : kDefaultPort;
  std::vector<std::string> words = {"sinfo", "-h", "-N", "-o", "%N"};
  if (!partition.empty()) words.insert(words.end(), {"-p", partition});
  auto nodes = RunProgram(words, kToolWait);
  if (!nodes.ok()) return nodes.status();
  // sinfo names a node once for each of its partitions.
  std::set<std::string> seen;
  for (const std::string& name : ReadHosts(*nodes)) {
    std::vector<std::string> hosts = {name};
    if (absl::StrContains(name, "[") || absl::StrContains(name, ",")) {
      auto expanded = RunProgram({"scontrol", "show", "hostnames", name}, kToolWait);
      if (!expanded.ok()) return expanded.status();
      hosts = ReadHosts(*expanded);
    }
    for (const std::string& host : hosts) {
      if (seen.insert(host).second) found.addresses.push_back(absl::StrCat(host, ":", port));
    }
  }
  if (seen.empty()) {
    return absl::UnavailableError(
        partition.empty()
            ? "slurm: sinfo lists no node"
            : absl::StrCat("slurm: sinfo lists no node of partition \"", partition, "\""));
  }
  return absl::OkStatus();
}

absl::Status FindByKubernetes(const std::string& label, const std::string& name_space,
                              Found& found) {
  if (label.empty()) {
    return absl::InvalidArgumentError(
        "target: \"k8s:\": write k8s:LABEL=VALUE or k8s:LABEL=VALUE,NAMESPACE");
  }
  std::vector<std::string> words = {"kubectl", "get", "pods", "-o", "json", "-l", label};
  if (!name_space.empty()) words.insert(words.end(), {"-n", name_space});
  auto answer = RunProgram(words, kToolWait);
  if (!answer.ok()) return answer.status();
  auto pods = ReadPods(*answer);
  if (!pods.ok()) return pods.status();
  if (pods->addresses.empty() && pods->missing.empty()) {
    return absl::UnavailableError(absl::StrCat("k8s: kubectl lists no pod with ", label,
                                               name_space.empty() ? "" : " in namespace ",
                                               name_space));
  }
  for (std::string& address : pods->addresses) found.addresses.push_back(std::move(address));
  for (MissingNode& node : pods->missing) found.missing.push_back(std::move(node));
  return absl::OkStatus();
}

// Whether a word of a list cannot be the namespace of the k8s: before it.
bool StandsAlone(const std::string& word) {
  return absl::StrContains(word, ":") || absl::StartsWith(word, "@") ||
         absl::StrContains(word, ".");
}

absl::Status FindList(const std::string& list, bool in_file, Found& found);

absl::Status FindInFile(const std::string& path, Found& found) {
  const absl::StatusOr<std::string> file = ReadFile(path);
  if (!file.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("target: ", file.status().message()));
  }
  int number = 0;
  for (const absl::string_view line : absl::StrSplit(*file, '\n')) {
    ++number;
    const std::string text(absl::StripAsciiWhitespace(line.substr(0, line.find('#'))));
    if (text.empty()) continue;
    if (!IsUtf8(text)) {
      return absl::InvalidArgumentError(absl::StrCat("target: ", path, ":", number, ": not UTF-8"));
    }
    if (absl::Status status = FindList(text, true, found); !status.ok()) {
      return absl::Status(status.code(), absl::StrCat(path, ":", number, ": ", status.message()));
    }
  }
  return absl::OkStatus();
}

absl::Status FindList(const std::string& list, bool in_file, Found& found) {
  const std::vector<std::string> words = SplitList(list);
  for (std::size_t i = 0; i < words.size(); ++i) {
    absl::string_view word = words[i];
    absl::Status status;
    if (word.empty()) {
      status = absl::InvalidArgumentError("target: an entry of the list is empty");
    } else if (absl::ConsumePrefix(&word, "@")) {
      status = in_file ? absl::InvalidArgumentError("target: a file of targets cannot name another")
                       : FindInFile(std::string(word), found);
    } else if (absl::ConsumePrefix(&word, "dns:")) {
      status = FindByDns(std::string(word), found);
    } else if (absl::ConsumePrefix(&word, "slurm:")) {
      status = FindBySlurm(std::string(word), found);
    } else if (absl::ConsumePrefix(&word, "k8s:")) {
      std::string name_space;
      if (i + 1 < words.size() && !StandsAlone(words[i + 1])) name_space = words[++i];
      status = FindByKubernetes(std::string(word), name_space, found);
    } else {
      found.addresses.emplace_back(word);
    }
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<FleetTargets> FindFleet(const std::vector<std::string>& words,
                                       const TargetOptions& options) {
  std::vector<std::string> lists = words;
  if (lists.empty()) {
    const char* environment = std::getenv("ASSAY_TARGET");
    lists.push_back(environment == nullptr || *environment == '\0' ? "127.0.0.1:7575"
                                                                   : environment);
  }
  Found found;
  for (const std::string& list : lists) {
    if (absl::Status status = FindList(list, false, found); !status.ok()) return status;
  }
  FleetTargets fleet;
  fleet.missing = std::move(found.missing);
  std::set<std::string> seen;
  for (const std::string& address : found.addresses) {
    TargetOptions one = options;
    one.targets = address;
    auto targets = ResolveTargets(one);
    if (!targets.ok()) return targets.status();
    for (Target& target : *targets) {
      if (seen.insert(target.address).second) {
        fleet.targets.push_back(std::move(target));
      } else {
        fleet.duplicates.push_back(
            absl::StrCat(target.address, " is named more than once, asked once"));
      }
    }
  }
  if (fleet.targets.empty() && fleet.missing.empty()) {
    return absl::InvalidArgumentError("target: the list is empty");
  }
  return fleet;
}

}  // namespace assay::client
