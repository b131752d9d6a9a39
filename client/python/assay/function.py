"""Function: calls a user's function on inputs that came as bytes, and looks at what it gave.

What cannot be the output of a kernel is told apart from a wrong output: None, another shape or format, memory of an
input. Those end the launch with a message. The daemon finds a wrong output. Writes outside of the arrays that the
function was given are found here, by guard bands; arrays on a GPU, and those that a function of `arrays=` makes, have
none.
"""

from __future__ import annotations

import importlib
import inspect
import math
import os
import sys
import traceback
from dataclasses import dataclass, field
from typing import Any, Callable, Mapping, Optional, Sequence, Union

import numpy as np

from . import problems
from ._wire import external_pb2, types_pb2
from .arrays import take
from .errors import UnsupportedArray, refuse, said_by
from .guards import Guarded, damage_of

RETURNED = external_pb2.LAUNCH_END_RETURNED
RAISED = external_pb2.LAUNCH_END_RAISED
UNUSABLE = external_pb2.LAUNCH_END_UNUSABLE
UNSUPPORTED = external_pb2.LAUNCH_END_UNSUPPORTED
WROTE_OUTSIDE = external_pb2.LAUNCH_END_WROTE_OUTSIDE

_MOST_TEXT = 2000  # characters of what a function raised
_BLOCK = 1 << 20  # words that are compared at once

# NumPy's types of the formats. The words of other formats are held by their bits.
_NUMPY = {"fp64": "f8", "fp32": "f4", "tf32": "f4", "fp16": "f2", "int8": "i1", "int32": "i4", "bf16": "u2"}
# Types of ml_dtypes and of torch.
_NAMES = {"bf16": "bfloat16", "e4m3fn": "float8_e4m3fn", "e4m3fnuz": "float8_e4m3fnuz", "e5m2": "float8_e5m2",
          "e5m2fnuz": "float8_e5m2fnuz"}


@dataclass(frozen=True)
class Operand:
    """A tensor of a case."""

    name: str
    dtype: int
    shape: tuple[int, ...]

    @property
    def word(self) -> str:
        return problems.dtype_word(self.dtype)

    @property
    def count(self) -> int:
        return math.prod(self.shape)

    def words(self) -> Any:
        """Memory for its elements, as NumPy words that hold them."""
        return np.empty(self.words_shape, _NUMPY.get(self.word, "u1"))

    def guarded(self) -> Guarded:
        """The same between guard bands."""
        return Guarded(self.name, self.words_shape, _NUMPY.get(self.word, "u1"))

    @property
    def words_shape(self) -> tuple[int, ...]:
        if self.dtype != types_pb2.DTYPE_E2M1:
            return self.shape
        return (*self.shape[:-1], (self.shape[-1] + 1) // 2)  # two in each byte of the innermost axis

    def __str__(self) -> str:
        return f"{problems.shape_text(self.shape)} {self.word}"


class Kernel:
    """What launches compute, and the inputs as the daemon sent them."""

    def __init__(self, spec: Any, inputs: Sequence[Operand], output: Operand) -> None:
        self.spec = spec
        self.inputs = tuple(inputs)
        self.output = output
        self.came = [operand.words() for operand in inputs]
        # What the function gets. It equals `came` before each launch.
        self.guarded = [operand.guarded() for operand in inputs]
        self.handed = [guarded.words for guarded in self.guarded]
        self._filled = [0] * len(self.came)  # bytes

    def take(self, tensor: int, data: bytes) -> None:
        """The next bytes of an input. After its last byte it begins anew."""
        whole = _bytes(self.came[tensor])
        begin = self._filled[tensor]
        end = begin + len(data)
        whole[begin:end] = np.frombuffer(data, "u1")
        _bytes(self.handed[tensor])[begin:end] = whole[begin:end]
        self._filled[tensor] = end % whole.size

    def changed(self) -> dict[int, Any]:
        """Copies of the inputs that are not as they came, by their numbers. Restores them."""
        found: dict[int, Any] = {}
        for tensor, (came, handed) in enumerate(zip(self.came, self.handed)):
            if not _same(came, handed):
                found[tensor] = handed.copy()
                handed[...] = came
        return found

    def restore(self) -> None:
        """Makes the inputs and the bands around them as they came."""
        self.changed()
        damage_of(self.guarded)


@dataclass(frozen=True)
class Outcome:
    """What a launch gave."""

    end: Any  # a LaunchEnd
    message: str = ""
    # What goes back, by the tensors' numbers: words, row-major. The inputs that were changed come before the output.
    tensors: Mapping[int, Any] = field(default_factory=dict)


def _bytes(words: Any) -> Any:
    return words.reshape(-1).view("u1")


def _same(a: Any, b: Any) -> bool:
    """Whether two arrays have the same bits, in blocks: no array of the whole size is made."""
    left, right = _bytes(a), _bytes(b)
    if left.size % 8 == 0:
        left, right = left.view("u8"), right.view("u8")
    return all(np.array_equal(left[at:at + _BLOCK], right[at:at + _BLOCK]) for at in range(0, left.size, _BLOCK))


def _numpy_array(words: Any, word: str) -> Any:
    """The array of a NumPy function. Formats that NumPy lacks are ml_dtypes' if it is there, else their bits."""
    if word in _NAMES:
        try:
            return words.view(getattr(importlib.import_module("ml_dtypes"), _NAMES[word]))
        except (ImportError, AttributeError):
            return words
    return words


def _torch_tensor(device: str) -> Callable[[Any, str], Any]:
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        raise refuse("arrays", "torch is not installed") from None
    try:
        torch.empty(0, device=device or None)
    except Exception as error:  # whatever torch raises for a device that it does not have
        raise refuse("arrays", f"torch cannot use the device {device}: {said_by(error)}") from error

    def make(words: Any, word: str) -> Any:
        if word not in _NAMES:
            tensor = torch.from_numpy(words)
        else:
            kind = getattr(torch, _NAMES[word], None)
            if kind is None:
                raise NotImplementedError(f"this torch has no {_NAMES[word]}")
            tensor = torch.from_numpy(words.view(f"i{words.itemsize}")).view(kind)
        return tensor.to(device) if device else tensor

    return make


def _wrapper(arrays: Union[str, Callable[[Any], Any]]) -> tuple[Callable[[Any, str], Any], bool]:
    """How words become what the function takes, and whether that is the same memory."""
    if not isinstance(arrays, str):
        if not callable(arrays):
            raise refuse("arrays", f'must be "numpy", "torch", "torch:DEVICE" or a function of a NumPy array, got '
                                   f'{arrays!r}')
        make = arrays
        return (lambda words, word: make(_numpy_array(words, word))), False
    if arrays == "numpy":
        return _numpy_array, True
    kind, _, device = arrays.partition(":")
    if kind == "torch":
        return _torch_tensor(device), device in ("", "cpu")
    raise refuse("arrays", f'must be "numpy", "torch", "torch:DEVICE" or a function of a NumPy array, got "{arrays}"')


def _signature(fn: Callable[..., Any]) -> Optional[inspect.Signature]:
    try:
        return inspect.signature(fn)
    except (TypeError, ValueError):  # a function in C that does not say, or a __signature__ that is none
        return None


def _as_int32(array: Any, word: str) -> Any:
    """Indices as NumPy and torch give them, 64 bits wide, in the output's 32, if they fit."""
    if word != "int32":
        return array
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor) and array.dtype == torch.int64:
        narrow = array.to(torch.int32)
        return narrow if torch.equal(narrow.to(torch.int64), array) else array
    if isinstance(array, np.ma.MaskedArray):
        return array
    if isinstance(array, (np.ndarray, np.int64)) and array.dtype == np.dtype("i8"):
        narrow = np.asarray(array).astype("i4")
        return narrow if np.array_equal(narrow, array) else array
    return array


def _place(error: BaseException, fn: Callable[..., Any]) -> str:
    """Where the caller's code raised: " (kernel.py:12)". The deepest frame in the function's own file, else the deepest
    of all but the package's."""
    here = os.path.dirname(os.path.abspath(__file__))
    frames = [f for f in traceback.extract_tb(error.__traceback__) if os.path.dirname(os.path.abspath(f.filename)) != here]
    code = getattr(inspect.unwrap(fn), "__code__", None)
    own = [f for f in frames if code is not None and f.filename == code.co_filename]
    at = (own or frames)[-1:]
    return f" ({os.path.basename(at[0].filename)}:{at[0].lineno})" if at else ""


class Function:
    """The user's function.

    arrays  what it takes: "numpy", "torch", "torch:cuda", or a function that makes it of a NumPy array
    out     whether it writes into a tensor that it is given as `out`. None: if it has such a parameter
    """

    def __init__(self, fn: Callable[..., Any], arrays: Union[str, Callable[[Any], Any]] = "numpy",
                 out: Optional[bool] = None) -> None:
        if not callable(fn):
            raise refuse("fn", f"must be a function of the inputs, got {type(fn).__name__}")
        if out is not None and not problems.is_bool(out):
            raise refuse("out", f"must be True, False or None, got {out!r}")
        self._fn = fn
        self._wrap, self._same_memory = _wrapper(arrays)
        self._numpy = arrays == "numpy"
        self._signature = _signature(fn)
        self._parameters = tuple(self._signature.parameters.values()) if self._signature else ()
        has_out = any(p.name == "out" and p.kind is not p.POSITIONAL_ONLY for p in self._parameters)
        self._out = has_out if out is None else bool(out)
        self.raised: Optional[Exception] = None  # the first exception

    def launch(self, kernel: Kernel, poison: int) -> Outcome:
        """Runs the function once on the kernel's inputs."""
        guarded, who = list(kernel.guarded), "the function of arrays="
        try:
            # Views of its own for each launch: a function may change what an array object says of its memory.
            given = [self._wrap(words.view(), operand.word) for words, operand in zip(kernel.handed, kernel.inputs)]
            out_words = out = None
            keywords = self._fields(kernel)
            if self._out:
                guarded.append(kernel.output.guarded())
                out_words = guarded[-1].words
                _bytes(out_words)[:] = _poisoned(kernel.output, poison, out_words)
                keywords["out"] = out = self._wrap(out_words.view(), kernel.output.word)
            who = "the function"
            returned = self._fn(*given, **keywords)
        except NotImplementedError as error:
            kernel.restore()
            return Outcome(UNSUPPORTED, f"the function does not compute this case: {said_by(error)}"[:_MOST_TEXT])
        except Exception as error:  # whatever the user's code raises
            self.raised = self.raised or error
            kernel.restore()
            said = f"{who} raised {type(error).__name__}{_place(error, self._fn)}: {said_by(error)}"
            misfit = self._misfit(kernel) if isinstance(error, TypeError) and who == "the function" else ""
            if not misfit and isinstance(error, (TypeError, AttributeError)) and self._of_torch():
                misfit = '. It got arrays of NumPy; arrays="torch" gives it tensors'
            return Outcome(RAISED, (said[:_MOST_TEXT] + misfit)[:2 * _MOST_TEXT])
        outside = damage_of(guarded)
        if outside:
            kernel.restore()
            return Outcome(WROTE_OUTSIDE, f"the function wrote {outside}"[:_MOST_TEXT])
        try:
            output = self._output(kernel, given, returned, out, out_words)
            changed = self._changed(kernel, given)
        except UnsupportedArray as error:
            kernel.restore()
            return Outcome(UNUSABLE, str(error)[:_MOST_TEXT])
        return Outcome(RETURNED, "", {**changed, len(kernel.inputs): output})

    def _of_torch(self) -> bool:
        """Whether the function gets NumPy's arrays, and is torch's own or of a module that has imported torch."""
        torch, fn = sys.modules.get("torch"), inspect.unwrap(self._fn)
        if torch is None or not self._numpy:
            return False
        own = (getattr(it, "__module__", None) or "" for it in (fn, type(fn), getattr(fn, "__self__", None)))
        return any(name.partition(".")[0] == "torch" for name in own) or \
            any(value is torch for value in getattr(fn, "__globals__", {}).values())

    def _misfit(self, kernel: Kernel) -> str:
        """What the case gives the function, if its parameters cannot take that; else ""."""
        if self._signature is None:
            return ""
        try:
            self._signature.bind(*kernel.inputs, **self._fields(kernel), **({"out": None} if self._out else {}))
            return ""
        except TypeError:
            given = ", ".join(f"{operand.name} {operand}" for operand in kernel.inputs)
            out = ", and out= to write into" if self._out else ""
            op = problems.op_of(kernel.spec)
            fields = "" if kernel.spec.reference else f"; some fields of {op} add inputs: assay.describe(\"{op}\")"
            return f". This case gives it {given}{out}{fields}"

    def _fields(self, kernel: Kernel) -> dict[str, Any]:
        """The fields of the problem that the function has parameters for, behind those that take the inputs."""
        op = problems.op_of(kernel.spec)
        problem, known = getattr(kernel.spec, op), problems.problem_fields(op)
        positional = [p for p in self._parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        found: dict[str, Any] = {}
        for parameter in self._parameters:
            name = parameter.name
            if name not in known or name == "out" or parameter in positional[:len(kernel.inputs)]:
                continue
            optional = parameter.kind is parameter.POSITIONAL_OR_KEYWORD and parameter.default is not parameter.empty
            if parameter.kind is not parameter.KEYWORD_ONLY and not optional:
                continue
            # bias=None may be a tensor that this case has not: the field, which is false, says so.
            value = getattr(problem, name)
            if parameter.default is None and value is False:
                continue
            found[name] = list(value) if problems.is_list(known[name]) else value
        return found

    def _output(self, kernel: Kernel, given: Sequence[Any], returned: Any, out: Any, out_words: Any) -> Any:
        expected = kernel.output
        if self._out:
            if returned is not None and returned is not out and not _overlap(returned, out):
                raise UnsupportedArray(f"the function was given out= and returned another array; expected None or "
                                       f"out, got {type(returned).__name__}; or pass out=False to validate")
            if not self._same_memory:
                return take(out, "the function's output", expected.word).words
            return out_words
        if returned is None:
            raise UnsupportedArray(f"the function returned None; expected an array {expected}. Does it return its "
                                   "result?")
        for operand, guarded, array in zip(kernel.inputs, kernel.guarded, given):
            if _overlap(returned, array) or _overlap(returned, guarded.memory):
                raise UnsupportedArray(f"the function returned a view of its input {operand.name}; expected an array "
                                       "of its own")
        tensor = take(_as_int32(returned, expected.word), f"the function's output (expected {expected})", None,
                      expected.word)
        alone = expected.count == 1 and tensor.shape == ()
        if tensor.dtype != expected.word or (tensor.words.shape != expected.words_shape and not alone):
            of = ", the shape that reference_fn gives" if kernel.spec.reference else ""
            raise UnsupportedArray(f"the function returned {problems.shape_text(tensor.shape)} {tensor.dtype}; "
                                   f"expected {expected}{of}")
        return tensor.words

    def _changed(self, kernel: Kernel, given: Sequence[Any]) -> dict[int, Any]:
        if not self._same_memory:  # copies of another memory
            for words, array, operand in zip(kernel.handed, given, kernel.inputs):
                words[...] = take(array, operand.name, operand.word).words
        return kernel.changed()


def _poisoned(operand: Operand, poison: int, words: Any) -> Any:
    if operand.dtype == types_pb2.DTYPE_E2M1:
        poison |= poison << 4
    return np.full(words.size, poison, f"u{words.itemsize}").view("u1")


def _range(array: Any) -> Optional[tuple[int, int]]:
    """The addresses of an array, if it tells them."""
    if isinstance(array, np.ndarray):
        return _numpy_range(array)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor) and array.layout == torch.strided:
        last = sum((n - 1) * step for n, step in zip(array.shape, array.stride())) if array.numel() else -1
        return array.data_ptr(), array.data_ptr() + (last + 1) * array.element_size()
    return None


def _numpy_range(array: Any) -> tuple[int, int]:
    # NumPy 2 moved it.
    bounds = getattr(np, "byte_bounds", None) or importlib.import_module("numpy.lib.array_utils").byte_bounds
    begin, end = bounds(array)
    return int(begin), int(end)


def _overlap(a: Any, b: Any) -> bool:
    first, second = _range(a), _range(b)
    return first is not None and second is not None and first[0] < second[1] and second[0] < first[1]
