"""Manifests for Kubernetes as data, and what has to hold of all that the chart renders."""

import os
import re
import subprocess
import tomllib

import yaml

import harness

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DEPLOY = os.path.join(ROOT, "deploy")
SCRIPT = os.path.join(DEPLOY, "helm/assay/files/qualify-nodes")


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def options_of(program, *words):
    text = subprocess.run([program, *words, "--help"], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"^ +(?:-[a-z],?)?(--[a-z][a-z-]*)", text, re.M))


def documents_of(text):
    return [d for d in yaml.safe_load_all(text) if d]


def one(documents, kind):
    found = [d for d in documents if d["kind"] == kind]
    assert len(found) == 1, (kind, len(found))
    return found[0]


def daemon_pod(documents):
    return one(documents, "DaemonSet")["spec"]["template"]["spec"]


def nightly_pod(documents):
    return one(documents, "CronJob")["spec"]["jobTemplate"]["spec"]["template"]["spec"]


def config_of(documents):
    return tomllib.loads(next(d["data"]["assayd.toml"] for d in documents
                              if d["kind"] == "ConfigMap" and "assayd.toml" in d["data"]))


def images():
    return {os.path.basename(f): read(DEPLOY, "docker", f) for f in os.listdir(os.path.join(DEPLOY, "docker"))}


def check_manifests(test, documents):
    """That every name, port, path, flag and variable leads somewhere."""
    pod, daemon = daemon_pod(documents), daemon_pod(documents)["containers"][0]
    config = config_of(documents)

    # What is started is in the image, and knows its words.
    test.assertTrue(daemon["command"][0].startswith("/opt/assay/"))
    installed = os.path.join(harness.INSTALL, daemon["command"][0].removeprefix("/opt/assay/"))
    test.assertTrue(os.access(installed, os.X_OK), installed)
    known = options_of(harness.ASSAYD)
    test.assertLessEqual({w for w in daemon["args"] if w.startswith("--")}, known)
    test.assertEqual({f"--{k}" for k in config} - known, set())
    for name, text in images().items():
        test.assertIn("COPY --from=build /opt/assay /opt/assay", text, name)

    # Ports: served, named, probed, led to.
    ports = {p["name"]: p["containerPort"] for p in daemon["ports"]}
    served = {name: int(config[key].rsplit(":", 1)[1]) for name, key in
              (("grpc", "listen"), ("metrics", "metrics-listen"), ("health", "health-listen"))}
    test.assertEqual(ports, served)
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        test.assertEqual(daemon[probe]["grpc"], {"port": served["health"]}, probe)
    service = one(documents, "Service")
    for port in service["spec"]["ports"]:
        test.assertEqual(port["port"], ports[port["targetPort"]])

    # Paths.
    for spec in (pod, nightly_pod(documents)) if any(d["kind"] == "CronJob" for d in documents) else (pod,):
        for container in spec["containers"] + spec.get("initContainers", []):
            test.assertLessEqual({m["name"] for m in container["volumeMounts"]}, {v["name"] for v in spec["volumes"]})
        test.assertEqual({v["name"] for v in spec["volumes"]},
                         {m["name"] for c in spec["containers"] for m in c["volumeMounts"]})
    mounts = {m["mountPath"] for m in daemon["volumeMounts"]}
    test.assertIn(daemon["args"][daemon["args"].index("--config") + 1], mounts)
    for path in [v for k, v in config.items() if k in ("state-dir", "tls-cert", "tls-key", "tls-client-ca")]:
        test.assertTrue(any(path == m or path.startswith(m + "/") for m in mounts), path)

    # Labels, accounts, maps.
    labels = one(documents, "DaemonSet")["spec"]["template"]["metadata"]["labels"]
    selectors = [service["spec"]["selector"], one(documents, "DaemonSet")["spec"]["selector"]["matchLabels"]]
    selectors += [d["spec"]["podSelector"]["matchLabels"] for d in documents if d["kind"] == "NetworkPolicy"]
    for selector in selectors:
        test.assertLessEqual(selector.items(), labels.items())
    for monitor in (d for d in documents if d["kind"] == "ServiceMonitor"):
        test.assertLessEqual(monitor["spec"]["selector"]["matchLabels"].items(), service["metadata"]["labels"].items())
        # The rules read job="assay".
        test.assertEqual(service["metadata"]["labels"][monitor["spec"]["jobLabel"]], "assay")
        test.assertIn(monitor["spec"]["endpoints"][0]["port"], {p["name"] for p in service["spec"]["ports"]})
        test.assertEqual(monitor["spec"]["endpoints"][0].get("scheme") == "https", config.get("metrics-tls", False))
    accounts = {d["metadata"]["name"] for d in documents if d["kind"] == "ServiceAccount"}
    maps = {d["metadata"]["name"] for d in documents if d["kind"] == "ConfigMap"}
    test.assertIn(pod["serviceAccountName"], accounts)
    test.assertLessEqual({v["configMap"]["name"] for v in pod["volumes"] if "configMap" in v}, maps)
    for binding in (d for d in documents if d["kind"].endswith("Binding")):
        role = one([d for d in documents if d["metadata"]["name"] == binding["roleRef"]["name"]],
                   binding["roleRef"]["kind"])
        test.assertEqual({s["name"] for s in binding["subjects"]} - accounts, set(), role["metadata"]["name"])

    if not any(d["kind"] == "CronJob" for d in documents):
        return
    nightly = nightly_pod(documents)
    test.assertIn(nightly["serviceAccountName"], accounts)
    test.assertLessEqual({v["configMap"]["name"] for v in nightly["volumes"] if "configMap" in v}, maps)
    container = nightly["containers"][0]
    folder, name = os.path.split(container["command"][1])
    test.assertIn(folder, {m["mountPath"] for m in container["volumeMounts"]})
    scripts = next(d for d in documents if d["kind"] == "ConfigMap" and name in d["data"])
    test.assertEqual(scripts["data"][name], read(SCRIPT))
    environment = {e["name"]: e["value"] for e in container["env"]}
    told = set(re.findall(r"^#   (ASSAY_\w+) ", read(SCRIPT), re.M))
    test.assertLessEqual(environment.keys(), told)
    test.assertEqual(environment["ASSAY_PORT"], str(served["grpc"]))
    test.assertEqual(environment["ASSAY_NAMESPACE"], nightly_namespace(documents))
    wanted = dict(pair.split("=") for pair in environment["ASSAY_PODS"].split(","))
    test.assertLessEqual(wanted.items(), labels.items())
    for path in (environment.get("ASSAY_TLS"), environment.get("ASSAY_REPORTS")):
        test.assertIn(path, {None, *(m["mountPath"] for m in container["volumeMounts"])})
    test.assertEqual("ASSAY_TLS" in environment, "tls-cert" in config)


def nightly_namespace(documents):
    return one(documents, "CronJob")["metadata"]["namespace"]
