#!/usr/bin/env python3
"""Writes the manifests that run Assay on a Kubernetes cluster, as YAML on standard output.

    manifests.py --image assay:cuda --gpu nvidia --cert-manager my-issuer | kubectl apply -f -

deploy/kubernetes/assay.yaml is what it writes without options.
"""

import argparse
import pathlib
import sys

import yaml

FOLDER = pathlib.Path(__file__).resolve().parent
PROGRAMS = "/opt/assay/bin"
TLS = "/etc/assay/tls"
USER = 10001
CONFIG = f"""\
listen = ["127.0.0.1:7575", "0.0.0.0:7576"]
metrics-listen = "0.0.0.0:9575"
metrics-tls = true
tls-cert = "{TLS}/tls.crt"
tls-key = "{TLS}/tls.key"
tls-client-ca = "{TLS}/ca.crt"
state-dir = "/var/lib/assay"
store-max-bytes = "10GiB"
"""
LABELS = {"app.kubernetes.io/name": "assay"}
DAEMON = {**LABELS, "app.kubernetes.io/component": "assayd"}
NIGHTLY = {**LABELS, "app.kubernetes.io/component": "nightly"}
HARDENED = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--namespace", default="assay")
    parser.add_argument("--image", default="assay:latest", help="built from deploy/docker")
    parser.add_argument("--gpu", choices=["none", "nvidia", "amd"], default="none",
                        help="reach the cards without taking them from the scheduler: NVIDIA's by the runtime "
                             "class nvidia, AMD's by their device files")
    parser.add_argument("--gpus", type=int, default=0, metavar="N",
                        help="instead, take N cards of a node for good through the device plugin of --gpu")
    parser.add_argument("--render-group", type=int, default=105, metavar="GID", help="owner of /dev/kfd (--gpu amd)")
    parser.add_argument("--node-selector", metavar="LABEL=VALUE", help="only nodes with this label")
    parser.add_argument("--memory", default="8Gi", help="limit of a daemon with its workers")
    parser.add_argument("--cert-manager", metavar="ISSUER",
                        help="a ClusterIssuer that makes the Secret assay-tls; else make it yourself: "
                             "ca.crt, tls.crt, tls.key")
    parser.add_argument("--no-service-monitor", action="store_true", help="where Prometheus' operator is not")
    parser.add_argument("--monitoring-namespace", default="monitoring", help="whose pods may scrape")
    parser.add_argument("--level", default="nightly", choices=["quick", "medium", "nightly", "extended"])
    parser.add_argument("--schedule", default="30 1 * * *", help="of the qualification, cron")
    parser.add_argument("--cordon", action="store_true", help="a node with a FAILED device takes no new pods")
    return parser.parse_args()


def meta(options, name, labels=None, namespaced=True):
    made = {"name": name, "labels": dict(labels or LABELS)}
    return {**made, "namespace": options.namespace} if namespaced else made


def host(options):
    return f"assayd.{options.namespace}.svc"


def daemon_set(options):
    daemon = {
        "name": "assayd", "image": options.image, "command": [f"{PROGRAMS}/assayd"],
        "args": ["--config", "/etc/assay/assayd.toml"],
        "env": [], "securityContext": HARDENED,
        "ports": [{"name": "grpc", "containerPort": 7576}, {"name": "metrics", "containerPort": 9575}],
        "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"memory": options.memory}},
        "volumeMounts": [{"name": "config", "mountPath": "/etc/assay/assayd.toml", "subPath": "assayd.toml"},
                         {"name": "tls", "mountPath": TLS, "readOnly": True},
                         {"name": "state", "mountPath": "/var/lib/assay"}, {"name": "tmp", "mountPath": "/tmp"}],
    }
    # By gRPC, through the port on loopback: kubelet's own gRPC probe speaks no TLS.
    probe = {"exec": {"command": [f"{PROGRAMS}/assay", "devices", "--target", "127.0.0.1:7575",
                                  "--reconnect", "1s"]}, "timeoutSeconds": 10}
    daemon["startupProbe"] = {**probe, "periodSeconds": 5, "failureThreshold": 24}
    daemon["readinessProbe"] = {**probe, "periodSeconds": 15}
    daemon["livenessProbe"] = {**probe, "periodSeconds": 30, "failureThreshold": 5}
    volumes = [{"name": "config", "configMap": {"name": "assay"}},
               {"name": "tls", "secret": {"secretName": "assay-tls", "defaultMode": 0o440}},
               {"name": "state", "hostPath": {"path": "/var/lib/assay", "type": "DirectoryOrCreate"}},
               {"name": "tmp", "emptyDir": {}}]
    owner = {"name": "state-owner", "image": options.image, "command": ["chown", f"{USER}:{USER}", "/var/lib/assay"],
             "securityContext": {**HARDENED, "runAsUser": 0, "runAsNonRoot": False,
                                 "capabilities": {"drop": ["ALL"], "add": ["CHOWN"]}},
             "volumeMounts": [{"name": "state", "mountPath": "/var/lib/assay"}]}
    pod = {
        "serviceAccountName": "assayd", "automountServiceAccountToken": False,
        "securityContext": {"runAsNonRoot": True, "runAsUser": USER, "runAsGroup": USER, "fsGroup": USER,
                            "seccompProfile": {"type": "RuntimeDefault"}},
        # As long as running jobs may take to end, and a little more.
        "terminationGracePeriodSeconds": 60,
        "initContainers": [owner], "containers": [daemon], "volumes": volumes,
    }
    if options.gpus:
        plugin = "amd.com/gpu" if options.gpu == "amd" else "nvidia.com/gpu"
        daemon["resources"]["limits"][plugin] = options.gpus
    elif options.gpu == "nvidia":
        pod["runtimeClassName"] = "nvidia"
        daemon["env"] += [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
                          {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "compute,utility"}]
    elif options.gpu == "amd":
        for name in ("kfd", "dri"):
            volumes.append({"name": name, "hostPath": {"path": f"/dev/{name}"}})
            daemon["volumeMounts"].append({"name": name, "mountPath": f"/dev/{name}"})
        pod["securityContext"]["supplementalGroups"] = [options.render_group]
        # Device files of a hostPath are closed to a container that is not privileged.
        daemon["securityContext"] = {"privileged": True}
    if options.node_selector:
        key, _, value = options.node_selector.partition("=")
        pod["nodeSelector"] = {key: value}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": meta(options, "assayd", DAEMON),
            "spec": {"selector": {"matchLabels": DAEMON},
                     "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}},
                     "template": {"metadata": {"labels": DAEMON}, "spec": pod}}}


def cron_job(options):
    client = {
        "name": "qualify", "image": options.image, "command": ["/bin/sh", "/opt/nightly/qualify-nodes"],
        "env": [{"name": "ASSAY_LEVEL", "value": options.level}, {"name": "ASSAY_SERVICE", "value": host(options)},
                {"name": "ASSAY_NAMESPACE", "value": options.namespace}, {"name": "ASSAY_TLS", "value": TLS},
                {"name": "ASSAY_CORDON", "value": "true" if options.cordon else "false"}],
        "securityContext": HARDENED,
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "1Gi"}},
        "volumeMounts": [{"name": "script", "mountPath": "/opt/nightly"},
                         {"name": "tls", "mountPath": TLS, "readOnly": True}, {"name": "tmp", "mountPath": "/tmp"}],
    }
    pod = {
        "serviceAccountName": "assay-nightly", "restartPolicy": "Never",
        "securityContext": {"runAsNonRoot": True, "runAsUser": USER, "runAsGroup": USER, "fsGroup": USER,
                            "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [client],
        "volumes": [{"name": "script", "configMap": {"name": "assay-nightly"}},
                    {"name": "tls", "secret": {"secretName": "assay-tls", "defaultMode": 0o440}},
                    {"name": "tmp", "emptyDir": {}}],
    }
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": meta(options, "assay-nightly", NIGHTLY),
            "spec": {"schedule": options.schedule, "concurrencyPolicy": "Forbid", "successfulJobsHistoryLimit": 3,
                     "failedJobsHistoryLimit": 7,
                     # A verdict is an answer: FAILED is not tried again until the next night.
                     "jobTemplate": {"spec": {"backoffLimit": 0, "activeDeadlineSeconds": 4 * 3600,
                                              "template": {"metadata": {"labels": NIGHTLY}, "spec": pod}}}}}


def role(options, name, rules, cluster):
    kind = "ClusterRole" if cluster else "Role"
    made = meta(options, name, namespaced=not cluster)
    return [{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": made, "rules": rules},
            {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind + "Binding", "metadata": dict(made),
             "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
             "subjects": [{"kind": "ServiceAccount", "name": "assay-nightly", "namespace": options.namespace}]}]


def manifests(options):
    script = (FOLDER / "qualify-nodes").read_text(encoding="utf-8")
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": meta(options, options.namespace, namespaced=False)}
    yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta(options, "assay"), "data": {"assayd.toml": CONFIG}}
    yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta(options, "assay-nightly"),
           "data": {"qualify-nodes": script}}
    for account in ("assayd", "assay-nightly"):
        yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta(options, account)}
    # What the nightly job may do: find its pods; say a condition of nodes, and close them.
    yield from role(options, "assay-nightly", [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}], False)
    nodes = [{"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]}]
    if options.cordon:
        nodes.append({"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "patch"]})
    yield from role(options, f"{options.namespace}-nightly", nodes, True)
    if options.cert_manager:
        yield {"apiVersion": "cert-manager.io/v1", "kind": "Certificate", "metadata": meta(options, "assay-tls"),
               "spec": {"secretName": "assay-tls", "dnsNames": [host(options), host(options) + ".cluster.local"],
                        "usages": ["server auth", "client auth"],
                        "issuerRef": {"name": options.cert_manager, "kind": "ClusterIssuer"}}}
    yield daemon_set(options)
    yield {"apiVersion": "v1", "kind": "Service", "metadata": meta(options, "assayd", DAEMON),
           "spec": {"clusterIP": "None", "selector": DAEMON,
                    "ports": [{"name": "grpc", "port": 7576, "targetPort": "grpc"},
                              {"name": "metrics", "port": 9575, "targetPort": "metrics"}]}}
    if not options.no_service_monitor:
        secret = {"name": "assay-tls"}
        yield {"apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor", "metadata": meta(options, "assayd"),
               "spec": {"selector": {"matchLabels": DAEMON},
                        "endpoints": [{"port": "metrics", "scheme": "https", "interval": "30s", "tlsConfig": {
                            "serverName": host(options), "ca": {"secret": {**secret, "key": "ca.crt"}},
                            "cert": {"secret": {**secret, "key": "tls.crt"}},
                            "keySecret": {**secret, "key": "tls.key"}},
                            "relabelings": [{"sourceLabels": ["__meta_kubernetes_pod_node_name"],
                                             "targetLabel": "node"}]}]}}
    scrapers = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": options.monitoring_namespace}}}
    yield {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": meta(options, "assayd"),
           "spec": {"podSelector": {"matchLabels": DAEMON}, "policyTypes": ["Ingress"], "ingress": [
               {"from": [{"podSelector": {"matchLabels": LABELS}}], "ports": [{"protocol": "TCP", "port": "grpc"}]},
               {"from": [scrapers], "ports": [{"protocol": "TCP", "port": "metrics"}]}]}}
    yield cron_job(options)


class Dumper(yaml.SafeDumper):
    """Long texts as blocks; nothing by reference."""

    def ignore_aliases(self, data):
        return True


Dumper.add_representer(str, lambda dumper, text: dumper.represent_scalar(
    "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None))

if __name__ == "__main__":
    print("# Made by deploy/kubernetes/manifests.py.")
    yaml.dump_all(manifests(parse()), sys.stdout, Dumper=Dumper, sort_keys=False, explicit_start=True, width=110)
