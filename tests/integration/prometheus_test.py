"""Prometheus and the dashboards: configurations, rules, every query of every panel.

A real Prometheus scrapes a real assayd before, during and after a suite, benchmarks, a case
that fails on purpose and a self-test, with the rules that are shipped. Its host's /sys is made
up (host_tree.py); panels of what only a GPU reports are held against an exposition that was
written by hand (synthetic_gpu.prom).
"""

import glob
import http.server
import json
import math
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.parse
import urllib.request

import yaml

import harness
import host_tree
import metrics_test
import readme_test

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROMETHEUS = os.path.join(ROOT, "deploy", "prometheus")
GRAFANA = os.path.join(ROOT, "deploy", "grafana")

# What the variables of a dashboard stand for in the test; any other, All.
CHOSEN = {"op": "gemm", "provider": "builtin", "dtype": "fp32", "device": "cpu:0"}
# Queries that look back over more days than a test runs: held by promtool alone.
WEEKS = {"kernel:assay_error_bound_ratio_max:growth1d"}


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


def rules():
    """Every rule, as it is written."""
    return [rule for path in sorted(glob.glob(os.path.join(PROMETHEUS, "rules", "*.yml")))
            for group in yaml.safe_load(read(path))["groups"] for rule in group["rules"]]


def dashboards():
    return {os.path.basename(path): json.loads(read(path))
            for path in sorted(glob.glob(os.path.join(GRAFANA, "dashboards", "*.json")))}


def panels(dashboard):
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def promtool(*words, text_input=None):
    return subprocess.run(["promtool", *words], capture_output=True, text=True, check=False,
                          input=text_input)


def family(name):
    """The family of a series of a histogram."""
    return re.sub(r"_(bucket|sum|count)$", "", name)


def names_in(expression):
    """Metrics that an expression reads: ours, and the ones that rules record."""
    without_strings = re.sub(r'"[^"]*"', '""', expression)
    return set(re.findall(r"\b(?:assay_\w+|\w+:assay_\w+:\w+)", without_strings))


class Files(unittest.TestCase):
    """What needs no daemon."""

    def test_every_rule_does_what_its_tests_say(self):
        tests = sorted(glob.glob(os.path.join(PROMETHEUS, "tests", "*.yml")))
        done = promtool("test", "rules", *tests)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_every_alert_has_a_test_that_fires_and_one_that_does_not(self):
        fires, silent, recorded = set(), set(), ""
        for path in glob.glob(os.path.join(PROMETHEUS, "tests", "*.yml")):
            for test in yaml.safe_load(read(path))["tests"]:
                self.assertTrue(test["input_series"], test["name"])
                for check in test.get("alert_rule_test", []):
                    (fires if check["exp_alerts"] else silent).add(check["alertname"])
                recorded += "".join(" " + c["expr"] for c in test.get("promql_expr_test", []))
        alerts = {rule["alert"] for rule in rules() if "alert" in rule}
        self.assertGreater(len(alerts), 23)
        self.assertEqual(fires, alerts)
        self.assertEqual(silent, alerts)
        # What a rule records is tested itself, or by an alert or a tested rule that reads it.
        reached = names_in(recorded)
        expressions = {rule.get("record", rule.get("alert")): rule["expr"] for rule in rules()}
        for _ in expressions:
            reached |= {name for of, expr in expressions.items()
                        if of in reached or of in fires for name in names_in(expr)}
        self.assertLessEqual({rule["record"] for rule in rules() if "record" in rule}, reached)

    def test_every_alert_says_how_bad_what_and_what_next(self):
        for rule in rules():
            if "alert" in rule:
                with self.subTest(alert=rule["alert"]):
                    self.assertRegex(rule["alert"], r"^Assay[A-Z]")
                    self.assertIn(rule["labels"]["severity"], {"critical", "warning"})
                    self.assertEqual(set(rule["annotations"]), {"summary", "next_step"})
                    for command in re.findall(r"`assay ([^`]+)`", rule["annotations"]["next_step"]):
                        words = command.split()
                        self.assertIn(words[0], readme_test.subcommands(
                            readme_test.help_of(harness.ASSAY)))
                        self.assertLessEqual(
                            {word for word in words if word.startswith("--")},
                            readme_test.known_options(
                                readme_test.help_of(harness.ASSAY, words[0])))

    def test_the_configurations_are_valid_as_they_are_and_with_what_is_commented_out(self):
        for path in sorted(glob.glob(os.path.join(PROMETHEUS, "prometheus*.yml"))):
            as_is = read(path)
            for text in (as_is, re.sub(r"^#(?=\S|  )", "", as_is, flags=re.M)):
                with self.subTest(file=os.path.basename(path), commented=text is as_is):
                    config = yaml.safe_load(text)
                    job = config["scrape_configs"][0]
                    self.assertEqual(job["job_name"], "assay")
                    self.assertEqual("tls_config" in job and "basic_auth" in job,
                                     text is not as_is)
                    # Debian's build has no Kubernetes discovery and knows not the word: the
                    # rest of that file is checked with other targets in its place.
                    for discovery in job.pop("kubernetes_sd_configs", []):
                        self.assertEqual(discovery["role"], "pod")
                        job["static_configs"] = [{"targets": ["localhost:9575"]}]
                    with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
                        yaml.safe_dump(config, file)
                        file.flush()
                        done = promtool("check", "config", "--syntax-only", file.name)
                    self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        # With the files that they name: rules and targets.
        for name in ("prometheus.yml", "prometheus-file-sd.yml"):
            done = promtool("check", "config", os.path.join(PROMETHEUS, name))
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("rules found", done.stdout)

    def test_the_dashboards_are_those_that_the_generator_writes(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, os.path.join(GRAFANA, "generate.py"), folder],
                           check=True)
            written = sorted(os.listdir(folder))
            self.assertEqual(written, sorted(dashboards()))
            for name in written:
                self.assertEqual(read(folder, name),
                                 read(GRAFANA, "dashboards", name), name)

    def test_the_dashboards_have_the_shape_that_grafana_loads(self):
        uids = set()
        for name, board in dashboards().items():
            with self.subTest(dashboard=name):
                uids.add(board["uid"])
                self.assertGreaterEqual(board["schemaVersion"], 38)
                known = {v["name"] for v in board["templating"]["list"]}
                ids = [panel["id"] for panel in board["panels"]]
                self.assertEqual(len(ids), len(set(ids)))
                taken = set()
                for panel in board["panels"]:
                    at = panel["gridPos"]
                    cells = {(x, y) for x in range(at["x"], at["x"] + at["w"])
                             for y in range(at["y"], at["y"] + at["h"])}
                    self.assertLessEqual(at["x"] + at["w"], 24)
                    self.assertFalse(cells & taken, panel["title"])
                    taken |= cells
                for panel in panels(board):
                    self.assertTrue(panel["title"] and panel["targets"])
                    for target in panel["targets"]:
                        self.assertNotRegex(target["expr"], r"\bor\s+(on\s*\(\)\s*)?vector")
                        used = set(re.findall(r"\$(\w+)", target["expr"]))
                        self.assertLessEqual(used - {"__rate_interval"}, known)
        self.assertEqual(len(uids), 4)


class Prometheus:
    """A server of its own that scrapes daemons, once a second, with the shipped rules."""

    def __init__(self, *targets):
        self.folder = tempfile.mkdtemp(prefix="assay-prometheus-")
        config = yaml.safe_load(read(PROMETHEUS, "prometheus.yml"))
        config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        config["scrape_configs"][0]["static_configs"][0]["targets"] = list(targets)
        os.mkdir(os.path.join(self.folder, "rules"))
        for path in glob.glob(os.path.join(PROMETHEUS, "rules", "*.yml")):
            document = yaml.safe_load(read(path))
            for group in document["groups"]:
                group.pop("interval", None)
            with open(os.path.join(self.folder, "rules", os.path.basename(path)), "w",
                      encoding="utf-8") as file:
                yaml.safe_dump(document, file)
        path = os.path.join(self.folder, "prometheus.yml")
        with open(path, "w", encoding="utf-8") as file:
            yaml.safe_dump(config, file)
        self.started = time.time()
        self.log_path = os.path.join(self.folder, "log")
        for _ in range(5):  # the port may be taken between its choice and its use
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                self.address = "127.0.0.1:%d" % free.getsockname()[1]
            with open(self.log_path, "ab") as log:
                self.process = subprocess.Popen(
                    ["prometheus", f"--config.file={path}", f"--web.listen-address={self.address}",
                     f"--storage.tsdb.path={os.path.join(self.folder, 'data')}"],
                    stdout=log, stderr=log)
            if harness.wait_until(self._ready_or_ended, 60, "Prometheus is ready") == "ready":
                return
        raise RuntimeError(self.log_text())

    def _ready_or_ended(self):
        if self.process.poll() is not None:
            return "ended"
        try:
            with urllib.request.urlopen(f"http://{self.address}/-/ready", timeout=60):
                return "ready"
        except OSError:
            return None

    def log_text(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as log:
            return log.read()

    def api(self, path, **parameters):
        url = f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(parameters, True)}"
        try:
            with urllib.request.urlopen(url, timeout=harness.LONG) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from error

    def instant(self, expression):
        return self.api("query", query=expression)["result"]

    def finite(self, expression, as_range=False):
        """Whether the query has a number, now or, as a graph shows it, since the start."""
        if as_range:
            # A step past now, for a first sample since the last step.
            series = self.api("query_range", query=expression, start=self.started,
                              end=time.time() + 1, step=1)["result"]
            values = [value for one in series for _, value in one["values"]]
        else:
            values = [one["value"][1] for one in self.instant(expression)]
        return any(math.isfinite(float(value)) for value in values)

    def label_values(self, definition):
        metric, label = re.fullmatch(r"label_values\((.*), (\w+)\)", definition).groups()
        return self.api(f"label/{label}/values", **{"match[]": metric})

    def stop(self):
        self.process.terminate()
        self.process.wait(harness.LONG)
        shutil.rmtree(self.folder)


class Live(unittest.TestCase):
    """A daemon that has worked, and what Prometheus knows of it."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.mkdtemp(prefix="assay-host-")
        cls.addClassCleanup(shutil.rmtree, folder)
        host = host_tree.Host(os.path.join(folder, "host"))
        cls.daemon = harness.Daemon(flags=host_tree.suites(folder), environment=host.environment)
        cls.addClassCleanup(cls.daemon.stop)
        cls.prometheus = Prometheus(cls.daemon.metrics)
        cls.addClassCleanup(cls.prometheus.stop)
        # A counter that moves before the first scrape moves unseen.
        harness.wait_until(lambda: cls.prometheus.instant("assay_cases_total"), 60,
                           "the first scrape")
        def gemm(size):
            return ["gemm", "--m", size, "--n", size, "--k", size, "--dtype", "fp32"]
        for code, words in (
                (0, ["run", "--suite", "smoke"]),
                (0, ["run", "--suite", "quick"]),
                (0, ["bench", *gemm("1024"), "--provider", "builtin", "--case-deadline", "10m"]),
                # No sum of 256 roundings is exact: a right kernel, and a job that fails.
                (1, ["run", *gemm("256"), "--provider", "onednn", "--max-abs-error", "1e-30"]),
                (0, ["selftest", "--quick"])):
            run = cls.daemon.run(*words)
            assert run.code == code, (words, run)
        # What reads speeds that a busy machine does not have.
        cls.untimed = host_tree.run_timed(cls.daemon)
        # Panels show one kernel, whose times may be noisy when others' are not.
        scraped = cls.daemon.scrape().splitlines()
        for name in ("assay_kernel_efficiency_ratio", "assay_suite_efficiency_ratio"):
            if not any(line.startswith(name + "{") and all(f'{label}="{value}"' in line for label, value in CHOSEN.items())
                       for line in scraped):
                cls.untimed = cls.untimed | {name}
        for _ in range(4):  # rules that read rules
            cls.untimed |= {rule["record"] for rule in rules()
                            if "record" in rule and names_in(rule["expr"]) & cls.untimed}
        awaited = ["assay_selftest_detected_ratio", "device:assay_health:level == 1"]
        if not cls.untimed:
            awaited.append("device:assay_efficiency_over_fleet:min")
        for expression in awaited:
            harness.wait_until(lambda e=expression: cls.prometheus.instant(e), 60, expression)
        cls.scraped = cls.daemon.scrape()

    def await_data(self, expression, as_range=False):
        """A scrape that a busy machine was late for takes everything away until the next."""
        harness.wait_until(lambda: self.prometheus.finite(expression, as_range), 10,
                           f"a number of {expression}")

    def substituted(self, board, expression):
        """The expression as Grafana would send it."""
        values = {"__rate_interval": "15s"}
        for variable in board["templating"]["list"]:
            if variable["type"] != "query":
                continue
            definition = variable["definition"]
            for name, value in values.items():
                definition = definition.replace(f"${name}", value)
            known = self.prometheus.label_values(definition)
            self.assertTrue(known, (variable["name"], definition))
            chosen = CHOSEN.get(variable["name"], known[0])
            self.assertIn(chosen, known, (variable["name"], definition))
            values[variable["name"]] = chosen
        for name, value in values.items():
            expression = expression.replace(f"${name}", value)
        self.assertNotIn("$", expression)
        return expression

    def test_every_query_of_every_panel_has_data(self):
        checked = 0
        for name, board in dashboards().items():
            for panel in panels(board):
                for target in panel["targets"]:
                    if gpu_only(target["expr"]):
                        continue  # SyntheticGpu has it
                    if names_in(target["expr"]) & self.untimed:
                        continue
                    expression = self.substituted(board, target["expr"])
                    with self.subTest(dashboard=name, panel=panel["title"], query=expression):
                        checked += 1
                        self.await_data(expression, as_range=target["range"])
        self.assertGreater(checked, 60)

    def test_the_fleet_starts_with_the_worst_device(self):
        # The failed case is the only thing against the only device.
        def firing():
            return {s["metric"]["alertname"]
                    for s in self.prometheus.instant('ALERTS{alertstate="firing"}')}
        self.assertEqual(harness.wait_until(firing, 10, "an alert"), {"AssayCasesFailing"})
        panel = next(p for p in panels(dashboards()["fleet.json"])
                     if p["title"] == "Devices, the worst first")
        worst_first = panel["targets"][0]["expr"]
        self.assertTrue(worst_first.startswith("sort_desc("))
        worst = harness.wait_until(lambda: self.prometheus.instant(worst_first), 10, worst_first)
        self.assertEqual([s["value"][1] for s in worst], ["1"])

    def test_every_rule_evaluates_and_records(self):
        for group in self.prometheus.api("rules")["groups"]:
            for rule in group["rules"]:
                self.assertEqual(rule["health"], "ok", rule)
        for rule in rules():
            if "record" in rule and rule["record"] not in WEEKS | self.untimed:
                self.await_data(rule["record"])

    def test_rules_and_dashboards_read_only_what_there_is(self):
        recorded = {rule["record"] for rule in rules() if "record" in rule}
        live = (set(metrics_test.families(self.scraped)) | metrics_test.GPU_ONLY | metrics_test.TLS_ONLY |
                host_tree.TIMED_METRICS)
        expressions = [rule["expr"] for rule in rules()]
        for board in dashboards().values():
            expressions += [t["expr"] for p in panels(board) for t in p["targets"]]
            expressions += [v.get("definition", "") for v in board["templating"]["list"]]
        for expression in expressions:
            for name in names_in(expression):
                self.assertIn(name if ":" in name else family(name), recorded | live, expression)


def gpu_only(expression):
    return bool(names_in(expression) & metrics_test.GPU_ONLY)


class SyntheticGpu(unittest.TestCase):
    """What panels show of a GPU, of an exposition that was written by hand and says so."""

    @classmethod
    def setUpClass(cls):
        with open(metrics_test.SYNTHETIC, "rb") as file:
            text = file.read()
        assert b"Synthetic" in text.splitlines()[0]

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        cls.addClassCleanup(server.server_close)
        cls.addClassCleanup(server.shutdown)
        cls.prometheus = Prometheus("127.0.0.1:%d" % server.server_address[1])
        cls.addClassCleanup(cls.prometheus.stop)
        harness.wait_until(lambda: cls.prometheus.instant(
            "device:assay_device_throttle_seconds:rate10m"), 60, "a recorded rate")

    def test_panels_of_what_devices_tell_have_data_of_every_gpu(self):
        checked = set()
        for name, board in dashboards().items():
            for panel in panels(board):
                for target in panel["targets"]:
                    read_here = {n for n in names_in(target["expr"])
                                 if n.startswith("assay_device_") and n not in
                                 ("assay_device_info", "assay_device_memory_bytes",
                                  "assay_device_quarantined")}
                    if not read_here:
                        continue
                    checked |= read_here
                    for device in ("cuda:0", "cuda:1"):
                        expression = target["expr"].replace("$__rate_interval", "15s").replace(
                            "$instance", ".*").replace("$device", device)
                        with self.subTest(dashboard=name, panel=panel["title"], query=expression):
                            harness.wait_until(
                                lambda e=expression: self.prometheus.finite(e, target["range"]),
                                10, expression)
        self.assertEqual(checked, {"assay_device_" + n for n in (
            "temperature_celsius", "power_watts", "clock_hertz", "throttle_seconds_total",
            "ecc_errors_total", "faults_total")})

    def test_a_gpu_at_rest_raises_no_alert(self):
        self.assertEqual(self.prometheus.instant('ALERTS{alertstate="firing"}'), [])


if __name__ == "__main__":
    if not shutil.which("prometheus") or not shutil.which("promtool"):
        print("Skipped: no prometheus here (deploy/setup test)")
        sys.exit(77)
    harness.main()
