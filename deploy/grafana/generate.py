#!/usr/bin/env python3
"""Writes the dashboards of dashboards/*.json (Grafana 10): the one place to edit them.

Usage: deploy/grafana/generate.py [FOLDER]
"""

import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
NODE = 'instance=~"$instance", device=~"$device"'
KERNEL = f'{NODE}, op=~"$op", provider=~"$provider", dtype=~"$dtype"'
KERNEL_NAME = "{{instance}} {{device}} {{op}} {{dtype}} {{provider}}"

# Levels of device:assay_health:level.
HEALTH = [("healthy", "green"), ("warning", "yellow"), ("critical", "red"),
          ("no answer", "purple")]
HEALTH_MAPPING = [{"type": "value", "options": {
    str(level): {"text": text, "color": color, "index": level}
    for level, (text, color) in enumerate(HEALTH)}}]
VERDICT_COLORS = {"PASSED": "green", "FAILED": "red", "ERROR": "dark-red",
                  "INCONCLUSIVE": "yellow", "UNSUPPORTED": "blue", "SKIPPED": "text"}
UNEXPECTED = 'origin="kernel", expected="false"'
DEFECTS = [("NaN", "assay_nan_total", UNEXPECTED),
           ("infinities", "assay_inf_total", UNEXPECTED),
           ("unwritten elements", "assay_unwritten_elements_total", ""),
           ("guard violations", "assay_guard_violations_total", ""),
           ("digest mismatches", "assay_digest_mismatches_total", ""),
           ("nondeterministic cases", "assay_nondeterministic_total", "")]


def steps(*pairs):
    """Thresholds: (from, colour), the first from -infinity."""
    return {"mode": "absolute",
            "steps": [{"value": value, "color": color} for value, color in pairs]}


BAD_ABOVE_0 = steps((None, "green"), (1e-9, "red"))
BAD_BELOW_1 = steps((None, "red"), (1, "green"))
OF_FLEET = steps((None, "red"), (0.85, "yellow"), (0.95, "green"))  # healthy devices spread 5 %
OF_ROOF = steps((None, "red"), (0.4, "yellow"), (0.6, "green"))     # below 40 %: look closer
HOT = steps((None, "green"), (80, "yellow"), (90, "red"))           # degrees Celsius
OF_BOUND = steps((None, "green"), (1.0000001, "red"))               # above 1 the kernel is wrong


class Dashboard:
    """Panels in rows of 24 columns, from left to right."""

    def __init__(self, uid, title, description, variables):
        self.data = {
            "uid": uid, "title": title, "description": description, "tags": ["assay"],
            "schemaVersion": 38, "version": 1, "editable": True, "graphTooltip": 1,
            "refresh": "1m", "timezone": "browser", "time": {"from": "now-24h", "to": "now"},
            "links": [{"type": "dashboards", "title": "Assay", "tags": ["assay"],
                       "asDropdown": True, "includeVars": True, "keepTime": True}],
            "annotations": {"list": []},
            "templating": {"list": [
                {"name": "datasource", "label": "Prometheus", "type": "datasource",
                 "query": "prometheus", "current": {}, "hide": 0}] + variables},
            "panels": []}
        self.x = self.y = self.height = 0

    def row(self, title):
        self.y += self.height
        self.data["panels"].append(
            {"id": self._id(), "type": "row", "title": title, "collapsed": False, "panels": [],
             "gridPos": {"x": 0, "y": self.y, "w": 24, "h": 1}})
        self.x, self.y, self.height = 0, self.y + 1, 0

    def _id(self):
        return len(self.data["panels"]) + 1

    def panel(self, kind, title, queries, width, height, description="", unit="short",
              thresholds=None, mappings=None, overrides=(), options=None, custom=None,
              transformations=(), links=()):
        """queries: (PromQL, legend) each; those of anything but time series are instant."""
        if self.x + width > 24:
            self.x, self.y, self.height = 0, self.y + self.height, 0
        instant = kind != "timeseries"
        color = "thresholds" if thresholds and instant else "palette-classic"
        defaults = {"unit": unit, "color": {"mode": color}, "mappings": mappings or [],
                    "thresholds": thresholds or steps((None, "green")), "custom": custom or {},
                    "links": list(links)}
        if unit == "percentunit":
            defaults.update(min=0)
        self.data["panels"].append({
            "id": self._id(), "type": kind, "title": title, "description": description,
            "datasource": SOURCE, "gridPos": {"x": self.x, "y": self.y, "w": width, "h": height},
            "targets": [{"refId": chr(ord("A") + i), "datasource": SOURCE, "expr": expr,
                         "legendFormat": legend or "__auto", "instant": instant,
                         "range": not instant,
                         "format": "table" if kind == "table" else "time_series"}
                        for i, (expr, legend) in enumerate(queries)],
            "fieldConfig": {"defaults": defaults, "overrides": list(overrides)},
            "options": options or {}, "transformations": list(transformations)})
        self.x += width
        self.height = max(self.height, height)

    def stat(self, title, expr, width=4, legend="", **more):
        self.panel("stat", title, [(expr, legend)], width, 4, options={
            "colorMode": "background", "graphMode": "none", "textMode": "auto",
            "reduceOptions": {"calcs": ["lastNotNull"], "values": False}}, **more)

    def cells(self, title, expr, legend, width, height, **more):
        """A coloured cell a series, in the order of the query."""
        self.panel("stat", title, [(expr, legend)], width, height, options={
            "colorMode": "background", "graphMode": "none", "textMode": "value_and_name",
            "justifyMode": "center", "wideLayout": False,
            "reduceOptions": {"calcs": ["lastNotNull"], "values": False}}, **more)

    def lines(self, title, queries, width=12, height=8, stacked=False, **more):
        self.panel("timeseries", title, queries, width, height, options={
            "legend": {"displayMode": "table", "placement": "bottom", "calcs": ["lastNotNull"]},
            "tooltip": {"mode": "multi", "sort": "desc"}},
            custom={"lineWidth": 1, "fillOpacity": 20 if stacked else 0, "showPoints": "auto",
                    "spanNulls": False,
                    "stacking": {"mode": "normal" if stacked else "none", "group": "A"}}, **more)

    def bars(self, title, queries, width=12, height=8, **more):
        self.panel("bargauge", title, queries, width, height, options={
            "orientation": "horizontal", "displayMode": "basic", "showUnfilled": True,
            "reduceOptions": {"calcs": ["lastNotNull"], "values": False}}, **more)

    def table(self, title, expr, width=12, height=8, worst_first=True, value="Value", **more):
        hidden = {"Time": True, "__name__": True, "job": True, "alertstate": True}
        self.panel("table", title, [(expr, "")], width, height,
                   options={"showHeader": True, "cellHeight": "sm",
                            "sortBy": [{"displayName": value, "desc": worst_first}]},
                   overrides=[{"matcher": {"id": "byName", "options": value}, "properties": [
                       {"id": "custom.cellOptions", "value": {"type": "color-background"}}]}],
                   transformations=[{"id": "organize", "options": {
                       "excludeByName": hidden, "renameByName": {"Value": value}}}], **more)


def variable(name, metric, many=True):
    query = f"label_values({metric}, {name})"
    return {"name": name, "type": "query", "datasource": SOURCE, "definition": query,
            "query": {"query": query, "refId": name}, "refresh": 2, "sort": 1, "multi": many,
            "includeAll": many, "allValue": ".*" if many else None, "hide": 0,
            "current": {"text": "All", "value": "$__all"} if many else {}}


def verdict_colors():
    return [{"matcher": {"id": "byName", "options": verdict},
             "properties": [{"id": "color", "value": {"mode": "fixed", "fixedColor": color}}]}
            for verdict, color in VERDICT_COLORS.items()]


def defects(selector, window):
    """A query a kind of defect, summed over what the selector takes."""
    return [(f"sum(increase({metric}{{{', '.join(filter(None, (matchers, selector)))}}}"
             f"[{window}]))", name) for name, metric, matchers in DEFECTS]


def fleet():
    d = Dashboard("assay-fleet", "Assay: fleet", "Every device, the worst first", [])
    d.stat("Devices", "count(assay_device_info)")
    d.stat("Devices with a warning or worse", "sum(device:assay_health:level > bool 0)",
           thresholds=BAD_ABOVE_0)
    d.stat("Daemons that do not answer", 'sum(up{job="assay"} == bool 0)', thresholds=BAD_ABOVE_0)
    d.stat("Quarantined", "sum(assay_device_quarantined)", thresholds=BAD_ABOVE_0)
    d.stat("Cases in the last hour", "sum(increase(assay_cases_total[1h]))")
    d.stat("Cases that wait", "sum(assay_queue_depth)")
    d.row("Health")
    d.cells("Devices, the worst first", "sort_desc(device:assay_health:level)",
            "{{instance}} {{device}}", 24, 7, mappings=HEALTH_MAPPING,
            description="The worst alert that fires for the device, or that its daemon does not "
                        "answer. A cell leads to its node.",
            thresholds=steps(*[(level or None, color) for level, (_, color) in enumerate(HEALTH)]),
            links=[{"title": "Node", "url": "/d/assay-node?var-instance=${__field.labels.instance}"
                                            "&var-device=${__field.labels.device}"}])
    d.table("Alerts that fire", 'ALERTS{alertname=~"Assay.+", alertstate="firing"}', 14,
            worst_first=False, value="severity", description="Empty where nothing is wrong.")
    d.bars("Defects in the last day", defects("", "1d"), 10, thresholds=BAD_ABOVE_0)
    d.row("Qualification and heat")
    d.table("Newest qualifications", "assay_qualification_passed", 8, worst_first=False,
            value="passed", thresholds=BAD_BELOW_1)
    d.bars("Held below its clocks, the most first", [
        ("topk(20, sum by (instance, device) (device:assay_device_throttle_seconds:rate10m"
         '{reason!~"power|sync_boost"}))', "{{instance}} {{device}}")], 8, unit="percentunit",
        thresholds=steps((None, "green"), (0.1, "red")),
        description="Share of the last ten minutes, for heat, power supply or faults.")
    d.bars("Hottest devices", [
        ("topk(20, assay_device_temperature_celsius)", "{{instance}} {{device}}")], 8,
        unit="celsius", thresholds=HOT)
    d.row("Speed")
    d.bars("Slowest kernel of each device, over the median of its model",
           [("sort(device:assay_efficiency_over_fleet:min)", "{{instance}} {{device}}")],
           unit="percentunit", thresholds=OF_FLEET,
           description="Share of the device's own ceilings, in the newest whole runs of a suite.")
    d.bars("Lowest measured ceiling of each device, over the median of its model",
           [("sort(min by (instance, device) (device:assay_ceiling:over_fleet))",
             "{{instance}} {{device}}")], unit="percentunit", thresholds=OF_FLEET,
           description="A device that is slow throughout is as efficient as any and shows here.")
    d.table("Throughput furthest under the fleet",
            "bottomk(50, kernel:assay_throughput:over_fleet)", worst_first=False,
            value="of the median", unit="percentunit", thresholds=OF_FLEET)
    d.table("Kernels furthest under their fleet", "bottomk(50, kernel:assay_efficiency:over_fleet)",
            worst_first=False, value="of the median", unit="percentunit", thresholds=OF_FLEET)
    d.table("Median efficiency of each model", "model:assay_efficiency:p50", worst_first=False,
            value="efficiency", unit="percentunit", thresholds=OF_ROOF)
    d.lines("Cases by verdict", [
        ("sum by (verdict) (increase(assay_cases_total[$__rate_interval]))", "{{verdict}}")],
        stacked=True, overrides=verdict_colors())
    d.row("Versions")
    d.table("Daemons by version", "count by (version, backends) (assay_build_info)", 12, 5,
            value="daemons")
    d.table("Devices by model and driver",
            "count by (model_name, driver_version) (assay_device_info)", 12, 5, value="devices")
    return d.data


def node():
    d = Dashboard("assay-node", "Assay: node", "One node and its devices", [
        variable("instance", "assay_build_info", many=False),
        variable("device", 'assay_device_info{instance=~"$instance"}')])
    d.cells("Health", f"sort_desc(device:assay_health:level{{{NODE}}})", "{{device}}", 8, 5,
            mappings=HEALTH_MAPPING,
            thresholds=steps(*[(level or None, color) for level, (_, color) in enumerate(HEALTH)]))
    d.table("Devices", f"assay_device_info{{{NODE}}}", 16, 5, value="is there")
    d.row("Verdicts")
    d.lines("Cases by verdict", [
        (f"sum by (verdict) (increase(assay_cases_total{{{NODE}}}[$__rate_interval]))",
         "{{verdict}}")], stacked=True, overrides=verdict_colors())
    d.bars("Defects in the last day", defects(NODE, "1d"), 6, thresholds=BAD_ABOVE_0)
    d.table("Kernels nearest their bound", f"topk(50, assay_error_bound_ratio_max{{{NODE}}})", 6,
            value="error / bound", thresholds=OF_BOUND,
            description="Since the daemon started. Close to 1 is usual for 16-bit outputs.")
    d.row("Speed")
    d.table("Efficiency of kernels", f"assay_kernel_efficiency_ratio{{{NODE}}}",
            worst_first=False, value="of the roof", unit="percentunit", thresholds=OF_ROOF)
    d.bars("Measured peak of arithmetic",
           [(f"assay_ceiling_flops_per_second{{{NODE}}}", "{{device}} {{dtype}}")], 6, unit="flops")
    d.bars("Measured bandwidth",
           [(f"assay_ceiling_bytes_per_second{{{NODE}}}", "{{device}}")], 6, unit="Bps")
    d.row("What the devices tell of themselves")
    d.lines("Temperature", [(f"assay_device_temperature_celsius{{{NODE}}}", "{{device}}")], 8,
            unit="celsius", thresholds=HOT,
            description="Hottest sensor. Empty where a device tells nothing, as in a virtual machine.")
    d.lines("Power", [(f"assay_device_power_watts{{{NODE}}}", "{{device}}")], 8, unit="watt")
    d.lines("Clocks", [(f"assay_device_clock_hertz{{{NODE}}}", "{{device}} {{clock}}")], 8,
            unit="hertz")
    d.lines("Time held below its clocks", [
        (f"sum by (device, reason) (rate(assay_device_throttle_seconds_total{{{NODE}}}"
         "[$__rate_interval]))", "{{device}} {{reason}}")], 12, unit="percentunit",
        description="Share of the time, by reason. A GPU under load is often at its power limit.")
    d.bars("Memory errors in the last day", [
        (f"sum by (device, type) (increase(assay_device_ecc_errors_total{{{NODE}}}[1d]))",
         "{{device}} {{type}}")], 6, thresholds=BAD_ABOVE_0)
    d.table("Faults in the last day",
            f"sum by (device, code) (increase(assay_device_faults_total{{{NODE}}}[1d]))", 6,
            value="faults", thresholds=BAD_ABOVE_0,
            description="XIDs of NVIDIA GPUs. 13, 31, 43, 45 and 69 are mostly a kernel's doing.")
    d.row("Daemon and workers")
    d.lines("Cases that wait", [(f"assay_queue_depth{{{NODE}}}", "{{device}}")], 8)
    d.lines("Time of a case, 95th percentile", [
        ('histogram_quantile(0.95, sum by (le, op) (rate(assay_case_duration_seconds_bucket'
         '{instance=~"$instance"}[$__rate_interval])))', "{{op}}")], 8, unit="s")
    d.lines("Memory", [(f"assay_device_memory_bytes{{{NODE}}}", "{{device}} {{state}}")], 8,
            unit="bytes")
    d.lines("Workers replaced", [
        (f"sum by (device, reason) (increase(assay_worker_restarts_total{{{NODE}}}"
         "[$__rate_interval]))", "{{device}} {{reason}}")], 8)
    d.lines("Calls", [
        ('sum by (method, code) (rate(assay_rpc_requests_total{instance=~"$instance"}'
         '[$__rate_interval]))', "{{method}} {{code}}")], 8, unit="reqps")
    d.lines("Time of a call, 99th percentile", [
        ('histogram_quantile(0.99, sum by (le, method) (rate(assay_rpc_duration_seconds_bucket'
         '{instance=~"$instance"}[$__rate_interval])))', "{{method}}")], 8, unit="s")
    return d.data


def kernel():
    d = Dashboard("assay-kernel", "Assay: kernel", "One kernel over time: error and efficiency", [
        variable("op", "assay_cases_total", many=False),
        variable("provider", 'assay_cases_total{op=~"$op"}'),
        variable("dtype", 'assay_cases_total{op=~"$op", provider=~"$provider"}'),
        variable("instance", "assay_build_info"),
        variable("device", 'assay_device_info{instance=~"$instance"}')])
    d.row("Error")
    d.lines("Largest error / bound", [(f"assay_error_bound_ratio_max{{{KERNEL}}}", KERNEL_NAME)], 8,
            description="Since the daemon started; above 1 the kernel is wrong.")
    d.lines("Error / bound of cases of the operator", [
        (f'histogram_quantile({q}, sum by (le) (rate(assay_error_bound_ratio_bucket'
         f'{{{NODE}, op=~"$op"}}[$__rate_interval])))', f"p{q * 100:g}")
        for q in (0.5, 0.9, 0.99)], 8, description="All providers and types.")
    d.lines("Effective precision", [(f"assay_kernel_precision_binary_digits{{{KERNEL}}}", KERNEL_NAME)], 8,
            description="Bits of a significand, the lowest since the daemon started. A kernel "
                        "that reaches what it declares has 24 with fp32 output, 11 with fp16, 8 "
                        "with bf16.")
    d.lines("Cases by verdict", [
        (f"sum by (verdict) (increase(assay_cases_total{{{KERNEL}}}[$__rate_interval]))",
         "{{verdict}}")], stacked=True, overrides=verdict_colors())
    d.lines("NaN and infinities, by where they came from", [
        (f"sum by (origin, expected) (increase(assay_{kind}_total{{{KERNEL}}}[$__rate_interval]))",
         f"{name} of {{{{origin}}}}, expected: {{{{expected}}}}")
        for kind, name in (("nan", "NaN"), ("inf", "infinities"))])
    d.bars("Defects in the last day", defects(KERNEL, "1d"), 24, 6, thresholds=BAD_ABOVE_0)
    d.row("Efficiency")
    d.lines("Share of the roof", [
        (f"assay_kernel_efficiency_ratio{{{KERNEL}}}", KERNEL_NAME + " ({{roof}})")],
        unit="percentunit", description="Newest benchmark, whatever its shape.")
    d.lines("Over the median of its model", [
        (f"kernel:assay_efficiency:over_fleet{{{KERNEL}}}", KERNEL_NAME + " in {{suite}}")],
        unit="percentunit", description="Newest whole run of each suite.")
    d.lines("Arithmetic", [(f"assay_kernel_flops_per_second{{{KERNEL}}}", KERNEL_NAME)],
            unit="flops")
    d.lines("Bytes moved", [(f"assay_kernel_bytes_per_second{{{KERNEL}}}", KERNEL_NAME)],
            unit="Bps")
    return d.data


def nightly():
    d = Dashboard("assay-nightly", "Assay: nightly",
                  "What last night's qualifications, self-tests and jobs said", [
        variable("instance", "assay_build_info"),
        variable("device", 'assay_device_info{instance=~"$instance"}')])
    d.stat("Jobs passed in the last day", 'sum(increase(assay_jobs_total{verdict="PASSED", '
           'instance=~"$instance"}[1d]))', 6)
    d.stat("Jobs failed in the last day", 'sum(increase(assay_jobs_total{verdict="FAILED", '
           'instance=~"$instance"}[1d]))', 6, thresholds=BAD_ABOVE_0)
    d.stat("Jobs that proved nothing", 'sum(increase(assay_jobs_total{verdict="INCONCLUSIVE", '
           'instance=~"$instance"}[1d]))', 6, thresholds=steps((None, "green"), (1e-9, "yellow")))
    d.stat("Self-test false alarms in the last day",
           f"sum(increase(assay_selftest_false_alarms_total{{{NODE}}}[1d]))", 6,
           thresholds=BAD_ABOVE_0)
    d.row("Qualification")
    d.cells("Newest qualifications, what failed first",
            f"sort(assay_qualification_passed{{{NODE}}})", "{{instance}} {{device}} {{suite}}",
            12, 7, thresholds=BAD_BELOW_1,
            mappings=[{"type": "value", "options": {
                "0": {"text": "did not pass", "color": "red", "index": 0},
                "1": {"text": "passed", "color": "green", "index": 1}}}],
            description="A device that is not here has none in its daemon's store.")
    d.bars("Ended so long ago", [
        (f"time() - assay_qualification_last_completion_timestamp_seconds{{{NODE}}}",
         "{{instance}} {{device}} {{suite}}")], 6, 7, unit="s",
        thresholds=steps((None, "green"), (129600, "red")))  # 36 hours
    d.bars("Took so long", [
        (f"assay_qualification_duration_seconds{{{NODE}}}", "{{instance}} {{device}} {{suite}}")],
        6, 7, unit="s")
    d.row("Self-test")
    d.cells("Planted defects found, the worst first",
            f"sort(assay_selftest_detected_ratio{{{NODE}}})", "{{instance}} {{device}}", 24, 7,
            unit="percentunit", thresholds=BAD_BELOW_1,
            description="Of the newest self-test. A device that is not here has none in its "
                        "daemon's store.")
    d.lines("Planted defects found", [
        (f"assay_selftest_detected_ratio{{{NODE}}}", "{{instance}} {{device}}")],
        unit="percentunit")
    d.lines("Right kernels called wrong", [
        (f"increase(assay_selftest_false_alarms_total{{{NODE}}}[1d])",
         "{{instance}} {{device}}")])
    d.row("Jobs and cases")
    d.lines("Jobs by verdict, of a day each", [
        ('sum by (verdict) (increase(assay_jobs_total{instance=~"$instance"}[1d]))',
         "{{verdict}}")], overrides=verdict_colors())
    d.table("Cases that did not pass, in the last day",
            "sum by (instance, device, op, provider, dtype, verdict) (increase(assay_cases_total"
            f'{{{NODE}, verdict=~"FAILED|ERROR|INCONCLUSIVE"}}[1d])) > 0', value="cases",
            description="Empty where all passed.")
    return d.data


DASHBOARDS = {"fleet": fleet, "node": node, "kernel": kernel, "nightly": nightly}


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "dashboards")
    for name, make in DASHBOARDS.items():
        with open(os.path.join(folder, name + ".json"), "w", encoding="utf-8") as file:
            json.dump(make(), file, indent=1, ensure_ascii=False)
            file.write("\n")


if __name__ == "__main__":
    main()
