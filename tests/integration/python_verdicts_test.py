"""Two hundred random arrays have the same verdict from Python and from the command line."""

import os
import sys
import unittest

import python_test


class SameVerdict(unittest.TestCase):
    def test_two_hundred(self):
        os.environ["ASSAY_SAME_VERDICT_CASES"] = "200"
        self.assertEqual(python_test.run_pytest("test_same_verdict.py"), [])


if __name__ == "__main__":
    if reason := python_test.missing():
        print(f"Skipped: {reason}")
        sys.exit(python_test.SKIPPED)
    unittest.main(verbosity=2)
