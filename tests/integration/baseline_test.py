"""Baselines, from a benchmark to a later one that is held against it: in the daemon's
store, over its restart, and as files."""

import json
import os
import shlex
import shutil
import sqlite3
import tempfile
import unittest

import harness

CASES = ("bench", "gemm", "--m", "192,256", "--n", "192", "--k", "192", "--dtype", "fp32",
         "--provider", "builtin,onednn")


class Baseline(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="assay-baseline-")
        cls.daemon = harness.Daemon()
        run = cls.daemon.run(*CASES, "--format", "json")
        assert run.code == 0, run
        cls.report = run.json()
        cls.job = cls.report["job"]
        cls.report_file = os.path.join(cls.folder, "report.json")
        with open(cls.report_file, "w", encoding="utf-8") as out:
            out.write(run.out)

    @classmethod
    def tearDownClass(cls):
        cls.daemon.stop()
        shutil.rmtree(cls.folder)

    def document(self, change, name="changed.json"):
        """The baseline of the first run as a file, changed by a function of it."""
        path = os.path.join(self.folder, "document.json")
        saved = self.daemon.run("baseline", "save", self.job, "--output", path)
        self.assertEqual(saved.code, 0, saved)
        with open(path, encoding="utf-8") as text:
            document = json.load(text)
        change(document)
        changed = os.path.join(self.folder, name)
        with open(changed, "w", encoding="utf-8") as out:
            json.dump(document, out)
        return changed

    @staticmethod
    def scale(factor, still=False):
        """Makes a document's times `factor` as long; `still`: without any spread."""
        def change(document):
            for test in document["tests"]:
                bench = test["bench"]
                median = bench["median_seconds"]
                for key in ("median_seconds", "p10_seconds", "p90_seconds"):
                    bench[key] = (median if still else bench[key]) * factor
                if still:
                    bench.update(noise=0, median_standard_error=0, noisy=False)
                    bench.get("conditions", {}).pop("waiting_ratio", None)
        return change

    def still(self, factor):
        return self.document(self.scale(factor, still=True), f"still-{factor:.3f}.json")

    def test_from_save_to_delete(self):
        saved = self.daemon.run("baseline", "save", self.job, "first")
        self.assertEqual((saved.code, saved.out), (0, "baselines/first\n"), saved)
        again = self.daemon.run("baseline", "save", self.job, "first")
        self.assertEqual(again.code, 2, again)
        self.assertIn("baselines/first", again.err)
        listed = self.daemon.run("baseline", "list", "--format", "json").json()["baselines"]
        entry = next(b for b in listed if b["name"] == "baselines/first")
        self.assertEqual(entry["job"], self.job)
        self.assertEqual(entry["case_count"], 4)
        self.assertEqual(entry["device"], "cpu:0")
        self.assertIn("cores)", entry["model"])
        self.assertIn("onednn", entry["versions"])
        self.assertNotIn("tests", entry)
        table = self.daemon.run("baseline", "list")
        self.assertIn("baselines/first", table.out)
        shown = self.daemon.run("baseline", "show", "first")
        self.assertIn("gemm 192x192x192 fp32 onednn", shown.out)
        document = self.daemon.run("baseline", "show", "baselines/first", "--format", "json").json()
        self.assertEqual(document["schema"], "assay.baseline/v1")
        self.assertEqual(len(document["tests"]), 4)
        gone = self.daemon.run("baseline", "delete", "first")
        self.assertEqual((gone.code, gone.out), (0, "deleted baselines/first\n"))
        for words in (("delete", "first"), ("show", "first"), ("compare", "first", self.job)):
            missing = self.daemon.run("baseline", *words)
            self.assertEqual(missing.code, 2, missing)
            self.assertIn('no baseline "baselines/first"', missing.err)

    def test_a_job_against_itself_is_the_same(self):
        """Whatever the noise, a time is not slower than itself; without spread it is the same."""
        against_itself = self.daemon.run("baseline", "compare", self.job, self.report_file,
                                         "--format", "json")
        changes = against_itself.json()["changes"]
        self.assertEqual({(c["ratio"], c["change"]) for c in changes} -
                         {(1.0, "same"), (1.0, "ambiguous")}, set())
        # Where its threads waited for processors that others had, it may have been faster alone.
        waited = any(c.get("most_ratio", 1) > 1.05 for c in changes)
        self.assertEqual(against_itself.code, 4 if waited else 0, against_itself)
        still = self.still(1)
        same = self.daemon.run("baseline", "compare", still, still, "--format", "json")
        self.assertEqual(same.code, 0, same)
        self.assertEqual(same.json()["same"], 4)
        self.assertEqual([c["ratio"] for c in same.json()["changes"]], [1.0] * 4)

    def test_ten_percent_are_slower_and_faster(self):
        still, quicker = self.still(1), self.still(1 / 1.1)
        slower = self.daemon.run("baseline", "compare", quicker, still, "--format", "json")
        self.assertEqual(slower.code, 1, slower)
        self.assertEqual(slower.json()["slower"], 4)
        self.assertAlmostEqual(slower.json()["changes"][0]["ratio"], 1.1)
        table = self.daemon.run("baseline", "compare", quicker, still)
        self.assertEqual(table.code, 1)
        self.assertRegex(table.out, r"slower +gemm 192x192x192 fp32 \w+ +\S+ \S+ +\S+ \S+ +1\.100")
        faster = self.daemon.run("baseline", "compare", still, quicker, "--format", "json")
        self.assertEqual(faster.code, 0, faster)
        self.assertEqual(faster.json()["faster"], 4)
        lenient = self.daemon.run("baseline", "compare", quicker, still, "--threshold", "20%")
        self.assertEqual(lenient.code, 0, lenient)
        for bad in ("0", "-5%", "x", "2000"):
            refused = self.daemon.run("baseline", "compare", still, still, "--threshold", bad)
            self.assertEqual(refused.code, 2, refused)
            self.assertIn("threshold", refused.err)

    def test_every_format(self):
        still, quicker = self.still(1), self.still(1 / 1.1)
        compare = ("baseline", "compare", quicker, still, "--format")
        lines = self.daemon.run(*compare, "csv").out.splitlines()
        self.assertTrue(lines[0].startswith("name,change,"))
        self.assertEqual(len(lines), 5)
        self.assertEqual(len(self.daemon.run(*compare, "jsonl").out.splitlines()), 4)
        self.assertIn("| slower |", self.daemon.run(*compare, "markdown").out)
        self.assertEqual(self.daemon.run(*compare, "junit").code, 2)

    def test_a_run_is_held_against_a_file(self):
        """A run is slower than a baseline of a billionth of its time, and faster than one of
        a billion times, however much its launches were disturbed."""
        short = self.document(self.scale(1e-9, still=True), "short.json")
        slower = self.daemon.run(*CASES, "--compare", short, "--format", "json")
        self.assertEqual(slower.code, 1, slower)
        report = slower.json()
        self.assertEqual(report["failed"], 4, [(t["verdict"], t["bench"]) for t in report["tests"]])
        test = report["tests"][0]
        self.assertEqual(test["reason"], "slower")
        self.assertRegex(test["message"], r"\d times, above 1\.05 \(noise \S+ %\)")
        self.assertIn(short, test["message"])
        self.assertEqual(shlex.split(test["repro"])[-2:], ["--compare", short])
        self.assertEqual(self.daemon.run(*shlex.split(test["repro"])[1:]).code, 1)
        self.assertEqual(set(test["bench"]["baseline"]) - {"least_ratio", "most_ratio"}, {
            "baseline", "baseline_seconds", "ratio", "noise", "threshold", "change"})
        self.assertEqual(test["bench"]["baseline"]["change"], "slower")
        self.assertEqual(test["bench"]["baseline"]["threshold"], 0.05)
        long = self.document(self.scale(1e9, still=True), "long.json")
        table = self.daemon.run(*CASES, "--compare", long)
        self.assertEqual(table.code, 0, table)
        self.assertRegex(table.out, r"CASE +TIME [mµn]?s +[MGT]FLOP/s +(OF ROOF +)?OF BEST +CHANGE")
        self.assertRegex(table.out, r"faster 0\.0\d+×")
        csv = self.daemon.run(*CASES, "--compare", long, "--format", "csv")
        self.assertIn(",faster,", csv.out)
        markdown = self.daemon.run(*CASES, "--compare", long, "--format", "markdown")
        self.assertIn("| Change |", markdown.out)

    def test_a_run_is_held_against_a_stored_one(self):
        short = self.document(self.scale(1e-9, still=True), "short.json")
        saved = self.daemon.run("baseline", "save", "--file", short, "short")
        self.assertEqual((saved.code, saved.out), (0, "baselines/short\n"), saved)
        slower = self.daemon.run(*CASES, "--compare", "short", "--threshold", "7%", "--format",
                                 "json")
        self.assertEqual(slower.code, 1, slower)
        test = slower.json()["tests"][0]
        self.assertEqual(test["bench"]["baseline"]["baseline"], "baselines/short")
        self.assertEqual(test["bench"]["baseline"]["threshold"], 0.07)
        self.assertTrue(test["repro"].endswith(" --compare baselines/short --threshold 0.07"),
                        test["repro"])
        again = self.daemon.run(*test["repro"].split()[1:])
        self.assertEqual(again.code, 1, again)

    def test_providers_stand_side_by_side(self):
        table = self.daemon.run(*CASES)
        self.assertEqual(table.code, 0, table)
        lines = table.out.splitlines()
        names = next(line for line in lines if "builtin" in line)
        self.assertIn("onednn", names)
        rows = [line for line in lines if line.strip().startswith("gemm ")]
        self.assertEqual(len(rows), 2, table.out)
        for row in rows:
            self.assertEqual(row.count("×"), 2, row)
            self.assertIn("1.00×", row)
            self.assertNotIn("FLOP/s", row, "the column's heading says it")
        self.assertRegex(lines[lines.index(names) + 1], r"(TIME [mµn]?s~? +[MGT]FLOP/s +(OF ROOF +)?OF BEST *){2}")
        wrong = self.daemon.run("bench", "gemm", "--m", "64", "--n", "64", "--k", "64", "--dtype",
                                "fp32", "--provider", "builtin,planted/off-by-one-ulp")
        if wrong.code == 1:  # what does not verify is not ranked
            row = next(l for l in wrong.out.splitlines() if l.strip().startswith("gemm "))
            self.assertIn("FAILED", row)

    def test_another_kind_is_refused_by_what_differs(self):
        def model(document):
            document["model"] = "Another Processor (64 cores)"

        def driver(document):
            document["driver_version"] = "570.1"

        for change, words in ((model, ("device model", "Another Processor (64 cores)")),
                              (driver, ("driver", "570.1"))):
            path = self.document(change)
            for command in (("baseline", "compare", path, self.job), (*CASES, "--compare", path)):
                refused = self.daemon.run(*command)
                self.assertEqual(refused.code, 2, refused)
                for word in words:
                    self.assertIn(word, refused.err)

    def test_another_version_of_a_suite_is_refused_and_of_a_library_is_said(self):
        suite = ("bench", "--suite", "smoke", "--op", "gemm", "--format", "json")
        run = self.daemon.run(*suite)
        self.assertIn(run.code, (0, 4), run)
        report = run.json()
        self.assertEqual(report["suite"], "smoke")
        self.assertTrue(report["suite_version"])
        older = dict(report, suite_version="0")
        path = os.path.join(self.folder, "older.json")
        with open(path, "w", encoding="utf-8") as out:
            json.dump(older, out)
        refused = self.daemon.run("baseline", "compare", path, report["job"])
        self.assertEqual(refused.code, 2, refused)
        self.assertIn('version of suite smoke "0" there', refused.err)
        def library(document):
            document["versions"]["onednn"] = "1.0.0"
        said = self.daemon.run("baseline", "compare", self.document(library), self.job)
        self.assertIn("another version: onednn 1.0.0 there", said.err)
        self.assertNotEqual(said.code, 2)

    def test_what_has_nothing_in_common_is_no_verdict(self):
        other = self.daemon.run("bench", "copy", "--count", "4096", "--dtype", "fp32",
                                "--provider", "builtin", "--format", "json")
        self.assertEqual(other.code, 0, other)
        nothing = self.daemon.run("baseline", "compare", self.job, other.json()["job"])
        self.assertEqual(nothing.code, 4, nothing)
        self.assertIn("no case in common", nothing.out)
        self.assertIn("only in " + self.job, nothing.out)
        held = self.daemon.run("bench", "copy", "--count", "4096", "--dtype", "fp32",
                               "--provider", "builtin", "--compare", self.job)
        self.assertEqual(held.code, 4, held)
        self.assertIn("no timed case of this job is in its baseline", held.out)

    def test_a_kernel_that_is_wrong_now_is_lost_in_a_file_too(self):
        """A benchmark times before it verifies: what fails has a time, and so has its report."""
        wrong = json.loads(json.dumps(self.report))
        wrong["tests"][0].update(verdict="FAILED", passed=False, reason="bound", message="wrong",
                                 findings=[{"reason": "bound", "message": "wrong"}])
        path = os.path.join(self.folder, "wrong.json")
        with open(path, "w", encoding="utf-8") as out:
            json.dump(wrong, out)
        lost = self.daemon.run("baseline", "compare", self.job, path)
        self.assertEqual(lost.code, 1, lost)
        self.assertIn(wrong["tests"][0]["name"] + ": no time now, FAILED bound", lost.out)
        self.assertRegex(lost.out, r"1 lost \(threshold")
        lines = self.daemon.run("baseline", "compare", self.job, path, "--format", "jsonl")
        told = [json.loads(line) for line in lines.out.splitlines()]
        self.assertEqual([t["name"] for t in told if t["change"] == "lost"],
                         [wrong["tests"][0]["name"]])
        wrong["tests"][0].update(verdict="UNSUPPORTED", reason="unsupported")
        del wrong["tests"][0]["bench"]
        with open(path, "w", encoding="utf-8") as out:
            json.dump(wrong, out)
        lost = self.daemon.run("baseline", "compare", self.job, path, "--format", "json")
        self.assertIn(lost.code, (1, 4), lost)
        self.assertEqual(lost.json()["lost_count"], 1)

    def test_a_case_that_does_not_run_any_more_does_not_pass(self):
        """Its provider takes the format no longer, or is not there at all."""
        def elsewhere(document):
            self.scale(1e9, still=True)(document)
            for test in document["tests"]:
                if test["provider"] == "onednn":
                    test["provider"] = "openblas-of-old"
        gone = self.document(elsewhere, "gone.json")
        every = (*CASES[:-1], "all")
        held = self.daemon.run(*every, "--compare", gone, "--format", "json")
        self.assertEqual(held.code, 4, held)
        self.assertIn("times of 2 cases by openblas-of-old", held.out + held.err)
        chosen = self.daemon.run(*CASES, "--compare", gone)
        self.assertEqual(chosen.code, 0, chosen)

    def test_jobs_without_times_are_refused(self):
        checked = self.daemon.run("run", "gemm", "--m", "16", "--n", "16", "--k", "16", "--dtype",
                                  "fp32", "--provider", "builtin", "--format", "json").json()
        empty = self.daemon.run("baseline", "save", checked["job"])
        self.assertEqual(empty.code, 2, empty)
        self.assertIn("timed nothing", empty.err)
        cancelled = self.daemon.run("submit", *CASES[1:], "--mode", "benchmark").out.strip()
        self.daemon.run("cancel", cancelled)
        self.daemon.run("watch", cancelled)
        refused = self.daemon.run("baseline", "save", cancelled)
        state = self.daemon.run("jobs", "--format", "json").json()["jobs"][0]["state"]
        if state == "CANCELLED":  # and had not ended before
            self.assertEqual(refused.code, 2, refused)
            self.assertIn("was cancelled", refused.err)
        running = self.daemon.run("submit", "gemm", "--m", "1024", "--n", "1024", "--k",
                                  "1024,1025,1026,1027", "--dtype", "fp32", "--provider",
                                  "builtin", "--mode", "benchmark").out.strip()
        refused = self.daemon.run("baseline", "save", running)
        self.assertEqual(refused.code, 2, refused)
        self.assertRegex(refused.err, r"is (queued|running)")
        self.daemon.run("cancel", running)
        untimed = self.daemon.run("run", "gemm", "--m", "16", "--n", "16", "--k", "16", "--dtype",
                                  "fp32", "--compare", self.report_file)
        self.assertEqual(untimed.code, 2, untimed)
        self.assertIn("set the mode to benchmark", untimed.err)

    def test_names_that_cannot_be(self):
        for bad in ("-x", "a b", "a/b", "é", "x" * 65, "..", "baselines/"):
            refused = self.daemon.run("baseline", "save", self.job, "--", bad)
            self.assertEqual(refused.code, 2, (bad, refused))
        file_like = self.daemon.run("baseline", "save", self.job, "a.json")
        self.assertEqual(file_like.code, 2, file_like)
        self.assertIn("would be read as a file", file_like.err)
        self.assertIn("64 letters, digits",
                      self.daemon.run("baseline", "save", self.job, "x" * 65).err)
        longest = "x" * 64
        self.assertEqual(self.daemon.run("baseline", "save", self.job, longest).code, 0)
        self.assertEqual(self.daemon.run("baseline", "delete", longest).code, 0)
        unnamed = self.daemon.run("baseline", "save", self.job)
        self.assertEqual(unnamed.out, self.job.replace("jobs/", "baselines/") + "\n")

    def test_files_that_are_none(self):
        def newer(document):
            document["schema"] = "assay.baseline/v2"

        def foreign(document):
            document["schema"] = "else"

        def no_times(document):
            for test in document["tests"]:
                del test["bench"]

        def not_a_time(document):
            document["tests"][1]["bench"]["median_seconds"] = "soon"

        def negative(document):
            document["tests"][3]["bench"]["median_seconds"] = -1.0

        def none(document):
            document["tests"][2]["bench"]["median_seconds"] = 0.0

        def no_operator(document):
            document["tests"][0]["op"] = "gem"

        for change, words in (
                (newer, 'schema "assay.baseline/v2", which this assay does not know'),
                (foreign, 'must be assay.baseline/v1 or assay.report/v1, got "else"'),
                (no_times, "tests[0].bench.median_seconds: is missing"),
                (not_a_time, "tests[1].bench.median_seconds: must be a time above 0"),
                (negative, "tests[3].bench.median_seconds: must be a time above 0 [s], got -1.0"),
                (none, "tests[2].bench.median_seconds: must be a time above 0 [s], got 0.0"),
                (no_operator, 'did you mean "gemm"?')):
            path = self.document(change)
            refused = self.daemon.run("baseline", "show", path)
            self.assertEqual(refused.code, 2, refused)
            self.assertIn(words, refused.err)
            self.assertIn(path, refused.err)
        for text in ("", "{", "[]", "\x00\xff"):
            path = os.path.join(self.folder, "broken.json")
            with open(path, "w", encoding="latin-1") as out:
                out.write(text)
            refused = self.daemon.run("baseline", "compare", path, self.job)
            self.assertEqual(refused.code, 2, refused)
            self.assertIn("is no baseline", refused.err)
        for path in (self.folder + "/", "/no/such.json"):
            self.assertEqual(self.daemon.run("baseline", "show", path).code, 2)


class Restart(unittest.TestCase):
    def test_a_restart_keeps_baselines_and_an_older_store_gets_them(self):
        state = tempfile.mkdtemp(prefix="assay-baseline-state-")
        self.addCleanup(shutil.rmtree, state)
        with harness.Daemon(state=state) as daemon:
            report = daemon.run(*CASES, "--format", "json").json()
            self.assertEqual(daemon.run("baseline", "save", report["job"], "kept").code, 0)
            before = daemon.run("baseline", "show", "kept", "--format", "json").out
            daemon.kill()
        with harness.Daemon(state=state) as daemon:
            after = daemon.run("baseline", "show", "kept", "--format", "json").out
            self.assertEqual(before, after)
            self.assertEqual(daemon.stop(), 0)
        store = sqlite3.connect(os.path.join(state, "assay.db"))
        store.executescript("DROP TABLE baselines; PRAGMA user_version = 1")
        store.close()
        with harness.Daemon(state=state) as daemon:
            self.assertEqual(daemon.run("baseline", "list", "--format", "json").json(),
                             {"baselines": []})
            self.assertEqual(daemon.run("baseline", "save", report["job"], "kept").code, 0)


if __name__ == "__main__":
    harness.main()
