"""The limits of the daemon, and its life under a service manager: each limit is hit and its answer
read, a watcher that sleeps costs nobody anything, and a reload keeps what runs."""

import glob
import importlib
import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.error
import urllib.request

import grpc

import harness
import tls_test

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SERVICE = "/assay.v1.ValidationService/"
# The smallest case.
COPY = ["copy", "--count", "64", "--dtype", "fp32", "--provider", "builtin", "--device", "cpu:0"]
# Far more events than a connection holds for a client that does not read.
MANY = 6000


class Messages:
    """The messages of the API, made for Python from proto/."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="assay-proto-")
        proto = os.path.join(ROOT, "proto")
        files = [os.path.relpath(os.path.join(at, name), proto)
                 for at, _, names in os.walk(os.path.join(proto, "assay", "v1")) for name in names
                 if name.endswith(".proto")]
        files += ["google/rpc/error_details.proto", "google/rpc/status.proto", "grpc/health/v1/health.proto"]
        subprocess.run(["protoc", f"-I{proto}", f"--python_out={self.folder}", *files], check=True)
        sys.path.insert(0, self.folder)
        # The module grpc has no place for grpc.health, which is read from its file.
        spec = importlib.util.spec_from_file_location("health_pb2", os.path.join(self.folder, "grpc/health/v1/health_pb2.py"))
        self.health = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.health)
        self.service = importlib.import_module("assay.v1.service_pb2")
        self.job = importlib.import_module("assay.v1.job_pb2")
        self.types = importlib.import_module("assay.v1.types_pb2")
        self.case = importlib.import_module("assay.v1.case_pb2")
        self.compare = importlib.import_module("assay.v1.compare_pb2")
        self.details = importlib.import_module("google.rpc.error_details_pb2")
        self.status = importlib.import_module("google.rpc.status_pb2")

    def jobs(self, cases, name=""):
        request = self.service.CreateJobRequest()
        for _ in range(cases):
            case = request.spec.cases.cases.add()
            case.name = name
            case.copy.count = 64
            case.dtype = self.types.DTYPE_FP32
            case.provider = "builtin"
        return request


def setUpModule():
    global M
    M = Messages()


def tearDownModule():
    shutil.rmtree(M.folder, ignore_errors=True)


def most_resident(pid):
    """The most that the process held in RAM [bytes]."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmHWM:"))


class Client:
    """A client with a connection of its own."""

    def __init__(self, address):
        # The window of a fast connection would grow to megabytes, and hold all that comes.
        self.channel = grpc.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1),
                                                               ("grpc.http2.bdp_probe", 0)])

    def unary(self, method, request, response):
        call = self.channel.unary_unary(SERVICE + method, request_serializer=type(request).SerializeToString,
                                        response_deserializer=response.FromString)
        return call(request, timeout=harness.LONG)

    def create(self, cases=1, request=None):
        return self.unary("CreateJob", request or M.jobs(cases), M.job.Job).name

    def cancel(self, job):
        return self.unary("CancelJob", M.service.CancelJobRequest(name=job), M.job.Job)

    def watch(self, job, after=0):
        request = M.service.WatchJobRequest(name=job, after_sequence=after)
        call = self.channel.unary_stream(SERVICE + "WatchJob", request_serializer=type(request).SerializeToString,
                                         response_deserializer=M.job.JobEvent.FromString)
        return call(request, timeout=harness.LONG)

    def health(self, name=""):
        request = M.health.HealthCheckRequest(service=name)
        call = self.channel.unary_unary("/grpc.health.v1.Health/Check",
                                        request_serializer=type(request).SerializeToString,
                                        response_deserializer=M.health.HealthCheckResponse.FromString)
        return M.health.HealthCheckResponse.ServingStatus.Name(call(request, timeout=harness.LONG).status)


def refusal(error):
    """What the error says to a program: the limit, whose, its value and the delay [s]."""
    details = M.status.Status.FromString(dict(error.trailing_metadata())["grpc-status-details-bin"])
    info, quota, retry = M.details.ErrorInfo(), M.details.QuotaFailure(), M.details.RetryInfo()
    for detail in details.details:
        for message in (info, quota, retry):
            if detail.Is(message.DESCRIPTOR):
                detail.Unpack(message)
    assert len(quota.violations) == 1, details
    return {"code": error.code(), "reason": info.reason, "limit": info.metadata["limit"],
            "value": info.metadata["value"], "client": info.metadata.get("client", ""),
            "subject": quota.violations[0].subject, "delay": retry.retry_delay.seconds}


class Limits(unittest.TestCase):
    def refused(self, call, limit, value, client="address ipv4:127.0.0.0/8"):
        with self.assertRaises(grpc.RpcError) as caught:
            call()
        self.assertEqual(caught.exception.code(), grpc.StatusCode.RESOURCE_EXHAUSTED, caught.exception)
        said = refusal(caught.exception)
        self.assertGreater(said.pop("delay"), 0)
        self.assertEqual(said, {"code": grpc.StatusCode.RESOURCE_EXHAUSTED, "reason": "LIMIT_REACHED", "limit": limit,
                                "value": str(value), "client": client, "subject": client or "all clients together"})
        return caught.exception.details()

    def test_jobs_that_wait(self):
        with harness.Daemon(flags=["--client-max-waiting-jobs", "2", "--max-waiting-jobs", "3"]) as daemon:
            client = Client(daemon.grpc)
            busy = client.create(MANY)
            next(client.watch(busy))
            waiting = [client.create() for _ in range(2)]
            said = self.refused(client.create, "client-max-waiting-jobs", 2)
            self.assertIn("may have 2 jobs that wait (client-max-waiting-jobs); try again in", said)
            refused = daemon.run("submit", *COPY)
            self.assertEqual(refused.code, 3, refused)
            self.assertIn("client-max-waiting-jobs", refused.err)
            self.assertEqual(daemon.metric("assay_limit_refusals_total", limit="client-max-waiting-jobs"), 2)
            self.assertEqual(daemon.metric("assay_limit_refusals_total", limit="max-watchers"), 0)
            for job in waiting:
                client.cancel(job)
            # The place is free once the job has ended.
            harness.wait_until(lambda: self.accepted(client), 60, "there is room again")
            client.cancel(busy)

    @staticmethod
    def accepted(client):
        try:
            return client.create()
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED, error
            return None

    def test_the_queue_of_all(self):
        with harness.Daemon(flags=["--max-waiting-jobs", "1"]) as daemon:
            client = Client(daemon.grpc)
            busy = client.create(MANY)
            next(client.watch(busy))
            client.create()
            self.refused(client.create, "max-waiting-jobs", 1, client="")
            client.cancel(busy)

    def test_cases_a_minute(self):
        with harness.Daemon(flags=["--client-cases-per-minute", "10"]) as daemon:
            client = Client(daemon.grpc)
            request = M.jobs(10)
            request.request_id = "once"
            name = client.create(request=request)
            self.assertEqual(client.create(request=request), name, "a retry costs nothing")
            self.assertIn("this job has 10 cases",
                          self.refused(lambda: client.create(10), "client-cases-per-minute", 10))

    def test_watchers_of_one_and_of_all(self):
        with harness.Daemon(flags=["--client-max-watchers", "2", "--max-watchers", "3"]) as daemon:
            client = Client(daemon.grpc)
            job = client.create(MANY)
            streams = [client.watch(job) for _ in range(2)]
            for stream in streams:
                next(stream)
            self.refused(lambda: next(client.watch(job)), "client-max-watchers", 2)
            # The command waits for as long as the daemon says, and then gives up.
            refused = daemon.run("watch", job, "--reconnect", "1s")
            self.assertEqual(refused.code, 3, refused)
            self.assertIn("client-max-watchers", refused.err)
            # The place is free a moment after the client has gone.
            for stream in streams:
                stream.cancel()
            client.cancel(job)
            watched = daemon.run("watch", job, "--reconnect", "60s")
            self.assertEqual(watched.code, 4, watched)

    def test_connections(self):
        folder = tempfile.mkdtemp(prefix="assay-limits-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        for listen, client in (("127.0.0.1:0", "address ipv4:127.0.0.0/8"), ("[::1]:0", "address ipv6:::1"),
                               (f"unix:{folder}/socket", f"uid:{os.geteuid()}")):
            with self.subTest(listen=listen), harness.Daemon(flags=["--client-max-connections", "2"], listen=listen) as daemon:
                known = [Client(daemon.grpc) for _ in range(2)]
                for one in known:
                    one.create()
                late = Client(daemon.grpc)
                self.refused(late.create, "client-max-connections", 2, client=client)
                refused = daemon.run("devices")
                self.assertEqual(refused.code, 3, refused)
                self.assertIn("may have 2 connections (client-max-connections)", refused.err)
                known[0].create()
                known[0].channel.close()
                harness.wait_until(lambda late=late: self.accepted(late), 60, "the late one is served when there is room")

    def test_connections_that_say_nothing(self):
        with harness.Daemon(flags=["--client-max-connections", "3"]) as daemon:
            host, port = daemon.grpc.rsplit(":", 1)
            silent = [socket.create_connection((host, int(port))) for _ in range(60)]
            # What is far beyond the limit is closed; a few wait to be told why.
            harness.wait_until(
                lambda: daemon.metric("assay_limit_refusals_total", limit="client-max-connections") >= 60 - 3 - 16, 60,
                "most are closed")
            for one in silent:
                one.close()
            harness.wait_until(lambda: daemon.run("devices").code == 0, 60, "there is room again")

    def test_connections_of_one_client_leave_descriptors_for_another(self):
        folder = tempfile.mkdtemp(prefix="assay-limits-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        program = os.path.join(folder, "assayd")
        with open(program, "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\nulimit -Sn 100\nexec {os.path.abspath(harness.ASSAYD)} "$@"\n')
        os.chmod(program, 0o755)
        with harness.Daemon(program=program, flags=["--insecure"], listen="[::]:0") as daemon:
            port = int(daemon.grpc.rsplit(":", 1)[1])
            silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(200)]
            try:
                other = daemon.run("devices", "--target", f"[::1]:{port}", "--reconnect", "0s")
                self.assertEqual(other.code, 0, other)
            finally:
                for one in silent:
                    one.close()

    def test_clients_are_told_apart(self):
        with harness.Daemon(flags=["--client-cases-per-minute", "1", "--insecure"], listen="[::]:0") as daemon:
            port = daemon.grpc.rsplit(":", 1)[1]
            for host, name in (("127.0.0.1", "ipv4:127.0.0.0/8"), ("[::1]", "ipv6:::1")):
                Client(f"{host}:{port}").create()
                # Another connection is the same client.
                self.refused(Client(f"{host}:{port}").create, "client-cases-per-minute", 1, client=f"address {name}")
        folder = tempfile.mkdtemp(prefix="assay-limits-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        path = f"unix:{folder}/socket"
        with harness.Daemon(flags=["--client-cases-per-minute", "1"], listen=path):
            Client(path).create()
            self.refused(Client(path).create, "client-cases-per-minute", 1, client=f"uid:{os.geteuid()}")

    def test_a_request_that_is_too_large(self):
        with harness.Daemon(flags=["--max-request-bytes", "4MiB"]) as daemon:
            request = M.jobs(1)
            request.spec.suite_text = "#" * (5 << 20)
            with self.assertRaises(grpc.RpcError) as caught:
                Client(daemon.grpc).create(request=request)
            self.assertEqual(caught.exception.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)

    def test_millions_of_empty_cases_take_no_memory(self):
        def within(field, message):
            head, left = bytes([field << 3 | 2]), len(message)
            while left > 0x7F:
                head, left = head + bytes([left & 0x7F | 0x80]), left >> 7
            return head + bytes([left]) + message

        cases = within(M.job.JobSpec.CASES_FIELD_NUMBER, b"\x0a\x00" * (8 << 20))  # 3 GB once they are parsed
        request = within(M.service.CreateJobRequest.SPEC_FIELD_NUMBER, cases)
        with harness.Daemon() as daemon:
            client = Client(daemon.grpc)
            client.create()
            before = most_resident(daemon.process.pid)
            with self.assertRaises(grpc.RpcError) as caught:
                client.channel.unary_unary(SERVICE + "CreateJob")(request, timeout=harness.LONG)
            self.assertEqual(caught.exception.code(), grpc.StatusCode.RESOURCE_EXHAUSTED, caught.exception.details())
            self.assertIn("in memory", caught.exception.details())
            self.assertLess(most_resident(daemon.process.pid) - before, 256 << 20)
            client.create()

    def test_a_request_without_cases_takes_no_memory(self):
        request = b"\x7a\x00" * (31 << 19)  # fields that no request has; 1 GB once they are parsed
        with harness.Daemon() as daemon:
            client = Client(daemon.grpc)
            client.create()
            before = most_resident(daemon.process.pid)
            for method in ("GetJob", "ListJobs", "ListDevices", "WatchJob", "UploadKernel"):
                streams = method in ("WatchJob", "UploadKernel")
                call = (client.channel.unary_stream if streams else client.channel.unary_unary)(SERVICE + method)
                with self.assertRaises(grpc.RpcError) as caught:
                    answer = call(request, timeout=harness.LONG)
                    if streams:
                        next(answer)
                if method == "UploadKernel":
                    self.assertEqual(caught.exception.code(), grpc.StatusCode.INVALID_ARGUMENT, caught.exception.details())
                    self.assertIn("header: must take at most", caught.exception.details())
                else:
                    self.assertEqual(caught.exception.code(), grpc.StatusCode.RESOURCE_EXHAUSTED, method)
                    self.assertIn("may have 262144 bytes in memory (max-request-bytes)", caught.exception.details())
            self.assertLess(most_resident(daemon.process.pid) - before, 256 << 20)
            self.assertEqual(daemon.metric("assay_limit_refusals_total", limit="max-request-bytes"), 4)
            client.create()

    def test_calls_of_one_connection(self):
        with harness.Daemon(flags=["--max-streams", "2"]) as daemon:
            client, other = Client(daemon.grpc), Client(daemon.grpc)
            hang = M.jobs(1)
            hang.spec.case_deadline.seconds = 600
            case = hang.spec.cases.cases[0]
            case.gemm.m = case.gemm.n = case.gemm.k = 8
            case.provider = "planted/hang"
            job = client.create(request=hang)
            streams = [client.watch(job) for _ in range(2)]
            for stream in streams:
                next(stream)
            request = M.service.GetJobRequest(name=job)
            method = {"method": SERVICE + "GetJob", "request_serializer": M.service.GetJobRequest.SerializeToString,
                      "response_deserializer": M.job.Job.FromString}
            third = client.channel.unary_unary(**method).future(request, timeout=harness.LONG)
            for _ in range(50):  # it had time for its answer
                other.unary("GetJob", request, M.job.Job)
            self.assertFalse(third.done(), "it waits in the client")
            streams[0].cancel()
            self.assertEqual(third.result().name, job)
            other.cancel(job)

    def test_memory_of_what_all_connections_receive(self):
        senders, part = 8, 24 << 20  # three times what they may
        request = M.service.CreateJobRequest()
        request.spec.suite_text = "#" * (part + (4 << 20))
        with harness.Daemon(flags=["--transport-bytes", "64MiB"]) as daemon:
            before = most_resident(daemon.process.pid)
            valves, clients, calls = [], [], []
            try:
                for _ in range(senders):
                    valves.append(Valve(daemon.grpc, most_sent=part))
                    clients.append(Client(valves[-1].address))
                    call = clients[-1].channel.unary_unary(SERVICE + "CreateJob",
                                                           request_serializer=type(request).SerializeToString)
                    calls.append(call.future(request, timeout=10 * harness.LONG))
                harness.wait_until(lambda: any(call.done() for call in calls) or all(v.stands.is_set() for v in valves), 60,
                                   "a request is refused, or all have sent their part")
                refused = [call.code() for call in calls if call.done()]
                self.assertTrue(refused, "all were taken")
                # On its line, or with the line.
                self.assertLessEqual(set(refused), {grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE})
                self.assertEqual(daemon.run("devices").code, 0, "another client is served")
                self.assertLess(most_resident(daemon.process.pid) - before, 144 << 20)
            finally:
                for call in calls:
                    call.cancel()
                for valve in valves:
                    valve.__exit__()

    def test_a_packed_request_is_not_unpacked(self):
        with harness.Daemon() as daemon:
            channel = grpc.insecure_channel(daemon.grpc, options=[("grpc.max_send_message_length", -1)])
            before = most_resident(daemon.process.pid)
            for method in ("GetJob", "CreateJob", "UploadKernel"):
                with self.assertRaises(grpc.RpcError) as caught:
                    channel.unary_unary(SERVICE + method)(bytes(256 << 20), timeout=harness.LONG,
                                                          compression=grpc.Compression.Gzip)
                self.assertEqual(caught.exception.code(), grpc.StatusCode.UNIMPLEMENTED, caught.exception.details())
            self.assertLess(most_resident(daemon.process.pid) - before, 128 << 20)
            Client(daemon.grpc).create()


class Watchers(unittest.TestCase):
    def test_watchers_that_sleep_change_nothing_for_another_and_are_dropped(self):
        with harness.Daemon(flags=["--watch-stall", "1s"]) as daemon:
            submitter = Client(daemon.grpc)
            job = submitter.create(MANY)
            clients = [Client(daemon.grpc) for _ in range(10)]
            asleep = [client.watch(job) for client in clients]
            for stream in asleep:
                stream.initial_metadata()  # the stream is open, and nobody reads it
            watched = daemon.run("watch", job, "--format", "jsonl", timeout=600)
            self.assertEqual(watched.code, 0, watched.err)
            self.assertEqual(len(watched.out.splitlines()), MANY)
            harness.wait_until(
                lambda: daemon.metric("assay_rpc_requests_total", method="WatchJob", code="UNAVAILABLE") >= 10, 60,
                "all that sleep are dropped")
            for client, stream in zip(clients, asleep):
                last = 0
                with self.assertRaises(grpc.RpcError) as caught:
                    for event in stream:
                        last = max(last, event.sequence)
                self.assertEqual(caught.exception.code(), grpc.StatusCode.UNAVAILABLE)
                self.assertIn("--watch-stall", caught.exception.details())
                rest = [e.sequence for e in client.watch(job, after=last) if e.sequence]
                self.assertEqual(rest, list(range(last + 1, MANY + 5)), "each comes back to where it was")

    def test_a_command_behind_a_line_that_stands_still_resumes_by_itself(self):
        with harness.Daemon(flags=["--watch-stall", "1s"]) as daemon:
            # More than the system holds of a connection, which is 4 MB.
            request = M.jobs(10_000, name="x" * 256)
            job = Client(daemon.grpc).create(request=request)
            self.assertEqual(daemon.run("watch", job, timeout=600).code, 0)
            # The command first asks for the job, with all of its cases.
            with Valve(daemon.grpc, request.ByteSize() + (512 << 10)) as valve:
                command = subprocess.Popen([harness.ASSAY, "watch", job, "--format", "jsonl"], stdout=subprocess.PIPE,
                                           stderr=subprocess.PIPE, text=True,
                                           env={**os.environ, "ASSAY_TARGET": valve.address})
                try:
                    harness.wait_until(
                        lambda: daemon.metric("assay_rpc_requests_total", method="WatchJob", code="UNAVAILABLE") == 1,
                        60, "it is dropped")
                    valve.open.set()  # what was on its way comes, and then the end of the connection
                    out, err = command.communicate(timeout=harness.LONG)
                finally:
                    command.kill()
                    command.wait()
            self.assertEqual(command.returncode, 0, err)
            self.assertIn("trying again", err)
            self.assertEqual(len(out.splitlines()), 10_000, "every result once")
            self.assertEqual(daemon.metric("assay_rpc_requests_total", method="WatchJob", code="OK"), 2)


class Valve:
    """A line to the daemon that stands still after some bytes to the client, or from it, until it is opened."""

    def __init__(self, address, most=None, most_sent=None):
        host, port = address.rsplit(":", 1)
        self.daemon = (host, int(port))
        self.most = most
        self.most_sent = most_sent
        self.open = threading.Event()
        self.stands = threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.sockets = [self.listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            daemon = socket.socket()
            daemon.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            daemon.connect(self.daemon)
            self.sockets += [client, daemon]
            threading.Thread(target=self._copy, args=(client, daemon, self.most_sent), daemon=True).start()
            threading.Thread(target=self._copy, args=(daemon, client, self.most), daemon=True).start()

    def _copy(self, source, target, most):
        copied = 0
        try:
            while data := source.recv(65536):
                copied += len(data)
                if most is not None and copied > most:
                    self.stands.set()
                    self.open.wait()
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.open.set()
        for one in self.sockets:
            one.close()


class ServiceManager:
    """What systemd does for a service of Type=notify."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.socket.settimeout(harness.LONG)
        self.said = []
        self.changed = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def close(self):
        self.socket.close()

    def _read(self):
        while True:
            try:
                text = self.socket.recv(4096).decode()
            except OSError:
                return
            with self.changed:
                self.said.append(dict(line.split("=", 1) for line in text.splitlines()))
                self.changed.notify_all()

    def wait(self, condition, what):
        with self.changed:
            if not self.changed.wait_for(lambda: condition(self.said), harness.LONG):
                raise AssertionError(f"{what}: {self.said}")

    def count(self, key):
        with self.changed:
            return sum(key in said for said in self.said)


class LifeCycle(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="assay-life-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def config(self, text):
        path = os.path.join(self.folder, "assayd.toml")
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write(text)
        os.rename(path + ".new", path)
        return path

    def test_a_service_manager_is_told_of_start_heartbeats_reload_and_end(self):
        manager = ServiceManager(self.folder)
        self.addCleanup(manager.close)
        daemon = harness.Daemon(environment={"NOTIFY_SOCKET": manager.path, "WATCHDOG_USEC": "300000"})
        try:
            manager.wait(lambda said: any("READY" in s for s in said), "ready")
            self.assertIn(daemon.grpc, next(s for s in manager.said if "READY" in s)["STATUS"])
            manager.wait(lambda said: sum("WATCHDOG" in s for s in said) >= 3, "heartbeats")
            daemon.process.send_signal(signal.SIGHUP)
            manager.wait(lambda said: sum("READY" in s for s in said) == 2, "ready again")
            reloading = next(s for s in manager.said if "RELOADING" in s)
            self.assertGreater(int(reloading["MONOTONIC_USEC"]), 0)
            self.assertEqual(daemon.run("run", *COPY).code, 0)
            children = []
            for path in glob.glob(f"/proc/{daemon.process.pid}/task/*/children"):
                with open(path, encoding="ascii") as file:
                    children += file.read().split()
            self.assertTrue(children)
            for child in children:
                with open(f"/proc/{child}/environ", "rb") as file:
                    self.assertNotIn(b"NOTIFY_SOCKET", file.read(), "no worker speaks for the daemon")
        finally:
            code = daemon.stop()
        self.assertEqual(code, 0)
        manager.wait(lambda said: any("STOPPING" in s for s in said), "stopping")
        self.assertEqual(manager.count("STOPPING"), 1)

    def test_a_reload_keeps_what_runs_and_takes_what_can_change(self):
        file = self.config("client-max-watchers = 1\n")
        with harness.Daemon(flags=["--config", file]) as daemon:
            client = Client(daemon.grpc)
            job = client.create(MANY)
            stream = client.watch(job)
            next(stream)
            self.config('client-max-watchers = 5\ncase-deadline = "7s"\nlog-level = "info"\n')
            daemon.process.send_signal(signal.SIGHUP)
            harness.wait_until(lambda: "config.needs_restart" in daemon.log_text(), 60, "it is read")
            self.assertIn("changed=client-max-watchers", daemon.log_text())
            self.assertIn("options=case-deadline", daemon.log_text())
            others = [client.watch(job) for _ in range(3)]
            for other in others:
                next(other)
            # A file that is wrong changes nothing.
            self.config("client-max-watchers = -1\n")
            daemon.process.send_signal(signal.SIGHUP)
            harness.wait_until(lambda: "config.reload_refused" in daemon.log_text(), 60, "it is refused")
            self.assertIn("assayd.toml:1:23: client-max-watchers must be", daemon.log_text())
            next(client.watch(job))
            last = [event for event in stream][-1]
            self.assertEqual(last.finished.job.counts.passed, MANY, "the job has run on, watched by the same stream")
            self.assertEqual(daemon.process.poll(), None)

    def test_a_reload_looks_at_certificates_and_roles(self):
        tls_test.make_certificates(self.folder)
        cert, key, roles = (os.path.join(self.folder, name) for name in ("server.pem", "server.key", "roles.toml"))

        def write_roles(role):
            with open(roles, "w", encoding="utf-8") as file:
                file.write(f'[[client]]\nname = "client"\nrole = "{role}"\n')
            os.chmod(roles, 0o600)

        write_roles("viewer")
        manager = ServiceManager(self.folder)
        self.addCleanup(manager.close)
        with harness.Daemon(flags=["--tls-cert", cert, "--tls-key", key, "--roles-file", roles],
                            environment={"NOTIFY_SOCKET": manager.path}) as daemon:
            manager.wait(lambda said: any("READY" in s for s in said), "ready")
            tls_test.make_certificates(self.folder)
            write_roles("operator")
            # Nobody connects, so no handshake and no call looks.
            daemon.process.send_signal(signal.SIGHUP)
            manager.wait(lambda said: sum("READY" in s for s in said) == 2, "ready again")
            for event in ("tls.reloaded", "roles.reloaded"):
                self.assertIn(f"event={event}", daemon.log_text())

    def test_health_for_load_balancers_and_for_people(self):
        with harness.Daemon(flags=["--health-listen", "127.0.0.1:0"]) as daemon:
            for address in (daemon.grpc, daemon.health):
                client = Client(address)
                self.assertEqual(client.health(), "SERVING")
                self.assertEqual(client.health("devices/cpu:0"), "SERVING")
                with self.assertRaises(grpc.RpcError) as caught:
                    client.health("devices/cpu:9")
                self.assertEqual(caught.exception.code(), grpc.StatusCode.NOT_FOUND)
            with urllib.request.urlopen(f"http://{daemon.metrics}/healthz", timeout=harness.LONG) as answer:
                self.assertEqual((answer.status, answer.read()), (200, b"ok\n"))
            with urllib.request.urlopen(f"http://{daemon.metrics}/health", timeout=harness.LONG) as answer:
                said = json.load(answer)
            self.assertEqual((said["status"], said["serving"], said["warnings"]), ("serving", True, []))
            self.assertIn(said["devices"]["cpu:0"], ("READY", "BUSY"))
            job = Client(daemon.grpc).create(MANY)
            stream = Client(daemon.grpc).watch(job)
            next(stream)
            daemon.process.send_signal(signal.SIGTERM)
            harness.wait_until(lambda: Client(daemon.health).health() == "NOT_SERVING", 60, "it drains")
            self.assertEqual(Client(daemon.health).health("devices/cpu:0"), "NOT_SERVING")
            with self.assertRaises(urllib.error.HTTPError) as caught:
                urllib.request.urlopen(f"http://{daemon.metrics}/healthz", timeout=harness.LONG)
            self.assertEqual((caught.exception.code, caught.exception.read()), (503, b"draining\n"))
            with urllib.request.urlopen(f"http://{daemon.metrics}/health", timeout=harness.LONG) as answer:
                self.assertEqual(json.load(answer)["status"], "draining")
            daemon.process.send_signal(signal.SIGHUP)  # comes too late, and ends nothing
            daemon.process.wait(harness.LONG)
            self.assertEqual(daemon.stop(), 0)


if __name__ == "__main__":
    harness.main()
