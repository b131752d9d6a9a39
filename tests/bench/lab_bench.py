#!/usr/bin/env python3
"""Compares whole jobs over gRPC with what a user would run instead, in one run.

    lab_bench.py [--install DIR] [--json] [--rounds N]

Prints `name ours peer ratio` lines, in seconds. The ratio is peer over ours; more is better.
  lab_fp32_onednn   the kernel lab's fp32 cases on oneDNN, with FP64 references and bounds,
                    against the same cases in a PyTorch notebook
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "integration"))
import harness  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))


def ours(daemon):
    begin = time.perf_counter()
    run = daemon.run("run", "--suite-file", os.path.join(HERE, "lab_cases.toml"), "--format",
                     "json")
    seconds = time.perf_counter() - begin
    if run.code != 0:
        sys.exit(f"the lab's cases did not pass: {run}")
    return seconds


def peer():
    done = subprocess.run(["/usr/bin/python3", os.path.join(HERE, "torch_lab_peer.py")],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return None
    return sum(float(line.split()[2]) for line in done.stdout.splitlines())


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--install", default=harness.INSTALL)
    arguments.add_argument("--json", action="store_true")
    arguments.add_argument("--rounds", type=int, default=3)
    options = arguments.parse_args()
    harness.ASSAY = os.path.join(options.install, "bin", "assay")
    harness.ASSAYD = os.path.join(options.install, "bin", "assayd")
    with harness.Daemon() as daemon:
        ours(daemon)
        pairs = [(ours(daemon), peer()) for _ in range(options.rounds)]
    if any(p is None for _, p in pairs):
        print("lab_fp32_onednn skipped: python3-torch is not installed")
        return
    mine = statistics.median(o for o, _ in pairs)
    torch = statistics.median(p for _, p in pairs)
    ratio = statistics.median(p / o for o, p in pairs)
    if options.json:
        print(json.dumps({"name": "lab_fp32_onednn", "ours": mine, "peer": torch, "ratio": ratio}))
    else:
        print(f"lab_fp32_onednn {mine:12.3f} {torch:12.3f} {ratio:8.3f}")


if __name__ == "__main__":
    main()
