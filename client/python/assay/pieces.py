"""Tensors as messages: each a piece of at most 1 MiB."""

from __future__ import annotations

from typing import Any, Iterator

from ._wire import compare_pb2

_PIECE = 1 << 20  # the most bytes of a tensor in one message


def chunks(request: Any, tensor: int, words: Any) -> Iterator[bytes]:
    """The bytes of a NumPy array as messages of the type `request`, whose field `chunk` has the next ones."""
    data = memoryview(words.reshape(-1).view("u1"))
    before: dict[int, bytes] = {}
    for at in range(0, len(data), _PIECE):
        piece = data[at:at + _PIECE]
        size = len(piece)
        if size not in before:
            # The data are the last bytes of the message, so what stands before them depends on their number alone.
            # They are copied once.
            whole = request(chunk=compare_pb2.TensorChunk(tensor=tensor, data=bytes(size))).SerializeToString()
            before[size] = whole[:-size]
        yield b"".join((before[size], piece))
