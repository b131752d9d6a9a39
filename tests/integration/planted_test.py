"""Kernels that are wrong on purpose are caught, named for what they are, and cost
the job's other cases nothing."""

import unittest

import harness

GEMM = ["gemm", "--m", "64", "--n", "64", "--k", "64", "--dtype", "fp32"]
ATTENTION = ["attention", "--heads", "2", "--seq", "64", "--dim", "32", "--dtype", "fp32", "--causal"]

# defect → arguments, verdict, the reason word that must be among the findings
DEFECTS = {
    "wrong-tile": (GEMM, "FAILED", "bound"),
    "dropped-k": (GEMM, "FAILED", "bound"),
    "nan": (GEMM, "FAILED", "class"),
    "unwritten-tail": (GEMM, "FAILED", "unwritten"),
    "past-the-end": (GEMM, "FAILED", "guard"),
    "crash": (GEMM, "ERROR", "crash"),
    "abort": (GEMM, "ERROR", "crash"),
    "exit": (GEMM, "ERROR", "crash"),
    "hang": (GEMM + ["--deadline", "1s"], "ERROR", "timeout"),
    "alloc": (GEMM, "ERROR", "memory"),
    "zero-output": (GEMM, "FAILED", "bound"),
    "nondeterministic": (GEMM + ["--repeat", "8"], "FAILED", "nondeterministic"),
    "mask-off-by-one": (ATTENTION, "FAILED", "bound"),
    "missing-rescale": (["attention", "--heads", "2", "--seq", "256", "--dim", "32", "--dtype",
                         "fp32"], "FAILED", "bound"),
    "one-pass-variance": (["layer_norm", "--rows", "16", "--cols", "1024", "--dtype", "fp32",
                           "--pattern", "near-constant:100:0.01"], "FAILED", "bound"),
    "dropped-tap": (["conv", "--channels", "8", "--filters", "8", "--input", "12x12", "--kernel",
                     "3x3", "--dtype", "fp32"], "FAILED", "bound"),
    "stale": (["copy", "--count", "4096", "--dtype", "fp32"], "FAILED", "unwritten"),
}


class Planted(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = harness.Daemon()

    @classmethod
    def tearDownClass(cls):
        cls.daemon.stop()

    def test_every_defect_is_caught_and_named(self):
        for defect, (arguments, verdict, reason) in DEFECTS.items():
            with self.subTest(defect=defect):
                run = self.daemon.run("run", *arguments, "--provider", f"planted/{defect}",
                                      "--format", "json")
                self.assertEqual(run.code, 1, run)
                test = run.json()["tests"][0]
                self.assertEqual(test["verdict"], verdict, test)
                self.assertIn(reason, {finding["reason"] for finding in test["findings"]}, test)
                self.assertIn(f"planted/{defect}", test["repro"])

    def test_missing_max_subtraction_is_caught_on_large_scores(self):
        run = self.daemon.run("run", "softmax", "--rows", "4", "--cols", "256", "--dtype", "fp32",
                              "--pattern", "constant:1000", "--provider", "planted/no-max",
                              "--format", "json")
        self.assertEqual(run.code, 1, run)
        self.assertEqual(run.json()["tests"][0]["reason"], "class")

    def test_a_crash_is_told_with_signal_and_phase(self):
        run = self.daemon.run("run", *GEMM, "--provider", "planted/crash")
        self.assertIn("SIGSEGV", run.out)
        self.assertIn("kernel", run.out)

    def test_the_other_cases_of_the_job_still_finish(self):
        # The hang lasts as long as the deadline, which a busy machine needs longer for the others.
        for deadline in ("5s", "30s", "120s"):
            run = self.daemon.run("run", *GEMM, "--provider",
                                  "builtin,planted/crash,planted/hang,onednn,planted/abort,openblas",
                                  "--deadline", deadline, "--format", "json")
            late = {t["provider"] for t in run.json()["tests"] if t.get("reason") == "timeout"}
            if late == {"planted/hang"}:
                break
        self.assertEqual(run.code, 1, run)
        verdicts = {t["provider"]: t["verdict"] for t in run.json()["tests"]}
        self.assertEqual(verdicts["builtin"], "PASSED")
        self.assertEqual(verdicts["onednn"], "PASSED")
        self.assertEqual(verdicts["openblas"], "PASSED")
        self.assertEqual(verdicts["planted/crash"], "ERROR")
        self.assertEqual(verdicts["planted/hang"], "ERROR")

    def test_the_control_passes_and_planted_kernels_page_nobody(self):
        run = self.daemon.run("run", *GEMM, "--provider", "planted/correct", "--format", "json")
        self.assertEqual(run.code, 0, run)
        for _ in range(8):
            self.daemon.run("run", *GEMM, "--provider", "planted/crash")
        self.assertEqual(self.daemon.metric("assay_device_quarantined", device="cpu:0"), 0.0)
        self.assertNotIn('provider="planted', self.daemon.scrape())
        self.assertEqual(self.daemon.run("run", *GEMM, "--provider", "builtin").code, 0)


if __name__ == "__main__":
    harness.main()
