"""A stranger builds kernels against the installed header, in each of the ways that a stranger has,
and the installed worker judges them."""

import json
import os
import shutil
import subprocess
import tempfile
import unittest

import containment_test
import harness
import lint_test

HERE = os.path.dirname(os.path.abspath(__file__))
TEMPLATES = os.path.join(HERE, "..", "templates")
GEMM = {"gemm": {"m": 33, "n": 20, "k": 47, "lda": 50}, "dtype": "DTYPE_FP32"}
SOFTMAX = {"softmax": {"rows": 64, "cols": 300}, "dtype": "DTYPE_FP32"}


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def judge(library, case, provider="user/0123456789ab"):
    """The result of the case with this kernel."""
    worker = os.path.join(harness.INSTALL, "libexec", "assay", "assay-worker")
    done = subprocess.run(
        [worker, "--once", "-", "--kernel-file", library], capture_output=True, text=True,
        input=json.dumps(case | {"provider": provider}), timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def setUpModule():
    with harness.Daemon() as daemon:
        applied, why = containment_test.measures(daemon)["landlock"]
    if not applied:
        raise unittest.SkipTest(f"without landlock users' kernels do not run: {why}")


class KernelSdk(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # Outside the tree, as a stranger's project is. The tree is moved, too: its files name no
        # path of where it was installed.
        cls.folder = tempfile.mkdtemp(prefix="assay-sdk-")
        cls.moved = os.path.join(cls.folder, "moved")
        for part in ["include", "lib/cmake/assay-kernel", "lib/pkgconfig"]:
            shutil.copytree(os.path.join(harness.INSTALL, part), os.path.join(cls.moved, part))
        cls.project = os.path.join(cls.folder, "project")
        shutil.copytree(os.path.join(TEMPLATES, "cpu"), cls.project)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def expect_passed(self, result, name):
        self.assertEqual(result["verdict"], "VERDICT_PASSED", result.get("findings"))
        self.assertTrue(result["implementation"].startswith(name), result["implementation"])
        probes = result["probes"]
        self.assertTrue(probes)
        self.assertEqual({p["verdict"] for p in probes}, {"VERDICT_PASSED"}, probes)

    def test_cmake(self):
        build = os.path.join(self.folder, "build")
        run("cmake", "-S", self.project, "-B", build, f"-DCMAKE_PREFIX_PATH={self.moved}")
        run("cmake", "--build", build)
        self.expect_passed(judge(os.path.join(build, "libmy_gemm.so"), GEMM), "my_gemm")
        softmax = judge(os.path.join(build, "libmy_softmax.so"), SOFTMAX | {"mode": "MODE_BOTH"})
        self.expect_passed(softmax, "my_softmax")
        libraries = softmax["loaded_libraries"]
        self.assertTrue(any(name.startswith("libgomp.so") for name in libraries), libraries)
        self.assertGreater(softmax["bench"]["median_seconds"], 0)

    def test_pkg_config(self):
        environment = os.environ | {"PKG_CONFIG_PATH": os.path.join(self.moved, "lib", "pkgconfig")}
        flags = subprocess.run(["pkg-config", "--cflags", "assay-kernel"], env=environment,
                               capture_output=True, text=True, check=True).stdout.split()
        library = os.path.join(self.folder, "by_pkg_config.so")
        run("cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", *flags,
            os.path.join(self.project, "my_gemm.c"), "-o", library)
        self.expect_passed(judge(library, GEMM), "my_gemm")

    def test_plain_compiler(self):
        include = os.path.join(self.moved, "include")
        library = os.path.join(self.folder, "plain.so")
        run("c++", "-std=c++11", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden", "-fopenmp",
            "-shared", "-fPIC", f"-I{include}", os.path.join(self.project, "my_softmax.cc"),
            "-o", library)
        self.expect_passed(judge(library, SOFTMAX), "my_softmax")
        for language in ["c", "c++"]:
            header = os.path.join(self.moved, "include", "assay", "kernel.h")
            run("cc", "-x", language, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only",
                header)

    def test_what_the_kernel_does_not_do_is_said_in_its_words(self):
        library = os.path.join(self.folder, "refusing.so")
        run("cc", "-shared", "-fPIC", f"-I{self.moved}/include",
            os.path.join(self.project, "my_gemm.c"), "-o", library)
        result = judge(library, GEMM | {"dtype": "DTYPE_BF16"})
        self.assertEqual(result["verdict"], "VERDICT_UNSUPPORTED")
        self.assertIn("only fp32 is done", result["findings"][0]["message"])
        result = judge(library, SOFTMAX)
        self.assertEqual(result["verdict"], "VERDICT_UNSUPPORTED")
        self.assertIn("computes gemm, not softmax", result["findings"][0]["message"])
        result = judge("", GEMM)
        self.assertEqual(result["verdict"], "VERDICT_UNSUPPORTED")

    def test_files_that_are_no_kernel(self):
        text = os.path.join(self.folder, "text.so")
        with open(text, "w", encoding="utf-8") as file:
            file.write("no library")
        for path, words, blame in [(text, "not in the format ELF", "BLAME_KERNEL"),
                                   ("/nowhere/x.so", "cannot be read", "BLAME_HOST"),
                                   ("/bin/true", "does not export assay_kernel_v1", "BLAME_KERNEL")]:
            result = judge(path, GEMM)
            self.assertEqual(result["verdict"], "VERDICT_ERROR", path)
            finding = result["findings"][0]
            self.assertIn(words, finding["message"])
            self.assertEqual(finding["blame"], blame)
            self.assertNotIn("death", finding)


class CudaTemplate(unittest.TestCase):
    """Two files, a kernel in CUDA and its launch, are judged on a machine that has no card."""

    @classmethod
    def setUpClass(cls):
        cls.project = os.path.join(tempfile.mkdtemp(prefix="assay-cuda-sdk-"), "project")
        shutil.copytree(os.path.join(TEMPLATES, "cuda"), cls.project)
        cls.daemon = harness.Daemon(flags=["--user-kernels", "source", "--devices", "cpu:0,simt:0"])

    @classmethod
    def tearDownClass(cls):
        cls.daemon.stop()
        shutil.rmtree(os.path.dirname(cls.project))

    def judge(self, *more):
        """The exit code and the first case of the template's own command, run in its folder."""
        command = [os.path.abspath(harness.ASSAY), "run", "gemm", "--kernel", "./my_gemm.cu",
                   "--device", "simt:0", "--dtype", "fp32", "--m", "33", "--n", "20", "--k", "47",
                   *more, "--format", "json"]
        done = subprocess.run(command, cwd=self.project, capture_output=True, text=True,
                              timeout=300, check=False,
                              env=os.environ | {"ASSAY_TARGET": self.daemon.grpc})
        self.assertIn(done.returncode, (0, 1), done.stderr)
        return done.returncode, json.loads(done.stdout)["tests"][0]

    def test_passes_on_the_emulator(self):
        for more in ([], ["--lda", "50", "--ldb", "24", "--ldc", "21", "--alpha", "0.5"]):
            code, case = self.judge(*more)
            self.assertEqual((code, case["verdict"]), (0, "PASSED"), case)
            self.assertEqual({p["verdict"] for p in case["probes"]}, {"PASSED"}, case)

    def test_planted_mistakes_fail(self):
        path = os.path.join(self.project, "my_gemm.cu")
        with open(path, encoding="utf-8") as file:
            right = file.read()
        for old, new, reason in [
                ("    __syncthreads();  // both tiles are used\n", "", "nondeterministic"),
                ("if (row < m && col < n) d", "if (col < n) d", "guard"),
                ("t < k; t += kTile", "t + kTile <= k; t += kTile", "bound")]:
            with self.subTest(old):
                self.assertEqual(right.count(old), 1, old)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(right.replace(old, new))
                try:
                    code, case = self.judge()
                finally:
                    with open(path, "w", encoding="utf-8") as file:
                        file.write(right)
                self.assertEqual((code, case["verdict"]), (1, "FAILED"), case)
                self.assertEqual(case["findings"][0]["reason"], reason, case)
                self.assertEqual(case["findings"][0]["blame"], "kernel", case)


class HipTemplate(unittest.TestCase):
    """HIP source, compiled as the guide says. Without a card it runs on the emulator alone."""

    CASE = ["--dtype", "fp32", "--m", "33", "--n", "20", "--k", "47"]

    @classmethod
    def setUpClass(cls):
        cls.project = os.path.join(tempfile.mkdtemp(prefix="assay-hip-sdk-"), "project")
        shutil.copytree(os.path.join(TEMPLATES, "hip"), cls.project)
        cls.daemon = harness.Daemon(flags=["--user-kernels", "source,code-object", "--devices", "cpu:0,simt:0"])

    @classmethod
    def tearDownClass(cls):
        cls.daemon.stop()
        shutil.rmtree(os.path.dirname(cls.project))

    def assay(self, *words):
        return subprocess.run([os.path.abspath(harness.ASSAY), *words], cwd=self.project, capture_output=True,
                              text=True, timeout=300, check=False, env=os.environ | {"ASSAY_TARGET": self.daemon.grpc})

    def expect_refused(self, file, what):
        for device in ("hip:0", "cpu:0", "simt:0"):
            done = self.assay("run", "gemm", "--kernel", "./" + file, "--device", device, *self.CASE)
            self.assertEqual((done.returncode, done.stdout), (3, ""), done.stderr)
            self.assertIn(f"this daemon has no HIP device, and {what} on nothing else", done.stderr)

    def test_source_needs_a_card(self):
        self.expect_refused("my_gemm.hip", "HIP source runs")

    def test_a_code_object_is_in_order_and_needs_a_card(self):
        hipcc = lint_test.tool("hipcc")
        lint_test.tool("llvm-objdump-19", "llvm-objdump")
        done = subprocess.run([hipcc, "--genco", "--offload-arch=gfx90a", "my_gemm.hip", "-o", "my_gemm.hsaco"],
                              cwd=self.project, capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        done = self.assay("lint", "my_gemm.hsaco", "--format", "json")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual(report["target"], "gfx90a")
        self.assertEqual([kernel["findings"] for kernel in report["kernels"]], [[]], report)
        self.expect_refused("my_gemm.hsaco", "code objects of AMD's run")

    def test_the_same_text_runs_on_the_emulator(self):
        shutil.copy(os.path.join(self.project, "my_gemm.hip"), os.path.join(self.project, "my_gemm.cu"))
        for more in ([], ["--lda", "50", "--ldb", "24", "--ldc", "21", "--alpha", "0.5", "--held-out", "1"]):
            done = self.assay("run", "gemm", "--kernel", "./my_gemm.cu", "--device", "simt:0", *self.CASE, *more,
                              "--format", "json")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            tests = json.loads(done.stdout)["tests"]
            self.assertEqual({case["verdict"] for case in tests}, {"PASSED"}, tests)
            self.assertEqual(len(tests), 2 if "--held-out" in more else 1, tests)


if __name__ == "__main__":
    harness.main()
