"""What the world does to a daemon, and what comes of it. Each row is a test, and the outcome is asserted.

| fault | outcome |
|---|---|
| a worker is stopped (SIGSTOP) | the case is an ERROR, timeout, and the next case passes |
| a worker answers late, before the deadline | the case passes, and the device has no other worker |
| a worker answers after the deadline | its answer counts for no case: the case is an ERROR, timeout, and the next one has a new worker |
| the daemon is stopped, and goes on | its clients wait, and the job passes |
| no space is left on the disk | results wait in memory, a metric and health say so; with space they are stored |
| the disk fails (EIO) | no job is taken, with the reason; what was stored before is still read, and with a disk that works the daemon takes jobs again |
| the disk fails while a job runs | the job ends, with the reason; what a client saw is stored |
| the disk is slow | the job passes, and nothing is lost |
| the clock jumps by a day, forth and back | running cases go on: no timeout, no negative time |
| the journal is cut, or bytes of it change | the daemon starts; the jobs that it has are the first ones that were told, with all that belongs to them |
| no descriptors are left | who is connected is served; with descriptors others are, too |
| a client is gone without a word | the daemon drops its watcher |
| the address space is nearly full | the daemon serves, or ends and the next one has all that was told |
| the daemon's certificate is about to expire, and nobody connects | the log warns |
| the client's certificate expires | its open stream goes on to the end, and a new connection is refused, as is a new call on an open one |
| the client's certificate is revoked | the same |
| the daemon's certificate is replaced | new connections are shown the new one, open streams and connections go on |

Shown elsewhere: a daemon that is killed (kills_test.py), a full file system (store_test.py), a worker
that crashes, exits, hangs, writes garbage into its channel or takes all memory (planted_test.py,
worker_deaths_test.py), one that answers with gigabytes or after its deadline
(tests/unit/server/supervisor_test.cc).
"""

import json
import mmap
import os
import random
import resource
import shutil
import signal
import socket
import sqlite3
import ssl
import struct
import subprocess
import tempfile
import threading
import time
import unittest

import grpc

import durability_test
import harness
import limits_test
import tls_test
from viewer import Viewer

LONG_RUN = os.environ.get("ASSAY_TEST_PART") == "long"
HERE = os.path.dirname(os.path.abspath(__file__))
GEMM = ["gemm", "--m", "24", "--n", "24", "--k", "24", "--dtype", "fp32", "--provider", "builtin"]
LONGER_GEMM = [word.replace("24", "192") for word in GEMM]
# Only a cancellation ends it.
HANG = ["gemm", "--m", "8", "--n", "8", "--k", "8", "--dtype", "fp32", "--provider", "planted/hang", "--deadline", "600s"]
DAY = 86400


def setUpModule():
    global SHIM
    limits_test.setUpModule()
    SHIM = os.path.join(limits_test.M.folder, "faults.so")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", SHIM, os.path.join(HERE, "faults.c"), "-ldl"], check=True)


def tearDownModule():
    limits_test.tearDownModule()


class Faults:
    """What faults.c does to a daemon that has `environment`."""

    WORKS, FULL, FAILS, SLOW = range(4)

    def __init__(self, folder):
        path = os.path.join(folder, "faults")
        with open(path, "wb") as file:
            file.write(bytes(16))
        with open(path, "r+b") as file:
            self.page = mmap.mmap(file.fileno(), 16)
        self.environment = {"LD_PRELOAD": SHIM, "ASSAY_FAULTS": path}

    def disk(self, does):
        self.page[0:8] = struct.pack("q", does)

    def clock(self, seconds):
        self.page[8:16] = struct.pack("q", seconds)


def children(pid):
    done = subprocess.run(["ps", "-o", "pid=,comm=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return [int(line.split()[0]) for line in done.stdout.splitlines() if "assay-worker" in line]


def submit(daemon, *words):
    done = daemon.run("submit", *words, "--format", "json")
    assert done.code == 0, done
    return json.loads(done.out)["name"]


def seeds(count):
    return ["--seed", ",".join(map(str, range(1, count + 1)))]


class Base(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="assay-faults-")
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.state = os.path.join(self.folder, "state")
        self.faults = Faults(self.folder)

    def daemon(self, *flags, **more):
        return harness.Daemon(self.state, flags=flags, environment=self.faults.environment, **more)

    def all_passed(self, daemon, job, count):
        watched = daemon.run("watch", job, "--format", "json")
        self.assertEqual(watched.code, 0, watched)
        self.assertEqual(watched.json()["passed"], count, watched)
        self.assertEqual(len(watched.json()["tests"]), count)
        return watched.json()


class Processes(Base):
    def test_a_worker_that_is_stopped(self):
        with self.daemon() as daemon:
            self.assertEqual(daemon.run("run", *GEMM).code, 0)
            worker, = children(daemon.process.pid)
            os.kill(worker, signal.SIGSTOP)
            run = daemon.run("run", *GEMM, *seeds(2), "--deadline", "10s", "--format", "json")
            self.assertEqual(run.code, 1, run)
            first, second = run.json()["tests"]
            self.assertEqual((first["verdict"], first["findings"][0]["reason"]), ("ERROR", "timeout"))
            self.assertEqual(second["verdict"], "PASSED")

    def test_a_worker_that_answers_late(self):
        with self.daemon() as daemon:
            job = submit(daemon, *LONGER_GEMM, *seeds(300), "--deadline", "600s")
            viewer = Viewer(daemon, job)
            harness.wait_until(lambda: viewer.seen, 20, "a first result")
            worker, = children(daemon.process.pid)
            os.kill(worker, signal.SIGSTOP)
            time.sleep(2)  # of the fault, not for luck
            os.kill(worker, signal.SIGCONT)
            self.assertEqual(len(viewer.end()), 300)
            self.all_passed(daemon, job, 300)
            self.assertEqual(children(daemon.process.pid), [worker])

    def test_a_daemon_that_is_stopped_and_goes_on(self):
        with self.daemon() as daemon:
            job = submit(daemon, *GEMM, *seeds(300))
            viewer = Viewer(daemon, job)
            harness.wait_until(lambda: viewer.seen, 20, "a first result")
            daemon.process.send_signal(signal.SIGSTOP)
            time.sleep(2)  # of the fault, not for luck
            daemon.process.send_signal(signal.SIGCONT)
            self.assertEqual(len(viewer.end()), 300)
            self.all_passed(daemon, job, 300)

    def test_no_descriptors_are_left(self):
        with self.daemon() as daemon:
            known = limits_test.Client(daemon.grpc)
            job = known.create()
            pid = daemon.process.pid
            usual = resource.prlimit(pid, resource.RLIMIT_NOFILE)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, usual[1]))  # what is open stays open
            refused = []
            for _ in range(20):
                refused.append(limits_test.Client(daemon.grpc))
                with self.assertRaises(grpc.RpcError) as caught:
                    request = limits_test.M.service.GetJobRequest(name=job)
                    refused[-1].channel.unary_unary(
                        limits_test.SERVICE + "GetJob", request_serializer=type(request).SerializeToString,
                        response_deserializer=limits_test.M.job.Job.FromString)(request, timeout=0.2)
                self.assertIn(caught.exception.code(), (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED))
                self.assertEqual(known.unary("GetJob", limits_test.M.service.GetJobRequest(name=job),
                                               limits_test.M.job.Job).name, job)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, usual)
            for client in refused:
                client.channel.close()
            self.assertEqual(daemon.run("run", *GEMM).code, 0, "with descriptors others are served")
            self.assertIsNone(daemon.process.poll())

    def test_the_address_space_is_nearly_full(self):
        daemon = self.daemon()
        told = [submit(daemon, *GEMM, *seeds(2), "--resume") for _ in range(5)]
        with open(f"/proc/{daemon.process.pid}/statm", encoding="ascii") as file:
            pages = int(file.read().split()[0])
        limit = pages * resource.getpagesize() + (24 << 20)
        resource.prlimit(daemon.process.pid, resource.RLIMIT_AS, (limit, limit))
        suite = 'name = "s"\ntitle = "t"\nversion = "1"\n' + "#" * (20 << 20)
        for _ in range(8):
            try:
                request = limits_test.M.service.CreateJobRequest()
                request.spec.suite_text = suite
                limits_test.Client(daemon.grpc).create(request=request)
            except grpc.RpcError as error:
                self.assertNotEqual(error.code(), grpc.StatusCode.DEADLINE_EXCEEDED, "it answers or ends")
        if daemon.process.poll() is None:
            told.append(submit(daemon, *GEMM, *seeds(2), "--resume"))
            daemon.kill()
        else:
            daemon.process.stdout.close()
            daemon.log.close()
        with self.daemon() as after:
            for job in told:
                self.all_passed(after, job, 2)


class Disk(Base):
    def test_no_space_is_left(self):
        with self.daemon() as daemon:
            self.assertEqual(daemon.run("run", *GEMM).code, 0)
            job = submit(daemon, *GEMM, *seeds(400))
            viewer = Viewer(daemon, job)
            harness.wait_until(lambda: viewer.seen, 20, "a first result")
            self.faults.disk(Faults.FULL)
            harness.wait_until(lambda: daemon.metric("assay_store_full"), 20, "the disk is full")
            refused = daemon.run("submit", *GEMM)
            self.assertEqual(refused.code, 3, refused)
            self.assertIn("cannot be stored", refused.err)
            self.faults.disk(Faults.WORKS)
            self.assertEqual(len(viewer.end()), 400)
            self.all_passed(daemon, job, 400)
            harness.wait_until(lambda: daemon.metric("assay_store_full") == 0, 20, "there is room")

    def test_the_disk_fails(self):
        with self.daemon() as daemon:
            before = submit(daemon, *GEMM, *seeds(3))
            self.all_passed(daemon, before, 3)
            self.faults.disk(Faults.FAILS)
            refused = daemon.run("submit", *GEMM)
            self.assertEqual(refused.code, 3, refused)
            self.assertIn("the job cannot be stored", refused.err)
            self.all_passed(daemon, before, 3)
            self.faults.disk(Faults.WORKS)
            self.assertEqual(daemon.run("run", *GEMM).code, 0)
            self.all_passed(daemon, before, 3)

    def test_the_disk_fails_while_a_job_runs(self):
        with self.daemon() as daemon:
            # Products that take long enough that most of them are left when the disk fails.
            job = submit(daemon, *LONGER_GEMM, *seeds(8000))
            viewer = Viewer(daemon, job)
            harness.wait_until(lambda: viewer.seen, 20, "a first result")
            self.faults.disk(Faults.FAILS)
            seen = viewer.end()
            self.assertLess(len(seen), 8000)
            self.assertIn("event=job.unwritable", daemon.log_text())
            self.faults.disk(Faults.WORKS)
            harness.wait_until(lambda: "end_time" in daemon.run("jobs", "--format", "json").json()["jobs"][0], 20,
                               "the job has ended")
            shown = daemon.run("report", job, "--format", "json").json()
            stored = {test["seed"]: test["digest"] for test in shown["tests"]}
            for test in seen:
                self.assertEqual(stored.get(test["seed"]), test["digest"], "a client saw what is not stored")
            self.assertEqual(daemon.run("run", *GEMM).code, 0)

    def test_a_slow_disk(self):
        with self.daemon() as daemon:
            self.faults.disk(Faults.SLOW)
            job = submit(daemon, *GEMM, *seeds(20))
            self.all_passed(daemon, job, 20)

    def test_a_journal_that_is_cut_or_changed(self):
        seed = random.SystemRandom().randrange(10**9)
        chance = random.Random(seed)
        daemon = self.daemon()
        told = [submit(daemon, *GEMM, *seeds(2)) for _ in range(6)]
        for job in told:
            self.all_passed(daemon, job, 2)
        daemon.kill()
        left = os.path.join(self.folder, "left")
        os.rename(self.state, left)
        journal = os.path.join(left, "assay.db-wal")
        self.assertGreater(os.path.getsize(journal), 100_000)
        for _ in range(60 if LONG_RUN else 8):
            shutil.rmtree(self.state, ignore_errors=True)
            shutil.copytree(left, self.state)
            with open(os.path.join(self.state, "assay.db-wal"), "r+b") as file:
                size = os.path.getsize(journal)
                if chance.random() < 0.5:
                    file.truncate(chance.randrange(size))
                else:
                    file.seek(chance.randrange(size - 8))
                    file.write(chance.randbytes(8))
            with self.subTest(seed=seed), self.daemon() as daemon:
                listed = [job["name"] for job in daemon.run("jobs", "--format", "json").json()["jobs"]]
                self.assertEqual(listed[::-1], told[:len(listed)], "the first ones, in their order")
                self.assertEqual([name for name in os.listdir(self.state) if "corrupt" in name], [])
                for job in listed[1:]:  # of all but the last there is all
                    self.assertEqual(len(daemon.run("report", job, "--format", "json").json()["tests"]), 2)
            with sqlite3.connect(os.path.join(self.state, "assay.db")) as store:
                self.assertEqual(store.execute("PRAGMA integrity_check").fetchall(), [("ok",)])


class Time(Base):
    def test_the_clock_jumps(self):
        with self.daemon() as daemon:
            job = submit(daemon, *GEMM, *seeds(600), "--deadline", "600s", "--job-deadline", "3600s")
            viewer = Viewer(daemon, job)
            harness.wait_until(lambda: viewer.seen, 20, "a first result")
            for jump in (DAY, -DAY, 365 * DAY, 0):
                self.faults.clock(jump)
                seen = len(viewer.seen)
                harness.wait_until(lambda seen=seen: len(viewer.seen) > seen or not viewer.thread.is_alive(), 20,
                                   "results go on")
            viewer.end()
            for test in self.all_passed(daemon, job, 600)["tests"]:
                self.assertTrue(0 <= test["duration_seconds"] < 600, test)


class Lines(Base):
    def test_a_client_that_is_gone_without_a_word(self):
        flags = ["--keepalive-time", "1s", "--keepalive-timeout", "1s", "--client-max-watchers", "1"]
        with self.daemon(*flags) as daemon, durability_test.Relay(daemon.grpc) as relay:
            job = submit(daemon, *HANG)
            gone = limits_test.Client(relay.address).watch(job)
            gone.initial_metadata()
            relay.vanish()

            def place():  # the only one that a client has
                stream = limits_test.Client(daemon.grpc).watch(job)
                try:
                    return next(stream)
                except grpc.RpcError as error:
                    self.assertEqual(error.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
                    return None
                finally:
                    stream.cancel()
            harness.wait_until(place, 60, "the watcher is dropped")
            self.assertEqual(daemon.run("cancel", job).code, 0)


class Certificates(Base):
    def setUp(self):
        super().setUp()
        tls_test.make_certificates(self.folder)
        tls_test.make_certificates(self.folder, "client")

    def path(self, name):
        return os.path.join(self.folder, name)

    def flags(self):
        return ["--tls-cert", self.path("server.pem"), "--tls-key", self.path("server.key"), "--tls-client-ca",
                self.path("ca.pem")]

    def client(self):
        return ["--tls-ca", self.path("ca.pem"), "--tls-cert", self.path("client.pem"), "--tls-key",
                self.path("client.key")]

    def channel(self, address):
        texts = []
        for name in ("ca.pem", "client.key", "client.pem"):
            with open(self.path(name), "rb") as file:
                texts.append(file.read())
        credentials = grpc.ssl_channel_credentials(*texts)
        client = limits_test.Client("127.0.0.1:1")
        client.channel = grpc.secure_channel(address, credentials, options=[
            ("grpc.use_local_subchannel_pool", 1), ("grpc.ssl_target_name_override", "localhost")])
        return client

    def test_a_certificate_expires_while_a_stream_is_open(self):
        with self.daemon(*self.flags()) as daemon:
            client = self.channel(daemon.grpc)
            job = client.create(cases=400)
            stream = client.watch(job)
            next(stream)
            self.faults.clock(3 * DAY)  # the certificates are for two
            refused = daemon.run("devices", *self.client())
            self.assertEqual(refused.code, 3, refused)
            self.assertIn("it may not accept the certificate of --tls-cert (expired", refused.err)
            late = daemon.run("devices", *self.client(), environment=self.faults.environment)
            self.assertEqual(late.code, 3, late)
            self.assertIn("its certificate is not trusted: it has expired, or", late.err)
            with self.assertRaises(grpc.RpcError) as caught:
                client.create()
            self.assertEqual(caught.exception.code(), grpc.StatusCode.UNAUTHENTICATED, "on an open connection, too")
            rest = list(stream)
            self.assertTrue(rest[-1].HasField("finished"), "the open stream goes on to its end")
            self.faults.clock(0)
            self.assertEqual(daemon.run("devices", *self.client()).code, 0)

    def test_a_certificate_is_about_to_expire_and_nobody_connects(self):
        tls_test.openssl(self.folder, "x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
                         "-out", "server.pem", "-days", "16", "-extfile", "ext")
        # The heartbeats look at it. A watchdog makes them quick.
        environment = {**self.faults.environment, "WATCHDOG_USEC": "300000"}
        with harness.Daemon(self.state, flags=self.flags(), environment=environment) as daemon:
            self.assertNotIn("tls.expires_soon", daemon.log_text(), "it is good for more than two weeks")
            self.faults.clock(3 * DAY)
            harness.wait_until(lambda: "event=tls.expires_soon" in daemon.log_text(), 60, "the log warns")

    def test_a_certificate_is_revoked_while_a_stream_is_open(self):
        tls_test.Tls.revoke(self)
        with self.daemon(*self.flags(), "--tls-client-crl", self.path("crl.pem")) as daemon:
            client = self.channel(daemon.grpc)
            job = client.create(cases=400)
            stream = client.watch(job)
            next(stream)
            tls_test.Tls.revoke(self, "client")
            harness.wait_until(lambda: daemon.run("devices", *self.client()).code == 3, 20, "it is refused")
            with self.assertRaises(grpc.RpcError) as caught:
                client.create()
            self.assertEqual(caught.exception.code(), grpc.StatusCode.UNAUTHENTICATED, "on an open connection, too")
            self.assertTrue(list(stream)[-1].HasField("finished"), "the open stream goes on to its end")

    def shown_to(self, address):
        """The serial number of the certificate that a new connection is shown."""
        context = ssl.create_default_context(cafile=self.path("ca.pem"))
        context.load_cert_chain(self.path("client.pem"), self.path("client.key"))
        context.set_alpn_protocols(["h2"])
        host, port = address.rsplit(":", 1)
        with socket.create_connection((host, int(port)), timeout=harness.LONG) as plain:
            with context.wrap_socket(plain, server_hostname="localhost") as secured:
                return secured.getpeercert()["serialNumber"]

    def test_the_daemons_certificate_is_replaced_while_a_stream_is_open(self):
        with self.daemon(*self.flags()) as daemon:
            client = self.channel(daemon.grpc)
            job = submit(daemon, *HANG, *self.client())
            stream = client.watch(job)
            next(stream)
            before = self.shown_to(daemon.grpc)
            new = os.path.join(self.folder, "new")
            os.mkdir(new)
            for name in ("ca.pem", "ca.key"):
                shutil.copy(self.path(name), new)
            tls_test.make_certificates(new)
            for name in ("server.key", "server.pem"):
                os.replace(os.path.join(new, name), self.path(name))
            harness.wait_until(lambda: self.shown_to(daemon.grpc) != before, 20, "the new certificate is shown")
            self.assertIn("event=tls.reloaded", daemon.log_text())
            self.assertEqual(client.cancel(job).name, job, "the connection from before is served")
            self.assertTrue(list(stream)[-1].HasField("finished"), "its stream goes on to the end")
            self.assertEqual(daemon.run("devices", *self.client()).code, 0)


if __name__ == "__main__":
    harness.main()
