#!/usr/bin/env python3
"""Checks whether times can be trusted: it runs the same bench twice, and it compares a library
call through daemon and worker with a bare loop of the same call.

    repeat_bench.py [--install DIR] [--loop PROGRAM] [--repeats N] [--rounds N] [--json]
                    [--keep DIR]

Prints `name ours peer ratio` lines.
  repeat_*   ours: the share of --repeats pairs of runs whose medians agree within their stated
             noise; peer: the required share, 0.95
  changed_*  ours: pairs that `assay baseline compare` calls faster or slower; peer: at most 0.05
  slower_*   ours: pairs called slower after the second run's times were made 10 % longer;
             peer: 0.95
  through_*  ours: seconds of a gemm timed through daemon and worker; peer: seconds of a bare
             loop of the same call, with operands out of the cache, as Assay has them. Both
             take turns, and the best turn of each counts. The ratio, peer over ours, must be
             at least 0.97.
  hot_*      the same against a loop that keeps its operands in the cache

The machine must have nothing else to do. If a run says that it was disturbed (noisy), its pair
is counted separately, as disturbed_*.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "integration"))
import harness  # noqa: E402

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
LOOP = os.path.join(ROOT, "build", "dev", "tests", "bench", "loop_bench")


def report(daemon, *case):
    """The report of one timed case that passed."""
    run = daemon.run("run", *case, "--mode", "benchmark", "--format", "json", timeout=None)
    document = run.json() if run.out else {"tests": []}
    tests = document["tests"]
    if run.code != 0 or len(tests) != 1 or "median_seconds" not in tests[0]["bench"]:
        sys.exit(f"no time: {run}")
    return document


def bench(daemon, *case):
    """The bench object of the same."""
    return report(daemon, *case)["tests"][0]["bench"]


def longer(document, factor):
    """The report, as if all launches had taken so much longer."""
    document = json.loads(json.dumps(document))
    times = document["tests"][0]["bench"]
    for key in ("median_seconds", "p10_seconds", "p90_seconds"):
        times[key] *= factor
    return document


def changes(daemon, pairs, factor=1.0):
    """What the second of each pair is called against the first, with how often."""
    counts = {}
    with tempfile.TemporaryDirectory() as folder:
        files = [os.path.join(folder, name) for name in ("before.json", "after.json")]
        for one, two in pairs:
            for path, document in zip(files, (one, longer(two, factor))):
                with open(path, "w", encoding="utf-8") as file:
                    json.dump(document, file)
            run = daemon.run("baseline", "compare", *files, "--format", "json")
            word = run.json()["changes"][0]["change"]
            counts[word] = counts.get(word, 0) + 1
    return counts


def quiet_pairs(daemon, case, repeats):
    """So many pairs of runs of which neither says that the machine disturbed it, or what there is
    of them after three times as many; and how many others there were."""
    pairs, disturbed = [], 0
    while len(pairs) < repeats and len(pairs) + disturbed < 3 * repeats:
        pair = (report(daemon, *case), report(daemon, *case))
        if any(r["tests"][0]["bench"].get("noisy") for r in pair):
            disturbed += 1
        else:
            pairs.append(pair)
    if not pairs:
        sys.exit(f"{disturbed} pairs, and the machine disturbed them all")
    return pairs, disturbed


def gemm(provider, size):
    return ("gemm", "--m", str(size), "--n", str(size), "--k", str(size), "--dtype", "fp32",
            "--provider", provider)


def agree(one, two):
    """Medians of two runs within the noise that the two state together."""
    noise = max(one.get("noise", 0), two.get("noise", 0))
    a, b = one["median_seconds"], two["median_seconds"]
    return abs(a - b) <= noise * min(a, b)


def loop(program, provider, size, cold):
    # The library's own choice for processors newer than it, as the worker's environment has it.
    environment = dict(os.environ)
    with open("/proc/cpuinfo", encoding="ascii") as info:
        if "avx512vl" in info.read():
            environment.setdefault("OPENBLAS_CORETYPE", "SkylakeX")
    arguments = [program, provider] + [str(size)] * 3 + (["--cold"] if cold else [])
    done = subprocess.run(arguments, capture_output=True, text=True, check=True, env=environment)
    return float(done.stdout)


def through(daemon, program, provider, size, cold, rounds):
    """Median seconds through the daemon and of a bare loop, in turns; of each the best turn,
    since whatever else the machine does only makes them longer."""
    ours, peer = [], []
    for _ in range(rounds):
        ours.append(bench(daemon, *gemm(provider, size))["median_seconds"])
        peer.append(loop(program, provider, size, cold))
    return min(ours), min(peer), min(peer) / min(ours)


def main():
    arguments = argparse.ArgumentParser(description=__doc__,
                                        formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--install", default=harness.INSTALL)
    arguments.add_argument("--loop", default=LOOP, metavar="PROGRAM")
    arguments.add_argument("--repeats", type=int, default=100, help="pairs of runs (default 100)")
    arguments.add_argument("--rounds", type=int, default=5, help="turns with the bare loop")
    arguments.add_argument("--json", action="store_true")
    arguments.add_argument("--keep", metavar="DIR", help="the pairs' times, a file per case")
    options = arguments.parse_args()
    harness.ASSAY = os.path.join(options.install, "bin", "assay")
    harness.ASSAYD = os.path.join(options.install, "bin", "assayd")

    def tell(name, ours, peer, ratio):
        if options.json:
            line = json.dumps({"name": name, "ours": ours, "peer": peer, "ratio": ratio})
        else:
            line = f"{name} {ours:.6g} {peer:.6g} {ratio:.3f}"
        print(line, flush=True)

    with harness.Daemon() as daemon:
        # Not while anything is timed.
        daemon.run("devices", "--ceilings")
        for name, case in (("gemm_512_builtin", gemm("builtin", 512)),
                           ("softmax_4096", ("softmax", "--rows", "4096", "--cols", "4096",
                                             "--dtype", "fp32", "--provider", "builtin"))):
            if options.repeats < 1:
                continue
            bench(daemon, *case)
            pairs, disturbed = quiet_pairs(daemon, case, options.repeats)
            tell(f"disturbed_{name}", disturbed, options.repeats, disturbed / options.repeats)
            if options.keep:
                with open(os.path.join(options.keep, f"{name}.json"), "w", encoding="utf-8") as out:
                    json.dump([[r["tests"][0]["bench"] for r in pair] for pair in pairs], out)
            share = sum(agree(*(r["tests"][0]["bench"] for r in pair))
                        for pair in pairs) / len(pairs)
            tell(f"repeat_{name}", share, 0.95, share / 0.95)
            same = changes(daemon, pairs)
            share = (same.get("faster", 0) + same.get("slower", 0)) / len(pairs)
            tell(f"changed_{name}", share, 0.05, share / 0.05)
            share = changes(daemon, pairs, 1.1).get("slower", 0) / len(pairs)
            tell(f"slower_{name}", share, 0.95, share / 0.95)
        for provider in ("onednn", "openblas") if options.rounds > 0 else ():
            for size in (1024, 2048):
                for word, cold in (("through", True), ("hot", False)):
                    tell(f"{word}_{provider}_{size}",
                         *through(daemon, options.loop, provider, size, cold, options.rounds))


if __name__ == "__main__":
    main()
