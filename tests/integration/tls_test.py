"""TLS and mutual TLS, with certificates made on the spot."""

import os
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time
import unittest
import urllib.request

import harness


def openssl(folder, *words):
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)


def make_certificates(folder, name="server", names="DNS:localhost,IP:127.0.0.1"):
    """A CA (once), and a certificate `name` for `names` that it signed; the folder."""
    if not os.path.exists(os.path.join(folder, "ca.pem")):
        openssl(folder, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                "-nodes", "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=test-ca")
    openssl(folder, "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
    with open(os.path.join(folder, "ext"), "w", encoding="utf-8") as file:
        file.write(f"subjectAltName={names}\n")
    openssl(folder, "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
            "-CAcreateserial", "-out", f"{name}.pem", "-days", "2", "-extfile", "ext")
    return folder


class Tls(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="assay-tls-")
        make_certificates(self.folder)
        make_certificates(self.folder, "client")
        self.other = make_certificates(tempfile.mkdtemp(prefix="assay-other-"))
        make_certificates(self.other, "client")

    def tearDown(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.rmtree(self.other, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def test_tls(self):
        flags = ["--tls-cert", self.path("server.pem"), "--tls-key", self.path("server.key")]
        with harness.Daemon(flags=flags, listen="0.0.0.0:0") as daemon:
            port = daemon.grpc.rsplit(":", 1)[1]
            there = {"ASSAY_TARGET": f"127.0.0.1:{port}"}
            ok = harness.run_client("devices", "--tls-ca", self.path("ca.pem"), environment=there)
            self.assertEqual(ok.code, 0, ok)
            plain = harness.run_client("devices", environment=there)
            self.assertEqual(plain.code, 3, plain)
            self.assertIn("does it ask for TLS (--tls-ca)?", plain.err)
            # A CA that did not sign the server.
            wrong = harness.run_client("devices", "--tls-ca", os.path.join(self.other, "ca.pem"),
                                       environment=there)
            self.assertEqual(wrong.code, 3, wrong)
            self.assertIn("its certificate is not trusted", wrong.err)

    def test_plaintext_beyond_this_machine_is_logged_loudly(self):
        with harness.Daemon(flags=["--insecure"], listen="0.0.0.0:0") as daemon:
            lines = [line for line in daemon.log_text().splitlines() if "event=access.insecure" in line]
            self.assertEqual(len(lines), 1, daemon.log_text())
            self.assertIn("level=warn", lines[0])
            self.assertIn("whoever reaches a port reads and writes in plaintext", lines[0])
        flags = ["--tls-cert", self.path("server.pem"), "--tls-key", self.path("server.key"), "--insecure"]
        with harness.Daemon(flags=flags) as daemon:
            self.assertIn("ports without certificates, such as the health port, are plaintext", daemon.log_text())
        with harness.Daemon() as daemon:
            self.assertNotIn("access.insecure", daemon.log_text())

    def test_mutual_tls(self):
        flags = ["--tls-cert", self.path("server.pem"), "--tls-key", self.path("server.key"),
                 "--tls-client-ca", self.path("ca.pem")]
        with harness.Daemon(flags=flags) as daemon:
            ca = ["--tls-ca", self.path("ca.pem")]
            anonymous = daemon.run("devices", *ca)
            self.assertEqual(anonymous.code, 3, anonymous)
            self.assertIn("does it ask for a certificate (--tls-cert, --tls-key)?", anonymous.err)
            known = daemon.run("devices", *ca, "--tls-cert", self.path("client.pem"), "--tls-key",
                               self.path("client.key"))
            self.assertEqual(known.code, 0, known)
            foreign = daemon.run("devices", *ca, "--tls-cert",
                                 os.path.join(self.other, "client.pem"), "--tls-key",
                                 os.path.join(self.other, "client.key"))
            self.assertEqual(foreign.code, 3, foreign)
            self.assertIn("it may not accept the certificate of --tls-cert (expired, revoked, or of an authority",
                          foreign.err)
            mixed = daemon.run("devices", *ca, "--tls-cert", self.path("client.pem"), "--tls-key",
                               self.path("server.key"))
            self.assertEqual(mixed.code, 3, mixed)
            self.assertIn("the key is not the certificate's", mixed.err)

    def test_certificates_are_reloaded_and_a_bad_pair_is_not_published(self):
        flags = ["--tls-cert", self.path("server.pem"), "--tls-key", self.path("server.key")]
        with harness.Daemon(flags=flags) as daemon:
            old = ["--tls-ca", self.path("ca.pem")]
            new = ["--tls-ca", os.path.join(self.other, "ca.pem")]
            self.assertEqual(daemon.run("devices", *old).code, 0)
            self.assertEqual(daemon.run("devices", *new).code, 3)
            for name in ("server.key", "server.pem"):
                shutil.copy(os.path.join(self.other, name), self.path(name))
            harness.wait_until(lambda: daemon.run("devices", *new).code == 0, 20,
                               "the new certificate is shown")
            self.assertEqual(daemon.run("devices", *old).code, 3, "the old one is shown no more")

            # While the new pair was half copied it may have been refused, too.
            before = len(daemon.log_text())
            with open(self.path("server.pem"), "w", encoding="utf-8") as file:
                file.write("garbage")

            def refused():
                # Looking for new files is a handshake's work: connecting goes on all the while.
                run = daemon.run("devices", *new)
                self.assertEqual(run.code, 0, run)
                return "event=tls.reload_refused reason=" in daemon.log_text()[before:]

            harness.wait_until(refused, 20, "the log says that the bad pair was refused")
            self.assertEqual(daemon.run("devices", *new).code, 0, daemon.log_text())

    # No handshake and no call makes the daemon look at its files here: the signal does.
    def test_sighup_looks_at_certificates_and_roles(self):
        roles = self.path("roles.toml")

        def write_roles(text):
            with open(roles, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(roles, 0o600)

        write_roles('[[client]]\nname = "client"\nrole = "viewer"\n')
        flags = ["--tls-cert", self.path("server.pem"), "--tls-key", self.path("server.key"), "--roles-file", roles]
        with harness.Daemon(flags=flags) as daemon:
            def told(event, times):
                daemon.process.send_signal(signal.SIGHUP)
                harness.wait_until(lambda: daemon.log_text().count(f"event={event}") >= times, 20, event)

            for name in ("server.key", "server.pem"):
                shutil.copy(os.path.join(self.other, name), self.path(name))
            write_roles('[[client]]\nname = "client"\nrole = "operator"\n')
            self.assertNotIn("reloaded", daemon.log_text())
            told("tls.reloaded", 1)
            told("roles.reloaded", 1)
            for path in (self.path("server.pem"), roles):
                with open(path, "w", encoding="utf-8") as file:
                    file.write("garbage")
            for times in (1, 2):  # whoever asks again is told again
                told("tls.reload_refused", times)
                told("roles.reload_refused", times)
            self.assertIsNone(daemon.process.poll())

    def test_what_ends_soon_is_told_and_what_others_read_is_refused(self):
        flags = ["--tls-cert", self.path("server.pem"), "--tls-key", self.path("server.key")]
        with harness.Daemon(flags=flags) as daemon:
            self.assertIn("event=tls.expires_soon", daemon.log_text(), "two days are few")
            left = daemon.metric("assay_certificate_expiry_timestamp_seconds") - time.time()
            self.assertTrue(1.9 * 86400 < left <= 2 * 86400, left)
            os.chmod(self.path("client.key"), 0o644)
            run = daemon.run("devices", "--tls-ca", self.path("ca.pem"), "--tls-cert", self.path("client.pem"),
                             "--tls-key", self.path("client.key"))
            self.assertEqual(run.code, 2, run)
            self.assertIn(f"chmod 0600 {self.path('client.key')}", run.err)
        os.chmod(self.path("server.key"), 0o644)
        done = subprocess.run([harness.ASSAYD, "--listen", "127.0.0.1:0", "--state-dir", self.path("state"), *flags],
                              capture_output=True, text=True, timeout=harness.LONG, check=False)
        self.assertEqual(done.returncode, 2, done)
        self.assertIn(f"chmod 0640 {self.path('server.key')}", done.stderr)

    def revoke(self, *names):
        """A list of revoked certificates with these names' in it."""
        index, settings = self.path("index.txt"), self.path("ca.cnf")
        with open(settings, "w", encoding="utf-8") as file:
            file.write(f"[ca]\ndefault_ca=own\n[own]\ndatabase={index}\ndefault_md=sha256\n"
                       f"default_crl_days=2\ncertificate={self.path('ca.pem')}\nprivate_key={self.path('ca.key')}\n")
        with open(index, "w", encoding="utf-8"):
            pass
        for name in names:
            openssl(self.folder, "ca", "-config", settings, "-revoke", f"{name}.pem")
        openssl(self.folder, "ca", "-config", settings, "-gencrl", "-out", "new.crl")
        os.replace(self.path("new.crl"), self.path("crl.pem"))

    def test_a_revoked_certificate_opens_no_port(self):
        make_certificates(self.folder, "other")
        self.revoke()
        flags = ["--tls-cert", self.path("server.pem"), "--tls-key", self.path("server.key"), "--tls-client-ca",
                 self.path("ca.pem"), "--tls-client-crl", self.path("crl.pem"), "--metrics-tls"]
        with harness.Daemon(flags=flags) as daemon:
            def run(name):
                return daemon.run("devices", "--tls-ca", self.path("ca.pem"), "--tls-cert", self.path(f"{name}.pem"),
                                  "--tls-key", self.path(f"{name}.key"))

            contexts, sessions = {}, {}

            def scrapes(name):  # and takes up the session of the last time, where there is one
                if name not in contexts:
                    contexts[name] = ssl.create_default_context(cafile=self.path("ca.pem"))
                    contexts[name].load_cert_chain(self.path(f"{name}.pem"), self.path(f"{name}.key"))
                host, port = daemon.metrics.rsplit(":", 1)
                try:
                    with socket.create_connection((host, int(port)), timeout=harness.LONG) as plain:
                        with contexts[name].wrap_socket(plain, server_hostname="localhost",
                                                        session=sessions.get(name)) as secured:
                            secured.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
                            said = b"".join(iter(lambda: secured.recv(65536), b""))
                            sessions[name] = secured.session
                            return b"assay_build_info" in said
                except OSError:
                    return False

            for name in ("client", "other"):
                self.assertEqual(run(name).code, 0)
                self.assertTrue(scrapes(name))
            self.revoke("client")
            harness.wait_until(lambda: run("client").code == 3, 20, "the revoked one is refused")
            self.assertIn("certificate client is revoked", run("client").err)
            self.assertFalse(scrapes("client"))
            self.assertEqual(run("other").code, 0)
            self.assertTrue(scrapes("other"))
            with open(self.path("crl.pem"), "w", encoding="utf-8") as file:
                file.write("garbage")
            harness.wait_until(lambda: run("other").code == 0 and "tls.reload_refused" in daemon.log_text(), 20,
                               "a bad list is refused")
            self.assertEqual(run("client").code, 3, "and the list before it stays")

    def test_with_lists_an_authority_between_must_be_known_on_every_port(self):
        with open(self.path("ca.ext"), "w", encoding="utf-8") as file:
            file.write("basicConstraints=critical,CA:TRUE\nkeyUsage=keyCertSign,cRLSign\n")
        for name, issuer, more in (("between", "ca", ["-extfile", "ca.ext"]), ("leaf", "between", [])):
            openssl(self.folder, "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
                    f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
            openssl(self.folder, "x509", "-req", "-in", f"{name}.csr", "-CA", f"{issuer}.pem", "-CAkey", f"{issuer}.key",
                    "-CAcreateserial", "-out", f"{name}.pem", "-days", "2", *more)

        def append(name, to):
            with open(self.path(name), encoding="utf-8") as source, open(self.path(to), "a", encoding="utf-8") as file:
                file.write(source.read())

        append("between.pem", "leaf.pem")
        self.revoke()
        shutil.copy(self.path("ca.pem"), self.path("clients.pem"))
        flags = ["--tls-cert", self.path("server.pem"), "--tls-key", self.path("server.key"), "--tls-client-ca",
                 self.path("clients.pem"), "--tls-client-crl", self.path("crl.pem"), "--metrics-tls"]
        context = ssl.create_default_context(cafile=self.path("ca.pem"))
        context.load_cert_chain(self.path("leaf.pem"), self.path("leaf.key"))
        with harness.Daemon(flags=flags) as daemon:
            def call():
                return daemon.run("devices", "--tls-ca", self.path("ca.pem"), "--tls-cert", self.path("leaf.pem"),
                                  "--tls-key", self.path("leaf.key"))

            def scrape():
                port = daemon.metrics.rsplit(":", 1)[1]
                with urllib.request.urlopen(f"https://localhost:{port}/metrics", timeout=harness.LONG, context=context) as got:
                    return got.status

            self.assertIn("its issuer is not in --tls-client-ca", call().err)
            with self.assertRaises(OSError):
                scrape()
            append("between.pem", "clients.pem")
            harness.wait_until(lambda: call().code == 0, 20, "it is known")
            self.assertEqual(scrape(), 200)

    def test_a_list_of_revoked_certificates_must_be_of_the_clients_authority(self):
        self.revoke()
        foreign = os.path.join(self.other, "ca.pem")
        for ca, crl, said in ((foreign, "crl.pem", "no authority of --tls-client-ca signed"),
                              (self.path("ca.pem"), "server.pem", "holds no lists of revoked certificates"),
                              (self.path("ca.pem"), "none.pem", "cannot read")):
            done = subprocess.run(
                [harness.ASSAYD, "--listen", "127.0.0.1:0", "--state-dir", self.path("state"), "--tls-cert",
                 self.path("server.pem"), "--tls-key", self.path("server.key"), "--tls-client-ca", ca,
                 "--tls-client-crl", self.path(crl)], capture_output=True, text=True, timeout=harness.LONG, check=False)
            self.assertEqual(done.returncode, 2, done)
            self.assertIn(said, done.stderr)

    def test_no_port_speaks_less_than_tls_1_2(self):
        flags = ["--tls-cert", self.path("server.pem"), "--tls-key", self.path("server.key"), "--metrics-tls"]
        with harness.Daemon(flags=flags) as daemon:
            for address in (daemon.grpc, daemon.metrics):
                for version, spoken in ((ssl.TLSVersion.TLSv1_1, False), (ssl.TLSVersion.TLSv1_2, True),
                                        (ssl.TLSVersion.TLSv1_3, True)):
                    context = ssl.create_default_context(cafile=self.path("ca.pem"))
                    context.set_alpn_protocols(["h2"])
                    context.set_ciphers("DEFAULT:@SECLEVEL=0")
                    context.minimum_version = context.maximum_version = version
                    host, port = address.rsplit(":", 1)
                    with socket.create_connection((host, int(port)), timeout=harness.LONG) as plain:
                        try:
                            with context.wrap_socket(plain, server_hostname="localhost"):
                                got = True
                        except OSError:
                            got = False
                    self.assertEqual(got, spoken, (address, version))

    def test_missing_files_are_named(self):
        done = subprocess.run(
            [harness.ASSAYD, "--listen", "127.0.0.1:0", "--state-dir", self.path("state"),
             "--tls-cert", self.path("none.pem"), "--tls-key", self.path("server.key")],
            capture_output=True, text=True, timeout=harness.LONG, check=False)
        self.assertEqual(done.returncode, 2, done)
        self.assertIn("none.pem", done.stderr)


if __name__ == "__main__":
    harness.main()
