#include "server/baselines/profiling.h"

#include <optional>
#include <string>

#include "kernels/text/cat.h"
#include "server/base/log.h"
#include "server/worker/profiler.h"

namespace assay::server {
namespace {

constexpr char kField[] = "spec.profiler";
constexpr std::size_t kShownBytes = 64;  // of a name that is none

}  // namespace

void CheckProfiler(const v1::JobSpec& spec, std::vector<FieldError>& errors) {
  if (spec.profiler().empty() || ParseProfiler(spec.profiler())) return;
  errors.push_back({kField, Cat("must be perf (on cpu), ncu (on cuda) or rocprof (on hip), got \"",
                                std::string_view(spec.profiler()).substr(0, kShownBytes), "\"")});
}

void CheckProfilerOn(const v1::JobSpec& spec, const v1::Device& device,
                     std::vector<FieldError>& errors) {
  const std::optional<Profiler> profiler = ParseProfiler(spec.profiler());
  if (!profiler || BackendOf(*profiler) == device.backend()) return;
  std::string right;
  for (const Profiler other : kProfilers) {
    if (BackendOf(other) == device.backend()) right = Cat(": ask for ", Name(other), " there");
  }
  errors.push_back(
      {kField, Cat(Name(*profiler), " counts on ", BackendOf(*profiler), " devices, and ",
                   device.id(), " is a ", device.backend(), " device", right)});
}

bool IsTimed(const v1::CaseSpec& spec) {
  return spec.mode() == v1::MODE_BENCHMARK || spec.mode() == v1::MODE_BOTH;
}

void AddProfile(std::string_view profiler, CaseExecutor& device, const v1::CaseSpec& spec,
                absl::Duration limit, const CancelToken& cancel, v1::CaseResult& result) {
  const std::optional<Profiler> which = ParseProfiler(profiler);
  if (!which || !IsTimed(spec) || !result.bench().has_median_seconds()) return;
  Profile profile = device.ProfileCase(*which, spec, limit, cancel);
  result.mutable_bench()->mutable_profile()->insert(profile.counters.begin(),
                                                    profile.counters.end());
  if (profile.counters.empty()) {
    Log(LogLevel::kDebug, "profile.empty",
        {{"device", device.device_id()}, {"case", spec.name()}, {"reason", profile.note}});
  }
  result.mutable_bench()->set_profile_note(std::move(profile.note));
}

}  // namespace assay::server
