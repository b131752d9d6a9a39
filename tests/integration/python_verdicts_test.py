"""Random arrays in number: the same verdict from Python and from the command line, and no false alarm."""

import os
import sys
import unittest

import python_test


class Verdicts(unittest.TestCase):
    def test_two_hundred_have_the_same_verdict_from_both_sides(self):
        os.environ["ASSAY_SAME_VERDICT_CASES"] = "200"
        self.assertEqual(python_test.run_pytest("test_same_verdict.py"), [])

    def test_two_thousand_right_kernels_pass(self):
        os.environ["ASSAY_RIGHT_KERNELS_CASES"] = "2000"
        self.assertEqual(python_test.run_pytest("test_right_kernels.py"), [])

    def test_right_functions_pass_on_forty_seeds(self):
        os.environ["ASSAY_VALIDATE_SEEDS"] = "40"
        python_test.run_pytest("test_validate.py", "-k", "right_functions or of_torch")

    def test_right_functions_pass_on_default_shapes_of_ten_seeds(self):
        os.environ["ASSAY_VALIDATE_SEEDS"] = "10"
        self.assertEqual(python_test.run_pytest("test_default_shapes.py", "-k", "right_function"), [])


if __name__ == "__main__":
    if reason := python_test.missing():
        print(f"Skipped: {reason}")
        sys.exit(python_test.SKIPPED)
    unittest.main(verbosity=2)
