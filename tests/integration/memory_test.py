"""The daemon's memory stays flat over many cases: nothing is kept of a finished one."""

import os
import unittest

import harness

# Jobs of 5,000 cases between the two that are compared; the long form (20, 100,000 cases) is
# for a release.
JOBS = int(os.environ.get("ASSAY_TEST_JOBS", "0"))
CASES = 5000
# Page caches and the allocator's pools, one for each thread that gRPC happens to start, fill
# up in steps of 3 MB, at the latest of which nobody knows: what leaks grows from each window to
# the next, a pool that fills up does so once. A size is taken anywhere between a job's end and
# the memory that is given back after it: what is kept is the least of a few.
WARM_UP_JOBS = 6
LEAST_OF = 4
TOLERANCE = 0.05
WINDOWS = 4


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

            for _ in range(WARM_UP_JOBS + LEAST_OF):
                one_job()
            for _ in range(WINDOWS):
                for _ in range(JOBS + LEAST_OF):
                    one_job()
                warm = min(sizes[-JOBS - 2 * LEAST_OF:-JOBS - LEAST_OF])
                last = min(sizes[-LEAST_OF:])
                growth = last / warm - 1
                print(f"{(JOBS + LEAST_OF) * CASES} cases: {warm} KiB → {last} KiB ({growth:+.1%})")
                if growth < TOLERANCE:
                    return
            self.fail(f"it grew by more than {TOLERANCE:.0%} in each of {WINDOWS} windows: {sizes}")


if __name__ == "__main__":
    harness.main()
