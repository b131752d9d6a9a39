// Every metric family of the daemon, declared once, and the calls that feed it.
//
// Labels are bounded: devices, ops, providers and types are names the daemon
// knows; anything else is counted as "other", also a type that its kernel does not
// have, unless the result is UNSUPPORTED and so says just that; reasons, codes and the
// like are those of fixed tables. A device has at most 2,000 series. Planted kernels (provider
// "planted/…") count only under assay_selftest_*, and there only by the score of a
// self-test. Thread-safe.
#ifndef ASSAY_SERVER_METRICS_METRICS_H_
#define ASSAY_SERVER_METRICS_METRICS_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "assay/v1/case.pb.h"
#include "assay/v1/device.pb.h"
#include "assay/v1/selftest.pb.h"
#include "server/metrics/suite_tally.h"

namespace assay {

class Metrics {
 public:
  virtual ~Metrics() = default;

  // Declares a device and its kernels, so that its counters exist at 0 before
  // the first event.
  virtual void AddDevice(const v1::Device& device, const std::vector<v1::Kernel>& kernels) = 0;
  virtual void DeviceChanged(const v1::Device& device) = 0;  // memory, ceilings, quarantine
  virtual void CaseFinished(const v1::CaseResult& result) = 0;
  // Not called for self-tests, nor for jobs all of whose cases are planted.
  virtual void JobFinished(v1::Verdict verdict) = 0;
  // Called with the score of a self-test, and with an empty one for other jobs.
  virtual void SelftestFinished(const v1::SelftestReport& report) = 0;
  // A device's newest sample: id, properties and telemetry, its counters since the daemon's
  // start. What it lacks is no longer shown.
  virtual void TelemetryChanged(const v1::Device& device) = 0;
  // A job of a qualification level ended, all of whose cases have a result: whether the
  // device passed (absent where nothing speaks against it but what a caller held it against),
  // how long it took, and when it ended (seconds since 1970).
  virtual void QualificationFinished(std::string_view device, std::string_view suite,
                                     std::optional<bool> passed, double seconds,
                                     double end_time) = 0;
  // All of a suite of the daemon's own ended, as it is written and in its own time.
  virtual void SuiteFinished(std::string_view suite, std::string_view version,
                             const SuiteTally& tally) = 0;
  virtual void QueueDepth(std::string_view device, int cases) = 0;
  virtual void WorkerRestarted(std::string_view device, std::string_view reason) = 0;
  virtual void RpcFinished(std::string_view method, std::string_view code, double seconds) = 0;

  // The text exposition, format version 0.0.4.
  virtual std::string Exposition() = 0;
};

// The level that a suite qualifies for by its name: "quick", "medium", "nightly" or
// "extended", also where it is called 1 to 4; empty for others.
std::string_view QualificationLevel(std::string_view suite);

std::unique_ptr<Metrics> MakeMetrics(std::string_view version);

}  // namespace assay

#endif  // ASSAY_SERVER_METRICS_METRICS_H_
