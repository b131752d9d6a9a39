"""A server that answers what qualify-nodes asks as Kubernetes does."""

import copy
import http.server
import json
import threading
import urllib.parse

class FakeKubernetes(http.server.ThreadingHTTPServer):
    """Pods in pages; nodes with resource versions; patches merged as Kubernetes does."""

    def __init__(self, pods, nodes, page=2, conflicts=0, refuse=lambda method, path: None):
        self.nodes = {n["metadata"]["name"]: copy.deepcopy(n) for n in nodes}
        self.asked, self.seen, self.conflicts = [], [], conflicts
        fake = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self, code, document):
                text = json.dumps(document).encode()
                self.send_response(code)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def handled(self, method):
                fake.asked.append((method, self.path))
                fake.seen.append(self.headers["Authorization"])
                code = refuse(method, self.path)
                if code:
                    self.answer(code, {"kind": "Status", "message": f"{code} by the test"})
                return bool(code)

            def do_GET(self):  # noqa: N802
                if self.handled("GET"):
                    return None
                path, _, query = self.path.partition("?")
                if path == "/api/v1/namespaces/assay/pods":
                    words = dict(urllib.parse.parse_qsl(query))
                    start = int(words.get("continue") or 0)
                    labels = dict(pair.split("=") for pair in words["labelSelector"].split(","))
                    found = [p for p in pods if labels.items() <= p["metadata"]["labels"].items()]
                    rest = str(start + page) if start + page < len(found) else ""
                    return self.answer(200, {"metadata": {"continue": rest}, "items": found[start:start + page]})
                node = fake.nodes.get(path.removeprefix("/api/v1/nodes/"))
                return self.answer(200, node) if node else self.answer(404, {"message": "no such node"})

            def do_PATCH(self):  # noqa: N802
                patch = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if self.handled("PATCH"):
                    return None
                name, _, status = self.path.removeprefix("/api/v1/nodes/").partition("/")
                node, kind = fake.nodes[name], self.headers["Content-Type"]
                if status:
                    assert kind == "application/strategic-merge-patch+json", kind
                    conditions = node["status"].setdefault("conditions", [])
                    for condition in patch["status"]["conditions"]:
                        conditions[:] = [c for c in conditions if c["type"] != condition["type"]] + [condition]
                else:
                    assert kind == "application/merge-patch+json", kind
                    version = node["metadata"]["resourceVersion"]
                    if fake.conflicts:  # somebody else changes the node first
                        fake.conflicts -= 1
                        node["metadata"]["resourceVersion"] = version = str(int(version) + 1)
                        node["spec"].setdefault("taints", []).append({"key": f"theirs-{version}", "effect": "NoExecute"})
                    if patch["metadata"]["resourceVersion"] != version:
                        return self.answer(409, {"message": "the object has been modified"})
                    for key, value in patch["metadata"]["annotations"].items():
                        node["metadata"]["annotations"][key] = value
                        if value is None:
                            del node["metadata"]["annotations"][key]
                    node["spec"]["taints"] = patch["spec"]["taints"]
                node["metadata"]["resourceVersion"] = str(int(node["metadata"]["resourceVersion"]) + 1)
                return self.answer(200, node)

            def log_message(self, *_):
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()

    def taints(self, node):
        return [f"{t['key']}={t.get('value', '')}:{t['effect']}" for t in self.nodes[node]["spec"].get("taints", [])]

    def conditions(self):
        found = {}
        for name, node in self.nodes.items():
            for c in node["status"].get("conditions", []):
                if c["type"] == "AssayQualified":
                    found[name] = c
        return found


LABELS = {"app.kubernetes.io/instance": "assay", "app.kubernetes.io/component": "assayd"}
MINE = {"key": "assay/unfit", "value": "A101", "effect": "NoSchedule"}


def pod(node, address, phase="Running", **metadata):
    return {"metadata": {"labels": LABELS, **metadata}, "spec": {"nodeName": node} if node else {},
            "status": {"phase": phase, **({"podIP": address} if address else {})}}


def waiting_pod(node):
    """Of a DaemonSet, for a node that has no room for it."""
    fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    waiting = pod(None, None, "Pending")
    waiting["spec"]["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchFields": fields}]}}}
    return waiting


def node(name, taints=(), unfit=None, conditions=()):
    return {"metadata": {"name": name, "resourceVersion": "1", "annotations": {"assay/unfit": unfit} if unfit else {}},
            "spec": {"taints": list(taints)} if taints else {}, "status": {"conditions": list(conditions)}}


def verdict(address, device, word, code):
    return {"target": f"{address}:7576", "device": device, "verdict": word, "code": code}
