"""What a client has seen is kept, whatever dies and whenever."""

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

import harness
from viewer import Viewer

# How often the daemon is killed during one job; the long form is for a release.
KILLS = int(os.environ.get("ASSAY_TEST_KILLS", "8"))

# Long enough that the job outlasts all kills.
LONG_CASES = ["gemm", "--m", "512", "--n", "512", "--k", "512", "--dtype", "fp32", "--provider",
              "builtin", "--seed", ",".join(str(s) for s in range(1, 501))]
CASES = ["gemm", "--m", "24", "--n", "24", "--k", "24", "--dtype", "fp32", "--provider", "builtin",
         "--seed", ",".join(str(s) for s in range(1, 501))]


class Relay:
    """Passes bytes between one address and another until the host behind it "vanishes":
    then it takes what comes, answers nothing and closes nothing."""

    def __init__(self, target):
        self.host, port = target.rsplit(":", 1)
        self.port = int(port)
        self.gone = False
        self.answered = 0
        self.last_answer = time.monotonic()
        self.sockets = []
        self.server = socket.create_server(("127.0.0.1", 0))
        self.sockets.append(self.server)
        self.address = f"127.0.0.1:{self.server.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        try:
            while True:
                near, _ = self.server.accept()
                far = socket.create_connection((self.host, self.port))
                self.sockets += [near, far]
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=self._pass_on, args=(*pair, pair[0] is far),
                                     daemon=True).start()
        except OSError:
            pass  # closed

    def _pass_on(self, source, sink, answers):
        try:
            while data := source.recv(65536):
                if self.gone:
                    continue
                sink.sendall(data)
                if answers:
                    self.answered += len(data)
                    self.last_answer = time.monotonic()
        except OSError:
            pass  # closed

    def quiet_for(self, seconds):
        return self.answered > 0 and time.monotonic() - self.last_answer > seconds

    def vanish(self):
        self.gone = True

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for each in self.sockets:
            each.close()


class Durability(unittest.TestCase):
    def setUp(self):
        self.state = tempfile.mkdtemp(prefix="assay-state-")

    def tearDown(self):
        shutil.rmtree(self.state, ignore_errors=True)

    def test_sigkill_of_the_daemon_loses_nothing_a_client_had_seen(self):
        chance = random.Random(5)
        daemon = harness.Daemon(self.state)
        submitted = daemon.run("submit", *LONG_CASES, "--resume", "--format", "json")
        self.assertEqual(submitted.code, 0, submitted)
        job = json.loads(submitted.out)["name"]
        seen = {}
        for _ in range(KILLS):
            viewer = Viewer(daemon, job)
            # A kill proves something only after results were seen; then at any moment.
            harness.wait_until(lambda: viewer.seen, 20, "a first result")
            time.sleep(chance.uniform(0, 0.1))
            state = daemon.run("jobs", "--format", "json").json()["jobs"][0]["state"]
            self.assertIn(state, ("QUEUED", "RUNNING"), "the job must outlast the kills")
            daemon.kill()
            for test in viewer.end():
                seen[test["name"], test["seed"]] = test["digest"]
            daemon = harness.Daemon(self.state)
        with daemon:
            final = daemon.run("watch", job, "--format", "json")
            self.assertEqual(final.code, 0, final)
            report = final.json()
            self.assertEqual(report["passed"], 500)
            stored = {(t["name"], t["seed"]): t["digest"] for t in report["tests"]}
            self.assertEqual(len(stored), len(report["tests"]), "a case is there twice")
            self.assertGreater(len(seen), 0)
            for key, digest in seen.items():
                self.assertEqual(stored.get(key), digest, key)
        print(f"{KILLS} kills, {len(seen)} results had been seen, none lost")

    def test_an_interrupted_job_keeps_its_finished_cases(self):
        daemon = harness.Daemon(self.state)
        job = json.loads(daemon.run("submit", *LONG_CASES, "--format", "json").out)["name"]
        viewer = Viewer(daemon, job)
        harness.wait_until(lambda: viewer.seen, 20, "a first result")
        daemon.kill()
        seen = viewer.end()
        with harness.Daemon(self.state) as daemon:
            shown = daemon.run("report", job, "--format", "json")
            listed = daemon.run("jobs", "--format", "json").json()["jobs"][0]
            self.assertEqual(listed["state"], "INTERRUPTED")
            self.assertGreaterEqual(len(shown.json()["tests"]), len(seen))
            self.assertEqual(daemon.run("watch", job).code, 4)

    def test_sigkill_of_the_worker_is_one_case_and_not_the_job(self):
        with harness.Daemon(self.state) as daemon:
            job = json.loads(daemon.run("submit", *CASES, "--format", "json").out)["name"]
            viewer = Viewer(daemon, job)
            harness.wait_until(lambda: len(viewer.seen) > 3, 20, "first results")
            for worker in self._children(daemon.process.pid):
                os.kill(worker, signal.SIGKILL)
            tests = viewer.end()
            self.assertEqual(len(tests), 500)
            errors = [t for t in tests if t["verdict"] == "ERROR"]
            self.assertLessEqual(len(errors), 1, errors)
            self.assertTrue(all(t["verdict"] == "PASSED" for t in tests if t not in errors))

    def test_a_client_that_leaves_costs_the_job_nothing(self):
        with harness.Daemon(self.state) as daemon:
            job = json.loads(daemon.run("submit", *CASES, "--format", "json").out)["name"]
            viewer = Viewer(daemon, job)
            harness.wait_until(lambda: viewer.seen, 20, "a first result")
            viewer.process.kill()
            viewer.end()
            self.assertEqual(daemon.run("watch", job).code, 0)

    def test_a_host_that_vanished_is_noticed_while_watching(self):
        """No packet comes any more and no connection is closed: keepalive must tell."""
        with harness.Daemon(self.state) as daemon, Relay(daemon.grpc) as relay:
            job = json.loads(daemon.run(
                "submit", "gemm", "--m", "8", "--n", "8", "--k", "8", "--dtype", "fp32",
                "--provider", "planted/hang", "--deadline", "600s", "--format", "json").out)["name"]
            viewer = subprocess.Popen(
                [harness.ASSAY, "watch", job, "--reconnect", "0s", "--target", relay.address],
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            harness.wait_until(lambda: relay.quiet_for(1), 20, "the stream is open")
            relay.vanish()
            said = viewer.communicate(timeout=300)[1]
            self.assertEqual(viewer.returncode, 3, said)
            self.assertEqual(daemon.run("cancel", job).code, 0)

    def test_sigterm_drains(self):
        daemon = harness.Daemon(self.state)
        job = json.loads(daemon.run("submit", *CASES, "--format", "json").out)["name"]
        self.assertEqual(daemon.stop(), 0)
        with harness.Daemon(self.state) as daemon:
            listed = daemon.run("jobs", "--format", "json").json()["jobs"][0]
            self.assertEqual(listed["name"], job)
            self.assertIn(listed["state"], ("FINISHED", "INTERRUPTED"))

    def test_a_corrupt_database_is_moved_aside_and_said(self):
        with harness.Daemon(self.state) as daemon:
            self.assertEqual(daemon.run("run", "copy", "--count", "8", "--dtype", "fp32",
                                        "--provider", "builtin").code, 0)
        database = os.path.join(self.state, "assay.db")
        with open(database, "r+b") as file:
            file.write(b"not a database, whatever it says" * 64)
        for tail in ("-wal", "-shm"):
            if os.path.exists(database + tail):
                os.unlink(database + tail)
        with harness.Daemon(self.state) as daemon:
            self.assertTrue([f for f in os.listdir(self.state) if "corrupt" in f],
                            os.listdir(self.state))
            self.assertIn("corrupt", daemon.log_text())
            self.assertEqual(daemon.run("jobs", "--format", "json").json()["jobs"], [])

    @staticmethod
    def _children(pid):
        done = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True,
                              text=True, check=False)
        return [int(p) for p in done.stdout.split()]


if __name__ == "__main__":
    harness.main()
