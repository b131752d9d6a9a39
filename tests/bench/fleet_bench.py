#!/usr/bin/env python3
"""Times `assay fleet compare` over many stored reports.

    tests/bench/fleet_bench.py [--install DIR] [--reports 1000] [--cases 500] [--json]

Writes reports of invented nodes. Each is as long as a real report (indented, with every
statistic). One has a flipped digest, and one is 12 % slow. The bench merges them, checks that
only these two are accused, and prints `name ours goal ratio` lines: seconds against 10, and
the process's largest resident memory against 1 GB. A ratio below 1 is within the goal.
"""

import argparse
import hashlib
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time


def digest(*words):
    return hashlib.md5(repr(words).encode()).hexdigest()


def case(index, node, rng, speed, target):
    m = 64 + index
    name = f"gemm {m}x64x72 bf16 builtin"
    seconds = 1e-4 * (1 + index / 100) / speed / rng.gauss(1, 0.005)
    zeros = ["reference_nan_count", "reference_inf_count", "class_mismatches", "zero_count",
             "unwritten", "guard_hits"]
    return {
        "name": name, "index": index, "op": "gemm", "provider": "builtin", "dtype": "bf16",
        "out_dtype": "bf16",
        "shape": {"m": m, "n": 64, "k": 72, "trans_a": False, "trans_b": False,
                  "channel_scale": False, "bias": False},
        "pattern": "normal", "seed": 1, "target": target, "device": "cuda:0", "verdict": "PASSED",
        "passed": True, "reason": "", "criterion": "bound", "rho": rng.random(),
        "rho_proven": rng.random(), "max_abs_error": rng.random(), "max_rel_error": rng.random(),
        "mean_abs_error": rng.random(), "rms_error": rng.random(), "cosine": 0.9999999999999998,
        "bias_z": rng.gauss(0, 1), "max_abs_reference": 33.2486994710309, "count": 7680,
        "mismatches": 0, "nan": False, "inf": False, "nan_count": 0, "inf_count": 0,
        **{zero: 0 for zero in zeros}, "mismatch_samples": [],
        "worst_mismatch": {"index": [0, 0], "actual": rng.random(), "expected": rng.random(),
                           "bound": 6.27045969155279e-13, "actual_bits": "0x40217eed062a2401",
                           "expected_bits": "0x40217eed062a2401"},
        "probes": [{"name": probe, "verdict": "PASSED", "count": 7680, "mismatches": 0,
                    "digest": digest(name, probe), "refused": False}
                   for probe in ("exact-sparse", "exact-integers")],
        "digest": digest(name, node), "digest_raw": digest(name, node),
        "bench": {"median_seconds": seconds, "p10_seconds": seconds * 0.99,
                  "p90_seconds": seconds * 1.02, "samples": 50, "noise": 0.004,
                  "flops_per_second": 2 * m * 64 * 72 / seconds, "bytes_per_second": 1e9,
                  "noisy": False},
        "implementation": "AVX3", "start_time": "2026-11-22T03:54:50.190766Z",
        "duration_seconds": 0.023526078,
        "phases": {phase: rng.random() / 1000 for phase in
                   ("plan", "prepare", "fill", "kernel", "guards", "reference", "compare",
                    "recheck", "probes")},
        "repro": f"assay run gemm --m {m} --n 64 --k 72 --dtype bf16 --provider builtin --seed 1",
    }


def write_reports(folder, reports, cases):
    size = 0
    paths = []
    for node in range(reports):
        rng = random.Random(node)
        speed = rng.gauss(1, 0.01) * (0.88 if node == reports // 3 else 1)
        target = f"10.0.{node // 256}.{node % 256}:7575"
        tests = [case(i, node, rng, speed, target) for i in range(cases)]
        if node == reports // 2:
            probe = tests[cases // 2]["probes"][0]
            probe["digest"] = ("0" if probe["digest"][0] != "0" else "1") + probe["digest"][1:]
        paths.append(os.path.join(folder, f"node-{node:04}.json"))
        document = {
            "schema": "assay.report/v1", "generated_at": "2026-11-22T03:54:52.650029Z",
            "target": target, "job": f"jobs/{node:08x}", "suite": "nightly", "seed": 1,
            "device": "cuda:0", "gpu": "A card", "backend": "cuda",
            "versions": {"assay": "0.1.0", "assayd": "0.1.0", "builtin": "0.1.0"},
            "state": "FINISHED", "verdict": "PASSED", "host": f"n{node:04}", "model": "A card",
            "driver_version": "580.65", "suite_version": "2", "duration_seconds": 2.45,
            "total": cases, "passed": cases, "failed": 0, "inconclusive": 0, "unsupported": 0,
            "errors": 0, "skipped": 0, "tests": tests}
        with open(paths[-1], "w", encoding="utf-8") as file:
            json.dump(document, file, indent=2)
        size += os.path.getsize(paths[-1])
    return paths, size


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--install", default="build/dev/install")
    parser.add_argument("--reports", type=int, default=1000)
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="assay-fleet-bench-")
    try:
        paths, size = write_reports(folder, options.reports, options.cases)
        begin = time.monotonic()
        done = subprocess.run([os.path.join(options.install, "bin", "assay"), "fleet", "compare",
                               *paths, "--format", "json"], capture_output=True, text=True,
                              check=False)
        seconds = time.monotonic() - begin
        memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    finally:
        shutil.rmtree(folder)
    report = json.loads(done.stdout)
    accused = {(one["node"], one["charge"]) for one in report["accused"]}
    planted = {(f"n{options.reports // 2:04}", "SUSPECT"), (f"n{options.reports // 3:04}", "SLOW")}
    if accused != planted or done.returncode != 1:
        sys.exit(f"accused {sorted(accused)}, planted {sorted(planted)}, exit {done.returncode}")
    rows = [("merge_seconds", seconds, 10), ("merge_bytes", memory, 1e9)]
    if options.json:
        print(json.dumps([{"name": n, "ours": o, "peer": p, "ratio": o / p} for n, o, p in rows]))
        return
    print(f"{options.reports} reports of {options.cases} cases, {size / 1e6:.0f} MB; the two planted alone accused")
    for name, ours, goal in rows:
        print(f"{name} {ours:.4g} {goal:.4g} {ours / goal:.2f}")


if __name__ == "__main__":
    main()
