"""CUDA source that tries to pass without the work, on the emulator: no trick passes, and every twin without it does."""

import os
import subprocess
import tempfile
import unittest

import harness
import user_kernel_test

SOURCE = os.path.join(user_kernel_test.ROOT, "tests", "adversarial", "device_cheats.cu")
# No extent is a multiple of 16.
CASE = ["--dtype", "fp32", "--m", "20", "--n", "36", "--k", "50", "--device", "simt:0", "--format", "json"]
LAUNCH = 'grid = ["ceil_div(n, 16)", "ceil_div(m, 16)"]\nblock = [16, 16]\nargs = ["a", "b", "d", "m", "n", "k"]\n'

# The trick, and the reasons of which one is the first finding's.
TRICKS = {
    # Work that is done once, seldom, or if somebody looks.
    "kOnlyFirst": {"unwritten"},
    "kNotFirst": {"unwritten"},
    "kEveryOther": {"unwritten"},
    "kWaitsForNan": {"bound", "exact"},
    "kWaitsForPoison": {"bound"},
    # What stays from launch to launch.
    "kAddsUp": {"bound"},
    "kCacheByPointer": {"stale"},
    # Results that are not what was asked for.
    "kZeros": {"bound"},
    "kConstant": {"bound"},
    "kAnalytic": {"exact"},
    "kUnlessExact": {"exact"},
    "kNarrowUnlessExact": {"bound", "precision"},
    "kBf16": {"bound"},
    "kTf32": {"bound"},
    "kHalfSums": {"exact", "bound", "precision"},
    "kTile": {"bound"},
    "kHalfGrid": {"unwritten"},
    # Memory that is not the kernel's to use so.
    "kChangesInput": {"guard", "nondeterministic"},
    "kWritesBehind": {"guard"},
    "kReadsNeighbour": {"guard"},
    "kReadsBefore": {"guard"},
    "kOldShared": {"class"},
    "kLocalOfOther": {"guard"},
    # Threads that nothing orders.
    "kNoBarrier": {"nondeterministic"},
    "kEarlyLoad": {"nondeterministic"},
}
# Their twins have code of their own. Without the trick, the others are the same kernel.
TWINS = ("kZeros", "kAddsUp", "kCacheByPointer", "kUnlessExact", "kOldShared", "kLocalOfOther")


def setUpModule():
    user_kernel_test.setUpModule()


class DeviceCheatsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="assay-device-cheats-")
        cls.daemon = harness.Daemon(flags=["--user-kernels", "source", "--devices", "simt:0"])
        with open(SOURCE, encoding="utf-8") as file:
            cls.source = file.read()

    @classmethod
    def tearDownClass(cls):
        cls.daemon.stop()
        subprocess.run(["rm", "-rf", cls.folder], check=True)

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def judge(self, trick, honest, *more, defined=""):
        source = f"#define CHEAT {trick}\n#define HONEST {honest}\n{defined}\n" + self.source
        return self.daemon.run("run", "gemm", "--kernel", self.write("gemm.cu", source), "--kernel-launch",
                               self.write("launch.toml", LAUNCH), *CASE, *more)

    def test_no_trick_passes(self):
        for trick, reasons in TRICKS.items():
            with self.subTest(trick):
                result = self.judge(trick, 0, *(["--pattern", "constant"] if trick == "kAnalytic" else []))
                case = result.json()["tests"][0]
                self.assertEqual(case["verdict"], "FAILED", result)
                self.assertIn(case["findings"][0]["reason"], reasons, result)
                self.assertEqual(case["findings"][0]["blame"], "kernel", result)

    def test_twins_pass(self):
        for trick in TWINS:
            with self.subTest(trick):
                result = self.judge(trick, 1)
                self.assertEqual(result.json()["tests"][0]["verdict"], "PASSED", result)

    def test_a_kernel_that_asks_to_be_inlined_is_followed_too(self):
        for trick in ("kReadsBefore", "kNoBarrier"):
            result = self.judge(trick, 0, defined="#define INLINED __attribute__((always_inline)) inline")
            case = result.json()["tests"][0]
            self.assertEqual(case["verdict"], "FAILED", result)
            self.assertIn(case["findings"][0]["reason"], TRICKS[trick], result)

    def test_code_that_hides_its_accesses_does_not_compile(self):
        result = self.judge("kReadsBefore", 0, defined='#define HIDDEN __attribute__((no_sanitize("thread")))')
        self.assertEqual(result.code, 2, result)
        self.assertRegex(result.err, r"gemm\.cu:\d+:\d+: error: .*no_sanitize")


if __name__ == "__main__":
    unittest.main(verbosity=2)
