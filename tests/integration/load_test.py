"""Many watchers and many who submit: nobody gets an error, everybody sees everything, a submit is soon
answered, and the daemon stays small. One watcher that sleeps changes nothing for the others.

The same load comes in rounds: with a watcher that sleeps, without, and with one again.

The watchers have a process of their own, which this file is too: load_test.py --watch ADDRESS JOB. So has a
probe of the disk: load_test.py --writes FOLDER.
"""

import asyncio
import os
import random
import re
import select
import subprocess
import sys
import tempfile
import time
import unittest

import grpc

import harness
import limits_test
from others import Others

WATCHERS = 500
SUBMITTERS = 50
JOBS = 20  # of each who submits
CASES = 300  # of the job that all watch
PAUSE = 0.5  # before a client's next job, on average [s]: more would only wait in line behind one another
CLIENTS_NICE = 5  # clients stand for other machines, so the daemon comes before them
MOST_MEMORY = 300 << 20
MOST_GROWTH = 16 << 20  # from one round to the next [bytes]; pools that fill up may grow a few times
MOST_ROUNDS = 5
SUBMIT_SECONDS = 0.05  # what 99 of 100 submits must stay below, in the daemon
# With a watcher that sleeps, a round may take so many times as long as without.
MOST_SLOWER = 1.5
# Above these, times say nothing: the share of the processors that others had, and 99 of 100 writes of another process
# that wait for the disk beside the load [s].
MOST_OF_OTHERS = 0.25
SLOW_DISK = 0.01


def setUpModule():
    limits_test.setUpModule()


def tearDownModule():
    limits_test.tearDownModule()


class Client:
    """A client with a connection of its own, of asyncio."""

    def __init__(self, address):
        self.channel = grpc.aio.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)])

    async def create(self, request):
        call = self.channel.unary_unary(limits_test.SERVICE + "CreateJob",
                                        request_serializer=type(request).SerializeToString,
                                        response_deserializer=limits_test.M.job.Job.FromString)
        return (await call(request, timeout=harness.LONG)).name

    def watch(self, job):
        request = limits_test.M.service.WatchJobRequest(name=job)
        call = self.channel.unary_stream(limits_test.SERVICE + "WatchJob",
                                         request_serializer=type(request).SerializeToString,
                                         response_deserializer=limits_test.M.job.JobEvent.FromString)
        return call(request, timeout=10 * harness.LONG)


def resident(pid):
    """What the process holds in RAM now, and the most that it held [bytes]."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        text = file.read()
    return [int(re.search(rf"{key}:\s+(\d+) kB", text).group(1)) << 10 for key in ("VmRSS", "VmHWM")]


async def follow(client, job):
    """The numbers of the stored events, in the order in which they came."""
    numbers = []
    async for event in client.watch(job):
        if event.sequence:
            numbers.append(event.sequence)
    return numbers


async def submit(client, times):
    for _ in range(JOBS):
        await asyncio.sleep(random.uniform(0, 2 * PAUSE))
        request = limits_test.M.jobs(1)
        request.spec.priority = 1
        begin = time.monotonic()
        job = await client.create(request)
        times.append(time.monotonic() - begin)
        await follow(client, job)


async def watch_all(address, job):
    """Follows the job by as many watchers as there are; whether all saw all of it, in order."""
    seen = await asyncio.gather(*(follow(Client(address), job) for _ in range(WATCHERS)))
    return all(numbers == list(range(1, CASES + 5)) for numbers in seen)


async def load(daemon, with_sleeper):
    """Submits beside watchers. Returns how long all took, the submits before, and the times of these as the clients
    see them [s]."""
    address = daemon.grpc
    first = Client(address)
    if with_sleeper:
        long_job = await first.create(limits_test.M.jobs(limits_test.MANY))
        await follow(first, long_job)
        sleeper = Client(address)  # a channel that nobody names is closed
        asleep = sleeper.watch(long_job)
        await asleep.initial_metadata()  # opened, and never read
    before, begin = submits(daemon), time.monotonic()
    job = await first.create(limits_test.M.jobs(CASES))
    watchers = await asyncio.create_subprocess_exec(sys.executable, os.path.abspath(__file__), "--watch", address, job,
                                                    stdout=subprocess.PIPE)
    times = []
    await asyncio.gather(*(submit(Client(address), times) for _ in range(SUBMITTERS)))
    said, _ = await watchers.communicate()
    assert (watchers.returncode, said) == (0, b"all seen\n"), said
    return time.monotonic() - begin, before, sorted(times)


def submits(daemon):
    """How many submits took at most so long in the daemon: [(seconds, count)], in order."""
    series = r'assay_rpc_duration_seconds_bucket\{method="CreateJob",le="([^"]+)"\} (\S+)'
    found = re.findall(series, daemon.scrape())
    return sorted((float(most.replace("+Inf", "inf")), float(count)) for most, count in found)


def quantile(share, before, after):
    """As histogram_quantile of PromQL has it [s]: between two bounds, times are taken as evenly spread."""
    counts = [(most, count - dict(before).get(most, 0)) for most, count in after]
    wanted = share * counts[-1][1]
    low = below = 0.0
    for most, count in counts:
        if count >= wanted:
            return low if most == float("inf") else low + (most - low) * (wanted - below) / (count - below)
        low, below = most, count
    raise AssertionError(counts)


def time_writes(folder):
    """Until standard input ends: how long 99 of 100 small writes take at most that wait for the disk [s]."""
    times = []
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        while not select.select([sys.stdin], [], [], 0.02)[0]:
            begin = time.monotonic()
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())
            times.append(time.monotonic() - begin)
    return sorted(times)[len(times) * 99 // 100]


class Round:
    """One load of a daemon, and what came of it."""

    def __init__(self, daemon, with_sleeper):
        self.with_sleeper = with_sleeper
        others = Others(daemon.process.pid)
        self.seconds, before, self.times = asyncio.run(load(daemon, with_sleeper))
        self.others = others.share()
        at_client = self.times[len(self.times) * 99 // 100]  # holds the daemon's time
        self.p99 = min(quantile(0.99, before, submits(daemon)), at_client)
        self.now, self.most = resident(daemon.process.pid)
        at_client, asleep = 1e3 * at_client, "one" if with_sleeper else "none"
        print(f"\n{WATCHERS} watchers, {SUBMITTERS} clients, {asleep} asleep: {self.seconds:.1f} s; "
              f"submit p99 {1e3 * self.p99:.1f} ms in the daemon, {at_client:.1f} ms with the client's own time; "
              f"memory {self.now >> 20} MiB, {self.most >> 20} MiB at the most; others had {100 * self.others:.0f} %")


class Load(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = harness.Daemon(flags=["--watch-stall", "0"])  # who sleeps is not dropped
        cls.addClassCleanup(cls.daemon.stop)
        writes = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--writes", cls.daemon.state],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        os.nice(CLIENTS_NICE)
        cls.rounds = [Round(cls.daemon, with_sleeper) for with_sleeper in (True, False, True)]
        while cls.growth() > MOST_GROWTH and len(cls.rounds) < MOST_ROUNDS:
            cls.rounds.append(Round(cls.daemon, with_sleeper=True))
        cls.sync = float(writes.communicate()[0])
        print(f"\na write beside them took {1e3 * cls.sync:.1f} ms (p99)")

    @classmethod
    def growth(cls):
        return cls.rounds[-1].now - cls.rounds[-2].now

    def skip_if_busy(self):
        others = max(one.others for one in self.rounds)
        if others > MOST_OF_OTHERS or self.sync > SLOW_DISK or os.cpu_count() < 2:
            self.skipTest(f"others had {100 * others:.0f} % of the processors, a write takes {1e3 * self.sync:.1f} ms: "
                          "this machine is too busy to time anything")

    def test_nobody_gets_an_error(self):
        for one in self.rounds:
            self.assertEqual(len(one.times), SUBMITTERS * JOBS)
        for limit in ("client-max-waiting-jobs", "client-max-watchers", "max-watchers", "client-max-connections"):
            self.assertEqual(self.daemon.metric("assay_limit_refusals_total", limit=limit), 0)
        for code in ("INTERNAL", "RESOURCE_EXHAUSTED"):
            self.assertEqual(self.daemon.metric("assay_rpc_requests_total", code=code), 0)

    def test_memory_is_bounded_and_flat(self):
        self.assertLess(max(one.most for one in self.rounds), MOST_MEMORY)
        sizes = [one.now >> 20 for one in self.rounds]
        self.assertLessEqual(self.growth(), MOST_GROWTH, f"it grew in every round: {sizes} MiB")

    def test_a_submit_is_soon_answered(self):
        # The best round: one write that the disk holds up delays a hundredth of the submits of a round.
        if (best := min(one.p99 for one in self.rounds)) >= SUBMIT_SECONDS:
            self.skip_if_busy()
        self.assertLess(best, SUBMIT_SECONDS)

    def test_a_watcher_that_sleeps_changes_nothing_for_the_rest(self):
        awake, asleep = (min(one.seconds for one in self.rounds[1:] if one.with_sleeper == sleeps)
                         for sleeps in (False, True))
        if asleep > MOST_SLOWER * awake:
            self.skip_if_busy()
        self.assertLessEqual(asleep, MOST_SLOWER * awake)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--watch"]:
        setUpModule()
        print("all seen" if asyncio.run(watch_all(*sys.argv[2:4])) else "something is missing")
        tearDownModule()
    elif sys.argv[1:2] == ["--writes"]:
        print(time_writes(sys.argv[2]))
    else:
        harness.main()
