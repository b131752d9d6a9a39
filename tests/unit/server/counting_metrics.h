// Metrics that only count, for tests of what feeds them.
#ifndef ASSAY_TESTS_UNIT_SERVER_COUNTING_METRICS_H_
#define ASSAY_TESTS_UNIT_SERVER_COUNTING_METRICS_H_

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "kernels/text/cat.h"
#include "server/metrics/metrics.h"

namespace assay::server {

class CountingMetrics : public Metrics {
 public:
  void AddDevice(const v1::Device&, const std::vector<v1::Kernel>&) override {}
  void DeviceChanged(const v1::Device&) override {}
  void CaseFinished(const v1::CaseResult& result) override {
    ++cases;
    failed += result.verdict() == v1::VERDICT_FAILED ? 1 : 0;
  }
  void JobFinished(v1::Verdict) override { ++jobs; }
  void SelftestFinished(const v1::SelftestReport& report) override {
    selftests += report.rows_size() > 0 ? 1 : 0;
  }
  void TelemetryChanged(const v1::Device&) override {}
  void CertificateExpires(double) override {}
  void StoreChanged(bool, int, bool) override {}
  void QualificationFinished(std::string_view device, std::string_view suite, v1::Verdict verdict,
                             double, double) override {
    const std::lock_guard guard(mutex_);
    ++calls_[Cat("qualified ", device, " ", suite,
                 verdict == v1::VERDICT_UNSPECIFIED ? " unjudged"
                 : verdict == v1::VERDICT_PASSED    ? " passed"
                 : verdict == v1::VERDICT_FAILED    ? " failed"
                                                    : " unproven")];
  }
  void SuiteFinished(std::string_view suite, std::string_view version,
                     const SuiteTally& tally) override {
    const std::lock_guard guard(mutex_);
    for (const auto& device : tally.devices()) {
      ++calls_[Cat("suite ", suite, " ", version, " on ", device.first)];
    }
  }
  void QueueDepth(std::string_view, int depth) override { queue = depth; }
  void WorkerRestarted(std::string_view, std::string_view) override {}
  void LimitReached(Limit limit) override {
    const std::lock_guard guard(mutex_);
    ++calls_[Cat("limit ", Setting(limit))];
  }
  void RpcFinished(std::string_view method, std::string_view code, double) override {
    const std::lock_guard guard(mutex_);
    ++calls_[Cat(method, " ", code)];
  }
  std::string Exposition() override { return ""; }
  int calls(const std::string& key) {
    const std::lock_guard guard(mutex_);
    return calls_[key];
  }

  std::atomic<int> cases{0}, failed{0}, jobs{0}, selftests{0}, queue{-1};

 private:
  std::mutex mutex_;
  std::map<std::string, int> calls_;
};

}  // namespace assay::server

#endif  // ASSAY_TESTS_UNIT_SERVER_COUNTING_METRICS_H_
