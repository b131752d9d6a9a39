"""The fleet: real daemons on loopback, one that is not there, one whose report is altered."""

import concurrent.futures
import json
import os
import shutil
import socket
import tempfile
import unittest

import harness

NODES = 5
SUITE = """
name = "few"
title = "A few exact cases"
version = "1"
[[case]]
op = "gemm"
dtype = ["fp32", "bf16"]
provider = "builtin"
shape = [{ m = 48, n = 40, k = 32 }, { m = 17, n = 33, k = 65 }]
[[case]]
op = "copy"
dtype = "fp32"
provider = "builtin"
shape = { count = 4096 }
"""


class Fleet(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="assay-fleet-")
        with concurrent.futures.ThreadPoolExecutor() as pool:
            cls.daemons = list(pool.map(lambda _: harness.Daemon(), range(NODES)))
        # Bound and not listened at: refused, and nobody else's meanwhile.
        cls.nobody = socket.socket()
        cls.nobody.bind(("127.0.0.1", 0))
        cls.gone = "127.0.0.1:%d" % cls.nobody.getsockname()[1]
        cls.suite = cls.path("few.toml")
        with open(cls.suite, "w", encoding="utf-8") as file:
            file.write(SUITE)
        cls.reports = []
        for i, daemon in enumerate(cls.daemons):
            cls.reports.append(cls.path(f"node-{i}.json"))
            run = daemon.run("run", "--suite-file", cls.suite, "--output", cls.reports[-1])
            assert run.code == 0, run

    @classmethod
    def tearDownClass(cls):
        for daemon in cls.daemons:
            daemon.stop()
        cls.nobody.close()
        shutil.rmtree(cls.folder)

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder, name)

    def targets(self):
        return ",".join(daemon.grpc for daemon in self.daemons)

    def altered(self, node, alter):
        """The reports, with one node's changed."""
        with open(self.reports[node], encoding="utf-8") as file:
            report = json.load(file)
        alter(report)
        path = self.path("altered.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(report, file)
        return [*self.reports[:node], path, *self.reports[node + 1:]]

    def test_healthy_nodes_agree(self):
        run = harness.run_client("fleet", "run", "--suite-file", self.suite, self.targets(),
                                 "--format", "json")
        self.assertEqual(run.code, 0, run)
        report = run.json()
        self.assertEqual(report["schema"], "assay.fleet/v1")
        self.assertEqual(report["nodes"], NODES)
        self.assertEqual(report["accused"], [])
        # Four exact cases of four products, and the copy's output.
        self.assertEqual(report["compared"]["digests"], 17)
        self.assertEqual(report["compared"]["digest_votes"], 17 * NODES)
        self.assertEqual({device["target"] for device in report["devices"]},
                         {daemon.grpc for daemon in self.daemons})

    def test_a_node_that_is_not_there_is_listed_and_the_rest_compared(self):
        run = harness.run_client("fleet", "run", "--suite-file", self.suite, self.targets(), self.gone)
        self.assertEqual(run.code, 4, run)
        self.assertIn(f"MISSING  {self.gone}", run.out)
        self.assertIn("connection refused", run.out)
        self.assertIn(f"{NODES} nodes, {NODES} devices", run.out)
        self.assertIn("0 devices accused, 5 not, 1 target missing", run.out)

    def test_one_flipped_bit_in_a_stored_report_is_found(self):
        def flip(report):
            probe = next(p for t in report["tests"] for p in t.get("probes", []) if p.get("digest"))
            probe["digest"] = format(int(probe["digest"], 16) ^ (1 << 77), "032x")

        self.assertEqual(harness.run_client("fleet", "compare", *self.reports).code, 0)
        run = harness.run_client("fleet", "compare", *self.altered(3, flip), "--format", "json")
        self.assertEqual(run.code, 1, run)
        accused = run.json()["accused"]
        self.assertEqual([(one["target"], one["charge"]) for one in accused],
                         [(self.daemons[3].grpc, "SUSPECT")])
        self.assertEqual(accused[0]["evidence"][0]["devices_that_agree"], NODES - 1)

    def test_a_job_that_failed_by_what_accuses_nobody_is_listed(self):
        def late(report):
            report["verdict"] = "FAILED"
            report["tests"][0].update(verdict="ERROR", reason="timeout", phase="kernel")

        run = harness.run_client("fleet", "compare", *self.altered(3, late), "--format", "json")
        self.assertEqual(run.code, 1, run)
        self.assertEqual(run.json()["accused"], [])
        (one,) = run.json()["job_findings"]
        self.assertEqual((one["target"], one["verdict"]), (self.daemons[3].grpc, "FAILED"))
        self.assertIn("1 ERROR timeout", one["message"])

    def test_a_slow_report_is_found(self):
        def timed(report, speed):
            for test in report["tests"]:
                test["bench"] = {"median_seconds": 1e-3 / speed, "p10_seconds": 0.99e-3 / speed,
                                 "p90_seconds": 1.01e-3 / speed, "samples": 30, "noisy": False,
                                 "flops_per_second": 1e9 * speed}

        files = []
        for i in range(NODES):
            path = self.altered(i, lambda report, i=i: timed(report, 0.75 if i == 2 else 1 + i / 500))[i]
            files.append(self.path(f"timed-{i}.json"))
            os.replace(path, files[-1])
        run = harness.run_client("fleet", "compare", *files)
        self.assertEqual(run.code, 1, run)
        self.assertIn(f"SLOW     {self.daemons[2].grpc}", run.out)
        self.assertIn("1 device accused, 4 not", run.out)

    def test_bad_files_are_named_and_the_rest_goes_on(self):
        broken, future = self.path("broken.json"), self.path("future.json")
        with open(self.reports[0], "rb") as file:
            whole = file.read()
        with open(broken, "wb") as file:
            file.write(whole[:len(whole) // 2])
        with open(future, "wb") as file:
            file.write(whole.replace(b"assay.report/v1", b"assay.report/v7"))
        run = harness.run_client("fleet", "compare", broken, *self.reports, future, self.reports[1])
        self.assertEqual(run.code, 4, run)
        self.assertIn(f"{broken}: is cut off", run.out)
        self.assertIn('has the schema "assay.report/v7"', run.out)
        self.assertIn("counted once", run.out)
        none = harness.run_client("fleet", "compare", broken, future)
        self.assertEqual(none.code, 2, none)
        self.assertEqual(none.out, "")
        alone = harness.run_client("fleet", "compare", self.reports[0])
        self.assertEqual(alone.code, 4, alone)
        self.assertIn("nothing could be compared", alone.out)

    def test_a_node_that_dies_half_way_is_reported_with_what_it_had(self):
        victim = harness.Daemon()
        long = self.path("long.toml")
        with open(long, "w", encoding="utf-8") as file:
            file.write(SUITE + "\n[[case]]\nop = \"gemm\"\ndtype = \"fp64\"\nprovider = \"builtin\"\n"
                       "pattern = [\"normal:1\", \"normal:2\", \"normal:3\", \"normal:4\"]\n"
                       "shape = { m = 1500, n = 1500, k = 1500 }\n")
        try:
            with concurrent.futures.ThreadPoolExecutor() as pool:
                running = pool.submit(harness.run_client, "fleet", "run", "--suite-file", long,
                                      victim.grpc, self.daemons[0].grpc, "--reconnect", "1s",
                                      "--format", "json")
                harness.wait_until(lambda: (victim.metric("assay_cases_total", verdict="PASSED") or 0) >= 6,
                                   60, "the short cases have passed, and one that takes long")
                victim.kill()
                run = running.result()
        finally:
            if victim.process.poll() is None:
                victim.kill()
        self.assertEqual(run.code, 4, run)
        missing = run.json()["missing"]
        self.assertEqual([node["target"] for node in missing], [victim.grpc])
        self.assertGreaterEqual(missing[0]["results"], 3)
        self.assertGreaterEqual(run.json()["compared"]["digests"], 1)

    def test_status_is_a_line_a_device(self):
        run = harness.run_client("fleet", "status", self.targets(), self.gone, "--format", "json")
        self.assertEqual(run.code, 4, run)
        status = run.json()
        self.assertEqual([device["target"] for device in status["devices"]],
                         [daemon.grpc for daemon in self.daemons])
        for device in status["devices"]:
            self.assertEqual(device["device"], "cpu:0")
            self.assertEqual(device["last_verdict"], "PASSED")
        self.assertEqual([node["target"] for node in status["missing"]], [self.gone])

    def test_the_page_holds_the_document_and_the_map(self):
        page = self.path("fleet.html")
        run = harness.run_client("fleet", "compare", *self.reports, "--output", page)
        self.assertEqual(run.code, 0, run)
        with open(page, encoding="utf-8") as file:
            text = file.read()
        document = text.split('<script type="application/json" id="fleet">')[1].split("</script>")[0]
        self.assertEqual(json.loads(document)["schema"], "assay.fleet/v1")
        rows = text.split('<section id="map"')[1].split("</table>")[0]
        for daemon in self.daemons:
            self.assertIn(f'<th scope="row">{daemon.grpc} cpu:0</th>', rows)
        # gemm fp32, gemm bf16 and copy fp32 on each node.
        self.assertEqual(rows.count("<td "), 3 * NODES)
        for fetched in ("http://", "https://", " src=", "@import"):
            self.assertNotIn(fetched, text.split('id="fleet">')[0])


if __name__ == "__main__":
    harness.main()
