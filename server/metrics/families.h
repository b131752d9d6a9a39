// Every metric family of the daemon, declared here and nowhere else. Names and labels: see
// the README's list; base units.
#ifndef ASSAY_SERVER_METRICS_FAMILIES_H_
#define ASSAY_SERVER_METRICS_FAMILIES_H_

#include <string>

#include "server/metrics/registry.h"

namespace assay {

struct Families {
  explicit Families(MetricRegistry& r)
      : build_info(Gauges(r, "build_info", "Version of the daemon and its backends; always 1")),
        device_info(Gauges(r, "device_info", "What a device is; always 1")),
        jobs(Counters(r, "jobs_total", "Jobs that ended, by verdict")),
        queue_depth(Gauges(r, "queue_depth", "Cases that wait for the device")),
        cases(Counters(r, "cases_total", "Cases that ended, by verdict")),
        case_duration(
            Histograms(r, "case_duration_seconds", "Time of a case, its reference included")),
        nan(Counters(r, "nan_total",
                     "NaN in outputs, by where they came from and whether a right kernel may "
                     "have them too")),
        inf(Counters(r, "inf_total",
                     "Infinities in outputs, by where they came from and whether a right kernel "
                     "may have them too")),
        unwritten(Counters(r, "unwritten_elements_total", "Output elements never written")),
        guard(Counters(r, "guard_violations_total",
                       "Cases whose kernel wrote outside of its output")),
        nondeterministic(
            Counters(r, "nondeterministic_total", "Cases whose launches did not agree bit by bit")),
        digest(Counters(r, "digest_mismatches_total",
                        "Cases whose output's digest was not the expected one")),
        ratio(Histograms(r, "error_bound_ratio",
                         "Largest |error| / bound of a case; above 1 the kernel is wrong")),
        ratio_max(Gauges(r, "error_bound_ratio_max",
                         "Largest |error| / bound of all cases since the daemon started")),
        exceeded(Counters(r, "error_bound_exceeded_total",
                          "Cases that failed with an |error| above its bound")),
        flops(Gauges(r, "kernel_flops_per_second", "Speed in the newest benchmark")),
        bytes(Gauges(r, "kernel_bytes_per_second", "Bytes moved in the newest benchmark")),
        efficiency(Gauges(r, "kernel_efficiency_ratio",
                          "Share of the roof reached in the newest benchmark")),
        suite_efficiency(Gauges(r, "suite_efficiency_ratio",
                                "Mean share of the roof of a kernel's timed cases in the suite's "
                                "newest whole run")),
        suite_flops(Gauges(r, "suite_flops_per_second",
                           "Mean speed of a kernel's timed cases that arithmetic bounds, in the "
                           "suite's newest whole run")),
        suite_bytes(Gauges(r, "suite_bytes_per_second",
                           "Mean bytes moved in a kernel's timed cases that memory bounds, in "
                           "the suite's newest whole run")),
        suite_ratio_max(Gauges(r, "suite_error_bound_ratio_max",
                               "Largest |error| / bound of a kernel's cases that passed, in the "
                               "suite's newest whole run")),
        ceiling_flops(Gauges(r, "ceiling_flops_per_second",
                             "Measured peak of multiply-adds, two operations each")),
        ceiling_bytes(Gauges(r, "ceiling_bytes_per_second",
                             "Measured copy bandwidth, read and written bytes both counted")),
        memory(Gauges(r, "device_memory_bytes",
                      "Memory of the device: total, arena (most that cases may take), leased "
                      "(taken now)")),
        temperature(Gauges(r, "device_temperature_celsius", "Hottest sensor of the device")),
        power(Gauges(r, "device_power_watts", "Power that the device draws")),
        clock(Gauges(r, "device_clock_hertz", "Clock of the device's cores or memory")),
        throttle(Counters(r, "device_throttle_seconds_total",
                          "Time for which the device was held below its clocks, by reason")),
        ecc(Counters(r, "device_ecc_errors_total",
                     "Errors that the device's memory found, corrected or not")),
        faults(Counters(r, "device_faults_total",
                        "Faults that the device or its driver reported, by code")),
        restarts(Counters(r, "worker_restarts_total", "Workers replaced, by reason")),
        quarantined(Gauges(r, "device_quarantined",
                           "1 where the device is set aside because its worker kept dying")),
        detected(
            Gauges(r, "selftest_detected_ratio",
                   "Share of the planted defects that the newest self-test found as often as it "
                   "must")),
        false_alarms(Counters(r, "selftest_false_alarms_total",
                              "Cases of self-tests in which a right kernel was called wrong")),
        qualified(Gauges(r, "qualification_passed",
                         "1 where the newest qualification that ended passed, else 0")),
        qualified_time(Gauges(r, "qualification_last_completion_timestamp_seconds",
                              "When the newest qualification ended, since 1970")),
        qualified_duration(
            Gauges(r, "qualification_duration_seconds", "How long the newest qualification took")),
        rpcs(Counters(r, "rpc_requests_total", "Calls of the API that ended, by code")),
        rpc_duration(Histograms(r, "rpc_duration_seconds", "Time of a call of the API")) {}

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
  Family<Gauge>& ratio_max;
  Family<Counter>& exceeded;
  Family<Gauge>&flops, &bytes, &efficiency;
  Family<Gauge>&suite_efficiency, &suite_flops, &suite_bytes, &suite_ratio_max;
  Family<Gauge>&ceiling_flops, &ceiling_bytes, &memory;
  Family<Gauge>&temperature, &power, &clock;
  Family<Counter>&throttle, &ecc, &faults, &restarts;
  Family<Gauge>&quarantined, &detected;
  Family<Counter>& false_alarms;
  Family<Gauge>&qualified, &qualified_time, &qualified_duration;
  Family<Counter>& rpcs;
  Family<Histogram>& rpc_duration;
};

}  // namespace assay

#endif  // ASSAY_SERVER_METRICS_FAMILIES_H_
