"""Mixed load for a time: jobs, watchers, comparisons, crashes of workers, listings, reloads. The daemon's
memory and its descriptors are the same at the end as after the start. Its times are printed and not judged.

ASSAY_TEST_SOAK is for how long [s].
"""

import os
import random
import signal
import statistics
import struct
import threading
import time
import unittest

import harness
import limits_test
from load_test import resident

SECONDS = int(os.environ.get("ASSAY_TEST_SOAK", "300"))
# After so much of the time the store keeps its full size, and whatever is made once is made.
WARM = 0.3
MOST_GROWTH = 32 << 20  # [bytes]
MOST_DESCRIPTORS = 16
SUBMITTERS = 3


def setUpModule():
    limits_test.setUpModule()


def tearDownModule():
    limits_test.tearDownModule()


class Load:
    """Threads that use the daemon until they are told to end. An error of one is kept."""

    def __init__(self, daemon):
        self.daemon = daemon
        self.ending = threading.Event()
        self.errors = []
        self.done = {}
        self.works = [self.submit] * SUBMITTERS + [self.crash, self.compare, self.listings, self.leave, self.reload]
        self.threads = [threading.Thread(target=self.repeat, args=(work,)) for work in self.works]
        for thread in self.threads:
            thread.start()

    def repeat(self, work):
        try:
            while not self.ending.is_set():
                client = limits_test.Client(self.daemon.grpc)
                work(client)
                client.channel.close()
                self.done[work.__name__] = self.done.get(work.__name__, 0) + 1
        except Exception as error:  # pylint: disable=broad-except
            self.errors.append(f"{work.__name__}: {error!r}")
            self.ending.set()

    def submit(self, client):
        job = client.create(cases=random.randrange(1, 60))
        for _ in client.watch(job):
            pass

    def crash(self, client):
        request = limits_test.M.jobs(2)
        case = request.spec.cases.cases[0]
        case.gemm.m = case.gemm.n = case.gemm.k = 8
        case.provider = "planted/crash"
        for _ in client.watch(client.create(request=request)):
            pass
        self.ending.wait(5)  # a device whose workers die all the time is set aside

    def compare(self, client):
        messages, tensor = limits_test.M, struct.pack("<f", 0.5) * 65536
        header = messages.compare.CompareHeader(criterion=messages.types.CRITERION_BITWISE)
        for side in (header.actual, header.expected):
            side.dtype = messages.types.DTYPE_FP32
            side.shape.append(65536)
        requests = [messages.compare.CompareTensorsRequest(header=header)]
        for side in range(2):
            requests.append(messages.compare.CompareTensorsRequest())
            requests[-1].chunk.tensor, requests[-1].chunk.data = side, tensor
        call = client.channel.stream_unary(limits_test.SERVICE + "CompareTensors",
                                           request_serializer=lambda message: message.SerializeToString(),
                                           response_deserializer=messages.case.CaseResult.FromString)
        result = call(iter(requests), timeout=harness.LONG)
        assert result.verdict == messages.types.VERDICT_PASSED, result
        self.ending.wait(0.2)

    def listings(self, client):
        client.unary("ListJobs", limits_test.M.service.ListJobsRequest(page_size=50), limits_test.M.service.ListJobsResponse)
        self.daemon.scrape()
        self.ending.wait(0.2)

    def leave(self, client):
        stream = client.watch(client.create(cases=50))
        next(stream)
        stream.cancel()

    def reload(self, _):
        self.daemon.process.send_signal(signal.SIGHUP)
        self.ending.wait(3)

    def end(self):
        self.ending.set()
        for thread in self.threads:
            thread.join(harness.LONG)


class Soak(unittest.TestCase):
    def test_nothing_grows(self):
        flags = ["--store-keep-bytes", "4MiB", "--client-cases-per-minute", "0"]
        with harness.Daemon(flags=flags) as daemon:
            load = Load(daemon)
            probe = limits_test.Client(daemon.grpc)
            begin, samples = time.monotonic(), []
            while time.monotonic() - begin < SECONDS and not load.ending.is_set():
                at = time.monotonic()
                probe.unary("ListJobs", limits_test.M.service.ListJobsRequest(page_size=1),
                            limits_test.M.service.ListJobsResponse)
                took = time.monotonic() - at
                pid = daemon.process.pid
                samples.append((at - begin, resident(pid)[0], len(os.listdir(f"/proc/{pid}/fd")), took))
                time.sleep(0.25)
            load.end()
            self.assertEqual(load.errors, [], daemon.log_text()[-3000:])
            self.assertEqual(set(load.done), {work.__name__ for work in load.works}, "each kind of load came")
            warm = [sample for sample in samples if sample[0] > WARM * SECONDS]
            self.assertGreaterEqual(len(warm), 9, "too few looks at the daemon to compare its beginning and its end")
            early, late = warm[:len(warm) // 3], warm[-(len(warm) // 3):]
            first, last = ([statistics.median(s[i] for s in part) for i in (1, 2, 3)] for part in (early, late))
            print(f"\n{SECONDS} s, {load.done}; memory {first[0] / 2**20:.1f} MiB, then {last[0] / 2**20:.1f} MiB; "
                  f"descriptors {first[1]:.0f}, then {last[1]:.0f}; a listing {1e3 * first[2]:.1f} ms, then {1e3 * last[2]:.1f} ms")
            self.assertLess(last[0], first[0] + MOST_GROWTH)
            self.assertLess(last[1], first[1] + MOST_DESCRIPTORS)
            self.assertIn(daemon.metric("assay_rpc_requests_total", code="INTERNAL"), (0, None))


if __name__ == "__main__":
    harness.main()
