#!/usr/bin/env python3
"""A night of a simulated fleet: real daemons on loopback, some of them with a planted fault.

    tests/integration/fleet/simulation.py --runs 20 [--seed 1] [--nodes 32] [--spread 0.015]

Each run starts the daemons anew, with other nodes at fault, and prints who was accused of what.
Planted, each on a node of its own:

    flip         one bit of one element is wrong in every output of one kernel there
    slow         12 % below its own speed, which is drawn like the others'
    flapping     the worker dies by SIGSEGV in one kernel, again and again
    unreachable  nobody listens
    earlier      a daemon of an earlier version, with an earlier suite: no fault of a device

Times are a made-up device's (see planted_device.h): nodes' speeds spread by --spread, and cases
and samples of each by 1 %. Ends with 1 where a fault was not found or anybody else was accused.
ASSAY_INSTALL names the install tree, ASSAY_SIMULATION the folder of the simulated programs.
"""

import argparse
import concurrent.futures
import dataclasses
import os
import random
import shutil
import socket
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import harness  # noqa: E402

PROGRAMS = os.environ.get("ASSAY_SIMULATION", "build/dev/tests/integration/fleet")
EARLIER = "0.0.9"
SLOWNESS = 0.12

# Exact cases without a golden digest, so that the nodes' own majority must decide.
SUITE = """
name = "night"
title = "A night of the simulated fleet"
version = "{version}"

[[case]]
op = "gemm"
dtype = ["fp32", "bf16"]
provider = "builtin"
mode = "both"
shape = [{{ m = 48, n = 40, k = 32 }}, {{ m = 17, n = 33, k = 65 }}, {{ m = 64, n = 24, k = 40, trans_b = true }}]

[[case]]
op = "conv"
dtype = "fp32"
provider = "builtin"
mode = "both"
shape = {{ channels = 4, filters = 8, input = [10, 9], kernel = [3, 3] }}

[[case]]
op = "attention"
dtype = "fp32"
provider = "builtin"
shape = {{ heads = 2, seq = 24, dim = 16 }}

[[case]]
op = "softmax"
dtype = ["fp32", "bf16"]
provider = "builtin"
mode = "both"
shape = [{{ rows = 16, cols = 100 }}, {{ rows = 5, cols = 260 }}]

[[case]]
op = "layer_norm"
dtype = "fp32"
provider = "builtin"
shape = {{ rows = 16, cols = 100 }}

[[case]]
op = "copy"
dtype = ["fp32", "bf16"]
provider = "builtin"
shape = {{ count = 4096 }}
"""

# The level that `assay qualify quick` runs, short enough for all nodes on two cores.
LEVEL = """
name = "quick"
title = "Qualification level 1: seconds"
version = "1"
budget = 600

[[case]]
op = "gemm"
dtype = ["fp32", "bf16"]
provider = "builtin"
shape = { m = 48, n = 40, k = 32 }

[[case]]
op = "conv"
dtype = "fp32"
provider = "builtin"
shape = { channels = 4, filters = 8, input = [10, 9], kernel = [3, 3] }

[[case]]
op = "copy"
dtype = "bf16"
provider = "builtin"
shape = { count = 4096 }

[[case]]
op = "softmax"
dtype = "fp32"
provider = "builtin"
shape = { rows = 16, cols = 100 }
"""

# Kernels of which an output may have a wrong bit, and bits of a mantissa that any value of
# theirs has.
FLIPPED = [("gemm", "fp32", 23), ("gemm", "bf16", 7), ("conv", "fp32", 23), ("copy", "bf16", 7)]


@dataclasses.dataclass
class Plan:
    """Who is what in a night."""

    seed: int
    nodes: int
    spread: float

    def __post_init__(self):
        rng = random.Random(self.seed)
        (self.flip, self.slow, self.flapping, self.unreachable,
         self.earlier) = rng.sample(range(self.nodes), 5)
        self.speeds = [max(0.7, rng.gauss(1, self.spread)) for _ in range(self.nodes)]
        self.speeds[self.slow] *= 1 - SLOWNESS
        op, dtype, bits = rng.choice(FLIPPED)
        self.flipped = f"{op}:{dtype}:{rng.randrange(4096)}:{rng.randrange(bits)}"

    def faults(self, node):
        """What the worker of a node is told."""
        words = [f"seed={self.seed * 1000 + node}", f"speed={self.speeds[node]:.6f}"]
        if node == self.flip:
            words.append(f"flip={self.flipped}")
        if node == self.flapping:
            words.append("crash=softmax:fp32")
        return " ".join(words)


class Fleet:
    """The daemons of a plan, and an address where there is none."""

    def __init__(self, plan):
        self.plan = plan
        self.folder = tempfile.mkdtemp(prefix="assay-night-")
        for version in ("1", "2"):
            suites = os.path.join(self.folder, f"suites-{version}")
            os.mkdir(suites)
            for name, text in (("night", SUITE.format(version=version)), ("quick", LEVEL)):
                with open(os.path.join(suites, name + ".toml"), "w", encoding="utf-8") as file:
                    file.write(text)
        # Bound and not listened at: refused, and nobody else's meanwhile.
        self.nobody = [socket.socket() for _ in range(2)]
        for one in self.nobody:
            one.bind(("127.0.0.1", 0))
        gone = ["127.0.0.1:%d" % one.getsockname()[1] for one in self.nobody]
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            self.daemons = list(pool.map(self._start, range(plan.nodes)))
        self.targets = [d.grpc if d else gone[0] for d in self.daemons]
        self.metrics = [d.metrics if d else gone[1] for d in self.daemons]

    def _start(self, node):
        if node == self.plan.unreachable:
            return None
        earlier = node == self.plan.earlier
        return harness.Daemon(
            program=os.path.join(PROGRAMS, "earlier-assayd") if earlier else None,
            flags=["--worker", os.path.join(PROGRAMS, "simulated-worker"), "--devices", "cpu:0",
                   "--suites-dir", os.path.join(self.folder, "suites-1" if earlier else "suites-2"),
                   "--arena-bytes", "64MiB", "--store-sync", "normal", "--log-level", "warn"],
            environment={"ASSAY_FAKE_NODE": self.plan.faults(node), "OMP_NUM_THREADS": "1"})

    def run(self, *arguments):
        """The real client, about all nodes."""
        return harness.run_client(*arguments, "--target", ",".join(self.targets), timeout=600)

    def night(self, *more):
        return self.run("fleet", "run", "--suite", "night", "--seed", str(self.plan.seed),
                        "--format", "json", *more)

    def stop(self):
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda daemon: daemon and daemon.stop(), self.daemons))
        for one in self.nobody:
            one.close()
        shutil.rmtree(self.folder)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


@dataclasses.dataclass
class Findings:
    """What a report says, held against the plan."""

    found: list
    missed: list
    falsely: list


def judge(fleet, report):
    plan = fleet.plan
    accused = {one["target"]: one["charge"] for one in report["accused"]}
    earlier = fleet.targets[plan.earlier]
    found, missed = [], []

    def expect(name, holds):
        (found if holds else missed).append(name)

    planted = {plan.flip: "SUSPECT", plan.slow: "SLOW", plan.flapping: "FAILED"}
    for name, node in (("flip", plan.flip), ("slow", plan.slow), ("flapping", plan.flapping)):
        expect(name, accused.get(fleet.targets[node]) == planted[node])
    expect("unreachable", [one["target"] for one in report["missing"]]
           == [fleet.targets[plan.unreachable]])
    lines = [line for line in report["differences"] if earlier in line]
    expect("earlier", any(line.startswith("assayd: ") and EARLIER in line for line in lines)
           and any(line.startswith("suite: ") and "night 1" in line for line in lines))
    allowed = {fleet.targets[node] for node in planted}
    falsely = [target for target in accused if target not in allowed]
    falsely += [one["target"] for one in report["missing"]
                if one["target"] != fleet.targets[plan.unreachable]]
    falsely += report["everywhere"] + report["undecided"]
    return Findings(found, missed, falsely)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1, help="of the first run")
    parser.add_argument("--nodes", type=int, default=32)
    parser.add_argument("--spread", type=float, default=0.015,
                        help="standard deviation of the nodes' speeds")
    parser.add_argument("--keep", help="folder for each run's report")
    options = parser.parse_args()
    totals = {"found": 0, "missed": 0, "falsely": 0}
    for seed in range(options.seed, options.seed + options.runs):
        begin = time.monotonic()
        with Fleet(Plan(seed, options.nodes, options.spread)) as fleet:
            run = fleet.night()
            report = run.json()
            findings = judge(fleet, report)
            flipped = fleet.plan.flipped
        if options.keep:
            os.makedirs(options.keep, exist_ok=True)
            with open(os.path.join(options.keep, f"{seed}.json"), "w", encoding="utf-8") as file:
                file.write(run.out)
        for name in totals:
            totals[name] += len(getattr(findings, name))
        print(f"run {seed}: flipped {flipped}, {report['results']} results, found "
              f"{len(findings.found)} of 5, missed {findings.missed}, falsely accused "
              f"{findings.falsely}, {time.monotonic() - begin:.0f} s", flush=True)
    print(f"{options.runs} runs of {options.nodes} nodes, spread {100 * options.spread:g} %: "
          f"{totals['found']} of {5 * options.runs} planted found, {totals['falsely']} falsely accused")
    return 1 if totals["missed"] or totals["falsely"] else 0


if __name__ == "__main__":
    sys.exit(main())
