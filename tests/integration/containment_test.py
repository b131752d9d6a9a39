"""A kernel that tries to get out of its worker fails at each attempt, and its case says what it
tried. What the platform does not have is skipped, with the reason that the daemon gives."""

import os
import re
import resource
import shutil
import tempfile
import unittest

import harness
import roles_test
import tls_test

GEMM = ["gemm", "--m", "64", "--n", "64", "--k", "64", "--dtype", "fp32"]
# What planted/escape says of an attempt: "read the store FILE: refused (Permission denied)".
ATTEMPT = re.compile(r"(read|signal|change|open|start) ([^;]*?): (allowed|not there|refused \([^)]*\))")


def measures(daemon, *flags):
    """What `assay devices` says of cpu:0: measure to whether it holds, and the detail."""
    run = daemon.run("devices", "--format", "json", *flags)
    assert run.code == 0, run
    cpu = next(d for d in run.json()["devices"] if d["id"] == "cpu:0")
    return {m["measure"]: (m.get("applied", False), m["detail"]) for m in cpu["containment"]}


def escape(daemon, *flags):
    """The case of planted/escape: what it tried and what came of it, and its test in the report."""
    run = daemon.run("run", *GEMM, "--provider", "planted/escape", "--format", "json", *flags)
    assert run.code == 1, run
    test = run.json()["tests"][0]
    message = test["findings"][0]["message"]
    attempts = {f"{verb} {what}": result for verb, what, result in ATTEMPT.findall(message)}
    return attempts, test


def parent(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        return int(file.read().rsplit(")", 1)[1].split()[1])


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class Escape(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="assay-contain-")
        tls_test.make_certificates(cls.folder)
        cls.roles = os.path.join(cls.folder, "roles.toml")
        roles_test.write(cls.roles, roles_test.token("ABC", "admin"))
        cls.token = os.path.join(cls.folder, "token")
        roles_test.write(cls.token, "ABC")
        cls.key = os.path.join(cls.folder, "server.key")
        cls.daemon = harness.Daemon(
            flags=["--tls-cert", os.path.join(cls.folder, "server.pem"), "--tls-key", cls.key,
                   "--roles-file", cls.roles],
            environment={"AWS_SECRET_ACCESS_KEY": "hidden-from-workers"})
        cls.flags = ["--tls-ca", os.path.join(cls.folder, "ca.pem"), "--token-file", cls.token]
        cls.measures = measures(cls.daemon, *cls.flags)
        cls.attempts, cls.test = escape(cls.daemon, *cls.flags)

    @classmethod
    def tearDownClass(cls):
        cls.daemon.stop()
        shutil.rmtree(cls.folder, ignore_errors=True)

    def needs(self, *names):
        for name in names:
            applied, why = self.measures[name]
            if not applied:
                self.skipTest(f"{name}: {why}")

    def outcome(self, beginning):
        found = {what: said for what, said in self.attempts.items() if what.startswith(beginning)}
        self.assertEqual(len(found), 1, self.attempts)
        return next(iter(found.values()))

    def test_files_of_the_daemon_cannot_be_read(self):
        self.needs("landlock")
        for what, path in (("TLS key", self.key), ("roles", self.roles),
                           ("store", os.path.join(self.daemon.state, "assay.db"))):
            self.assertTrue(os.path.exists(path))
            self.assertIn(path, " ".join(self.attempts))
            self.assertIn("refused", self.outcome(f"read the {what}"), self.attempts)

    def test_the_memory_of_the_daemon_cannot_be_read(self):
        self.needs("landlock", "seccomp")
        self.assertIn("refused", self.outcome("read the daemon's memory file"))
        self.assertIn("refused", self.attempts["read the daemon's memory"])
        self.assertIn("refused", self.outcome("signal the daemon"))

    def test_no_socket_opens(self):
        self.needs("network")
        self.assertIn("refused", self.outcome("open an internet socket"))
        self.assertIn("refused", self.outcome("open a Unix socket"))
        self.assertIn("refused", self.outcome("change who may read the store"))

    def test_the_case_says_what_was_refused(self):
        self.needs("seccomp")
        self.assertEqual((self.test["verdict"], self.test["reason"]), ("ERROR", "fault"))
        if "told" not in self.measures["seccomp"][1]:
            self.skipTest(self.measures["seccomp"][1])
        self.assertLessEqual({"socket(AF_INET)", "socket(AF_UNIX)", "process_vm_readv", "kill"},
                             set(self.test["refused_calls"]))
        table = self.daemon.run("run", *GEMM, "--provider", "planted/escape", *self.flags).out
        self.assertRegex(table, r"refused +.*socket\(AF_INET\)")
        run = self.daemon.run("run", *GEMM, "--provider", "builtin", "--format", "json", *self.flags)
        self.assertEqual(run.code, 0, run)
        self.assertNotIn("refused_calls", run.json()["tests"][0])

    def test_a_child_that_left_its_group_ends_with_the_worker(self):
        self.needs("subreaper")
        attempts, _ = escape(self.daemon, *self.flags)
        [[child]] = [re.findall(r"process (\d+)", a) for a in attempts if a.startswith("start")]
        child = int(child)
        self.assertTrue(alive(child))
        worker = parent(child)
        os.kill(worker, 9)
        harness.wait_until(lambda: not alive(worker), 10, "the worker ends")
        harness.wait_until(lambda: not alive(child), 10, "what it left behind ends")
        run = self.daemon.run("run", *GEMM, "--provider", "builtin", *self.flags)
        self.assertEqual(run.code, 0, run)

    # No platform lacks these.
    def test_what_linux_always_has_is_applied(self):
        for measure in ("no_new_privs", "rlimits", "environment", "subreaper", "dumpable"):
            self.assertTrue(self.measures[measure][0], (measure, self.measures[measure]))
        attempts, _ = escape(self.daemon, *self.flags)
        [[child]] = [re.findall(r"process (\d+)", a) for a in attempts if a.startswith("start")]
        limits = {"RLIMIT_NOFILE": 8192, "RLIMIT_FSIZE": 4 << 30, "RLIMIT_CORE": 1}
        for process in (int(child), parent(int(child))):
            with open(f"/proc/{process}/status", encoding="ascii") as file:
                self.assertIn("NoNewPrivs:\t1\n", file.read())
            for name, most in limits.items():
                now, _ = resource.prlimit(process, getattr(resource, name))
                self.assertTrue(0 <= now <= most, (name, now))
            tasks, _ = resource.prlimit(process, resource.RLIMIT_NPROC)
            self.assertNotEqual(tasks, resource.RLIM_INFINITY)
        self.assertIn("8192 open files, files of 4 GiB; no core file", self.measures["rlimits"][1])

    def test_a_worker_has_a_chosen_environment_and_home(self):
        attempts, _ = escape(self.daemon, *self.flags)
        [[child]] = [re.findall(r"process (\d+)", a) for a in attempts if a.startswith("start")]
        with open(f"/proc/{child}/environ", "rb") as file:
            environment = file.read().decode(errors="replace")
        self.assertNotIn("hidden-from-workers", environment)
        home = re.search(r"(?:^|\0)HOME=([^\0]*)", environment).group(1)
        self.assertIn("assay-work-", home)
        self.assertEqual(os.stat(home).st_mode & 0o777, 0o700)


class Told(unittest.TestCase):
    """What holds and what does not is told by the client, the metrics, the log and the start."""

    def test_every_place_says_the_same(self):
        with harness.Daemon() as daemon:
            known = measures(daemon)
            self.assertEqual(len(known), 9)
            for measure, (applied, detail) in known.items():
                self.assertTrue(detail, measure)
                self.assertEqual(daemon.metric("assay_device_containment_applied", device="cpu:0",
                                               measure=measure), float(applied), measure)
            table = daemon.run("devices", "--verbose").out
            for measure, (applied, detail) in known.items():
                self.assertRegex(table, rf"cpu:0 +{measure} +{'yes' if applied else 'no '} +{re.escape(detail)}")
            line = next(x for x in daemon.log_text().splitlines() if "event=worker.containment" in x)
            self.assertIn("applied=", line)

    def test_switched_off_it_says_so_and_cannot_be_required(self):
        with harness.Daemon(flags=["--no-containment"]) as daemon:
            known = measures(daemon)
            for measure in ("no_new_privs", "seccomp", "landlock", "network"):
                self.assertEqual(known[measure], (False, "switched off by --no-containment"))
            attempts, test = escape(daemon)
            self.assertEqual(attempts["open an internet socket"], "allowed")
            self.assertNotIn("refused_calls", test)
            self.assertEqual(daemon.run("run", *GEMM, "--provider", "builtin").code, 0)
        with self.assertRaisesRegex(RuntimeError, "contradict each other"):
            harness.Daemon(flags=["--no-containment", "--require-containment"])

    def test_required_it_starts_or_names_what_is_missing(self):
        with harness.Daemon() as daemon:
            missing = [(m, why) for m, (applied, why) in measures(daemon).items()
                       if not applied and m != "cgroup"]
        if not missing:
            with harness.Daemon(flags=["--require-containment"]) as daemon:
                self.assertEqual(daemon.run("run", *GEMM, "--provider", "builtin").code, 0)
            return
        measure, why = missing[0]
        with self.assertRaisesRegex(RuntimeError, re.escape(f"--require-containment: {measure} is "
                                                            f"not available for cpu:0: {why}")):
            harness.Daemon(flags=["--require-containment"])

    def test_a_platform_without_landlock_is_refused_by_name(self):
        """The daemon below a filter that has no landlock, as in an old container runtime."""
        refuse = os.path.join(os.path.dirname(os.path.abspath(__file__)), "without_landlock.py")
        folder = tempfile.mkdtemp(prefix="assay-bare-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        program = os.path.join(folder, "assayd")
        with open(program, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\nexec /usr/bin/python3 {refuse} "
                       f"{os.path.abspath(harness.ASSAYD)} \"$@\"\n")
        os.chmod(program, 0o755)
        with harness.Daemon(program=program) as daemon:
            known = measures(daemon)
            self.assertFalse(known["landlock"][0])
            self.assertIn("landlock", known["landlock"][1])
            self.assertEqual(daemon.run("run", *GEMM, "--provider", "builtin").code, 0)
        with self.assertRaisesRegex(RuntimeError, "--require-containment: landlock is not available"):
            harness.Daemon(program=program, flags=["--require-containment"])


class Ceilings(unittest.TestCase):
    def test_the_daemon_writes_ceilings_and_the_next_one_has_them(self):
        state = tempfile.mkdtemp(prefix="assay-state-")
        self.addCleanup(shutil.rmtree, state, ignore_errors=True)
        with harness.Daemon(state=state) as daemon:
            self.assertEqual(daemon.run("devices", "--ceilings").code, 0)
        path = os.path.join(state, "ceilings-cpu:0")
        with open(path, encoding="utf-8") as file:
            kept = file.read()
        self.assertRegex(kept, r"^ceilings 2\|")
        with harness.Daemon(state=state) as daemon:
            self.assertEqual(daemon.run("devices", "--ceilings").code, 0)
        with open(path, encoding="utf-8") as file:
            again = file.read()
        # A ceiling that is noisy or in doubt is measured again, and the faster value stays.
        self.assertEqual(len(kept.splitlines()), len(again.splitlines()))
        steady = [line for line in kept.splitlines()[1:]
                  if 0 <= float(line.split()[3]) <= 0.1 and line.split()[4] == "0"]
        self.assertLessEqual(set(steady), set(again.splitlines()))


if __name__ == "__main__":
    harness.main()
