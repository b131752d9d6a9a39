#include "client/qualify/selection.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace assay::client {
namespace {

// Nobody computes on it, so nobody has to trust it.
constexpr char kEmulator[] = "simt";

bool Accelerates(const v1::Device& device) {
  return device.backend() != "cpu" && device.backend() != kEmulator;
}

// "cuda:*" takes all of a backend, "all" everything.
bool Takes(const QualifyOptions& options, const v1::Device& device, bool accelerators) {
  const std::string& wanted = options.device;
  if (wanted.empty()) {
    return accelerators == Accelerates(device) && device.backend() != kEmulator;
  }
  return wanted == "all" || wanted == device.id() || wanted == device.backend() ||
         wanted == absl::StrCat(device.backend(), ":*");
}

// A device of its own, and not a backend that says why it has none.
bool IsNamed(const v1::Device& device) { return device.id().find(':') != std::string::npos; }

bool IsUsable(const v1::Device& device) { return device.state() != v1::DEVICE_STATE_UNAVAILABLE; }

// "it has no device "cpu:9"; it has cpu:0".
std::string NoneAskedFor(const QualifyOptions& options, const std::vector<v1::Device>& devices,
                         const std::vector<std::string>& ignored) {
  if (!ignored.empty()) {
    return absl::StrCat("nothing is left to qualify: --ignore names ",
                        absl::StrJoin(ignored, ", "));
  }
  std::vector<std::string> usable;
  for (const v1::Device& device : devices) {
    if (IsUsable(device)) usable.push_back(device.id());
  }
  return absl::StrCat("it has no device",
                      options.device.empty() ? "" : absl::StrCat(" \"", options.device, "\""),
                      usable.empty() ? "" : "; it has ", absl::StrJoin(usable, ", "));
}

// All that the node has of a backend, whatever --device takes.
FoundDevices FindOf(const std::string& backend, const QualifyOptions& options,
                    const std::vector<v1::Device>& devices,
                    const std::vector<const v1::Device*>& chosen) {
  FoundDevices found;
  std::string why_none;
  for (const v1::Device& device : devices) {
    if (device.backend() != backend) continue;
    const bool ignored = options.ignored.contains(device.id());
    if (ignored || IsUsable(device)) {
      ++found.count;
      found.with_ignored |= ignored;
    } else if (!IsNamed(device)) {
      why_none = device.unavailable_reason();
    }
  }
  if (found.count > 0) return found;
  found.why_none = why_none;
  // What is named is not taken in another's place.
  if (!options.device.empty()) return found;
  for (const v1::Device* const device : chosen) found.instead.push_back(device->id());
  return found;
}

}  // namespace

Selection Select(const QualifyOptions& options, const std::string& target,
                 const std::vector<v1::Device>& devices) {
  Selection selection;
  std::vector<const v1::Device*>& chosen = selection.chosen;
  const bool accelerators = std::any_of(devices.begin(), devices.end(), [](const v1::Device& d) {
    return IsUsable(d) && Accelerates(d);
  });
  std::vector<std::string> ignored;  // are not judged, but are there
  for (const v1::Device& device : devices) {
    if (!Takes(options, device, accelerators)) continue;
    if (options.ignored.contains(device.id())) {
      ignored.push_back(device.id());
    } else if (IsUsable(device)) {
      chosen.push_back(&device);
    }
  }
  const ExpectedDevices expected = options.expect_devices.value_or(ExpectedDevices());
  const FoundDevices found =
      expected.backend.empty()
          ? FoundDevices{static_cast<int>(chosen.size() + ignored.size()), !ignored.empty(), {}, {}}
          : FindOf(expected.backend, options, devices, chosen);
  if (options.expect_devices && found.count != expected.count) {
    selection.missing.push_back(
        {target, DeviceCountText(expected, found), expected.count, found.count, false, true});
  } else if (chosen.empty()) {
    selection.missing.push_back({target, NoneAskedFor(options, devices, ignored), {}, 0, true});
  }
  for (const v1::Device& device : devices) {
    // One that was named to the daemon and is not there; a backend that no device of this
    // node needs says why, too, and is not missed.
    if (IsUsable(device) || !IsNamed(device) || options.ignored.contains(device.id())) continue;
    const bool wanted =
        options.device.empty() || Takes(options, device, true) || Takes(options, device, false);
    if (wanted) {
      selection.missing.push_back(
          {target, absl::StrCat(device.id(), ": ", device.unavailable_reason()), 1, 0});
    }
  }
  return selection;
}

}  // namespace assay::client
