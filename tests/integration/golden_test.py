"""The golden digests that ship with a level are what a qualification holds the device against."""

import os
import shutil
import tempfile
import unittest

import harness

SUITES = os.path.join(harness.INSTALL, "share/assay/suites")


class Golden(unittest.TestCase):
    def qualify(self, change=lambda line: line):
        """`quick`, with the installed suites but for one golden digest."""
        with tempfile.TemporaryDirectory() as folder:
            suites = shutil.copytree(SUITES, os.path.join(folder, "suites"))
            path = os.path.join(suites, "golden/quick.tsv")
            with open(path, encoding="utf-8") as file:
                lines = file.readlines()
            with open(path, "w", encoding="utf-8") as file:
                file.writelines(map(change, lines))
            with harness.Daemon(flags=["--suites-dir", suites]) as daemon:
                return daemon.run("qualify", "quick", "--no-selftest", "--no-retry", "--format", "json")

    def test_a_digest_that_is_not_the_golden_one_fails(self):
        key = "gemm 192x160x224 fp32\texact-sparse\t"
        changed = []

        def change(line):
            if not line.startswith(key):
                return line
            digit = line.strip()[-1]
            changed.append(line)
            return line.strip()[:-1] + ("0" if digit != "0" else "1") + "\n"

        done = self.qualify(change)
        self.assertEqual(len(changed), 1)
        self.assertEqual(done.code, 1, done)
        device = done.json()["devices"][0]
        self.assertEqual(device["verdict"], "FAILED", done)
        self.assertIn("is not the golden one", str(device["findings"]), done)
        self.assertIn("gemm 192x160x224 fp32", str(device["findings"]), done)

    def test_those_that_ship_are_right_here(self):
        done = self.qualify()
        self.assertNotIn("golden", str(done.json()["devices"][0]["findings"]), done)
        self.assertIn(done.code, (0, 4), done)


if __name__ == "__main__":
    harness.main()
