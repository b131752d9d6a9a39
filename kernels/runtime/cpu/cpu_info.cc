#include "kernels/runtime/cpu/cpu_info.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "hwy/targets.h"
#include "kernels/runtime/cpu/parallel.h"

namespace assay::inline kernels {
namespace {

constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

// Reads model and vendor of the first processor in /proc/cpuinfo.
void ReadProcessor(DeviceInfo& info) {
  std::ifstream in("/proc/cpuinfo");
  std::string line;
  while (std::getline(in, line) && !line.empty()) {
    const std::pair<std::string, std::string> field = absl::StrSplit(line, absl::MaxSplits(':', 1));
    const std::string key(absl::StripAsciiWhitespace(field.first));
    const std::string value(absl::StripAsciiWhitespace(field.second));
    if (key == "model name") info.model = value;
    if (key == "vendor_id") info.properties["vendor"] = value;
    if (key == "flags") {
      const std::vector<std::string> flags = absl::StrSplit(value, ' ');
      const bool amx = std::find(flags.begin(), flags.end(), "amx_tile") != flags.end();
      if (amx) info.properties["matrix_unit"] = "amx";
    }
  }
  if (info.model.empty()) info.model = "unknown processor";
}

// Reads the number in a one-line file. Unlimited if the file does not exist or holds "max" or other
// text.
std::int64_t ReadLimit(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::int64_t value = 0;
  if (!std::getline(in, line) || !absl::SimpleAtoi(line, &value) || value <= 0) return kUnlimited;
  return value;
}

// The smallest limit of a control group and those above it. In a container the path in
// /proc/self/cgroup may be the host's, of which only the root is visible.
std::int64_t SmallestLimit(const std::string& root, std::string path, const char* file) {
  std::int64_t limit = kUnlimited;
  while (true) {
    limit = std::min(limit, ReadLimit(absl::StrCat(root, path, "/", file)));
    const std::size_t slash = path.find_last_of('/');
    if (path.empty() || slash == std::string::npos) return limit;
    path.resize(slash);
  }
}

std::int64_t CgroupMemoryLimit() {
  std::ifstream in("/proc/self/cgroup");
  std::string line;
  std::int64_t limit = kUnlimited;
  while (std::getline(in, line)) {
    const std::vector<std::string> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3) continue;
    if (fields[0] == "0" && fields[1].empty()) {  // version 2
      limit = std::min(limit, SmallestLimit("/sys/fs/cgroup", fields[2], "memory.max"));
    } else if (fields[1] == "memory") {  // version 1
      limit = std::min(limit,
                       SmallestLimit("/sys/fs/cgroup/memory", fields[2], "memory.limit_in_bytes"));
    }
  }
  return limit;
}

// The cores that this process may run on. None if there are more of them than cpu_set_t holds.
std::vector<int> UsableCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return cores;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &set)) cores.push_back(i);
  }
  return cores;
}

const char* SimdLevel() {
  const std::int64_t targets = hwy::SupportedTargets();
  if ((targets & HWY_AVX3) != 0) return "avx512";
  if ((targets & HWY_AVX2) != 0) return "avx2";
  if ((targets & HWY_SSE4) != 0) return "sse4";
  return "baseline";
}

// The first line of a file; empty if there is none.
std::string FirstLine(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

}  // namespace

std::int64_t LastCacheBytes(const std::string& folder, const std::vector<int>& processors) {
  std::set<std::string> seen;  // the processors that share a cache, as Linux lists them
  std::int64_t bytes = 0;
  for (const int processor : processors) {
    for (int index = 0;; ++index) {
      const std::string cache = absl::StrCat(folder, "/cpu", processor, "/cache/index", index, "/");
      const std::string level = FirstLine(cache + "level");
      if (level.empty()) break;
      std::string size = FirstLine(cache + "size");  // "32768K"
      std::int64_t kilobytes = 0;
      if (level != "3" || !size.ends_with('K')) continue;
      size.pop_back();
      if (!absl::SimpleAtoi(size, &kilobytes) || kilobytes <= 0) continue;
      if (seen.insert(FirstLine(cache + "shared_cpu_list")).second) bytes += kilobytes << 10;
    }
  }
  return bytes;
}

DeviceInfo ReadCpuInfo(int ordinal) {
  DeviceInfo info;
  info.id = absl::StrCat("cpu:", ordinal);
  info.backend = "cpu";
  ReadProcessor(info);
  const std::vector<int> cores = UsableCores();
  info.compute_units = cores.empty() ? ParallelWidth() : static_cast<int>(cores.size());
  info.properties["simd"] = SimdLevel();
  // What the C library says is one cache of many, or all of the machine's, by its version. A
  // virtual machine may tell Linux of less than there is. The larger of both counts: with too small
  // a size, the cache's speed would be taken for the memory's.
  const std::int64_t l3 = std::max<std::int64_t>(LastCacheBytes("/sys/devices/system/cpu", cores),
                                                 sysconf(_SC_LEVEL3_CACHE_SIZE));
  if (l3 > 0) info.properties["l3_bytes"] = absl::StrCat(l3);
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page = sysconf(_SC_PAGESIZE);
  if (pages > 0 && page > 0) info.memory_bytes = std::int64_t{pages} * page;
  const std::int64_t limit = CgroupMemoryLimit();
  if (limit < info.memory_bytes) {
    info.memory_bytes = limit;
    info.properties["memory_limit"] = "cgroup";
  }
  return info;
}

}  // namespace assay::kernels
