"""tests/gpu/check without a GPU: its sanitizer step on the CPU, behind a stand-in of the tool, its
benchmarks and a product against a bare loop behind stand-ins, how it shares its minutes, and where it
finds the vendors' libraries."""

import importlib.machinery
import importlib.util
import json
import os
import subprocess
import tempfile
import types
import unittest
from unittest import mock

import harness

CHECK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "gpu", "check")

# Runs what stands behind its options, and says of it what the tool would.
STAND_IN = """#!/bin/sh
while [ "${1#--}" != "$1" ]; do shift 2; done
echo "========= COMPUTE-SANITIZER"
"$@" || exit
echo "========= ERROR SUMMARY: $STAND_IN_ERRORS errors"
[ "$STAND_IN_ERRORS" = 0 ] || exit 9
"""


# A benchmark that is ended within a line.
BENCH = """#!/bin/sh
cat <<END
[
  {"name": "compare_fp16", "ours": 2.88, "peer": 3, "ratio": 0.96},
  {"name": "fill_normal_fp16", "ours": 2, "peer": 4, "ratio": 0.5},
  {"name": "attention_builtin_fp16_4096_64", "ours": 300, "peer": 600, "ratio": 0.5},
  {"name": "attention_cudnn_fp16_4096_64", "ours": 500, "peer": 600, "ratio": 0.8},
  {"name": "attention_builtin_fp16_4096_128", "ours": 250, "peer": 600, "ratio": 0.4},
  {"name": "softmax_fp
END
exec sleep 600
"""


def load():
    loader = importlib.machinery.SourceFileLoader("gpu_check", CHECK)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_check", loader))
    loader.exec_module(module)
    return module


class GpuCheck(unittest.TestCase):
    def setUp(self):
        self.check = load()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def program(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        os.chmod(path, 0o755)
        return path

    def checking(self, device="cpu:0", **more):
        step = self.check.Check(types.SimpleNamespace(
            device=device, minutes=9, install=os.path.abspath(harness.INSTALL), output=None, **more))
        step.folder = self.folder
        return step

    def sanitize(self, errors, device="cpu:0"):
        self.program("compute-sanitizer", STAND_IN)
        step = self.checking(device)
        path = self.folder + os.pathsep + os.environ["PATH"]
        with mock.patch.dict(os.environ, {"PATH": path, "STAND_IN_ERRORS": str(errors)}):
            self.check.sanitizer(step, "memcheck", 240)
        return step

    def test_every_case_of_the_sanitizer_is_one_and_passes(self):
        step = self.sanitize(errors=0)
        self.assertEqual(len(step.rows), 10, step.rows)
        self.assertEqual(step.document["failed"], [], step.rows)

    def test_what_the_sanitizer_finds_fails_though_the_case_passes(self):
        step = self.sanitize(errors=3)
        self.assertEqual(len(step.document["failed"]), len(step.rows), step.rows)
        self.assertEqual({r["verdict"] for r in step.rows}, {"VERDICT_PASSED"})
        self.assertIn("3 errors", step.rows[0]["said"][-1])

    def test_a_worker_without_a_result_fails(self):
        step = self.sanitize(errors=0, device="cpu:7")
        self.assertEqual(len(step.document["failed"]), len(step.rows), step.rows)
        self.assertEqual({r["verdict"] for r in step.rows}, {None})

    def test_no_step_takes_the_time_of_those_after_it(self):
        now = [0.0]
        taken = {}

        def late(name):
            def run(limit):
                taken[name] = limit
                now[0] += limit
            return run

        with mock.patch.object(self.check.time, "monotonic", lambda: now[0]):
            step = self.checking()
            most = {f"step {i}": 60 + 30 * (i % 4) for i in range(11)}
            step.steps([(n, seconds, late(n)) for n, seconds in most.items()])
        self.assertLessEqual(now[0], 540)
        self.assertEqual(list(taken), list(most), step.not_run)
        for name, seconds in most.items():
            self.assertGreaterEqual(taken[name], 0.2 * seconds, name)
            self.assertLessEqual(taken[name], seconds, name)

    def test_what_a_benchmark_measured_before_its_end_is_held_against_its_goals(self):
        step = self.checking(bench=self.program("device_bench", BENCH))
        daemon = mock.Mock()
        with self.assertRaises(subprocess.TimeoutExpired):
            self.check.bench(step, daemon, 3)
        self.assertEqual({r["name"]: (r["goal"], r["reached"]) for r in step.rows if "goal" in r},
                         {"compare_fp16": (0.95, True), "fill_normal_fp16": (0.85, False),
                          "attention builtin / cudnn fp16 64": (0.5, True)})
        self.assertEqual(len(step.rows), 6)
        self.assertEqual([n["name"] for n in step.not_run], ["attention builtin / cudnn fp16 128"])

    def test_a_suite_that_failed_is_among_what_failed(self):
        step = self.checking()
        counts = {"total": 3, "passed": 2, "failed": 1, "inconclusive": 0, "unsupported": 0, "errors": 0,
                  "skipped": 0}
        test = {"name": "gemm", "provider": "builtin", "dtype": "fp16", "verdict": "FAILED",
                "reason": "bound", "message": "9 elements", "repro": "assay run gemm"}
        daemon = mock.Mock()
        daemon.run.return_value = types.SimpleNamespace(
            code=1, out=json.dumps({**counts, "tests": [test]}))
        self.check.suite(step, daemon, "smoke", 60)
        self.assertEqual(step.document["failed"], ["suite smoke"])
        self.assertEqual(step.rows[0]["counts"], counts)
        self.assertEqual(step.rows[0]["not_passed"][0]["message"], "9 elements")

    def test_a_product_through_the_daemon_is_held_against_a_bare_loop(self):
        self.program("loop_bench", "#!/bin/sh\necho 0.000001\n")
        step = self.checking(bench=os.path.join(self.folder, "device_bench"))
        result = {"tests": [{"name": "gemm", "verdict": "PASSED", "bench": {"median_seconds": 4e-6}}]}
        daemon = mock.Mock()
        daemon.run.return_value = types.SimpleNamespace(out=json.dumps(result))
        self.check.through(step, daemon, 60)
        row, = step.rows
        self.assertEqual((row["name"], row["goal"], row["reached"]),
                         ("gemm through / bare loop fp32", 0.99, False))
        self.assertAlmostEqual(row["ratio"], 0.25)
        result["tests"][0]["verdict"] = "FAILED"
        daemon.run.return_value = types.SimpleNamespace(out=json.dumps(result))
        with self.assertRaisesRegex(RuntimeError, "FAILED"):
            self.check.through(step, daemon, 60)

    def test_a_step_that_does_not_end_leaves_no_job_in_the_way_of_the_next(self):
        step = self.checking()

        def late(_limit):
            with self.assertRaises(subprocess.TimeoutExpired):
                daemon.run("run", "--suite", "precision", "--device", "cpu:0", timeout=2)
            raise subprocess.TimeoutExpired("assay", 2)

        with harness.Daemon() as daemon:
            step.daemon = daemon
            step.step("suite precision", 60, late)
            smoke = daemon.run("run", "--suite", "smoke", "--device", "cpu:0")
            jobs = daemon.run("jobs", "--format", "json").json()["jobs"]
        # A daemon that answers no more costs no row.
        silent = subprocess.TimeoutExpired("assay", 5)
        step.daemon = mock.Mock()
        step.daemon.run.side_effect = silent
        step.step("selftest", 60, mock.Mock(side_effect=silent))
        self.assertEqual(step.document["failed"], ["suite precision", "selftest"])
        self.assertEqual(smoke.code, 0, smoke)
        self.assertEqual([j["state"] for j in jobs if j["suite"] == "precision"], ["CANCELLED"])

    def test_without_the_device_its_reason_is_a_row_that_failed(self):
        path = os.path.join(self.folder, "check.json")
        done = subprocess.run([CHECK, "--device", "cuda:99", "--install", harness.INSTALL, "--output", path],
                              capture_output=True, text=True, timeout=harness.LONG, check=False)
        self.assertEqual(done.returncode, 1, done)
        self.assertIn("no cuda:99: ", done.stdout)
        self.assertEqual(done.stderr, "")
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
        self.assertEqual(document["failed"], ["device"])
        self.assertRegex(document["rows"][0]["reason"], "cuda")

    def test_wrong_options_are_refused_before_anything_is_done(self):
        for options, said in ((["--minutes", "0"], "--minutes must be above 0, got 0"),
                              (["--device", "foo"], "--device must be one of"),
                              (["--install", self.folder], "has no bin/assayd"),
                              (["--output", self.folder + "/no/x.json"], "there is no folder")):
            done = subprocess.run([CHECK, *options], capture_output=True, text=True,
                                  timeout=harness.LONG, check=False)
            self.assertEqual(done.returncode, 2, done)
            self.assertIn(said, done.stderr)

    def test_libraries_that_the_loader_does_not_find_are_looked_for(self):
        for name in ("cublas/lib/libcublasLt.so.99", "cudnn/lib/libcudnn.so.99"):
            path = os.path.join(self.folder, name)
            os.makedirs(os.path.dirname(path))
            open(path, "wb").close()
        places = types.SimpleNamespace(submodule_search_locations=[self.folder])
        toolkits = self.check.glob.glob
        with mock.patch.object(self.check.importlib.util, "find_spec", return_value=places), \
             mock.patch.object(self.check.glob, "glob", side_effect=lambda p:
                               [] if p.startswith("/usr/local/") else toolkits(p)):
            self.assertEqual(self.check.library_folders(),
                             [os.path.join(self.folder, d, "lib") for d in ("cublas", "cudnn")])
            with mock.patch.object(self.check, "loads", return_value=True):
                self.assertEqual(self.check.library_folders(), [])


if __name__ == "__main__":
    harness.main()
