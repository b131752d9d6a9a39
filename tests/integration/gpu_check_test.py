"""tests/gpu/check without a GPU: its sanitizer step on the CPU, behind a stand-in of the tool, and
where it finds the vendors' libraries."""

import importlib.machinery
import importlib.util
import os
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

    def sanitize(self, errors, device="cpu:0"):
        tool = os.path.join(self.folder, "compute-sanitizer")
        with open(tool, "w", encoding="ascii") as file:
            file.write(STAND_IN)
        os.chmod(tool, 0o755)
        step = self.check.Check(types.SimpleNamespace(
            device=device, minutes=5, install=os.path.abspath(harness.INSTALL), output=None))
        step.folder = self.folder
        path = self.folder + os.pathsep + os.environ["PATH"]
        with mock.patch.dict(os.environ, {"PATH": path, "STAND_IN_ERRORS": str(errors)}):
            self.check.sanitizer(step, "memcheck", 240)
        return step

    def test_every_case_of_the_sanitizer_is_one_and_passes(self):
        step = self.sanitize(errors=0)
        self.assertEqual(len(step.rows), 4, step.rows)
        self.assertEqual(step.document["failed"], [], step.rows)

    def test_what_the_sanitizer_finds_fails_though_the_case_passes(self):
        step = self.sanitize(errors=3)
        self.assertEqual(len(step.document["failed"]), 4, step.rows)
        self.assertEqual({r["verdict"] for r in step.rows}, {"VERDICT_PASSED"})
        self.assertIn("3 errors", step.rows[0]["said"][-1])

    def test_a_worker_without_a_result_fails(self):
        step = self.sanitize(errors=0, device="cpu:7")
        self.assertEqual(len(step.document["failed"]), 4, step.rows)
        self.assertEqual({r["verdict"] for r in step.rows}, {None})

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
