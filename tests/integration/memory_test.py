"""The daemon's memory stays flat over many cases: nothing is kept of a finished one."""

import os
import unittest

import harness

# Jobs of 5,000 cases; the long form (100,000 cases) is for a release.
JOBS = int(os.environ.get("ASSAY_TEST_JOBS", "4"))
CASES = 5000
# Page caches and the allocator's pools, one for each thread that gRPC happens to start,
# fill up step by step. It is warm once three jobs in a row end at the same size; a daemon
# that never gets there leaks.
STEADY_JOBS = 3
STEADY = 0.01
MOST_WARM_UP_JOBS = 16
TOLERANCE = 0.05


def resident_kib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        for line in status:
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
    raise AssertionError(f"no VmRSS for {pid}")


class Memory(unittest.TestCase):
    def test_resident_memory_stays_flat(self):
        with harness.Daemon() as daemon:
            sizes = []

            def one_job():
                job = len(sizes)
                seeds = ",".join(str(job * CASES + i + 1) for i in range(CASES))
                run = daemon.run("run", "copy", "--count", "64", "--dtype", "fp32", "--provider",
                                 "builtin", "--seed", seeds, "--format", "jsonl")
                self.assertEqual(run.code, 0, run.err)
                self.assertEqual(len(run.out.splitlines()), CASES)
                sizes.append(resident_kib(daemon.process.pid))

            def steady():
                last = sizes[-STEADY_JOBS:]
                return len(last) == STEADY_JOBS and max(last) < min(last) * (1 + STEADY)

            while not steady():
                self.assertLess(len(sizes), MOST_WARM_UP_JOBS, f"it never gets steady: {sizes}")
                one_job()
            warm = sizes[-1]
            for _ in range(JOBS):
                one_job()
            growth = sizes[-1] / warm - 1
            print(f"{JOBS * CASES} cases: {warm} KiB → {sizes[-1]} KiB ({growth:+.1%})")
            self.assertLess(abs(growth), TOLERANCE, sizes)


if __name__ == "__main__":
    harness.main()
