"""Callers of ValidateExternal that do not keep to the protocol."""

import queue

import grpc
import pytest

from assay._wire import case_pb2, compare_pb2, external_pb2, types_pb2


def stream(client, first, *answer):
    """What the daemon says to these messages: the first, and then an answer to each launch. Without an answer the
    stream ends after the first.
    """
    call = client._channel.grpc.stream_stream(
        "/assay.v1.ValidationService/ValidateExternal",
        request_serializer=external_pb2.ValidateExternalRequest.SerializeToString,
        response_deserializer=external_pb2.ValidateExternalResponse.FromString)
    outgoing = queue.SimpleQueue()
    for message in [*first, *([] if answer else [None])]:
        outgoing.put(message)
    said = []
    try:
        for message in call(iter(outgoing.get, None), timeout=60):
            said.append(message)
            if message.HasField("launch"):
                for one in answer:
                    outgoing.put(one)
    finally:
        outgoing.put(None)
    return said


def job_of(**fields):
    spec = case_pb2.CaseSpec(dtype=types_pb2.DTYPE_FP32)
    spec.softmax.rows, spec.softmax.cols = 4, 8
    job = external_pb2.ExternalJob(**fields)
    job.spec.cases.cases.append(spec)
    return external_pb2.ValidateExternalRequest(job=job)


def chunk_of(tensor, data):
    return external_pb2.ValidateExternalRequest(chunk=compare_pb2.TensorChunk(tensor=tensor, data=data))


def launched(end=external_pb2.LAUNCH_END_RETURNED):
    return external_pb2.ValidateExternalRequest(launched=external_pb2.ExternalLaunched(end=end))


@pytest.mark.parametrize("messages", [(), (chunk_of(0, b"1234"),), (launched(),)], ids=["none", "bytes", "launched"])
def test_a_stream_begins_with_a_job(client, messages):
    with pytest.raises(grpc.RpcError) as refused:
        stream(client, messages)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "must be the first message" in refused.value.details()


@pytest.mark.parametrize("messages, text", [
    ((launched(),), "tensor 1 has 128 bytes, got 0"),
    ((chunk_of(1, bytes(129)), launched()), "tensor 1 has 128 bytes, got at least 129"),
    ((chunk_of(7, b"x"), launched()), "tensors 0 to 1, got bytes of 7"),
    ((chunk_of(1, bytes(128)), chunk_of(0, bytes(8)), launched()), "tensor 0 has 128 bytes, got 8"),
    ((launched(external_pb2.LAUNCH_END_UNSPECIFIED),), ""),
    ((job_of(),), "neither bytes nor the end"),
], ids=["no output", "too much", "unknown tensor", "part of an input", "no end", "two jobs"])
def test_bytes_that_are_not_the_tensors_are_an_error(client, messages, text):
    answers = stream(client, [job_of()], *messages)
    result = next(a.event.case_result for a in answers if a.event.HasField("case_result"))
    assert result.verdict == types_pb2.VERDICT_ERROR and text in result.findings[0].message
    assert client.devices()[0].worker_restarts == 0


@pytest.mark.parametrize("message, field", [
    (chunk_of(1, bytes((1 << 20) + 1)), "chunk.data"),
    (external_pb2.ValidateExternalRequest(launched=external_pb2.ExternalLaunched(message="x" * (1 << 20))), "launched"),
], ids=["chunk", "launched"])
def test_a_message_that_is_too_large_ends_the_stream(client, message, field):
    with pytest.raises(grpc.RpcError) as refused:
        stream(client, [job_of()], message)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert f"{field}: must have at most 1048576 bytes" in refused.value.details()
    assert client.run("softmax", rows=4, cols=8, dtype="fp32", provider="builtin")


def test_a_caller_that_says_no_more_is_gone(client):
    answers = stream(client, [job_of()])
    assert answers[-1].event.HasField("finished")
    result = next(a.event.case_result for a in answers if a.event.HasField("case_result"))
    assert (result.verdict, result.findings[0].reason) == (types_pb2.VERDICT_SKIPPED, "cancelled")
