"""The main job, end to end: submit, validate, stream, count."""

import csv
import io
import unittest
import xml.etree.ElementTree

import harness

TEST_KEYS = {"name", "op", "provider", "dtype", "shape", "pattern", "seed", "verdict", "passed",
             "criterion", "count", "mismatches", "nan", "inf", "nan_count", "inf_count",
             "unwritten", "guard_hits", "digest", "bench", "duration_seconds", "repro"}


class Smoke(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = harness.Daemon()
        cls.result = cls.daemon.run("run", "--suite", "smoke", "--format", "json")

    @classmethod
    def tearDownClass(cls):
        assert cls.daemon.stop() == 0

    def test_smoke_suite_passes(self):
        self.assertEqual(self.result.code, 0, self.result)
        report = self.result.json()
        self.assertEqual(report["schema"], "assay.report/v1")
        self.assertEqual(report["failed"] + report["errors"] + report["inconclusive"], 0, report)
        self.assertGreater(report["passed"], 50)
        self.assertEqual(report["total"], len(report["tests"]))
        ran = [t for t in report["tests"] if t["verdict"] == "PASSED"]
        for test in ran:
            self.assertLessEqual(TEST_KEYS, set(test), test)
            self.assertTrue(test["passed"])
            self.assertGreater(test["count"], 0)
        ops = {t["op"] for t in ran}
        self.assertEqual(ops, {"gemm", "conv", "attention", "softmax", "layer_norm", "copy",
                               "dequant_softmax", "reduce", "elementwise", "rope"})
        self.assertEqual({t["provider"] for t in ran}, {"onednn", "openblas", "builtin"})

    def test_unsupported_names_its_reason(self):
        for test in self.result.json()["tests"]:
            if test["verdict"] == "UNSUPPORTED":
                self.assertTrue(test["reason"], test)
                self.assertFalse(test["passed"], test)

    def test_the_reproducing_line_reproduces(self):
        test = next(t for t in self.result.json()["tests"] if t["verdict"] == "PASSED")
        words = test["repro"].split()
        self.assertEqual(words[0], "assay")
        again = self.daemon.run(*words[1:], "--format", "json")
        self.assertEqual(again.code, 0, again)
        self.assertEqual(again.json()["tests"][0]["digest"], test["digest"])

    def test_metrics_count_what_ran(self):
        passed = self.daemon.metric("assay_cases_total", verdict="PASSED")
        if passed is None:
            passed = self.daemon.metric("assay_cases_total", verdict="passed")
        self.assertGreaterEqual(passed, self.result.json()["passed"])
        self.assertEqual(
            self.daemon.metric("assay_nan_total", origin="kernel", expected="false"), 0.0)

    def test_expected_nan_is_a_pass_and_is_counted(self):
        run = self.daemon.run("run", "softmax", "--rows", "1", "--cols", "2048", "--dtype", "fp32",
                              "--provider", "builtin", "--pattern", "all-inf", "--format", "json")
        self.assertEqual(run.code, 0, run)
        self.assertEqual(run.json()["tests"][0]["nan_count"], 2048)
        self.assertGreaterEqual(
            self.daemon.metric("assay_nan_total", op="softmax", provider="builtin", dtype="fp32",
                               origin="kernel", expected="true"), 2048)

    def test_every_format_of_a_report(self):
        job = self.result.json()["job"]
        total = self.result.json()["total"]
        lines = self.daemon.run("report", job, "--format", "jsonl").out.splitlines()
        self.assertEqual(len(lines), total)
        rows = list(csv.DictReader(io.StringIO(self.daemon.run("report", job, "--format", "csv").out)))
        self.assertEqual(len(rows), total)
        junit = xml.etree.ElementTree.fromstring(
            self.daemon.run("report", job, "--format", "junit").out)
        self.assertEqual(len(list(junit.iter("testcase"))), total)
        self.assertIn("| ", self.daemon.run("report", job, "--format", "markdown").out)
        self.assertIn("<html", self.daemon.run("report", job, "--format", "html").out.lower())

    def test_listings(self):
        devices = self.daemon.run("devices", "--format", "json").json()["devices"]
        self.assertEqual(devices[0]["name"].split("/")[-1], "cpu:0")
        unavailable = [d for d in devices if d.get("unavailable_reason")]
        self.assertTrue(unavailable, "the backends that are not built in are listed with a reason")
        kernels = self.daemon.run("kernels", "--format", "json").json()["kernels"]
        self.assertFalse([k for k in kernels if k["provider"].startswith("planted")])
        self.assertTrue({"onednn", "openblas", "builtin"} <= {k["provider"] for k in kernels})
        suites = self.daemon.run("suites", "--format", "json").json()["suites"]
        self.assertTrue({"kernel-lab", "precision-softmax", "smoke"} <= {s["name"] for s in suites})
        jobs = self.daemon.run("jobs", "--format", "json").json()["jobs"]
        self.assertIn(self.result.json()["job"], [j["name"] for j in jobs])

    def test_the_same_seed_gives_the_same_digest(self):
        digests = set()
        for seed in ("7", "7", "8"):
            run = self.daemon.run("run", "copy", "--count", "1000", "--dtype", "fp32", "--provider",
                                  "builtin", "--seed", seed, "--format", "json")
            self.assertEqual(run.code, 0, run)
            digests.add(run.json()["tests"][0]["digest"])
        self.assertEqual(len(digests), 2)


if __name__ == "__main__":
    harness.main()
