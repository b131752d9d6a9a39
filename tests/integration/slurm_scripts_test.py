"""Slurm's scripts without a Slurm: which of a job's devices an epilog tells of; which verdicts resume a node; what `collect` makes of a night's folder,
with an `assay` that holds the reports against one another as it is told to; the limits of a night; the words of the command line; and what is left of a
script that was ended."""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

ROOT = os.path.join(os.path.dirname(__file__), "..", "..")
SCRIPTS = os.path.join(ROOT, "deploy", "slurm")
LEVELS = ("quick", "medium", "nightly", "extended")

ASSAY = """#!/bin/sh
echo "$@" >>{folder}/called
for file; do :; done
cp {folder}/merged "$file"
exit $(cat {folder}/code)
"""
SCONTROL = """#!/bin/sh
case $1 in
  -o) echo "NodeName=$4 State=IDLE ThreadsPerCore=1" ;;
  update) shift; echo "$@" >>{folder}/drained ;;
esac
"""
SINFO = "#!/bin/sh\necho 'n1|none'\n"
# Of a node that is drained for what is in the file `reason`.
DRAINED = """#!/bin/sh
case $1 in
  -o) echo "NodeName=$4 State=IDLE+DRAIN ThreadsPerCore=1 Reason=$(cat {folder}/reason) [root@2026-11-22T01:30:00]" ;;
  update) shift; echo "$@" >>{folder}/updated ;;
esac
"""


def accused(node, charge, device="cuda:0"):
    return {"node": "host-" + node, "device": device, "charge": charge, "evidence": [{"case": "gemm", "text": f"{charge} as told"}, {"text": "more"}]}


class Scripts(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="assay-scripts-")
        self.addCleanup(shutil.rmtree, self.folder)
        for name, text in (("assay", ASSAY), ("scontrol", SCONTROL), ("sinfo", SINFO)):
            self.program(name, text.replace("{folder}", self.folder))

    def program(self, name, text):
        self.write(name, text)
        os.chmod(f"{self.folder}/{name}", 0o755)

    def run_script(self, name, *arguments, settings="", **environment):
        self.write("own.conf", f"PATH={self.folder}:$PATH\nASSAY_LOG=\n{settings}")
        return subprocess.run(["/bin/sh", f"{SCRIPTS}/{name}", *arguments], capture_output=True, text=True, check=False,
                              env={**os.environ, "ASSAY_CONF": f"{self.folder}/own.conf", **environment}, timeout=120)

    def write(self, path, text):
        path = os.path.join(self.folder, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def read(self, path):
        path = os.path.join(self.folder, path)
        if not os.path.exists(path):
            return ""
        with open(path, encoding="utf-8") as file:
            return file.read()


class Epilog(Scripts):
    def test_of_several_failed_devices_the_code_that_a_person_takes_back_is_told(self):
        documents = "".join(f"*cuda:{n}*) echo '" + json.dumps(
            {"schema": "assay.qualification/v1", "level": "quick", "verdict": "FAILED", "missing": [], "devices": [
                {"device": f"cuda:{n}", "verdict": "FAILED", "code": code, "report": "r"}]}) + "' ;;\n"
                            for n, code in enumerate(("A112", "A104", "A111")))
        self.program("assay", f'#!/bin/sh\necho "$@" >>{self.folder}/called\ncase $* in {documents} esac\nexit 1\n')
        done = self.run_script("epilog", SLURM_JOB_GPUS="0,1,2", SLURMD_NODENAME="n1",
                               settings="ASSAY_EPILOG_LIMIT=20\nASSAY_EPILOG_CASE_DEADLINE=2s\n")
        self.assertEqual(done.returncode, 0, done)
        self.assertEqual(self.read("drained"), "NodeName=n1 State=DRAIN Reason=assay A104 cuda:1 (quick): see r\n", done)
        calls = [call for call in self.read("called").splitlines() if call.startswith("qualify ")]
        self.assertEqual(len(calls), 3)
        for call in calls:
            self.assertIn(" --case-deadline 2s --job-deadline 20s ", call)

    def test_nothing_is_run_again_where_another_job_may_have_a_device_beside_it(self):
        def retries(gpus, *states, answers=0):
            listed = [{"id": "cpu:0", "backend": "cpu", "state": "READY"}]
            listed += [{"id": f"cuda:{i}", "backend": "cuda", "state": state} for i, state in enumerate(states)]
            self.write("called", "")
            self.write("listed", json.dumps({"devices": listed}, indent=2))
            self.program("assay", f'#!/bin/sh\necho "$@" >>{self.folder}/called\n[ "$1" = devices ] || exit 0\n'
                                  f"cat {self.folder}/listed\nexit {answers}\n")
            done = self.run_script("epilog", SLURM_JOB_GPUS=gpus, SLURMD_NODENAME="n1")
            self.assertEqual((done.returncode, done.stderr), (0, ""), done)
            calls = [call for call in self.read("called").splitlines() if call.startswith("qualify ")]
            self.assertEqual(len(calls), gpus.count(",") + 1)
            return {"--no-siblings" not in call for call in calls}

        self.assertEqual(retries("0", "READY", "BUSY"), {False})
        self.assertEqual(retries("0,2", "READY", "READY", "READY"), {False})
        # All of them are the job's, or nobody's.
        self.assertEqual(retries("0,1", "READY", "BUSY"), {True})
        self.assertEqual(retries("0", "READY", "QUARANTINED", "UNAVAILABLE"), {True})
        self.assertEqual(retries("0", "READY", answers=3), {False})


class HealthCheck(Scripts):
    def look(self, expected, *devices):
        """What is drained and said of a node with these devices that is to have so many."""
        listed = [{"id": d, "backend": d.partition(":")[0], "state": "READY"} for d in ("cpu:0", *devices)]
        listed.append({"id": "hip", "backend": "hip", "state": "UNAVAILABLE"})
        self.program("assay", f"#!/bin/sh\ncat <<'EOF'\n{json.dumps({'devices': listed}, indent=2)}\nEOF\n")
        self.write("drained", "")
        done = self.run_script("health-check", SLURMD_NODENAME="n1",
                               settings=f"ASSAY_EXPECT_DEVICES='{expected}'\nASSAY_STALE=\nASSAY_STATE_DIR={self.folder}\n")
        self.assertEqual(done.returncode, 0, done)
        return self.read("drained"), done.stderr

    def test_devices_are_counted_of_their_backend(self):
        fewer = "NodeName=n1 State=DRAIN Reason=assay A116 {}\n"
        for expected, devices, drained in (
                ("cuda:1", [], fewer.format("0 of 1 cuda devices")), ("cuda:1", ["hip:0"], fewer.format("0 of 1 cuda devices")),
                ("hip:2", ["hip:0", "cuda:0"], fewer.format("1 of 2 hip devices")),
                ("2", ["cuda:0"], fewer.format("1 of 2 devices")), ("cuda:1", ["cuda:0", "hip:0"], ""),
                ("2", ["cuda:0", "hip:0"], ""), ("cpu:1", ["cuda:0"], ""), ("", [], "")):
            with self.subTest(expected, devices=devices):
                found, said = self.look(expected, *devices)
                self.assertEqual(found, drained)
                self.assertEqual(said == "", drained == "", said)
        self.assertEqual(self.look("cuda:1", "cuda:0", "cuda:1"),
                         ("", "health-check: n1: has 2 cuda devices, more than ASSAY_EXPECT_DEVICES, which is cuda:1\n"))

    def test_a_node_that_was_drained_for_silence_comes_back_after_a_boot(self):
        self.program("scontrol", DRAINED.replace("{folder}", self.folder).replace("case", f"echo >>{self.folder}/asked\n"
                     f"[ ! -e {self.folder}/busy ] || exit 1\ncase", 1))
        self.write("reason", "assay A901 assayd silent: gone")
        # Nothing is left of what an earlier check remembered, and at first the controller does not answer.
        self.write("busy", "")
        self.assertIn("asked again: scontrol ended with 1", self.look("")[1])
        os.remove(f"{self.folder}/busy")
        self.look("")
        self.assertEqual(self.read("updated"), "NodeName=n1 State=RESUME\n")
        asked = self.read("asked")
        self.look("")
        self.assertEqual(self.read("asked"), asked, "the controller is asked once")

    def test_a_count_that_is_none_drains_nothing_and_is_said(self):
        for wrong in ("cuda:", "x:3", "-1", "cuda:1:2", "eight"):
            drained, said = self.look(wrong)
            self.assertEqual(drained, "")
            self.assertIn(f'must be N or BACKEND:N, 8 or cuda:8, and is "{wrong}"', said)


class Verdict(Scripts):
    def setUp(self):
        super().setUp()
        self.program("scontrol", DRAINED.replace("{folder}", self.folder))

    def verdict(self, reason, level, devices, word="QUALIFIED", code="A000"):
        """Of a node that is drained for the reason: what is changed, and what is said."""
        self.write("reason", reason)
        self.write("updated", "")
        self.write("document", json.dumps({"schema": "assay.qualification/v1", "level": level, "verdict": word, "missing": [], "devices": [
            {"device": device, "verdict": word, "code": code, "report": "r"} for device in devices]}))
        done = self.run_script("verdict", "n1", f"{self.folder}/document")
        self.assertEqual(done.returncode, 0, done)
        return self.read("updated").strip(), done.stderr

    def resumed(self, reason, level, devices=("cuda:3",)):
        updated, said = self.verdict(reason, level, devices)
        self.assertIn("resumed" if updated else "stays drained", said)
        self.assertIn(updated, ("", "NodeName=n1 State=RESUME"))
        return bool(updated)

    def test_a_lower_level_does_not_take_back_what_a_higher_one_found(self):
        for i, of_reason in enumerate(LEVELS):
            for j, level in enumerate(LEVELS):
                self.assertEqual(self.resumed(f"assay A101 cuda:3 ({of_reason}): see r", level), j >= i, (of_reason, level))
        self.assertIn("stays drained: nightly is a lower level than extended: \"assay A101 cuda:3",
                      self.verdict("assay A101 cuda:3 (extended): see r", "nightly", ["cuda:3"])[1])
        # These name no level.
        for reason in ("assay A115 in quarantine: cuda:3: its worker died", "assay A116 7 of 8 devices", "assay A901 assayd silent: of lab:1"):
            self.assertTrue(self.resumed(reason, "quick"), reason)

    def test_a_verdict_without_the_device_that_was_drained_for_does_not_resume(self):
        cpu, quarantine = ["cpu:0"], "assay A115 in quarantine: cuda:0: died;cuda:1: died"
        for reason in ("assay A101 cuda:3 (quick): see r", "assay A116 cuda:3: no driver (quick): see r", "assay A116 7 of 8 devices",
                       "assay A116 expected 8 devices, found 1 (quick): see assay qualify quick", quarantine):
            self.assertFalse(self.resumed(reason, "nightly", cpu), reason)
        self.assertFalse(self.resumed("assay A101 cuda:3 (quick): see r", "nightly", ["cuda:30", "cuda:2"]))
        self.assertFalse(self.resumed(quarantine, "nightly", ["cuda:0", "cuda:2"]))
        self.assertTrue(self.resumed(quarantine, "nightly", ["cuda:0", "cuda:1"]))
        self.assertTrue(self.resumed("assay A103 cpu:0 (quick): see r", "nightly", cpu))
        self.assertIn("stays drained: no verdict of cuda:3: ", self.verdict("assay A101 cuda:3 (quick): see r", "quick", cpu)[1])

    def test_what_comes_and_goes_is_a_persons_to_take_back(self):
        for code in ("A104", "A105", "A107", "A119"):
            self.assertFalse(self.resumed(f"assay {code} cuda:3 (quick): see r", "extended"), code)

    def test_a_higher_level_takes_the_place_of_a_lower_one(self):
        for reason, level, taken in (("A103 cuda:3 (quick)", "extended", True), ("A103 cuda:3 (extended)", "quick", False),
                                     ("A103 cuda:3 (quick)", "quick", False), ("A104 cuda:3 (quick)", "extended", False)):
            updated = self.verdict(f"assay {reason}: see r", level, ["cuda:3"], "FAILED", "A101")[0]
            self.assertEqual(updated, f"NodeName=n1 State=DRAIN Reason=assay A101 cuda:3 ({level}): see r" if taken else "", reason)


class Collect(Scripts):
    def collect(self, nodes, code=0, settings="", failed=(), **fleet):
        """Of nodes that QUALIFIED, but for the `failed`: the exit code, the lines of summary.txt that are
        not their verdicts, and the drained."""
        shutil.rmtree(f"{self.folder}/night", ignore_errors=True)
        for path in ("called", "drained"):
            self.write(path, "")
        for path, text in (("asked", "".join(f"{n}\n" for n in nodes)), ("drained", ""), ("not-asked", "")):
            self.write("night/" + path, text)
        for node in nodes:
            verdict = "FAILED" if node in failed else "QUALIFIED"
            self.write(f"night/{node}.json", json.dumps({"verdict": verdict, "devices": [
                {"device": "cuda:0", "verdict": verdict, "code": "A101", "job": f"jobs/{node}"}], "missing": []}, indent=2))
            self.write(f"night/{node}/report.json", "{}")
        # The fleet's names are not Slurm's.
        devices = [{"node": "host-" + n, "device": "cuda:0", "jobs": [f"jobs/{n}"]} for n in nodes]
        self.write("merged", json.dumps({"accused": [], "unjudged": [], "missing": [], "devices": devices, **fleet}, indent=2))
        self.write("code", str(code))
        done = self.run_script("collect", f"{self.folder}/night", settings=settings)
        told = [line for line in self.read("night/summary.txt").splitlines() if " cuda:0 A101" not in line]
        return done.returncode, told, self.read("drained").splitlines()

    def test_a_suspect_is_drained_and_all_that_deviates_is_listed(self):
        fleet = {"accused": [accused("n2", "SUSPECT"), accused("n3", "SLOW"), accused("n4", "FAILED"), accused("n5", "SUSPECT")],
                 "unjudged": [{"node": "host-n1", "device": "cuda:0", "reason": "gave no digests"}],
                 "missing": [{"target": "n6:7576", "reason": "incomplete"}], "unread": ["n7/report.json: torn"],
                 "everywhere": ["gemm fails everywhere"],
                 "job_findings": [{"target": "n1:7576", "verdict": "FAILED", "reason": "missing", "message": "onednn is required",
                                   "everywhere": False}]}
        nodes = [f"n{i}" for i in range(1, 6)]
        code, told, drained = self.collect(nodes, 1, failed=("n4", "n5"), **fleet)
        self.assertEqual(code, 1)
        lines = ["- UNREAD: n7/report.json: torn", "- EVERYWHERE: gemm fails everywhere", "n2 SUSPECT cuda:0: gemm: SUSPECT as told",
                 "n3 SLOW cuda:0: gemm: SLOW as told", "n5 SUSPECT cuda:0: gemm: SUSPECT as told",
                 "n1 UNJUDGED cuda:0: gave no digests", "- INCOMPLETE n6:7576: incomplete",
                 "- FAILED n1:7576: onednn is required"]
        self.assertEqual(sorted(told), sorted(lines))
        # The verdict of n5 was for what it is.
        self.assertEqual(drained, [f"NodeName=n2 State=DRAIN Reason=assay A107 cuda:0 (fleet): see {self.folder}/night/fleet.html"])
        code, told, drained = self.collect(nodes, 1, settings="ASSAY_SUSPECTS=list\n", failed=("n4", "n5"), **fleet)
        self.assertEqual((code, len(told), drained), (1, len(lines), []))

    def test_what_could_not_be_judged_is_no_success_but_of_a_single_node(self):
        silent = [{"node": "host-n1", "device": "cuda:0", "reason": "gave no digests"}]
        self.assertEqual(self.collect(["n1", "n2"], 4, unjudged=silent), (1, ["n1 UNJUDGED cuda:0: gave no digests"], []))
        self.assertEqual(self.collect(["n1"], 4, unjudged=silent), (0, [], []))
        self.assertEqual(self.collect(["n1", "n2"], 0), (0, [], []))
        self.assertEqual(self.collect(["n1", "n2"], 3)[0], 1)

    def test_a_comparison_of_before_is_no_answer(self):
        self.assertEqual(len(self.collect(["n1", "n2"], 1, accused=[accused("n2", "SUSPECT")])[2]), 1)
        self.write("drained", "")
        self.program("assay", "#!/bin/sh\nexit 3\n")
        done = self.run_script("collect", f"{self.folder}/night")
        self.assertEqual((done.returncode, self.read("drained")), (1, ""), done)
        self.assertIn("fleet: no document of the comparison", done.stderr)

    def test_groups_are_about_as_large(self):
        for nodes, most, groups in ((9, 4, [3, 3, 3]), (9, 8, [5, 4]), (5, 4, [5]), (3, 2, [3]), (4, 4, [4])):
            self.collect([f"n{i}" for i in range(nodes)], settings=f"ASSAY_MERGE={most}\n")
            calls = [line for line in self.read("called").splitlines() if "--format json" in line]
            self.assertEqual([call.count("/report.json") for call in calls], groups, (nodes, most))


class Nightly(Scripts):
    def test_of_two_that_begin_in_the_same_second_one_goes_on(self):
        self.program("date", "#!/bin/sh\necho 2026-11-22T013000\n")
        self.program("sinfo", "#!/bin/sh\necho 'n1|idle|none'\n")
        self.program("sbatch", f"#!/bin/sh\necho \"$@\" >>{self.folder}/submitted\necho 7\n")
        settings = f"ASSAY_REPORTS={self.folder}/reports\n"
        done = self.run_script("nightly", settings=settings)
        self.assertEqual(done.returncode, 0, done)
        submitted = self.read("submitted")
        done = self.run_script("nightly", settings=settings)
        self.assertEqual(done.returncode, 3, done)
        self.assertIn("another `nightly` has just begun", done.stderr)
        self.assertEqual(self.read("submitted"), submitted)


class Words(Scripts):
    USAGE = {"collect": "FOLDER", "epilog": "", "health-check": "", "nightly": "", "nightly.sbatch": "SCRIPTS FOLDER", "prolog": "",
             "verdict": "NODE [FILE]"}

    def setUp(self):
        super().setUp()
        for name in ("assay", "scontrol", "sinfo", "sbatch", "scancel"):
            self.program(name, f"#!/bin/sh\necho {name} >>{self.folder}/called\n")

    def test_help_is_the_scripts_head_and_does_nothing(self):
        for name in self.USAGE:
            for words in (["--help"], ["-h"], ["--dry-run", "--help"]):
                done = self.run_script(name, *words)
                self.assertEqual((done.returncode, done.stderr, self.read("called")), (0, "", ""), done)
                self.assertIn("\n# " + done.stdout.splitlines()[-1], read("deploy/slurm", name))
                self.assertNotRegex(done.stdout, "(?m)^(#|SBATCH|set )")

    def test_words_that_a_script_does_not_know_are_refused_before_anything_is_done(self):
        many = ["one", "two", "three"]
        for name, usage in self.USAGE.items():
            usage = f"{name} {usage}".strip()
            taken = len(usage.split()) - 1
            for words, unknown in ((["--dry-run"], "--dry-run"), (many[:taken + 1], many[taken])):
                if name == "nightly.sbatch" and words == many:
                    words = [SCRIPTS, "two", "three"]
                done = self.run_script(name, *words)
                self.assertEqual((done.returncode, done.stderr), (2, f'{name}: unknown word "{unknown}"; usage: {usage}\n'), done)
                self.assertEqual((done.stdout, self.read("called")), ("", ""), done)
            if taken:
                done = self.run_script(name)
                self.assertEqual((done.returncode, done.stderr), (2, f"{name}: usage: {usage}\n"), done)


class Ended(Scripts):
    """What a script runs ends with it."""

    def setUp(self):
        super().setUp()
        # An epilog asks for the devices first, and goes on without them.
        self.program("assay", f'#!/bin/sh\n[ "$1 $(cat {self.folder}/of)" != "devices epilog" ] || exit 1\n'
                              "trap '' INT\nsleep 1000 &\n"
                              f"echo $$ $! >{self.folder}/new\nmv {self.folder}/new {self.folder}/pids\nwait\n")
        self.program("sinfo", "#!/bin/sh\necho 'n1|drained|assay A101 cuda:0: see r'\n")

    def wait_for(self, condition, what):
        end = time.monotonic() + 60
        while not condition():
            self.assertLess(time.monotonic(), end, what)
            time.sleep(0.02)

    def left_after(self, end, name, *words):
        """The processes that a script's `assay` was, when the script was ended, and the script's exit code."""
        self.write("pids", "")
        self.write("of", name)
        self.write("own.conf", f"PATH={self.folder}:$PATH\nASSAY_LOG=\nASSAY_REPORTS={tempfile.mkdtemp(dir=self.folder)}\n"
                               "ASSAY_EPILOG_LIMIT=900\nASSAY_ANSWER=900\n")
        environment = {**os.environ, "ASSAY_CONF": f"{self.folder}/own.conf", "SLURM_JOB_GPUS": "0"}
        with open(f"{self.folder}/said", "w", encoding="utf-8") as said, subprocess.Popen(
                ["/bin/sh", f"{SCRIPTS}/{name}", *words], env=environment, start_new_session=True, stdout=said, stderr=said) as script:
            self.wait_for(lambda: self.read("pids"), "assay has begun")
            end(script.pid)
            script.wait(60)
            pids = self.read("pids").split()
            self.addCleanup(subprocess.run, ["kill", "-KILL", *pids], stderr=subprocess.DEVNULL, check=False)
            self.wait_for(lambda: not any(map(running, pids)), f"{name} left {pids}")
        return script.returncode

    def test_with_the_process_and_with_its_group(self):
        for name, *words in (["nightly"], ["nightly.sbatch", SCRIPTS, f"{self.folder}/night"], ["epilog"], ["prolog"], ["health-check"]):
            with self.subTest(name):
                self.assertEqual(self.left_after(lambda pid: os.kill(pid, signal.SIGTERM), name, *words), 143)
                self.assertEqual(self.left_after(lambda pid: os.killpg(pid, signal.SIGINT), name, *words), 130)
                if shutil.which("setpriv"):
                    self.left_after(lambda pid: os.killpg(pid, signal.SIGKILL), name, *words)


def running(pid):
    """Is it, and not only unread by its parent?"""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(") ")[2][0] != "Z"
    except OSError:
        return False


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


class Limits(unittest.TestCase):
    def limit(self, settings):
        """The level, and its seconds."""
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as own:
            own.write(settings)
            own.flush()
            done = subprocess.run(["/bin/sh", "-uc", f"here={SCRIPTS}; . $here/functions; echo $ASSAY_LEVEL $ASSAY_NIGHTLY_LIMIT"],
                                  capture_output=True, text=True, check=True, env={**os.environ, "ASSAY_CONF": own.name})
        level, limit = done.stdout.split()
        return level, int(limit)

    def test_every_level_has_its_time(self):
        unit = int(re.search(r"(?m)^TimeoutStartSec=(\d+)h$", read("deploy/systemd/assay-nightly.service")).group(1)) * 3600
        chart = int(re.search(r"(?m)^  deadlineSeconds: (\d+)$", read("deploy/helm/assay/values.yaml")).group(1))
        for number, level in enumerate(LEVELS, 1):
            budget = int(re.search(r"(?m)^budget = (\d+)", read(f"kernels/suites/{level}.toml")).group(1))
            for name in (level, number):
                named, limit = self.limit(f"ASSAY_LEVEL={name}\n")
                self.assertEqual(named, level)
                self.assertGreater(limit, 1.5 * budget)
            self.assertGreater(min(unit, chart), 1.5 * budget)
        self.assertEqual(self.limit("ASSAY_LEVEL=quick\nASSAY_NIGHTLY_LIMIT=77\n"), ("quick", 77))


if __name__ == "__main__":
    unittest.main(verbosity=2)
