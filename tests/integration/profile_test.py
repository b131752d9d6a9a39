"""A case's profile: what perf counts stands beside its times, and nothing that a profiler does,
or is not there to do, changes its verdict. And the worker by itself: one case, no daemon."""

import csv
import io
import json
import os
import signal
import stat
import subprocess
import tempfile
import unittest

import harness

WORKER = os.path.join(harness.INSTALL, "libexec", "assay", "assay-worker")
GEMM = ("gemm", "--m", "96", "--n", "96", "--k", "96", "--dtype", "fp32", "--provider", "builtin",
        "--seed", "7")

# Runs the command as perf stat does, serves its control pipes, and writes what it saw: how
# often counting was switched on, a counter that the machine has not, one that was not counted.
FAKE = r"""
import os, select, subprocess, sys
args = sys.argv[1:]
assert args[0] == "stat" and "-x," in args, args
out = args[args.index("-o") + 1]
fifo = [a for a in args if a.startswith("--control=fifo:")][0].partition(":")[2].split(",")
control, answer = (os.open(path, os.O_RDWR | os.O_NONBLOCK) for path in fifo)
child = subprocess.Popen(args[args.index("--") + 1:])
seen = b""
while child.poll() is None:
    if select.select([control], [], [], 0.01)[0]:
        seen += os.read(control, 100)
        os.write(answer, b"ack\n\0")
commands = seen.decode().split()
assert commands[::2] == ["enable"] * (len(commands) // 2), commands
assert commands[1::2] == ["disable"] * (len(commands) // 2), commands
with open(out, "w") as file:
    file.write("# started on some day\n\n")
    file.write(f"{len(commands) // 2},,cycles,1,100.00,,\n")
    file.write("<not supported>,,instructions,0,100.00,,\n")
    file.write("1234567,,cache-misses,1,100.00,,\n")
    file.write("<not counted>,,branch-misses,0,0.00,,\n")
sys.exit(child.returncode)
"""

# Says who is there once counting is to begin, and stays.
MUTE = r"""
import os, subprocess, sys, time
args = sys.argv[1:]
fifo = [a for a in args if a.startswith("--control=fifo:")][0].partition(":")[2].split(",")
control, answer = os.open(fifo[0], os.O_RDWR), os.open(fifo[1], os.O_RDWR)
child = subprocess.Popen(args[args.index("--") + 1:])
assert os.read(control, 100) == b"enable\n"
with open("PIDS.new", "w") as file:
    file.write(f"{os.getpid()} {child.pid}")
os.rename("PIDS.new", "PIDS")
time.sleep(900)
"""


class Bin:
    """A folder whose perf comes first on the daemon's PATH."""

    def __init__(self, script=None):
        self.folder = tempfile.TemporaryDirectory(prefix="assay-bin-")
        self.temporary = tempfile.TemporaryDirectory(prefix="assay-tmp-")
        if script is not None:
            self.write("perf", script)

    def write(self, name, script):
        path = os.path.join(self.folder.name, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(script)
        os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)

    def daemon(self, path=None):
        return harness.Daemon(environment={
            "PATH": f"{self.folder.name}:{path or os.environ['PATH']}",
            "TMPDIR": self.temporary.name})

    def left(self):
        """What profiling left in the folder for temporary files; the workers' own folder stays."""
        return [n for n in os.listdir(self.temporary.name) if not n.startswith("assay-work-")]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.folder.cleanup()
        self.temporary.cleanup()


def fake_perf():
    return Bin(f"#!/usr/bin/env python3\n{FAKE}")


def bench(daemon, *flags):
    run = daemon.run("bench", *GEMM, "--profile", "perf", "--format", "json", *flags)
    assert run.code == 0, run
    return run.json()["tests"][0]


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def end_group(pid):
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


class Profile(unittest.TestCase):
    def test_counters_by_perfs_names_and_what_it_could_not(self):
        with fake_perf() as tools, tools.daemon() as daemon:
            test = bench(daemon)
            # One launch, and counting was on for it and at no other time.
            self.assertEqual(test["bench"]["profile"], {"cycles": 1.0, "cache-misses": 1234567.0})
            self.assertEqual(test["bench"]["profile_note"],
                             "counter instructions not supported; counter branch-misses not "
                             "counted")
            self.assertEqual(test["verdict"], "PASSED")
            self.assertGreaterEqual(test["bench"]["samples"], 10)
            # The resident worker gave its arena back, and takes it again.
            self.assertEqual(daemon.run("devices", "--format", "json").json()["devices"][0]
                             ["leased_bytes"], 0)
            self.assertEqual(tools.left(), [])
            # For people: a line beneath the case's, in both commands.
            wide = daemon.run("bench", *GEMM, "--profile", "perf")
            line = ("cache-misses 1,234,567, cycles 1; counter instructions not supported; "
                    "counter branch-misses not counted")
            self.assertIn(f"    builtin: {line}\n", wide.out)
            rows = daemon.run("run", *GEMM, "--mode", "both", "--profile", "perf")
            self.assertRegex(rows.out, r"\n    profile +" + line.replace("(", r"\(") + "\n")
            # For programs: a column a counter in CSV, empty where it was not counted.
            table = daemon.run("bench", *GEMM, "--profile", "perf", "--format", "csv")
            row = next(csv.DictReader(io.StringIO(table.out)))
            counters = {name.removeprefix("bench.profile."): value for name, value in row.items()
                        if name.startswith("bench.profile.") and value}
            self.assertEqual({name: float(value) for name, value in counters.items()},
                             test["bench"]["profile"])
            self.assertEqual(row["bench.profile_note"], test["bench"]["profile_note"])
            # Not asked for, not there.
            plain = daemon.run("bench", *GEMM, "--format", "json").json()["tests"][0]["bench"]
            self.assertNotIn("profile", plain)
            self.assertNotIn("profile_note", plain)

    def test_a_report_with_a_profile_can_be_held_against_another(self):
        with fake_perf() as tools, tools.daemon() as daemon:
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "before.json")
                saved = daemon.run("bench", *GEMM, "--profile", "perf", "--output", path)
                self.assertEqual(saved.code, 0, saved)
                again = daemon.run("bench", *GEMM, "--compare", path, "--threshold", "900%",
                                   "--format", "json")
                # Where others have the processors there is no verdict, which is not what is asked here.
                self.assertIn(again.code, (0, 4), again)
                self.assertIn("baseline", again.json()["tests"][0]["bench"])

    def test_without_perf_there_are_times_and_the_reason(self):
        with Bin() as tools, tools.daemon(path="/nonexistent") as daemon:
            test = bench(daemon)
            self.assertEqual(test["bench"]["profile_note"], "perf is not installed on this host")
            self.assertNotIn("profile", test["bench"])
            self.assertEqual(test["verdict"], "PASSED")
            self.assertGreater(test["bench"]["median_seconds"], 0)

    def test_one_that_hangs_is_killed_at_the_cases_deadline(self):
        with tempfile.TemporaryDirectory() as folder:
            pid = os.path.join(folder, "pid")
            script = f"#!/bin/sh\nsleep 900 &\necho $! > {pid}.new\nmv {pid}.new {pid}\nwait\n"
            with Bin(script) as tools, tools.daemon() as daemon:
                daemon.run("devices", "--ceilings")  # not within the deadline
                test = bench(daemon, "--deadline", "20s")
                self.assertEqual(test["bench"]["profile_note"],
                                 "perf did not end within 20s and was killed")
                self.assertNotIn("profile", test["bench"])
                self.assertEqual(test["verdict"], "PASSED")
                with open(pid, encoding="utf-8") as file:
                    child = int(file.read())
                harness.wait_until(lambda: not alive(child), 30, "what it started ends with it")
                self.assertEqual(tools.left(), [])
                again = daemon.run("run", *GEMM)  # the device goes on
                self.assertEqual(again.code, 0, again)

    def test_one_that_fails_or_may_not_count_says_why(self):
        with Bin("#!/bin/sh\necho 'event syntax error' >&2\nexit 129\n") as tools:
            with tools.daemon() as daemon:
                test = bench(daemon)
                self.assertEqual(test["bench"]["profile_note"],
                                 "perf exited with status 129: event syntax error")
                self.assertNotIn("profile", test["bench"])
                self.assertEqual(test["verdict"], "PASSED")
                tools.write("perf", "#!/bin/sh\necho 'Access to performance monitoring is limited:"
                                    " see perf_event_paranoid' >&2\nexit 255\n")
                with open("/proc/sys/kernel/perf_event_paranoid", encoding="utf-8") as file:
                    level = file.read().strip()
                note = bench(daemon)["bench"]["profile_note"]
                self.assertRegex(note, "^perf: no permission")
                self.assertIn(f"kernel.perf_event_paranoid is {level}", note)

    def test_a_case_without_a_time_is_not_profiled(self):
        with fake_perf() as tools, tools.daemon() as daemon:
            run = daemon.run("bench", "gemm", "--m", "32", "--n", "32", "--k", "32", "--dtype",
                             "fp32", "--provider", "planted/crash", "--profile", "perf",
                             "--format", "json")
            self.assertEqual(run.code, 1, run)
            test = run.json()["tests"][0]
            self.assertEqual(test["verdict"], "ERROR")
            self.assertNotIn("profile", test.get("bench", {}))
            self.assertNotIn("profile_note", test.get("bench", {}))

    def test_what_a_daemon_started_does_not_outlive_it(self):
        # A perf that never answers: its worker, about to launch, waits a second for that.
        with tempfile.TemporaryDirectory() as folder:
            pids = os.path.join(folder, "pids")
            with Bin("#!/usr/bin/env python3\n" + MUTE.replace("PIDS", pids)) as tools:
                daemon = tools.daemon()
                client = subprocess.Popen(
                    [harness.ASSAY, "bench", *GEMM, "--profile", "perf", "--reconnect", "0s"],
                    env={**os.environ, "ASSAY_TARGET": daemon.grpc}, stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL)
                harness.wait_until(lambda: os.path.exists(pids), 120, "the worker works")
                daemon.kill()
                with open(pids, encoding="utf-8") as file:
                    perf, worker = map(int, file.read().split())
                self.addCleanup(end_group, perf)
                for process in (perf, worker):
                    harness.wait_until(lambda: not alive(process), 30, "it ends with its daemon")
                client.wait(harness.LONG)

    def test_bad_requests_name_the_field(self):
        with Bin() as tools, tools.daemon() as daemon:
            for tool, words in (("ncu", "ncu counts on cuda devices, and cpu:0 is a cpu device"),
                                ("rocprof", "ask for perf there"),
                                ("/bin/sh", "must be perf (on cpu), ncu (on cuda) or rocprof"),
                                ("PERF", "got \"PERF\"")):
                run = daemon.run("bench", *GEMM, "--profile", tool)
                self.assertEqual(run.code, 2, run)
                self.assertIn("profile: ", run.err)
                self.assertIn(words, run.err)
            run = daemon.run("run", *GEMM, "--profile", "perf")
            self.assertEqual(run.code, 2, run)
            self.assertIn("no case is timed: set the mode to benchmark", run.err)


class Once(unittest.TestCase):
    CASE = {"gemm": {"m": 64, "n": 64, "k": 64}, "dtype": "DTYPE_FP32"}

    def once(self, source, *flags, text=None):
        return subprocess.run([WORKER, "--once", source, *flags], input=text, timeout=120,
                              capture_output=True, text=True, check=False)

    def test_a_case_from_a_file_or_from_stdin_without_a_daemon(self):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(self.CASE, file)
            file.flush()
            from_file = self.once(file.name, "--device", "cpu:0")
        self.assertEqual(from_file.returncode, 0, from_file)
        result = json.loads(from_file.stdout)
        self.assertEqual(result["verdict"], "VERDICT_PASSED")
        self.assertEqual(result["device"], "cpu:0")
        self.assertEqual(result["stats"]["count"], str(64 * 64))
        from_stdin = self.once("-", text=json.dumps(self.CASE))
        self.assertEqual(json.loads(from_stdin.stdout)["digests"], result["digests"])
        # There is no driver to tell, and the small arena has room for it.
        ranged = self.once("-", "--driver-range", text=json.dumps(self.CASE))
        self.assertEqual(ranged.returncode, 0, ranged)
        self.assertEqual(json.loads(ranged.stdout)["verdict"], "VERDICT_PASSED")
        self.assertEqual(json.loads(ranged.stdout)["digests"], result["digests"])

    def test_the_verdict_is_in_the_result_and_not_in_the_exit_code(self):
        wrong = self.once("-", text=json.dumps({**self.CASE, "provider": "planted/wrong-tile"}))
        self.assertEqual(wrong.returncode, 0, wrong)
        self.assertEqual(json.loads(wrong.stdout)["verdict"], "VERDICT_FAILED")
        none = self.once("-", text=json.dumps({**self.CASE, "provider": "nobody"}))
        self.assertEqual(none.returncode, 0, none)
        self.assertNotEqual(json.loads(none.stdout)["verdict"], "VERDICT_PASSED")
        crash = self.once("-", text=json.dumps({**self.CASE, "provider": "planted/crash"}))
        self.assertEqual(crash.returncode, -signal.SIGSEGV, crash)  # for the debugger

    def test_what_is_no_case_is_named(self):
        for source, text, words in (("/nonexistent.json", None, "cannot read /nonexistent.json"), ("/", None, "cannot read /"),
                                    ("-", "", "standard input holds no case"),
                                    ("-", "{}", "names no operator"),
                                    ("-", "[1", "standard input holds no case"),
                                    ("-", '{"gemm":{"q":1}}', "standard input holds no case")):
            done = self.once(source, text=text)
            self.assertEqual(done.returncode, 2, done)
            self.assertIn(words, done.stderr)
            self.assertEqual(done.stdout, "")


if __name__ == "__main__":
    harness.main()
