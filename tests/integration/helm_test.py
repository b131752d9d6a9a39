"""The Helm chart: what it renders is what Kubernetes takes, leads somewhere, and is what the
plain manifests hold; values that are wrong are refused by their names."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import yaml

import harness
from manifests import ROOT, check_manifests, config_of, daemon_pod, documents_of, nightly_pod, one, options_of, read

CHART = os.path.join(ROOT, "deploy/helm/assay")
TOOLS = os.path.join(ROOT, "build/kubernetes-tools")
HELM = shutil.which("helm") or os.path.join(TOOLS, "bin/helm")
CHECKER = os.path.join(ROOT, "tests/integration/kubernetes/check.mjs")

# What is chosen, by what values. Every document that any of them renders is held against the schemas.
CHOICES = {
    "default": [],
    "plain": ["--set", "namespace.create=true"],
    "without TLS": ["--set", "tls.enabled=false"],
    "cert-manager": ["--set", "tls.certManager.enabled=true,tls.certManager.issuer.name=lab"],
    "nvidia": ["--set", "gpu.vendor=nvidia,image.tag=cuda"],
    "nvidia by the plugin": ["--set", "gpu.vendor=nvidia,gpu.count=8"],
    "amd": ["--set", "gpu.vendor=amd"],
    "amd by the plugin": ["--set", "gpu.vendor=amd,gpu.count=4"],
    "without the operator": ["--set", "prometheusOperator.enabled=false"],
    "without rules": ["--set", "prometheusOperator.rules=false,prometheusOperator.labels.release=kps"],
    "extra targets": ["--set", "nightly.extraTargets={login1:7576,10.0.0.9:7576}"],
    "taints": ["--set", "nightly.taint.enabled=true,nightly.taint.effect=NoExecute,nightly.expectDevices=cuda:8"],
    "devices of any backend": ["--set", "nightly.expectDevices=8"],
    "shards": ["--set", "nightly.shards=40,nightly.reportsClaim=reports,nightly.timeZone=Europe/Zurich"],
    "without nights": ["--set", "nightly.enabled=false"],
    "without a policy": ["--set", "networkPolicy.enabled=false"],
    "everything else": ["--values", "-"],
}
EVERYTHING_ELSE = """
image: {repository: registry.example/assay, tag: "1.2", pullPolicy: Always, pullSecrets: [pull]}
daemon:
  bindAddress: "[::]"
  grpcPort: 17576
  metricsPort: 19575
  healthPort: 17577
  config: {probe: 5ms/10s, arena-bytes: 16GiB, max-cases: 1000000, selftest-on-start: true, devices: ["cuda:*"]}
  env: [{name: ASSAY_HOST_ROOT, value: /host}]
  nodeSelector: {gpu: "yes"}
  tolerations: [{key: dedicated, operator: Exists}]
  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: gpu, operator: Exists}]}]}}}
  priorityClassName: low
  podAnnotations: {team: hpc}
networkPolicy: {clients: [{ipBlock: {cidr: 10.0.0.0/8}}]}
nightly: {level: medium, args: [--baseline, before], schedule: "@daily", suspend: true}
"""
# Wrong values, and the words that have to be in the refusal.
WRONG = [
    (["--set", "tls.enable=true"], ["tls: Additional property enable is not allowed"]),
    (["--set", "daemon.grpcPort=70000"], ["daemon.grpcPort", "less than or equal to 65535"]),
    (["--set-string", "daemon.healthPort=7577"], ["daemon.healthPort", "Expected: integer"]),
    (["--set", "gpu.vendor=intel"], ["gpu.vendor", '"none", "nvidia", "amd"']),
    (["--set", "gpu.count=2"], ["gpu.vendor", '"nvidia", "amd"']),
    (["--set", "daemon.config.arena-byte=8GiB"], ["daemon.config", "arena-byte"]),
    (["--set", "daemon.config.listen=0.0.0.0:1"], ["daemon.config", "listen"]),
    (["--set", "daemon.config.probe=often"], ["daemon.config.probe"]),
    (["--set", "daemon.statePath=state"], ["daemon.statePath"]),
    (["--set", "daemon.resources.limits.memory=lots"], ["daemon.resources.limits.memory"]),
    (["--set", "tls.certManager.enabled=true"], ["tls.certManager.issuer.name"]),
    (["--set", "nightly.level=nigthly"], ["nightly.level", '"quick", "medium", "nightly", "extended"']),
    (["--set", "nightly.schedule=nightly"], ["nightly.schedule"]),
    (["--set", "nightly.extraTargets={a07}"], ["nightly.extraTargets.0"]),
    (["--set", "nightly.taint.effect=Never"], ["nightly.taint.effect"]),
    (["--set", "nightly.taint.keep={a104}"], ["nightly.taint.keep.0"]),
    (["--set", "nightly.shards=0"], ["nightly.shards"]),
    (["--set", "nightly.expectDevices=gpu:8"], ["nightly.expectDevices", "(cpu|cuda|hip):"]),
    (["--set", "nightly.expectDevices=-1"], ["nightly.expectDevices", "greater than or equal to 0"]),
    (["--set", "nightly.shards=2", "--kube-version", "1.28.0"], ["nightly.shards: 2 wants Kubernetes 1.29"]),
    (["--kube-version", "1.23.0"], ["chart requires kubeVersion"]),
]


def helm(*words, text=None):
    return subprocess.run([HELM, *words], capture_output=True, text=True, check=False, input=text)


def template(words, release="assay", namespace="assay"):
    return helm("template", release, CHART, "--namespace", namespace, *words,
                text=EVERYTHING_ELSE if words[-1:] == ["-"] else None)


def rendered(words, **of):
    done = template(words, **of)
    assert done.returncode == 0, done
    return documents_of(done.stdout)


@unittest.skipUnless(os.access(HELM, os.X_OK), "no helm: deploy/setup all installs it where npm is")
class Chart(unittest.TestCase):
    def test_it_has_the_projects_version_and_helm_finds_nothing(self):
        done = helm("lint", "--strict", CHART)
        self.assertEqual(done.returncode, 0, done)
        version = re.search(r"project\(assay VERSION (\S+)", read(ROOT, "CMakeLists.txt")).group(1)
        chart = yaml.safe_load(read(CHART, "Chart.yaml"))
        self.assertEqual((chart["version"], chart["appVersion"]), (version, version))

    def test_the_plain_manifests_are_what_it_renders(self):
        done = subprocess.run([os.path.join(ROOT, "deploy/kubernetes/render"), "--set", "namespace.create=true"],
                              capture_output=True, text=True, check=True, env={**os.environ, "HELM": HELM})
        self.assertEqual(done.stdout, read(ROOT, "deploy/kubernetes/assay.yaml"), "run deploy/kubernetes/render")

    def test_names_ports_paths_and_flags_are_the_programs_whatever_is_chosen(self):
        for name, words in CHOICES.items():
            with self.subTest(name):
                check_manifests(self, rendered(words))
        with self.subTest("another release"):
            documents = rendered([], release="lab", namespace="gpu-tests")
            check_manifests(self, documents)
            named = {d["metadata"]["name"] for d in documents}
            self.assertEqual({n for n in named if "lab-assay" not in n}, set())
            self.assertEqual({d["metadata"].get("namespace") for d in documents if not d["kind"].startswith("Cluster")},
                             {"gpu-tests"})

    def test_kubernetes_the_operator_and_cert_manager_take_it(self):
        if not os.path.exists(os.path.join(TOOLS, "installed.json")) or not shutil.which("node"):
            self.skipTest("no schemas: deploy/setup test installs them where npm is")
        sets = {name: rendered(words) for name, words in CHOICES.items()}
        self.assertEqual(self.complaints(sets), [])
        # And what they would not take is found: a value by its schema, a name by its type.
        wrong = documents_of(read(ROOT, "deploy/kubernetes/assay.yaml"))
        daemon_pod(wrong)["containers"][0]["ports"][0]["containerPort"] = "7576"
        one(wrong, "CronJob")["spec"]["concurencyPolicy"] = "Forbid"
        found = "\n".join(self.complaints({"wrong": wrong}))
        self.assertRegex(found, "wrong: DaemonSet assayd: .*containerPort must be integer")
        self.assertRegex(found, "wrong: CronJob assay-nightly: .*concurencyPolicy")

    def complaints(self, sets):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(sets, file)
            file.flush()
            done = subprocess.run(["node", CHECKER, TOOLS, file.name], capture_output=True, text=True, check=False)
        self.assertIn(done.returncode, (0, 1), done)
        self.assertEqual(done.stderr, "")
        self.assertEqual(done.returncode, 1 if done.stdout else 0, done)
        return done.stdout.splitlines()

    def test_wrong_values_are_refused_by_name(self):
        for words, said in WRONG:
            with self.subTest(" ".join(words)):
                done = template(words)
                self.assertNotEqual(done.returncode, 0)
                for word in said:
                    self.assertIn(word, done.stderr)

    def test_the_schema_knows_every_value_and_every_option(self):
        schema = json.loads(read(CHART, "values.schema.json"))

        def same(values, of, path):
            if of.get("type") != "object" or "properties" not in of:
                return
            self.assertIs(of["additionalProperties"], False, path)
            if path != ".daemon.config":  # its keys are assayd's
                self.assertEqual(set(values), set(of["properties"]) - {"global"} - ({"requests", "limits"} - set(values)),
                                 path)
            for key, value in values.items():
                same(value, of["properties"][key], f"{path}.{key}")

        same(yaml.safe_load(read(CHART, "values.yaml")), schema, "")
        free = set(schema["properties"]["daemon"]["properties"]["config"]["properties"])
        own = {"listen", "metrics-listen", "health-listen", "state-dir", "metrics-tls", "tls-cert", "tls-key",
               "tls-client-ca", "insecure"}
        # Those name files that the chart mounts nowhere.
        out = {"config", "help", "version", "suites-dir", "worker", "roles-file", "tls-client-crl"}
        self.assertEqual({f"--{k}" for k in free | own | out}, options_of(harness.ASSAYD))


@unittest.skipUnless(os.access(HELM, os.X_OK), "no helm: deploy/setup all installs it where npm is")
class Choices(unittest.TestCase):
    """What a value changes, where a reader would look for it."""

    def test_tls(self):
        plain, secured = rendered(CHOICES["without TLS"]), rendered([])
        self.assertNotIn("tls-cert", config_of(plain))
        self.assertTrue(config_of(secured)["metrics-tls"])
        for documents in (plain, secured):  # kubelet's probes speak no TLS
            self.assertTrue(config_of(documents)["insecure"])
        for documents, count in ((plain, 0), (secured, 1)):
            for pod in (daemon_pod(documents), nightly_pod(documents)):
                self.assertEqual(len([v for v in pod["volumes"] if "secret" in v]), count)
        made = one(rendered(CHOICES["cert-manager"]), "Certificate")["spec"]
        self.assertEqual(made["secretName"], next(v for v in daemon_pod(secured)["volumes"] if "secret" in v)["secret"]["secretName"])
        host = next(e["value"] for e in nightly_pod(secured)["containers"][0]["env"] if e["name"] == "ASSAY_TLS_NAME")
        self.assertIn(host, made["dnsNames"])
        self.assertEqual(one(secured, "ServiceMonitor")["spec"]["endpoints"][0]["tlsConfig"]["serverName"], host)

    def test_cards(self):
        pod = daemon_pod(rendered(CHOICES["nvidia"]))
        self.assertEqual(pod["runtimeClassName"], "nvidia")
        self.assertIn({"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}, pod["containers"][0]["env"])
        self.assertNotIn("nvidia.com/gpu", pod["containers"][0]["resources"]["limits"])
        self.assertTrue(pod["containers"][0]["image"].endswith(":cuda"))
        for vendor, count in (("nvidia", 8), ("amd", 4)):
            pod = daemon_pod(rendered(CHOICES[f"{vendor} by the plugin"]))
            self.assertEqual(pod["containers"][0]["resources"]["limits"],
                             {"memory": "8Gi", f"{vendor}.com/gpu": count})
            self.assertIn({"key": f"{vendor}.com/gpu", "operator": "Exists"}, pod["tolerations"])
            self.assertNotIn("runtimeClassName", pod)
            self.assertNotIn("privileged", pod["containers"][0]["securityContext"])
        pod = daemon_pod(rendered(CHOICES["amd"]))
        self.assertEqual(pod["securityContext"]["supplementalGroups"], [105])
        self.assertTrue(pod["containers"][0]["securityContext"]["privileged"])
        self.assertLessEqual({"/dev/kfd", "/dev/dri"}, {m["mountPath"] for m in pod["containers"][0]["volumeMounts"]})

    def test_operators_kinds_are_left_out_where_they_are_not(self):
        groups = {d["apiVersion"].split("/")[0] for d in rendered(CHOICES["without the operator"])}
        self.assertEqual({g for g in groups if g.endswith((".com", ".io")) and not g.endswith(".k8s.io")}, set())
        documents = rendered(CHOICES["without rules"])
        self.assertEqual([d for d in documents if d["kind"] == "PrometheusRule"], [])
        self.assertEqual(one(documents, "ServiceMonitor")["metadata"]["labels"]["release"], "kps")

    def test_the_rules_are_those_of_deploy_prometheus(self):
        found = {d["metadata"]["name"]: d["spec"] for d in rendered([]) if d["kind"] == "PrometheusRule"}
        for name in ("recording", "alerts"):
            self.assertEqual(found[f"assay-{name}"], yaml.safe_load(read(ROOT, f"deploy/prometheus/rules/{name}.yml")))

    def test_the_configuration_is_assayds(self):
        config = config_of(rendered(CHOICES["everything else"]))
        self.assertEqual((config["max-cases"], config["selftest-on-start"], config["devices"], config["probe"]),
                         (1000000, True, ["cuda:*"], "5ms/10s"))
        self.assertEqual(config["listen"], "[::]:17576")

    def test_nights(self):
        def environment(name):
            return {e["name"]: e["value"] for e in nightly_pod(rendered(CHOICES[name]))["containers"][0]["env"]}

        self.assertEqual(environment("extra targets")["ASSAY_EXTRA_TARGETS"], "login1:7576,10.0.0.9:7576")
        self.assertEqual({k: v for k, v in environment("taints").items() if "TAINT" in k or "EXPECT" in k},
                         {"ASSAY_TAINT": "NoExecute", "ASSAY_TAINT_MOST": "10", "ASSAY_TAINT_KEEP": "A104 A105 A107 A119",
                          "ASSAY_EXPECT_DEVICES": "cuda:8"})
        self.assertEqual(environment("devices of any backend")["ASSAY_EXPECT_DEVICES"], "8")
        self.assertFalse(any("TAINT" in k or "EXPECT" in k for k in environment("default")))
        rule = one(rendered(CHOICES["taints"]), "ClusterRole")["rules"][0]
        self.assertEqual((rule["resources"], rule["verbs"]), (["nodes"], ["get", "patch"]))
        self.assertIn({"key": "assay/unfit", "operator": "Exists"}, daemon_pod(rendered([]))["tolerations"])
        job = one(rendered(CHOICES["shards"]), "CronJob")["spec"]["jobTemplate"]["spec"]
        self.assertEqual((job["completionMode"], job["completions"], job["parallelism"], job["backoffLimitPerIndex"]),
                         ("Indexed", 40, 40, 0))
        self.assertEqual({k: environment("shards")[k] for k in ("ASSAY_SHARDS", "ASSAY_REPORTS", "ASSAY_SUSPECTS")},
                         {"ASSAY_SHARDS": "40", "ASSAY_REPORTS": "/reports", "ASSAY_SUSPECTS": "fail"})
        kinds = {d["kind"] for d in rendered(CHOICES["without nights"])}
        self.assertEqual(kinds & {"CronJob", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"}, set())
        container = nightly_pod(rendered(CHOICES["everything else"]))["containers"][0]
        self.assertEqual(container["args"], ["--baseline", "before"])


if __name__ == "__main__":
    if not os.access(HELM, os.X_OK):
        print("SKIP: no helm: deploy/setup all installs it where npm is")
        sys.exit(77)
    harness.main()
