"""A night of 32 nodes, of which some are at fault: the report, the status, the qualification and a
real Prometheus find each of them, and blame nobody else. simulation.py says what is planted."""

import os
import shutil
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import harness  # noqa: E402
import prometheus_test  # noqa: E402
import simulation  # noqa: E402

NODES = 32


class SimulatedFleet(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        seed = int(os.environ.get("ASSAY_SIMULATION_SEED", "20261122"))
        cls.plan = simulation.Plan(seed, NODES, 0.015)
        cls.fleet = simulation.Fleet(cls.plan)
        cls.addClassCleanup(cls.fleet.stop)
        cls.prometheus = prometheus_test.Prometheus(*cls.fleet.metrics)
        cls.addClassCleanup(cls.prometheus.stop)
        # A counter that moves before the first scrape moves unseen.
        harness.wait_until(lambda: len(cls.series("assay_build_info")) == NODES - 1, 60,
                           "every daemon has been scraped")
        cls.reports = os.path.join(cls.fleet.folder, "reports")
        cls.run_ = cls.fleet.night("--reports", cls.reports)
        cls.report = cls.run_.json()

    @classmethod
    def series(cls, expression):
        """Value and labels of each series, by the node's number."""
        found = {}
        for one in cls.prometheus.instant(expression):
            found[cls.fleet.metrics.index(one["metric"]["instance"])] = one
        return found

    def await_nodes(self, expression, nodes):
        """Prometheus says it of these nodes, and of no other once all have been scraped: a
        busy machine is late with some."""
        said = set()

        def settled():
            said.clear()
            said.update(self.series(expression))
            return said == nodes
        try:
            harness.wait_until(settled, 60, expression)
        except AssertionError:
            self.assertEqual(said, nodes, expression)
            raise

    def accused(self, node):
        (one,) = [a for a in self.report["accused"] if a["target"] == self.fleet.targets[node]]
        return one

    def test_each_fault_is_found_and_nobody_else_accused(self):
        findings = simulation.judge(self.fleet, self.report)
        self.assertEqual((findings.missed, findings.falsely), ([], []), self.run_)
        self.assertEqual(len(findings.found), 5)
        self.assertEqual(self.run_.code, 1)
        self.assertEqual(self.report["nodes"], NODES - 1)

    def test_the_wrong_bit_is_voted_out_and_seen_again_there_and_not_on_a_sibling(self):
        one = self.accused(self.plan.flip)
        evidence = one["evidence"][0]
        self.assertEqual(evidence["decided_by"], "devices with this provider")
        # All but this one, the one that is not there and the one of an earlier version.
        self.assertEqual((evidence["devices_that_agree"], evidence["devices_that_differ"]),
                         (NODES - 3, 1))
        self.assertNotEqual(evidence["digest"], evidence["expected_digest"])
        op, dtype = self.plan.flipped.split(":")[:2]
        for piece in one["evidence"]:
            self.assertTrue(piece["case"].startswith(op + " "), piece)
            self.assertIn(dtype, piece["case"])
        there = [rerun for rerun in one["reruns"] if not rerun["sibling"]]
        siblings = [rerun for rerun in one["reruns"] if rerun["sibling"]]
        self.assertTrue(there and siblings)
        self.assertEqual({rerun["outcome"] for rerun in there}, {"again"})
        self.assertEqual({rerun["outcome"] for rerun in siblings}, {"right"})
        self.assertIn("suspect this card", one["reads_as"])

    def test_the_slow_node_is_slow_on_the_whole(self):
        one = self.accused(self.plan.slow)
        self.assertEqual({piece["charge"] for piece in one["evidence"]}, {"SLOW"})
        whole = one["evidence"][0]
        self.assertGreaterEqual(whole["cases"], 8)
        self.assertEqual(whole["peers"], NODES - 2)
        self.assertAlmostEqual(whole["below_median"], simulation.SLOWNESS, delta=0.06)

    def test_the_flapping_worker_is_named_with_how_it_died(self):
        one = self.accused(self.plan.flapping)
        self.assertEqual({piece["reason"] for piece in one["evidence"]}, {"crash"})
        self.assertIn("SIGSEGV", one["evidence"][0]["text"])
        self.assertIn(f"{NODES - 2} of {NODES - 1} devices that ran it did not fail",
                      one["evidence"][0]["text"])
        self.await_nodes('assay_worker_restarts_total{reason="crash"} > 2', {self.plan.flapping})

    def test_prometheus_sees_the_same(self):
        plan = self.plan
        self.await_nodes("up == 0", {plan.unreachable})
        self.await_nodes(f'assay_build_info{{version="{simulation.EARLIER}"}}', {plan.earlier})
        self.await_nodes('sum by (instance) (assay_cases_total{verdict="ERROR"}) > 0', {plan.flapping})
        self.await_nodes('sum by (instance) (ALERTS{alertname="AssayCasesFailing"})',
                         {plan.flapping, plan.flip})
        self.await_nodes('sum by (instance) (ALERTS{alertname="AssayWorkerFlapping"})', {plan.flapping})
        self.await_nodes('sum by (instance) (ALERTS{alertname="AssayDaemonDown"})', {plan.unreachable})
        self.await_nodes('sum by (instance) (ALERTS)', {plan.flip, plan.flapping, plan.unreachable})

    def test_the_status_names_version_and_who_is_missing(self):
        run = self.fleet.run("fleet", "status", "--format", "json")
        self.assertEqual(run.code, 4, run)
        status = run.json()
        self.assertEqual(len(status["devices"]), NODES - 1)
        versions = {device["target"]: device["version"] for device in status["devices"]}
        self.assertEqual([target for target, version in versions.items()
                          if version == simulation.EARLIER], [self.fleet.targets[self.plan.earlier]])
        self.assertEqual([node["target"] for node in status["missing"]],
                         [self.fleet.targets[self.plan.unreachable]])

    def test_stored_reports_tell_the_same_without_the_daemons(self):
        files = [os.path.join(self.reports, name) for name in sorted(os.listdir(self.reports))]
        self.assertEqual(len(files), NODES - 1)
        run = harness.run_client("fleet", "compare", *files, "--format", "json")
        self.assertEqual(run.code, 1, run)
        self.assertEqual({(one["target"], one["charge"]) for one in run.json()["accused"]},
                         {(one["target"], one["charge"]) for one in self.report["accused"]})

    def test_the_qualification_fails_who_is_wrong_and_no_other(self):
        run = self.fleet.run("qualify", "quick", "--no-selftest", "--format", "json", "--seed",
                             str(self.plan.seed))
        self.assertEqual(run.code, 1, run)
        document = run.json()
        self.assertEqual([m["target"] for m in document["missing"]],
                         [self.fleet.targets[self.plan.unreachable]])
        verdicts = {device["target"]: device["verdict"] for device in document["devices"]}
        self.assertEqual(len(verdicts), NODES - 1)
        failed = {target for target, verdict in verdicts.items() if verdict == "FAILED"}
        self.assertEqual(failed, {self.fleet.targets[node]
                                  for node in (self.plan.flapping, self.plan.flip)}, run)
        self.assertEqual(set(verdicts.values()), {"FAILED", "QUALIFIED"}, run)


if __name__ == "__main__":
    if not shutil.which("prometheus"):
        print("Skipped: no prometheus here (deploy/setup test)")
        sys.exit(77)
    harness.main()
