#include <memory>
#include <string>

#include "server/base/model_name.h"
#include "server/metrics/metrics.h"
#include "server/telemetry/accumulator.h"
#include "server/telemetry/sample_stream.h"
#include "server/telemetry/sysfs.h"
#include "tests/fuzz/fuzz.h"

// The daemon reads the stream of a process that loads drivers' libraries.
void assay::fuzz::FuzzTelemetry(std::string_view bytes) {
  server::SysfsNumber(server::SysfsWord(bytes));
  const std::string stream(bytes);
  v1::Device known;
  known.set_id("cuda:0");
  known.set_backend("cuda");
  std::unique_ptr<server::Metrics> metrics;  // takes longer than all else
  server::TelemetryAccumulator counters;
  std::size_t used = 0;
  while (auto sample = server::NextSample(stream, &used)) {
    Require(used <= stream.size(), "a sample ends behind the stream");
    counters.Apply(sample->mutable_telemetry());
    server::ModelName(*sample);
    sample->set_id("cuda:0");  // the daemon passes over other devices
    if (metrics == nullptr) {
      metrics = server::MakeMetrics("1");
      metrics->AddDevice(known, {});
    }
    metrics->TelemetryChanged(*sample);
  }
  if (metrics != nullptr) metrics->Exposition();
}
