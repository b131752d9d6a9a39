#!/usr/bin/env python3
"""How long a verdict takes from Python, against the command line and against PyTorch, in one run.

    python_bench.py [--install DIR] [--size N] [--rounds N] [--threads N]

Prints `name ours peer ratio` lines, in seconds. The ratio is peer over ours, the median of the rounds; more is better.
A line in brackets has processor time, which other work on the machine changes less.
  python_compare   from `import assay` to the verdict on an fp32 product of N x N, against `assay compare` of the same
                   files, from its start to its end
  python_torch     the same against a check with PyTorch: the product again in FP64, and torch.testing.assert_close
Both sides have read their files when the clock starts, but for `assay compare`, which reads them.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "integration"))
import harness  # noqa: E402

FILES = """
import numpy as np, sys
rng = np.random.default_rng(1)
n = int(sys.argv[1])
a, b = (rng.standard_normal((n, n)).astype("f4") for _ in "ab")
for name, array in (("a", a), ("b", b), ("d", a @ b)):
    np.save(f"{sys.argv[2]}/{name}.npy", array)
"""
LOAD = """
import numpy as np, os, sys, time
d, a, b = (np.load(f"{sys.argv[1]}/{name}.npy") for name in "dab")
begin, used = time.perf_counter(), time.process_time()
"""
OURS = LOAD + """
import assay
assert assay.assert_close(d, op="gemm", inputs=(a, b)).passed
print(time.perf_counter() - begin, time.process_time() - used)
"""
TORCH = LOAD.replace("d, a, b", "import torch\ntorch.set_num_threads(int(sys.argv[2]))\nd, a, b") + """
d, a, b = map(torch.from_numpy, (d, a, b))
torch.testing.assert_close(d.double(), a.double() @ b.double(), rtol=1e-4, atol=1e-2)
print(time.perf_counter() - begin, time.process_time() - used)
"""


def timed(script, *arguments, **environment):
    """Seconds and processor seconds that a script says."""
    done = subprocess.run(["/usr/bin/python3", "-c", script, *arguments], capture_output=True, text=True, check=False,
                          env={**os.environ, **environment})
    if done.returncode != 0:
        sys.exit(done.stderr)
    return tuple(map(float, done.stdout.split()))


def processor_time(root):
    """Of a process and all that it started, in seconds."""
    parents = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                fields = file.read().rpartition(")")[2].split()
            parents[int(pid)] = (int(fields[1]), int(fields[11]) + int(fields[12]))
        except OSError:  # it has ended
            continue
    ticks, found = 0, {root}
    for pid in sorted(parents):
        if pid in found or parents[pid][0] in found:
            found.add(pid)
            ticks += parents[pid][1]
    return ticks / os.sysconf("SC_CLK_TCK")


def command_line(daemon, folder):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.perf_counter()
    files = [os.path.join(folder, f"{name}.npy") for name in "dab"]
    run = daemon.run("compare", files[0], "--inputs", ",".join(files[1:]), "--op", "gemm")
    seconds = time.perf_counter() - begin
    if run.code != 0:
        sys.exit(f"the product did not pass: {run}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--install", default=harness.INSTALL)
    arguments.add_argument("--size", type=int, default=4096)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--threads", type=int, default=os.cpu_count())
    options = arguments.parse_args()
    harness.ASSAY = os.path.join(options.install, "bin", "assay")
    harness.ASSAYD = os.path.join(options.install, "bin", "assayd")
    packages = os.path.abspath(os.path.join(options.install, "lib", "python3", "dist-packages"))
    with tempfile.TemporaryDirectory(prefix="assay-bench-") as folder, harness.Daemon() as daemon:
        subprocess.run(["/usr/bin/python3", "-c", FILES, str(options.size), folder], check=True)
        has_torch = subprocess.run(["/usr/bin/python3", "-c", "import torch"], capture_output=True,
                                   check=False).returncode == 0
        rounds = []
        for _ in range(options.rounds):
            row = []
            for side in ("python", "assay", "torch")[:2 + has_torch]:
                used = processor_time(daemon.process.pid)
                if side == "python":
                    seconds, own = timed(OURS, folder, PYTHONPATH=packages, ASSAY_TARGET=daemon.grpc)
                elif side == "assay":
                    seconds, own = command_line(daemon, folder)
                else:
                    seconds, own = timed(TORCH, folder, str(options.threads))
                row.append((seconds, own + processor_time(daemon.process.pid) - used))
            rounds.append(row)
    for i, name in ((1, "python_compare"), (2, "python_torch"))[:1 + has_torch]:
        for what, left, right in ((0, "", ""), (1, "(", ")")):
            ours, peer = (statistics.median(row[side][what] for row in rounds) for side in (0, i))
            ratio = statistics.median(row[i][what] / row[0][what] for row in rounds)
            print(f"{left}{name} {ours:.2f} {peer:.2f} {ratio:.2f}{right}")
    if not has_torch:
        print("python_torch skipped: python3-torch is not installed")


if __name__ == "__main__":
    main()
