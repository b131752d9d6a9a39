// All metric families of the daemon: their names, types and help texts. No other file declares one.
// Values are in base units.
#ifndef ASSAY_SERVER_METRICS_FAMILIES_H_
#define ASSAY_SERVER_METRICS_FAMILIES_H_

#include <string>

#include "server/metrics/registry.h"

namespace assay::server {

struct Families {
  explicit Families(MetricRegistry& r)
      : build_info(
            Gauges(r, "build_info", "Version and backends of the daemon. The value is always 1.")),
        device_info(
            Gauges(r, "device_info", "Model and driver of a device. The value is always 1.")),
        jobs(Counters(r, "jobs_total", "Jobs that have ended, by verdict.")),
        queue_depth(Gauges(r, "queue_depth", "Cases that wait for the device.")),
        cases(Counters(r, "cases_total", "Cases that have ended, by verdict.")),
        case_duration(
            Histograms(r, "case_duration_seconds", "Time of a case, its reference included.")),
        nan(Counters(r, "nan_total",
                     "NaN in outputs, by origin and by whether a right kernel may have them too.")),
        inf(Counters(
            r, "inf_total",
            "Infinities in outputs, by origin and by whether a right kernel may have them too.")),
        unwritten(
            Counters(r, "unwritten_elements_total", "Output elements that a kernel never wrote.")),
        guard(
            Counters(r, "guard_violations_total", "Cases whose kernel wrote outside its output.")),
        nondeterministic(Counters(r, "nondeterministic_total",
                                  "Cases whose launches did not agree bit by bit.")),
        digest(Counters(r, "digest_mismatches_total",
                        "Cases whose output had another digest than expected.")),
        ratio(Histograms(r, "error_bound_ratio",
                         "Largest |error| / bound of a case. Above 1 the kernel is wrong.")),
        ratio_max(Gauges(r, "error_bound_ratio_max",
                         "Largest |error| / bound of all cases since the daemon started.")),
        // Prometheus has no unit of bits but those of a byte.
        precision(Gauges(r, "kernel_precision_binary_digits",
                         "Lowest effective precision of all cases since the daemon started, in "
                         "bits of a significand.")),
        exceeded(Counters(r, "error_bound_exceeded_total",
                          "Cases that failed because an |error| was above its bound.")),
        flops(Gauges(r, "kernel_flops_per_second", "Operations a second in the newest benchmark.")),
        bytes(
            Gauges(r, "kernel_bytes_per_second", "Bytes moved a second in the newest benchmark.")),
        efficiency(Gauges(r, "kernel_efficiency_ratio",
                          "Share of the roof that the newest benchmark reached.")),
        suite_efficiency(Gauges(r, "suite_efficiency_ratio",
                                "Mean share of the roof of a kernel's timed cases, in the suite's "
                                "newest whole run.")),
        suite_flops(Gauges(r, "suite_flops_per_second",
                           "Mean operations a second of a kernel's timed cases under the compute "
                           "roof, in the suite's newest whole run.")),
        suite_bytes(Gauges(r, "suite_bytes_per_second",
                           "Mean bytes moved a second of a kernel's timed cases under the memory "
                           "roof, in the suite's newest whole run.")),
        suite_ratio_max(Gauges(r, "suite_error_bound_ratio_max",
                               "Largest |error| / bound of a kernel's cases that passed, in the "
                               "suite's newest whole run.")),
        ceiling_flops(Gauges(r, "ceiling_flops_per_second",
                             "Measured peak of multiply-adds. Each counts as two operations.")),
        ceiling_bytes(Gauges(r, "ceiling_bytes_per_second",
                             "Measured copy bandwidth. Read and written bytes both count.")),
        memory(Gauges(r, "device_memory_bytes",
                      "Memory of the device by state: total, arena (the most that cases may "
                      "take), leased (what cases hold now).")),
        temperature(
            Gauges(r, "device_temperature_celsius", "Temperature of the device's hottest sensor.")),
        power(Gauges(r, "device_power_watts", "Power that the device draws.")),
        clock(Gauges(r, "device_clock_hertz", "Clock of the device's cores or memory.")),
        throttle(Counters(r, "device_throttle_seconds_total",
                          "Time in which the device was held below its clocks, by reason.")),
        ecc(Counters(r, "device_ecc_errors_total",
                     "Errors that the device's memory found, by type.")),
        faults(Counters(r, "device_faults_total",
                        "Faults that the device or its driver reported, by code.")),
        restarts(
            Counters(r, "worker_restarts_total", "Workers that the daemon replaced, by reason.")),
        quarantined(Gauges(r, "device_quarantined",
                           "1 if the device is set aside because its worker kept dying, else 0.")),
        containment(Gauges(r, "device_containment_applied",
                           "1 if the measure keeps the device's workers from the rest of the "
                           "node, 0 if this platform does not allow it.")),
        detected(
            Gauges(r, "selftest_detected_ratio",
                   "Share of the planted defects that the newest self-test found as often as it "
                   "must.")),
        cheats(Gauges(r, "selftest_cheats_stopped_ratio",
                      "Share of the cheats that the newest adversarial self-test stopped while "
                      "their honest twins passed.")),
        false_alarms(Counters(r, "selftest_false_alarms_total",
                              "Cases of self-tests in which a right kernel was called wrong.")),
        qualified(Gauges(r, "qualification_passed",
                         "1 if the newest qualification that ended passed, else 0.")),
        qualified_time(Gauges(r, "qualification_last_completion_timestamp_seconds",
                              "When the newest qualification ended, in seconds since 1970.")),
        qualified_duration(
            Gauges(r, "qualification_duration_seconds", "How long the newest qualification took.")),
        certificate(Gauges(r, "certificate_expiry_timestamp_seconds",
                           "When the daemon's own certificate expires, in seconds since 1970.")),
        limits(Counters(r, "limit_refusals_total",
                        "Requests that were refused because a limit was reached, by the limit's "
                        "setting.")),
        store_full(Gauges(r, "store_full",
                          "1 while results cannot be written, as the disk or the store is full, "
                          "else 0.")),
        store_held(Gauges(r, "store_held_updates",
                          "Results and other updates of jobs that wait in memory for room.")),
        store_damaged(Gauges(r, "store_damaged",
                             "1 if the daemon moved a damaged store aside at its start, or found "
                             "records that it cannot read, else 0.")),
        rpcs(Counters(r, "rpc_requests_total", "Calls of the API that have ended, by code.")),
        rpc_duration(Histograms(r, "rpc_duration_seconds", "Time of a call of the API.")) {}

  static Family<Counter>& Counters(MetricRegistry& r, const char* name, const char* help) {
    return r.Add<Counter>(std::string("assay_") + name, help);
  }
  static Family<Gauge>& Gauges(MetricRegistry& r, const char* name, const char* help) {
    return r.Add<Gauge>(std::string("assay_") + name, help);
  }
  static Family<Histogram>& Histograms(MetricRegistry& r, const char* name, const char* help) {
    return r.Add<Histogram>(std::string("assay_") + name, help);
  }

  Family<Gauge>&build_info, &device_info;
  Family<Counter>& jobs;
  Family<Gauge>& queue_depth;
  Family<Counter>& cases;
  Family<Histogram>& case_duration;
  Family<Counter>&nan, &inf, &unwritten, &guard, &nondeterministic, &digest;
  Family<Histogram>& ratio;
  Family<Gauge>&ratio_max, &precision;
  Family<Counter>& exceeded;
  Family<Gauge>&flops, &bytes, &efficiency;
  Family<Gauge>&suite_efficiency, &suite_flops, &suite_bytes, &suite_ratio_max;
  Family<Gauge>&ceiling_flops, &ceiling_bytes, &memory;
  Family<Gauge>&temperature, &power, &clock;
  Family<Counter>&throttle, &ecc, &faults, &restarts;
  Family<Gauge>&quarantined, &containment, &detected, &cheats;
  Family<Counter>& false_alarms;
  Family<Gauge>&qualified, &qualified_time, &qualified_duration;
  Family<Gauge>& certificate;
  Family<Counter>& limits;
  Family<Gauge>&store_full, &store_held, &store_damaged;
  Family<Counter>& rpcs;
  Family<Histogram>& rpc_duration;
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_METRICS_FAMILIES_H_
