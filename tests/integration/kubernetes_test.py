"""The manifests for Kubernetes say what the programs say, and the nightly script tells
Kubernetes what `assay qualify` found: against a server that answers as Kubernetes does."""

import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
import unittest

import harness
import tls_test
from fake_kubernetes import LABELS, MINE, FakeKubernetes, node, pod, verdict, waiting_pod
from manifests import DEPLOY, SCRIPT, check_manifests, daemon_pod, documents_of, images, nightly_pod, one, options_of, read


class Manifests(unittest.TestCase):
    def test_names_ports_paths_and_flags_are_the_programs(self):
        check_manifests(self, documents_of(read(DEPLOY, "kubernetes/assay.yaml")))

    def test_the_script_uses_what_the_images_and_the_client_have(self):
        script = "\n".join(line for line in read(SCRIPT).splitlines() if not line.lstrip().startswith("#"))
        asked = set(re.findall(r"(?<=[ \"+])--(?:target|tls-[a-z-]+|at-once|format|reports|expect-devices)\b", script))
        self.assertEqual(len(asked), 9)
        self.assertLessEqual(asked, options_of(harness.ASSAY, "qualify") | options_of(harness.ASSAY))
        for name, text in images().items():
            for program in ("curl", "jq"):
                self.assertIn(program, script)
                self.assertRegex(text, rf"apt-get install -y --no-install-recommends [^\n]*\b{program}\b", name)
            user = re.search(r"(?m)^USER (\d+):\1$", text).group(1)
            for pod in (daemon_pod, nightly_pod):
                context = pod(documents_of(read(DEPLOY, "kubernetes/assay.yaml")))["securityContext"]
                self.assertEqual((str(context["runAsUser"]), str(context["runAsGroup"])), (user, user))

    def test_the_nightly_jobs_rights_are_what_the_script_asks(self):
        documents = documents_of(read(DEPLOY, "kubernetes/assay.yaml"))
        rights = [(resource, verb) for kind in ("Role", "ClusterRole") for rule in one(documents, kind)["rules"]
                  for resource in rule["resources"] for verb in rule["verbs"]]
        self.assertEqual(sorted(rights), [("nodes", "get"), ("nodes/status", "patch"), ("pods", "list")])
        self.assertFalse(daemon_pod(documents)["automountServiceAccountToken"])


@unittest.skipUnless(shutil.which("jq") and shutil.which("curl"), "no jq or no curl")
class NodeVerdicts(unittest.TestCase):
    def run_script(self, kubernetes, devices=(), missing=(), code=0, says=None, words=(), hangs="", fleet=None,
                   fleet_code=0, **environment):
        """With an `assay` that says so of its target, and `fleet` of reports; what it was called with is in
        self.called. Once it is asked for the target `hangs` it does not answer, and the script gets SIGTERM."""
        document = {"schema": "assay.qualification/v1", "level": "nightly", "devices": list(devices),
                    "missing": list(missing)}
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "says"), "w", encoding="utf-8") as file:
                file.write(json.dumps(document) if says is None else says)
            with open(os.path.join(folder, "merged"), "w", encoding="utf-8") as file:
                file.write(json.dumps(fleet))
            with open(os.path.join(folder, "assay"), "w", encoding="utf-8") as file:
                file.write(f'#!/bin/sh\necho "$@" >>{folder}/called\nfor target; do :; done\n'
                           f'if [ "$1" = fleet ]; then cp {folder}/merged "$target"; exit {fleet_code}; fi\n'
                           f'if [ "$target" = "{hangs}" ]; then\n  trap "echo >{folder}/ended; exit 143" TERM\n'
                           # A shell that has just been forked may still lose a signal to its parent's trap.
                           f"  (echo '{{'; : >{folder}/hangs; exec sleep 600) & wait\nfi\n"
                           f'jq --arg target "$target" "(.devices, .missing) |= map(select(.target == \\$target))" '
                           f"{folder}/says 2>/dev/null || cat {folder}/says\nexit {code}\n")
            os.chmod(file.name, 0o755)
            with open(os.path.join(folder, "token"), "w", encoding="utf-8") as file:
                file.write("a-token")
            script = subprocess.Popen(
                ["/bin/sh", SCRIPT, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                env={"PATH": f"{folder}:{os.environ['PATH']}", "ASSAY_ACCOUNT": folder, "ASSAY_LEVEL": "nightly",
                     "ASSAY_API": f"http://127.0.0.1:{kubernetes.server_port}", "ASSAY_NAMESPACE": "assay",
                     "ASSAY_PODS": ",".join(f"{k}={v}" for k, v in LABELS.items()), "ASSAY_PORT": "7576",
                     **environment})
            try:
                if hangs:
                    harness.wait_until(lambda: os.path.exists(os.path.join(folder, "hangs")), 60, "asked for " + hangs)
                    script.terminate()
                done = subprocess.CompletedProcess(script.args, None, *script.communicate(timeout=harness.LONG))
                done.returncode = script.returncode
                if hangs:
                    harness.wait_until(lambda: os.path.exists(os.path.join(folder, "ended")), 60, "assay got SIGTERM")
            finally:
                script.kill()
                script.wait()
            called = os.path.join(folder, "called")
            self.called = read(called).splitlines() if os.path.exists(called) else []
        return done

    def test_the_worst_device_is_the_nodes(self):
        pods = [pod(f"n{i}", f"10.0.0.{i}") for i in range(1, 7)]
        pods += [waiting_pod("n7"), pod(None, None, "Pending"), pod("n2", None, "Failed")]
        pods.append(pod("n8", "10.0.0.8", deletionTimestamp="2026-11-22T00:00:00Z"))
        pods.insert(0, pod("n1", "10.0.0.99", deletionTimestamp="2026-11-22T00:00:00Z"))
        long_ago = {"type": "AssayQualified", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        nodes = [node(f"n{i}", conditions=[long_ago] if i in (1, 2, 7, 8) else []) for i in range(1, 9)]
        devices = [verdict("10.0.0.1", "cuda:0", "QUALIFIED", "A000"), verdict("10.0.0.1", "cuda:1", "FAILED", "A101"),
                   verdict("10.0.0.2", "cuda:0", "QUALIFIED", "A000"), verdict("10.0.0.3", "cuda:0", "DEGRADED", "A204"),
                   verdict("10.0.0.5", "cuda:0", "QUALIFIED", "A000"), verdict("10.0.0.6", "cpu:0", "INCONCLUSIVE", "A304")]
        missing = [{"target": "10.0.0.4:7576", "verdict": "MISSING", "code": "A901", "reason": "connection refused"},
                   {"target": "10.0.0.5:7576", "verdict": "MISSING", "code": "A116", "reason": "1 of 8", "expected": 8}]
        began = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        with FakeKubernetes(pods, nodes) as kubernetes:
            done = self.run_script(kubernetes, devices, missing, code=1, ASSAY_EXPECT_DEVICES="cuda:8")
            self.assertEqual(done.returncode, 1, done)
            found = kubernetes.conditions()
            self.assertEqual({n: (c["status"], c["reason"]) for n, c in found.items()},
                             {"n1": ("False", "Failed"), "n2": ("True", "Qualified"), "n3": ("False", "Degraded"),
                              "n4": ("Unknown", "Inconclusive"), "n5": ("False", "Failed"),
                              **dict.fromkeys(("n6", "n7", "n8"), ("Unknown", "Inconclusive"))})
            self.assertEqual(found["n8"]["message"], "assay qualify nightly: no daemon runs there INCONCLUSIVE A901")
            self.assertEqual(found["n1"]["message"], "assay qualify nightly: cuda:1 FAILED A101, cuda:0 QUALIFIED A000")
            # The time of a change is of a change.
            self.assertEqual(found["n2"]["lastTransitionTime"], "2026-01-01T00:00:00Z")
            self.assertGreaterEqual(found["n1"]["lastTransitionTime"], began)
            self.assertEqual({n: t for n in kubernetes.nodes if (t := kubernetes.taints(n))}, {})
            self.assertEqual(set(kubernetes.seen), {"Bearer a-token"})
        self.assertEqual(sorted(c.split(" --target ")[1] for c in self.called),
                         [f"10.0.0.{i}:7576" for i in range(1, 7)])
        self.assertEqual({c.count("--expect-devices cuda:8") for c in self.called}, {1})
        document = json.loads(done.stdout)
        self.assertEqual({k: document[k] for k in ("schema", "level", "verdict")},
                         {"schema": "assay.qualification/v1", "level": "nightly", "verdict": "FAILED"})
        self.assertEqual([d["verdict"] for d in document["devices"]],
                         ["FAILED", "INCONCLUSIVE", "DEGRADED", "QUALIFIED", "QUALIFIED", "QUALIFIED"])
        self.assertEqual(document["missing"], missing + [
            {"target": n, "verdict": "MISSING", "severity": "triage", "code": "A901", "reason": "no daemon runs there"}
            for n in ("n7", "n8")])

    def test_a_node_without_a_daemon_leaves_no_night_qualified(self):
        well = [verdict("10.0.0.1", "cuda:0", "QUALIFIED", "A000")]
        for pods in ([pod("n1", "10.0.0.1"), waiting_pod("n2")], [waiting_pod("n2")]):
            with FakeKubernetes(pods, [node("n1"), node("n2")]) as kubernetes:
                self.assertEqual(self.run_script(kubernetes, well).returncode, 4)
                self.assertEqual(kubernetes.conditions()["n2"]["reason"], "Inconclusive")

    def test_more_devices_than_expected_fail_no_node(self):
        more = {"target": "10.0.0.1:7576", "verdict": "MISSING", "code": "A904", "reason": "9 of 8", "expected": 8, "found": 9}
        with FakeKubernetes([pod("n1", "10.0.0.1")], [node("n1")]) as kubernetes:
            done = self.run_script(kubernetes, [verdict("10.0.0.1", "cuda:0", "QUALIFIED", "A000")], [more], code=4)
            self.assertEqual((done.returncode, kubernetes.conditions()["n1"]["reason"]), (4, "Inconclusive"), done)

    def test_reports_that_are_kept_are_held_against_one_another(self):
        pods, nodes = [pod(f"n{i}", f"10.0.0.{i}") for i in range(1, 5)], [node(f"n{i}") for i in range(1, 5)]
        accused = [{"node": f"n{i}", "target": f"10.0.0.{i}:7576", "device": "cuda:0", "charge": charge,
                    "evidence": [{"case": "gemm", "text": f"as {i}"}]} for i, charge in ((1, "SUSPECT"), (2, "SLOW"), (4, "SUSPECT"))]
        fleet = {"schema": "assay.fleet/v1", "accused": accused, "missing": [], "everywhere": [], "unread": ["torn"],
                 "unjudged": [{"node": "n3", "device": "cuda:0", "reason": "gave no digests"}],
                 "undecided": ["softmax: 1 of 2"],
                 "job_findings": [{"target": "10.0.0.1:7576", "suite": "nightly", "verdict": "FAILED", "message": "onednn is required"}]}

        def night(devices, kubernetes, **words):
            with tempfile.TemporaryDirectory() as reports:
                devices = [{**d, "report": f"{reports}/{i}.json"} for i, d in enumerate(devices)]
                return self.run_script(kubernetes, devices, fleet=fleet, ASSAY_TAINT="NoSchedule", ASSAY_TAINT_MOST="50",
                                       ASSAY_TAINT_KEEP="A104 A107", ASSAY_REPORTS=reports, **words)

        well = [verdict(f"10.0.0.{i}", "cuda:0", "QUALIFIED", "A000") for i in range(1, 4)]
        devices = [*well, verdict("10.0.0.4", "cuda:0", "FAILED", "A101")]
        with FakeKubernetes(pods, nodes) as kubernetes:
            done = night(devices, kubernetes, fleet_code=1)
            self.assertEqual(done.returncode, 1, done)
            self.assertEqual({n: kubernetes.taints(n) for n in kubernetes.nodes},
                             {"n1": ["assay/unfit=A107:NoSchedule"], "n2": [], "n3": [],
                              "n4": ["assay/unfit=A101:NoSchedule"]})
            self.assertEqual(kubernetes.conditions()["n1"]["message"], "assay qualify nightly: cuda:0 FAILED A107")
            self.assertEqual(json.loads(done.stdout)["devices"][0]["findings"][0]["why"], "gemm: as 1")
            for line in ("n2 cuda:0: SLOW: gemm: as 2", "n3 cuda:0: UNJUDGED: gave no digests", "torn",
                         "softmax: 1 of 2", "10.0.0.1:7576 nightly: FAILED: onednn is required"):
                self.assertIn("fleet: " + line, done.stderr)
            compared = [c for c in self.called if c.startswith("fleet compare ")]
            self.assertEqual([re.sub(r"\S+/", "", c) for c in compared], [
                f"fleet compare 0.json 1.json 2.json 3.json --format {form} --output {time.strftime('%Y-%m-%d', time.gmtime())}"
                f"-fleet.{form}" for form in ("json", "html")])
            # What the next night finds is no answer to what the others said.
            night([verdict(f"10.0.0.{i}", "cuda:0", "QUALIFIED", "A000") for i in (1, 4)], kubernetes)
            self.assertEqual(kubernetes.taints("n1"), ["assay/unfit=A107:NoSchedule"])
        for fleet_code, suspects, code in ((1, "list", 0), (4, "list", 0), (1, "fail", 1), (4, "fail", 4), (2, "fail", 2)):
            fleet["accused"] = accused[:2] if suspects == "list" else accused[1:2]
            with FakeKubernetes(pods[:3], nodes) as kubernetes:
                done = night(well, kubernetes, fleet_code=fleet_code, ASSAY_SUSPECTS=suspects)
                self.assertEqual((done.returncode, kubernetes.taints("n1")), (code, []), done)
        # Of one node there is nothing to hold.
        with FakeKubernetes(pods[:1], nodes) as kubernetes:
            self.assertEqual(night([well[0], {**well[0], "device": "cuda:1"}], kubernetes, fleet_code=4).returncode, 0)

    def test_what_has_ended_is_told_when_the_night_is_over(self):
        pods = [pod(f"n{i}", f"10.0.0.{i}") for i in range(1, 5)]
        nodes = [node("n1"), node("n2", [MINE], unfit="A101"), node("n3", [MINE], unfit="A101"), node("n4")]
        devices = [verdict("10.0.0.1", "cuda:0", "FAILED", "A106")]
        devices += [verdict(f"10.0.0.{i}", "cuda:0", "QUALIFIED", "A000") for i in range(2, 5)]
        with FakeKubernetes(pods, nodes) as kubernetes:
            done = self.run_script(kubernetes, devices, hangs="10.0.0.3:7576", ASSAY_AT_ONCE="1",
                                   ASSAY_TAINT="NoSchedule")
            self.assertEqual(done.returncode, 1, done)
            self.assertEqual(len(self.called), 3)
            self.assertEqual({n: c["reason"] for n, c in kubernetes.conditions().items()},
                             {"n1": "Failed", "n2": "Qualified", "n3": "Inconclusive", "n4": "Inconclusive"})
            self.assertIn("the night ended before it did", kubernetes.conditions()["n3"]["message"])
            self.assertEqual({n: kubernetes.taints(n) for n in kubernetes.nodes},
                             {"n1": ["assay/unfit=A106:NoSchedule"], "n2": [], "n3": ["assay/unfit=A101:NoSchedule"],
                              "n4": []})
            self.assertEqual([d["target"] for d in json.loads(done.stdout)["devices"]],
                             ["10.0.0.1:7576", "10.0.0.2:7576"])
        # All that ended is QUALIFIED: the night is not.
        with FakeKubernetes(pods[1:], nodes) as kubernetes:
            done = self.run_script(kubernetes, devices, hangs="10.0.0.3:7576", ASSAY_AT_ONCE="1")
            self.assertEqual((done.returncode, json.loads(done.stdout)["verdict"]), (4, "INCONCLUSIVE"), done)
            self.assertEqual(kubernetes.conditions()["n2"]["reason"], "Qualified")
        with FakeKubernetes(pods, nodes) as kubernetes:
            done = self.run_script(kubernetes, devices, hangs="10.0.0.1:7576", ASSAY_AT_ONCE="1")
            self.assertEqual((done.returncode, kubernetes.conditions()), (4, {}), done)
            self.assertIn("nothing is told to Kubernetes", done.stderr)

    def test_only_failed_nodes_are_tainted_and_only_assays_taints_taken_back(self):
        other = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
        nodes = [node("n1", [other]), node("n2", [other, MINE], unfit="A101"), node("n3"),
                 node("n4", [dict(MINE, value="by-hand")]), node("n5", [dict(MINE, value="A104")], unfit="A104"),
                 node("n6", [dict(MINE, value="by-hand")])]
        pods = [pod(f"n{i}", f"10.0.0.{i}") for i in range(1, 7)]
        words = {1: ("FAILED", "A106"), 2: ("QUALIFIED", "A000"), 3: ("DEGRADED", "A201"), 4: ("QUALIFIED", "A000"),
                 5: ("QUALIFIED", "A000"), 6: ("FAILED", "A101")}
        devices = [verdict(f"10.0.0.{i}", "cuda:0", *w) for i, w in words.items()]
        with FakeKubernetes(pods, nodes, conflicts=2) as kubernetes:
            done = self.run_script(kubernetes, devices, code=1, ASSAY_TAINT="NoSchedule", ASSAY_TAINT_MOST="50",
                                   ASSAY_TAINT_KEEP="A104 A105")
            self.assertEqual(done.returncode, 1, done)
            mine = {n: [t for t in kubernetes.taints(n) if not t.startswith("theirs")] for n in kubernetes.nodes}
            self.assertEqual(mine, {"n1": ["nvidia.com/gpu=present:NoSchedule", "assay/unfit=A106:NoSchedule"],
                                    "n2": ["nvidia.com/gpu=present:NoSchedule"], "n3": [],
                                    "n4": ["assay/unfit=by-hand:NoSchedule"], "n5": ["assay/unfit=A104:NoSchedule"],
                                    "n6": ["assay/unfit=by-hand:NoSchedule"]})
            # What others added in between is still there.
            self.assertEqual(len([t for t in kubernetes.taints("n1") if t.startswith("theirs")]), 2)
            unfit = {n: o["metadata"]["annotations"].get("assay/unfit") for n, o in kubernetes.nodes.items()}
            self.assertEqual({n: u for n, u in unfit.items() if u}, {"n1": "A106", "n5": "A104"})

    def nights(self, *nights, keep="A104", unfit=None):
        """Of one node, each a level, its devices' (or missing ones') verdicts, and the taint after it; what the last one said."""
        tainted = [dict(MINE, value=unfit)] if unfit else []
        with FakeKubernetes([pod("n1", "10.0.0.1")], [node("n1", tainted, unfit=unfit)]) as kubernetes:
            for level, devices, missing, taint in nights:
                done = self.run_script(
                    kubernetes, [verdict("10.0.0.1", *d) for d in devices],
                    [{"target": "10.0.0.1:7576", "verdict": "MISSING", "code": "A116", "expected": 8, "reason": m} for m in missing],
                    ASSAY_LEVEL=level, ASSAY_TAINT="NoSchedule", ASSAY_TAINT_MOST="10", ASSAY_TAINT_KEEP=keep)
                self.assertEqual(kubernetes.taints("n1"), [f"assay/unfit={taint}:NoSchedule"] if taint else [], (level, devices, done))
                self.assertEqual("assay/unfit-level" in kubernetes.nodes["n1"]["metadata"]["annotations"], bool(taint) and not unfit)
        return done.stderr

    def test_a_lower_level_does_not_take_back_what_a_higher_one_found(self):
        wrong, well = [("cuda:3", "FAILED", "A101")], [("cuda:3", "QUALIFIED", "A000")]
        levels = ("quick", "medium", "nightly", "extended")
        for lower, higher in zip(levels, levels[1:]):
            self.nights((higher, wrong, [], "A101"), (lower, well, [], "A101"), (higher, well, [], ""),
                        (lower, wrong, [], "A101"), (higher, well, [], ""))
        # Whatever came in between, and whichever of them found it first.
        unknown, other = [("cuda:3", "INCONCLUSIVE", "A306")], [("cuda:3", "FAILED", "A112")]
        said = self.nights(("quick", other, [], "A112"), ("extended", wrong, [], "A101"), ("nightly", unknown, [], "A101"),
                           ("nightly", other, [], "A101"), ("nightly", well, [], "A101"))
        self.assertIn("n1: stays tainted assay/unfit=A101: nightly is a lower level than extended", said)
        self.nights(("quick", well, [], ""), unfit="A101")  # of nobody knows which level

    def test_a_verdict_without_the_device_that_failed_does_not_untaint(self):
        card, cpu = ("cuda:3", "FAILED", "A101"), ("cpu:0", "QUALIFIED", "A000")
        said = self.nights(("quick", [card, ("cuda:2", "QUALIFIED", "A000")], [], "A101"), ("quick", [cpu], [], "A101"),
                           ("nightly", [("cuda:2", "QUALIFIED", "A000")], [], "A101"), ("quick", [cpu], [], "A101"))
        self.assertIn("n1: stays tainted assay/unfit=A101: no verdict of cuda:3", said)
        self.nights(("quick", [("cpu:0", "FAILED", "A101")], [], "A101"), ("quick", [cpu], [], ""))
        for reason, back in (("expected 8 devices, found 1", "cuda:0"), ("cuda:3: no driver", "cuda:3")):
            self.nights(("quick", [cpu], [reason], "A116"), ("quick", [cpu], [], "A116"),
                        ("quick", [(back, "QUALIFIED", "A000")], [], ""))

    def test_a_taint_that_a_person_took_back_is_no_taint(self):
        # Only the annotation is left of those of n1 to n3, and n3 has one by hand since.
        nodes = [node("n1", unfit="A101"), node("n2", unfit="A104"),
                 node("n3", [dict(MINE, value="by-hand")], unfit="A101")]
        pods = [pod(f"n{i}", f"10.0.0.{i}") for i in range(1, 4)]
        devices = [verdict("10.0.0.1", "cuda:0", "FAILED", "A112"), verdict("10.0.0.2", "cuda:0", "QUALIFIED", "A000"),
                   verdict("10.0.0.3", "cuda:0", "FAILED", "A112")]
        with FakeKubernetes(pods, nodes) as kubernetes:
            # The one slot is free.
            done = self.run_script(kubernetes, devices, code=1, ASSAY_TAINT="NoSchedule", ASSAY_TAINT_MOST="10",
                                   ASSAY_TAINT_KEEP="A104")
            self.assertEqual({n: kubernetes.taints(n) for n in kubernetes.nodes},
                             {"n1": ["assay/unfit=A112:NoSchedule"], "n2": [], "n3": ["assay/unfit=by-hand:NoSchedule"]}, done)
            self.assertEqual(kubernetes.nodes["n1"]["metadata"]["annotations"],
                             {"assay/unfit": "A112", "assay/unfit-level": "nightly", "assay/unfit-devices": "cuda:0"})
            self.assertNotIn("stays tainted", done.stderr)

    def test_a_code_that_a_person_takes_back_outlasts_another(self):
        with FakeKubernetes([pod("n1", "10.0.0.1")], [node("n1")]) as kubernetes:
            for night, (found, taint) in enumerate((
                    ([("FAILED", "A112")], "A112"), ([("FAILED", "A104")], "A104"), ([("FAILED", "A112")], "A104"),
                    ([("QUALIFIED", "A000")], "A104"))):
                done = self.run_script(kubernetes, [verdict("10.0.0.1", "cuda:0", *w) for w in found], code=1,
                                       ASSAY_TAINT="NoSchedule", ASSAY_TAINT_MOST="10", ASSAY_TAINT_KEEP="A104 A105")
                self.assertEqual(kubernetes.taints("n1"), [f"assay/unfit={taint}:NoSchedule"], (night, done))
                self.assertEqual(kubernetes.nodes["n1"]["metadata"]["annotations"]["assay/unfit"], taint)
            self.assertIn("n1: stays tainted: A104 is a person's to take back", done.stderr)

    def test_of_all_that_failed_the_code_that_a_person_takes_back_is_the_nodes(self):
        behind = {**verdict("10.0.0.1", "cuda:0", "FAILED", "A112"), "findings": [{"code": "A112"}, {"code": "A104"}]}
        for codes in (("A104", "A112"), ("A112", "A104"), behind):
            devices = [behind] if codes is behind else [
                verdict("10.0.0.1", f"cuda:{i}", "FAILED", c) for i, c in enumerate(codes)]
            with FakeKubernetes([pod("n1", "10.0.0.1")], [node("n1")]) as kubernetes:
                done = self.run_script(kubernetes, devices, code=1, ASSAY_TAINT="NoSchedule", ASSAY_TAINT_KEEP="A105 A104")
                self.assertEqual(kubernetes.taints("n1"), ["assay/unfit=A104:NoSchedule"], (codes, done))

    def test_a_library_that_is_wrong_everywhere_does_not_close_the_cluster(self):
        pods = [pod(f"n{i}", f"10.0.0.{i}") for i in range(1, 21)]
        nodes = [node(f"n{i}", [MINE], unfit="A101") if i == 1 else node(f"n{i}") for i in range(1, 21)]
        devices = [verdict(f"10.0.0.{i}", "cuda:0", "FAILED", "A102") for i in range(1, 21)]
        with FakeKubernetes(pods, nodes) as kubernetes:
            done = self.run_script(kubernetes, devices, code=1, ASSAY_TAINT="NoSchedule", ASSAY_TAINT_MOST="10")
            tainted = [n for n in kubernetes.nodes if kubernetes.taints(n)]
            self.assertEqual(len(tainted), 2, tainted)
            self.assertIn("not tainted: 2 of 20 nodes are", done.stderr)
            self.assertEqual({c["reason"] for c in kubernetes.conditions().values()}, {"Failed"})

    def test_shards_share_the_nodes(self):
        pods = [pod(f"gpu-{i:03}.example", f"10.0.1.{i}") for i in range(60)]
        nodes = [node(p["spec"]["nodeName"]) for p in pods]
        asked = []
        with FakeKubernetes(pods, nodes, page=25) as kubernetes:
            for shard in range(4):
                done = self.run_script(kubernetes, code=4, ASSAY_SHARDS="4", JOB_COMPLETION_INDEX=str(shard),
                                       ASSAY_EXTRA_TARGETS="lab:7576")
                self.assertEqual(done.returncode, 4, done)
                targets = [c.split(" --target ")[1] for c in self.called]
                self.assertEqual(targets.count("lab:7576"), 1 if shard == 0 else 0)
                self.assertGreater(len(targets), 5)
                asked += [target for target in targets if target != "lab:7576"]
            self.assertEqual(sorted(asked), sorted(f"10.0.1.{i}:7576" for i in range(60)))
            self.assertEqual(len(kubernetes.conditions()), 60)

    def test_words_tls_reports_and_ipv6_reach_the_client(self):
        with FakeKubernetes([pod("n1", "fd00::1")], [node("n1")]) as kubernetes, \
                tempfile.TemporaryDirectory() as reports:
            device = {**verdict("", "cuda:0", "QUALIFIED", "A000"), "target": "[fd00::1]:7576"}
            done = self.run_script(kubernetes, [device], words=["--baseline", "before"], ASSAY_TLS="/tls",
                                   ASSAY_TLS_NAME="assayd.assay.svc", ASSAY_AT_ONCE="7", ASSAY_REPORTS=reports)
            self.assertEqual(done.returncode, 0, done)
            self.assertRegex(self.called[0], r"^qualify nightly --at-once 7 --format json "
                             r"--baseline before --tls-ca /tls/ca.crt --tls-cert /tls/tls.crt --tls-key /tls/tls.key "
                             rf"--tls-server-name assayd.assay.svc --reports {reports}/\d{{4}}-\d\d-\d\d "
                             r"--target \[fd00::1\]:7576$")
            self.assertEqual(kubernetes.conditions()["n1"]["reason"], "Qualified")

    def test_what_kubernetes_refuses_is_told_and_the_rest_goes_on(self):
        pods = [pod(f"n{i}", f"10.0.0.{i}") for i in range(1, 5)]
        nodes = [node(f"n{i}") for i in (1, 2, 4)]  # n3 is gone
        devices = [verdict(f"10.0.0.{i}", "cuda:0", "QUALIFIED", "A000") for i in range(1, 5)]
        with FakeKubernetes(pods, nodes, refuse=lambda m, p: 403 if m == "PATCH" and "/n2/" in p else None) as kubernetes:
            done = self.run_script(kubernetes, devices)
            self.assertEqual(done.returncode, 3, done)
            self.assertIn("403 403 by the test", done.stderr)
            self.assertIn("404 no such node", done.stderr)
            self.assertEqual(set(kubernetes.conditions()), {"n1", "n4"})
        with FakeKubernetes(pods, nodes, refuse=lambda m, p: 500) as kubernetes:
            done = self.run_script(kubernetes, devices)
            self.assertEqual((done.returncode, self.called), (3, []), done)
            self.assertIn("nothing asked: GET http://", done.stderr)
        with FakeKubernetes([], nodes) as kubernetes:
            done = self.run_script(kubernetes, devices)
            self.assertEqual((done.returncode, self.called), (3, []), done)
            self.assertIn("no pod of namespace assay", done.stderr)

    def test_without_a_document_nothing_is_told(self):
        for says, code, ends in (("", 2, 2), ("not JSON", 0, 4), ('{"schema":"assay.qualification/v9"}', 0, 4)):
            with FakeKubernetes([pod("n1", "10.0.0.1")], [node("n1")]) as kubernetes:
                done = self.run_script(kubernetes, says=says, code=code)
                self.assertEqual(done.returncode, ends, done)
                self.assertEqual([m for m, _ in kubernetes.asked], ["GET"])
                self.assertIn("wrote no assay.qualification/v1", done.stderr)


def health(port, service=b""):
    """grpc.health.v1 as kubelet asks it, by curl: 1 SERVING, 2 NOT_SERVING; None: no answer."""
    message = b"" if not service else b"\n" + bytes([len(service)]) + service
    done = subprocess.run(
        ["curl", "--silent", "--http2-prior-knowledge", "--max-time", "60", "--header", "content-type: application/grpc",
         "--header", "te: trailers", "--data-binary", "@-", f"http://127.0.0.1:{port}/grpc.health.v1.Health/Check"],
        input=b"\0" + len(message).to_bytes(4, "big") + message, capture_output=True, check=False)
    return done.stdout[6] if len(done.stdout) == 7 and done.stdout[5] == 8 else None


@unittest.skipUnless(shutil.which("curl") and shutil.which("openssl"), "no curl or no openssl")
class Daemon(unittest.TestCase):
    """A daemon with the manifests' own configuration and certificates as they ask for, and the
    nightly job's script and variables against it."""

    def test_it_serves_is_probed_and_is_qualified(self):
        documents = documents_of(read(DEPLOY, "kubernetes/assay.yaml"))
        text = next(d["data"]["assayd.toml"] for d in documents
                    if d["kind"] == "ConfigMap" and "assayd.toml" in d["data"])
        environment = {e["name"]: e["value"] for e in nightly_pod(documents)["containers"][0]["env"]}
        with tempfile.TemporaryDirectory() as folder:
            tls_test.make_certificates(folder, "tls", names=f"DNS:{environment['ASSAY_TLS_NAME']}")
            for made, name in (("ca.pem", "ca.crt"), ("tls.pem", "tls.crt"), ("tls.key", "tls.key")):
                os.rename(os.path.join(folder, made), os.path.join(folder, name))
            ports = dict(zip(("7576", "9575", "7577"), harness.free_ports(3)))
            for port, free in ports.items():
                text = text.replace(f"0.0.0.0:{port}", f"127.0.0.1:{free}")
            text = text.replace("/etc/assay/tls", folder).replace("/var/lib/assay", folder + "/state")
            with open(os.path.join(folder, "assayd.toml"), "w", encoding="utf-8") as file:
                file.write(text)
            with open(os.path.join(folder, "log"), "wb") as log:
                daemon = subprocess.Popen([harness.ASSAYD, "--config", file.name], stdout=subprocess.PIPE, stderr=log,
                                          text=True)
            try:
                line = daemon.stdout.readline()
                self.assertIn(f"health 127.0.0.1:{ports['7577']}", line, read(folder, "log"))
                self.assertEqual(health(ports["7577"]), 1)
                # Nothing else is there, and the daemon's own port speaks TLS to those it knows.
                self.assertIsNone(health(ports["7577"], b"assay.v1.ValidationService"))
                self.assertIsNone(health(ports["7576"]))
                with open(os.path.join(folder, "token"), "w", encoding="utf-8") as file:
                    file.write("a-token")
                with FakeKubernetes([pod("n1", "127.0.0.1")], [node("n1")]) as kubernetes:
                    done = subprocess.run(
                        ["/bin/sh", SCRIPT, "--budget", "1s", "--no-selftest"], capture_output=True, text=True,
                        check=False, timeout=120,
                        env={**os.environ, **environment, "PATH": f"{harness.INSTALL}/bin:{os.environ['PATH']}",
                             "ASSAY_API": f"http://127.0.0.1:{kubernetes.server_port}", "ASSAY_ACCOUNT": folder,
                             "ASSAY_LEVEL": "quick", "ASSAY_PORT": str(ports["7576"]), "ASSAY_TLS": folder})
                    found = kubernetes.conditions()["n1"]
                self.assertIn("cpu:0", found["message"], done)
                self.assertEqual(found["reason"], {0: "Qualified", 4: "Inconclusive"}[done.returncode], done)
                # While it drains it is not to be sent anybody.
                daemon.terminate()
                harness.wait_until(lambda: health(ports["7577"]) != 1, 20, "no longer SERVING")
                self.assertEqual(daemon.wait(60), 0)
            finally:
                if daemon.poll() is None:
                    daemon.kill()
                    daemon.wait()
                daemon.stdout.close()

    def test_a_health_port_that_is_taken_is_named(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            with tempfile.TemporaryDirectory() as folder:
                done = subprocess.run(
                    [harness.ASSAYD, "--listen", "127.0.0.1:0", "--metrics-listen", "off", "--health-listen", address,
                     "--state-dir", folder], capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 3, done)
            self.assertIn(f"--health-listen: cannot listen on {address}: Address already in use", done.stderr)


if __name__ == "__main__":
    harness.main()
