"""assay lint on code that real compilers made: a descriptor that grants too little is found, and
what the compilers grant themselves is in order."""

import glob
import json
import os
import shutil
import subprocess
import tempfile
import unittest

import harness

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lint")


def tool(*names):
    for name in names:
        found = shutil.which(name) or next(iter(glob.glob(f"/usr/local/cuda/bin/{name}")), None)
        if found:
            return found
    raise unittest.SkipTest(f"{names[0]} is not on this machine")


class Lint(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def compile(self, *command):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def lint(self, path, *options):
        run = harness.run_client("lint", path, "--format", "json", *options)
        self.assertIn(run.code, (0, 1), run)
        report = json.loads(run.out)
        self.assertEqual(report["schema"], "assay.lint/v1")
        found = [(f["severity"], f["rule"]) for k in report["kernels"] for f in k["findings"]]
        self.assertEqual(run.code, int(any(severity == "error" for severity, _ in found)))
        return report, found

    def attention(self, granted, argument_bytes=8):
        clang = tool("clang-19", "clang")
        tool("llvm-objdump-19", "llvm-objdump")
        path = self.path(f"attention{granted}.hsaco")
        self.compile(clang, "--target=amdgcn-amd-amdhsa", "-mcpu=gfx942", "-x", "assembler",
                     f"-Wa,-defsym,GRANTED={granted}", f"-Wa,-defsym,ARGUMENT_BYTES={argument_bytes}",
                     os.path.join(HERE, "attention.s"), "-o", path)
        return path

    def test_48_registers_granted_and_148_used(self):
        report, found = self.lint(self.attention(48))
        self.assertEqual(found, [("error", "vgprs")])
        self.assertEqual(report["target"], "gfx942")
        registers = report["kernels"][0]["registers"]
        self.assertEqual((registers["vgprs_granted"], registers["vgprs_used"]), (48, 148))

    def test_148_registers_granted_are_enough(self):
        _, found = self.lint(self.attention(148))
        self.assertEqual(found, [])
        _, found = self.lint(self.attention(148), "--arch", "gfx90a")
        self.assertEqual(found, [("error", "target")])

    def test_arguments_that_the_descriptor_does_not_know(self):
        _, found = self.lint(self.attention(148, argument_bytes=0))
        self.assertEqual(found, [("warning", "arguments")])

    def test_a_cubin(self):
        path = self.path("scale.cubin")
        self.compile(tool("nvcc"), "-arch=sm_90", "-cubin", os.path.join(HERE, "scale.cu"), "-o", path)
        tool("llvm-readobj-19", "llvm-readobj")
        report, found = self.lint(path)
        self.assertEqual(found, [("warning", "local")])
        scale = next(k for k in report["kernels"] if k["name"] == "scale")["registers"]
        self.assertEqual((scale["threads"], scale["shared_bytes"], scale["argument_bytes"]),
                         (256, 4096, 20))
        self.assertGreater(scale["registers"], 0)
        self.assertIn(("error", "target"), self.lint(path, "--arch", "sm_80")[1])

    def test_ptx(self):
        path = self.path("scale.ptx")
        self.compile(tool("nvcc"), "-arch=sm_80", "-ptx", os.path.join(HERE, "scale.cu"), "-o", path)
        report, found = self.lint(path, "--arch", "sm_90")
        self.assertEqual(found, [("warning", "local")])
        self.assertEqual(report["target"], "sm_90")
        with open(path, "a", encoding="utf-8") as ptx:
            ptx.write("nonsense;\n")
        run = harness.run_client("lint", path)
        self.assertEqual(run.code, 2, run)
        self.assertIn("scale.ptx, line", run.err)

    def test_what_the_compilers_for_hip_grant_is_enough(self):
        hipcc = tool("hipcc")
        tool("llvm-objdump-19", "llvm-objdump")
        source = self.path("scale.hip")
        with open(os.path.join(HERE, "scale.cu"), encoding="utf-8") as text, \
                open(source, "w", encoding="utf-8") as out:
            out.write("#include <hip/hip_runtime.h>\n" + text.read())
        for arch in ("gfx906", "gfx90a"):
            path = self.path(f"{arch}.co")
            self.compile(hipcc, "--genco", f"--offload-arch={arch}", source, "-o", path)
            report, found = self.lint(path)
            self.assertEqual([f for f in found if f[0] == "error"], [], report)
            self.assertEqual({k["name"] for k in report["kernels"]}, {"scale", "increment"})

    def test_a_program_that_is_missing_is_named(self):
        path = self.path("scale.ptx")
        with open(path, "w", encoding="utf-8") as ptx:
            ptx.write(".version 8.0\n.target sm_80\n.address_size 64\n")
        if os.path.exists("/usr/local/cuda/bin/ptxas"):
            self.skipTest("ptxas is on this machine")
        run = harness.run_client("lint", path, environment={"PATH": self.folder})
        self.assertEqual(run.code, 4, run)
        self.assertIn("CUDA toolkit", run.err)


if __name__ == "__main__":
    harness.main()
