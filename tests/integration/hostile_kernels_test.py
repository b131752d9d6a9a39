"""Hostile kernels of users' come into a live daemon, one after the other, while another job runs. Those that are named
below have the verdict that stands there, the next case after each passes, the other job's results are all right, and
daemon and store are well.

The long part runs every kernel of tests/adversarial. Each one's verdict stands in its adversarial_test.cc."""

import glob
import os
import sqlite3
import subprocess
import tempfile
import threading
import unittest

import emulator_kernels as cuda
import harness
import user_kernel_test

SOURCES = os.path.join(user_kernel_test.ROOT, "tests", "adversarial")
CHEATS = os.path.join(user_kernel_test.ROOT, "kernels", "cheats")
LONG_RUN = os.environ.get("ASSAY_TEST_PART") == "long"
CASE = ["--dtype", "fp32", "--m", "40", "--n", "40", "--k", "40", "--device", "cpu:0", "--format", "json"]

# Those that break, and their verdicts.
BREAKS = {
    "abort_in_launch": "ERROR", "stack_smash": "ERROR", "null_write": "ERROR", "crash_in_prepare": "ERROR",
    "no_launch": "ERROR", "garbage_message": "ERROR", "refuses": "ERROR", "write_before": "FAILED",
    "write_far": "FAILED", "huge_workspace": "INCONCLUSIVE", "infinite_output": "PASSED", "scribble": "PASSED",
}
# What they try would reach other processes, files, the network or the system. They pass if it is refused.
TRIES = ("try_abort_all", "try_abort_parent", "try_append_file", "try_environment", "try_fork_bomb", "try_io_uring",
         "try_kill_all", "try_kill_group", "try_mount", "try_outlive", "try_parent_limit", "try_pidfd", "try_rename",
         "try_scheduler", "try_socketpair", "try_symlink", "try_unlink", "try_unshare")


def setUpModule():
    user_kernel_test.setUpModule()


def names():
    if not LONG_RUN:
        return [*BREAKS, *TRIES]
    every = (os.path.basename(path).removesuffix(".c") for path in glob.glob(os.path.join(SOURCES, "*.c")))
    return sorted(name for name in every if not name.startswith("endless"))  # these take their deadline


class OtherJob(threading.Thread):
    """Jobs on another device of the same daemon, one after the other, until it is told to end."""

    def __init__(self, daemon, folder):
        super().__init__()
        self.daemon_, self.end, self.results = daemon, threading.Event(), []
        self.kernel, self.launch = os.path.join(folder, "gemm.cu"), os.path.join(folder, "gemm.toml")
        for path, text in ((self.kernel, cuda.GEMM), (self.launch, cuda.GEMM_LAUNCH)):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)

    def run(self):
        while not self.end.is_set() or not self.results:
            self.results.append(self.daemon_.run(
                "run", "gemm", "--kernel", self.kernel, "--kernel-launch", self.launch, "--device", "simt:0",
                "--dtype", "fp32", "--m", "17,20,33", "--n", "18,36", "--k", "19,50", "--format", "json"))


class HostileKernelsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="assay-hostile-")
        cls.state = os.path.join(cls.folder.name, "state")
        for name in [*names(), "honest"]:
            subprocess.run(["cc", "-std=gnu11", "-D_GNU_SOURCE", "-O1", "-shared", "-fPIC", "-w",
                            f"-I{user_kernel_test.INCLUDE}", f"-I{CHEATS}", os.path.join(SOURCES, name + ".c"),
                            "-o", cls.library(name), "-lpthread"], check=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def library(cls, name):
        return os.path.join(cls.folder.name, name + ".so")

    def judge(self, daemon, name):
        result = daemon.run("run", "gemm", "--kernel", self.library(name), *CASE)
        tests = result.json()["tests"]
        self.assertEqual(len(tests), 1, result)
        return tests[0]

    def run_all(self, daemon):
        """How many cases had a result."""
        cases = 0
        for name in names():
            with self.subTest(name):
                case = self.judge(daemon, name)
                verdict = "PASSED" if name.startswith("try_") else BREAKS.get(name, case["verdict"])
                self.assertEqual(case["verdict"], verdict, case)
                after = self.judge(daemon, "honest")
                self.assertEqual(after["verdict"], "PASSED", after)
                cases += 2
        return cases

    def test_they_harm_nobody(self):
        flags = ["--user-kernels", "library,source", "--devices", "cpu:0,simt:0"]
        with harness.Daemon(state=self.state, flags=flags) as daemon:
            other = OtherJob(daemon, self.folder.name)
            other.start()
            try:
                cases = self.run_all(daemon)
            finally:
                other.end.set()
                other.join()
            self.assertIsNone(daemon.process.poll(), "the daemon lives")
            self.assertEqual(cases, 2 * len(names()))
            self.assertTrue(other.results, "the other job's thread has failed")
            for result in other.results:
                self.assertEqual(result.code, 0, result)
                self.assertEqual([test["verdict"] for test in result.json()["tests"]], ["PASSED"] * 12, result)
            for metric in ("assay_device_quarantined", "assay_worker_restarts_total"):
                self.assertEqual(daemon.metric(metric), 0, metric)
            own = daemon.run("run", "gemm", "--provider", "builtin", *CASE)
            self.assertEqual(own.code, 0, own)
            jobs = daemon.run("jobs", "--limit", "1000", "--format", "json").json()["jobs"]
            self.assertEqual(len(jobs), cases + len(other.results) + 1)
            self.assertEqual({job["state"] for job in jobs}, {"FINISHED"})
            self.assertEqual(daemon.stop(), 0)
        self.check_store(jobs)

    def check_store(self, jobs):
        with sqlite3.connect(os.path.join(self.state, "assay.db")) as store:
            self.assertEqual(store.execute("PRAGMA integrity_check").fetchall(), [("ok",)])
        self.assertEqual([name for name in os.listdir(self.state) if "corrupt" in name], [])
        with harness.Daemon(state=self.state) as daemon:
            self.assertEqual(daemon.run("jobs", "--limit", "1000", "--format", "json").json()["jobs"], jobs)
            self.assertIn(daemon.metric("assay_store_damaged"), (0, None))


if __name__ == "__main__":
    unittest.main(verbosity=2)
