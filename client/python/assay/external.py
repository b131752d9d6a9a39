"""A function of this process, validated by a daemon.

What happens, from validate() to the report (validation.py has validate()):

  1. The package sends the list of cases over ValidateExternal (proto/assay/v1/external.proto). The daemon makes a job
     of it, and puts it into the queue of the device.
  2. The worker of the device runs a case as it runs any other: it draws the inputs, poisons the output, launches,
     compares every element with an FP64 reference, and launches again on exact cases. But a launch of this job's
     kernel is a message to this process.
  3. The daemon says what the next launches compute (`kernel`), sends the inputs that have changed (`chunk`), and asks
     for a launch (`launch`). Session keeps the inputs as they came.
  4. Function calls fn(*inputs) and looks at what it gave: an array of its own, of the right shape and format. It finds
     the inputs that fn changed. The output and the changed inputs go back, then the end of the launch (`launched`).
     Where the user gave the reference, too, `launch` may ask for that: Reference (reference.py) computes it.
  5. The worker puts these bytes in place of its own operands, and judges them. Results come as events of the job.

This process holds the inputs twice, as they came and as the function gets them, and one output. Messages have at most 1 MiB of a tensor. If this process is too
slow or goes away, the daemon ends the job and frees the device.
"""

from __future__ import annotations

import queue
from typing import Any, Callable, Iterable, Iterator, Optional

import grpc

from . import errors, results
from ._wire import external_pb2
from .connection import cancelled_after
from .function import Function, Kernel, Operand
from .pieces import chunks
from .reference import Reference
from .results import CaseResult, Event, Job

_METHOD = "/assay.v1.ValidationService/ValidateExternal"


class Session:
    """One call of ValidateExternal. Used by one thread."""

    def __init__(self, function: Function, target: str, on_event: Optional[Callable[[Event], None]] = None,
                 reference: Optional[Reference] = None) -> None:
        if on_event is not None and not callable(on_event):
            raise errors.refuse("on_event", f"must be a function of an assay.Event, got {on_event!r}")
        self._function = function
        self._reference = reference
        self._target = target
        self._on_event = on_event
        # What is to be sent, in order: each an iterable of messages, so that no more than one message of a tensor is
        # in memory. None ends the stream.
        self._outgoing: queue.SimpleQueue[Optional[Iterable[bytes]]] = queue.SimpleQueue()
        self._kernel: Optional[Kernel] = None
        self.job: Optional[Job] = None
        self.results: list[CaseResult] = []

    def run(self, channel: Any, header: Any, metadata: Any) -> None:
        """Serves the launches until the job has ended."""
        call = channel.stream_stream(_METHOD, request_serializer=bytes,
                                     response_deserializer=external_pb2.ValidateExternalResponse.FromString)
        self._outgoing.put([external_pb2.ValidateExternalRequest(job=header).SerializeToString()])
        responses = call(self._messages(), metadata=metadata)
        try:
            with cancelled_after(responses):
                for message in responses:
                    self._take(message)
        except grpc.RpcError as error:
            raise errors.from_rpc(error, self._target) from None
        finally:
            self._outgoing.put(None)
        if self.job is None or not self.job.ended:
            raise errors.Unavailable(f"assayd at {self._target} ended the stream before the job had ended",
                                     target=self._target)

    def _messages(self) -> Iterator[bytes]:
        while True:
            messages = self._outgoing.get()
            if messages is None:
                return
            yield from messages

    def _take(self, message: Any) -> None:
        part = message.WhichOneof("part")
        if part == "chunk":
            self._current().take(message.chunk.tensor, message.chunk.data)
        elif part == "launch":
            self._launch(message.launch)
        elif part == "kernel":
            self._kernel = None  # its memory goes before that of the next one comes
            self._kernel = _kernel_of(message.kernel)
        elif part == "event":
            self._event(results.event_of(message.event))
        elif part == "job":
            self.job = results.of(Job, message.job)

    def _current(self) -> Kernel:
        if self._kernel is None:
            raise errors.Internal(f"assayd at {self._target} asked for a launch and did not say of what",
                                  target=self._target)
        return self._kernel

    def _launch(self, asked: Any) -> None:
        kernel = self._current()
        if asked.reference:
            if self._reference is None:
                raise errors.Internal(f"assayd at {self._target} asked for a reference, and there is none",
                                      target=self._target)
            outcome = self._reference.launch(kernel)
        else:
            outcome = self._function.launch(kernel, asked.poison)
        for tensor, words in outcome.tensors.items():
            self._outgoing.put(chunks(external_pb2.ValidateExternalRequest, tensor, words))
        # A name of a file that is no UTF-8 holds half characters, which no message can carry.
        said = outcome.message.encode("utf-8", "backslashreplace").decode()
        launched = external_pb2.ExternalLaunched(end=outcome.end, message=said)
        self._outgoing.put([external_pb2.ValidateExternalRequest(launched=launched).SerializeToString()])

    def _event(self, event: Event) -> None:
        if event.result is not None:
            self.results.append(event.result)
        if event.job is not None:
            self.job = event.job
        if self._on_event is not None:
            self._on_event(event)


def _kernel_of(message: Any) -> Kernel:
    operands = [Operand(o.name, o.tensor.dtype, tuple(o.tensor.shape)) for o in (*message.inputs, message.output)]
    return Kernel(message.spec, operands[:-1], operands[-1])


