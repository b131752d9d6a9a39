// All metric families of the daemon: their names, types and help texts. No other file declares one.
// Values are in base units.
#ifndef ASSAY_SERVER_METRICS_FAMILIES_H_
#define ASSAY_SERVER_METRICS_FAMILIES_H_

#include <string>

#include "server/metrics/registry.h"

namespace assay::server {

// A member is a family. They are scraped in this order.
class Families {
 private:
  MetricRegistry& registry_;  // before the families, which are made in it

  Family<Counter>& Counters(const char* name, const char* help) {
    return registry_.Add<Counter>(std::string("assay_") + name, help);
  }
  Family<Gauge>& Gauges(const char* name, const char* help) {
    return registry_.Add<Gauge>(std::string("assay_") + name, help);
  }
  Family<Histogram>& Histograms(const char* name, const char* help) {
    return registry_.Add<Histogram>(std::string("assay_") + name, help);
  }

 public:
  explicit Families(MetricRegistry& registry) : registry_(registry) {}

  Family<Gauge>& build_info =
      Gauges("build_info", "Version and backends of the daemon. The value is always 1.");
  Family<Gauge>& device_info =
      Gauges("device_info", "Model and driver of a device. The value is always 1.");
  Family<Counter>& jobs = Counters("jobs_total", "Jobs that have ended, by verdict.");
  Family<Gauge>& queue_depth =
      Gauges("queue_depth", "Cases that wait for the device or run on it.");
  Family<Counter>& cases = Counters("cases_total", "Cases that have ended, by verdict.");
  Family<Histogram>& case_duration =
      Histograms("case_duration_seconds", "Time of a case, its reference included.");
  Family<Counter>& nan = Counters(
      "nan_total", "NaN in outputs, by origin and by whether a right kernel may have them too.");
  Family<Counter>& inf =
      Counters("inf_total",
               "Infinities in outputs, by origin and by whether a right kernel may have them too.");
  Family<Counter>& unwritten =
      Counters("unwritten_elements_total", "Output elements that a kernel never wrote.");
  Family<Counter>& guard =
      Counters("guard_violations_total", "Cases whose kernel wrote outside its output.");
  Family<Counter>& nondeterministic =
      Counters("nondeterministic_total", "Cases whose launches did not agree bit by bit.");
  Family<Counter>& digest =
      Counters("digest_mismatches_total", "Cases whose output had another digest than expected.");
  Family<Histogram>& ratio = Histograms(
      "error_bound_ratio", "Largest |error| / bound of a case. Above 1 the kernel is wrong.");
  Family<Gauge>& ratio_max = Gauges(
      "error_bound_ratio_max", "Largest |error| / bound of all cases since the daemon started.");
  // Prometheus has no unit of bits but those of a byte.
  Family<Gauge>& precision = Gauges("kernel_precision_binary_digits",
                                    "Lowest effective precision of all cases since the daemon "
                                    "started, in bits of a significand.");
  Family<Counter>& exceeded = Counters("error_bound_exceeded_total",
                                       "Cases that failed because an |error| was above its bound.");
  Family<Gauge>& flops =
      Gauges("kernel_flops_per_second", "Operations a second in the newest benchmark.");
  Family<Gauge>& bytes =
      Gauges("kernel_bytes_per_second", "Bytes moved a second in the newest benchmark.");
  Family<Gauge>& efficiency =
      Gauges("kernel_efficiency_ratio", "Share of the roof that the newest benchmark reached.");
  Family<Gauge>& suite_efficiency =
      Gauges("suite_efficiency_ratio",
             "Mean share of the roof of a kernel's timed cases, in the suite's newest whole run.");
  Family<Gauge>& suite_flops = Gauges("suite_flops_per_second",
                                      "Mean operations a second of a kernel's timed cases under "
                                      "the compute roof, in the suite's newest whole run.");
  Family<Gauge>& suite_bytes = Gauges("suite_bytes_per_second",
                                      "Mean bytes moved a second of a kernel's timed cases under "
                                      "the memory roof, in the suite's newest whole run.");
  Family<Gauge>& suite_ratio_max = Gauges(
      "suite_error_bound_ratio_max",
      "Largest |error| / bound of a kernel's cases that passed, in the suite's newest whole run.");
  Family<Gauge>& ceiling_flops = Gauges(
      "ceiling_flops_per_second", "Measured peak of multiply-adds. Each counts as two operations.");
  Family<Gauge>& ceiling_bytes = Gauges(
      "ceiling_bytes_per_second", "Measured copy bandwidth. Read and written bytes both count.");
  Family<Gauge>& memory = Gauges("device_memory_bytes",
                                 "Memory of the device by state: total, arena (the most that cases "
                                 "may take), leased (what cases hold now).");
  Family<Gauge>& temperature =
      Gauges("device_temperature_celsius", "Temperature of the device's hottest sensor.");
  Family<Gauge>& power = Gauges("device_power_watts", "Power that the device draws.");
  Family<Gauge>& clock = Gauges("device_clock_hertz", "Clock of the device's cores or memory.");
  Family<Counter>& throttle =
      Counters("device_throttle_seconds_total",
               "Time in which the device was held below its clocks, by reason.");
  Family<Counter>& ecc =
      Counters("device_ecc_errors_total", "Errors that the device's memory found, by type.");
  Family<Counter>& faults =
      Counters("device_faults_total", "Faults that the device or its driver reported, by code.");
  Family<Counter>& restarts =
      Counters("worker_restarts_total", "Workers that the daemon replaced, by reason.");
  Family<Gauge>& quarantined = Gauges(
      "device_quarantined", "1 if the device is set aside because its worker kept dying, else 0.");
  Family<Gauge>& containment = Gauges("device_containment_applied",
                                      "1 if the measure keeps the device's workers from the rest "
                                      "of the node, 0 if this platform does not allow it.");
  Family<Gauge>& detected =
      Gauges("selftest_detected_ratio",
             "Share of the planted defects that the newest self-test found as often as it must.");
  Family<Gauge>& cheats = Gauges("selftest_cheats_stopped_ratio",
                                 "Share of the cheats that the newest adversarial self-test "
                                 "stopped while their honest twins passed.");
  Family<Counter>& false_alarms =
      Counters("selftest_false_alarms_total",
               "Cases of self-tests in which a right kernel was called wrong.");
  Family<Gauge>& qualified =
      Gauges("qualification_passed", "1 if the newest qualification that ended passed, else 0.");
  Family<Gauge>& unqualified =
      Gauges("qualification_failed",
             "1 from a qualification that failed until one passes, else 0. One that is slow, or "
             "proves too little, has not failed.");
  Family<Gauge>& qualified_time =
      Gauges("qualification_last_completion_timestamp_seconds",
             "When the newest qualification ended, in seconds since 1970.");
  Family<Gauge>& qualified_duration =
      Gauges("qualification_duration_seconds", "How long the newest qualification took.");
  Family<Gauge>& certificate =
      Gauges("certificate_expiry_timestamp_seconds",
             "When the daemon's own certificate expires, in seconds since 1970.");
  Family<Counter>& limits = Counters(
      "limit_refusals_total",
      "Requests that were refused because a limit was reached, by the limit's setting or name.");
  Family<Gauge>& store_full = Gauges(
      "store_full", "1 while results cannot be written, as the disk or the store is full, else 0.");
  Family<Gauge>& store_held = Gauges(
      "store_held_updates", "Results and other updates of jobs that wait in memory for room.");
  Family<Gauge>& store_damaged = Gauges("store_damaged",
                                        "1 while a damaged store that was moved aside lies in the "
                                        "state folder, or if there are records that cannot be "
                                        "read, else 0.");
  Family<Counter>& rpcs =
      Counters("rpc_requests_total", "Calls of the API that have ended, by code.");
  Family<Histogram>& rpc_duration =
      Histograms("rpc_duration_seconds", "Time of a call of the API.");
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_METRICS_FAMILIES_H_
