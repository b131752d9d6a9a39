"""Metrics of a running daemon: one table in deploy/prometheus/README.md, the code and a scrape;
telemetry that comes, goes and comes back; and what a client can do to the number of series.

The host's /sys is made up (host_tree.py); what only GPUs report is held against
synthetic_gpu.prom, which says that it is synthetic.
"""

import glob
import os
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

import harness
import host_tree
import metrics_table

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SYNTHETIC = os.path.join(ROOT, "tests", "integration", "synthetic_gpu.prom")
# Families that no CPU fills.
GPU_ONLY = {"assay_device_faults_total"}
# Families of a daemon that has a certificate; tls_test.py reads them.
TLS_ONLY = {"assay_certificate_expiry_timestamp_seconds"}
# Families of the suite "adversarial", which takes a minute; selftest_test.py runs it.
SUITE_ONLY = {"assay_selftest_cheats_stopped_ratio"}


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


def families(text):
    """Family to type and label names, from an exposition."""
    found = {name: (kind, set()) for name, kind in
             re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M)}
    for name, labels in re.findall(r"^(\w+)(?:\{(.*)\})? \S+$", text, re.M):
        of = name if name in found else re.sub(r"_(bucket|sum|count)$", "", name)
        found[of][1].update(set(re.findall(r'(\w+)="', labels)) - {"le"})
    return found


def series(text, device):
    return sum(f'device="{device}"' in line for line in text.splitlines())


class Table(unittest.TestCase):
    def test_the_table_of_metrics_is_the_codes(self):
        self.assertEqual(metrics_table.table_in_page(), metrics_table.table(),
                         "run tests/integration/metrics_table.py --update")


class Metrics(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.mkdtemp(prefix="assay-metrics-")
        cls.addClassCleanup(shutil.rmtree, folder)
        cls.host = host_tree.Host(os.path.join(folder, "host"))
        cls.daemon = harness.Daemon(flags=host_tree.suites(folder),
                                    environment=cls.host.environment)
        cls.addClassCleanup(cls.daemon.stop)
        gemm = ["gemm", "--m", "1024", "--n", "1024", "--k", "1024", "--dtype", "fp32",
                "--provider", "builtin"]
        for words in (["run", "--suite", "quick"], ["bench", *gemm],
                      ["selftest", "--quick"]):
            run = cls.daemon.run(*words)
            assert run.code == 0, (words, run)
        cls.untimed = host_tree.run_timed(cls.daemon)

    def await_metric(self, condition, name, **labels):
        return harness.wait_until(
            lambda: condition(self.daemon.metric(name, **labels)) or None, 30, (name, labels))

    def test_table_code_and_scrape_have_the_same_metrics(self):
        self.await_metric(lambda v: v is not None, "assay_device_power_watts")
        text = self.daemon.scrape()
        said, code, live = metrics_table.labels_in_page(), metrics_table.in_code(), families(text)
        synthetic = families(read(SYNTHETIC))
        self.assertGreater(len(code), 30)
        self.assertEqual(set(said), set(code))
        self.assertEqual(set(live), set(code) - GPU_ONLY - TLS_ONLY - SUITE_ONLY - self.untimed)
        self.assertLessEqual(GPU_ONLY, set(synthetic))
        self.assertLessEqual(set(synthetic), set(code))
        for name, (kind, labels) in [*live.items(), *synthetic.items()]:
            with self.subTest(metric=name):
                sure = {label for label in said[name] if not label.endswith("?")}
                self.assertLessEqual(sure, labels)
                self.assertLessEqual(labels, {label.rstrip("?") for label in said[name]})
                self.assertEqual(kind, code[name][0])
                self.assertEqual(name.endswith("_total"), kind == "counter")

    def test_promtool_finds_nothing(self):
        if not shutil.which("promtool"):
            self.skipTest("no promtool here (deploy/setup test)")
        for text in (self.daemon.scrape(), read(SYNTHETIC)):
            done = subprocess.run(["promtool", "check", "metrics"], capture_output=True, text=True,
                                  check=False, input=text)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_a_qualification_is_counted_and_no_other_suite_is(self):
        labels = {"device": "cpu:0", "suite": "quick"}
        self.assertEqual(self.daemon.metric("assay_qualification_passed", **labels), 1)
        self.assertGreater(self.daemon.metric("assay_qualification_duration_seconds", **labels), 0)
        time = "assay_qualification_last_completion_timestamp_seconds"
        ended = self.daemon.metric(time, **labels)
        self.assertGreater(ended, 1.6e9)
        # A share of it is none, nor is a client's own suite of that name.
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as own:
            own.write(host_tree.QUICK)
            own.flush()
            for words in (["run", "--suite", "quick", "--op", "gemm"],
                          ["run", "--suite-file", own.name]):
                run = self.daemon.run(*words)
                self.assertEqual(run.code, 0, run)
        self.assertEqual(self.daemon.metric(time, **labels), ended)
        self.assertEqual(set(re.findall(r'assay_qualification_\w+{[^}]*suite="([^"]*)"',
                                        self.daemon.scrape())), {"quick"})

    def test_a_benchmark_of_ones_own_changes_no_speed_that_devices_are_compared_by(self):
        if self.untimed:
            self.skipTest("this machine is too busy to time anything")
        labels = {"op": "gemm", "provider": "builtin", "dtype": "fp32"}
        own, suites = (lambda: self.daemon.metric("assay_kernel_flops_per_second", **labels),
                       lambda: self.daemon.metric("assay_suite_flops_per_second", suite="timed",
                                                  version="1", **labels))
        before = own(), suites()
        # Large enough for arithmetic to be its roof: a cache has none, and no efficiency.
        run = self.daemon.run("bench", "gemm", "--m", "256", "--n", "256", "--k", "256", "--dtype",
                              "fp32", "--provider", "builtin")
        self.assertEqual(run.code, 0, run)
        self.assertNotEqual(own(), before[0])
        self.assertEqual(suites(), before[1])

    def test_what_a_right_kernel_may_give_is_held_against_nobody(self):
        labels = {"op": "gemm", "provider": "builtin", "dtype": "fp32", "origin": "kernel"}
        def infinities():
            return [self.daemon.metric("assay_inf_total", expected=expected, **labels) or 0
                    for expected in ("false", "true")]
        before = infinities()
        exceeded = self.daemon.metric("assay_error_bound_exceeded_total", op="gemm")
        run = self.daemon.run("run", "gemm", "--m", "64", "--n", "64", "--k", "64", "--dtype",
                              "fp32", "--provider", "builtin", "--pattern", "normal:1e19")
        self.assertEqual(run.code, 4, run)
        self.assertEqual(infinities()[0], before[0])
        self.assertGreater(infinities()[1], before[1])
        self.assertEqual(self.daemon.metric("assay_error_bound_exceeded_total", op="gemm"),
                         exceeded)

    def test_a_restart_forgets_no_qualification(self):
        state = tempfile.mkdtemp(prefix="assay-metrics-")
        self.addCleanup(shutil.rmtree, state)
        flags = host_tree.suites(state)
        folder = os.path.join(state, "state")
        with open(os.path.join(flags[1], "quick.toml"), "a", encoding="utf-8") as file:
            # No sum of so many roundings is exact.
            file.write(host_tree.QUICK.split("\n\n")[1].replace("16", "256") +
                       "max_abs_error = 1e-30\n")
        daemon = harness.Daemon(state=folder, flags=flags)
        self.addCleanup(daemon.stop)
        run = daemon.run("run", "--suite", "quick")
        self.assertEqual(run.code, 1, run)
        time = "assay_qualification_last_completion_timestamp_seconds"
        labels = {"device": "cpu:0", "suite": "quick"}
        said = daemon.metric(time, **labels)
        self.assertEqual(daemon.metric("assay_qualification_passed", **labels), 0)
        self.assertEqual(daemon.metric("assay_qualification_failed", **labels), 1)
        daemon.stop()
        again = harness.Daemon(state=folder, flags=flags)
        self.addCleanup(again.stop)
        self.assertEqual(again.metric("assay_qualification_passed", **labels), 0)
        self.assertEqual(again.metric("assay_qualification_failed", **labels), 1)
        self.assertEqual(again.metric(time, **labels), said)

    def test_telemetry_is_listed_and_scraped(self):
        self.await_metric(lambda v: v == 61, "assay_device_temperature_celsius", device="cpu:0")
        self.assertEqual(self.daemon.metric("assay_device_clock_hertz", clock="core"), 2.5e9)
        # Since the daemon's start: what came before is not its own.
        throttled = ("assay_device_throttle_seconds_total", {"reason": "thermal"})
        before = self.daemon.metric(throttled[0], **throttled[1])
        self.host.write("devices/system/cpu/cpu1/thermal_throttle/core_throttle_total_time_ms",
                        str(int(5000 + 1000 * before) + 7000))
        self.await_metric(lambda v: v == before + 7, throttled[0], **throttled[1])
        self.await_metric(lambda v: v == 0, "assay_device_ecc_errors_total", type="corrected")
        device = self.daemon.run("devices", "--format", "json").json()["devices"][0]
        self.assertEqual(device["telemetry"]["temperature_celsius"], 61)
        self.assertEqual(device["telemetry"]["source"], "linux")
        table = self.daemon.run("devices").out
        self.assertIn("61 °C", table)
        self.assertIn("2.50 GHz", table)
        self.assertIn("throttled: thermal", table)

    def telemetry_process(self):
        """The daemon's child of that name, or None."""
        for task in glob.glob(f"/proc/{self.daemon.process.pid}/task/*/children"):
            with open(task, encoding="utf-8") as file:
                for pid in file.read().split():
                    with open(f"/proc/{pid}/comm", encoding="utf-8") as name:
                        if name.read().startswith("assay-telemetr"):
                            return int(pid)
        return None

    def test_without_its_process_nothing_old_is_served_and_it_comes_back(self):
        self.await_metric(lambda v: v == 61, "assay_device_temperature_celsius")
        first = self.telemetry_process()

        def kill():
            try:
                process = self.telemetry_process()
                if process is not None:
                    os.kill(process, signal.SIGKILL)
            except (FileNotFoundError, ProcessLookupError):
                pass  # it has just ended

        # The next one comes after a second: where that was before the look, once more.
        def not_scraped():
            kill()
            return "\nassay_device_temperature_celsius{" not in (text := self.daemon.scrape()) and text

        def not_listed():
            kill()
            run = self.daemon.run("devices", "--format", "json")
            return "power_watts" not in run.json()["devices"][0]["telemetry"]

        text = harness.wait_until(not_scraped, 60, "nothing old is scraped")
        self.assertNotIn("\nassay_device_throttle_seconds_total{", text)
        harness.wait_until(not_listed, 60, "nothing old is listed")
        # The daemon goes on, and its counters too.
        self.await_metric(lambda v: v == 61, "assay_device_temperature_celsius")
        self.assertIsNotNone(self.daemon.metric("assay_device_throttle_seconds_total"))
        self.assertNotEqual(self.telemetry_process(), first)

    def test_a_client_cannot_make_series(self):
        before = families(self.daemon.scrape())
        for i in range(25):
            odd = f"odd{i}"
            for words in (["run", odd], ["run", "gemm", "--provider", odd],
                          ["run", "gemm", "--dtype", odd], ["run", "--suite", odd],
                          ["run", "--suite", "quick", "--label", f"{odd}={odd}"],
                          ["show", f"jobs/{odd}"], ["devices", "release", odd]):
                self.daemon.run(*words)
        # Every combination of names that the daemon has, most of which no kernel computes.
        sizes = ["--m", "8", "--n", "8", "--k", "8"]
        self.daemon.run("run", "gemm", *sizes, "--provider", "builtin,onednn,openblas", "--dtype",
                        "fp64,fp32,tf32,fp16,bf16,e4m3fn,e4m3fnuz,e5m2,e5m2fnuz,e2m1,int8")
        run = self.daemon.run("run", "--suite", "smoke")
        self.assertEqual(run.code, 0, run)
        text = self.daemon.scrape()
        self.assertNotIn("odd", text.replace("model", ""))
        self.assertEqual({n: l for n, (_, l) in families(text).items()},
                         {n: l for n, (_, l) in before.items()})
        self.assertLessEqual(series(text, "cpu:0"), 2000)

    def test_kernels_of_common_formats_count_under_their_own_names(self):
        kernels = self.daemon.run("kernels", "--format", "json").json()["kernels"]
        copies = [k for k in kernels if k["op"] == "copy" and k["provider"] == "builtin"]
        self.assertTrue(copies)
        # Rare formats of the last operators may have no room.
        others = self.daemon.metric("assay_cases_total", op="other", verdict="PASSED")
        run = self.daemon.run("run", "copy", "--count", "1000", "--dtype", "fp32", "--provider",
                              "builtin")
        self.assertEqual(run.code, 0, run)
        self.await_metric(lambda v: v and v >= 1, "assay_cases_total", op="copy",
                          provider="builtin", dtype="fp32", verdict="PASSED")
        self.assertEqual(self.daemon.metric("assay_cases_total", op="other", verdict="PASSED"), others)


if __name__ == "__main__":
    harness.main()
