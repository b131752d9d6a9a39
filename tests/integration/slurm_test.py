"""Slurm with Assay's scripts: a controller, three nodes, a daemon each, one of them wrong.

The wrong node is drained with its reason and nobody else; what Assay drained it resumes, what a
person drained it leaves; and a Slurm or a daemon that does not answer drains nothing.
"""

import glob
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
import unittest

import harness
import slurm_cluster
from qualify_test import level

SKIPPED = 77
SCRIPTS = os.path.join(os.path.dirname(__file__), "..", "..", "deploy", "slurm")
NODES = ("n1", "n2", "n3")
BAD = "n3"

CONFIGURATION = """
PATH={path}
ASSAY={assay}
ASSAY_LOCAL='{{node}}'
ASSAY_REMOTE='{{node}}'
ASSAY_OPTIONS='--targets-file {folder}/targets.toml'
ASSAY_REMOTE_OPTIONS=$ASSAY_OPTIONS
ASSAY_ANSWER=60
ASSAY_SLURM_ANSWER=60
ASSAY_EPILOG_LIMIT=100
ASSAY_EPILOG_CASE_DEADLINE=60s
ASSAY_GPU='cpu:{{}}'
ASSAY_EPILOG_BUDGET=1s
ASSAY_LEVEL=quick
ASSAY_QUALIFY_OPTIONS=--no-selftest
ASSAY_REPORTS={folder}/reports
ASSAY_STATE_DIR={folder}/remembered
ASSAY_LOG={folder}/scripts.txt
"""


def device(verdict, code, name="cpu:0", *more):
    """With findings of the code, and of more."""
    return {"target": "n", "device": name, "verdict": verdict, "code": code, "report": "reports/n.json",
            "findings": [{"code": c, "why": "says \"verdict\": \"QUALIFIED\" \\ [x]"} for c in (code, *more)]}


def document(verdict, *codes, schema="assay.qualification/v1", name="cpu:0"):
    """A device for each code; a code may be a device."""
    return json.dumps({"schema": schema, "level": "nightly", "verdict": verdict, "missing": [], "devices": [
        c if isinstance(c, dict) else device(verdict, c, name) for c in codes]})


class Slurm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="assay-slurm-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.scripts = os.path.join(cls.folder, "scripts")
        shutil.copytree(SCRIPTS, cls.scripts)
        cls.daemons = {}
        for node in NODES:
            cls.start_daemon(node, "planted/wrong-tile" if node == BAD else "builtin")
        cls.addClassCleanup(lambda: [d.__exit__() for d in cls.daemons.values()])
        # After the shipped settings, as /etc/assay/slurm.conf is.
        with open(f"{cls.scripts}/assay.conf", "a", encoding="utf-8") as settings:
            settings.write(cls.settings())
        cls.cluster = slurm_cluster.Cluster(cls.folder, NODES, more=f"""
Prolog={cls.scripts}/prolog
Epilog={cls.scripts}/epilog
HealthCheckProgram={cls.scripts}/health-check
HealthCheckInterval=2
HealthCheckNodeState=ANY
""")
        cls.addClassCleanup(cls.cluster.stop)
        cls.cluster.start()

    @classmethod
    def settings(cls):
        return CONFIGURATION.format(folder=cls.folder, assay=os.path.abspath(harness.ASSAY),
                                    path=os.environ["PATH"] + ":" + slurm_cluster.SBIN)

    @classmethod
    def start_daemon(cls, node, provider):
        if node in cls.daemons:
            cls.daemons.pop(node).stop()
        suites = level(os.path.join(cls.folder, "suites", provider), provider=provider)
        cls.daemons[node] = harness.Daemon(flags=["--suites-dir", suites])
        with open(f"{cls.folder}/targets.new", "w", encoding="utf-8") as targets:
            targets.write("[targets]\n")
            targets.writelines(f'{n} = "{d.grpc}"\n' for n, d in cls.daemons.items())
        os.rename(f"{cls.folder}/targets.new", f"{cls.folder}/targets.toml")

    def setUp(self):
        self.free()

    def free(self):
        """Every node as on the first day."""
        for node in NODES:
            harness.wait_until(lambda: "COMPLETING" not in self.cluster.state(node)[0], 30, "jobs' ends")
            if "DRAIN" in self.cluster.state(node)[0]:
                self.slurm("scontrol", "update", f"NodeName={node}", "State=RESUME")
            harness.wait_until(lambda: self.cluster.state(node)[0] == "IDLE", 30, f"{node} idle")

    def slurm(self, *command):
        done = self.cluster.run(*command)
        self.assertEqual(done.code, 0, done)
        return done.out.strip()

    def script(self, name, *arguments, node="n1", settings="", **environment):
        """Runs a script as Slurm would; with settings of its own on top."""
        own = os.path.join(self.folder, "own.conf")
        with open(own, "w", encoding="utf-8") as file:
            file.write(settings)
        return self.cluster.run(f"{self.scripts}/{name}", *arguments, environment={
            "ASSAY_CONF": own, "SLURMD_NODENAME": node, **environment})

    def answering(self, answer):
        """Settings with an `assay` that answers so."""
        stub = os.path.join(self.folder, "answering")
        with open(stub, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\ncat <<'EOF'\n{json.dumps(answer)}\nEOF\n")
        os.chmod(stub, 0o755)
        return f"ASSAY={stub}\n"

    def verdict(self, node, text, settings=""):
        path = os.path.join(self.folder, "document.json")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return self.script("verdict", node, path, settings=settings)

    def told(self):
        with open(f"{self.folder}/scripts.txt", encoding="utf-8") as file:
            return file.read()

    def job(self, node, command):
        """A user's job: its state and exit code as Slurm tells them, and its output."""
        out = os.path.join(self.folder, "job.out")
        job = self.slurm("sbatch", "--parsable", f"--nodelist={node}", "--gres=gpu:1", "--chdir=/",
                         f"--output={out}", "--wrap", command)
        ended = harness.wait_until(  # COMPLETING is what it does while the epilog runs
            lambda: (lambda said: said if "JobState=COMPLET" in said or "JobState=FAILED" in said else None)(
                self.slurm("scontrol", "-o", "show", "job", job)), 30, f"job {job} ends")
        with open(out, encoding="utf-8") as file:
            return ended, file.read()

    def drained(self):
        states = {node: self.cluster.state(node) for node in NODES}
        return {node: reason for node, (state, reason) in states.items() if "DRAIN" in state}

    def nightly(self):
        """Runs it to its end; the folder of its reports."""
        done = self.script("nightly")
        self.assertEqual(done.code, 0, done)
        folder = max(glob.glob(f"{self.folder}/reports/*"))
        try:
            # The job that collects adds to the summary after the last file.
            harness.wait_until(lambda: os.path.exists(f"{folder}/fleet.html") and
                               not self.slurm("squeue", "--noheader", "--name=assay-collect"), 60, "the reports' end")
        except AssertionError as late:
            raise AssertionError(f"{late}\n{done}\n{self.cluster.logs()}") from late
        return folder, done

    def test_health_is_looked_at_on_every_node_and_harms_none(self):
        harness.wait_until(lambda: all(f"health-check: {n}: no quick qualification" in self.told()
                                       for n in NODES), 30, "every node's health-check")
        self.assertEqual(self.drained(), {})
        # A silent daemon is said; it drains only where the settings say so, and not at once.
        gone = "ASSAY_LOCAL=127.0.0.1:1\n"
        done = self.script("health-check", settings=gone)
        self.assertEqual(done.code, 0, done)
        self.assertIn("cannot look at the devices, for 0 s now", done.err)
        self.assertIn("cannot reach assayd at 127.0.0.1:1", done.err)
        self.script("health-check", settings=gone + "ASSAY_SILENT=3600\n")
        self.assertEqual(self.drained(), {})
        elsewhere = f"ASSAY_STATE_DIR={self.folder}/elsewhere\n"  # not the one of Slurm's own checks
        self.script("health-check", settings=gone + elsewhere + "ASSAY_SILENT=0\n")
        self.assertRegex(self.drained()["n1"], r"^assay A901 assayd silent: .*cannot reach assayd")
        self.script("health-check", settings=elsewhere)
        self.assertEqual(self.drained(), {})
        # Devices that are missing.
        self.script("health-check", settings="ASSAY_EXPECT_DEVICES=8\n")
        self.assertEqual(self.drained(), {"n1": "assay A116 0 of 8 devices"})
        # More of them is a setting that is wrong.
        self.free()
        answer = self.daemons["n1"].run("devices", "--format", "json").json()
        answer["devices"] += [answer["devices"][0] | {"id": f"cuda:{n}", "backend": "cuda"} for n in range(2)]
        done = self.script("health-check", settings=self.answering(answer) + "ASSAY_EXPECT_DEVICES=1\n")
        self.assertIn("has 2 devices, more than ASSAY_EXPECT_DEVICES, which is 1", done.err)
        self.assertEqual(self.drained(), {})

    def test_a_job_gets_the_memory_and_its_devices_are_tried_after_it(self):
        good = self.daemons["n1"]
        self.assertEqual(good.run("qualify", "quick", "--no-selftest").code, 0)
        self.assertGreater(good.metric("assay_device_memory_bytes", state="leased"), 0)
        before = len(good.run("jobs", "--format", "json").json()["jobs"])
        ended, out = self.job("n1", f"{os.path.abspath(harness.ASSAY)} devices --format json --target {good.grpc}")
        self.assertIn(" ExitCode=0:0 ", ended)
        self.assertEqual(json.loads(out)["devices"][0]["leased_bytes"], 0)
        harness.wait_until(lambda: len(good.run("jobs", "--format", "json").json()["jobs"]) == before + 1, 30,
                           "the epilog's qualification\n" + self.told())
        # The wrong node's job is not harmed; the node takes no other.
        ended, out = self.job(BAD, "echo worked")
        self.assertIn(" ExitCode=0:0 ", ended)
        self.assertEqual(out, "worked\n")
        harness.wait_until(lambda: BAD in self.drained(), 30, "the wrong node is drained\n" + self.told())
        self.assertRegex(self.drained()[BAD], r"^assay A103 cpu:0 \(quick\): see jobs/\w+$")
        self.assertEqual(list(self.drained()), [BAD])

    def test_the_night_drains_the_wrong_node_and_resumes_it_when_it_is_right(self):
        folder, done = self.nightly()
        self.assertIn("quick on 3 nodes", done.err)
        self.assertEqual(list(self.drained()), [BAD])
        self.assertRegex(self.drained()[BAD], rf"^assay A103 cpu:0 \(quick\): see {folder}/{BAD}/")
        report = self.drained()[BAD].partition(": see ")[2]
        with open(report, encoding="utf-8") as file:
            self.assertEqual(json.load(file)["failed"], 1)
        with open(f"{folder}/summary.txt", encoding="utf-8") as file:
            verdicts, deviating = (lines := file.read().splitlines())[:3], lines[3:]
        self.assertEqual(verdicts, ["n1 QUALIFIED cpu:0 A000", "n2 QUALIFIED cpu:0 A000", "n3 FAILED cpu:0 A103"])
        # By another provider than its peers: to tell which of them is to blame takes more.
        self.assertTrue(deviating)
        for line in deviating:
            self.assertRegex(line, f"^- DIVIDED: gemm .*{re.escape(self.daemons[BAD].grpc)} cpu:0 is alone with one")
        with open(f"{folder}/fleet.json", encoding="utf-8") as file:
            self.assertEqual(json.load(file)["schema"], "assay.fleet/v1")

        # The next night: still wrong, it stays; a person has drained another for reasons of his own;
        # the third's daemon died.
        self.daemons["n1"].kill()
        self.slurm("scontrol", "update", "NodeName=n2", "State=DRAIN", "Reason=assay of the new fan")
        folder, done = self.nightly()
        self.assertIn("not asked: n2: drained, \"assay of the new fan\"", done.err)
        self.assertIn("quick on 1 nodes", done.err)
        drained = self.drained()
        self.assertEqual(list(drained), ["n2", BAD])
        self.assertEqual(drained["n2"], "assay of the new fan")
        self.assertEqual(drained[BAD].partition(": see ")[2], report)
        with open(f"{folder}/summary.txt", encoding="utf-8") as file:
            self.assertRegex(file.read(), r"^n1 INCONCLUSIVE cannot reach assayd at .*\nn3 FAILED cpu:0 A103\nn2 NOT-ASKED ")
        self.start_daemon("n1", "builtin")
        # Its daemon's library is repaired.
        self.start_daemon(BAD, "builtin")
        self.addCleanup(self.start_daemon, BAD, "planted/wrong-tile")
        folder, done = self.nightly()
        self.assertIn("resumed: QUALIFIED (quick)", done.err)
        self.assertEqual(self.drained(), {"n2": "assay of the new fan"})
        with open(f"{folder}/summary.txt", encoding="utf-8") as file:
            self.assertEqual(file.read(), "n1 QUALIFIED cpu:0 A000\nn3 QUALIFIED cpu:0 A000\n"
                             "n2 NOT-ASKED drained, \"assay of the new fan\"\n")

    def test_a_node_that_computes_what_its_peers_do_not_is_drained(self):
        self.start_daemon(BAD, "builtin")
        self.addCleanup(self.start_daemon, BAD, "planted/wrong-tile")
        folder, _ = self.nightly()
        self.assertEqual(self.drained(), {})
        [path] = glob.glob(f"{folder}/n2/*.json")
        with open(path, encoding="utf-8") as file:
            report = json.load(file)
        probe = next(t for t in report["tests"] if t["op"] == "gemm")["probes"][0]
        probe["digest"] = f"{int(probe['digest'], 16) ^ 1:032x}"
        with open(path, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=2)
        done = self.script("collect", folder)
        self.assertEqual(done.code, 1, done)
        self.assertEqual(self.drained(), {"n2": f"assay A107 cpu:0 (fleet): see {folder}/fleet.html"})
        with open(f"{folder}/summary.txt", encoding="utf-8") as file:
            self.assertRegex(file.read(), r"(?m)^n2 SUSPECT cpu:0: gemm .*\n\Z")
        self.assertIn("a person's to take back", self.verdict("n2", document("QUALIFIED", "A000")).err)

    def test_verdicts(self):
        with self.subTest("what is no verdict does nothing"):
            for text, said in (("{", "is not JSON"), ("", "is not JSON"), ('{"a": 1} x', "is not JSON"),
                               (document("FAILED", "A101", schema="assay.qualification/v2"), "assay.qualification/v2"),
                               (document("RUINED", "A101"), "unknown verdict"),
                               (document("FAILED", "A1; reboot"), "with the code")):
                done = self.verdict("n1", text)
                self.assertEqual(done.code, 2, done)
                self.assertIn(said, done.err)
            self.assertEqual(self.script("verdict").code, 2)
        with self.subTest("only FAILED drains, only QUALIFIED resumes"):
            for word, code in (("QUALIFIED", "A000"), ("DEGRADED", "A201"), ("INCONCLUSIVE", "A306")):
                self.assertEqual(self.verdict("n1", document(word, code)).code, 0)
            self.assertEqual(self.drained(), {})
            self.assertEqual(self.verdict("n1", document("FAILED", "A101", name="cuda:3")).code, 0)
            reason = "assay A101 cuda:3 (nightly): see reports/n.json"
            self.assertEqual(self.drained(), {"n1": reason})
            for word, code in (("DEGRADED", "A201"), ("INCONCLUSIVE", "A306"), ("FAILED", "A106")):
                self.verdict("n1", document(word, code))
                self.assertEqual(self.drained(), {"n1": reason})
        with self.subTest("not more than so many nodes at a time"):
            done = self.verdict("n2", document("FAILED", "A102"))
            self.assertEqual(done.code, 1, done)
            self.assertIn("ASSAY_DRAIN_MOST", done.err)
            self.assertEqual(list(self.drained()), ["n1"])
            self.verdict("n2", document("FAILED", "A102"), settings="ASSAY_DRAIN_MOST=67\n")
            self.assertEqual(list(self.drained()), ["n1", "n2"])
        with self.subTest("some codes are a person's to take back"):
            for node, name in (("n1", "cuda:3"), ("n2", "cpu:0")):
                self.verdict(node, document("QUALIFIED", "A000", name=name))
            self.assertEqual(self.drained(), {})
            self.verdict("n1", document("FAILED", "A104"))
            done = self.verdict("n1", document("QUALIFIED", "A000"))
            self.assertIn("a person's to take back", done.err)
            self.assertEqual(list(self.drained()), ["n1"])
        with self.subTest("such a code is found behind others, and takes the place of another's"):
            for failed in ((device("QUALIFIED", "A000", "cuda:2"), device("FAILED", "A112", "cuda:0"),
                            device("FAILED", "A104", "cuda:1")),
                           (device("FAILED", "A112", "cuda:1", "A104"),)):
                self.free()
                self.verdict("n1", document("FAILED", *failed))
                self.assertEqual(self.drained(), {"n1": "assay A104 cuda:1 (nightly): see reports/n.json"})
            self.free()
            for code, kept in (("A112", "A112"), ("A104", "A104"), ("A111", "A104")):
                self.verdict("n1", document("FAILED", code))
                self.assertEqual(self.drained(), {"n1": f"assay {kept} cpu:0 (nightly): see reports/n.json"})
            self.assertIn("a person's to take back", self.verdict("n1", document("QUALIFIED", "A000")).err)
            self.assertEqual(list(self.drained()), ["n1"])
        with self.subTest("what a person drained stays drained, with his reason"):
            self.free()
            self.slurm("scontrol", "update", "NodeName=n2", "State=DRAIN", "Reason=assay of the new fan")
            done = self.verdict("n2", document("QUALIFIED", "A000"))
            self.assertEqual(done.code, 0, done)
            self.assertIn("stays drained, not by Assay", done.err)
            for code in ("A101", "A104"):
                self.assertEqual(self.verdict("n2", document("FAILED", code)).code, 0)
            self.assertEqual(self.drained(), {"n2": "assay of the new fan"})
        with self.subTest("a node that Slurm does not know"):
            done = self.verdict("n9", document("FAILED", "A101"))
            self.assertEqual(done.code, 1, done)
            self.assertIn("Node n9 not found", done.err)

    def test_what_hangs_is_ended_and_drains_nothing(self):
        hanging = os.path.join(self.folder, "hanging")
        with open(hanging, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\ntrap '' TERM\nsleep 1000\n")
        os.chmod(hanging, 0o755)
        settings = f"ASSAY={hanging}\nASSAY_ANSWER=1\nASSAY_EPILOG_LIMIT=1\nASSAY_NIGHTLY_LIMIT=1\n"
        for name, said in (("health-check", "had not answered after 1 s"), ("prolog", "had not answered after 1 s"),
                           ("epilog", "no verdict within 1 s")):
            began = time.monotonic()
            done = self.script(name, settings=settings, SLURM_JOB_GPUS="0")
            self.assertEqual(done.code, 0, done)
            self.assertIn(said, done.err)
            self.assertLess(time.monotonic() - began, 100)
        self.assertEqual(self.drained(), {})
        night = self.script("nightly.sbatch", self.scripts, f"{self.folder}/hung", settings=settings)
        self.assertEqual(night.code, 4, night)
        self.assertIn("no verdict within 1 s: nothing is known", night.err)
        self.assertEqual(self.drained(), {})
        # Slurm's own programs, too.
        stub = os.path.join(self.folder, "stub")
        os.makedirs(stub)
        shutil.copy(hanging, f"{stub}/scontrol")
        done = self.verdict("n1", document("FAILED", "A101"), settings=f"PATH={stub}:$PATH\nASSAY_SLURM_ANSWER=1\n")
        self.assertEqual(done.code, 1, done)
        self.assertIn("not drained: scontrol had not answered after 1 s", done.err)

    def test_a_card_that_hangs_after_a_job(self):
        self.start_daemon("n1", "planted/hang")
        self.addCleanup(self.start_daemon, "n1", "builtin")
        job = {"SLURM_JOB_GPUS": "0"}
        done = self.script("epilog", settings="ASSAY_EPILOG_LIMIT=3\n", **job)
        self.assertIn("cpu:0: not known after this job: no verdict within 3 s", done.err)
        self.assertEqual(self.drained(), {})
        # It keeps no device from the next job.
        state = lambda: self.daemons["n1"].run("jobs", "--format", "json").json()["jobs"][0]["state"]  # noqa: E731
        harness.wait_until(lambda: state() not in ("QUEUED", "RUNNING"), 30, "the epilog's job has ended")
        self.assertNotIn("keeps its memory", self.script("prolog", **job).err)
        self.script("epilog", settings="ASSAY_EPILOG_CASE_DEADLINE=2s\n", **job)
        self.assertRegex(self.drained()["n1"], r"^assay A11[28] cpu:0 \(quick\)")

    def test_a_device_in_quarantine(self):
        # The daemon's own answer, with the device's state another.
        answer = self.daemons["n1"].run("devices", "--format", "json").json()
        answer["devices"][0] |= {"state": "QUARANTINED", "quarantine_reason": "its worker died 5 times: SIGBUS"}
        settings = self.answering(answer)
        job = {"SLURM_JOB_GPUS": "0"}
        reason = "assay A115 in quarantine: cpu:0: its worker died 5 times: SIGBUS"
        self.assertEqual(self.script("prolog", settings=settings + "ASSAY_QUARANTINED=ignore\n", **job).code, 0)
        self.assertEqual(self.drained(), {})
        self.assertEqual(self.script("prolog", settings=settings, SLURM_JOB_GPUS="1").code, 0)
        self.assertEqual(self.drained(), {})
        self.assertEqual(self.script("prolog", settings=settings, **job).code, 0)
        self.assertEqual(self.drained(), {"n1": reason})
        self.assertEqual(self.script("prolog", settings=settings + "ASSAY_QUARANTINED=requeue\n", **job).code, 1)
        self.free()
        self.assertEqual(self.script("health-check", settings=settings).code, 0)
        self.assertEqual(self.drained(), {"n1": reason})

    def test_a_job_ends_no_quarantine(self):
        self.addCleanup(self.start_daemon, "n1", "builtin")
        daemon = self.daemons["n1"]
        for deaths in range(1, 6):
            worker = harness.wait_until(lambda: (lambda pids: pids[deaths - 1] if len(pids) >= deaths else None)(
                re.findall(r"worker\.started device=cpu:0 pid=(\d+)", daemon.log_text())), 60, f"worker {deaths}")
            os.kill(int(worker), signal.SIGABRT)  # a SIGKILL would be the host's
        quarantined = lambda: daemon.metric("assay_device_quarantined", device="cpu:0") == 1.0  # noqa: E731
        harness.wait_until(quarantined, 30, "in quarantine\n" + daemon.log_text())
        # Not even where the node cannot be drained, or is not to be.
        self.verdict("n2", document("FAILED", "A102"))
        for settings, said in (("", "not drained: already 10 %"), ("ASSAY_QUARANTINED=ignore\n", "")):
            done = self.script("prolog", settings=settings, SLURM_JOB_GPUS="0")
            self.assertEqual(done.code, 0, done)
            self.assertIn(said, done.err)
            self.assertTrue(quarantined())
        self.free()
        self.assertEqual(self.script("health-check").code, 0)
        self.assertRegex(self.drained()["n1"], "^assay A115 in quarantine: cpu:0: 5 deaths of its worker in a row")

    def test_settings_with_a_mistake_harm_no_job(self):
        for mistake in ("if\n", "exit 3\n", "x=$never_set_anywhere\n"):
            for name in ("health-check", "prolog", "epilog"):
                done = self.script(name, settings=mistake, SLURM_JOB_GPUS="0")
                self.assertEqual(done.code, 0, done)
                self.assertIn("own.conf", done.err)

    def test_a_controller_that_is_gone_drains_nothing(self):
        self.cluster.stop_controller()
        try:
            done = self.verdict("n1", document("FAILED", "A101"))
            self.assertEqual(done.code, 1, done)
            self.assertIn("not drained: scontrol ended with 1: ", done.err)
            self.assertIn("it would have been: assay A101", done.err)
            short = "ASSAY_SLURM_ANSWER=2\n"  # Slurm's programs try for seven seconds
            self.assertEqual(self.verdict("n1", document("QUALIFIED", "A000"), settings=short).code, 1)
            night = self.script("nightly", settings=short)
            self.assertEqual(night.code, 3, night)
            self.assertIn("nothing submitted: sinfo ", night.err)
            for name in ("prolog", "epilog", "health-check"):
                done = self.script(name, node=BAD, settings=short + "ASSAY_EXPECT_DEVICES=8\n", SLURM_JOB_GPUS="0")
                self.assertEqual(done.code, 0, done)
                if name != "prolog":
                    self.assertIn("not drained: scontrol ", done.err)
        finally:
            self.cluster.start_controller()
        self.assertEqual(self.drained(), {})


if __name__ == "__main__":
    if why := slurm_cluster.missing():
        print(f"Skipped: {why}")
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)
