"""What `collect` makes of a night's folder: with an `assay` that holds the reports against one another
as it is told to, and Slurm's programs as far as `collect` asks them."""

import json
import os
import shutil
import subprocess
import tempfile
import unittest

COLLECT = os.path.join(os.path.dirname(__file__), "..", "..", "deploy", "slurm", "collect")

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


def accused(node, charge, device="cuda:0"):
    return {"node": "host-" + node, "device": device, "charge": charge, "evidence": [{"text": f"{charge} as told"}]}


class Collect(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="assay-collect-")
        self.addCleanup(shutil.rmtree, self.folder)
        for name, text in (("assay", ASSAY), ("scontrol", SCONTROL), ("sinfo", SINFO)):
            self.write(name, text.format(folder=self.folder) if "{folder}" in text else text)
            os.chmod(f"{self.folder}/{name}", 0o755)

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
        self.write("own.conf", f"PATH={self.folder}:$PATH\nASSAY_LOG=\n{settings}")
        done = subprocess.run(["/bin/sh", COLLECT, f"{self.folder}/night"], capture_output=True, text=True, check=False,
                              env={**os.environ, "ASSAY_CONF": f"{self.folder}/own.conf"}, timeout=120)
        told = [line for line in self.read("night/summary.txt").splitlines() if " cuda:0 A101" not in line]
        return done.returncode, told, self.read("drained").splitlines()

    def test_a_suspect_is_drained_and_all_that_deviates_is_listed(self):
        fleet = {"accused": [accused("n2", "SUSPECT"), accused("n3", "SLOW"), accused("n4", "FAILED"), accused("n5", "SUSPECT")],
                 "unjudged": [{"node": "host-n1", "device": "cuda:0", "reason": "gave no digests"}],
                 "missing": [{"target": "n6:7576", "reason": "incomplete"}], "unread": ["n7/report.json: torn"],
                 "everywhere": ["gemm fails everywhere"]}
        nodes = [f"n{i}" for i in range(1, 6)]
        code, told, drained = self.collect(nodes, 1, failed=("n4", "n5"), **fleet)
        self.assertEqual(code, 1)
        lines = ["- UNREAD: n7/report.json: torn", "- EVERYWHERE: gemm fails everywhere", "n2 SUSPECT cuda:0: SUSPECT as told",
                 "n3 SLOW cuda:0: SLOW as told", "n5 SUSPECT cuda:0: SUSPECT as told",
                 "n1 UNJUDGED cuda:0: gave no digests", "- INCOMPLETE n6:7576: incomplete"]
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

    def test_groups_are_about_as_large(self):
        for nodes, most, groups in ((9, 4, [3, 3, 3]), (9, 8, [5, 4]), (5, 4, [5]), (3, 2, [3]), (4, 4, [4])):
            self.collect([f"n{i}" for i in range(nodes)], settings=f"ASSAY_MERGE={most}\n")
            calls = [line for line in self.read("called").splitlines() if "--format json" in line]
            self.assertEqual([call.count("/report.json") for call in calls], groups, (nodes, most))


if __name__ == "__main__":
    unittest.main(verbosity=2)
