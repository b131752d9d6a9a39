"""The Python package, against the daemon and the command line of the install tree.

tests/python has the tests, for pytest. Here they are run, and what needs a daemon that dies is here
itself. ASSAY_SAME_VERDICT_CASES and ASSAY_RIGHT_KERNELS_CASES say how many random arrays are judged.
"""

import glob
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest
import xml.etree.ElementTree as tree

import harness
import roles_test
import tls_test

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TESTS = os.path.join(ROOT, "tests", "python")
PACKAGES = os.path.abspath(os.path.join(harness.INSTALL, "lib", "python3", "dist-packages"))
SKIPPED = 77


def missing():
    """Why this cannot run here, or an empty string."""
    if not os.path.isdir(os.path.join(PACKAGES, "assay")):
        return "the install tree has no Python package: protobuf-compiler-grpc was missing when it was configured"
    for module in ("grpc", "google.protobuf", "numpy", "pytest"):
        if subprocess.run([sys.executable, "-c", f"import {module}"], capture_output=True, check=False).returncode:
            return f"Python has no {module} (deploy/setup test installs it)"
    return ""


def run_pytest(*arguments):
    """Runs tests of tests/python; the cases that were skipped, with the reasons."""
    with tempfile.TemporaryDirectory(prefix="assay-pytest-") as folder:
        report = os.path.join(folder, "out.xml")
        # A daemon of the session's own, whatever the environment names.
        environment = {name: value for name, value in os.environ.items() if name != "ASSAY_TARGET"}
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={folder}/tmp",
             f"--junit-xml={report}", *arguments], cwd=TESTS, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, check=False, env={**environment, "PYTHONPATH": PACKAGES})
        if done.returncode != 0:
            raise AssertionError(f"pytest ended with {done.returncode}\n{done.stdout}")
        print(done.stdout.strip().splitlines()[-1])
        return [(case.get("name"), case.find("skipped").get("message")) for case in tree.parse(report).iter("testcase")
                if case.find("skipped") is not None]


class Python(unittest.TestCase):
    def test_with_pytest(self):
        for name, reason in run_pytest():
            # As unittest says it, so that the run counts it as skipped.
            print(f"{name.partition('[')[0]} (tests/python) ... skipped '{reason}'", file=sys.stderr)

    def test_every_file_is_a_test_or_serves_one(self):
        names = {os.path.basename(path) for path in glob.glob(os.path.join(TESTS, "*.py"))}
        others = {name for name in names if not name.startswith("test_")}
        self.assertEqual(others, {"conftest.py", "fake.py", "planted_functions.py", "right_kernels.py", "same_verdict.py"})


class WhenTheDaemonDies(unittest.TestCase):
    def test_watch_goes_on_with_the_next_daemon(self):
        """Killed in the middle of a job and started again: each stored event comes once and in order."""
        sys.path.insert(0, PACKAGES)
        import assay

        state = tempfile.mkdtemp(prefix="assay-state-")
        self.addCleanup(shutil.rmtree, state, ignore_errors=True)
        self.addCleanup(os.unlink, state + ".log")
        listen = f"127.0.0.1:{harness.free_ports(1)[0]}"
        first = harness.Daemon(state=state, listen=listen)
        with assay.connect(first.grpc) as client:
            job = client.submit("gemm", m=96, n=96, k=96, dtype="fp32", provider="builtin", resume=True,
                                seed=list(range(60)))
            events, some, daemons = [], threading.Event(), []

            def die():
                some.wait(harness.LONG)
                first.kill()
                daemons.append(harness.Daemon(state=state, listen=listen))

            killer = threading.Thread(target=die)
            killer.start()
            for event in client.watch(job, reconnect=harness.LONG):
                events.append(event)
                if event.kind == "case_result" and event.result.index == 3:
                    some.set()
            killer.join()
            self.assertEqual(len(daemons), 1)
            stored = [event.sequence for event in events if event.sequence]
            self.assertEqual(stored, list(range(1, len(stored) + 1)))
            self.assertEqual(sorted(e.result.index for e in events if e.result), list(range(60)))
            self.assertTrue(events[-1].job.passed, events[-1])
        daemons[0].stop()


FUNCTION = """
import sys, time
import numpy as np
import assay

def softmax(x):
    print("launch", flush=True)
    time.sleep(600)

with assay.connect(sys.argv[1]) as client:
    assay.validate(softmax, op="softmax", dtype="fp32", rows=4, cols=8, client=client, launch_deadline="10m")
"""


class Validated(unittest.TestCase):
    """A function of another process, when that process or the daemon goes away."""

    @classmethod
    def setUpClass(cls):
        sys.path.insert(0, PACKAGES)

    def begin(self, target):
        """A process whose function never returns, once it runs."""
        caller = subprocess.Popen([sys.executable, "-c", FUNCTION, target], stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, text=True, env={**os.environ, "PYTHONPATH": PACKAGES})
        self.addCleanup(caller.stdout.close)
        self.addCleanup(caller.wait)
        self.addCleanup(caller.kill)
        self.assertEqual(caller.stdout.readline(), "launch\n")
        return caller

    def test_a_caller_that_is_killed_frees_the_device(self):
        import assay
        daemon = harness.Daemon()
        self.addCleanup(daemon.stop)
        with assay.connect(daemon.grpc) as client:
            caller = self.begin(daemon.grpc)
            job = client.jobs()[0]
            caller.kill()
            ended = [event.job for event in client.watch(job) if event.job][-1]
            # The device may have skipped all cases before the cancellation comes.
            self.assertIn(ended.state, ("CANCELLED", "FINISHED"))
            results = client.show(job).results
            self.assertEqual({(r.verdict, r.reason, r.findings[0].blame) for r in results},
                             {("SKIPPED", "cancelled", "caller")})
            self.assertTrue(all(r.ran_elsewhere for r in results))
            self.assertTrue(client.run("softmax", rows=4, cols=8, dtype="fp32", provider="builtin"))
            device = client.devices()[0]
            self.assertEqual((device.state, device.worker_restarts), ("READY", 0))

    def test_a_daemon_that_is_killed_leaves_an_interrupted_job(self):
        import assay
        state = tempfile.mkdtemp(prefix="assay-state-")
        self.addCleanup(shutil.rmtree, state, ignore_errors=True)
        self.addCleanup(os.unlink, state + ".log")
        listen = f"127.0.0.1:{harness.free_ports(1)[0]}"
        first = harness.Daemon(state=state, listen=listen)
        caller = self.begin(first.grpc)
        first.kill()
        second = harness.Daemon(state=state, listen=listen)
        self.addCleanup(second.stop)
        caller.kill()
        with assay.connect(second.grpc) as client:
            self.assertEqual(client.jobs()[0].state, "INTERRUPTED")

    def test_wrong_functions_page_nobody(self):
        import assay
        import numpy
        daemon = harness.Daemon()
        self.addCleanup(daemon.stop)
        with assay.connect(daemon.grpc) as client:
            report = client.validate(numpy.zeros_like, op="softmax", dtype="fp32", rows=4, cols=8)
            self.assertEqual(report.verdict, "FAILED")
            self.assertEqual(client.devices()[0].state, "READY")
        counted = [line for line in daemon.scrape().splitlines() if not line.startswith("#")]
        external = [line for line in counted if 'provider="external"' in line]
        self.assertEqual(external, ['assay_cases_total{device="cpu:0",dtype="other",op="other",provider="external",'
                                    'verdict="FAILED"} 1'])
        for family in ("nan", "inf", "unwritten_elements", "guard_violations", "nondeterministic",
                       "digest_mismatches", "error_bound_exceeded", "worker_restarts"):
            for line in counted:
                if line.startswith(f"assay_{family}_total"):
                    self.assertTrue(line.endswith(" 0"), line)


class Callers(unittest.TestCase):
    """The package shows certificates and tokens as the command line does."""

    @classmethod
    def setUpClass(cls):
        sys.path.insert(0, PACKAGES)
        cls.folder = tempfile.mkdtemp(prefix="assay-python-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        tls_test.make_certificates(cls.folder)
        tls_test.make_certificates(cls.folder, "viewer")
        roles = roles_test.write(cls.path("roles.toml"), roles_test.client("viewer", "viewer") +
                                 roles_test.token("of-the-night", "operator"))
        cls.daemon = harness.Daemon(flags=["--tls-cert", cls.path("server.pem"), "--tls-key", cls.path("server.key"),
                                           "--roles-file", roles])
        cls.addClassCleanup(cls.daemon.stop)
        cls.mutual = harness.Daemon(flags=["--tls-cert", cls.path("server.pem"), "--tls-key", cls.path("server.key"),
                                           "--tls-client-ca", cls.path("ca.pem"), "--roles-file", roles])
        cls.addClassCleanup(cls.mutual.stop)
        cls.tls = {"tls_ca": cls.path("ca.pem")}

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder, name)

    def test_without_tls_or_with_another_authority_there_is_no_connection(self):
        import assay
        with self.assertRaises(assay.Unavailable):
            assay.connect(self.daemon.grpc)
        with self.assertRaises(assay.Unavailable):
            assay.connect(self.mutual.grpc, **self.tls)
        with self.assertRaisesRegex(assay.InvalidArgument, "tls_ca: cannot read"):
            assay.connect(self.daemon.grpc, tls_ca=self.path("none.pem"))

    def test_a_certificate_has_its_role(self):
        import assay
        mine = {"tls_cert": self.path("viewer.pem"), "tls_key": self.path("viewer.key")}
        with assay.connect(self.mutual.grpc, **self.tls, **mine) as client:
            self.assertEqual(client.devices()[0].id, "cpu:0")
            with self.assertRaises(assay.PermissionDenied):
                client.validate(abs, op="softmax", dtype="fp32", cols=8)
            with self.assertRaises(assay.PermissionDenied) as refused:
                client.compare([1.0], [1.0])
        self.assertIn("needs the role", str(refused.exception))
        self.assertEqual(refused.exception.reason, "PERMISSION_DENIED")

    def test_a_token_has_its_role_and_the_targets_file_names_it(self):
        import assay
        token = roles_test.write(self.path("token"), "of-the-night\n")
        targets = roles_test.write(self.path("targets.toml"), f"""
[targets.lab]
address = "{self.daemon.grpc}"
tls-ca = "{self.path('ca.pem')}"
token-file = "{token}"
""")
        with assay.connect("lab", targets_file=targets) as client:
            self.assertTrue(client.compare([1.0], [1.0]))
            self.assertEqual(client.flags, ("--target", "lab", "--targets-file", targets))
        with self.assertRaises(assay.Unauthenticated):
            assay.connect(self.daemon.grpc, token="guessed", **self.tls).compare([1.0], [1.0])


if __name__ == "__main__":
    if reason := missing():
        print(f"Skipped: {reason}")
        sys.exit(SKIPPED)
    harness.main()
