"""A user's own kernel, from the file to the verdict: every way in, and every way in that is closed."""

import glob
import hashlib
import os
import re
import shlex
import signal
import stat
import subprocess
import tempfile
import threading
import time
import unittest

import containment_test
import emulator_kernels as cuda
import harness

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GUIDE = os.path.join(ROOT, "kernels", "sdk", "README.md")
INCLUDE = os.path.join(harness.INSTALL, "include")
CASE = ["--dtype", "fp32", "--m", "64", "--n", "64", "--k", "64", "--device", "cpu:0"]


def guide():
    with open(GUIDE, encoding="utf-8") as file:
        return file.read()


def guide_source(below="# A kernel of your own"):
    """The kernel of a section of the guide: its first code block that includes the header."""
    lines, block = guide().splitlines(), []
    at = lines.index("    #include <assay/kernel.h>", lines.index(below))
    for line in lines[at:]:
        if line and not line.startswith("    "):
            break
        block.append(line[4:])
    return "\n".join(block) + "\n"


def kernel_id(data):
    return "user/" + hashlib.sha256(data if isinstance(data, bytes) else data.encode()).hexdigest()[:12]


def compile_library(source, path):
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", f"-I{INCLUDE}", "-x", "c", "-", "-o", path],
                   input=source.encode(), check=True)


def setUpModule():
    with harness.Daemon() as daemon:
        applied, why = containment_test.measures(daemon)["landlock"]
    if not applied:
        raise unittest.SkipTest(f"without landlock a daemon compiles nothing: {why}")


class UserKernelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="assay-user-kernel-")
        cls.approved = os.path.join(cls.folder, "approved")
        os.mkdir(cls.approved)
        cls.daemon = harness.Daemon(flags=["--user-kernels", "library,source", "--user-kernel-dirs", cls.approved,
                                           "--user-kernel-bytes", "1MiB"])
        cls.source = guide_source()

    @classmethod
    def tearDownClass(cls):
        cls.daemon.stop()
        subprocess.run(["rm", "-rf", cls.folder], check=True)

    def write(self, name, content):
        path = os.path.join(self.folder, name)
        with open(path, "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
        return path

    def run_kernel(self, path, *more, daemon=None, case=CASE, **options):
        return (daemon or self.daemon).run("run", "gemm", "--kernel", path, *case, *more, **options)

    def verdict(self, result):
        return result.json()["tests"][0]

    def test_source_passes_and_is_compiled_once(self):
        source = self.source + "/* compiled once */\n"
        path = self.write("my_gemm.c", source)
        first = self.run_kernel(path, "--format", "json")
        self.assertEqual(first.code, 0, first)
        self.assertRegex(first.err, r"compiling my_gemm\.c … \d+\.\d s")
        case = self.verdict(first)
        self.assertEqual(case["provider"], kernel_id(source))
        again = self.run_kernel(path)
        self.assertEqual(again.code, 0, again)
        self.assertIn("compiling my_gemm.c … done before", again.err)
        self.assertIn(kernel_id(source), again.out)

    def test_library_passes_and_its_repro_line_works(self):
        path = os.path.join(self.folder, "lib.so")
        compile_library(self.source, path)
        with open(path, "rb") as file:
            name = kernel_id(file.read())
        result = self.run_kernel(path, "--format", "json")
        self.assertEqual(result.code, 0, result)
        repro = shlex.split(self.verdict(result)["repro"])
        self.assertEqual(repro[:2], ["assay", "run"])
        self.assertEqual(repro[repro.index("--kernel") + 1], name)
        self.assertNotIn("--provider", repro)
        again = self.daemon.run(*repro[1:])
        self.assertEqual(again.code, 0, again)
        self.assertIn(name, again.out)

    def test_wrong_kernel_fails_by_its_bound(self):
        wrong = self.source.replace("q < s->k;", "q < s->k - 8;")
        self.assertNotEqual(wrong, self.source)
        result = self.run_kernel(self.write("tail.c", wrong), "--format", "json")
        self.assertEqual(result.code, 1, result)
        case = self.verdict(result)
        self.assertEqual(case["verdict"], "FAILED")
        self.assertIn(case["findings"][0]["reason"], ("bound", "exact"))

    def test_what_is_wrong_on_secret_data_alone_can_be_repeated(self):
        right = self.run_kernel(self.write("right.c", self.source), "--slice", "a[0,0:1]", "--format", "json")
        first = self.verdict(right)["slices"][0]["bits"][0]
        known = f"if (*(const uint32_t*)l->inputs[0] != {first}u) return ASSAY_OK;"
        wrong = self.source.replace("const sizes* s = state;", f"const sizes* s = state; {known}")
        path = self.write("knows_one_draw.c", wrong)
        result = self.run_kernel(path, "--probes=false", "--format", "json")
        case = self.verdict(result)
        self.assertEqual(case["verdict"], "FAILED", result)
        self.assertNotEqual(case["seed"], 1, "the case's own draw is right")
        self.assertIn(f"could not foresee (--seed {case['seed']})", case["findings"][0]["message"])
        repro = shlex.split(case["repro"])
        self.assertEqual(repro[repro.index("--seed") + 1], str(case["seed"]))
        again = self.verdict(self.daemon.run(*repro[1:], "--format", "json"))
        self.assertEqual((again["verdict"], again["seed"]), ("FAILED", case["seed"]))
        self.assertNotIn("foresee", again["findings"][0]["message"], "now it is the case's own draw")

    def test_no_launch_is_left_unjudged(self):
        for every in range(2, 6):
            skip = f"static int calls; if (++calls % {every} == 0) return ASSAY_OK;"
            path = self.write(f"every{every}.c", self.source.replace("const sizes* s = state;", f"const sizes* s = state; {skip}"))
            # A launch that took long, as on a busy machine, is not launched again for its time.
            for _ in range(20):
                result = self.run_kernel(path, "--format", "json")
                verdict = self.verdict(result)
                if verdict["verdict"] == "FAILED" or verdict.get("bench", {}).get("samples", 0) > 1:
                    break
            self.assertEqual(verdict["verdict"], "FAILED", (every, result))

    def test_crash_is_an_error_and_quarantines_nothing(self):
        crash = self.source.replace("const sizes* s = state;", "const sizes* s = state; *(volatile int*)0 = 1;")
        path = self.write("crash.c", crash)
        # More than the deaths in a row that set a device aside.
        for _ in range(7):
            result = self.run_kernel(path, "--format", "json")
            self.assertEqual(self.verdict(result)["verdict"], "ERROR", result)
            self.assertEqual(self.verdict(result)["findings"][0]["blame"], "kernel")
        good = self.daemon.run("run", "copy", "--count", "64", "--dtype", "fp32", "--provider", "builtin")
        self.assertEqual(good.code, 0, good)
        self.assertEqual(self.daemon.metric("assay_device_quarantined"), 0)

    def test_metrics_count_all_users_kernels_in_one_series(self):
        self.run_kernel(self.write("counted.c", self.source + "/* counted */\n"))
        self.assertGreaterEqual(self.daemon.metric("assay_cases_total", provider="user", verdict="PASSED"), 1)
        self.assertNotIn('provider="user/', self.daemon.scrape())

    def test_source_with_a_mistake_gets_the_compilers_lines(self):
        broken = self.source.replace("float* d = l->output;", "float* d = l->outputs;")
        line = broken.splitlines().index("  float* d = l->outputs;") + 1
        result = self.run_kernel(self.write("broken.c", broken))
        self.assertEqual(result.code, 2, result)
        self.assertRegex(result.err, rf"(?m)^broken\.c:{line}:\d+: error: .*outputs")
        self.assertIn("assay: broken.c does not compile", result.err)

    def test_a_source_reads_no_file_of_the_node(self):
        secret = self.write("secret.h", "#error reached\n")
        key = os.path.join(self.daemon.state, "assay.lock")
        for text in (f'#include "{secret}"\n', '#include "/etc/shadow"\n', '#include "/etc/passwd"\n',
                     f'#include "{key}"\n', '#include "/proc/self/environ"\n',
                     '#include "/dev/zero"\n', '#include "/dev/urandom"\n',
                     f'__asm__(".incbin \\"{key}\\"");\n', '__asm__(".incbin \\"/etc/shadow\\"");\n'):
            result = self.run_kernel(self.write("reads.c", text + self.source))
            self.assertEqual(result.code, 2, (text, result))
            self.assertRegex(result.err, r"Permission denied|[Nn]o such file|can't open|file not found", text)
            self.assertNotIn("reached", result.err)
            self.assertNotIn("root:", result.err)

    def test_files_of_other_kinds_have_a_clear_answer(self):
        launch = self.write("launch.toml", 'grid = 1\nblock = 1\nargs = ["a", "b", "d"]\n')
        result = self.run_kernel(self.write("k.hip", "x"))
        self.assertEqual(result.code, 2, result)
        self.assertIn("kernel-launch: is required", result.err)
        result = self.run_kernel(self.write("k.hip", "x"), "--kernel-launch", launch)
        self.assertEqual(result.code, 3, result)
        self.assertIn("no HIP device", result.err)
        for name in ("k.ptx", "k.cubin", "k.hsaco", "k.co"):
            result = self.run_kernel(self.write(name, "x"))
            self.assertEqual(result.code, 2, result)
            self.assertIn("kernel-launch: is required", result.err)
            result = self.run_kernel(self.write(name, "x"), "--kernel-launch", launch)
            self.assertEqual(result.code, 3, result)
            self.assertIn("takes no PTX, cubins or code objects", result.err)
            self.assertIn("code-object", result.err)
        self.assertEqual(self.run_kernel(self.write("k.txt", "x")).code, 2)
        self.assertEqual(self.run_kernel(os.path.join(self.folder, "absent.c")).code, 2)
        self.assertEqual(self.run_kernel(self.write("empty.c", "")).code, 2)
        result = self.run_kernel(self.write("no_library.so", "this is no library"))
        self.assertEqual(result.code, 2, result)
        self.assertIn("no_library.so", result.err)

    def test_names_with_control_characters_and_dashes_are_refused(self):
        for name in ("a\x1b[31m.c", "-o.c", ".hidden.c"):
            result = self.run_kernel(self.write(name, self.source + f"/* {len(name)} */"))
            self.assertEqual(result.code, 2, (name, result))
            self.assertIn("file_name", result.err)
            self.assertNotIn("\x1b[31m", result.err)

    def test_too_large_a_file_is_refused(self):
        result = self.run_kernel(self.write("large.c", self.source + "/*" + "x" * (1 << 20) + "*/"))
        self.assertEqual(result.code, 2, result)
        self.assertIn("must be at most 1048576", result.err)

    def test_unknown_kernel(self):
        result = self.run_kernel("user/000000000000")
        self.assertEqual(result.code, 2, result)
        self.assertIn("provider: this daemon does not have the kernel user/000000000000; send its file again", result.err)
        self.assertEqual(self.run_kernel("user/../../etc").code, 2)

    def test_library_on_the_node(self):
        inside = os.path.join(self.approved, "lib.so")
        outside = os.path.join(self.folder, "outside.so")
        compile_library(self.source + "/* node */", inside)
        compile_library(self.source + "/* outside */", outside)
        self.assertEqual(self.run_kernel("node:" + inside).code, 0)
        link = os.path.join(self.approved, "link.so")
        os.symlink(outside, link)
        os.symlink(self.folder, os.path.join(self.approved, "up"))
        os.mkfifo(os.path.join(self.approved, "pipe.so"))
        for path in (outside, link, os.path.join(self.approved, "..", "outside.so"),
                     os.path.join(self.approved, "up", "outside.so"), self.approved + "-other/lib.so"):
            result = self.run_kernel("node:" + path)
            self.assertEqual(result.code, 3, (path, result))
            self.assertIn("--user-kernel-dirs", result.err)
        self.assertEqual(self.run_kernel("node:" + os.path.join(self.approved, "absent.so")).code, 2)
        self.assertEqual(self.run_kernel("node:" + os.path.join(self.approved, "pipe.so")).code, 2)

    def test_bench_stands_beside_every_provider(self):
        path = self.write("beside.c", self.source)
        result = self.daemon.run("bench", "gemm", "--kernel", path, "--provider", "all", *CASE)
        self.assertIn(result.code, (0, 4), result)
        header = next(line for line in result.out.splitlines() if kernel_id(self.source) in line)
        self.assertIn("builtin", header)
        self.assertIn("openblas", header)
        self.assertNotIn("held out", result.out)
        result = self.daemon.run("bench", "gemm", "--kernel", path, "--provider", "builtin", *CASE, "--held-out", "1")
        self.assertIn(result.code, (0, 4), result)
        rows = [line for line in result.out.splitlines() if line.lstrip().startswith("held out: gemm m=")]
        self.assertEqual(len(rows), 1, "both kernels' times stand in one row\n" + result.out)

    def test_a_kernel_that_is_right_in_the_tested_shapes_alone_fails(self):
        named = ["--dtype", "fp32", "--m", "128", "--n", "128", "--k", "128", "--device", "cpu:0"]
        for library, verdicts in (("tested_shapes", ["PASSED", "FAILED"]), ("tested_shapes_twin", ["PASSED", "PASSED"])):
            path = os.path.join(harness.INSTALL, "libexec", "assay", "cheats", library + ".so")
            alone = self.run_kernel(path, "--format", "json", case=named)
            self.assertEqual((alone.code, len(alone.json()["tests"])), (0, 1), alone)
            result = self.run_kernel(path, "--held-out", "1", "--format", "json", case=named)
            tests = result.json()["tests"]
            self.assertEqual([case["verdict"] for case in tests], verdicts, (library, result))
            self.assertEqual(result.code, 1 if "FAILED" in verdicts else 0, result)
            self.assertNotIn("held out", tests[0]["name"])
            self.assertRegex(tests[1]["name"], r"^held out: gemm m=\d+ n=\d+ k=\d+ fp32 user/[0-9a-f]{12}$")
            self.assertTrue(all(96 <= tests[1]["shape"][name] <= 160 for name in "mnk"), tests[1]["shape"])
            again = self.daemon.run(*shlex.split(tests[1]["repro"])[1:], "--format", "json").json()["tests"]
            self.assertEqual([(case["verdict"], case["shape"]) for case in again],
                             [(verdicts[1], tests[1]["shape"])], "that case, and no other")

    def test_a_kernel_may_decline_the_shape_that_is_held_out(self):
        only = "if (d->shape[1] != 64) return ASSAY_UNSUPPORTED;\n  now = "
        path = self.write("only64.c", self.source.replace("now = ", only, 1))
        result = self.run_kernel(path, "--held-out", "1")
        self.assertEqual(result.code, 0, result)
        self.assertRegex(result.out, r"(?m)^ *unsupported +held out: gemm m=")
        self.assertIn("1 passed, 0 failed", result.out)

    def test_shapes_that_are_held_out_are_drawn_until_the_daemon_takes_them(self):
        result = self.daemon.run("run", "gemm", *CASE, "--lda", "64", "--provider", "builtin", "--held-out", "4",
                                 "--format", "json")
        self.assertEqual(result.code, 0, result)
        drawn = [case["shape"]["k"] for case in result.json()["tests"][1:]]
        self.assertEqual(len(drawn), 4)
        self.assertTrue(all(k <= 64 for k in drawn), "a row of A has 64 elements")
        with harness.Daemon(flags=["--arena-bytes", "64MiB"]) as daemon:
            large = ["run", "copy", "--dtype", "fp32", "--provider", "builtin", "--format", "json", "--count"]
            self.assertEqual(daemon.run(*large, "4300000").code, 3, "it has no room")
            result = daemon.run(*large, "4150000", "--held-out", "4")
            self.assertEqual(result.code, 0, result)
            counts = [case["shape"]["count"] for case in result.json()["tests"]]
            self.assertEqual((len(counts), max(counts)), (5, 4150000), counts)

    def test_the_call_has_a_line_in_the_log(self):
        path = self.write("audited.c", self.source + "/* audited */\n")
        self.assertEqual(self.run_kernel(path).code, 0)
        name = kernel_id(self.source + "/* audited */\n")
        # The call's line may come a little after its answer.
        harness.wait_until(lambda: [line for line in self.daemon.log_text().splitlines()
                                    if "event=audit" in line and "UploadKernel" in line and name in line and "OK" in line],
                           harness.LONG, "the upload's line in the log")

    def test_the_folder_is_the_daemons_alone(self):
        self.run_kernel(self.write("kept.c", self.source))
        kernels = os.path.join(self.daemon.state, "kernels")
        self.assertEqual(stat.S_IMODE(os.stat(kernels).st_mode), 0o700)
        kept = os.path.join(kernels, kernel_id(self.source)[5:])
        self.assertEqual(sorted(os.listdir(kept)), ["about.json", "kernel.so", "source", "toolchain"])
        self.assertEqual(glob.glob(os.path.join(kernels, "new-*")), [])

    def test_a_kernel_reads_nothing_of_the_state_folder(self):
        first = self.source + "/* neighbour */\n"
        self.assertEqual(self.run_kernel(self.write("neighbour.c", first)).code, 0)
        neighbour = os.path.join(self.daemon.state, "kernels", kernel_id(first)[5:])
        for path in (os.path.join(self.daemon.state, "assay.db"), os.path.join(neighbour, "source"),
                     os.path.join(neighbour, "kernel.so")):
            self.assertTrue(os.path.exists(path))
            reads = self.source.replace("const sizes* s = state;",
                                        f'const sizes* s = state; if (fopen("{path}", "r")) return ASSAY_FAILED;')
            result = self.run_kernel(self.write("reader.c", reads), "--format", "json")
            self.assertEqual(self.verdict(result)["verdict"], "PASSED", (path, result))

    def test_the_commands_of_the_guide_work(self):
        folder = tempfile.mkdtemp(dir=self.folder)
        with open(os.path.join(folder, "my_gemm.c"), "w", encoding="utf-8") as file:
            file.write(self.source)
        commands = [command for command in re.findall(r"^    (assay (?:run|bench) gemm .*)$", guide(), re.M)
                    if not re.search(r"\.(cu|hsaco) ", command)]  # other tests run those
        self.assertEqual(len(commands), 3)
        for command in commands:
            done = subprocess.run([harness.ASSAY if os.path.isabs(harness.ASSAY) else os.path.abspath(harness.ASSAY),
                                   *shlex.split(command)[1:]], cwd=folder, capture_output=True, text=True,
                                  env={**os.environ, "ASSAY_TARGET": self.daemon.grpc}, check=False)
            self.assertIn(done.returncode, (0, 4) if "bench" in command else (0,), (command, done))
        self.assertTrue(os.path.exists(os.path.join(folder, "night.xml")))

    def test_the_debug_buffer_comes_back_by_its_bits(self):
        line = re.search(r"(?m)^    (if \(l->debug\).*)$", guide()).group(1)
        launch_end = "  return ASSAY_OK;\n}\n\nconst assay_kernel"
        self.assertIn(launch_end, self.source)
        nan = '{ static const uint32_t nan = 0x7fa00001; if (l->debug) memcpy((char*)l->debug + 4, &nan, 4); }'
        source = "#include <string.h>\n" + self.source.replace(launch_end, "  " + line + nan + launch_end)
        path = self.write("debug.c", source)
        run = self.run_kernel(path, "--format", "json")
        self.assertEqual(run.code, 0, run)
        command = re.search(r"(?m)^    assay (show jobs/… 0 --debug-buffer .*)$", guide()).group(1)
        shown = self.daemon.run(*command.replace("jobs/…", run.json()["job"]).split())
        self.assertEqual(shown.code, 0, shown)
        lines = shown.out.splitlines()
        self.assertEqual(lines[1].split(), ["byte", "bits", "u32", "f32", "bf16"])
        self.assertRegex(lines[3], r"^ *4  0x7fa00001  2141192193 +NaN ")
        self.assertEqual(len(lines), 6, shown)
        first = self.daemon.run("show", run.json()["job"], "0", "--slice", "actual[0,0]", "--bits").out
        self.assertIn(lines[2].split()[1], first)
        for bad, text in [(["--as", "fp8"], 'no type of words "fp8"'), (["--debug-buffer", "0:5000"], "more than 4096"),
                          (["--debug-buffer", "x"], '"x" is no range')]:
            refused = self.daemon.run("show", run.json()["job"], "0", *(["--debug-buffer"] if bad[0] == "--as" else []),
                                      *bad)
            self.assertEqual(refused.code, 2, refused)
            self.assertIn(text, refused.err)
        ours = self.daemon.run("run", "softmax", "--cols", "8", "--dtype", "fp32", "--slice", "debug[0:4]")
        self.assertEqual(ours.code, 2, ours)
        self.assertIn("debug is a buffer that kernels of users have: --kernel FILE", ours.err)

    def test_on_change_runs_again(self):
        path = self.write("edited.c", self.source.replace("q < s->k;", "q < s->k - 8;"))
        client = subprocess.Popen([harness.ASSAY, "run", "gemm", "--kernel", path, *CASE, "--on-change"],
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                  env={**os.environ, "ASSAY_TARGET": self.daemon.grpc})
        watchdog = threading.Timer(harness.LONG, client.kill)
        watchdog.start()
        try:
            for line in client.stdout:
                if "0 passed, 1 failed" in line:
                    self.write("edited.c", self.source)
                if "1 passed, 0 failed" in line:
                    break
            else:
                self.fail("the corrected file did not pass")
        finally:
            watchdog.cancel()
            client.send_signal(signal.SIGINT)
            try:
                client.wait(harness.LONG)
            finally:
                client.kill()
                client.stdout.close()

    def test_on_change_ends_if_ctrl_c_comes_during_a_run(self):
        slow = self.source.replace("static int launch(", "#include <unistd.h>\nstatic int launch(").replace(
            "const sizes* s = state;", "const sizes* s = state; sleep(2);")
        self.assertIn("sleep(2)", slow)
        path = self.write("slow.c", slow)
        client = subprocess.Popen([harness.ASSAY, "run", "gemm", "--kernel", path, *CASE, "--on-change"],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                  env={**os.environ, "ASSAY_TARGET": self.daemon.grpc})
        watchdog = threading.Timer(harness.LONG, client.kill)
        watchdog.start()
        try:
            said = ""
            for line in client.stderr:
                said += line
                if "· jobs/" in line:
                    client.send_signal(signal.SIGINT)
            # Before the client listens for it, Ctrl-C ends the process.
            self.assertIn(client.wait(harness.LONG), (4, -signal.SIGINT), said)
            self.assertNotIn("waiting for", said)
        finally:
            watchdog.cancel()
            client.kill()
            client.stderr.close()

    def test_first_verdict_of_a_library(self):
        """Tells how long the first verdict takes; asserts no time."""
        path = os.path.join(self.folder, "first.so")
        compile_library(self.source + "int first_verdict;\n", path)
        begin = time.monotonic()
        result = self.run_kernel(path)
        took = time.monotonic() - begin
        self.assertEqual(result.code, 0, result)
        print(f"first verdict of an uploaded library: {took:.2f} s", flush=True)


class OwnOperatorTest(unittest.TestCase):
    """The example of the guide, an operator of one's own with a reference of one's own."""

    SECTION = "## An operator of one's own"

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="assay-own-operator-")
        cls.daemon = harness.Daemon(flags=["--user-kernels", "library,source"])
        cls.kernel = guide_source(cls.SECTION)
        text = guide()[guide().index(cls.SECTION):]
        cls.command = shlex.split(re.search(r"(?m)^    assay run custom (.*) \\\n +(.*)$", text).expand(r"\1 \2"))
        magnitude = re.search(r"(?m)^    (if \(l->magnitude\).*)$", text).group(1)
        reference = cls.kernel
        # As the guide says.
        for old, new in [("float", "double"), ("sqrtf", "sqrt"), ("ASSAY_F32", "ASSAY_F64")]:
            reference = reference.replace(old, new)
        cls.plain = reference
        inner = "y[c] = x[c] * scale * w[c];"
        assert inner in reference
        cls.reference = reference.replace(inner, "{ " + inner + " " + magnitude + " }")

    @classmethod
    def tearDownClass(cls):
        cls.daemon.stop()
        subprocess.run(["rm", "-rf", cls.folder], check=True)

    def judge(self, kernel=None, reference=None, without=(), more=()):
        for name, source in [("my_norm.c", kernel or self.kernel), ("my_norm_reference.c", reference or self.reference)]:
            with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
                file.write(source)
        command = []
        words = iter(self.command)
        for word in words:
            value = next(words)
            if word not in without:
                command += [word, os.path.join(self.folder, value) if value.endswith(".c") else value]
        return self.daemon.run("run", "custom", *command, *more, "--format", "json")

    def expect(self, result, code, verdict, reason=None, blame=None):
        self.assertEqual(result.code, code, result)
        case = result.json()["tests"][0]
        self.assertEqual(case["verdict"], verdict, case)
        if reason:
            self.assertEqual((case["findings"][0]["reason"], case["findings"][0]["blame"]), (reason, blame), case)
        return case

    def test_the_example_passes_and_its_repro_line_repeats_it(self):
        case = self.expect(self.judge(), 0, "PASSED")
        self.assertEqual(case["op"], "custom")
        self.assertEqual(case["shape"], {"input": ["x=64x1000", "w=1000"], "out": ["y=64x1000"], "scalar": ["eps=1e-5"]})
        self.assertEqual(case["count"], 64000)
        self.assertNotIn("precision", case)
        repro = shlex.split(case["repro"])
        self.assertEqual(repro[repro.index("--kernel") + 1], kernel_id(self.kernel))
        self.assertEqual(repro[repro.index("--reference") + 1], kernel_id(self.reference))
        again = self.daemon.run(*repro[1:], "--format", "json")
        self.assertEqual(self.expect(again, 0, "PASSED")["digest"], case["digest"])

    def test_wrong_kernels_fail(self):
        for old, new, reason in [("* scale *", "* 1.001f * scale *", "bound"),
                                 ("c < cols; ++c) sum", "c < cols - 8; ++c) sum", "bound"),
                                 ("c < cols; ++c) y", "c < cols - (r == 63); ++c) y", "unwritten"),
                                 ("y[c] = x", "y[c] = r == 3 && c == 5 ? NAN : x", "class"),
                                 ("y[c] = x[c] * scale * w[c]", "y[c] = (float)(_Float16)(x[c] * scale * w[c])",
                                  "bound")]:
            self.assertIn(old, self.kernel)
            self.expect(self.judge(kernel=self.kernel.replace(old, new)), 1, "FAILED", reason, "kernel")

    def test_a_wrong_reference_is_the_callers_error(self):
        for old, new, reason in [("c < cols; ++c) {", "c < cols - (r == 63); ++c) {", "unwritten"),
                                 ("y[c] = x", "y[c] = r == 3 && c == 5 ? NAN : x", "class"),
                                 ("(void)state;\n  for", "*(volatile int*)0 = 1;\n  for", "crash"),
                                 ("y[c] = x", "static int n; y[c] = 1e-3 * n++ + x", "nondeterministic")]:
            self.assertIn(old, self.reference)
            self.expect(self.judge(reference=self.reference.replace(old, new)), 1, "ERROR", reason, "caller")
        self.assertEqual(self.daemon.metric("assay_device_quarantined"), 0)

    def test_a_reference_without_magnitudes(self):
        case = self.expect(self.judge(reference=self.plain), 0, "PASSED")
        notes = {probe["name"]: probe for probe in case["probes"]}
        self.assertEqual(notes["magnitudes"]["verdict"], "SKIPPED")
        self.assertIn("gives no magnitudes", notes["magnitudes"]["message"])

    def test_bad_requests(self):
        for without, more, words in [
                (["--reference"], [], "reference: is required"),
                (["--kernel"], [], "provider: must be a kernel of yours"),
                (["--accumulations"], [], "accumulations: is required"),
                (["--accumulations"], ["--accumulations", "0"], "accumulations: must be at least 1, got 0"),
                (["--input"], [], "input: is required"),
                (["--input"], ["--input", "x=1000000000000x1000000000000"], "larger than"),
                ([], ["--out", "z=4"], "at most 1 output, got 2"),
                (["--scalar"], ["--scalar", "eps=tiny"], "finite number"),
                ([], ["--reference", "user/000000000000"], "this daemon does not have the kernel")]:
            if more[:1] == ["--reference"]:
                without = ["--reference"]
            result = self.judge(without=without, more=more)
            self.assertEqual(result.code, 2, (more, result))
            self.assertIn(words, result.err, more)
        # A scalar that the kernel does not know is the kernel's to refuse.
        refused = self.judge(kernel=self.kernel.replace("eps = p->parameters[0]->real;",
                                                        'if (p->parameters[0]->name[0] != \'e\') return ASSAY_UNSUPPORTED;'),
                             without=["--scalar"], more=["--scalar", "other=1"])
        self.assertEqual(refused.json()["tests"][0]["verdict"], "UNSUPPORTED", refused)
        too_large = self.judge(without=["--input"], more=["--input", "x=64x1000,w=1000000000000"])
        self.assertEqual(too_large.code, 3, too_large)
        gemm = self.daemon.run("run", "gemm", "--m", "8", "--n", "8", "--k", "8", "--dtype", "fp32",
                               "--reference", os.path.join(self.folder, "my_norm_reference.c"))
        self.assertEqual(gemm.code, 2, gemm)
        self.assertIn("gemm has a reference", gemm.err)


class ClosedTest(unittest.TestCase):
    """Daemons that do not take what is sent."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="assay-user-kernel-")
        self.addCleanup(subprocess.run, ["rm", "-rf", self.folder], check=True)
        self.path = os.path.join(self.folder, "my_gemm.c")
        with open(self.path, "w", encoding="utf-8") as file:
            file.write(guide_source())

    def test_refused_by_default(self):
        with harness.Daemon() as daemon:
            result = daemon.run("run", "gemm", "--kernel", self.path, *CASE)
            self.assertEqual(result.code, 3, result)
            self.assertIn("`assayd --user-kernels source`", result.err)
            named = daemon.run("run", "gemm", "--kernel", "user/0123456789ab", *CASE)
            self.assertEqual(named.code, 2, named)
            self.assertIn("assayd --user-kernels", named.err)
            self.assertFalse(os.path.exists(os.path.join(daemon.state, "kernels")))

    def test_a_form_that_is_not_taken(self):
        with harness.Daemon(flags=["--user-kernels", "library"]) as daemon:
            result = daemon.run("run", "gemm", "--kernel", self.path, *CASE)
            self.assertEqual(result.code, 3, result)
            self.assertIn("--user-kernels library,source", result.err)

    def test_a_viewer_may_not_send_a_kernel(self):
        token, roles = os.path.join(self.folder, "token"), os.path.join(self.folder, "roles.toml")
        with open(os.open(token, os.O_CREAT | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
            file.write("viewers-token-0123456789abcdef\n")
        digest = hashlib.sha256(b"viewers-token-0123456789abcdef").hexdigest()
        with open(os.open(roles, os.O_CREAT | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
            file.write(f'[[token]]\nname = "viewer"\nsha256 = "{digest}"\nrole = "viewer"\n')
        with harness.Daemon(flags=["--user-kernels", "source", "--roles-file", roles]) as daemon:
            result = daemon.run("run", "gemm", "--kernel", self.path, *CASE, "--token-file", token)
            self.assertEqual(result.code, 3, result)
            self.assertIn("does not allow this", result.err)
            self.assertEqual(os.listdir(os.path.join(daemon.state, "kernels")), [])

    def test_wrong_words_of_the_option(self):
        for flags in (["--user-kernels", "sauce"], ["--user-kernels", "code-objects"],
                      ["--user-kernels", "none,library"], ["--user-kernel-dirs", "/opt"],
                      ["--user-kernels", "library", "--user-kernel-dirs", "kernels"]):
            done = subprocess.run([harness.ASSAYD, "--state-dir", os.path.join(self.folder, "state"), *flags],
                                  capture_output=True, text=True, timeout=harness.LONG, check=False)
            self.assertEqual(done.returncode, 2, (flags, done))

    def test_a_daemon_that_is_killed_leaves_whole_kernels_or_none(self):
        state = os.path.join(self.folder, "state")
        daemon = harness.Daemon(state=state, flags=["--user-kernels", "source"])
        self.assertEqual(daemon.run("run", "gemm", "--kernel", self.path, *CASE).code, 0)
        # The compiler's time limit ends before these are computed, on any machine.
        slow = os.path.join(self.folder, "slow.cc")
        with open(slow, "w", encoding="utf-8") as file:
            file.write("constexpr unsigned long spin(unsigned long n, unsigned long s) {\n"
                       "  for (unsigned long i = 0; i < n; ++i)\n"
                       "    for (unsigned long j = 0; j < 100000; ++j) s += i ^ j;\n"
                       "  return s;\n}\n" +
                       "".join(f"static_assert(spin(10, {n}) != 1);\n" for n in range(1000)))
        client = subprocess.Popen([harness.ASSAY, "run", "gemm", "--kernel", slow, *CASE, "--reconnect", "0s"],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                  env={**os.environ, "ASSAY_TARGET": daemon.grpc})
        harness.wait_until(lambda: glob.glob(os.path.join(state, "kernels", "new-*")), harness.LONG, "a compile")
        daemon.kill()
        client.wait(harness.LONG)
        with harness.Daemon(state=state, flags=["--user-kernels", "source"]) as later:
            self.assertEqual(os.listdir(os.path.join(state, "kernels")), [kernel_id(guide_source())[5:]])
            result = later.run("run", "gemm", "--kernel", kernel_id(guide_source()), *CASE)
            self.assertEqual(result.code, 0, result)

    def test_the_oldest_that_no_job_names_goes_first(self):
        state, flags = os.path.join(self.folder, "state"), ["--user-kernels", "source", "--user-kernels-keep", "2"]
        kernels = os.path.join(state, "kernels")
        names, jobs = [], []
        with harness.Daemon(state=state, flags=flags) as daemon:
            for n in range(2):
                text = guide_source() + f"/* {n} */\n"
                with open(self.path, "w", encoding="utf-8") as file:
                    file.write(text)
                names.append(kernel_id(text))
                submitted = daemon.run("submit", "gemm", "--kernel", self.path, *CASE)
                self.assertEqual(submitted.code, 0, submitted)
                jobs.append(submitted.out.strip())
                self.assertEqual(daemon.run("watch", jobs[n]).code, 0)
        # A kernel stays for a while after its last use: as if these uses were long ago.
        for age, name in ((7200, names[0]), (3600, names[1])):
            used = time.time() - age
            os.utime(os.path.join(kernels, name[5:], "about.json"), (used, used))
        with open(self.path, "w", encoding="utf-8") as file:
            file.write(guide_source())
        with harness.Daemon(state=state, flags=flags) as daemon:
            full = daemon.run("run", "gemm", "--kernel", self.path, *CASE)
            self.assertEqual(full.code, 3, full)
            self.assertIn("no room for another kernel", full.err)
            self.assertEqual(daemon.metric("assay_limit_refusals_total", limit="user-kernels-keep"), 1)
            self.assertEqual(sorted(os.listdir(kernels)), sorted(name[5:] for name in names))
            self.assertEqual(daemon.run("admin", "delete", jobs[0]).code, 0)
            again = daemon.run("run", "gemm", "--kernel", self.path, *CASE)
            self.assertEqual(again.code, 0, again)
            self.assertEqual(sorted(os.listdir(kernels)), sorted([names[1][5:], kernel_id(guide_source())[5:]]))


class EmulatorTest(unittest.TestCase):
    """CUDA source on simt:0: judged for races, masks and indices, on a machine without a GPU."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="assay-emulator-")
        cls.daemon = harness.Daemon(flags=["--user-kernels", "library,source", "--devices", "cpu:0,simt:0"])

    @classmethod
    def tearDownClass(cls):
        cls.daemon.stop()
        subprocess.run(["rm", "-rf", cls.folder], check=True)

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def run_cuda(self, source, launch, *case, device="simt:0"):
        return self.daemon.run("run", case[0], "--kernel", self.write("mine.cu", source), "--kernel-launch",
                               self.write("launch.toml", launch), "--device", device, *case[1:], "--format", "json")

    def run_gemm(self, source=cuda.GEMM, launch=cuda.GEMM_LAUNCH, *more, device="simt:0"):
        return self.run_cuda(source, launch, "gemm", "--dtype", "fp32", "--m", "44", "--n", "40", "--k", "50", *more,
                             device=device)

    def passes(self, result):
        self.assertEqual(result.code, 0, result)
        for case in result.json()["tests"]:
            self.assertEqual(case["verdict"], "PASSED", result)

    def test_right_kernels_pass(self):
        self.passes(self.run_gemm())
        self.passes(self.run_gemm(cuda.GEMM, cuda.GEMM_LAUNCH, "--alpha", "0.5", "--repeats", "3"))
        self.passes(self.run_cuda(cuda.ADD, cuda.ADD_LAUNCH, "elementwise", "--rows", "37", "--cols", "29", "--kind",
                                  "add", "--dtype", "fp32", "--kernel-entry", "add"))
        for dtype, c in (("fp32", "float"), ("fp16", "half")):
            self.passes(self.run_cuda(cuda.SOFTMAX, cuda.SOFTMAX_LAUNCH, "softmax", "--rows", "9", "--cols", "300",
                                      "--dtype", dtype, "--kernel-entry", f"softmax<{c}>"))
        self.passes(self.run_cuda(cuda.LAST_BLOCK, cuda.LAST_BLOCK_LAUNCH, "reduce", "--extents", "5000", "--axis", "0",
                                  "--kind", "sum", "--dtype", "fp32"))

    def test_the_guide_is_right(self):
        lines = guide().splitlines()
        blocks = {}
        for name, first in (("my_gemm.cu", "    __global__ void my_gemm("), ("my_gemm.toml", "    grid = [")):
            at = next(i for i, line in enumerate(lines) if line.startswith(first))
            blocks[name] = [line[4:] for line in lines[at:lines.index("", at)]]
            self.write(name, "\n".join(blocks[name]) + "\n")
        command = shlex.split(next(line for line in lines if line.startswith("    assay run gemm --kernel my_gemm.cu")))
        run = [os.path.abspath(harness.ASSAY), *command[1:], "--format", "json"]
        def result():
            return harness.Result(subprocess.run(run, cwd=self.folder, capture_output=True, text=True, check=False,
                                                 env={**os.environ, "ASSAY_TARGET": self.daemon.grpc}))
        self.passes(result())
        source = blocks["my_gemm.cu"]
        second = [i for i, line in enumerate(source) if "__syncthreads();" in line][1]
        self.write("my_gemm.cu", "\n".join(source[:second] + source[second + 1:]) + "\n")
        wrong = result()
        self.fails(wrong, "nondeterministic", "race: ")
        self.assertIn(wrong.json()["tests"][0]["findings"][0]["message"], " ".join(line.strip() for line in lines))

    def test_an_edit_has_its_verdict_at_once(self):
        begin = time.monotonic()
        self.passes(self.run_gemm(cuda.GEMM + "// edited\n"))
        print(f"    from edit to verdict: {time.monotonic() - begin:.1f} s", flush=True)

    def fails(self, result, reason, words):
        self.assertEqual(result.code, 1, result)
        case = result.json()["tests"][0]
        self.assertEqual(case["verdict"], "FAILED", result)
        self.assertEqual(case["findings"][0]["reason"], reason, result)
        self.assertEqual(case["findings"][0]["blame"], "kernel", result)
        self.assertIn(words, case["findings"][0]["message"])

    def test_each_planted_defect_fails_and_is_named(self):
        for what, old, new, reason, words in cuda.GEMM_DEFECTS:
            with self.subTest(what):
                self.assertEqual(cuda.GEMM.count(old), 1, old)
                self.fails(self.run_gemm(cuda.GEMM.replace(old, new)), reason, words)
        softmax = cuda.SOFTMAX.replace("  __syncthreads();  // read\n", "")
        self.fails(self.run_cuda(softmax, cuda.SOFTMAX_LAUNCH, "softmax", "--rows", "9", "--cols", "300", "--dtype",
                                 "fp32", "--kernel-entry", "softmax<float>"), "nondeterministic", "race: thread")
        self.fails(self.run_cuda(cuda.SOFTMAX, cuda.SOFTMAX_LAUNCH.replace("4 * 128 / 32", "8"), "softmax", "--rows", "9",
                                 "--cols", "300", "--dtype", "fp32", "--kernel-entry", "softmax<float>"),
                   "guard", "dynamic shared memory, which has 8 bytes")
        unfenced = cuda.LAST_BLOCK.replace("    __threadfence();\n", "")
        self.fails(self.run_cuda(unfenced, cuda.LAST_BLOCK_LAUNCH, "reduce", "--extents", "5000", "--axis", "0", "--kind",
                                 "sum", "--dtype", "fp32"), "nondeterministic", "nothing orders the blocks")

    def test_additions_right_and_wrong(self):
        for what, dtype, source, old, new, reason in cuda.ADDITIONS:
            with self.subTest(what):
                self.assertEqual(source.count(old), 1, old)
                case = ("elementwise", "--rows", "36", "--cols", "67", "--kind", "add", "--dtype", dtype)
                self.passes(self.run_cuda(cuda.HEAD + source, cuda.ADDITION_LAUNCH, *case))
                self.fails(self.run_cuda(cuda.HEAD + source.replace(old, new), cuda.ADDITION_LAUNCH, *case), reason, "")

    def test_the_debug_buffer_is_an_argument(self):
        source = cuda.ADD.replace("float* y, ", "float* y, unsigned* debug, ").replace(
            "{", "{\n  if (debug != nullptr && threadIdx.x == 7 && blockIdx.x == 0) debug[1] = 0x7fa00001;", 1)
        self.assertIn("debug[1]", source)
        case = ("elementwise", "--rows", "36", "--cols", "67", "--kind", "add", "--dtype", "fp32",
                "--kernel-entry", "add")
        run = self.run_cuda(source, cuda.ADD_LAUNCH.replace('"y", ', '"y", "debug", '), *case)
        self.passes(run)
        shown = self.daemon.run("show", run.json()["job"], "0", "--debug-buffer", "0:8", "--as", "u32")
        self.assertEqual([line.split() for line in shown.out.splitlines()[2:]],
                         [["0", "0x00000000", "0"], ["4", "0x7fa00001", "2141192193"]], shown)

    def test_a_kernel_that_the_file_has_not_is_refused_with_those_that_it_has(self):
        result = self.run_cuda(cuda.ADD, cuda.ADD_LAUNCH, "elementwise", "--rows", "36", "--cols", "67", "--kind", "add",
                               "--dtype", "fp32", "--kernel-entry", "mine::absent<float>")
        self.assertNotEqual(result.code, 0, result)
        self.assertIn("has no kernel mine::absent<float>; has add", result.out + result.err)

    def test_shared_memory_beyond_a_block_is_refused(self):
        source = cuda.ADD.replace("{", "{\n  __shared__ float large[20000];\n  large[threadIdx.x] = 0;", 1)
        case = ("elementwise", "--rows", "36", "--cols", "67", "--kind", "add", "--dtype", "fp32",
                "--kernel-entry", "add")
        result = self.run_cuda(source, cuda.ADD_LAUNCH, *case)
        self.assertEqual(result.code, 1, result)
        self.assertIn("have 80000 bytes together, and a block has at most 49152",
                      result.json()["tests"][0]["findings"][0]["message"])

    def test_wrong_arithmetic_fails_by_its_bound(self):
        result = self.run_gemm(cuda.GEMM.replace("t < k; t += TILE", "t + TILE <= k; t += TILE"))
        self.assertEqual(result.code, 1, result)
        self.assertIn(result.json()["tests"][0]["findings"][0]["reason"], ("bound", "exact"))

    def test_wrong_launches_are_refused_before_they_run(self):
        for old, new, words in (("(n + 15) / 16", "n / (k - 50)", "it divides by zero"),
                                ("(n + 15) / 16", "(width + 15) / 16", 'nothing is called "width"'),
                                ("(n + 15) / 16", "n - 40", "is 0 here, and must be 1 to"),
                                ("[16, 16]", "[64, 32]", "2048 threads"),
                                ('"d", "m"', '"m"', "args has 6 arguments, and gemm takes 7"),
                                ('"d", "m"', '"e", "m"', "no operand is called so"),
                                ('"m", "n"', '"a", "n"', "is an operand"),
                                ('"m", "n"', '"m + 4294967296", "n"', "holds -2147483648 to 2147483647"),
                                ('"k", "alpha"', '"alpha", "k"', "is a real number")):
            result = self.run_gemm(cuda.GEMM, cuda.GEMM_LAUNCH.replace(old, new))
            case = result.json()["tests"][0]
            self.assertEqual(case["verdict"], "ERROR", (new, result))
            self.assertEqual(case["findings"][0]["blame"], "kernel")
            self.assertIn(words, case["findings"][0]["message"])
            self.assertIn("launch description: ", case["findings"][0]["message"])
        for old, new, words in (("block", "blok", 'unknown key "blok"'), ("ceil_div(m, 16)", "ceil_div(m", '","'),
                                ("ceil_div(m, 16)", "ceil_div(m, 16)\\u0000", "expected an operator")):
            result = self.run_gemm(cuda.GEMM, cuda.GEMM_LAUNCH.replace(old, new))
            self.assertEqual(result.code, 2, result)
            self.assertIn(words, result.err)

    def test_wrong_sources_are_refused(self):
        result = self.run_gemm(cuda.GEMM.replace("float sum = 0;", "float sum = zero;"))
        self.assertEqual(result.code, 2, result)
        self.assertRegex(result.err, r"mine\.cu:12:\d+: error: .*zero")
        result = self.run_gemm(cuda.ADD)
        self.assertEqual(result.code, 2, result)
        self.assertIn("several kernels (add, not_this_one)", result.err)
        half = self.run_cuda(cuda.GEMM, cuda.GEMM_LAUNCH, "gemm", "--dtype", "fp16", "--m", "8", "--n", "8", "--k", "8")
        case = half.json()["tests"][0]
        self.assertEqual(case["verdict"], "UNSUPPORTED", half)
        self.assertIn("takes a in fp32, and the case has it in fp16", case["findings"][0]["message"])

    def test_only_cuda_source_runs_there_and_only_there(self):
        here = self.run_gemm(device="cpu:0").json()["tests"][0]
        self.assertEqual(here["verdict"], "UNSUPPORTED")
        self.assertIn("a cuda device or simt:0", here["findings"][0]["message"])
        c = self.daemon.run("run", "gemm", "--kernel", self.write("mine.c", guide_source()), "--device", "simt:0",
                            "--dtype", "fp32", "--m", "8", "--n", "8", "--k", "8", "--format", "json").json()["tests"][0]
        self.assertEqual(c["verdict"], "UNSUPPORTED")
        self.assertIn("--device cpu:0", c["findings"][0]["message"])
        for provider in ("builtin", "onednn"):
            other = self.daemon.run("run", "gemm", "--provider", provider, "--device", "simt:0", "--dtype", "fp32", "--m",
                                    "8", "--n", "8", "--k", "8", "--format", "json").json()["tests"][0]
            self.assertEqual(other["verdict"], "UNSUPPORTED")

    def test_nothing_is_timed_there(self):
        source, launch = self.write("timed.cu", cuda.GEMM), self.write("timed.toml", cuda.GEMM_LAUNCH)
        result = self.daemon.run("bench", "gemm", "--kernel", source, "--kernel-launch", launch, "--device", "simt:0",
                                 "--dtype", "fp32", "--m", "44", "--n", "40", "--k", "50")
        self.assertEqual(result.code, 2, result)
        self.assertIn("an emulator: times there say nothing of a GPU", result.err)

    def test_repro_line_works(self):
        wrong = self.run_gemm(cuda.GEMM.replace("alpha * sum", "sum"), cuda.GEMM_LAUNCH, "--alpha", "2")
        repro = shlex.split(wrong.json()["tests"][0]["repro"])
        again = self.daemon.run(*repro[1:], "--format", "json")
        self.assertEqual(again.code, 1, again)
        self.assertEqual(again.json()["tests"][0]["verdict"], "FAILED")

    def test_options_that_do_not_fit(self):
        for more, words in ((["--kernel", "a.cu"], "kernel-launch: is required"),
                            (["--kernel", "a.c", "--kernel-launch", "l.toml"], "belongs to device code"),
                            (["--kernel", "a.c", "--kernel-entry", "f"], "belongs to device code"),
                            (["--kernel-launch", "l.toml"], "belongs to device code"),
                            (["--kernel-entry", "f"], "belongs to device code"),
                            (["--kernel", "a.cu", "--kernel-launch", "nowhere.toml"], "cannot read")):
            result = self.daemon.run("run", "gemm", *more, "--m", "8", "--n", "8", "--k", "8")
            self.assertEqual(result.code, 2, result)
            self.assertIn(words, result.err)

    def test_a_launch_of_the_same_name_beside_the_file_is_taken(self):
        source = self.write("beside.cu", cuda.GEMM)
        self.write("beside.toml", cuda.GEMM_LAUNCH)
        ask = ["run", "gemm", "--kernel", source, "--device", "simt:0", "--dtype", "fp32", "--m", "8", "--n", "8", "--k", "8"]
        result = self.daemon.run(*ask)
        self.assertEqual(result.code, 0, result)
        result = self.daemon.run(*ask, "--kernel-launch", self.write("other.toml", "grid = 1"))
        self.assertEqual(result.code, 2, "what is said stands above it")
        self.write("beside.toml", "grid = 1")
        self.assertEqual(self.daemon.run(*ask).code, 2)

    def test_nobody_has_the_device_without_naming_it(self):
        with harness.Daemon(flags=["--devices", "*"]) as daemon:
            self.assertNotIn("simt", daemon.run("devices").out)


if __name__ == "__main__":
    unittest.main(verbosity=2)
