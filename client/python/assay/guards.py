"""Memory with guard bands, for the arrays that a function under test is given.

The bands are those that the daemon lays around the operands of its own kernels: 4096 bytes on each side, each 0xFF. A
function that writes outside of an array changes them. One that reads there gets NaN in every floating format, and the
daemon finds what comes of it.
"""

from __future__ import annotations

from typing import Any, Optional, Sequence

import numpy as np

_BAND = 4096  # [bytes] on each side
_BYTE = 0xFF
_ALIGNMENT = 64  # [bytes] of the first element: what vector loads ask for at most


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
        self._write()

    def _write(self) -> None:
        self._before[:] = _BYTE
        self._behind[:] = _BYTE

    def damage(self) -> Optional[str]:
        """What was written into the bands, for people; None if nothing was. Writes them again."""
        before, behind = np.flatnonzero(self._before != _BYTE), np.flatnonzero(self._behind != _BYTE)
        if before.size == 0 and behind.size == 0:
            return None
        where = (f"the first one {behind[0]:,} bytes behind its end" if behind.size else
                 f"the last one {self._before.size - before[-1]:,} bytes before its begin")
        self._write()
        return f"{before.size + behind.size:,} bytes outside of {self.name}, {where}"


def damage_of(arrays: Sequence[Guarded]) -> str:
    """What was written outside of the arrays; "" if nothing was."""
    return "; ".join(found for found in (array.damage() for array in arrays) if found)
