"""The store when the disk is full, when it is damaged, and its copy."""

import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest
import urllib.request

import harness

SEEDS = 600


def many(count=SEEDS):
    """A job of many small cases."""
    return ["run", "copy", "--count", "64", "--dtype", "fp32", "--provider", "builtin",
            "--seed", ",".join(str(seed) for seed in range(count))]


class FullDisk(unittest.TestCase):
    """On a small file system of its own."""

    def setUp(self):
        self.disk = tempfile.mkdtemp(prefix="assay-disk-")
        self.addCleanup(shutil.rmtree, self.disk, True)

    def mount(self, size):
        if os.geteuid() != 0:
            self.skipTest("mounting a small file system needs root")
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", self.disk],
                              capture_output=True, check=False)
        if done.returncode != 0:
            self.skipTest("no tmpfs can be mounted here")
        self.addCleanup(subprocess.run, ["umount", self.disk], check=False)

    def fill(self):
        """Takes all that is left of the disk; the file's path."""
        path = os.path.join(self.disk, "others")
        with open(path, "wb", buffering=0) as file:
            for size in (1 << 20, 4096):
                try:
                    while True:
                        file.write(b"x" * size)
                except OSError:
                    pass
        return path

    def test_results_wait_for_room_and_none_is_lost(self):
        self.mount("600k")
        with harness.Daemon(os.path.join(self.disk, "state")) as daemon:
            client = subprocess.Popen([harness.ASSAY, *many(), "--format", "json"], text=True,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                      env={**os.environ, "ASSAY_TARGET": daemon.grpc})
            try:
                harness.wait_until(lambda: daemon.metric("assay_store_full"), 60, "the disk is full")
                harness.wait_until(lambda: daemon.metric("assay_store_held_updates"), 60, "results wait")
                self.assertIn("event=store.full", daemon.log_text())
                refused = daemon.run(*many(1))
                self.assertEqual(refused.code, 3, refused)
                self.assertIn("cannot be stored", refused.err)
                self.assertEqual(daemon.run("devices").code, 0, "what needs no room is answered")
                with urllib.request.urlopen(f"http://{daemon.metrics}/health") as answer:
                    health = json.load(answer)
                self.assertTrue(health["serving"], health)
                self.assertIn("the store is full", " ".join(health["warnings"]))
                subprocess.run(["mount", "-o", "remount,size=64m", self.disk], check=True)
                out, err = client.communicate(timeout=600)
            finally:
                client.kill()
                client.wait()
            self.assertEqual(client.returncode, 0, err)
            job = re.search(r'"job": "(jobs/\w+)"', out).group(1)
            report = daemon.run("report", job, "--format", "json").json()
            self.assertEqual(report["passed"], SEEDS)
            harness.wait_until(lambda: daemon.metric("assay_store_full") == 0, 60, "there is room")
            self.assertEqual(daemon.metric("assay_store_held_updates"), 0)
            self.assertEqual(daemon.run(*many(1)).code, 0)

    def test_a_daemon_starts_on_a_full_disk_and_a_deletion_makes_room(self):
        self.mount("96m")
        state = os.path.join(self.disk, "state")
        with harness.Daemon(state) as daemon:
            job = daemon.run(*many(100), "--format", "json").json()["job"]
        self.assertTrue(os.path.exists(os.path.join(state, "assay.reserve")))
        others = self.fill()
        with harness.Daemon(state) as daemon:
            self.assertEqual(daemon.metric("assay_store_full"), 1)
            self.assertEqual(daemon.run("jobs").code, 0)
            self.assertEqual(daemon.run(*many(1)).code, 3)
            self.assertEqual(daemon.run("admin", "delete", job).code, 0, "it makes room")
            os.unlink(others)
            harness.wait_until(lambda: daemon.metric("assay_store_full") == 0, 60, "there is room")
            self.assertEqual(daemon.run(*many(1)).code, 0)
        self.assertTrue(os.path.exists(os.path.join(state, "assay.reserve")), "set aside again")

    def test_a_start_waits_for_room_where_nothing_is_set_aside(self):
        self.mount("96m")
        state = os.path.join(self.disk, "state")
        with harness.Daemon(state) as daemon:
            job = daemon.run(*many(1), "--format", "json").json()["job"]
        os.unlink(os.path.join(state, "assay.reserve"))
        others = self.fill()
        log = tempfile.NamedTemporaryFile("r", encoding="utf-8")
        self.addCleanup(log.close)

        def start():
            with open(log.name, "w", encoding="utf-8") as written:
                started = subprocess.Popen(
                    [harness.ASSAYD, "--listen", "127.0.0.1:0", "--metrics-listen", "off", "--state-dir", state],
                    stdout=subprocess.PIPE, stderr=written, text=True)
            self.addCleanup(lambda: (started.kill(), started.wait(), started.stdout.close()))
            harness.wait_until(lambda: "event=store.full" in log.read(), 60, "it waits for room")
            log.seek(0)
            return started

        stopped = start()
        stopped.terminate()
        self.assertEqual(stopped.wait(harness.LONG), 0, "it can be stopped meanwhile")
        started = start()
        os.unlink(others)
        ready = started.stdout.readline()
        self.assertIn("127.0.0.1:", ready)
        target = re.search(r"127\.0\.0\.1:\d+", ready).group()
        shown = harness.run_client("report", job, "--target", target)
        self.assertEqual(shown.code, 0, shown)
        started.terminate()
        self.assertEqual(started.wait(harness.LONG), 0)

    def test_a_full_disk_does_not_keep_a_daemon_from_its_end(self):
        self.mount("600k")
        daemon = harness.Daemon(os.path.join(self.disk, "state"))
        submitted = daemon.run("submit", *many()[1:])
        self.assertEqual(submitted.code, 0, submitted)
        harness.wait_until(lambda: daemon.metric("assay_store_held_updates"), 60, "results wait")
        self.assertEqual(daemon.stop(), 0)


class Copy(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="assay-copy-")
        self.addCleanup(shutil.rmtree, self.folder, True)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    @staticmethod
    def results(daemon, job):
        """What the daemon has of a job, but for where it was asked."""
        return json.loads(daemon.run("report", job, "--format", "json").out.replace(daemon.grpc, ""))["tests"]

    def test_a_backup_is_a_store_that_a_daemon_starts_on(self):
        with harness.Daemon() as daemon:
            job = daemon.run(*many(100), "--format", "json").json()["job"]
            before = self.results(daemon, job)
            done = daemon.run("admin", "backup", self.path("copy.db"))
            self.assertEqual(done.code, 0, done)
            self.assertRegex(done.out, r"copy\.db: [\d.]+ [KM]iB\n")
            self.assertEqual(os.listdir(self.folder), ["copy.db"])
            self.assertEqual(os.stat(self.path("copy.db")).st_mode & 0o777, 0o600)
            self.assertFalse([n for n in os.listdir(daemon.state) if "backup" in n])
            again = daemon.run("admin", "backup", self.path("copy.db"))
            self.assertEqual(again.code, 2, again)
            self.assertIn("exists", again.err)
            nowhere = daemon.run("admin", "backup", self.path("none", "copy.db"))
            self.assertEqual(nowhere.code, 2, nowhere)
            self.assertIn("No such file", nowhere.err)
        os.mkdir(self.path("state"))
        os.rename(self.path("copy.db"), self.path("state", "assay.db"))
        with harness.Daemon(self.path("state")) as daemon:
            self.assertEqual(self.results(daemon, job), before)

    def test_a_damaged_store_is_told_by_metric_health_and_log(self):
        with harness.Daemon(self.path("state")) as daemon:
            self.assertEqual(daemon.metric("assay_store_damaged"), 0)
        with open(self.path("state", "assay.db"), "wb") as file:
            file.write(b"z" * 10_000)
        with harness.Daemon(self.path("state")) as daemon:
            self.assertEqual(daemon.metric("assay_store_damaged"), 1)
            self.assertIn("event=store.damaged", daemon.log_text())
            with urllib.request.urlopen(f"http://{daemon.metrics}/health") as answer:
                health = json.load(answer)
            self.assertTrue(health["serving"], health)
            self.assertIn("the store was found damaged", " ".join(health["warnings"]))


if __name__ == "__main__":
    harness.main()
