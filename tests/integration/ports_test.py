"""What comes to a port and is no request: another protocol, garbage, far too much; and requests whose
names or texts are meant to do harm. Each has an answer, and the daemon serves the next caller."""

import os
import random
import shutil
import socket
import ssl
import tempfile
import unittest
import urllib.error
import urllib.request

import grpc

import harness
import limits_test
import tls_test

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
HARMFUL_NAMES = ["../../etc/passwd", "jobs/../../etc/passwd", "devices/../cpu:0", "baselines/../../x", "/etc/passwd",
                 "jobs/%2e%2e%2fx", "jobs/a/b", "jobs/", "", ".", "..", "jobs/a\x00b", "devices/cpu:0/../../x",
                 "baselines/\u202egnp", "jobs/\x1b[2J", "x" * 65536, "jobs/" + "a" * 65536]
CALLER = {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND}


def setUpModule():
    limits_test.setUpModule()


def tearDownModule():
    limits_test.tearDownModule()


def exchange(address, data):
    """Sends bytes and returns what comes back before the other end closes, or None if it does not."""
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=harness.LONG) as line:
        try:
            line.sendall(data)
            line.shutdown(socket.SHUT_WR)
            got = b""
            while piece := line.recv(65536):
                got += piece
            return got
        except socket.timeout:
            return None
        except OSError:  # closed by the other end, at any moment
            return b""


class Base(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = harness.Daemon()

    @classmethod
    def tearDownClass(cls):
        cls.daemon.stop()

    def tearDown(self):
        self.assertEqual(self.daemon.run("devices").code, 0, "it serves the next caller")
        self.assertIn("assay_build_info", self.daemon.scrape())


class Protocols(Base):
    def test_http_1_on_the_grpc_port(self):
        for words in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"POST /assay.v1.ValidationService/GetJob HTTP/1.0\r\n\r\n"):
            got = exchange(self.daemon.grpc, words)
            self.assertIsNotNone(got, "the connection is closed")
            self.assertNotIn(b"200 OK", got)

    def test_garbage_on_every_port(self):
        chance = random.Random(7)
        for address in (self.daemon.grpc, self.daemon.metrics):
            for n in range(30):
                data = chance.randbytes(chance.randrange(1, 5000))
                self.assertIsNotNone(exchange(address, PREFACE + data if n % 3 == 0 else data), "the connection is closed")

    def test_grpc_on_the_metrics_port(self):
        got = exchange(self.daemon.metrics, PREFACE)
        self.assertTrue(got is not None and not got.startswith(b"HTTP/1.1 200"), got)
        run = harness.run_client("devices", environment={"ASSAY_TARGET": self.daemon.metrics})
        self.assertEqual(run.code, 3, run)
        self.assertIn(self.daemon.metrics, run.err)

    def test_reflection_can_be_switched_off(self):
        method = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
        list_services = b"\x3a\x01*"

        def services(address):
            with grpc.insecure_channel(address) as channel:
                return b"".join(channel.stream_stream(method)(iter([list_services]), timeout=harness.LONG))

        self.assertIn(b"assay.v1.ValidationService", services(self.daemon.grpc))
        with harness.Daemon(flags=["--no-reflection"]) as daemon:
            with self.assertRaises(grpc.RpcError) as caught:
                services(daemon.grpc)
            self.assertEqual(caught.exception.code(), grpc.StatusCode.UNIMPLEMENTED, caught.exception)
            self.assertEqual(daemon.run("devices").code, 0)

    def test_headers_that_are_too_large(self):
        said = "received initial metadata size exceeds limit"
        client = limits_test.Client(self.daemon.grpc)
        request = limits_test.M.service.ListJobsRequest()
        call = client.channel.unary_unary(limits_test.SERVICE + "ListJobs",
                                          request_serializer=type(request).SerializeToString,
                                          response_deserializer=limits_test.M.service.ListJobsResponse.FromString)
        # Of a few bytes too many the whole is read, and the caller is told so. Then gRPC may close the connection,
        # and the next call may learn of it. After that there is an answer again.
        for size, codes in ((9000, {grpc.StatusCode.RESOURCE_EXHAUSTED}),
                            (1 << 20, {grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE})):
            with self.assertRaises(grpc.RpcError) as caught:
                call(request, timeout=harness.LONG, metadata=[("x-large", "a" * size)])
            self.assertIn(caught.exception.code(), codes, size)
            if caught.exception.code() == grpc.StatusCode.RESOURCE_EXHAUSTED:  # and not a line that is closed
                self.assertEqual(caught.exception.details(), said)
            try:
                call(request, timeout=harness.LONG)
            except grpc.RpcError as error:
                self.assertEqual((error.code(), error.details()), (grpc.StatusCode.UNAVAILABLE, "Socket closed"))
                call(request, timeout=harness.LONG)
        with tempfile.NamedTemporaryFile("w", suffix=".token") as token:  # of mode 0600
            token.write("a" * 9000)
            token.flush()
            run = self.daemon.run("devices", "--token-file", token.name)
            self.assertEqual((run.code, said in run.err), (3, True), run)

    def test_paths_of_the_metrics_port(self):
        for path in ("/../../etc/passwd", "/metrics/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd", "/etc/passwd",
                     "/" + "a" * 60000):
            got = exchange(self.daemon.metrics, b"GET " + path.encode() + b" HTTP/1.0\r\n\r\n")
            self.assertNotIn(b"root:", got)
            self.assertFalse(got.startswith((b"HTTP/1.0 200", b"HTTP/1.1 200")), (path, got[:100]))
        large = b"GET /metrics HTTP/1.0\r\nx: " + b"a" * (1 << 20) + b"\r\n\r\n"
        self.assertIsNotNone(exchange(self.daemon.metrics, large), "the connection is closed")


class Names(Base):
    def code(self, method, request):
        call = limits_test.Client(self.daemon.grpc).channel.unary_unary(
            limits_test.SERVICE + method, request_serializer=lambda m: m if isinstance(m, bytes) else m.SerializeToString(),
            response_deserializer=lambda data: data)
        with self.assertRaises(grpc.RpcError) as caught:
            call(request, timeout=harness.LONG)
        return caught.exception.code()

    def test_names_that_lead_elsewhere(self):
        service = limits_test.M.service
        for method, make in (("GetJob", service.GetJobRequest), ("CancelJob", service.CancelJobRequest),
                             ("DeleteJob", service.DeleteJobRequest), ("ReleaseDevice", service.ReleaseDeviceRequest),
                             ("GetBaseline", service.GetBaselineRequest), ("DeleteBaseline", service.DeleteBaselineRequest),
                             ("WatchJob", service.WatchJobRequest)):
            for name in HARMFUL_NAMES:
                with self.subTest(method=method, name=name[:40]):
                    self.assertIn(self.code(method, make(name=name)), CALLER)

    def test_names_within_a_request_that_lead_elsewhere(self):
        service = limits_test.M.service
        job = limits_test.Client(self.daemon.grpc).create()
        before = set(os.listdir(self.daemon.state))

        def results(name):
            return service.ListCaseResultsRequest(job=name)

        def of_a_job(name):
            request = service.CreateBaselineRequest(baseline_id="fine")
            request.baseline.job = name
            return request

        def of_an_id(name):
            request = service.CreateBaselineRequest(baseline_id=name)
            request.baseline.job = job
            return request

        def as_baseline(name):
            request = service.CompareBaselinesRequest()
            request.baseline.name, request.current.name = name, "baselines/fine"
            return request

        def as_current(name):
            request = service.CompareBaselinesRequest()
            request.baseline.inline.name, request.current.name = "mine", name
            return request

        for method, make in (("ListCaseResults", results), ("CreateBaseline", of_a_job), ("CreateBaseline", of_an_id),
                             ("CompareBaselines", as_baseline), ("CompareBaselines", as_current)):
            for name in HARMFUL_NAMES:
                if make is of_an_id and not name:
                    continue  # the daemon chooses one
                with self.subTest(method=method, make=make.__name__, name=name[:40]):
                    self.assertIn(self.code(method, make(name)), CALLER)
        own = ("assay.db", "audit", "ceilings")
        self.assertEqual([name for name in set(os.listdir(self.daemon.state)) - before if not name.startswith(own)], [],
                         "no file comes of it")
        # A name of the caller's own times is repeated, and the answer still fits into a trailer.
        request = service.CompareBaselinesRequest()
        request.baseline.inline.name = request.current.inline.name = "x" * 65536
        self.assertEqual(self.code("CompareBaselines", request), grpc.StatusCode.FAILED_PRECONDITION)

    def test_a_suite_that_lies_elsewhere(self):
        with tempfile.TemporaryDirectory(prefix="assay-suites-") as folder:
            inside = os.path.join(folder, "suites")
            os.mkdir(inside)
            text = 'name = "s"\ntitle = "t"\nversion = "1"\n[[case]]\nop = "copy"\ncount = 8\ndtype = "fp32"\n'
            for path in (os.path.join(folder, "outside.toml"), os.path.join(inside, "inside.toml")):
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
            with harness.Daemon(flags=["--suites-dir", inside]) as daemon:
                self.assertEqual(daemon.run("run", "--suite", "inside").code, 0)
                for name in ("../outside", folder + "/outside", "./inside", "inside.toml", "../suites/inside", "inside\x00"):
                    request = limits_test.M.service.CreateJobRequest()
                    request.spec.suite = name
                    with self.assertRaises(grpc.RpcError) as caught:
                        limits_test.Client(daemon.grpc).create(request=request)
                    self.assertIn(caught.exception.code(), CALLER, name)

    def test_texts_that_a_terminal_would_obey(self):
        for text in ("a\x1b[2Jb", "a\x00b", "a\u202eb", "a\nb", "a\x7fb", "\u2066a", "x" * 65536):
            for field in ("case", "label", "label's key", "request id", "suite file"):
                request = limits_test.M.jobs(1, name=text if field == "case" else "")
                if field.startswith("label"):
                    request.spec.labels[text if "key" in field else "k"] = text
                elif field == "request id":
                    request.request_id = text
                elif field == "suite file":
                    request.spec.Clear()
                    request.spec.suite_text = "name = 7"
                    request.spec.suite_file = text
                with self.subTest(field=field, text=text[:20]):
                    self.assertEqual(self.code("CreateJob", request), grpc.StatusCode.INVALID_ARGUMENT)
        self.assertFalse({"\x1b", "\x00", "\u202e", "\x7f"} & set(self.daemon.log_text()))

    def test_bytes_that_are_no_message(self):
        label = bytes([10, 1, ord("k"), 18, 2, 0xC3, 0x28])  # k: no UTF-8
        spec = bytes([12 << 3 | 2, len(label)]) + label
        for name, data in (("no UTF-8", bytes([1 << 3 | 2, len(spec)]) + spec), ("cut", b"\x0a\xff"),
                           ("no tag", b"\xff" * 30), ("groups", b"\x0b" * 5000)):
            with self.subTest(name):
                self.assertEqual(self.code("CreateJob", data), grpc.StatusCode.INVALID_ARGUMENT)
        self.assertEqual(self.code("GetJob", b"\x0a\xff"), grpc.StatusCode.INVALID_ARGUMENT)


class Tls(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="assay-ports-")
        self.addCleanup(shutil.rmtree, self.folder, True)
        tls_test.make_certificates(self.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def test_plaintext_to_tls_ports_and_the_reverse(self):
        flags = ["--tls-cert", self.path("server.pem"), "--tls-key", self.path("server.key"), "--metrics-tls"]
        with harness.Daemon(flags=flags) as daemon:
            plain = daemon.run("devices")
            self.assertEqual(plain.code, 3, plain)
            self.assertIn("does it ask for TLS (--tls-ca)?", plain.err)
            for address in (daemon.grpc, daemon.metrics):
                for data in (PREFACE, b"GET /metrics HTTP/1.0\r\n\r\n"):
                    got = exchange(address, data)
                    self.assertTrue(got is not None and b"assay_" not in got, got)
            self.assertEqual(daemon.run("devices", "--tls-ca", self.path("ca.pem")).code, 0)
        with harness.Daemon() as daemon:
            for address in (daemon.grpc, daemon.metrics):
                secured = daemon.run("devices", "--tls-ca", self.path("ca.pem"), "--target", address)
                self.assertEqual(secured.code, 3, secured)
                self.assertIn("it does not speak TLS on this port", secured.err)
            host, port = daemon.metrics.rsplit(":", 1)
            with socket.create_connection((host, int(port)), timeout=harness.LONG) as line:
                with self.assertRaises(OSError):
                    ssl.create_default_context(cafile=self.path("ca.pem")).wrap_socket(line, server_hostname="localhost")
            self.assertEqual(daemon.run("devices").code, 0)
            self.assertIn("assay_build_info", daemon.scrape())

    def test_certificates_that_prove_nothing(self):
        folder = self.folder
        tls_test.make_certificates(folder, "client")
        tls_test.make_certificates(folder, "elsewhere", "DNS:elsewhere.example")
        tls_test.openssl(folder, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
                         "self.key", "-out", "self.pem", "-days", "2", "-subj", "/CN=client")
        for name in ("csr", "key"):
            shutil.copy(self.path(f"client.{name}"), self.path(f"expired.{name}"))
        tls_test.openssl(folder, "x509", "-req", "-in", "expired.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-out", "expired.pem",
                         "-days", "-1")
        mutual = ["--tls-cert", self.path("server.pem"), "--tls-key", self.path("server.key"), "--tls-client-ca",
                  self.path("ca.pem")]
        with harness.Daemon(flags=mutual) as daemon:
            ca = ["--tls-ca", self.path("ca.pem")]
            refused = "may not accept the certificate of --tls-cert (expired, revoked, or of an authority that it does not know)"
            for name, code, said in (("client", 0, ""), ("self", 3, refused), ("expired", 3, "the certificate of --tls-cert has expired")):
                run = daemon.run("devices", *ca, "--tls-cert", self.path(f"{name}.pem"), "--tls-key", self.path(f"{name}.key"))
                self.assertEqual(run.code, code, (name, run))
                self.assertIn(said, run.err)
        wrong = ["--tls-cert", self.path("elsewhere.pem"), "--tls-key", self.path("elsewhere.key")]
        with harness.Daemon(flags=wrong) as daemon:
            run = daemon.run("devices", "--tls-ca", self.path("ca.pem"))
            self.assertEqual(run.code, 3, run)
            self.assertIn("its certificate is for another name (--tls-server-name)", run.err)
            named = daemon.run("devices", "--tls-ca", self.path("ca.pem"), "--tls-server-name", "elsewhere.example")
            self.assertEqual(named.code, 0, named)


if __name__ == "__main__":
    harness.main()
