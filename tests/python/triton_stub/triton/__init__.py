"""As much of Triton as the example needs, run by NumPy: one program after the other on the host.

It takes Triton's place where Triton is not installed. Pointers are tensors and offsets.
"""

import itertools

from . import language


class Kernel:
    def __init__(self, function):
        self.function = function

    def __getitem__(self, grid):
        def launch(*arguments, **constants):
            pointers = [language.Pointer(a.detach().numpy().reshape(-1)) if hasattr(a, "detach") else a
                        for a in arguments]
            for language.PROGRAM in itertools.product(*map(range, grid)):
                self.function(*pointers, **constants)
        return launch


def jit(function):
    return Kernel(function)


def next_power_of_2(n):
    return 1 << (n - 1).bit_length()
