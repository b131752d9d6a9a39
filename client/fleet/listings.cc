#include "client/fleet/listings.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/lib/text.h"
#include "nlohmann/json.hpp"

namespace assay::client {
namespace {

std::string PortOf(const nlohmann::json& pod) {
  for (const auto& container : pod.at("spec").value("containers", nlohmann::json::array())) {
    for (const auto& port : container.value("ports", nlohmann::json::array())) {
      if (port.value("name", "") == "grpc")
        return absl::StrCat(port.at("containerPort").get<int>());
    }
  }
  return kDefaultPort;
}

void AddPod(const nlohmann::json& pod, Pods& pods) {
  const std::string name = pod.at("metadata").at("name").get<std::string>();
  const auto status = pod.value("status", nlohmann::json::object());
  const std::string phase = status.value("phase", "Unknown");
  const std::string ip = status.value("podIP", "");
  if (phase != "Running" || ip.empty()) {
    const std::string node = pod.at("spec").value("nodeName", "");
    pods.missing.push_back(
        {absl::StrCat("pod ", name), absl::StrCat("is ", phase, node.empty() ? "" : " on ", node)});
    return;
  }
  pods.addresses.push_back(
      absl::StrCat(absl::StrContains(ip, ":") ? absl::StrCat("[", ip, "]") : ip, ":", PortOf(pod)));
}

}  // namespace

std::vector<std::string> ReadHosts(std::string_view answer) {
  std::vector<std::string> lines;
  for (absl::string_view line : absl::StrSplit(View(answer), '\n', absl::SkipWhitespace())) {
    lines.emplace_back(absl::StripAsciiWhitespace(line));
  }
  return lines;
}

absl::StatusOr<Pods> ReadPods(std::string_view answer) {
  Pods pods;
  try {
    const nlohmann::json list = nlohmann::json::parse(answer);
    for (const auto& pod : list.at("items")) AddPod(pod, pods);
  } catch (const nlohmann::json::exception& error) {
    return absl::UnavailableError(
        absl::StrCat("`kubectl get pods`: no list of pods: ", error.what()));
  }
  return pods;
}

}  // namespace assay::client
