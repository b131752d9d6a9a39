"""A wrong kernel is told what is wrong with it: in the table, by explain, by its log
line, and element by element."""

import unittest

import harness


class Explain(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = harness.Daemon()

    @classmethod
    def tearDownClass(cls):
        cls.daemon.stop()

    def job(self, *arguments):
        """Runs a job; its name and its tests."""
        run = self.daemon.run("run", *arguments, "--format", "json")
        report = run.json()
        return report["job"], report["tests"]

    def test_a_mask_off_by_one_is_named(self):
        job, tests = self.job("attention", "--heads", "2", "--seq", "64", "--dim", "32", "--dtype",
                              "fp16", "--causal", "--provider", "planted/mask-off-by-one")
        self.assertIn("one key too many", tests[0]["reads_as"])
        self.assertIn("causal mask's comparison", tests[0]["next_step"])
        self.assertEqual({i["name"] for i in tests[0]["inputs"]}, {"q", "k", "v"})
        told = self.daemon.run("explain", job, "0")
        self.assertEqual(told.code, 0, told)
        for words in ("rule      bound: each element", "worst     [", "reads as  the causal mask",
                      "next      look at the causal mask's comparison", "repro     assay run"):
            self.assertIn(words, told.out)
        document = self.daemon.run("explain", job, "--format", "json").json()
        self.assertEqual(document["schema"], "assay.explain/v1")
        self.assertEqual(document["cases"][0]["reads_as"], tests[0]["reads_as"])

    def test_a_wrong_tile_is_placed_and_shown(self):
        job, tests = self.job("gemm", "--m", "64", "--n", "64", "--k", "64", "--dtype", "fp32",
                              "--provider", "planted/wrong-tile", "--probes=false")
        self.assertIn("16x16 block at [", tests[0]["pattern_of_errors"])
        self.assertIn("16 columns", tests[0]["reads_as"])
        row, col = tests[0]["first_mismatch"]["index"]
        shown = self.daemon.run("show", job, "0", "--slice", f"actual[{row},{col}:{col + 2}]",
                                "--slice", f"expected[{row},{col + 16}:{col + 18}]",
                                "--format", "json")
        self.assertEqual(shown.code, 0, shown)
        actual, expected = shown.json()["slices"]
        self.assertEqual(actual["shape"], [1, 2])
        self.assertEqual(len(actual["bits"]), 2)
        # What the tile holds is what belongs 16 columns further on.
        for got, right in zip(actual["values"], expected["values"]):
            self.assertAlmostEqual(got, right, delta=1e-3)
        grid = self.daemon.run("show", job, "0", "--slice", "actual[0:2,0:2]", "--bits")
        self.assertIn("0x", grid.out)

    def test_a_slice_that_cannot_be_is_named(self):
        run = self.daemon.run("run", "gemm", "--m", "8", "--n", "8", "--k", "8", "--dtype", "fp32",
                              "--slice", "actual[0:2,0:2]", "--slice", "expected[9]")
        self.assertEqual(run.code, 2, run)
        self.assertIn("slices[1]: index 9 is not in an axis of 8", run.err)

    def test_the_first_nan_is_logged_once_with_the_inputs(self):
        for _ in range(2):
            self.job("softmax", "--rows", "2", "--cols", "64", "--dtype", "fp32", "--pattern",
                     "constant:1000", "--provider", "builtin,planted/no-max")
        lines = [line for line in self.daemon.log_text().splitlines()
                 if "event=nonfinite.first" in line]
        self.assertEqual(len(lines), 1, lines)
        for words in ("provider=planted/no-max", "op=softmax", "dtype=fp32", "kind=nan",
                      "origin=kernel", "expected=false", "x min 1000 max 1000 mean 1000"):
            self.assertIn(words, lines[0])

    def test_a_slow_kernel_is_called_slow(self):
        run = self.daemon.run("bench", "gemm", "--m", "256", "--n", "256", "--k", "256", "--dtype",
                              "fp32", "--provider", "planted/slow", "--format", "json")
        test = run.json()["tests"][0]
        self.assertEqual(test["verdict"], "PASSED", test)
        self.assertIn("slow: ", test["reads_as"])
        self.assertIn("roof", test["reads_as"])
        # Which roof it is under is for the ceilings to say.
        self.assertRegex(test["next_step"], "tile sizes|access pattern")

    def test_a_pass_is_told_how_close_it_came(self):
        job, _ = self.job("gemm", "--m", "32", "--n", "32", "--k", "32", "--dtype", "bf16",
                          "--provider", "builtin")
        told = self.daemon.run("explain", job)
        self.assertIn("nothing failed", told.out)
        self.assertIn("of its element's bound", told.out)
        self.assertIn("8 times fp16's", told.out)


if __name__ == "__main__":
    harness.main()
