"""`assay selftest`: planted defects are found by the checks that must find them, right
kernels pass, the score is a metric, and none of it sets the device aside."""

import unittest

import harness

# Defects that end the process, one that only repeats show, one of each other kind.
SOME = "wrong-tile,doubled-product,race,wrong-axis,past-the-end,crash,hang,correct"


class Selftest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = harness.Daemon()

    @classmethod
    def tearDownClass(cls):
        cls.daemon.stop()

    def test_some_defects_are_found_as_the_document_says(self):
        run = self.daemon.run("selftest", "--quick", "--dtype", "fp32", "--defect", SOME,
                              "--format", "json")
        self.assertEqual(run.code, 0, run)
        document = run.json()
        self.assertEqual(document["schema"], "assay.selftest/v1")
        rows = {row["defect"]: row for row in document["rows"]}
        self.assertEqual(set(rows), set(SOME.split(",")) - {"correct"})
        for row in rows.values():
            self.assertTrue(row["caught"], row)
            # One trial: 0.025 is the exact lower end of 1 of 1.
            self.assertAlmostEqual(row["rate_low"], 0.025, msg=row)
            self.assertIn(row["check"], row["caught_by"])
            self.assertEqual(row["provider"], f"planted/{row['defect']}")
            self.assertEqual(set(row["others"]), {"allclose", "derived", "legacy"})
        self.assertIn("bound", rows["wrong-tile"]["caught_by"])
        self.assertTrue(rows["wrong-tile"]["others"]["allclose"], "a whole tile is wrong")
        self.assertIn("exact", rows["doubled-product"]["caught_by"])
        self.assertFalse(rows["past-the-end"]["others"]["derived"], "the values are right")
        self.assertEqual(rows["hang"]["caught_by"], ["timeout"])
        self.assertGreater(document["correct"]["runs"], 0)
        self.assertEqual(document["correct"]["false_alarms"], 0)
        self.assertAlmostEqual(document["correct"]["false_alarm_rate_high"],
                               1 - 0.025 ** (1 / document["correct"]["runs"]))
        # A share of the defects says nothing of the device.
        self.assertIsNone(self.daemon.metric("assay_selftest_detected_ratio", device="cpu:0"))
        self.assertEqual(self.daemon.metric("assay_selftest_false_alarms_total", device="cpu:0"),
                         0.0)
        self.assertEqual(self.daemon.metric("assay_device_quarantined", device="cpu:0"), 0.0)
        scraped = self.daemon.scrape()
        self.assertNotIn('provider="planted', scraped)
        self.assertEqual(self.daemon.metric("assay_jobs_total", verdict="FAILED"), 0.0)

    def test_the_suite_has_the_jobs_verdict_and_right_kernels_raise_no_alarm(self):
        run = self.daemon.run("run", "--suite", "selftest", "--op", "layer_norm", "--dtype",
                              "fp32", "--format", "json")
        self.assertEqual(run.code, 0, run)
        tests = run.json()["tests"]
        verdicts = {t["verdict"] for t in tests if t["provider"].startswith("planted/")}
        self.assertEqual(verdicts, {"FAILED"}, "a planted kernel is there to fail")
        right = [t for t in tests if not t["provider"].startswith("planted/")]
        self.assertTrue(right)
        self.assertEqual({t["verdict"] for t in right}, {"PASSED"})
        suites = {s["name"] for s in self.daemon.run("suites", "--format", "json").json()["suites"]}
        self.assertIn("selftest", suites)

    def test_a_table_and_a_document(self):
        words = ("--quick", "--op", "softmax", "--dtype", "fp32")
        table = self.daemon.run("selftest", *words)
        self.assertEqual(table.code, 0, table)
        self.assertIn("underflow-tail", table.out)
        self.assertIn("AT LEAST", table.out)
        self.assertIn("0 false alarms (a rate of at most ", table.err)
        markdown = self.daemon.run("selftest", *words, "--format", "markdown")
        self.assertIn("| softmax | underflow-tail |", markdown.out)

    def test_what_cannot_be_asked_for_is_a_usage_error(self):
        for words in (["--trials", "0"], ["--quick", "--trials", "2"], ["--format", "csv"],
                      ["--op", "nonsense"], ["--defect", "nonsense"], ["--dtype", "fp3"]):
            with self.subTest(words=words):
                self.assertEqual(self.daemon.run("selftest", *words).code, 2)
        gone = harness.run_client("selftest", "--target", "127.0.0.1:1")
        self.assertEqual(gone.code, 3, gone)


class Adversarial(unittest.TestCase):
    """Users' kernels are off: the cheats are the installation's own."""

    @classmethod
    def setUpClass(cls):
        cls.daemon = harness.Daemon()
        cls.result = cls.daemon.run("selftest", "--adversarial", "--format", "json", timeout=900)
        cls.document = cls.result.json()

    @classmethod
    def tearDownClass(cls):
        cls.daemon.stop()

    def skip_if_nothing_ran(self):
        if {row.get("verdict") for row in self.document["rows"]} == {"UNSUPPORTED"}:
            self.skipTest("this platform cannot contain users' kernels")

    def test_no_cheat_passes_and_no_twin_fails(self):
        rows = self.document["rows"]
        self.assertEqual(self.document["schema"], "assay.adversarial/v1")
        self.assertGreaterEqual(len(rows), 30)
        for row in rows:
            if row["cheat"] != "calls-library":  # it is right, and its result says whose work it is
                self.assertNotEqual(row["verdict"], "PASSED", row)
            self.assertNotIn(row["twin"], ("FAILED", "ERROR"), row)
        self.skip_if_nothing_ran()
        for row in rows:
            self.assertTrue(row["stopped"], row)
            self.assertEqual(row["twin"], "PASSED", row)
            self.assertEqual((row["way"], row["op"], row["device"]), ("library", "gemm", "cpu:0"))
        by = {row["cheat"]: row["stopped_by"] for row in rows}
        self.assertEqual(by["cache-by-pointer"], "stale")
        self.assertEqual(by["expected-in-memory"], "memory")
        self.assertEqual(by["own-clock"], "clock")
        self.assertEqual((by["symbol-clash"], by["restarts"]), ("memory", "processes"))
        summary = self.document["summary"]
        # A machine without a library of matrix products has nothing to show: its output is unwritten. Where the
        # library does not fit into the kernel's process, it ends.
        self.assertIn(by["calls-library"], ("shown", "unwritten", "crash", "memory"))
        shown = 1 if by["calls-library"] == "shown" else 0
        self.assertEqual(summary["shown"], shown)
        self.assertEqual(summary["found"] + summary["impossible"] + shown, len(rows))
        self.assertEqual(summary["twins_passed"], len(rows))
        self.assertEqual(self.result.code, 0, self.result)
        self.assertIn(f"{len(rows)} cheats: {summary['found']} found, {summary['impossible']} impossible"
                      f"{', 1 shown' if shown else ''}; {len(rows)} honest twins passed", self.result.err)

    def test_a_platform_that_cannot_contain_kernels_is_no_pass(self):
        if {row.get("verdict") for row in self.document["rows"]} != {"UNSUPPORTED"}:
            self.skipTest("this platform contains users' kernels")
        self.assertEqual(self.result.code, 4, self.result)
        self.assertIn("landlock", self.result.err)

    def test_nothing_but_the_selftests_own_metrics_counts_them(self):
        self.skip_if_nothing_ran()
        ratio = "assay_selftest_cheats_stopped_ratio"
        harness.wait_until(lambda: self.daemon.metric(ratio, device="cpu:0") == 1.0 or None, 30, ratio)
        self.assertEqual(self.daemon.metric("assay_device_quarantined", device="cpu:0"), 0.0)
        self.assertEqual(self.daemon.metric("assay_selftest_false_alarms_total", device="cpu:0"), 0.0)
        for verdict in ("PASSED", "FAILED", "INCONCLUSIVE"):
            self.assertEqual(self.daemon.metric("assay_jobs_total", verdict=verdict), 0.0, verdict)
        scraped = self.daemon.scrape()
        for word in ('provider="cheat', 'provider="user"'):
            self.assertNotIn(word, scraped)

    def test_some_cheats_as_a_table(self):
        self.skip_if_nothing_ran()
        table = self.daemon.run("selftest", "--adversarial", "--defect", "zeros,forks")
        self.assertEqual(table.code, 0, table)
        self.assertRegex(table.out, r"CHEAT +WAY +STOPPED BY +HONEST TWIN")
        self.assertRegex(table.out, r"(?m)^forks +library +cannot: starts no process +passed$")
        self.assertIn("2 cheats: 1 found, 1 impossible; 2 honest twins passed", table.err)
        # A case of its own names the cheat as its provider.
        case = ("--m", "33", "--n", "34", "--k", "35", "--dtype", "fp32", "--device", "cpu:0")
        one = self.daemon.run("run", "gemm", *case, "--provider", "cheat/zeros", "--format", "json")
        self.assertEqual(one.code, 1, one)
        document = self.daemon.run("run", "gemm", *case, "--provider", "cheat/calls-library", "--format", "json").json()
        if document["tests"][0]["verdict"] == "PASSED":  # else the machine has no such library
            libraries = document["tests"][0]["loaded_libraries"]
            self.assertTrue(any("blas" in name or "mkl" in name for name in libraries), libraries)
            shown = self.daemon.run("report", document["job"])
            self.assertRegex(shown.out, r"(?m)^ +libraries .*(blas|mkl)")

    def test_what_cannot_be_asked_for_is_a_usage_error(self):
        for words in (["--quick"], ["--trials", "3"], ["--defect", "nonsense"], ["--format", "csv"]):
            with self.subTest(words=words):
                self.assertEqual(self.daemon.run("selftest", "--adversarial", *words).code, 2)


class OnStart(unittest.TestCase):
    def test_a_daemon_can_be_told_to_test_itself_when_it_starts(self):
        daemon = harness.Daemon(flags=("--selftest-on-start",))
        try:
            jobs = daemon.run("jobs", "--format", "json").json()["jobs"]
            self.assertEqual([job["suite"] for job in jobs], ["selftest"])
            self.assertEqual(jobs[0]["labels"]["origin"], "selftest-on-start")
            self.assertEqual(daemon.run("cancel", jobs[0]["name"]).code, 0)
        finally:
            daemon.stop()


if __name__ == "__main__":
    harness.main()
