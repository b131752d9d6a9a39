// The metrics of the daemon: the calls that feed them, and their text for a scraper.
//
// Labels are bounded. Devices, operators, providers and formats have names that the daemon knows,
// and any other name counts as "other". A format that the kernel does not have counts as "other"
// too, unless the result is UNSUPPORTED. Reasons and codes come from fixed tables. A device has at
// most 2,000 series. Of users' kernels only the verdicts count, under provider="user". Planted
// kernels (provider "planted/…") count only under assay_selftest_*, and only through the score of a
// self-test. Thread-safe.
#ifndef ASSAY_SERVER_METRICS_METRICS_H_
#define ASSAY_SERVER_METRICS_METRICS_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "assay/v1/case.pb.h"
#include "assay/v1/device.pb.h"
#include "assay/v1/selftest.pb.h"
#include "assay/v1/types.pb.h"
#include "server/base/limit.h"
#include "server/metrics/suite_tally.h"

namespace assay::server {

class Metrics {
 public:
  virtual ~Metrics() = default;

  // Declares a device and its kernels, so that their counters exist at 0 before the first event.
  virtual void AddDevice(const v1::Device& device, const std::vector<v1::Kernel>& kernels) = 0;
  // Takes over the device's memory, ceilings and quarantine.
  virtual void DeviceChanged(const v1::Device& device) = 0;
  virtual void CaseFinished(const v1::CaseResult& result) = 0;
  // Counts a job. Not called for self-tests, nor for jobs that have planted cases only.
  virtual void JobFinished(v1::Verdict verdict) = 0;
  // Takes over the score of a self-test. Called with an empty score for other jobs.
  virtual void SelftestFinished(const v1::SelftestReport& report) = 0;
  // Takes over a device's newest sample: id, properties and telemetry, with counters since the
  // daemon's start. A value that the sample lacks is no longer shown.
  virtual void TelemetryChanged(const v1::Device& device) = 0;
  // Takes over a qualification that ended with a result for every case: what it says of the device,
  // how long the job took, and when it ended (seconds since 1970). The verdict is unspecified if
  // only a baseline of the caller's speaks against the device. A device that has FAILED counts as
  // failed until it has PASSED.
  virtual void QualificationFinished(std::string_view device, std::string_view suite,
                                     v1::Verdict verdict, double seconds, double end_time) = 0;
  // Takes over a whole run of one of the daemon's suites, with the suite's own cases and budget.
  virtual void SuiteFinished(std::string_view suite, std::string_view version,
                             const SuiteTally& tally) = 0;
  virtual void QueueDepth(std::string_view device, int cases) = 0;
  virtual void WorkerRestarted(std::string_view device, std::string_view reason) = 0;
  // When the daemon's own certificate expires, in seconds since 1970.
  virtual void CertificateExpires(double time) = 0;
  // Counts a request that was refused because a limit was reached.
  virtual void LimitReached(Limit limit) = 0;
  // Whether the store has no room, the updates that wait for it, and whether it was found damaged.
  virtual void StoreChanged(bool full, int held, bool damaged) = 0;
  virtual void RpcFinished(std::string_view method, std::string_view code, double seconds) = 0;

  // The text for a scraper, in Prometheus' format 0.0.4.
  virtual std::string Exposition() = 0;
};

// The qualification level of a suite, from its name: "quick", "medium", "nightly" or "extended".
// The names 1 to 4 mean the same levels. Empty for other suites.
std::string_view QualificationLevel(std::string_view suite);

std::unique_ptr<Metrics> MakeMetrics(std::string_view version);

}  // namespace assay::server

#endif  // ASSAY_SERVER_METRICS_METRICS_H_
