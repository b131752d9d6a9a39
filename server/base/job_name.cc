#include "server/base/job_name.h"

#include <algorithm>
#include <cstddef>

#include "kernels/text/cat.h"

namespace assay::server {
namespace {

constexpr std::size_t kMostBytes = 64;

}  // namespace

std::string FaultOfJobName(std::string_view name) {
  const auto in_id = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  if (name.empty()) return "is required: jobs/ID";
  if (name.starts_with(kJobPrefix) && name.size() > kJobPrefix.size() &&
      name.size() <= kMostBytes &&
      std::all_of(name.begin() + kJobPrefix.size(), name.end(), in_id)) {
    return "";
  }
  return Cat("must be jobs/ID with an id of letters and digits, such as jobs/k3v9x2mp, got \"",
             name.substr(0, kMostBytes), "\"");
}

}  // namespace assay::server
