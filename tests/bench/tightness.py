#!/usr/bin/env python3
"""Measures how tight the error bound is: the median over cases of the largest error/bound of
correct 16-bit GEMMs. It must lie in [0.3, 1]. Looser bounds would let defects through.

  tests/bench/tightness.py [REPORT.json …] [--json]

Reads reports (`assay run --suite kernel-lab --format json`). Without a report it runs the
suite's 16-bit GEMMs. Then it runs shapes and seeds of its own. It prints `name ours target
ratio` lines: the median, the least allowed median, and their ratio. If a median is outside,
the exit code is 1.
"""

import argparse
import json
import os
import statistics
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "integration"))
os.environ.setdefault("ASSAY_INSTALL", os.path.join(HERE, "..", "..", "build", "dev", "install"))

import harness  # noqa: E402  (its install tree is chosen above)

LEAST, MOST = 0.3, 1.0
LAB = ("run", "--suite", "kernel-lab", "--op", "gemm", "--dtype", "fp16,bf16")
SWEEP = ("run", "gemm", "--m", "64,96,256", "--n", "65,128", "--k", "64,257,1024,4096",
         "--dtype", "fp16,bf16", "--provider", "all", "--seed", "1,2,3")


def tests_of(run):
    if not run.out:
        sys.exit(f"no report: {run}")
    return run.json()["tests"]


def rhos(tests):
    """error/bound of each right 16-bit GEMM with a 16-bit output."""
    return [t["rho"] for t in tests
            if t["op"] == "gemm" and t["verdict"] == "PASSED"
            and t["dtype"] in ("fp16", "bf16") and t.get("out_dtype", t["dtype"]) == t["dtype"]
            and isinstance(t.get("rho"), (int, float))]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports", nargs="*", metavar="REPORT.json")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    sets = {}
    with harness.Daemon() as daemon:
        lab = []
        for path in args.reports:
            with open(path, encoding="utf-8") as file:
                lab += json.load(file)["tests"]
        if not args.reports:
            lab = tests_of(daemon.run(*LAB, "--format", "json", timeout=None))
        sets["tightness kernel-lab"] = rhos(lab)
        sets["tightness sweep"] = rhos(tests_of(daemon.run(*SWEEP, "--format", "json", timeout=None)))
    sets["tightness all"] = [r for values in list(sets.values()) for r in values]
    rows, good = [], True
    for name, values in sets.items():
        if not values:
            sys.exit(f"{name}: no 16-bit GEMM passed, so nothing was measured")
        median = statistics.median(values)
        good = good and LEAST <= median <= MOST
        rows.append({"name": name, "ours": median, "peer": LEAST, "ratio": median / LEAST,
                     "cases": len(values), "least": min(values), "most": max(values)})
    if args.json:
        print(json.dumps(rows, indent=2))
    else:
        for row in rows:
            print(f"{row['name']} {row['ours']:.3f} {row['peer']:.3f} {row['ratio']:.2f}   "
                  f"({row['cases']} cases, {row['least']:.3f} to {row['most']:.3f})")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
