"""Workers die a thousand times in one job, in every way. The daemon does not, no result is lost, and
every right kernel between the deaths passes. ASSAY_TEST_DEATHS changes the number."""

import json
import os
import random
import tempfile
import unittest
from datetime import datetime

import harness

DEATHS = int(os.environ.get("ASSAY_TEST_DEATHS", "1000"))
# How many of 50 deaths are of a kind, and the finding that tells of it. A hang takes its deadline,
# so there are few.
KINDS = {"crash": (20, "crash"), "exit": (15, "crash"), "abort": (8, "crash"), "garbage": (4, "crash"),
         "hang": (2, "timeout"), "alloc": (1, "memory")}
HANG_SECONDS = 0.5
RECOVERY_SECONDS = 0.5  # what 99 of 100 must stay below
MACHINE_IS_BUSY = 2.0   # processes that wait for each core, above which times say nothing


def suite():
    """The text of a suite: deaths in a random order that does not change, a right kernel after each."""
    kinds = [kind for kind, (share, _) in KINDS.items() for _ in range(share)]
    order = (kinds * (DEATHS // len(kinds) + 1))[:DEATHS]
    random.Random(1).shuffle(order)
    cases = []
    for i, kind in enumerate(order):
        deadline = f"deadline = {HANG_SECONDS}\n" if kind == "hang" else ""
        for name, provider, limit in ((f"{i} {kind}", f"planted/{kind}", deadline), (f"{i} right", "builtin", "")):
            cases.append(f'[[case]]\nname = "{name}"\nop = "gemm"\nmode = "validate"\ndtype = "fp32"\n'
                         f'provider = "{provider}"\nshape = {{ m = 16, n = 16, k = 16 }}\n{limit}')
    return 'name = "deaths"\ntitle = "deaths"\nversion = "1"\n\n' + "\n".join(cases)


def seconds(test):
    return datetime.fromisoformat(test["start_time"].replace("Z", "+00:00")).timestamp()


class Deaths(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = harness.Daemon()
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write(suite())
            file.flush()
            cls.before = cls.info()
            cls.run_result = cls.daemon.run("run", "--suite-file", file.name, "--format", "json", timeout=1500)
        cls.load = os.getloadavg()[0]
        cls.tests = cls.run_result.json()["tests"]

    @classmethod
    def tearDownClass(cls):
        cls.daemon.stop()

    @classmethod
    def info(cls):
        run = cls.daemon.run("version", "--format", "json")
        return run.json()["daemons"][0]["start_time"]

    def test_the_daemon_lives_and_is_well(self):
        self.assertIsNone(self.daemon.process.poll())
        self.assertEqual(self.info(), self.before)
        devices = self.daemon.run("devices", "--format", "json").json()["devices"]
        cpu = next(d for d in devices if d["id"] == "cpu:0")
        self.assertEqual(cpu["state"].lower().removeprefix("device_state_"), "ready", cpu)

    def test_every_death_is_reported_by_its_kind(self):
        self.assertEqual(len(self.tests), 2 * DEATHS)
        wrong = []
        for test in self.tests[::2]:
            kind = test["provider"].removeprefix("planted/")
            if (test["verdict"], test.get("reason")) != ("ERROR", KINDS[kind][1]):
                wrong.append((test["name"], test["verdict"], test.get("findings")))
        self.assertEqual(wrong, [])

    def test_every_right_kernel_passes(self):
        wrong = [(t["name"], t["verdict"], t.get("findings")) for t in self.tests[1::2]
                 if t["verdict"] != "PASSED"]
        self.assertEqual(wrong, [])

    def test_no_result_is_lost(self):
        job = self.run_result.json()["job"]
        lines = self.daemon.run("report", job, "--format", "jsonl").out.splitlines()
        self.assertEqual([json.loads(line)["name"] for line in lines], [t["name"] for t in self.tests])

    def test_nothing_is_left_behind(self):
        pid = self.daemon.process.pid
        children = []
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:
                children += file.read().split()
        self.assertLessEqual(len(children), 2, "a worker, and what samples telemetry")
        if os.geteuid() == 0:  # others may not look into the daemon
            self.assertLess(len(os.listdir(f"/proc/{pid}/fd")), 100)

    def test_the_device_is_back_soon(self):
        """From the end of the case that died to the begin of the next."""
        times = sorted(seconds(after) - seconds(died) - died["duration_seconds"]
                       for died, after in zip(self.tests[::2], self.tests[1::2]))
        p50, p99 = times[len(times) // 2], times[int(len(times) * 0.99)]
        print(f"\n{DEATHS} deaths: the device is back after {p50 * 1e3:.0f} ms (median), "
              f"{p99 * 1e3:.0f} ms (99 of 100), {times[-1] * 1e3:.0f} ms (longest)")
        if p99 >= RECOVERY_SECONDS and self.load > MACHINE_IS_BUSY * os.cpu_count():
            self.skipTest(f"load {self.load:.1f}: this machine is too busy to time anything")
        self.assertLess(p99, RECOVERY_SECONDS)


if __name__ == "__main__":
    harness.main()
