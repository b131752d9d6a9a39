#!/usr/bin/env python3
"""What `assay.validate` costs on the way: how fast outputs travel from Python to the daemon, against a plain copy.

    validate_bench.py [--install DIR] [--size N] [--repeats N] [--rounds N]

Prints lines `name ours peer ratio`, in GB/s; the ratio is ours over the peer's, the median of the rounds. Ours is an fp32
output of N x N over the time from the return of the function to its next call, the median of a job's repeats: the inputs
stay, so the output alone travels, and the daemon takes its digest. The peer is NumPy's copy of as many bytes into memory
that was written before.
  validate_unix   over a Unix socket
  validate_tcp    over TCP on the loopback
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "integration"))
import harness  # noqa: E402

JOB = """
import sys, time
import assay, numpy as np
size, repeats = int(sys.argv[1]), int(sys.argv[2])
begun, ended = [], []
def add(x, z):
    begun.append(time.perf_counter())
    y = x + z
    ended.append(time.perf_counter() if y.shape[-2:] == (size, size) else None)
    return y
report = assay.validate(add, op="elementwise", kind="add", dtype="fp32", rows=size, cols=size, repeats=repeats)
assert report.passed, report
gaps = sorted(begin - end for end, begin in zip(ended[1:repeats], begun[2:repeats + 1]) if end)
source, target, copies = np.ones(size * size, "f4"), np.ones(size * size, "f4"), []
for _ in range(9):
    begin = time.perf_counter()
    np.copyto(target, source)
    copies.append(time.perf_counter() - begin)
bytes = 4 * size * size
print(bytes / gaps[len(gaps) // 2], bytes / sorted(copies)[4])
"""


def speeds(target, packages, options):
    """Bytes a second of validate, and of a copy in the same process."""
    done = subprocess.run(["/usr/bin/python3", "-c", JOB, str(options.size), str(options.repeats)], capture_output=True,
                          text=True, check=False, env={**os.environ, "PYTHONPATH": packages, "ASSAY_TARGET": target})
    if done.returncode != 0:
        sys.exit(done.stderr)
    return tuple(map(float, done.stdout.split()))


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--install", default=harness.INSTALL)
    arguments.add_argument("--size", type=int, default=4096)
    arguments.add_argument("--repeats", type=int, default=8)
    arguments.add_argument("--rounds", type=int, default=5)
    options = arguments.parse_args()
    harness.ASSAYD = os.path.join(options.install, "bin", "assayd")
    packages = os.path.abspath(os.path.join(options.install, "lib", "python3", "dist-packages"))
    with tempfile.TemporaryDirectory(prefix="assay-bench-") as folder:
        socket = "unix:" + os.path.join(folder, "socket")
        with harness.Daemon(listen=socket), harness.Daemon() as daemon:
            rounds = [[speeds(target, packages, options) for target in (socket, daemon.grpc)]
                      for _ in range(options.rounds)]
    for i, name in enumerate(("validate_unix", "validate_tcp")):
        ours, peer = (statistics.median(row[i][side] for row in rounds) for side in (0, 1))
        ratio = statistics.median(row[i][0] / row[i][1] for row in rounds)
        print(f"{name} {ours / 1e9:.2f} {peer / 1e9:.2f} {ratio:.2f}")


if __name__ == "__main__":
    main()
