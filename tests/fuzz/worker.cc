#include <cstring>
#include <string>
#include <vector>

#include "assay/worker/v1/worker.pb.h"
#include "server/base/roofs.h"
#include "server/metrics/ceiling_series.h"
#include "server/metrics/families.h"
#include "server/metrics/kernel_series.h"
#include "server/metrics/metrics.h"
#include "server/metrics/registry.h"
#include "server/process/phase_page.h"
#include "server/worker/cases_ahead.h"
#include "server/worker/worker_link.h"
#include "tests/fuzz/fuzz.h"

namespace assay::fuzz {
namespace {

v1::Device KnownDevice() {
  v1::Device device;
  device.set_id("cpu:0");
  device.set_name("devices/cpu:0");
  device.set_backend("cpu");
  return device;
}

// Series of one device alone. All metrics of a daemon take several times as long to make.
class Series {
 public:
  explicit Series(const v1::Device& device, const std::vector<v1::Kernel>& kernels = {})
      : kernels_(families_, device.id(), kernels) {
    server::SetCeilings(families_, device.id(), device.ceilings());
    kernels_.SetCeilings(device.ceilings());
  }
  void CaseFinished(const v1::CaseResult& result) { kernels_.Count(kernels_.IdOf(result), result); }
  std::string Exposition() const { return registry_.Exposition(); }

 private:
  server::MetricRegistry registry_;
  server::Families families_{registry_};
  server::KernelSeries kernels_;
};

// Whether an input makes all metrics of a daemon.
bool MakesAll(std::string_view bytes) { return IsOneOf(16, bytes); }

void Describe(std::string_view bytes) {
  worker::v1::DescribeResponse response;
  if (!response.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
  const std::vector<v1::Kernel> kernels(response.kernels().begin(), response.kernels().end());
  if (!MakesAll(bytes)) {
    Series(response.device(), kernels).Exposition();
    return;
  }
  const auto metrics = server::MakeMetrics("1");
  metrics->AddDevice(response.device(), kernels);
  metrics->DeviceChanged(response.device());
  metrics->Exposition();
}

// `metrics` are a daemon's, or a device's series.
void RunCase(worker::v1::RunCaseResponse& response, auto& metrics) {
  metrics.CaseFinished(response.result());
  const std::vector<v1::CaseSpec> specs(3);
  server::CasesAhead ahead;
  for (const v1::CaseSpec& spec : specs) ahead.next.push_back(&spec);
  ahead.TakeLed(absl::UnixEpoch(), 7, response);
  for (const auto& [index, result] : ahead.results) {
    Require(index > 7 && index <= 10, "a result of a case that nobody asked for");
    metrics.CaseFinished(result);
  }
  if (response.has_result()) ahead.HoldAgainst(8, *response.mutable_result());
  metrics.Exposition();
}

void RunCase(std::string_view bytes) {
  worker::v1::RunCaseResponse response;
  if (!response.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
  v1::Device device = KnownDevice();
  server::MergeCeilings(response.ceilings(), device);
  server::FindRoof(device.ceilings(), v1::DTYPE_FP32);
  if (!MakesAll(bytes)) {
    Series series(device);
    return RunCase(response, series);
  }
  const auto metrics = server::MakeMetrics("1");
  metrics->AddDevice(device, {});
  RunCase(response, *metrics);
}

// A kernel may write anything into the page that it shares with the daemon.
void Page(std::string_view bytes) {
  std::uint32_t phase = 0;
  std::memcpy(&phase, bytes.data(), std::min(bytes.size(), sizeof(phase)));
  Require(!server::PhaseText(phase).empty(), "a phase without words");
  Require(v1::Phase_IsValid(server::PhaseOf(phase)), "no such phase on the wire");
}

}  // namespace

// The first byte chooses the answer.
void FuzzWorker(std::string_view bytes) {
  if (bytes.empty()) return;
  const std::string_view rest = bytes.substr(1);
  switch (bytes[0] & 3) {
    case 0:
      return RunCase(rest);
    case 1:
      return Describe(rest);
    default:
      return Page(rest);
  }
}

}  // namespace assay::fuzz
