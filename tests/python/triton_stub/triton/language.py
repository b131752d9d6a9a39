"""triton.language, as far as __init__.py says."""

import numpy as np

PROGRAM = (0,)
constexpr = int
exp = np.exp
arange = np.arange


class Pointer:
    def __init__(self, array, offsets=0):
        self.array, self.offsets = array, offsets

    def __add__(self, offsets):
        return Pointer(self.array, self.offsets + offsets)


def program_id(axis):
    return PROGRAM[axis]


def load(pointer, mask, other):
    values = np.full(mask.shape, other, pointer.array.dtype)
    values[mask] = pointer.array[pointer.offsets[mask]]
    return values


def store(pointer, values, mask):
    pointer.array[pointer.offsets[mask]] = values[mask]


def max(values, axis):  # noqa: A001: Triton's name
    return values.max(axis)


def sum(values, axis):  # noqa: A001: Triton's name
    return values.sum(axis)
