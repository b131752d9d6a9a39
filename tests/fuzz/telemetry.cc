#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/base/model_name.h"
#include "server/metrics/families.h"
#include "server/metrics/metrics.h"
#include "server/metrics/registry.h"
#include "server/metrics/telemetry_series.h"
#include "server/telemetry/accumulator.h"
#include "server/telemetry/sample_stream.h"
#include "server/telemetry/sysfs.h"
#include "tests/fuzz/fuzz.h"

namespace assay::fuzz {
namespace {

constexpr char kDevice[] = "cuda:0";
// Of a longer stream the first kShown / 2 samples and the newest kShown / 2 are shown. A byte 0 is
// a sample, so a stream may have many, and each replaces what the one before it showed.
constexpr std::size_t kShown = 8;

// The series of samples alone. All metrics of a daemon take ten times as long to make.
class Series {
 public:
  void Set(const v1::Device& sample) { series_.Set(kDevice, sample.telemetry()); }
  std::string Exposition() const { return registry_.Exposition(); }

 private:
  server::MetricRegistry registry_;
  server::Families families_{registry_};
  server::TelemetrySeries series_{families_};
};

// All metrics of a daemon, for the labels that a sample's properties become.
class All {
 public:
  All() : metrics_(server::MakeMetrics("1")) {
    v1::Device known;
    known.set_id(kDevice);
    known.set_backend("cuda");
    metrics_->AddDevice(known, {});
  }
  void SetLabels(v1::Device sample) {
    sample.clear_telemetry();
    metrics_->TelemetryChanged(sample);
  }
  std::string Exposition() const { return metrics_->Exposition(); }

 private:
  const std::unique_ptr<server::Metrics> metrics_;
};

void Show(const std::vector<v1::Device>& samples) {
  Series series;
  for (const v1::Device& sample : samples) series.Set(sample);
  series.Exposition();
}

void ShowLabels(const std::vector<v1::Device>& samples) {
  All all;
  for (const v1::Device& sample : samples) all.SetLabels(sample);
  all.Exposition();
}

}  // namespace

// The daemon reads the stream of a process that loads drivers' libraries.
void FuzzTelemetry(std::string_view bytes) {
  server::SysfsNumber(server::SysfsWord(bytes));
  const std::string stream(bytes);
  server::TelemetryAccumulator counters;
  std::vector<v1::Device> samples;
  std::size_t used = 0;
  while (auto sample = server::NextSample(stream, &used)) {
    Require(used <= stream.size(), "a sample ends behind the stream");
    counters.Apply(sample->mutable_telemetry());
    server::ModelName(*sample);
    sample->set_id(kDevice);  // the daemon passes over other devices
    if (samples.size() == kShown) samples.erase(samples.begin() + kShown / 2);
    samples.push_back(*std::move(sample));
  }
  if (samples.empty()) return;
  if (samples.size() > 2 && !IsOneOf(16, bytes)) {
    samples.erase(samples.begin() + 1, samples.end() - 1);
  }
  Show(samples);
  if (IsOneOf(64, bytes)) ShowLabels(samples);
}

}  // namespace assay::fuzz
