"""The FP8 attention suite: a right kernel holds its bound on all of it, and the kernel that
rescales along the wrong axis has the published table's outcomes."""

import unittest

import harness

TABLE = ("run", "--suite", "fp8-attention", "--dtype", "e4m3fn", "--name", "2x256x128",
         "--provider", "builtin,planted/wrong-axis")


class Fp8Attention(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = harness.Daemon()
        cls.run_of_both = cls.daemon.run(*TABLE, "--format", "json")

    @classmethod
    def tearDownClass(cls):
        assert cls.daemon.stop() == 0

    def rows(self, provider):
        rows = [t for t in self.run_of_both.json()["tests"] if t["provider"] == provider]
        self.assertEqual(len(rows), 21, self.run_of_both)
        return rows

    def test_a_right_kernel_passes_every_row(self):
        for row in self.rows("builtin"):
            self.assertEqual(row["verdict"], "PASSED", row)
            self.assertGreater(row["max_abs_score"], 0, row["name"])

    def test_the_wrong_axis_has_the_published_outcomes(self):
        self.assertEqual(self.run_of_both.code, 1)
        for row in self.rows("planted/wrong-axis"):
            published = row["published"]
            self.assertEqual(row["max_abs_error"] <= published["limit"], published["passed"], row)
            self.assertEqual(row["verdict"], "FAILED", row)

    def test_reports_show_the_published_table(self):
        job = self.run_of_both.json()["job"]
        for form in ("table", "markdown", "html"):
            report = self.daemon.run("report", job, "--format", form).out
            for words in ("FP8 attention lessons", "One-hot pattern", "1.82 ✗",
                          "planted/wrong-axis: the source's outcome in 21 of 21 rows"):
                self.assertIn(words, report)

    def test_planted_kernels_run_only_when_named(self):
        run = self.daemon.run("run", "--suite", "fp8-attention", "--dtype", "e4m3fn", "--name",
                              "2x256x128", "--format", "json")
        self.assertEqual(run.code, 0, run)
        self.assertFalse([t for t in run.json()["tests"] if t["provider"].startswith("planted")])


if __name__ == "__main__":
    harness.main()
