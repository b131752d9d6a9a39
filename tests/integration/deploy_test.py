"""What deploy/ says of the programs is what the programs say: manual pages, completions,
configuration, units, images. For Kubernetes see kubernetes_test.py and helm_test.py."""

import glob
import gzip
import http.server
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import threading
import tomllib
import unittest

import harness

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DEPLOY = os.path.join(ROOT, "deploy")
SHARE = os.path.join(harness.INSTALL, "share")


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def help_of(program, *words):
    return subprocess.run([program, *words, "--help"], capture_output=True, text=True, check=True).stdout


def options_of(program, *words):
    text = help_of(program, *words) + (help_of(program) if words else "")
    return set(re.findall(r"--[a-z][a-z-]*", text))


def subcommands():
    listed = help_of(harness.ASSAY).partition("Subcommands:\n")[2].split("\n\n")[0]
    return re.findall(r"^  (\w[\w-]*)", listed, re.M)


class Pages(unittest.TestCase):
    def test_there_is_a_page_of_every_command_and_it_renders_without_a_warning(self):
        pages = sorted(glob.glob(os.path.join(SHARE, "man/man*/*.gz")))
        names = {os.path.basename(p).split(".")[0] for p in pages}
        self.assertEqual(names, {"assay", "assayd", *(f"assay-{c}" for c in subcommands())})
        for page in pages:
            with gzip.open(page, "rt") as file:
                text = file.read()
            for command in (["mandoc", "-Tlint", "-Wwarning"], ["groff", "-man", "-ww", "-Tutf8"]):
                with self.subTest(page=os.path.basename(page), by=command[0]):
                    if not shutil.which(command[0]):
                        self.skipTest(f"no {command[0]}")
                    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
                    said = done.stdout if command[0] == "mandoc" else ""
                    self.assertEqual((done.returncode, said, done.stderr), (0, "", ""))

    def test_a_page_has_every_option(self):
        for program, page in ((harness.ASSAY, "man1/assay.1"), (harness.ASSAYD, "man8/assayd.8")):
            with gzip.open(os.path.join(SHARE, "man", page + ".gz"), "rt") as file:
                text = file.read().replace("\\-", "-")
            self.assertEqual({o for o in options_of(program) if o not in text}, set())


    def test_a_page_tells_what_its_command_ends_with(self):
        def text(page):
            with gzip.open(os.path.join(SHARE, "man/man1", page + ".1.gz"), "rt") as file:
                return " ".join(file.read().split())

        def status(page):
            return text(page).partition(".SH EXIT STATUS ")[2].partition(" .SH ")[0]

        judges = "0 passed, 1 failed, 2 usage or a malformed request, 3 the daemon cannot be reached, or it refused, 4 ended without a verdict."
        for page in ("assay", "assay-run", "assay-watch"):
            self.assertEqual(status(page), judges)
        for page in ("assay-report", "assay-jobs"):
            self.assertRegex(status(page), "^0 done, whatever verdicts are shown, 2 usage")
        own = " ".join(help_of(harness.ASSAY, "qualify").partition("Exit codes: ")[2].split())
        self.assertEqual(status("assay-qualify"), own)
        parts = status("assay-fleet").split(".TP ")
        self.assertEqual([p.split("\\fR")[0] for p in parts[1:]], ["\\fBassay fleet run", "\\fBassay fleet status", "\\fBassay fleet compare"])
        self.assertIn("4 a node is missing", parts[2])
        self.assertIn("2 no file could be read", parts[3])
        for page in glob.glob(os.path.join(SHARE, "man/man1/*.gz")):
            self.assertNotIn("Exit codes:", text(os.path.basename(page).removesuffix(".1.gz")), page)


class Documents(unittest.TestCase):
    def test_the_pages_are_installed_and_what_they_link_is_too(self):
        folder = os.path.join(SHARE, "doc/assay")
        pages = ["README.md"]
        for page in pages:  # it grows
            text = read(ROOT, page)
            self.assertEqual(read(folder, page), text)
            for link in re.findall(r"\]\(([^)#]+\.md)", text):
                linked = os.path.normpath(os.path.join(os.path.dirname(page), link))
                if linked not in pages:
                    pages.append(linked)
        self.assertGreater(len(pages), 10)
        for path in ("helm/assay/Chart.yaml", "helm/assay/files/rules/alerts.yml", "kubernetes/assay.yaml",
                     "prometheus/prometheus-kubernetes.yml", "grafana/dashboards/fleet.json"):
            self.assertEqual(read(folder, "deploy", path), read(DEPLOY, path), path)


class Render(unittest.TestCase):
    def test_without_helm_one_line_says_what_to_do(self):
        done = subprocess.run([os.path.join(DEPLOY, "kubernetes/render"), "--set", "gpu.vendor=nvidia"], capture_output=True,
                              text=True, check=False, env={**os.environ, "HELM": "/nowhere/helm"})
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, r"\Arender: there is no program /nowhere/helm: install helm, .*HELM to its path\n\Z")


class Completions(unittest.TestCase):
    # What is typed, and what has to be offered.
    CASES = [(["assay", "qual"], {"qualify"}), (["assay", "run", "gemm", "--tr"], {"--trans-a", "--trans-b"}),
             (["assay", "run", "--mode", ""], {"validate", "benchmark", "both"}),
             (["assay", "baseline", "co"], {"compare"}), (["assay", "qualify", ""], {"quick", "medium", "nightly", "extended"}),
             (["assay", "qualify", "nightly", "--format", ""], {"table", "json", "markdown"}),
             (["assay", "fleet", "status", "--format", ""], {"table", "json"}),
             (["assay", "run", "--format", "j"], {"json", "jsonl", "junit"})]

    def test_formats_that_are_offered_are_those_that_are_taken(self):
        file = os.path.join(SHARE, "bash-completion/completions/assay")
        commands = {"qualify": ["quick"], "explain": ["j"], "fleet run": ["--suite", "smoke"], "fleet status": [], "jobs": [], "version": [],
                    "fleet compare": ["/dev/null"], "baseline list": [], "baseline show": ["b"], "baseline compare": ["jobs/a", "jobs/b"],
                    "devices": [], "devices release": ["cpu:0"], "kernels": [], "suites": [], "suites show": ["s"], "report": ["j"],
                    "run": ["--suite", "smoke"], "submit": ["--suite", "smoke"], "watch": ["j"], "selftest": [], "show": ["j"]}
        for command, words in commands.items():
            offered = subprocess.run(["bash", "-c", f"source {file}; _assay_argument --format 'assay {command}'"],
                                     capture_output=True, text=True, check=True).stdout.split()
            for form in ("table", "jsonl", "csv", "json", "junit", "html", "markdown"):
                done = harness.run_client(*command.split(), *words, "--format", form, environment={"ASSAY_TARGET": "127.0.0.1:1"})
                self.assertEqual(not re.search("(?m)^assay: format: ", done.err), form in offered, (command, form, done))

    def test_suites_and_devices_are_the_daemons(self):
        file = os.path.join(SHARE, "bash-completion/completions/assay")
        with harness.Daemon() as daemon:
            for command, expected in (("suites show", "nightly"), ("devices release", "cpu:0")):
                offered = subprocess.run(["bash", "-c", f"source {file}; _assay_words 'assay {command}'"], text=True, capture_output=True,
                                         check=True, env={**os.environ, "ASSAY_TARGET": daemon.grpc,
                                                          "PATH": os.path.abspath(harness.INSTALL) + "/bin:" + os.environ["PATH"]})
                self.assertIn(expected, offered.stdout.split())

    def test_bash(self):
        file = os.path.join(SHARE, "bash-completion/completions/assay")
        for words, expected in self.CASES:
            script = f'source {file}; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _assay; printf "%s\\n" "${{COMPREPLY[@]}}"'
            done = subprocess.run(["bash", "-c", script, "bash", *words], capture_output=True, text=True, check=True)
            self.assertEqual((set(done.stdout.split()), done.stderr), (expected, ""), words)

    @unittest.skipUnless(shutil.which("zsh"), "no zsh")
    def test_zsh(self):
        file = os.path.join(SHARE, "zsh/vendor-completions/_assay")
        stubs = ('compdef() { :; }; _describe() { local n=$2; print -l -- ${${(@P)n}%%:*} }; '
                 'compadd() { local n=$2; print -l -- ${(@P)n} }; _files() { print FILES }')
        for words, expected in self.CASES:
            script = f'{stubs}; source {file}; words=("$@"); CURRENT=$#; _assay'
            done = subprocess.run(["zsh", "-f", "-c", script, "zsh", *words], capture_output=True, text=True, check=True)
            self.assertLessEqual(expected, set(done.stdout.split()), (words, done))
            self.assertEqual(done.stderr, "")

    @unittest.skipUnless(shutil.which("fish"), "no fish")
    def test_fish(self):
        file = os.path.join(SHARE, "fish/vendor_completions.d/assay.fish")
        for words, expected in self.CASES:
            script = f"source {file}; complete -C {' '.join(words)!r} | string split -f1 \\t"
            done = subprocess.run(["fish", "--no-config", "-c", script], capture_output=True, text=True, check=True)
            self.assertLessEqual(expected, set(done.stdout.split()), (words, done))


class Configuration(unittest.TestCase):
    def test_every_key_is_an_option(self):
        known = options_of(harness.ASSAYD)
        commented = read(DEPLOY, "packages/assayd.toml")
        keys = set(re.findall(r"^#? ?([a-z][a-z-]*) = ", commented, re.M))
        self.assertGreater(len(keys), 10)
        self.assertEqual({k for k in keys if f"--{k}" not in known}, set())

    def test_the_packaged_file_is_read(self):
        # With every line of it in force that needs no certificate and no further file.
        text = re.sub(r"^# ((?!tls|roles-file|listen = \[|metrics-tls|listen)[a-z-]+ = )", r"\1",
                      read(DEPLOY, "packages/assayd.toml"), flags=re.M)
        text = re.sub(r'^metrics-listen = .*', "", text, flags=re.M)
        self.assertGreater(len(tomllib.loads(text)), 5)
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write(text)
            file.flush()
            with harness.Daemon(flags=["--config", file.name]) as daemon:
                self.assertEqual(daemon.run("version").code, 0)


class Units(unittest.TestCase):
    def test_what_units_start_is_installed_and_understood(self):
        for unit in glob.glob(os.path.join(DEPLOY, "systemd/*.service")):
            text = read(unit)
            program, *words = re.search(r"^ExecStart=(.*)$", text, re.M).group(1).split()
            self.assertTrue(os.access(os.path.join(harness.INSTALL, program.removeprefix("/usr/")), os.X_OK), program)
            level = re.search(r"ASSAY_NIGHTLY=([a-z ]+)", text)
            if level:
                known = options_of(harness.ASSAY, level.group(1).split()[0])
                self.assertLessEqual({w for w in words if w.startswith("--")}, known)

    def test_systemd_takes_them(self):
        if not shutil.which("systemd-analyze"):
            self.skipTest("no systemd-analyze")
        with tempfile.TemporaryDirectory() as folder:
            for unit in glob.glob(os.path.join(DEPLOY, "systemd/*.*")):
                text = re.sub("/usr/(bin|libexec)/", os.path.abspath(harness.INSTALL) + r"/\1/", read(unit))
                with open(os.path.join(folder, os.path.basename(unit)), "w", encoding="utf-8") as file:
                    file.write(text)
            units = [os.path.join(folder, f"assay{name}") for name in ("d.service", "-nightly.service", "-nightly.timer")]
            done = subprocess.run(["systemd-analyze", "verify", "--man=no", *units], capture_output=True, text=True, check=False)
            told = [line for line in done.stderr.splitlines() if folder in line or "assay" in line]
            self.assertEqual((done.returncode, told), (0, []), done)

    def before_the_night(self, folder, target):
        """What the night's unit does before it qualifies; each `assay` of it is a line of a file."""
        assay = os.path.join(folder, "assay")
        with open(assay, "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\necho "$@" >>{folder}/called\nexec {os.path.abspath(harness.ASSAY)} "$@"\n')
        os.chmod(assay, 0o755)
        line = re.search(r"(?m)^ExecStartPre=(.*)$", read(DEPLOY, "systemd/assay-nightly.service")).group(1)
        words = shlex.split(line.replace("$$", "$").replace("/usr/bin/assay", assay))
        return subprocess.Popen(words, env={**os.environ, "ASSAY_TARGET": target})

    def test_the_night_waits_for_a_daemon_that_starts_with_it(self):
        port = harness.free_ports(1)[0]
        with tempfile.TemporaryDirectory() as folder, self.before_the_night(folder, f"127.0.0.1:{port}") as waiting:
            called = os.path.join(folder, "called")
            harness.wait_until(lambda: os.path.exists(called) and read(called).count("devices") > 2, 60, "asked again")
            self.assertIsNone(waiting.poll())
            with harness.Daemon(listen=f"127.0.0.1:{port}"):
                self.assertEqual(waiting.wait(60), 0)

    def test_the_night_does_not_wait_for_what_is_wrong_with_a_daemon(self):
        with harness.Daemon() as daemon, tempfile.TemporaryDirectory() as folder:
            # It speaks no gRPC there.
            with self.before_the_night(folder, daemon.metrics) as waiting:
                self.assertEqual(waiting.wait(60), 0)
            self.assertEqual(read(folder, "called"), "devices\n")

    def test_who_is_told_of_nothing_says_how_it_is_called(self):
        program = os.path.join(DEPLOY, "systemd/notify-failure")
        for words, code in (([], 2), (["--test"], 2), (["a.service", "b.service"], 2), (["--help"], 0)):
            done = subprocess.run([program, *words], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, code, done)
            self.assertIn("notify-failure UNIT", done.stdout if code == 0 else done.stderr)

    def test_a_failure_is_told(self):
        told = []

        class Receiver(http.server.BaseHTTPRequestHandler):
            def do_POST(self):  # noqa: N802
                told.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_):
                pass

        with tempfile.TemporaryDirectory() as folder, \
                http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            for name, body in (("journalctl", 'printf \'a "quoted" \\\\ word\\tand\\nanother line\\n\''),
                               ("sendmail", f"cat >{folder}/mail")):
                path = os.path.join(folder, name)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(f"#!/bin/sh\n{body}\n")
                os.chmod(path, 0o755)
            done = subprocess.run(
                [os.path.join(DEPLOY, "systemd/notify-failure"), "assayd.service"], capture_output=True, text=True,
                check=False, env={"PATH": f"{folder}:{os.environ['PATH']}", "ASSAY_MAIL": "ops@example.org",
                                  "ASSAY_SENDMAIL": f"{folder}/sendmail",
                                  "ASSAY_WEBHOOK": f"http://127.0.0.1:{server.server_port}/"})
            server.shutdown()
            self.assertEqual(done.returncode, 0, done)
            self.assertEqual([t["unit"] for t in told], ["assayd.service"])
            self.assertEqual(told[0]["text"], 'a "quoted" \\ word\tand\nanother line')
            self.assertIn("assayd.service failed", read(folder, "mail"))


class Images(unittest.TestCase):
    def test_paths_options_and_ports_are_the_programs(self):
        for file in glob.glob(os.path.join(DEPLOY, "docker/Dockerfile*")):
            with self.subTest(file=os.path.basename(file)):
                text = read(file)
                for kind in ("HEALTHCHECK .*CMD", "ENTRYPOINT"):
                    program, *words = json.loads(re.search(rf"^{kind} (\[.*\])$", text, re.M).group(1))
                    check_command(self, program, words)
                self.assertEqual(re.search(r"^EXPOSE (.*)$", text, re.M).group(1), "7575 9575")
                self.assertIn("127.0.0.1:7575", help_of(harness.ASSAYD))
                self.assertRegex(text, r"(?m)^USER 10001")
                for source in re.findall(r"^COPY (?!--from)(\S+) ", text, re.M):
                    self.assertTrue(os.path.exists(os.path.join(ROOT, source)), source)
                for option in re.findall(r"-D(ASSAY_\w+)=", text):
                    said = subprocess.run(["grep", "-rl", f"option({option} ", "--include=*.cmake",
                                           "--include=CMakeLists.txt", ROOT + "/kernels"], capture_output=True,
                                          check=False)
                    self.assertEqual(said.returncode, 0, option)

    def test_amds_image_has_the_telemetrys_library_under_a_name_it_is_looked_for(self):
        version = re.search(r"\blibrocm-smi64-(\d+)\b", read(DEPLOY, "docker/Dockerfile.rocm")).group(1)
        names = re.search(r"kRocmVersions\[\] = \{(.*)\};", read(ROOT, "server/telemetry/rocm_source.cc")).group(1)
        self.assertIn(f'".{version}"', names)


def check_command(test, program, words):
    test.assertTrue(program.startswith("/opt/assay/"), program)
    installed = os.path.join(harness.INSTALL, program.removeprefix("/opt/assay/"))
    test.assertTrue(os.access(installed, os.X_OK), program)
    command = [w for w in words[:1] if not w.startswith("-")]
    test.assertLessEqual({w for w in words if w.startswith("--")}, options_of(installed, *command))


if __name__ == "__main__":
    harness.main()
