"""Qualification: a device that is fit, one that is wrong, slow, missing, unreachable; hooks."""

import json
import os
import re
import shutil
import socket
import tempfile
import time
import unittest

import harness

# A level that takes no time: what is tested is what comes of it.
QUICK = """
name = "quick"
title = "Qualification level 1: seconds"
version = "1"
budget = 1

[[case]]
op = "gemm"
dtype = "fp32"
mode = "{mode}"
provider = "{provider}"
shape = {{ m = 200, n = 200, k = 200 }}

[[fill]]
op = "softmax"
dtype = "fp32"
provider = "builtin"
shape = {{ rows = 4, cols = 100 }}
"""


def level(folder, provider="builtin", mode="validate"):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "quick.toml"), "w", encoding="utf-8") as suite:
        suite.write(QUICK.format(provider=provider, mode=mode))
    return folder


class Qualify(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="assay-qualify-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def daemon(self, **kwargs):
        daemon = harness.Daemon(flags=["--suites-dir", level(os.path.join(self.folder, "suites"), **kwargs)])
        self.addCleanup(daemon.__exit__)
        return daemon

    def test_the_level_that_is_shipped_qualifies_this_machine(self):
        # Its seconds are a machine's that is not shared: a busy one gets more of them.
        for budget in (None, 60, 240):
            flags = ["--suites-dir", self.shipped(budget)] if budget else []
            if self.qualifies_this_machine(flags, last=budget == 240):
                break

    def shipped(self, budget):
        """The suites that are shipped, but for the seconds of the shortest level."""
        suites = shutil.copytree(os.path.join(harness.INSTALL, "share/assay/suites"),
                                 os.path.join(self.folder, f"shipped-{budget}"))
        path = os.path.join(suites, "quick.toml")
        with open(path, encoding="utf-8") as file:
            text, changed = re.subn(r"(?m)^budget = \d+", f"budget = {budget}", file.read())
        self.assertEqual(changed, 1)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return suites

    def qualifies_this_machine(self, flags, last):
        """False where the budget was too small, which is said."""
        with harness.Daemon(flags=flags) as daemon:
            began = time.monotonic()
            run = daemon.run("qualify", "quick", "--format", "json", "--expect-devices", "1",
                             timeout=600)
            seconds = time.monotonic() - began
            if run.code == 4 and not last:
                self.assertEqual([d["code"] for d in run.json()["devices"]], ["A308"], run)
                return False
            self.assertEqual(run.code, 0, run)
            document = run.json()
            self.assertEqual(document["schema"], "assay.qualification/v1")
            self.assertEqual((document["level"], document["verdict"]), ("quick", "QUALIFIED"))
            (device,) = document["devices"]
            self.assertEqual(device["device"], "cpu:0")
            self.assertEqual((device["severity"], device["code"]), ("none", "A000"))
            self.assertEqual(document["missing"], [])
            self.assertGreater(device["cases"], 60)
            print(f"quick took {seconds:.1f} s, {device['cases']} cases")
            self.assertEqual(daemon.metric("assay_qualification_passed", suite="quick"), 1)
            # The device's job came after its self-test, and its results are there.
            jobs = daemon.run("jobs", "--format", "json").json()["jobs"]
            self.assertEqual([j["suite"] for j in jobs], ["quick", "selftest"])
            self.assertEqual(device["report"], jobs[0]["name"])
            self.assertEqual(jobs[0]["total"], device["cases"])
        return True

    def test_a_wrong_kernel_is_run_again_and_the_hook_is_told(self):
        daemon = self.daemon(provider="planted/wrong-tile")
        told = os.path.join(self.folder, "told")
        reports = os.path.join(self.folder, "reports")
        run = daemon.run("qualify", "1", "--no-selftest", "--format", "json", "--reports", reports,
                         "--on-verdict", f"cat >> {told}")
        self.assertEqual(run.code, 1, run)
        (device,) = run.json()["devices"]
        self.assertEqual((device["verdict"], device["code"]), ("FAILED", "A103"))
        self.assertIn("assay run gemm", device["findings"][0]["repro"])
        with open(told, encoding="utf-8") as file:
            self.assertEqual(json.loads(file.read()), device)
        with open(device["report"], encoding="utf-8") as file:
            report = json.load(file)
        self.assertEqual(report["schema"], "assay.report/v1")
        self.assertEqual(report["failed"], 1)
        began = max(test["start_time"] for test in report["tests"])
        self.assertGreaterEqual(report["generated_at"][:19], began[:19], "no report is of before its results")
        self.assertGreaterEqual(run.json()["generated_at"][:19], began[:19])
        # The case ran again with every provider, the planted one not being among "all".
        jobs = daemon.run("jobs", "--format", "json").json()["jobs"]
        self.assertEqual(len(jobs), 2)
        self.assertEqual(daemon.run("qualify", "1", "--no-selftest", "--ignore", "A103").code, 0)
        table = daemon.run("qualify", "1", "--no-selftest", "--no-retry")
        self.assertIn("next: run the repro line on another device", table.out)

    def test_slower_than_the_baseline_is_degraded(self):
        daemon = self.daemon(mode="both")
        first = daemon.run("qualify", "quick", "--no-selftest", "--format", "json")
        self.assertEqual(first.code, 0, first)
        job = first.json()["devices"][0]["job"]
        saved = os.path.join(self.folder, "then.json")
        self.assertEqual(daemon.run("baseline", "save", job, "then", "--output", saved).code, 0)

        def as_if(name, faster):
            """The baseline, as if the device had been so much faster that no noise hides it."""
            with open(saved, encoding="utf-8") as file:
                document = json.load(file)
            for test in document["tests"]:
                for key in ("median_seconds", "p10_seconds", "p90_seconds"):
                    test["bench"][key] /= faster
            path = os.path.join(self.folder, name + ".json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(document, file)
            self.assertEqual(daemon.run("baseline", "save", "--file", path, name).code, 0)
            return path

        as_if("slow", 1e-9)
        run = daemon.run("qualify", "quick", "--no-selftest", "--baseline", "slow", "--threshold",
                         "1000%", "--format", "json")
        self.assertEqual(run.code, 0, run)
        fast = as_if("fast", 1e9)
        slow = daemon.run("qualify", "quick", "--no-selftest", "--baseline", "fast", "--format", "json")
        self.assertEqual(slow.code, 1, slow)
        (device,) = slow.json()["devices"]
        self.assertEqual((device["verdict"], device["code"]), ("DEGRADED", "A201"))
        self.assertEqual(daemon.metric("assay_qualification_passed", suite="quick"), 0)
        self.assertEqual(daemon.metric("assay_qualification_failed", suite="quick"), 0)
        unknown = daemon.run("qualify", "quick", "--no-selftest", "--baseline", "never")
        self.assertIn("never", unknown.out)
        self.assertIn("A902", unknown.out)
        self.assertEqual(unknown.code, 2, unknown)
        # A file is read, whatever the daemon has.
        from_file = daemon.run("qualify", "quick", "--no-selftest", "--baseline", fast, "--format", "json")
        self.assertEqual(from_file.json()["devices"][0]["code"], "A201", from_file)

    def test_a_level_that_times_nothing_takes_no_baseline(self):
        timed = self.daemon(mode="both")
        job = timed.run("qualify", "quick", "--no-selftest", "--format", "json").json()["devices"][0]["job"]
        saved = os.path.join(self.folder, "then.json")
        self.assertEqual(timed.run("baseline", "save", job, "then", "--output", saved).code, 0)
        with harness.Daemon(flags=["--suites-dir", level(os.path.join(self.folder, "untimed"))]) as daemon:
            run = daemon.run("qualify", "quick", "--baseline", saved)
            self.assertEqual(run.code, 2, run)
            self.assertIn("baseline: level quick times none of its cases", run.out)
            self.assertEqual(daemon.run("jobs", "--format", "json").json()["jobs"], [])

    def test_what_is_not_there_is_missing(self):
        daemon = self.daemon()
        with socket.socket() as nobody:
            nobody.bind(("127.0.0.1", 0))
            gone = "127.0.0.1:%d" % nobody.getsockname()[1]
            run = harness.run_client("qualify", "quick", "--no-selftest", "--format", "json",
                                     "--target", f"{daemon.grpc},{gone}")
            self.assertEqual(run.code, 4, run)
            document = run.json()
            self.assertEqual(document["verdict"], "INCONCLUSIVE")
            self.assertEqual([m["target"] for m in document["missing"]], [gone])
            self.assertEqual([d["verdict"] for d in document["devices"]], ["QUALIFIED"])
            alone = harness.run_client("qualify", "quick", "--target", gone)
            self.assertEqual(alone.code, 3, alone)
            told = os.path.join(self.folder, "missing")
            harness.run_client("qualify", "quick", "--target", gone, "--on-verdict", f"cat > {told}")
            with open(told, encoding="utf-8") as file:
                self.assertEqual(json.load(file)["code"], "A901")
        few = daemon.run("qualify", "quick", "--no-selftest", "--expect-devices", "8", "--format", "json")
        self.assertEqual(few.code, 1, few)
        self.assertEqual((few.json()["missing"][0]["expected"], few.json()["missing"][0]["found"]), (8, 1))
        # Its only card has gone: the CPU takes nobody's place.
        for expected, code in (("cpu:1", 0), ("cuda:1", 1)):
            run = daemon.run("qualify", "quick", "--no-selftest", "--expect-devices", expected, "--format", "json")
            self.assertEqual((run.code, run.json()["devices"][0]["verdict"]), (code, "QUALIFIED"), run)
        missing = run.json()["missing"][0]
        self.assertEqual((missing["code"], missing["expected"], missing["found"]), ("A116", 1, 0))
        self.assertRegex(missing["reason"], "^expected 1 cuda device, found 0; looked at cpu:0 instead(; cuda: .+)?$")
        none = daemon.run("qualify", "quick", "--device", "cuda:*")
        self.assertEqual(none.code, 2, none)
        self.assertIn("it has no device \"cuda:*\"; it has cpu:0", none.out)
        self.assertIn("A903", none.out)

    def test_a_budget_that_is_too_small_qualifies_nothing(self):
        with harness.Daemon() as daemon:
            run = daemon.run("qualify", "quick", "--no-selftest", "--budget", "100ms", "--format", "json")
            self.assertEqual(run.code, 4, run)
            self.assertEqual(run.json()["devices"][0]["code"], "A308")
            # Nor does the daemon call the device qualified on a caller's terms.
            self.assertIsNone(daemon.metric("assay_qualification_passed", suite="quick"))

    def test_reports_need_a_folder(self):
        run = harness.run_client("qualify", "quick", "--reports", "/dev/null/reports")
        self.assertEqual(run.code, 2, run)
        self.assertIn("reports: cannot write to /dev/null/reports", run.err)

    def test_a_hook_that_hangs_is_killed(self):
        daemon = self.daemon()
        run = daemon.run("qualify", "quick", "--no-selftest", "--on-verdict", "sleep 1000",
                         "--hook-deadline", "200ms")
        self.assertEqual(run.code, 0, run)
        self.assertIn("it had not ended after 200ms and was killed", run.err)

    def test_words_that_mean_nothing_are_named(self):
        for words, said in ((("nigthly",), "did you mean \"nightly\""), ((), "level: is required"),
                            (("quick", "--ignore", "B1"), "no code"),
                            (("quick", "--threshold", "5%"), "belongs to --baseline")):
            run = harness.run_client("qualify", *words)
            self.assertEqual(run.code, 2, run)
            self.assertIn(said, run.err)
        codes = harness.run_client("qualify", "--codes")
        self.assertIn("A116", codes.out)


if __name__ == "__main__":
    unittest.main(verbosity=2)
