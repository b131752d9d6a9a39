// A measure of containment: one thing that keeps a worker, and the kernels that it runs, from the
// rest of the node. It either holds or it does not, and says why.
#ifndef ASSAY_SERVER_CONTAINMENT_MEASURE_H_
#define ASSAY_SERVER_CONTAINMENT_MEASURE_H_

#include <array>
#include <string>
#include <string_view>

namespace assay::server {

// The measures, in the order in which they are shown. Metrics use these names as labels.
inline constexpr std::string_view kNoNewPrivs = "no_new_privs";
inline constexpr std::string_view kSeccomp = "seccomp";
inline constexpr std::string_view kLandlock = "landlock";
inline constexpr std::string_view kNetwork = "network";
inline constexpr std::string_view kRlimits = "rlimits";
inline constexpr std::string_view kEnvironment = "environment";
inline constexpr std::string_view kSubreaper = "subreaper";
inline constexpr std::string_view kDumpable = "dumpable";
inline constexpr std::string_view kCgroup = "cgroup";
inline constexpr std::array kMeasures = {kNoNewPrivs,  kSeccomp,   kLandlock, kNetwork, kRlimits,
                                         kEnvironment, kSubreaper, kDumpable, kCgroup};

struct Measure {
  std::string name;  // one of kMeasures
  bool applied = false;
  std::string detail;  // what the measure does here; if it is not applied, why not
};

// Whether --require-containment needs the measure. It does not need the cgroup: what a cgroup would
// bound, other measures bound too.
inline bool IsRequired(std::string_view measure) { return measure != kCgroup; }

}  // namespace assay::server

#endif  // ASSAY_SERVER_CONTAINMENT_MEASURE_H_
