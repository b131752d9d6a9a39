"""CSV, JUnit and Markdown reports are taken by the programs that read such files."""

import csv
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

import harness

try:
    import markdown
except ImportError:
    markdown = None

SCHEMA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "junit.xsd")

# Passed, failed, crashed, unsupported; a pattern with characters that mean something in
# every format is the name of a case of its own.
SUITE = """
name = "read me, \\"please\\" | <now> & then"
title = "One case of each outcome"
version = "1"

[[require]]
backend = "cpu"
op = "gemm"
provider = "onednn"
dtype = "fp16"

[[case]]
op = "gemm"
dtype = ["fp32", "fp16"]
provider = ["builtin", "onednn"]
shape = { m = 32, n = 32, k = 32 }
name = "a | b, \\"c\\" <d> & 'e' `f` *g* ü"

[[case]]
op = "gemm"
dtype = "fp32"
provider = ["planted/wrong-tile", "planted/crash"]
shape = { m = 32, n = 32, k = 32 }

[[case]]
op = "softmax"
dtype = "fp32"
provider = "builtin"
shape = { rows = 2, cols = 64 }
pattern = "all-inf"
"""


def rfc4180(data):
    """The records of a file, read by the grammar of RFC 4180 and nothing looser."""
    text_field = r"[\x20-\x21\x23-\x2b\x2d-\x7e\x80-\U0010ffff]*"
    quoted = r'"(?:[^"]|"")*"'
    field = re.compile(f"({quoted}|{text_field})(,|\r\n)")
    records, record, at = [], [], 0
    while at < len(data):
        match = field.match(data, at)
        if match is None:
            raise ValueError(f"no field of RFC 4180 at {at}: {data[at:at + 60]!r}")
        text = match.group(1)
        record.append(text[1:-1].replace('""', '"') if text.startswith('"') else text)
        if match.group(2) == "\r\n":
            records.append(record)
            record = []
        at = match.end()
    if record:
        raise ValueError("the last line does not end")
    return records


class Readers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="assay-readers-")
        cls.daemon = harness.Daemon()
        suite = os.path.join(cls.folder, "suite.toml")
        with open(suite, "w", encoding="utf-8") as file:
            file.write(SUITE)
        run = cls.daemon.run("run", "--suite-file", suite, "--format", "json")
        assert run.code == 1, run
        cls.report = run.json()
        cls.job = cls.report["job"]
        assert {t["verdict"] for t in cls.report["tests"]} == {"PASSED", "FAILED", "ERROR", "UNSUPPORTED"}

    @classmethod
    def tearDownClass(cls):
        cls.daemon.stop()
        shutil.rmtree(cls.folder)

    def file(self, name):
        path = os.path.join(self.folder, name)
        self.assertEqual(self.daemon.run("report", self.job, "--output", path).code, 0)
        return path

    def text(self, name):
        # newline="": line ends as they are in the file.
        with open(self.file(name), encoding="utf-8", newline="") as file:
            return file.read()

    def test_csv_keeps_to_rfc_4180(self):
        data = self.text("report.csv")
        records = rfc4180(data)
        self.assertEqual(len({len(record) for record in records}), 1, "as many fields in every record")
        self.assertEqual(len(records), 1 + len(self.report["tests"]))
        self.assertEqual(records, list(csv.reader(data.splitlines(keepends=True), strict=True)))
        rows = [dict(zip(records[0], record)) for record in records[1:]]
        for row, test in zip(rows, self.report["tests"]):
            self.assertEqual(row["name"], test["name"])
            self.assertEqual(row["repro"], test["repro"])
            for name in ("rho", "max_abs_error", "count"):
                if name in test:
                    self.assertEqual(float(row[name]), float(test[name]))
                else:
                    self.assertEqual(row[name], "", "absent, not zero")
        self.assertIn('"a | b, ""c"" <d>', data)

    def test_junit_holds_to_its_schema(self):
        path = self.file("report.xml")
        if shutil.which("xmllint") is None:
            self.skipTest("no xmllint")
        lint = subprocess.run(["xmllint", "--noout", "--schema", SCHEMA, path], capture_output=True,
                              text=True, check=False)
        self.assertEqual(lint.returncode, 0, lint.stderr)

    def test_junit_counts_what_it_holds_and_nothing_unproven_is_green(self):
        suites = xml.etree.ElementTree.parse(self.file("report.xml")).getroot()
        suite = suites.find("testsuite")
        cases = suite.findall("testcase")
        self.assertEqual(int(suite.get("tests")), len(cases))
        for attribute, element in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            self.assertEqual(int(suite.get(attribute)), len(suite.findall(f"testcase/{element}")), attribute)
        for test, case in zip(self.report["tests"], cases):
            self.assertEqual(case.get("name"), test["name"])
            self.assertEqual(test["passed"], case.find("*[@message]") is None, test["name"])
        self.assertTrue(any("onednn" in (case.find("failure").get("message") or "")
                            for case in cases if case.get("classname") == "assay.job"), "what was required")

    def test_junit_of_a_job_without_results(self):
        hang = self.daemon.run("submit", "gemm", "--m", "8", "--n", "8", "--k", "8", "--dtype", "fp32",
                               "--provider", "planted/hang", "--deadline", "300s").out.strip()
        path = os.path.join(self.folder, "empty.xml")
        report = self.daemon.run("report", hang, "--output", path)
        self.daemon.run("cancel", hang)
        self.assertEqual(report.code, 0, report)
        if shutil.which("xmllint") is None:
            self.skipTest("no xmllint")
        lint = subprocess.run(["xmllint", "--noout", "--schema", SCHEMA, path], capture_output=True,
                              text=True, check=False)
        self.assertEqual(lint.returncode, 0, lint.stderr)

    @unittest.skipIf(markdown is None, "no python3-markdown")
    def test_markdown_renders_as_a_table(self):
        html = markdown.markdown(self.text("report.md"), extensions=["tables", "fenced_code"])
        page = xml.etree.ElementTree.fromstring(f"<page>{html}</page>")
        tables = page.findall("table")
        self.assertEqual(len(tables), 1)
        rows = tables[0].findall("tbody/tr")
        self.assertEqual(len(rows), len(self.report["tests"]))
        header = ["".join(cell.itertext()) for cell in tables[0].find("thead/tr")]
        self.assertEqual(header[:3], ["Verdict", "Case", "Error/bound"])
        shown = ["".join(row[1].itertext()) for row in rows]
        self.assertEqual(sorted(shown), sorted(t["name"] for t in self.report["tests"]),
                         "names as they are, whatever they hold")
        for row in rows:
            self.assertEqual(len(row), len(header))
        self.assertEqual("".join(rows[0][0].itertext()), "FAILED")
        blocks = ["".join(block.itertext()) for block in page.iter("code")]
        self.assertTrue(any("repro" in block and "planted/wrong-tile" in block for block in blocks))


if __name__ == "__main__":
    if markdown is None:
        print("Skipped: Markdown: no python3-markdown", file=sys.stderr)
    harness.main()
