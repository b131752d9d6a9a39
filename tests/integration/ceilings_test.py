"""Ceilings are measured once for as long as the machine runs: not again by a new worker, nor
by a new daemon; and what they do is what they did. What is noisy is measured again when it is
asked for."""

import os
import tempfile
import unittest

import harness


def quiet(measured):
    """Those that are not measured again because their runs deviated."""
    return [c for c in measured if c["noise"] <= 0.1]


def ceilings(daemon):
    run = daemon.run("devices", "--ceilings", "--format", "json")
    assert run.code == 0, run
    return run.json()["devices"][0]


class Ceilings(unittest.TestCase):
    def test_measured_once_by_kind_and_kept(self):
        with tempfile.TemporaryDirectory() as state:
            with harness.Daemon(state=state) as daemon:
                device = ceilings(daemon)
                first = device["ceilings"]
                self.assertEqual([c["kind"] for c in first[:3]], ["copy", "triad", "read"])
                for ceiling in first[:3]:
                    self.assertGreater(ceiling["bytes_per_second"], 1e8)
                    self.assertNotIn("dtype", ceiling)
                    self.assertNotIn("data_sheet_per_second", ceiling)
                fp32 = [c for c in first if c.get("dtype") == "fp32"]
                self.assertEqual([c["kind"] for c in fp32], ["fma"])
                self.assertEqual(device["leased_bytes"], 0)
                table = daemon.run("devices", "--ceilings").out
                self.assertRegex(table, r"cpu:0 +copy +– +[0-9.]+ [MGT]B/s +[0-9.]+ % +– +–")
                first = ceilings(daemon)["ceilings"]
                fp32 = [c for c in first if c.get("dtype") == "fp32"]
                # A new worker: a kernel that crashes ends the one that measured.
                crash = daemon.run("run", "gemm", "--m", "16", "--n", "16", "--k", "16",
                                   "--dtype", "fp32", "--provider", "planted/crash")
                self.assertEqual(crash.code, 1, crash)
                timed = daemon.run("run", "gemm", "--m", "256", "--n", "256", "--k", "256",
                                   "--dtype", "fp32", "--provider", "builtin", "--mode",
                                   "benchmark", "--format", "json").json()["tests"][0]["bench"]
                self.assertEqual(timed["ceiling_flops_per_second"], fp32[0]["flops_per_second"])
                self.assertEqual(timed["ceiling_bytes_per_second"],
                                 first[0]["bytes_per_second"])
                # What a kernel was faster than is measured again, too.
                known = daemon.run("devices", "--format", "json").json()["devices"][0]["ceilings"]
                doubted = {(c["kind"], c.get("dtype")) for c in known if c.get("suspect")}
            with harness.Daemon(state=state) as daemon:
                again = ceilings(daemon)["ceilings"]
                for ceiling in quiet(first):
                    if (ceiling["kind"], ceiling.get("dtype")) not in doubted:
                        self.assertIn(ceiling, again)
            # Of another start of the machine they say nothing.
            path = os.path.join(state, "ceilings-cpu:0")
            with open(path, encoding="utf-8") as file:
                lines = file.read().splitlines()
            with open(path, "w", encoding="utf-8") as file:
                file.write("\n".join([lines[0].replace("|", "|another-", 1)] + lines[1:]) + "\n")
            with harness.Daemon(state=state) as daemon:
                again = ceilings(daemon)["ceilings"]
                self.assertEqual([c["kind"] for c in again], [c["kind"] for c in first])
                self.assertNotEqual(again, first)


if __name__ == "__main__":
    harness.main()
