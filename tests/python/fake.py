"""A daemon that answers what a test wants: of another version, with a field dropped, cut off."""

import contextlib
from concurrent import futures

import grpc

from assay import _wire
from assay._wire import case_pb2, device_pb2, service_pb2_grpc


class Fake(service_pb2_grpc.ValidationServiceServicer):
    """Has the API's calls, all UNIMPLEMENTED but these."""

    version = _wire.VERSION

    def __init__(self, **answers):
        self.streams = []  # of each WatchJob: what it sends, and then how it ends
        self.asked = []  # the requests of WatchJob that came
        self.job = None  # that GetJob has
        self.result = lambda header: case_pb2.CaseResult()
        self.__dict__.update(answers)

    def GetServerInfo(self, request, context):
        return device_pb2.ServerInfo(version=self.version, host="fake")

    def GetJob(self, request, context):
        if self.job is None:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such job")
        return self.job

    def CompareTensors(self, request_iterator, context):
        header = next(request_iterator).header
        for _ in request_iterator:
            pass
        return self.result(header)

    def WatchJob(self, request, context):
        self.asked.append(request)
        events, end = self.streams.pop(0)
        yield from events
        if end is not None:
            context.abort(end, "cut by the test")


@contextlib.contextmanager
def served(fake):
    """Its address, while it runs."""
    server = grpc.server(futures.ThreadPoolExecutor(4))
    service_pb2_grpc.add_ValidationServiceServicer_to_server(fake, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None)
