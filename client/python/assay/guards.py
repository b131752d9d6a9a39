"""Memory with guard bands, for the arrays that a function under test is given.

The bands are like those that the daemon lays around the operands of its own kernels: 4096 bytes on each side. A function
that writes outside of an array changes them. One that reads there gets NaN in every floating format of 16 bits and more,
and the daemon finds what comes of it. Arithmetic keeps the bits of a NaN, so each array has NaNs of its own: what is
computed from one array's band is not what another one's holds.
"""

from __future__ import annotations

import itertools
from typing import Any, Optional, Sequence

import numpy as np

_BAND = 4096  # [bytes] on each side
_WORDS = itertools.cycle(range(0xFFFF, 0xFFEF, -1))  # of 16 bits; arrays that live together have different ones
_ALIGNMENT = 64  # [bytes] of the first element: what vector loads ask for at most


def _pattern(low: int, first: int, count: int) -> Any:
    """The bytes of a band from so many bytes behind the array's first element on. The high byte of each word, which makes
    it NaN, lies at odd distances from that element."""
    return np.where(np.arange(first, first + count) % 2, 0xFF, low).astype("u1")


class Guarded:
    """An array of NumPy, `words`, between two bands. Its elements are not set."""

    def __init__(self, name: str, shape: Sequence[int], dtype: Any) -> None:
        self.name = name
        kind = np.dtype(dtype)
        size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
        self.memory = np.empty(size + 2 * _BAND + _ALIGNMENT, "u1")
        begin = _BAND + -(self.memory.ctypes.data + _BAND) % _ALIGNMENT
        self._before = self.memory[:begin]
        self._behind = self.memory[begin + size:]
        self.words = self.memory[begin:begin + size].view(kind).reshape(tuple(shape))
        word = next(_WORDS) & 0xFF
        self._bytes = _pattern(word, -begin, begin), _pattern(word, size, self._behind.size)
        self._write()

    def _write(self) -> None:
        self._before[:], self._behind[:] = self._bytes

    def damage(self) -> Optional[str]:
        """What was written into the bands, for people; None if nothing was. Writes them again."""
        before = np.flatnonzero(self._before != self._bytes[0])
        behind = np.flatnonzero(self._behind != self._bytes[1])
        if before.size == 0 and behind.size == 0:
            return None
        where = (f"the first one {behind[0]:,} bytes behind its end" if behind.size else
                 f"the last one {self._before.size - before[-1]:,} bytes before its begin")
        self._write()
        return f"{before.size + behind.size:,} bytes outside of {self.name}, {where}"


def damage_of(arrays: Sequence[Guarded]) -> str:
    """What was written outside of the arrays; "" if nothing was."""
    return "; ".join(found for found in (array.damage() for array in arrays) if found)
