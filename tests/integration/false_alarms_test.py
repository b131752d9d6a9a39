"""Kernels that are right do not fail: tests/false_alarms --random with 40,000 runs."""

import os
import re
import subprocess
import sys
import unittest

import harness

RUNS = 40000
SEEDS = 100
SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "false_alarms")


class FalseAlarms(unittest.TestCase):
    def test_random_cases_raise_none(self):
        done = subprocess.run(
            [sys.executable, SCRIPT, "--random", "--runs", str(RUNS), "--seeds", str(SEEDS), "--first", "101"],
            capture_output=True, text=True, timeout=1700, check=False)
        said = f"{done.stdout}\n{done.stderr}"
        self.assertEqual(done.returncode, 0, said)
        total = re.search(r"^(\d+) case runs, (\d+) false alarms$", done.stdout, re.M)
        self.assertTrue(total, said)
        self.assertGreaterEqual(int(total.group(1)), RUNS)
        self.assertEqual(int(total.group(2)), 0)
        self.assertEqual(len(re.findall(r"^seed \d+: ", done.stdout, re.M)), SEEDS, said)
        # Most of what ran proved something.
        passed = int(re.search(r"(\d+) passed", done.stdout).group(1))
        self.assertGreater(passed, 0.8 * int(total.group(1)), said)


if __name__ == "__main__":
    harness.main()
