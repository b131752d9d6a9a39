"""Many watchers and many who submit: nobody gets an error, everybody sees everything, and the daemon
stays small. Times are printed and not judged.

The watchers have a process of their own, which this file is too: load_test.py --watch ADDRESS JOB.
"""

import asyncio
import os
import re
import subprocess
import sys
import time
import unittest

import grpc

import harness
import limits_test

WATCHERS = 500
SUBMITTERS = 50
JOBS = 20  # of each who submits
CASES = 300  # of the job that all watch
MOST_MEMORY = 300 << 20


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


async def load(address):
    """Submits beside watchers, and returns the times of the submits [s]."""
    first = Client(address)
    long_job = await first.create(limits_test.M.jobs(limits_test.MANY))
    await follow(first, long_job)
    sleeper = Client(address)  # a channel that nobody names is closed
    asleep = sleeper.watch(long_job)
    await asleep.initial_metadata()  # opened, and never read
    job = await first.create(limits_test.M.jobs(CASES))
    watchers = await asyncio.create_subprocess_exec(sys.executable, os.path.abspath(__file__), "--watch", address, job,
                                                    stdout=subprocess.PIPE)
    times = []
    await asyncio.gather(*(submit(Client(address), times) for _ in range(SUBMITTERS)))
    said, _ = await watchers.communicate()
    assert (watchers.returncode, said) == (0, b"all seen\n"), said
    return sorted(times)


class Load(unittest.TestCase):
    def test_watchers_and_submitters(self):
        with harness.Daemon(flags=["--watch-stall", "5s"]) as daemon:
            before = resident(daemon.process.pid)[0]
            times = asyncio.run(load(daemon.grpc))
            self.assertEqual(len(times), SUBMITTERS * JOBS)
            now, most = resident(daemon.process.pid)
            print(f"\n{WATCHERS} watchers, {SUBMITTERS} clients: submit p50 {1e3 * times[len(times) // 2]:.1f} ms, "
                  f"p99 {1e3 * times[len(times) * 99 // 100]:.1f} ms, the client's own time included; "
                  f"memory {before >> 20} MiB before, {most >> 20} MiB at the most, {now >> 20} MiB after")
            self.assertLess(most, MOST_MEMORY)
            for limit in ("client-max-waiting-jobs", "client-max-watchers", "max-watchers", "client-max-connections"):
                self.assertEqual(daemon.metric("assay_limit_refusals_total", limit=limit), 0)
            for code in ("INTERNAL", "RESOURCE_EXHAUSTED"):
                self.assertEqual(daemon.metric("assay_rpc_requests_total", code=code), 0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--watch"]:
        setUpModule()
        print("all seen" if asyncio.run(watch_all(*sys.argv[2:4])) else "something is missing")
        tearDownModule()
    else:
        harness.main()
