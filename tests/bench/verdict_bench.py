#!/usr/bin/env python3
"""How long a kernel's author waits for a verdict: from the start of `assay run` to its end.

    verdict_bench.py [--install DIR] [--rounds N]

Prints lines `name ours goal ratio`, in seconds; the ratio is the goal over ours. Ours is the median of the rounds, and
each round sends a file that the daemon has not seen.
  verdict_library   of an uploaded shared library, a gemm in C
  verdict_source    of the same as source, less the time that the client reports for its compile
  verdict_simt      of CUDA source on the emulator (simt:0), with its compile
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.insert(0, os.path.join(TESTS, "integration"))
import harness  # noqa: E402

CASE = ["--device", "cpu:0", "--dtype", "fp32", "--m", "64", "--n", "64", "--k", "64"]
SIMT_CASE = ["--device", "simt:0", "--dtype", "fp32", "--m", "44", "--n", "40", "--k", "50"]


class Author:
    def __init__(self, daemon, folder, install):
        self.daemon, self.folder, self.include, self.round = daemon, folder, os.path.join(install, "include"), 0

    def edited(self, template):
        """A copy of a template that differs from all before."""
        self.round += 1
        with open(os.path.join(TESTS, "templates", template), encoding="utf-8") as file:
            text = file.read()
        path = os.path.join(self.folder, os.path.basename(template))
        with open(path, "w", encoding="utf-8") as file:
            file.write(text + ("" if path.endswith(".toml") else f"extern int round_{self.round};\n"))
        return path

    def seconds(self, path, case):
        """From the start of the client to its end, and what it says of the compile."""
        begin = time.perf_counter()
        result = self.daemon.run("run", "gemm", "--kernel", path, *case)
        took = time.perf_counter() - begin
        if result.code != 0:
            sys.exit(repr(result))
        said = re.search(r"compiling \S+ … (\d+\.\d) s", result.err)
        return took, float(said.group(1)) if said else 0.0

    def library(self):
        path = os.path.join(self.folder, "gemm.so")
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", f"-I{self.include}",
                        f"-Wl,--build-id=0x{self.round:08x}", self.edited("cpu/my_gemm.c"), "-o", path], check=True)
        return self.seconds(path, CASE)[0]

    def c_source(self):
        took, compiling = self.seconds(self.edited("cpu/my_gemm.c"), CASE)
        return took - compiling

    def cuda_source(self):
        self.edited("cuda/my_gemm.toml")
        return self.seconds(self.edited("cuda/my_gemm.cu"), SIMT_CASE)[0]


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--install", default=harness.INSTALL)
    arguments.add_argument("--rounds", type=int, default=9)
    options = arguments.parse_args()
    harness.ASSAY = os.path.join(options.install, "bin", "assay")
    harness.ASSAYD = os.path.join(options.install, "bin", "assayd")
    flags = ["--user-kernels", "library,source", "--devices", "cpu:0,simt:0"]
    with tempfile.TemporaryDirectory(prefix="assay-bench-") as folder, harness.Daemon(flags=flags) as daemon:
        author = Author(daemon, folder, options.install)
        for name, verdict, goal in (("verdict_library", author.library, 1), ("verdict_source", author.c_source, 1),
                                    ("verdict_simt", author.cuda_source, 3)):
            ours = statistics.median(verdict() for _ in range(options.rounds))
            print(f"{name} {ours:.2f} {goal} {goal / ours:.2f}", flush=True)


if __name__ == "__main__":
    main()
