"""Structured-random requests to a live daemon: every call of the API, valid jobs among them. Whatever
comes, the daemon answers, blames the caller or says what is missing, and goes on.

ASSAY_TEST_REQUESTS is how many, ASSAY_TEST_SEED which. long.requests sends 100,000.
"""

import collections
import os
import random
import unittest

import grpc
from google.protobuf import message_factory, text_format

import harness
import limits_test
import random_requests

COUNT = int(os.environ.get("ASSAY_TEST_REQUESTS", "100000" if os.environ.get("ASSAY_TEST_PART") == "long" else "3000"))
SEED = int(os.environ.get("ASSAY_TEST_SEED", "0")) or random.SystemRandom().randrange(1, 10**9)
# Of jobs. The rest is spread over all calls.
JOBS = 0.6
# Of the jobs: those that are meant to be valid. Some are not after all.
MEANT = 0.85
MOST_EVENTS = 40  # that are read of a stream
MOST_WATCHED = 5  # [s] a stream of a job that waits behind others; it ends when the job does
MOST_UNFINISHED = 200
# Sent a quarter as often as others: it takes the daemon 20 times as long, and has next to nothing to draw.
RARE = ("BackupStore",)
# Not the caller's fault, or no answer at all.
BAD = {grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.DATA_LOSS,
       grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE}
# Without these a job may take long: it would be timed, or is a suite of the daemon's.
SLOW = ("suite", "budget", "baseline", "inline_baseline", "profiler", "mode", "deadline", "case_deadline")


def setUpModule():
    global Class
    limits_test.setUpModule()
    factory = message_factory.MessageFactory()
    Class = getattr(message_factory, "GetMessageClass", factory.GetPrototype)


def tearDownModule():
    limits_test.tearDownModule()


class Sender:
    """Sends requests over one connection, and keeps what was answered."""

    def __init__(self, address, seed):
        modules = limits_test.M
        self.chance = random.Random(seed)
        self.make = random_requests.Requests(self.chance, modules.types)
        self.service = modules.service.DESCRIPTOR.services_by_name["ValidationService"]
        self.channel = grpc.insecure_channel(address, options=[("grpc.max_receive_message_length", -1)])
        self.codes = collections.Counter()
        self.accepted = self.jobs = 0
        self.unfinished = collections.deque()
        self.last = None  # what was sent last, for a message

    def send(self, method, requests):
        """Calls a method; its code, and its last answer."""
        self.last = (method.name, requests)
        answer = Class(method.output_type)
        kind = ("stream_" if method.client_streaming else "unary_") + ("stream" if method.server_streaming else "unary")
        call = getattr(self.channel, kind)(limits_test.SERVICE + method.name,
                                           request_serializer=lambda m: m.SerializeToString(),
                                           response_deserializer=answer.FromString)
        got = None
        try:
            given = iter(requests) if method.client_streaming else requests[0]
            if not method.server_streaming:
                got = call(given, timeout=harness.LONG)
            else:
                watched = method.name == "WatchJob"
                stream = call(given, timeout=MOST_WATCHED if watched else harness.LONG)
                for n, got in enumerate(stream):
                    if n == MOST_EVENTS:
                        stream.cancel()
                        break
            code = grpc.StatusCode.OK
        except grpc.RpcError as error:
            code = error.code()
            if code == grpc.StatusCode.CANCELLED or (code == grpc.StatusCode.DEADLINE_EXCEEDED
                                                     and method.name == "WatchJob" and self.waits(requests[0].name)):
                code = grpc.StatusCode.OK
            if code in BAD:
                raise AssertionError(f"{method.name}: {code}: {error.details()}\n{self.said()}") from error
        self.codes[method.name, code.name] += 1
        return code, got

    def waits(self, name):
        """Whether a job has not ended. If it has, the stream of its events must end."""
        states = limits_test.M.job
        _, job = self.call("GetJob", name=name)
        if job is None or job.state in (states.JOB_STATE_QUEUED, states.JOB_STATE_RUNNING):
            return True
        given = Class(self.service.methods_by_name["WatchJob"].input_type)(name=name)
        stream = self.channel.unary_stream(limits_test.SERVICE + "WatchJob",
                                           request_serializer=lambda m: m.SerializeToString(),
                                           response_deserializer=lambda m: m)
        return all(True for _ in stream(given, timeout=harness.LONG))

    def said(self):
        method, requests = self.last
        return f"seed {SEED}, {method}:\n" + "\n".join(text_format.MessageToString(r)[:4000] for r in requests)

    def job(self):
        method = self.service.methods_by_name["CreateJob"]
        request = Class(method.input_type)()
        meant = self.chance.random() < MEANT
        if meant:
            self.make.job(request)
        elif self.chance.random() < 0.6:
            self.make.job(request)
            for _ in range(self.chance.randrange(1, 4)):
                self.make.change(request.spec)
        else:
            self.make.anything(request)
        spec = request.spec
        for name in SLOW:
            if spec.HasField(name) if spec.DESCRIPTOR.fields_by_name[name].has_presence else getattr(spec, name):
                if self.chance.random() < 0.7:
                    spec.ClearField(name)
        for case in spec.cases.cases:
            case.ClearField("mode")
            case.repeats = min(case.repeats, 4)
        self.jobs += 1
        code, job = self.send(method, [request])
        if code == grpc.StatusCode.OK:
            self.accepted += 1
            self.unfinished.append(job.name)
            self.make.known.append(job.name)
            del self.make.known[:-50]
            if self.chance.random() < 0.1:
                self.call("WatchJob", name=job.name)
        while len(self.unfinished) > MOST_UNFINISHED:
            self.call("CancelJob", name=self.unfinished.popleft())

    def call(self, method_name, **fields):
        method = self.service.methods_by_name[method_name]
        return self.send(method, [Class(method.input_type)(**fields)])

    def any(self):
        methods = [m for m in self.service.methods if m.name != "CreateJob"]
        [method] = self.chance.choices(methods, [1 if m.name in RARE else 4 for m in methods])
        requests = []
        for _ in range(self.chance.randrange(0, 4) if method.client_streaming else 1):
            request = Class(method.input_type)()
            self.make.anything(request)
            if self.chance.random() < 0.5 and "name" in request.DESCRIPTOR.fields_by_name:
                request.name = self.chance.choice(self.make.known)
            if "measure_ceilings" in request.DESCRIPTOR.fields_by_name:
                request.measure_ceilings = False  # takes seconds
            requests.append(request)
        self.send(method, requests)


class Requests(unittest.TestCase):
    def test_every_request_has_an_answer(self):
        flags = ["--max-waiting-jobs", "5000", "--client-max-waiting-jobs", "0", "--client-cases-per-minute", "0",
                 "--store-sync", "normal", "--store-keep-bytes", "64MiB"]
        with harness.Daemon(flags=flags) as daemon:
            sender = Sender(daemon.grpc, SEED)
            try:
                for _ in range(COUNT):
                    sender.job() if sender.chance.random() < JOBS else sender.any()
            except AssertionError as error:
                code = daemon.process.poll()
                raise AssertionError(f"{error}\nthe daemon's exit code: {code}\n{daemon.log_text()[-4000:]}") from error
            for name in sender.unfinished:
                sender.call("CancelJob", name=name)
            share = sender.accepted / sender.jobs
            codes = collections.Counter()
            for (_, code), times in sender.codes.items():
                codes[code] += times
            print(f"\nseed {SEED}: {COUNT} requests, {sender.jobs} of them jobs, {100 * share:.0f} % accepted; " +
                  ", ".join(f"{code} {times}" for code, times in codes.most_common()))
            self.assertGreater(share, 0.5, "half of the jobs must be accepted, or they show little")
            called = {method for method, _ in sender.codes}
            self.assertEqual(called, {m.name for m in sender.service.methods}, "a call was left out")
            for code in ("INTERNAL", "UNKNOWN"):
                self.assertIn(daemon.metric("assay_rpc_requests_total", code=code), (0, None))
            done = daemon.run("run", "gemm", "--m", "8", "--n", "8", "--k", "8", "--dtype", "fp32", "--provider", "builtin")
            self.assertEqual(done.code, 0, "the daemon goes on")
            log = daemon.log_text()
            for raw in ("\x1b", "\u202e", "\x00"):
                self.assertNotIn(raw, log, "a terminal would obey this character of the log")


if __name__ == "__main__":
    harness.main()
