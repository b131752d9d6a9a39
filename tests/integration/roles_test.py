"""Who may do what: roles by certificate and by token, refusals, and the log's line of each change."""

import hashlib
import os
import re
import shutil
import ssl
import struct
import subprocess
import tempfile
import unittest
import urllib.error
import urllib.request

import grpc

import compare_test
import harness
import limits_test
import tls_test

# The smallest case.
COPY = ["copy", "--count", "64", "--dtype", "fp32", "--device", "cpu:0"]
# What each role may do beyond the one before it; the rest it is refused.
VIEWER = [["devices"], ["kernels"], ["suites"], ["jobs"], ["show", "JOB"], ["report", "JOB"], ["watch", "JOB"],
          ["baseline", "list"]]
OPERATOR = [["run", *COPY], ["devices", "--ceilings"], ["cancel", "JOB"], ["devices", "release", "cpu:0"]]
ADMIN = [["baseline", "delete", "none-such"], ["admin", "delete", "jobs/nonesuch"], ["admin", "backup", "COPY"]]


def setUpModule():
    limits_test.setUpModule()


def tearDownModule():
    limits_test.tearDownModule()


def write(path, text, mode=0o600):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, mode)
    return path


def client(name, role):
    return f'[[client]]\nname = "{name}"\nrole = "{role}"\n'


def token(secret, role, name="bearer"):
    digest = hashlib.sha256(secret.encode()).hexdigest()
    return f'[[token]]\nname = "{name}"\nsha256 = "{digest}"\nrole = "{role}"\n'


class Roles(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="assay-roles-")
        tls_test.make_certificates(cls.folder)
        for name in ("viewer", "operator", "admin", "stranger"):
            tls_test.make_certificates(cls.folder, name)
        cls.file = write(cls.path("roles.toml"),
                         "".join(client(name, name) for name in ("viewer", "operator", "admin")) +
                         token("of-the-night", "operator", "nightly"))
        cls.daemon = harness.Daemon(flags=["--tls-cert", cls.path("server.pem"), "--tls-key", cls.path("server.key"),
                                           "--tls-client-ca", cls.path("ca.pem"), "--roles-file", cls.file])
        made = cls.run_as("admin", "run", *COPY, "--format", "json")
        assert made.code == 0, made
        cls.job = made.json()["job"]

    @classmethod
    def tearDownClass(cls):
        cls.daemon.stop()
        shutil.rmtree(cls.folder, ignore_errors=True)

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder, name)

    @classmethod
    def run_as(cls, name, *words, extra=()):
        return cls.daemon.run(*words, "--tls-ca", cls.path("ca.pem"), "--tls-cert", cls.path(f"{name}.pem"),
                              "--tls-key", cls.path(f"{name}.key"), *extra)

    def test_each_role_may_do_what_it_may_and_nothing_else(self):
        rows = [(VIEWER, {"viewer", "operator", "admin"}), (OPERATOR, {"operator", "admin"}), (ADMIN, {"admin"})]
        for calls, allowed in rows:
            for words in calls:
                for name in ("stranger", "viewer", "operator", "admin"):
                    asked = [{"JOB": self.job, "COPY": self.path(f"{name}.db")}.get(word, word) for word in words]
                    run = self.run_as(name, *asked)
                    refused = "does not allow this" in run.err
                    self.assertEqual(refused, name not in allowed, (name, asked, run))
                    if refused:
                        self.assertEqual(run.code, 3, (name, asked, run))
                        self.assertRegex(run.err, rf"needs the role \w+; certificate {name} has (no role|{name})")

    def test_who_may_not_use_a_device_compares_nothing_on_it(self):
        one = self.path("one.npy")
        with open(one, "wb") as file:
            file.write(compare_test.npy("<f4", (2,), struct.pack("<2f", 1, 2)))
        self.assertEqual(self.run_as("operator", "compare", one, one).code, 0)
        refused = self.run_as("viewer", "compare", one, one)
        self.assertEqual(refused.code, 3, refused)
        self.assertIn("CompareTensors needs the role operator; certificate viewer has viewer", refused.err)

    # What is no request would be found before the role, if it were parsed before.
    def test_the_role_is_asked_before_a_request_is_parsed(self):
        def read(name):
            with open(self.path(name), "rb") as file:
                return file.read()

        code = grpc.StatusCode
        large, damaged = b"\x7a\x00" * (31 << 19), b"\x0a\x7f"
        before = limits_test.most_resident(self.daemon.process.pid)
        for name, method, request, wanted in (("stranger", "GetJob", large, code.PERMISSION_DENIED),
                                              ("stranger", "GetJob", damaged, code.PERMISSION_DENIED),
                                              ("stranger", "UploadKernel", large, code.PERMISSION_DENIED),
                                              ("viewer", "CancelJob", large, code.PERMISSION_DENIED),
                                              ("viewer", "CancelJob", damaged, code.PERMISSION_DENIED),
                                              ("viewer", "GetJob", large, code.RESOURCE_EXHAUSTED),
                                              ("operator", "CancelJob", large, code.RESOURCE_EXHAUSTED),
                                              ("operator", "CancelJob", damaged, code.INVALID_ARGUMENT)):
            creds = grpc.ssl_channel_credentials(read("ca.pem"), read(f"{name}.key"), read(f"{name}.pem"))
            with grpc.secure_channel(self.daemon.grpc, creds) as channel, self.assertRaises(grpc.RpcError) as caught:
                channel.unary_unary(limits_test.SERVICE + method)(request, timeout=harness.LONG)
            self.assertEqual(caught.exception.code(), wanted, (name, method, caught.exception.details()))
        self.assertLess(limits_test.most_resident(self.daemon.process.pid) - before, 256 << 20)

    def test_a_token_is_a_role_too(self):
        right = write(self.path("right.token"), "of-the-night\n")
        wrong = write(self.path("wrong.token"), "of-the-day\n")
        job = ["run", *COPY]
        self.assertEqual(self.run_as("stranger", *job, extra=["--token-file", right]).code, 0)
        self.assertEqual(self.run_as("viewer", *job, extra=["--token-file", right]).code, 0, "the higher of both")
        unknown = self.run_as("admin", *job, extra=["--token-file", wrong])
        self.assertEqual(unknown.code, 3, unknown)
        self.assertIn("does not know this caller: this token is not known here", unknown.err)
        self.assertNotIn("of-the-day", self.daemon.log_text())
        self.assertNotIn("of-the-night", self.daemon.log_text())

    def test_a_token_stays_secret(self):
        read_by_others = write(self.path("open.token"), "of-the-night\n", 0o644)
        run = self.run_as("viewer", "devices", extra=["--token-file", read_by_others])
        self.assertEqual(run.code, 2, run)
        self.assertIn(f"chmod 0600 {read_by_others}", run.err)
        two = write(self.path("two.token"), "of the night\n")
        self.assertIn("must hold one token", self.run_as("viewer", "devices", extra=["--token-file", two]).err)
        right = write(self.path("right.token"), "of-the-night\n")
        for there in ("n1.example:7576", "127.example:7576", "10.0.0.1:7576", "localhost.example:7576"):
            plain = harness.run_client("devices", "--target", there, "--token-file", right)
            self.assertEqual(plain.code, 2, plain)
            self.assertIn(f"is not sent to {there} in plaintext", plain.err)

    def test_every_change_is_in_the_log_and_no_look(self):
        before = len(self.daemon.log_text())
        made = self.run_as("operator", "run", *COPY, "--format", "json")
        job = made.json()["job"]
        self.run_as("operator", "jobs")
        self.run_as("viewer", "cancel", job)
        self.run_as("admin", "cancel", job)
        self.run_as("admin", "baseline", "delete", "none-such")
        lines = [line for line in self.daemon.log_text()[before:].splitlines() if "event=audit" in line]
        found = [re.search(r'who="certificate (\S+)" role=(\S+) peer=\S+ call=(\S+) target=(\S+) result=(\S+)', line).groups() for line in lines]
        self.assertEqual(found, [("operator", "operator", "CreateJob", job, "OK"),
                                 ("admin", "admin", "CancelJob", job, "OK"),
                                 ("admin", "admin", "DeleteBaseline", "baselines/none-such", "NOT_FOUND")])
        listed = self.run_as("admin", "admin", "audit", "--limit", "3", "--format", "json").json()["events"]
        self.assertEqual([(event["who"], event["role"], event["call"], event["target"], event["result"])
                          for event in reversed(listed)], [("certificate " + who, *rest) for who, *rest in found])
        self.assertRegex(self.run_as("admin", "admin", "audit", "--limit", "1").out,
                         r"TIME +WHO .*\n *20\d\d-\S+ \S+ +certificate admin +admin +ListAuditEvents +OK")
        refused = [line for line in self.daemon.log_text()[before:].splitlines() if "event=access.refused" in line]
        self.assertEqual(len(refused), 1, refused)
        self.assertIn("call=CancelJob", refused[0])
        self.assertIn("certificate viewer has viewer", refused[0])
        peeps = self.run_as("operator", "admin", "audit")
        self.assertEqual(peeps.code, 3, peeps)
        self.assertIn("ListAuditEvents needs the role admin", peeps.err)


class Audit(unittest.TestCase):
    """Each row of the daemon's table that is audited leaves its line, whatever the answer is."""

    def audited(self):
        with open(os.path.join(limits_test.ROOT, "server/auth/role.cc"), encoding="utf-8") as file:
            return set(re.findall(r'\{"([^"]+)", Role::k\w+, true\}', file.read()))

    def call(self, method, requests):
        """Makes a call of any kind, reads its answers to the end, and returns the name of its code."""
        about = limits_test.M.service.DESCRIPTOR.services_by_name["ValidationService"].methods_by_name[method]
        kind = ("stream_" if about.client_streaming else "unary_") + ("stream" if about.server_streaming else "unary")
        made = getattr(self.client.channel, kind)(limits_test.SERVICE + method,
                                                  request_serializer=lambda message: message.SerializeToString())
        given = iter(requests) if about.client_streaming else requests[0]
        try:
            answer = made(given, timeout=harness.LONG)
            if about.server_streaming:
                list(answer)
            return "OK"
        except grpc.RpcError as error:
            return error.code().name

    def test_every_audited_call_leaves_one_line(self):
        service = limits_test.M.service
        made = {}  # audited name -> target, result
        with harness.Daemon() as daemon:
            self.client = limits_test.Client(daemon.grpc)
            made["CreateJob"] = (job := self.client.create(), "OK")
            list(self.client.watch(job))
            baseline = service.CreateBaselineRequest(baseline_id="b")
            baseline.baseline.job = job
            for name, request, target in (
                    ("CancelJob", service.CancelJobRequest(name=job), job),
                    ("CreateBaseline", baseline, None),
                    ("DeleteBaseline", service.DeleteBaselineRequest(name="baselines/b"), "baselines/b"),
                    ("ReleaseDevice", service.ReleaseDeviceRequest(name="devices/cpu:0"), "devices/cpu:0"),
                    ("DeleteJob", service.DeleteJobRequest(name=job), job),
                    ("ListDevices.measure_ceilings", service.ListDevicesRequest(measure_ceilings=True), None),
                    ("BackupStore", service.BackupStoreRequest(), None),
                    ("ListAuditEvents", service.ListAuditEventsRequest(), None),
                    ("CompareTensors", None, None), ("ValidateExternal", None, None), ("UploadKernel", None, None)):
                made[name] = (target, self.call(name.split(".")[0], [] if request is None else [request]))
            self.assertEqual(set(made), self.audited())
            for name in ("CancelJob", "DeleteJob", "ReleaseDevice", "ListDevices.measure_ceilings", "BackupStore", "ListAuditEvents"):
                self.assertEqual(made[name][1], "OK", name)

            def lines():  # the last one is written when its stream has ended
                return [line for line in daemon.log_text().splitlines() if "event=audit" in line]

            harness.wait_until(lambda: len(lines()) >= len(made), 20, "all lines are there")
            found = {}
            for line in lines():
                who, role, name, target, result = re.search(
                    r'who=(.+?) role=(\S+) peer=\S+ call=(\S+) target=(\S*) result=(\S+)', line).groups()
                self.assertNotIn(name, found, "one line a call")
                self.assertEqual((who.strip('"').split(":")[0], role), ("address ipv4", "admin"), line)
                found[name] = (target.strip('"'), result)
            self.assertEqual({name: result for name, (_, result) in found.items()},
                             {name: result for name, (_, result) in made.items()})
            for name, (target, _) in made.items():
                if target is not None:
                    self.assertEqual(found[name][0], target)


class Files(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="assay-roles-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def test_loopback_is_nobody_where_a_file_says_who_is_somebody(self):
        file = write(os.path.join(self.folder, "roles.toml"), token("s3cret", "viewer"))
        with harness.Daemon(flags=["--roles-file", file]) as daemon:
            self.assertIn("has no role", daemon.run("devices").err)
            shown = write(os.path.join(self.folder, "token"), "s3cret")
            self.assertEqual(daemon.run("devices", "--token-file", shown).code, 0)
            write(file, token("s3cret", "operator") + "# changed\n")
            job = ["run", *COPY, "--token-file", shown]
            harness.wait_until(lambda: daemon.run(*job).code == 0, 20, "the new role counts")
            write(file, "nonsense that is longer than what was there")
            harness.wait_until(lambda: daemon.run(*job).code == 0 and "roles.reload_refused" in daemon.log_text(), 20,
                               "a bad file is refused")
            self.assertEqual(daemon.run(*job).code, 0, "and the roles before it stay")

    def answer(self, url, **options):
        """Status and text of a GET, with a token or a certificate."""
        headers = {"Authorization": f"Bearer {options['token']}"} if "token" in options else {}
        context = None
        if "certificate" in options:
            context = ssl.create_default_context(cafile=os.path.join(self.folder, "ca.pem"))
            own = os.path.join(self.folder, options["certificate"])
            context.load_cert_chain(f"{own}.pem", f"{own}.key")
        try:
            request = urllib.request.Request(url, headers=headers)
            with urllib.request.urlopen(request, timeout=harness.LONG, context=context) as got:
                return got.status, got.read().decode()
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, refused.read().decode()

    def test_the_metrics_port_asks_for_a_viewer(self):
        file = write(os.path.join(self.folder, "roles.toml"), token("s3cret", "viewer"))
        with harness.Daemon(flags=["--roles-file", file]) as daemon:
            base = f"http://{daemon.metrics}"
            for page in ("/metrics", "/health"):
                self.assertEqual(self.answer(base + page, token="s3cret")[0], 200)
                self.assertEqual(self.answer(base + page, token="another")[0], 401)
                status, text = self.answer(base + page)
                self.assertEqual(status, 403)
                self.assertIn(f"GET {page} needs the role viewer", text)
            self.assertEqual(self.answer(base + "/healthz"), (200, "ok\n"))
            self.assertEqual(daemon.log_text().count("event=access.refused"), 4)

    def test_a_certificate_is_a_viewer_of_the_metrics_port(self):
        tls_test.make_certificates(self.folder)
        for name in ("viewer", "stranger"):
            tls_test.make_certificates(self.folder, name)
        at = lambda name: os.path.join(self.folder, name)
        file = write(at("roles.toml"), client("viewer", "viewer"))
        with harness.Daemon(flags=["--tls-cert", at("server.pem"), "--tls-key", at("server.key"), "--metrics-tls",
                                   "--tls-client-ca", at("ca.pem"), "--roles-file", file]) as daemon:
            url = f"https://localhost:{daemon.metrics.rsplit(':', 1)[1]}/metrics"
            status, text = self.answer(url, certificate="viewer")
            self.assertEqual(status, 200, text)
            self.assertIn("assay_build_info", text)
            status, text = self.answer(url, certificate="stranger")
            self.assertEqual(status, 403, text)
            self.assertIn("certificate stranger has no role", text)

    def test_a_unix_socket_knows_its_users(self):
        other = 65534  # nobody
        socket = os.path.join(self.folder, "socket")
        os.chmod(self.folder, 0o755)
        file = write(os.path.join(self.folder, "roles.toml"), client("ops.example", "viewer"))
        client_copy = shutil.copy(harness.ASSAY, os.path.join(self.folder, "assay"))

        def as_other(*words):
            done = subprocess.run([client_copy, *words, "--target", f"unix:{socket}"], user=other, cwd="/",
                                  capture_output=True, text=True, timeout=harness.LONG, check=False)
            return harness.Result(done)

        with harness.Daemon(flags=["--roles-file", file], listen=f"unix:{socket}") as daemon:
            there = {"ASSAY_TARGET": f"unix:{socket}"}
            self.assertEqual(harness.run_client("run", *COPY, environment=there).code, 0, "the daemon's own user")
            if os.geteuid() != 0:
                self.skipTest("needs root, to be another user")
            self.assertEqual(as_other("devices").code, 3, "nobody has named it")
            write(file, client(f"uid:{other}", "viewer"))
            harness.wait_until(lambda: as_other("devices").code == 0, 20, "the file names it now")
            refused = as_other("run", *COPY)
            self.assertEqual(refused.code, 3, refused)
            self.assertIn(f"CreateJob needs the role operator; uid:{other} has viewer", refused.err)
            write(file, client("uid:1", "viewer") + "# nobody is nobody again\n")
            harness.wait_until(lambda: as_other("devices").code == 3, 20, "the connection is not taken")
            self.assertIn("event=audit who=uid:0", daemon.log_text())

    def test_a_bad_file_ends_the_start_with_its_line(self):
        for text, mode, said in [('[[client]]\nname = "a"\nrole = "root"\n', 0o600, "roles.toml:3:8: role must be viewer"),
                                 ("", 0o644, "chmod 0640"), (None, 0, "cannot read")]:
            file = os.path.join(self.folder, "roles.toml" if text is not None else "none.toml")
            if text is not None:
                write(file, text, mode)
            done = subprocess.run([harness.ASSAYD, "--listen", "127.0.0.1:0", "--metrics-listen", "off",
                                   "--state-dir", self.folder, "--roles-file", file],
                                  capture_output=True, text=True, timeout=harness.LONG, check=False)
            self.assertEqual(done.returncode, 2, done)
            self.assertIn(said, done.stderr)


if __name__ == "__main__":
    harness.main()
