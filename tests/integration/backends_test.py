"""Backends that are libraries beside the worker: on a machine without their driver
everything else works, and the reason is said."""

import os
import unittest

import harness

LIBRARIES = os.path.join(harness.INSTALL, "lib")


def library(name):
    """Where the tree has a backend's library, or None."""
    for folder, _, files in os.walk(LIBRARIES):
        if f"libassay_{name}.so" in files:
            return os.path.join(folder, f"libassay_{name}.so")
    return None


class Backends(unittest.TestCase):
    def reason(self, backend):
        with harness.Daemon(flags=("--devices", f"cpu:0,{backend}:*")) as daemon:
            devices = daemon.run("devices", "--format", "json").json()["devices"]
            self.assertTrue(any(d["id"] == "cpu:0" and d["state"] == "READY" for d in devices))
            mine = [d for d in devices if d["backend"] == backend]
            self.assertTrue(mine, devices)
            if any(d["state"] == "READY" for d in mine):
                self.skipTest(f"this machine has a {backend} device")
            softmax = ("run", "softmax", "--rows", "8", "--cols", "64", "--dtype", "fp32",
                       "--provider", "builtin")
            run = daemon.run(*softmax)
            self.assertEqual(run.code, 0, run)
            reason = mine[0]["unavailable_reason"]
            for asked in (f"{backend}:0", f"{backend}:*", backend):
                refused = daemon.run(*softmax, "--device", asked)
                self.assertEqual(refused.code, 2, refused)
                self.assertIn(f'"{asked}" cannot be used here: {reason}', refused.err)
            return reason

    def test_cuda_says_why_it_is_not_there(self):
        reason = self.reason("cuda")
        if library("cuda"):
            self.assertIn("cudaError", reason)  # the library was loaded and asked the driver
        else:
            self.assertIn("this build has no cuda backend", reason)

    def test_hip_says_why_it_is_not_there(self):
        reason = self.reason("hip")
        if library("hip"):
            self.assertIn("hipError", reason)
        else:
            self.assertIn("this build has no hip backend", reason)

    def test_a_device_that_is_asked_for_by_number_is_listed_by_it(self):
        with harness.Daemon(flags=("--devices", "cpu:0,cuda:3")) as daemon:
            devices = daemon.run("devices", "--format", "json").json()["devices"]
            listed = [d for d in devices if d["id"] == "cuda:3"]
            if not listed:
                self.skipTest("this machine has that many cuda devices")
            self.assertTrue(listed[0]["unavailable_reason"], listed)
            refused = daemon.run("run", "softmax", "--rows", "8", "--cols", "64", "--dtype", "fp32",
                                 "--device", "cuda:*")
            self.assertIn(listed[0]["unavailable_reason"], refused.err)

    def test_libraries_export_their_entry_and_nothing_else(self):
        found = [path for path in map(library, ("cuda", "hip")) if path]
        if not found:
            self.skipTest("this build has neither nvcc nor hipcc")
        import subprocess
        for path in found:
            symbols = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True,
                                     text=True, check=True).stdout.split("\n")
            names = {line.split()[-1] for line in symbols if line.strip()}
            self.assertEqual(names, {"assay_backend"}, path)


if __name__ == "__main__":
    harness.main()
